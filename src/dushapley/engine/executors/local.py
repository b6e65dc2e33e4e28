"""This machine: the process itself, or child processes, each with a thread that waits for it.

Children live as long as a run pays for one game: they never have code from before an edit, and
start in less than a second. (loky's outlive a run; but they can neither be limited nor tell which
block they died of, so that each would need a child of its own, and a kill leaves its semaphores.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from time import monotonic
from typing import Any

from joblib import effective_n_jobs

from dushapley.engine.executors.base import Executor, Feed, OutOfTime
from dushapley.engine.executors.worker import (
    Group,
    Parcel,
    Results,
    TrainingEnded,
    WorkerLost,
    hold,
    limits_of,
    one_blas_thread,
    pay_held,
)
from dushapley.errors import WorkersLost
from dushapley.games.base import Answers, Game
from dushapley.games.policy import timed_out
from dushapley.processes import Child, ChildEnded

GRACE = 2.0
"""Seconds beyond its limit after which a training is ended from outside."""


class Local(Executor):
    """This machine: the process itself, or child processes.

    Parameters
    ----------
    n_jobs
        Number of workers; 1 stays in the process, unless there are limits. -1 takes all processors.
    address
        None: this machine has none.
    until
        When to give up, by `time.monotonic`.
    """

    def __init__(self, n_jobs: int = 1, address: None = None, until: float = float("inf")) -> None:
        super().__init__(until)
        self.n_jobs = int(effective_n_jobs(n_jobs))
        self._crew: Crew | None = None

    def run(self, game: Game, feed: Feed) -> Iterator[tuple[int, Answers]]:
        if self.n_jobs == 1 and not limits_of(game).any:
            return self._run_here(game, feed)
        return super().run(game, feed)

    def _run_here(self, game: Game, feed: Feed) -> Iterator[tuple[int, Answers]]:
        with one_blas_thread():
            while (numbered := feed.take()) is not None:
                if monotonic() > self.until:
                    raise OutOfTime
                number, (queries, draws, seed) = numbered
                asked = game if seed is None else game.reseeded(seed)
                yield number, Answers.of(asked.evaluate(queries, draws))

    def count(self) -> int:
        return self.n_jobs

    def ship(self, parcel: Parcel) -> None:
        """Make a crew that holds the game; after a loss, it is already there."""
        if self._crew is None or self._crew.parcel is not parcel:
            self.close()
            assert self.game is not None
            self._crew = Crew(self.n_jobs, self.game, parcel)

    def submit(self, group: Group, alone: bool) -> Future[tuple[float, Results]]:
        assert self._crew is not None
        return self._crew.threads.submit(self._crew.pay, group)

    def wait(self, futures: Collection[Any], seconds: float) -> Collection[Any]:
        return wait(futures, seconds, FIRST_COMPLETED).done

    def result(self, future: Future[tuple[float, Results]]) -> tuple[float, Results]:
        return future.result()

    def cancel(self, futures: Collection[Any]) -> None:
        """Give up on these, and on the children that are at work on them."""
        if futures:
            self.close()
            self.game = None  # another run needs another crew

    def close(self) -> None:
        if self._crew is not None:
            self._crew.close()
            self._crew = None


class Crew:
    """Threads with a child process each, that hold a game and pay for blocks of it.

    The game is written to a file without a name, which goes with this process, however it ends, and
    is mapped into memory by all children.
    """

    def __init__(self, n_jobs: int, game: Game, parcel: Parcel) -> None:
        self.game, self.parcel, self.limits = game, parcel, limits_of(game)
        self.file = TemporaryFile()  # noqa: SIM115 - closed with the crew
        self._write(parcel)
        path = f"/proc/{os.getpid()}/fd/{self.file.fileno()}"
        self.sent = replace(parcel, contents=path) if Path(path).exists() else parcel
        self.threads = ThreadPoolExecutor(n_jobs)
        self.own = threading.local()
        self.children: list[Child] = []
        self.closing = False

    def _write(self, parcel: Parcel) -> None:
        try:
            self.file.write(parcel.contents)  # type: ignore[arg-type]
            self.file.flush()
        except OSError as error:
            raise WorkersLost(
                f"The game could not be handed to the workers: its {parcel.bounds[-1][1]:,} bytes "
                f"are written once into {gettempdir()}, which is full or not writable "
                f"({error.strerror}). Free some space, name another folder in TMPDIR, or take "
                "n_jobs=1; run again to go on."
            ) from error

    def pay(self, group: Group) -> tuple[float, Results]:
        """Have the child of this thread pay for a group; a late one counts as the game has it."""
        timeout, seconds = self.limits.timeout, None
        if timeout is not None:
            seconds = self.limits.seconds(sum(len(block[0]) for _, block in group)) + GRACE
        try:
            paid: tuple[float, Results] = self._child().call(pay_held, group, seconds=seconds)
        except ChildEnded as ended:
            raise TrainingEnded(str(ended)) from ended
        except TimeoutError:
            assert timeout is not None
            late = timed_out(timeout)
            return timeout, [(n, self.game.failed(block[0], late)) for n, block in group]
        return paid

    def _child(self) -> Child:
        """The child of this thread; another one where it has ended."""
        child: Child | None = getattr(self.own, "child", None)
        if child is None or not child.alive:
            child = self.own.child = Child()
            self.children.append(child)
            if self.closing:
                child.kill()
            try:
                child.call(hold, self.sent)
            except ChildEnded as ended:
                raise WorkerLost(f"a process for trainings could not start ({ended})") from ended
        return child

    def close(self) -> None:
        """End all that is at work."""
        self.closing = True
        self.threads.shutdown(wait=False, cancel_futures=True)
        for child in list(self.children):
            child.kill()
        self.threads.shutdown()
        for child in self.children:
            child.close()
        self.file.close()
