"""The trainings of a diagnosis, as a game whose every question is one of them.

So executors run them like any other training, in workers and within the limits of the game, and
its ledger keeps what they came to: a few numbers each, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Queries, Rows
from dushapley.data.rows import take
from dushapley.engine.diagnosis.agreement import of_classes, of_numbers, within
from dushapley.engine.diagnosis.difference import (
    LEAST_ROWS,
    MOST_OTHERS,
    MOST_OWN,
    as_numbers,
    some_rows,
    told_apart,
)
from dushapley.engine.diagnosis.models import scores_of_usual
from dushapley.games.base import Game, Outcome
from dushapley.games.model import training
from dushapley.games.model.game import ModelGame
from dushapley.games.model.scoring.scorer import constant_label
from dushapley.games.rows import RowsGame
from dushapley.hashing import sha256, whole_number

FORM = "diagnosis/2"
"""Part of the ledger's keys: another way to measure takes another name."""
KINDS = ("without", "alone", "apart", "usual")
"""Trained on all others, on the owner alone, told to tell its rows from the others'; and, once,
the usual models on everybody's rows."""
MOST_ROWS, MOST_TESTED = 2000, 20_000
"""Rows of an owner, and of all owners together, on which a model is judged."""
MOST_MATRIX = 60
"""Owners up to which each is judged on each."""
WIDEST = 250
"""Numbers that a ledger keeps to the last bit under one key."""


class Probes(Game):
    """Trainings by kind and owner: player ``kind·I + i`` of a query is what is measured.

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
        names = [f"{kind} {name}" for kind in KINDS[:3] for name in base.names]
        self._set_owners(None, [*names, "usual models"], len(names) + 1)
        self.limits = base.limits
        self.rows = [
            some_rows(f"{FORM} {hashed}", int(n), self._most)
            for hashed, n in zip(base.owners.hashes, base.sizes, strict=True)
        ]

    @property
    def _most(self) -> int:
        return max(20, min(MOST_ROWS, MOST_TESTED // self.base.n_players))

    def key(self, player: int, part: int = 0) -> bytes:
        """Under which the numbers of a probe are kept: what decides them beyond the context."""
        kind, owner = divmod(player, self.base.n_players)
        hashes = self.base.owners.hashes  # in their order: rows are joined, and numbers stand, so
        about = f"{FORM} {KINDS[kind]} {hashes[owner]} {part} {self.tolerance!r}"
        return sha256("\n".join([about, *hashes, "", *sorted(hashes[k] for k in self.left_out)]))

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        return np.array([outcome.value for outcome in self.outcomes(queries, draws)])

    def outcomes(
        self, queries: Queries, draws: IntArray | None, twice: bool = False
    ) -> list[Outcome]:
        """Numbers of each probe, as scores; one that fails says why, and never raises."""
        return [self._outcome(int(np.argmax(query))) for query in queries]

    def failed(self, queries: Queries, error: Exception) -> list[Outcome]:
        return [Outcome(0.0, training.failure_cause(error)) for _ in queries]

    def _outcome(self, player: int) -> Outcome:
        kind, owner = divmod(player, self.base.n_players)
        try:
            ways = (self._without, self._alone, self._apart, self._usual)
            numbers = np.array(ways[kind](owner), dtype=float)
            if not len(numbers) or not np.isfinite(numbers).all():
                return Outcome(0.0, "too few rows, or numbers without end")
            return Outcome(float(len(numbers)), scores=numbers)
        except (Exception, SystemExit) as error:
            return Outcome(0.0, training.failure_cause(error))

    def _without(self, owner: int) -> list[float]:
        """Score of a model of the others on the test set, and how it does on the owner's rows."""
        X, y = self._judged(owner)
        model = self.model
        assert model is not None

        def measured(fitted: Any) -> list[float]:
            if model.classes is None:
                return of_numbers(fitted, X, y)
            return of_classes(fitted, X, y, model.classes)

        others = np.arange(self.base.n_players) != owner
        usual = others & ~np.isin(np.arange(self.base.n_players), list(self.left_out))
        return self._trained(usual if usual.any() else others, measured)

    def _alone(self, owner: int) -> list[float]:
        """Score of a model of the owner's rows on the test set, and how it does on everybody's."""
        model, everybody = self.model, range(self.base.n_players)
        assert model is not None

        def measured(fitted: Any) -> list[float]:
            on = [within(fitted, *self._judged(k), self.tolerance, model.classes)
                  for k in everybody]  # fmt: skip
            test = within(fitted, model.X_test, model.y_test, self.tolerance, model.classes)
            if len(on) <= MOST_MATRIX:
                return [*on, test]
            return [float(np.mean([share for k, share in enumerate(on) if k != owner])), test]

        return self._trained(np.arange(self.base.n_players) == owner, measured)

    def _trained(self, members: Array, measure: Callable[[Any], list[float]]) -> list[float]:
        """Train as the game does, and measure beside its score."""
        model = self.model
        assert model is not None
        counts = model.counts(members)
        X, y = model.pool(counts, None)
        weights = model.weights(counts, None)
        assert y is not None

        def score(fitted: Any) -> tuple[float, FloatArray | None]:
            value = float(model.scorer.value(fitted))
            value = value if model.at_least is None else max(value, model.nobody.value)
            return value, np.array([value, *measure(fitted)])

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
                seconds=self.limits.timeout,
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

    def _apart(self, owner: int) -> list[float]:
        """Area under the curve of a classifier of the owner's rows against the others'."""
        own = self.own_rows(owner)
        if len(own) < LEAST_ROWS:
            return []
        others = [k for k in range(self.base.n_players) if k != owner]
        each = max(1, MOST_OTHERS // len(others))
        blocks = [as_numbers(self._rows(k, each, "other")) for k in others]
        name = self.base.owners.hashes[owner]
        return told_apart(own, np.concatenate(blocks), whole_number(name, 4) >> 1)

    def _usual(self, owner: int) -> list[float]:
        """Of the usual models, whoever asks."""
        del owner
        return [] if self.model is None else scores_of_usual(self.model)

    def own_rows(self, owner: int) -> FloatArray:
        """Rows of an owner that nobody else has: copies cannot be told apart."""
        hashes = self.base.owners.row_hashes
        rest = [rows for k, rows in enumerate(hashes) if k != owner]
        unshared = np.flatnonzero(~np.isin(hashes[owner], np.concatenate(rest)))
        picked = some_rows(self.base.owners.hashes[owner], len(unshared), MOST_OWN)
        return as_numbers(take(self.base.owners.X[owner], unshared[picked]))

    def _rows(self, owner: int, most: int, why: str) -> Any:
        name, size = self.base.owners.hashes[owner], int(self.base.sizes[owner])
        return take(self.base.owners.X[owner], some_rows(f"{why} {name}", size, most))
