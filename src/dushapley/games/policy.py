"""What a failed training counts as, and the limits of time and memory under which it fails."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from dushapley.errors import InvalidGame, UtilityFailed
from dushapley.validation import check_choice, check_whole, is_number, is_whole, refuse

LONGEST = 1e8
"""Seconds that an alarm can wait, and then some: three years."""


class TimedOut(Exception):
    """A training took longer than it may."""


class OutOfMemory(Exception):
    """A training took more memory than it may."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a training may take at most.

    Attributes
    ----------
    timeout
        Seconds of one training.
    memory
        Bytes that trainings may take beyond the data itself.
    trainings
        Trainings that one question costs.
    """

    timeout: float | None = None
    memory: int | None = None
    trainings: int = 1

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return self.timeout is not None or self.memory is not None


@dataclass(frozen=True, slots=True)
class Training:
    """How a game's utilities come about, where they are more than arithmetic.

    Attributes
    ----------
    limits
        The most that a training may take; the executor sees to it.
    repeats
        Trainings of each pool, of which its utility is the mean.
    deterministic
        Whether training has no error, since another seed would train the same models. None:
        unknown; the engine compares a few pools under other seeds (see `Game.reseeded`).
    on_failure
        What a training that fails counts as: an error ("raise"), or u(nobody) ("empty").
    shift
        How far one test row may move a utility, 0 where that is not known; None where utilities
        are no scores on a test set. Where they are, its error is unknown unless answers have
        scores by row.
    """

    limits: Limits = Limits()
    repeats: int = 1
    deterministic: bool | None = None
    on_failure: str = "raise"
    shift: float | None = None


def nobody_failed(cause: str) -> UtilityFailed:
    """The error where u(nobody), as which failures count, is unknown itself."""
    return UtilityFailed(
        f"The utility of nobody's data failed with {cause}, so that no failure can count as it. "
        "Give nobody's data a number (empty=...), or pass on_failure='raise'."
    )


def still_counts(cause: str, training: Training | None) -> bool:
    """Whether a stored failure counts today: under today's policy and limits."""
    if training is None or training.on_failure == "raise":
        return False
    limits = training.limits
    late = limits.timeout and failure_cause(timed_out(limits.timeout))
    large = limits.memory and failure_cause(out_of_memory(limits.memory))
    limited = cause.startswith((TimedOut.__name__, OutOfMemory.__name__))
    return not limited or cause in (late, large)


def failure_cause(error: BaseException) -> str:
    """A failure in one line that is equal for equal causes."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def out_of_memory(size: int) -> OutOfMemory:
    """The failure of a training that was given so many bytes."""
    return OutOfMemory(f"more than {size / 1e6:g} MB")


def timed_out(seconds: float) -> TimedOut:
    """The failure of a training that was given so many seconds."""
    return TimedOut(f"no result within {seconds:g} s")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimedOut` inside the block once its time is up.

    Works by an alarm signal: the training is interrupted when it next returns to Python, so a
    single call into compiled code is not cut short.
    """

    def ring(_number: int, _frame: object) -> None:
        raise timed_out(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def agreed(
    on_failure: str,
    timeout: float | None,
    memory: int | None,
    repeats: int,
    *,
    deterministic: bool | None = None,
    shift: float | None = None,
) -> Training:
    """How a game trains; refuse limits that make no sense, or that cannot be kept here."""
    check_choice(on_failure, "on_failure", ("raise", "empty"))
    timed, sized = timeout is not None, memory is not None
    alarm = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    refuse(
        InvalidGame,
        (
            timed and not is_number(timeout, above=0, most=LONGEST),
            f"timeout is {timeout!r}; it must be a positive number of seconds (at most "
            f"{LONGEST:g}), or None for no limit.",
        ),
        (
            timed and not alarm,
            "timeout= works by an alarm signal, which exists only on Unix and in the main thread. "
            "Leave it out here, or run in workers (n_jobs=2).",
        ),
        (
            sized and not is_whole(memory, least=1),
            f"memory is {memory!r}; it must be a positive whole number of bytes, or None.",
        ),
        (
            sized and (sys.platform != "linux" or find_spec("resource") is None),
            "memory= needs Linux, which can refuse memory to a process. Leave it out here.",
        ),
    )
    limits = Limits(timeout, memory, check_whole(repeats, "repeats"))
    return Training(limits, limits.trainings, deterministic, on_failure, shift)
