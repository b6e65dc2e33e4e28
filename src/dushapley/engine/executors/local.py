"""This machine: the process itself, or child processes, each with a thread that waits for it.

Children live as long as a run pays for one game: they never have code from before an edit, and
start in less than a second. (loky's outlive a run; but they can neither be limited nor tell which
block they died of, so that each would need a child of its own, and a kill leaves its semaphores.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any

from joblib import effective_n_jobs

from dushapley.engine.executors.base import Executor, Feed, Futures, seconds_left
from dushapley.engine.executors.worker import (
    Group,
    Paid,
    Parcel,
    WorkerLost,
    answers_of,
    hold,
    limits_of,
    pay,
)
from dushapley.errors import WorkersLost
from dushapley.games.base import Answers, Game
from dushapley.games.policy import timed_out
from dushapley.processes import Child, ChildEnded, one_blas_thread

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

    def run(self, game: Game, feed: Feed) -> Iterator[tuple[int, Answers]]:
        if self.n_jobs > 1 or limits_of(game).any:
            yield from super().run(game, feed)
            return
        with one_blas_thread():
            for number, block in iter(feed.take, None):
                seconds_left(self.until)
                yield number, answers_of(game, block)

    def count(self) -> int:
        return self.n_jobs

    def ship(self, parcel: Parcel) -> Any:
        """Make a crew that holds the game; after a loss, it is already there."""
        if self.handle is None or self.handle.parcel is not parcel:
            self.mine.close()
            return self.mine.enter_context(closing(Crew(self.n_jobs, self.game, parcel)))
        return self.handle

    def submit(self, group: Group, alone: bool) -> Any:
        return self.handle.threads.submit(self.handle.pay, group)

    def wait(self, futures: Futures, seconds: float) -> Futures:
        return wait(futures, seconds, FIRST_COMPLETED).done

    def result(self, future: Future[Paid]) -> Paid:
        return future.result()

    def cancel(self, futures: Futures) -> None:
        """Give up on these, and on the children that are at work on them."""
        if futures:
            self.close()


class Crew:
    """Threads with a child process each, that hold a game and pay for blocks of it.

    The game is written to a file without a name, which goes with this process, however it ends, and
    is mapped into memory by all children.
    """

    def __init__(self, n_jobs: int, game: Game, parcel: Parcel) -> None:
        self.game, self.parcel = game, parcel
        self.file = TemporaryFile()  # noqa: SIM115 - closed with the crew
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
        path = f"/proc/{os.getpid()}/fd/{self.file.fileno()}"
        self.sent = replace(parcel, contents=path) if Path(path).exists() else parcel
        self.threads = ThreadPoolExecutor(n_jobs)
        self.own = threading.local()
        self.children: list[Child] = []
        self.closing = False

    def pay(self, group: Group) -> Paid:
        """Have the child of this thread pay for a group; a late one counts as the game has it."""
        limits, seconds = limits_of(self.game), None
        if limits.timeout is not None:
            questions = sum(len(block[0]) for _, block in group)
            seconds = limits.timeout * limits.trainings * questions + GRACE
        try:
            paid: Paid = self._child().call(pay, None, group, seconds=seconds)
        except TimeoutError:
            assert limits.timeout is not None
            late = timed_out(limits.timeout)
            return limits.timeout, [(n, self.game.failed(block[0], late)) for n, block in group]
        return paid

    def _child(self) -> Child:
        """The child of this thread; another one where it has ended."""
        child: Child | None = getattr(self.own, "child", None)
        if child is None or not child.alive:
            child = self.own.child = Child()
            self.children.append(child)
            if self.closing:  # which ended all children that there were
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
