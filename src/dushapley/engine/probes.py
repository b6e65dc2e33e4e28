"""Whether training is left to chance: a few pools are trained under two seeds and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, IntArray, Queries
from dushapley.games.base import Answers, Game

SEEDS = 0, 1


def probe_pools(game: Game) -> BoolArray:
    """Pools to train under two seeds where chance in training is unknown, shape (at most 7, I).

    The grand coalition, the four smallest owners alone and two pairs of them: a seed that breaks
    ties, as in trees, shows in small pools first; one that splits off rows for early stopping in
    large ones.
    """
    training = game.training
    if training is None or training.deterministic is not None or training.repeats > 1:
        return np.zeros((0, game.n_players), dtype=np.bool_)
    few = np.argsort(game.sizes, kind="stable")[:4].tolist()
    pairs = [few[:2], few[-2:]] if len(few) > 2 else []
    members = [[*range(game.n_players)], *([j] for j in few), *pairs]
    pools = np.zeros((len(members), game.n_players), dtype=np.bool_)
    for pool, some in zip(pools, members, strict=True):
        pool[some] = True
    return pools[: 1 if game.n_players == 1 else None]


@dataclass(frozen=True)
class Task:
    """Pools that are computed together: numbers, pools, draws, and under which other seed."""

    numbers: IntArray
    queries: Queries
    draws: IntArray | None = None
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, some: slice) -> Task:
        """Some of these pools."""
        draws = None if self.draws is None else self.draws[some]
        return Task(self.numbers[some], self.queries[some], draws)

    @property
    def block(self) -> tuple[Queries, IntArray | None, int | None]:
        """As executors take it."""
        return self.queries, self.draws, self.seed


def no_pools(n_players: int) -> Task:
    """Return a task without pools."""
    return Task(np.zeros(0, dtype=np.int64), np.zeros((0, n_players), dtype=np.bool_))


def together(tasks: Sequence[Task]) -> Task:
    """Return the pools of several tasks as one; whole owners need no draws."""
    some = [task for task in tasks if len(task.queries)]
    if len(some) == 1:
        return some[0]
    numbers = np.concatenate([task.numbers for task in some])
    queries = np.concatenate([task.queries for task in some])
    if all(task.draws is None for task in some):
        return Task(numbers, queries)
    draws = [np.zeros(len(t.queries), np.int64) if t.draws is None else t.draws for t in some]
    return Task(numbers, queries, np.concatenate(draws))


class Probes:
    """Trainings that show whether another seed would train other models.

    They are ordinary evaluations of `Game.reseeded`: each is a task of its own, so that workers
    share them, and is looked up and kept like any other.

    Parameters
    ----------
    game
        Has the pools.
    n_pools
        How many of them the budget allows.
    known
        Looks trainings up by key: what they came to, not a number where they failed.

    Attributes
    ----------
    voices
        What the model of each pool predicted, as a number, by seed; shape (2, pools).
    """

    def __init__(
        self, game: Game, n_pools: int, known: Callable[[list[bytes]], dict[bytes, float]]
    ) -> None:
        self.pools = probe_pools(game)[:n_pools]
        self.n_out = 0
        self.keys = [game.reseeded(seed).keys(self.pools, None) for seed in SEEDS if n_pools]
        stored = known([key for keys in self.keys for key in keys]) if n_pools else {}
        self.voices = np.array([[stored.get(key, np.inf) for key in keys] for keys in self.keys])
        self.n_trained = int((self.voices != np.inf).sum())  # by a run that was killed, say
        self.waiting = deque(
            Task(np.array([place]), self.pools[[place]], seed=seed)
            for place in range(len(self.pools))
            for seed in SEEDS
            if self.voices[seed, place] == np.inf
        )

    def take(self) -> Task | None:
        """The next training."""
        self.n_out += bool(self.waiting)
        return self.waiting.popleft() if self.waiting else None

    def learn(self, task: Task, answers: Answers) -> bytes:
        """Take in a training; its key."""
        assert task.seed is not None
        (place,) = task.numbers.tolist()
        self.voices[task.seed, place] = answers.values[0]
        self.n_out -= 1
        self.n_trained += 1
        return self.keys[task.seed][place]

    @property
    def is_open(self) -> bool:
        """Whether trainings are still to come."""
        return self.n_out > 0 or bool(self.waiting)

    def concluded(self) -> bool | None:
        """Whether no seed mattered; None where too few trainings could show it."""
        if not len(self.pools):
            return None
        pairs = self.voices[:, np.isfinite(self.voices).all(axis=0)]
        if (pairs[0] != pairs[1]).any():
            return False
        return True if pairs.shape[1] >= min(2, len(self.pools)) else None

    def account(self) -> dict[str, Any]:
        """For the details of a result: what was found, and from how many pools."""
        return {"same under another seed": self.concluded(), "trainings": len(self.pools)}
