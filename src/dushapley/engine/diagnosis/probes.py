"""The trainings of a diagnosis, as a game whose every question is one of them.

So executors run them like any other training, in workers and within the limits of the game, and
its ledger keeps what they came to: a few numbers each, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Queries, Rows
from dushapley.data.rows import take
from dushapley.engine.diagnosis.agreement import mean_part, of_classes, of_numbers, within
from dushapley.engine.diagnosis.difference import (
    MOST_OWN,
    MOST_OWNERS,
    MOST_TOGETHER,
    as_numbers,
    some_rows,
    told_apart,
)
from dushapley.engine.diagnosis.models import scores_of_usual
from dushapley.games.base import Answers, Game, Outcome
from dushapley.games.model import training
from dushapley.games.model.game import ModelGame
from dushapley.games.model.scoring.scorer import constant_label
from dushapley.games.policy import Limits, Training, failure_cause
from dushapley.games.rows import RowsGame
from dushapley.hashing import sha256, whole_number

FORM = "diagnosis/3"
"""Part of the ledger's keys: another way to measure takes another name."""
KINDS = ("without", "alone", "apart", "usual")
"""Trained on all others, on the owner alone, told to tell whose rows are whose (once for a group of
owners); and, once, the usual models on everybody's rows."""
MOST_ROWS, MOST_TESTED = 2000, 20_000
"""Rows of an owner, and of all owners together, on which a model is judged."""
MOST_MATRIX = 60
"""Owners up to which each is judged on each."""
WIDEST = 250
"""Numbers that a ledger keeps to the last bit under one key."""


