"""Whether training is left to chance: a few pools are trained under two seeds and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from dushapley.arrays import IntArray, Queries
from dushapley.engine.executors import Executor
from dushapley.engine.ledger import Ledger, members_of, roster_of
from dushapley.games.base import Game, Outcome
from dushapley.hashing import sha256

FAILED = -1.0
"""Stands for the predictions of a training that failed."""


class Probes:
    """Trainings that show whether another seed would train other models.

    Each pool is trained as always (probe 0) and under another seed (probe 1). Both end in a number
    made of all that the model predicts (`Game.outcomes`). Each training is a task of its own, so
    that workers share them, and is kept in the ledger as it ends.

    Parameters
    ----------
    game
        Has the pools.
    n_pools
        How many of them the budget allows.
    ledger
        Where trainings are kept.

    Attributes
    ----------
    voices
        What the models of a pool (by its key) and probe predicted, as a number.
    firsts
        Keys of pools whose own training is still to come.
    outcomes
        Those that have come and that the method has not asked for.
    lost
        Those of which nothing came: trained again, should the method ask.
    shown
        Whether no seed mattered; None: unknown.
    """

    def __init__(self, game: Game, n_pools: int, ledger: Ledger | None) -> None:
        self.game, self.ledger, self.n_out = game, ledger, 0
        self.shown: bool | None = None
        self.outcomes: dict[bytes, Outcome] = {}
        pools, draws = game.check(game.probe_pools[:n_pools], None)
        self.keys = game.keys(pools, draws) if n_pools else []
        names = {self._name(key, probe): (key, probe) for key in self.keys for probe in (0, 1)}
        stored = {} if ledger is None or not names else ledger.read(list(names))
        self.voices = {names[name]: outcome.value for name, outcome in stored.items()}
        failed = {
            key for (key, probe), voice in self.voices.items() if (probe, voice) == (0, FAILED)
        }
        self.lost = failed if game.limits.any else set()  # else a failure is an outcome
        pairs = zip(self.keys, pools, strict=True)
        tasks = [(key, pool[None], probe) for key, pool in pairs for probe in (0, 1)]
        self.waiting = deque(task for task in tasks if task[::2] not in self.voices)
        self.firsts = {key for key, _, probe in self.waiting if probe == 0}

    @staticmethod
    def _name(pool: bytes, probe: int) -> bytes:
        """Under which the ledger keeps what a model predicted."""
        return sha256(f"probe {probe} {pool.hex()}")

    def take(self) -> tuple[bytes, Queries, int] | None:
        """The next training: key of the pool, the pool and which probe."""
        if not self.waiting:
            return None
        self.n_out += 1
        return self.waiting.popleft()

    def learn(self, key: bytes, query: Queries, probe: int, outcomes: Sequence[Outcome]) -> None:
        """Take in a training and keep it; one that failed has no outcomes, or the policy's."""
        self.n_out -= 1
        whole = len(outcomes) == 2 - probe  # a training that was ended from outside is not
        self.voices[key, probe] = outcomes[-1].value if whole else FAILED
        paid = [(self._name(key, probe), Outcome(self.voices[key, probe]))]
        if probe == 0:
            self.firsts.discard(key)
            if outcomes:
                self.outcomes[key] = outcomes[0]
                paid.append((key, outcomes[0]))
            else:
                self.lost.add(key)
        self._write(paid, key, query)

    def time(self, executor: Executor, query: Queries, draws: IntArray | None = None) -> float:
        """Seconds of training a pool before the run begins, which then needs it no more."""
        ((key,), started) = self.game.keys(query, draws), perf_counter()
        task = next((task for task in self.waiting if task[::2] == (key, 0)), None)
        if task is None:
            self.lost.add(key)
            ((_, (outcome,)),) = executor.run(self.game, [(query, draws)])
            self.lost.remove(key)
            self.outcomes[key] = outcome
            self._write([(key, outcome)], key, query)
        else:
            self.waiting.remove(task)
            ((_, outcomes),) = executor.run(self.game, [(query, None, 0)])
            self.n_out += 1
            self.learn(key, query, 0, outcomes)
        return perf_counter() - started

    def _write(self, paid: list[tuple[bytes, Outcome]], key: bytes, query: Queries) -> None:
        if self.ledger is not None:
            own = [key] if key in dict(paid) else []
            self.ledger.write(paid, members_of(roster_of(self.game), own, query[: len(own)]))

    @property
    def is_open(self) -> bool:
        """Whether trainings are still to come."""
        return self.n_out > 0 or bool(self.waiting)

    @property
    def trained(self) -> set[bytes]:
        """Keys of pools that were trained as always, whether or not the method asks for them."""
        own = {key for key, probe in self.voices if probe == 0}
        return own | self.outcomes.keys() | self.lost

    @property
    def n_reseeded(self) -> int:
        """Trainings under another seed."""
        return sum(probe for _, probe in self.voices)

    def concluded(self) -> bool:
        """Whether no seed mattered; False as well where too few trainings could show it."""
        if self.shown is None and self.keys:
            both = [(self.voices[key, 0], self.voices[key, 1]) for key in self.keys]
            pairs = [pair for pair in both if FAILED not in pair]
            differ = any(one != other for one, other in pairs)
            if differ or len(pairs) >= min(2, len(self.keys)):
                self.shown = not differ
        return bool(self.shown)

    def account(self) -> dict[str, Any]:
        """For the details of a result: what was found, and from how many trainings."""
        return {"same under another seed": self.shown, "trainings": self.n_reseeded}
