"""Where paid work runs. It never changes a bit of a result, only when and where it is computed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from threading import Thread
from time import perf_counter, sleep
from typing import Any, Protocol

from dushapley.errors import InvalidOption, UtilityFailed
from dushapley.games.base import Game, Outcome
from dushapley.questions import IntArray, Queries

Block = tuple[Queries, IntArray | None]
"""Pools paid for together, with their draws."""
Numbered = tuple[int, Block]

GROUPS = 4
"""Groups of blocks per worker and run, so that no worker waits long for the last one."""
LONGEST = 1.0
"""Seconds that a group of blocks should take at the most."""
ATTEMPTS = 3
"""How often blocks are handed out when workers die over them."""


class Executor(Protocol):
    """Runs blocks of paid questions, in any order."""

    def run(self, game: Game, blocks: Sequence[Block]) -> Iterator[tuple[int, list[Outcome]]]:
        """Yield (position of the block, its outcomes) as blocks are finished."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class Local:
    """This machine: in the process itself, or in joblib's workers, which stay alive.

    One BLAS thread per worker, as in the parent, so that no bit depends on their number. Large
    arrays of the game are written once, to a folder that all workers map into memory; joblib's
    tracker removes it when the run ends, however it ends. Blocks travel in groups of at most
    `LONGEST` seconds, so that the journey costs little and little is lost by a kill.

    Parameters
    ----------
    n_jobs
        Number of workers; 1 stays in the process, -1 takes all processors.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
            raise InvalidOption(f"n_jobs is {n_jobs!r}; it is a number of workers, or -1 for all.")
        self.n_jobs = n_jobs
        self._stack = ExitStack()
        self._workers: Any = None
        self._seconds = 0.0  # a block lately took so long; for scheduling only

    def run(self, game: Game, blocks: Sequence[Block]) -> Iterator[tuple[int, list[Outcome]]]:
        if self.n_jobs == 1 or len(blocks) == 1:
            for position, block in enumerate(blocks):
                started = perf_counter()
                outcomes = game.outcomes(*block)
                self._seconds = perf_counter() - started
                yield position, outcomes
            return
        waiting = dict(enumerate(blocks))
        for _ in range(ATTEMPTS):
            yield from self._share_out(game, waiting)
            if not waiting:
                return
        raise UtilityFailed(
            f"Workers died {ATTEMPTS} times in a row, most likely for lack of memory, with "
            f"{len(waiting)} blocks unpaid. Use fewer workers (n_jobs=1), or a smaller model."
        )

    def _share_out(
        self, game: Game, waiting: dict[int, Block]
    ) -> Iterator[tuple[int, list[Outcome]]]:
        """Hand the waiting blocks to the workers; those lost with a dead worker keep waiting."""
        from joblib import delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        workers = self._start()
        groups = self._groups(list(waiting.items()), workers.n_jobs)
        try:
            for seconds, results in workers(
                delayed(_pay)(game, group, os.getpid()) for group in groups
            ):
                self._seconds = seconds / len(results)
                for position, outcomes in results:
                    del waiting[position]
                    yield position, outcomes
        except TerminatedWorkerError:
            self.close()

    def _start(self) -> Any:
        if self._workers is None:
            from joblib import Parallel, effective_n_jobs, parallel_config

            self._stack.enter_context(parallel_config(backend="loky", inner_max_num_threads=1))
            self._workers = self._stack.enter_context(
                Parallel(
                    n_jobs=effective_n_jobs(self.n_jobs),
                    return_as="generator_unordered",
                    batch_size=1,
                    max_nbytes="100K",
                )
            )
        return self._workers

    def _groups(self, blocks: list[Numbered], workers: int) -> list[list[Numbered]]:
        size = max(1, len(blocks) // (GROUPS * workers))
        if self._seconds > 0:
            size = max(1, min(size, int(LONGEST / self._seconds)))
        return [blocks[start : start + size] for start in range(0, len(blocks), size)]

    def close(self) -> None:
        """Let go of the game's files; the workers are joblib's own and serve the next run."""
        self._workers = None
        self._stack.close()


def _pay(
    game: Game, group: list[Numbered], parent: int
) -> tuple[float, list[tuple[int, list[Outcome]]]]:
    _leave_with(parent)
    started = perf_counter()
    results = [(position, game.outcomes(*block)) for position, block in group]
    return perf_counter() - started, results


@cache
def _leave_with(parent: int) -> None:
    """Make this worker end soon after its parent does, even when that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def make_executor(name: str, n_jobs: int) -> Executor:
    """The executor of this name."""
    if name == "local":
        return Local(n_jobs)
    raise InvalidOption(f"executor is {name!r}; choose 'local'.")
