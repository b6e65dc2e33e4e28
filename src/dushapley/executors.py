"""Where paid work runs. It never changes a bit of a result, only when and where it is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from dushapley.errors import InvalidOption
from dushapley.games.base import Game, Outcome
from dushapley.questions import IntArray, Queries

Block = tuple[Queries, IntArray | None]
"""Pools paid for together, with their draws."""


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

    One BLAS thread per worker, as in the parent, so that no bit depends on their number.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
            raise InvalidOption(f"n_jobs is {n_jobs!r}; it is a number of workers, or -1 for all.")
        self.n_jobs = n_jobs

    def run(self, game: Game, blocks: Sequence[Block]) -> Iterator[tuple[int, list[Outcome]]]:
        if self.n_jobs == 1 or len(blocks) == 1:
            for position, block in enumerate(blocks):
                yield position, game.outcomes(*block)
            return
        import joblib

        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            workers = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator_unordered")
            yield from workers(
                joblib.delayed(_pay)(game, position, block) for position, block in enumerate(blocks)
            )

    def close(self) -> None:
        """Workers are joblib's own and are reused by the next run."""


def _pay(game: Game, position: int, block: Block) -> tuple[int, list[Outcome]]:
    return position, game.outcomes(*block)


def make_executor(name: str, n_jobs: int) -> Executor:
    """The executor of this name."""
    if name == "local":
        return Local(n_jobs)
    raise InvalidOption(f"executor is {name!r}; choose 'local'.")