class Probes(Game):
    """Trainings by kind and owner: which player a query holds says what is measured.

    Players are the owners twice (``without`` and ``alone``), groups of owners (``apart``), and one
    for the usual models; `players` has them by kind.

    Parameters
    ----------
    base
        Game with rows whose owners are diagnosed.
    tolerance
        Miss up to which a number counts as predicted; None before it is known, and for classes.
    left_out
        Owners whose columns are in other units: a model trained on them would mislead about all.
    """

    block = 1

    def __init__(
        self,
        base: RowsGame,
        tolerance: float | None = None,
        left_out: frozenset[int] = frozenset(),
    ) -> None:
        self.base, self.tolerance, self.left_out = base, tolerance, left_out
        self.model = base if isinstance(base, ModelGame) else None
        n = base.n_players
        groups = -(-n // MOST_OWNERS)
        self.groups = [part.tolist() for part in np.array_split(np.arange(n), groups)]
        ends = np.cumsum([0, n, n, groups, 1]).tolist()
        self.players = [range(*pair) for pair in pairwise(ends)]
        names = [f"{kind} {k}" for kind, group in zip(KINDS, self.players, strict=True)
                 for k in range(len(group))]  # fmt: skip
        self._set_owners(None, names, len(names))
        limits = Limits() if base.training is None else base.training.limits
        self.training = Training(limits, deterministic=True)
        self.rows = [
            some_rows(f"{FORM} {hashed}", int(n), self._most)
            for hashed, n in zip(base.owners.hashes, base.sizes, strict=True)
        ]

    @property
    def _most(self) -> int:
        return max(20, min(MOST_ROWS, MOST_TESTED // self.base.n_players))

    def key(self, player: int, part: int = 0) -> bytes:
        """Under which the numbers of a probe are kept: what decides them beyond the context."""
        kind, place = self._asked(player)
        hashes = self.base.owners.hashes  # in their order: rows are joined, and numbers stand, so
        whose = hashes[place] if kind < 2 else str(place)
        about = f"{FORM} {KINDS[kind]} {whose} {part} {self.tolerance!r}"
        return sha256("\n".join([about, *hashes, "", *sorted(hashes[k] for k in self.left_out)]))

    def _asked(self, player: int) -> tuple[int, int]:
        """Kind of a probe, and the owner or group that it is of."""
        kind = next(k for k, group in enumerate(self.players) if player in group)
        return kind, self.players[kind].index(player)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Numbers of a probe, as its scores; one that fails says why, and never raises."""
        return Answers.of([self._outcome(int(np.argmax(query))) for query in queries])

    def failed(
        self, queries: Queries, error: BaseException, cure: str = "", hint: str = ""
    ) -> Answers:
        return Answers.of([Outcome(0.0, failure_cause(error)) for _ in queries])

    def _outcome(self, player: int) -> Outcome:
        kind, place = self._asked(player)
        try:
            ways = (self._without, self._alone, self._apart, self._usual)
            numbers = np.array(ways[kind](place), dtype=float)
            if not len(numbers) or not np.isfinite(numbers).all():
                return Outcome(0.0, "too few rows, or numbers without end")
            return Outcome(float(len(numbers)), scores=numbers)
        except (Exception, SystemExit) as error:
            return Outcome(0.0, failure_cause(error))

    def _without(self, owner: int) -> list[float]:
        """Score of a model of the others on the test set, and how it does on the owner's rows."""
        X, y = self._judged(owner)
        model = self.model
        assert model is not None

        def measured(fitted: Any, trained: Array) -> list[float]:
            if model.classes is None:
                return of_numbers(fitted, X, y, trained)
            return of_classes(fitted, X, y, model.classes, trained)

        others = np.arange(self.base.n_players) != owner
        usual = others & ~np.isin(np.arange(self.base.n_players), list(self.left_out))
        return self._trained(usual if usual.any() else others, measured)

    def _alone(self, owner: int) -> list[float]:
        """Score of a model of the owner's rows on the test set, and how it does on everybody's."""
        model, everybody = self.model, range(self.base.n_players)
        assert model is not None

        def measured(fitted: Any, _: Array) -> list[float]:
            on = [within(fitted, *self._judged(k), self.tolerance, model.classes)
                  for k in everybody]  # fmt: skip
            test = within(fitted, model.X_test, model.y_test, self.tolerance, model.classes)
            if len(on) <= MOST_MATRIX:
                return [*on, test]
            counts = np.array([len(rows) for rows in self.rows], dtype=np.float64)
            return [*mean_part(np.delete(on, owner), np.delete(counts, owner)), test]

        return self._trained(np.arange(self.base.n_players) == owner, measured)

    def _trained(self, members: Array, measure: Callable[[Any, Array], list[float]]) -> list[float]:
        """Train as the game does, and measure beside its score; `measure` is told the targets."""
        model = self.model
        assert model is not None
        counts = model.counts(members)
        X, y = model.pool(counts, None)
        weights = model.weights(counts, None)
        assert y is not None
        trained = y.copy()  # models may write into what they are given

        def score(fitted: Any) -> tuple[float, FloatArray | None]:
            value = float(model.scorer.value(fitted))
            value = value if model.at_least is None else max(value, model.nobody.value)
            return value, np.array([value, *measure(fitted, trained)])

        if model.classes is not None and y.ndim == 1 and bool((y == y[0]).all()):
            numbers = score(constant_label(y[0], model.classes))[1]
        else:
            name = model.keys(members[None], None)[0].hex()
            seed = whole_number(f"{model.seed} 0 {name}", 4)
            numbers = training.train(
                model._makers[0],
                (X, y),
                score,
                seed=seed,
                seconds=model.training.limits.timeout,
                options={} if weights is None else {model.weight_option: weights},
            ).score[1]
        assert numbers is not None
        return numbers.tolist()

    def _judged(self, owner: int) -> tuple[Rows, Array]:
        """Rows of an owner on which models are judged; models may write into them."""
        y = self.base.owners.y[owner]
        assert y is not None
        rows = self.rows[owner]
        return take(self.base.owners.X[owner], rows).copy(), y[rows].copy()

    def _apart(self, group: int) -> list[float]:
        """Areas under the curve of a forest that tells whose rows are whose."""
        members = self.groups[group]
        if len(members) < 2:
            return []
        each = min(MOST_OWN, max(40, MOST_TOGETHER // len(members)))
        blocks = [self.own_rows(owner, each) for owner in members]
        names = "\n".join(self.base.owners.hashes[owner] for owner in members)
        return told_apart(blocks, whole_number(names, 4) >> 1)

    def _usual(self, _: int) -> list[float]:
        """Of the usual models, by what trainings are left of three an owner."""
        return [] if self.model is None else scores_of_usual(self.model, self.n_left)

    @property
    def n_left(self) -> int:
        """Trainings that are left for the usual models, of three an owner."""
        return self.base.n_players - len(self.groups)

    def own_rows(self, owner: int, most: int) -> FloatArray:
        """Rows of an owner that nobody else has: copies cannot be told apart."""
        shared = np.isin(self.base.owners.row_hashes[owner], self._shared)
        unshared = np.flatnonzero(~shared)
        picked = some_rows(self.base.owners.hashes[owner], len(unshared), most)
        return as_numbers(take(self.base.owners.X[owner], unshared[picked]))

    @property
    def _shared(self) -> Array:
        """Hashes of rows that more than one owner holds."""
        held = np.concatenate([np.unique(rows) for rows in self.base.owners.row_hashes])
        values, counts = np.unique(held, return_counts=True)
        return np.asarray(values[counts > 1])
