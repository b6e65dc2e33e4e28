"""What all executors share: one loop that keeps workers busy, whoever runs them.

An executor has workers, is given groups of blocks (`submit`, which returns a future), says which
are done, gives some up and closes. Few groups are away at a time, so that results stream in, groups
follow the measured time of a training, and a kill of the driver loses little. Groups whose worker
died are handed out again block by block, each to be paid in a process of its own, which can tell
how it ended; a model's own error is never tried twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from itertools import islice
from time import monotonic, sleep
from typing import Any, Protocol

from dushapley.engine.executors.worker import (
    Block,
    Group,
    Numbered,
    Paid,
    Parcel,
    Results,
    WorkerLost,
    limits_of,
    pack,
)
from dushapley.errors import InvalidOption, WorkersLost
from dushapley.games.base import Answers, Game
from dushapley.processes import ChildEnded, interrupts_put_off
from dushapley.validation import pool_name

GROUPS = 4
"""Groups of blocks per worker and run, so that no worker waits long for the last one."""
LONGEST = 0.005
"""Seconds that a group of blocks should take at most, so that a kill loses no more per worker.
Longer trainings travel alone."""
BUSIEST = 500
"""Groups that a driver hands out and takes in per second; of more workers, groups are longer."""
FORGETTING = 0.7
"""How much of the longest measured time of a block remains after each group."""
AHEAD = 2
"""Groups on their way per worker: one at work, one waiting at its door."""
ATTEMPTS = 3
"""How often in a row workers may die over the same block."""
PATIENCE = 60.0
"""Seconds to wait for a worker when there is none."""
LOOK = 1.0
"""Seconds after which a wait looks up: time or workers may have run out, Ctrl-C been pressed."""


Futures = Collection[Any]
"""What executors hand out for groups: each has its own kind."""


class OutOfTime(Exception):
    """The run's time is up; raised by executors, turned into `Stopped` by the engine."""


class Feed(Protocol):
    """Blocks that come one by one: what is asked may depend on what was answered."""

    def take(self) -> Numbered | None:
        """The next block; None: none for now, or none any more."""

    @property
    def left(self) -> int:
        """Blocks that are still to come, about."""


