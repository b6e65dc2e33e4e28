"""Whether training is left to chance: a few pools are trained under two seeds and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, IntArray, Queries
from dushapley.engine.ledger import Ledger
from dushapley.games.base import Answers, Game, Outcome

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


def probe_trainings(game: Game) -> int:
    """Return trainings of a probe beside its pool's own; under limits a failed one is repeated."""
    training = game.training
    return 2 if training is not None and training.limits.any else 1


class Probes:
    """Trainings that show whether another seed would train other models.

    They are evaluations of `Game.reseeded`, each a task of its own, so that workers share them, and
    kept like any other. The one under the game's own seed also tells what the pool is worth.

    Parameters
    ----------
    game
        Has the pools.
    n_pools
        How many of them the budget allows.
    ledger
        Where trainings are kept, if anywhere.

    Attributes
    ----------
    voices
        What the model of each pool predicted, as a number, by seed; shape (2, pools).
    worth
        What pools are worth that were trained now, by their ordinary keys; None: trained again,
        should the method ask.
    firsts
        Ordinary keys of pools whose training under the game's own seed is still to come.
    """

    def __init__(self, game: Game, n_pools: int, ledger: Ledger | None) -> None:
        self.pools, self.training = probe_pools(game)[:n_pools], game.training
        self.own = game.keys(self.pools, None) if n_pools else []
        self.keys = [game.reseeded(seed).keys(self.pools, None) for seed in SEEDS if n_pools]
        found = [{} if ledger is None else ledger.read(keys) for keys in self.keys]
        stored = {key: outcome.value for known in found for key, outcome in known.items()}
        self.voices = np.array([[stored.get(key, np.inf) for key in keys] for keys in self.keys])
        self.waiting = deque(
            Task(np.array([place]), self.pools[[place]], seed=seed)
            for place in range(len(self.pools))
            for seed in SEEDS
            if self.voices[seed, place] == np.inf
        )
        self.firsts = {self.key_of(task) for task in self.waiting if task.seed == 0}
        self.worth: dict[bytes, Outcome | None] = {}
        self.n_out = 0

    def take(self) -> Task:
        """The next training."""
        self.n_out += 1
        return self.waiting.popleft()

    def first_of(self, key: bytes) -> Task | None:
        """Take the training of one pool under the game's own seed, if that is still to come."""
        task = next((t for t in self.waiting if t.seed == 0 and key == self.key_of(t)), None)
        if task is not None:
            self.waiting.remove(task)
            self.n_out += 1
        return task

    def key_of(self, task: Task) -> bytes:
        """The ordinary key of a task's pool."""
        return self.own[int(task.numbers[0])]

    def learn(self, task: Task, answers: Answers) -> dict[bytes, Outcome]:
        """Take in a training; what to keep of it, by key."""
        assert task.seed is not None
        (place,) = task.numbers.tolist()
        first, voice = answers[0], answers[len(answers) - 1]
        self.voices[task.seed, place] = voice.value
        self.n_out -= 1
        kept = {self.keys[task.seed][place]: Outcome(voice.value, voice.failure)}
        if task.seed == 0:
            own = self.own[place]
            self.firsts.discard(own)
            self.worth[own] = first if first.failure is None or self._stands() else None
            if self.worth[own] is not None:
                kept[own] = first
        return kept

    def _stands(self) -> bool:
        """Whether a failure is what the pool came to: under limits, predictions take time, too."""
        assert self.training is not None
        return self.training.on_failure == "empty" and not self.training.limits.any

    @property
    def is_open(self) -> bool:
        """Whether trainings are still to come."""
        return self.n_out > 0 or bool(self.waiting)

    def n_trained(self, answered: Container[bytes]) -> int:
        """Trainings beside those of pools whose ordinary keys are answered."""
        own = [key for place, key in enumerate(self.own) if self.voices[0, place] != np.inf]
        lost = sum(outcome is None for outcome in self.worth.values())
        again = int((self.voices[1:] != np.inf).sum())
        return again + lost + sum(key not in answered for key in own)

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
