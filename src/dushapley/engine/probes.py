"""Whether training is left to chance: a few pools are trained under two seeds and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray
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
    waiting
        Trainings that are not handed out yet: a place among the pools, and a seed.
    firsts
        Ordinary keys of pools whose training under the game's own seed is still to come.
    worth
        What pools are worth that were trained now, by their ordinary keys.
    """

    def __init__(self, game: Game, n_pools: int, ledger: Ledger | None) -> None:
        self.pools, self.training = probe_pools(game)[:n_pools], game.training
        self.own = game.keys(self.pools, None) if n_pools else []
        self.keys = [game.reseeded(seed).keys(self.pools, None) for seed in SEEDS if n_pools]
        found = [{} if ledger is None else ledger.read(keys) for keys in self.keys]
        stored = {key: outcome.value for known in found for key, outcome in known.items()}
        self.voices = np.array([[stored.get(key, np.inf) for key in keys] for keys in self.keys])
        self.waiting = deque(
            (place, seed)
            for place in range(len(self.pools))
            for seed in SEEDS
            if self.voices[seed, place] == np.inf
        )
        self.firsts = {self.own[place] for place, seed in self.waiting if seed == 0}
        self.worth: dict[bytes, Outcome] = {}
        self.n_failed = 0

    def learn(self, place: int, seed: int, answers: Answers) -> dict[bytes, Outcome]:
        """Take in a training; what to keep of it, by key.

        Under limits a failure is not what the pool came to: predictions take time, too.
        """
        assert self.training is not None
        stands = self.training.on_failure == "empty" and not self.training.limits.any
        first, voice = answers[0], answers[len(answers) - 1]
        self.voices[seed, place] = voice.value
        kept = {self.keys[seed][place]: Outcome(voice.value, voice.failure)}
        if seed == 0:
            own = self.own[place]
            self.firsts.discard(own)
            if first.failure is None or stands:
                kept[own] = self.worth[own] = first
            else:
                self.n_failed += 1
        return kept

    @property
    def is_open(self) -> bool:
        """Whether trainings are still to come."""
        return bool((self.voices == np.inf).any())

    def n_trained(self, answered: Container[bytes]) -> int:
        """Trainings beside those of pools whose ordinary keys are answered."""
        own = [key for place, key in enumerate(self.own) if self.voices[0, place] != np.inf]
        again = int((self.voices[1:] != np.inf).sum())
        return again + self.n_failed + sum(key not in answered for key in own)

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