class Listed:
    """Blocks that are all there, one by one."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = deque(enumerate(blocks))

    def take(self) -> Numbered | None:
        """The next block, or None."""
        return self.blocks.popleft() if self.blocks else None

    @property
    def left(self) -> int:
        """Blocks that are not taken."""
        return len(self.blocks)


class Pace:
    """How many blocks travel together: enough to pay for the journey, few enough to share out."""

    def __init__(self) -> None:
        self.seconds: float | None = None  # of a long block of late; for scheduling only

    def saw(self, seconds: float, blocks: int) -> None:
        """Note how long a number of blocks took."""
        self.seconds = max(seconds / max(blocks, 1), FORGETTING * (self.seconds or 0.0))

    def size(self, remaining: int, workers: int) -> int:
        """Blocks of the next group; one while nothing is measured, so that a kill loses little."""
        if self.seconds is None:
            return 1
        fair = max(1, remaining // (GROUPS * workers))
        longest = max(LONGEST, workers / BUSIEST)
        return max(1, min(fair, int(longest / max(self.seconds, 1e-6))))


class Executor(ABC):
    """Pays for blocks in any order; subclasses say how a group travels.

    Parameters
    ----------
    until
        When to give up, by `time.monotonic`.

    Attributes
    ----------
    game, handle
        Whose blocks are paid for, and how workers know it.
    mine
        Closes what this run started.
    """

    def __init__(self, until: float) -> None:
        self.until, self.pace, self.mine = until, Pace(), ExitStack()
        self.game: Any = None
        self.handle: Any = None

    @abstractmethod
    def count(self) -> int:
        """How many groups can be at work at once, now."""

    @abstractmethod
    def ship(self, parcel: Parcel) -> Any:
        """Bring the game to the workers, once each; again after a loss. What they know it by."""

    @abstractmethod
    def submit(self, group: Group, alone: bool) -> Any:
        """Hand out a group, or a single block whose last worker died; a future of its results."""

    @abstractmethod
    def wait(self, futures: Futures, seconds: float) -> Futures:
        """Those futures that are done, after at most this many seconds."""

    @abstractmethod
    def result(self, future: Any) -> Paid:
        """Seconds and results of a group; raises `ChildEnded`, or the model's own error."""

    @abstractmethod
    def cancel(self, futures: Futures) -> None:
        """Give up on these."""

    def close(self) -> None:
        """Let the workers go."""
        self.game = self.handle = None
        self.mine.close()

    def workers(self) -> int:
        """How many groups can be at work at once; waits a while for the first worker."""
        started, patience = monotonic(), self.patience()
        while (count := self.count()) < 1:
            seconds_left(self.until)
            if monotonic() - started > patience:
                raise WorkersLost(
                    f"The cluster has had no worker for {patience:g} s. Start some (`dask worker "
                    "ADDRESS`, `ray start --address=ADDRESS`), and run again to go on."
                )
            sleep(min(LOOK, patience))
        return count

    def patience(self) -> float:
        """Seconds that may be spent waiting for workers; a second at least, to say why."""
        return max(1.0, min(PATIENCE, self.until - monotonic()))

    def run(self, game: Game, feed: Feed) -> Iterator[tuple[int, Answers]]:
        """Yield (number of the block, its answers) as blocks are finished.

        Blocks are taken as workers become free; it ends when none is out and none is to be had.
        """
        first = feed.take()
        if first is None:
            return
        self.feed, self.alone = feed, deque([first])
        self.losses, self.away = Counter[int](), dict[Any, Group]()
        if self.game is not game:
            self.game, self.parcel = game, pack(game)
            self.handle = self.ship(self.parcel)
        try:
            with interrupts_put_off() as answer_interrupt:
                while self._hand_out():
                    for future in self.wait(list(self.away), min(LOOK, seconds_left(self.until))):
                        yield from self._take_in(future)
                    answer_interrupt()
        finally:
            self.cancel(list(self.away))

    def _hand_out(self) -> bool:
        """Keep all workers busy, and some work at their doors; whether anything is away."""
        workers, limited = self.workers(), limits_of(self.game).any
        while len(self.away) < AHEAD * workers:
            size = 1 if limited else self.pace.size(self.feed.left, workers)
            blocks = iter(self.feed.take, None)
            group = [self.alone.popleft()] if self.alone else list(islice(blocks, size))
            if not group:
                break
            self.away[self.submit(group, self.losses[group[0][0]] > 0)] = group
        return bool(self.away)

    def _take_in(self, future: Any) -> Results:
        group = self.away.pop(future)
        try:
            seconds, results = self.result(future)
        except ChildEnded as lost:
            return self._try_again(group, lost)
        self.pace.saw(seconds, len(results))
        return results

    def _try_again(self, group: Group, lost: ChildEnded) -> Results:
        """Have the blocks of a lost group wait, each alone, so that no other shares its fate.

        One that was lost too often counts as the policy of a game with limits has it. A worker that
        is lost without a word may have died of something else: it has one try more.
        """
        self.losses.update(number for number, _ in group)
        number, (queries, *_) = group[0]
        silent = isinstance(lost, WorkerLost)
        times = ATTEMPTS + silent
        if len(group) > 1 or self.losses[number] < times:
            self.handle = self.ship(self.parcel)
            self.alone.extend(group)
            return []
        if limits_of(self.game).any and not silent:
            return [(number, self.game.failed(queries, WorkerLost(f"{lost}, {times} times")))]
        reason = str(lost)
        others = f" (or one of {len(queries) - 1} paid with it)" if len(queries) > 1 else ""
        raise WorkersLost(
            f"{reason[0].upper()}{reason[1:]} while training on "
            f"{pool_name(queries[0], self.game.names)}{others}, {times} times in a row. Mend the "
            "model; or use larger workers, or, on this machine, ModelGame(memory=..., "
            "on_failure='empty') to count such trainings as failures."
        ) from lost


def seconds_left(until: float) -> float:
    """Seconds until the run must end; raises `OutOfTime` when there are none."""
    left = until - monotonic()
    if left <= 0:
        raise OutOfTime
    return left


def library(module: str, executor: str) -> Any:
    """The package that an executor is made of, or how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidOption(
            f"executor={executor!r} needs {executor.title()}, which is not installed: pip install "
            f"'dushapley[{executor}]'."
        ) from error
