"""Workers elsewhere: what every cluster needs, whoever runs it.

Few groups of blocks are on their way at a time, so that results stream in, groups can follow the
measured time of a training, and a kill of the driver loses little. Groups whose worker died are
cut into single blocks and handed out again, each to be paid in a process of its own, which can tell
how it ended; a model's own error is never tried twice.
"""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from time import monotonic
from typing import Any

from dushapley.engine.executors.base import (
    ATTEMPTS,
    Block,
    Feed,
    Group,
    Listed,
    Numbered,
    Pace,
    Results,
    WorkerLost,
    seconds_left,
)
from dushapley.engine.executors.interrupts import interrupts_put_off
from dushapley.engine.executors.isolation import pay
from dushapley.engine.executors.transport import Parcel, Shipment, unpacked
from dushapley.errors import DUShapleyError, InvalidOption, UtilityFailed, WorkersLost
from dushapley.games.base import Game, Outcome

AHEAD = 2
"""Groups on their way per worker: one at work, one waiting at its door."""
PATIENCE = 60.0
"""Seconds to wait for a worker when there is none."""
DASKS_OWN = "65536"
"""What Dask sets, so that no user has."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
LOOK = 1.0
"""Seconds after which a wait looks up: time or workers may have run out, Ctrl-C been pressed."""


class Remote(ABC):
    """Blocks on a cluster; subclasses say how to ship, submit, wait and read.

    Parameters
    ----------
    until
        When to give up, by `time.monotonic`.
    """

    streams = True

    def __init__(self, until: float) -> None:
        self.until = until
        self._taken = 0
        self._shipment: Shipment | None = None
        self._suspected = False  # whether some block was at work when a worker died
        self.pace = Pace()

    def patience(self) -> float:
        """Seconds that may be spent waiting for the cluster; a second at least, to say why."""
        return max(1.0, min(PATIENCE, self.until - monotonic()))

    @abstractmethod
    def workers(self) -> int:
        """How many groups can be at work at once, now; waits a while for the first worker."""

    @abstractmethod
    def ship(self, parcel: Parcel) -> None:
        """Bring the game to the workers, once each; again after a loss."""

    @abstractmethod
    def submit(self, group: Group, suspect: bool) -> Any:
        """Hand out a group, or a single block whose last worker died; a handle to its results."""

    @abstractmethod
    def wait(self, handles: Collection[Any], seconds: float) -> Collection[Any]:
        """Those handles that are done, after at most this many seconds."""

    @abstractmethod
    def result(self, handle: Any) -> tuple[float, Results]:
        """What the worker answered; raises `WorkerLost`, or the model's own error."""

    @abstractmethod
    def cancel(self, handles: Collection[Any]) -> None:
        """Give up on these."""

    @abstractmethod
    def close(self) -> None:
        """Let the workers go."""

    @property
    def has_trainers(self) -> bool:
        """Whether workers may have processes of their own at work for this run."""
        return self._shipment is not None and (self._shipment.game.limits.any or self._suspected)

    def run(
        self, game: Game, blocks: Sequence[Block] | Feed
    ) -> Iterator[tuple[int, Sequence[Outcome]]]:
        feed: Feed = Listed(blocks) if isinstance(blocks, Sequence) else blocks
        waiting: deque[Numbered] = deque()
        self._taken = 0
        if not self._fill(waiting, feed, 1):
            return
        if self._shipment is None or self._shipment.game is not game:
            self._shipment = Shipment(game)
            self._bring()
        losses: Counter[int] = Counter()
        away: dict[Any, Group] = {}
        try:
            with interrupts_put_off() as answer_interrupt:
                while self._hand_out(waiting, feed, away, losses):
                    for handle in self.wait(list(away), min(LOOK, seconds_left(self.until))):
                        yield from self._receive(handle, away.pop(handle), waiting, losses)
                    answer_interrupt()
        finally:
            self.cancel(list(away))

    def _fill(self, waiting: deque[Numbered], feed: Feed, count: int) -> bool:
        """Have so many blocks wait, if the feed has them; whether any does."""
        while len(waiting) < count and (block := feed.take()) is not None:
            waiting.append((self._taken, block))
            self._taken += 1
        return bool(waiting)

    def _bring(self) -> None:
        assert self._shipment is not None
        parcel = self._shipment.parcel  # before any worker is waited for
        self.workers()
        self.ship(parcel)

    def _hand_out(
        self, waiting: deque[Numbered], feed: Feed, away: dict[Any, Group], losses: Counter[int]
    ) -> bool:
        """Keep all workers busy, and some work at their doors; whether anything is away."""
        workers = self.workers()
        while len(away) < AHEAD * workers:
            size = self.pace.size(len(waiting) + feed.left, workers)
            if not self._fill(waiting, feed, size):
                break
            group = [waiting.popleft()]
            # one that was lost travels alone, so that no other shares its fate
            alone = losses[group[0][0]] > 0
            while waiting and len(group) < size and not alone and not losses[waiting[0][0]]:
                group.append(waiting.popleft())
            away[self.submit(group, alone)] = group
        return bool(away)

    def _receive(
        self, handle: Any, group: Group, waiting: deque[Numbered], losses: Counter[int]
    ) -> Results:
        try:
            seconds, results = self.result(handle)
        except WorkerLost as lost:
            losses.update(position for position, _ in group)
            self._suspected = True
            if len(group) == 1 and losses[group[0][0]] > ATTEMPTS:
                raise WorkersLost(
                    f"Every worker that was given the same training died ({lost}), most likely for "
                    "lack of memory. Use larger workers, a smaller model, or ModelGame(memory=..., "
                    "on_failure='empty') to count such trainings as failures."
                ) from lost
            self._bring()
            waiting.extend(group)
            return []
        self.pace.saw(seconds, len(results))
        return results


def library(module: str, executor: str) -> Any:
    """The package that an executor is made of, or how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidOption(
            f"executor={executor!r} needs {executor.title()}, which is not installed: pip install "
            f"'dushapley[{executor}]'."
        ) from error


@cache
def keep_freed_memory() -> None:
    """Keep up to 64 MB of what this process frees, as the C library does if nobody interferes.

    Dask has its workers hand back every freed array at once. Arithmetic then begins on new memory
    again and again, which takes models made of sums several times as long.
    """
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") == DASKS_OWN:
        with suppress(AttributeError, OSError, TypeError):  # of systems that have no such setting
            own = ctypes.CDLL(None)
            own.mallopt(M_MMAP_THRESHOLD, 2**25)
            own.mallopt(M_TRIM_THRESHOLD, 2**26)


def pay_there(parcel: Parcel, group: Group, suspect: bool = False) -> tuple[float, Results]:
    """What a worker of a cluster does: pay for a group, unless its bits could differ.

    Errors go home as the library's own, without their causes, which may not be able to travel; so
    any other error that arrives is the cluster's.
    """
    keep_freed_memory()
    try:
        return pay(unpacked(parcel), group, suspect)
    except DUShapleyError as error:
        answer = error
    except (Exception, SystemExit) as error:  # a worker must outlive a model that calls exit()
        answer = UtilityFailed(f"The game raised {type(error).__name__}: {error}.")
    answer.__cause__ = answer.__context__ = None
    raise answer
