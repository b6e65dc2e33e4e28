"""Ctrl-C while a cluster works: heard by the driver alone, and answered where nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes that start meanwhile do not hear Ctrl-C, which is the driver's to answer."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_put_off() -> Iterator[Callable[[], None]]:
    """Note a Ctrl-C, and raise it where the function given is called, or at the end.

    Raised anywhere, it may be raised in a destructor, where Python drops it: of the futures of a
    cluster there are many. A second Ctrl-C is not put off. Neither is anything where somebody else
    already listens, or in another thread, which never hears it.
    """
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if heard:
            signal.default_int_handler(number, frame)
        heard.append(number)

    def answer() -> None:
        if heard:
            raise KeyboardInterrupt

    theirs = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if theirs or current_thread() is not main_thread():
        yield answer
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield answer
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    answer()
