"""What all executors share: blocks, groups of them, and the limits of their processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any, Protocol

from dushapley.arrays import IntArray, Queries
from dushapley.games.base import Answers, Game, Limits, Outcome

Block = tuple[Queries, IntArray | None, int | None]
"""Pools paid for together, with their draws; and which probe it is (see `Game.outcomes`)."""
Numbered = tuple[int, Block]
"""A block with its position."""
Group = list[Numbered]
"""Blocks that travel together."""
Results = list[tuple[int, Sequence[Outcome]]]

GROUPS = 4
"""Groups of blocks per worker and run, so that no worker waits long for the last one."""
LONGEST = 0.005
"""Seconds that a group of blocks should take at most, so that a kill loses no more per worker.
Longer trainings travel alone."""
BUSIEST = 500
"""Groups that a driver hands out and takes in per second; of more workers, groups are longer."""
FORGETTING = 0.7
"""How much of the longest measured time of a block remains after each group."""
FAREWELL = 5.0
"""Seconds that workers may take to say who they are, and to let a run go."""
ATTEMPTS = 3
"""How often in a row workers may die over the same blocks."""


def answers_of(game: Game, block: Block) -> Answers:
    """Answers to a block, by the game itself or under another seed."""
    queries, draws, seed = block
    asked = game if seed is None else game.reseeded(seed)
    return Answers.of(asked.evaluate(queries, draws))


def limits_of(game: Game) -> Limits:
    """Limits of a game's trainings."""
    return Limits() if game.training is None else game.training.limits


class OutOfTime(Exception):
    """The run's time is up; raised by executors, turned into `Stopped` by the engine."""


class WorkerLost(Exception):
    """A worker died before it could answer; its blocks may be paid elsewhere."""


class Feed(Protocol):
    """Blocks that come one by one: what is asked may depend on what was answered."""

    def take(self) -> Block | None:
        """The next block; None: none for now, or none any more."""

    @property
    def left(self) -> int:
        """Blocks that are still to come, about."""


class Listed:
    """Blocks that are all there, one by one."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks, self.taken = blocks, 0

    def take(self) -> Block | None:
        """The next block, or None."""
        if not self.left:
            return None
        self.taken += 1
        return self.blocks[self.taken - 1]

    @property
    def left(self) -> int:
        """Blocks that nobody took."""
        return len(self.blocks) - self.taken


class Executor(Protocol):
    """Runs blocks of paid questions, in any order.

    One whose attribute `streams` is true is given a `Feed`, of which it takes blocks as workers
    become free, and ends when none is out and none is left; any other is given a list. One that
    says how many `workers()` it has is given as many blocks at a time as they can use.
    """

    def run(self, game: Game, blocks: Any) -> Iterator[tuple[int, Sequence[Outcome]]]:
        """Yield (position of the block, its outcomes) as blocks are finished."""

    def close(self) -> None:
        """Let the workers go."""


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


def seconds_left(until: float) -> float:
    """Seconds until the run must end; raises `OutOfTime` when there are none."""
    left = until - monotonic()
    if left <= 0:
        raise OutOfTime
    return left


_BLAS_LOCK = Lock()
_BLAS: dict[str, Any] = {"inside": 0, "limit": None}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread in this process while anybody is inside, whichever thread that is.

    Results of BLAS depend on its threads. The limit holds for the whole process, so the first
    thread to enter sets it and the last to leave lifts it.
    """
    with _BLAS_LOCK:
        _BLAS["inside"] += 1
        if _BLAS["inside"] == 1:
            _BLAS["limit"] = _thread_pools(len(sys.modules)).limit(limits=1)
    try:
        yield
    finally:
        with _BLAS_LOCK:
            _BLAS["inside"] -= 1
            if _BLAS["inside"] == 0:
                _BLAS["limit"].restore_original_limits()


@lru_cache(maxsize=1)
def _thread_pools(_modules: int) -> Any:
    """Those of loaded libraries. To look takes milliseconds, and libraries come with modules."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def leave_with(parent: int) -> None:
    """Make this process end soon after its parent does, even when that was killed.

    One watcher is enough, however often it is asked for.
    """

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
