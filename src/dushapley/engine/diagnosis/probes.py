"""The trainings of a diagnosis, as a game whose every question is one of them.

So executors run them like any other training, in workers and within the limits of the game, and
its ledger keeps what they came to: a few numbers each, to the last bit.

Whether another of the usual models would do better is asked of the owners' rows, never of the test
set. Rows of all owners together are cross-validated under the game's own model and under each
usual one, by the game's own score and on the same folds; so two models differ row by row, and a
note says so only where that is no chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Queries, Rows
from dushapley.data.owners import Owners
from dushapley.data.rows import is_table, joined, take
from dushapley.engine.diagnosis.agreement import mean_part, of_classes, of_numbers, within
from dushapley.engine.diagnosis.difference import (
    MOST_OWN,
    MOST_OWNERS,
    MOST_TOGETHER,
    as_numbers,
    some_rows,
    told_apart,
)
from dushapley.games.base import Answers, Game, Outcome
from dushapley.games.model import training
from dushapley.games.model.folds import FoldsGame
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
USUAL = {
    "classification": ("gbdt", "logistic", "knn"),
    "regression": ("gbdt", "ridge", "knn"),
}
"""Models that are tried beside the game's own, the most unlike first: few trainings try fewer."""
MOST_FOLDS, MOST_FOLDED = 3, 2000
CLEARLY, LEAST_BETTER = 3.0, 0.05
"""Standard errors, and part of what the own model gains, by which another is clearly better."""
NO_SCORE = -1e300
"""Stands for what could not be measured, where a ledger keeps nothing but numbers."""


class Probes(Game):
    """Trainings by kind and owner: which player a query holds says what is measured.

    Players are the owners twice (``without`` and ``alone``), groups of owners (``apart``), and one
    for the usual models; `players` has them by kind.

    Parameters
    ----------
    base
        Game with rows whose owners are diagnosed.

    Attributes
    ----------
    rows
        Rows of each owner on which models are judged.
    tolerance
        Miss up to which a number counts as predicted; None before it is known, and for classes.
    left_out
        Owners whose columns are in other units: a model trained on them would mislead about all.
    trainings
        How many each kind takes at most.
    """

    block = 1

    def __init__(self, base: RowsGame) -> None:
        self.base = base
        self.tolerance: float | None = None
        self.left_out = frozenset[int]()
        self.model = base if isinstance(base, ModelGame) else None
        n = base.n_players
        groups = -(-n // MOST_OWNERS)
        self.groups = [part.tolist() for part in np.array_split(np.arange(n), groups)]
        ends = np.cumsum([0, n, n, groups, 1]).tolist()
        self.players = [range(*pair) for pair in pairwise(ends)]
        pairs = zip(KINDS, self.players, strict=True)
        names = [f"{kind} {k}" for kind, group in pairs for k in range(len(group))]
        self._set_owners(None, names, len(names))
        limits = Limits() if base.training is None else base.training.limits
        self.training = Training(limits, deterministic=True)
        most = max(20, min(MOST_ROWS, MOST_TESTED // n))
        sized = zip(base.owners.hashes, base.sizes.tolist(), strict=True)
        self.rows = [some_rows(f"{FORM} {name}", int(size), most) for name, size in sized]
        self.n_rows = np.array([len(rows) for rows in self.rows], dtype=np.float64)
        self.n_left = n - groups  # for the usual models, of three an owner
        folds, others = tried(self.n_left)
        usual = folds * (1 + others) if others else 0
        self.trainings = (0, 0, groups, 0) if self.model is None else (n, n, groups, usual)

    def key(self, player: int, part: int = 0) -> bytes:
        """Under which the numbers of a probe are kept: what decides them beyond the context."""
        kind, place = self._asked(player)
        hashes = self.base.owners.hashes  # in their order: rows are joined, and numbers stand, so
        whose = hashes[place] if kind < 2 else str(place)
        about = f"{FORM} {KINDS[kind]} {whose} {part} {self.tolerance!r}"
        without = sorted(hashes[k] for k in self.left_out)
        return sha256("\n".join([about, *hashes, "", *without]))

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
        ways = (self._without, self._alone, self._apart, self._usual)
        try:
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

        everybody = np.arange(self.base.n_players)
        others = everybody != owner
        usual = others & ~np.isin(everybody, list(self.left_out))
        return self._trained(usual if usual.any() else others, measured)

    def _alone(self, owner: int) -> list[float]:
        """Score of a model of the owner's rows on the test set, and how it does on everybody's."""
        model, everybody = self.model, range(self.base.n_players)
        assert model is not None

        def measured(fitted: Any, _: Array) -> list[float]:
            how = self.tolerance, model.classes
            on = [within(fitted, *self._judged(k), *how) for k in everybody]
            test = within(fitted, model.X_test, model.y_test, *how)
            if len(on) <= MOST_MATRIX:
                return [*on, test]
            others, rows = np.delete(on, owner), np.delete(self.n_rows, owner)
            return [*mean_part(others, rows), test]

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
            if model.at_least is not None:
                value = max(value, model.nobody.value)
            return value, np.array([value, *measure(fitted, trained)])

        if model.classes is not None and y.ndim == 1 and bool((y == y[0]).all()):
            numbers = score(constant_label(y[0], model.classes))[1]
        else:
            name = model.keys(members[None], None)[0].hex()
            seed = whole_number(f"{model.seed} 0 {name}", 4)
            options = {} if weights is None else {model.weight_option: weights}
            (_, numbers), _ = training.train(
                model._makers[0],
                (X, y),
                score,
                seed=seed,
                seconds=model.training.limits.timeout,
                options=options,
            )
        assert numbers is not None
        return numbers.tolist()

    def _judged(self, owner: int) -> tuple[Rows, Array]:
        """Rows of an owner on which models are judged; models may write into them."""
        owners, rows = self.base.owners, self.rows[owner]
        y = owners.y[owner]
        assert y is not None
        return take(owners.X[owner], rows).copy(), y[rows].copy()

    def _apart(self, group: int) -> list[float]:
        """Areas under the curve of a forest that tells whose rows are whose."""
        members = self.groups[group]
        if len(members) < 2:
            return []
        each = min(MOST_OWN, max(40, MOST_TOGETHER // len(members)))
        owners, blocks = self.base.owners, []
        held = np.concatenate([np.unique(rows) for rows in owners.row_hashes])
        values, counts = np.unique(held, return_counts=True)
        copies = values[counts > 1]
        for owner in members:  # without rows that others hold, too: copies cannot be told apart
            own = np.flatnonzero(~np.isin(owners.row_hashes[owner], copies))
            picked = some_rows(owners.hashes[owner], len(own), each)
            blocks.append(as_numbers(take(owners.X[owner], own[picked])))
        names = "\n".join(owners.hashes[owner] for owner in members)
        return told_apart(blocks, whole_number(names, 4) >> 1)

    def _usual(self, _: int) -> list[float]:
        """Of the usual models, by what trainings are left of three an owner."""
        return [] if self.model is None else scores_of_usual(self.model, self.n_left)


def tried(n_trainings: int) -> tuple[int, int]:
    """Folds, and how many of the usual models can be tried beside the own, by so many trainings.

    Examples
    --------
    >>> [tried(n) for n in (3, 4, 6, 8, 12, 99)]
    [(2, 0), (2, 1), (2, 2), (2, 3), (3, 3), (3, 3)]
    """
    most = len(USUAL["classification"])
    folds = MOST_FOLDS if n_trainings >= MOST_FOLDS * (1 + most) else 2
    return folds, max(0, min(most, n_trainings // folds - 1))


def scores_of_usual(base: ModelGame, n_trainings: int) -> list[float]:
    """Score of the own model and its gain; of each usual one its score, lead, and error of that.

    Nothing where rows are of a kind that a model by name cannot be handed as they are, or where
    there are too few trainings.
    """
    folds, others = tried(n_trainings)
    owners, most = base.owners, max(1, MOST_FOLDED // base.n_players)
    X = owners.X[0]
    plain = not is_table(X) and X.dtype.kind in "biuf" and X.ndim == 2
    if not others or not plain or any(y is None or y.ndim > 1 for y in owners.y):
        return []
    rows, targets = [], []
    for j in base.order:  # some rows of everybody's, in the order of content
        some = some_rows(f"model {owners.hashes[j]}", int(base.sizes[j]), most)
        rows.append(take(owners.X[j], some))
        targets.append(np.asarray(owners.y[j])[some])
    pooled = Owners.from_arrays({"all": (joined(rows), np.concatenate(targets))})
    found = _tried(pooled, base, base.model, folds)
    if found is None:
        return []
    nobody, own = found
    numbers = [own.value, own.value - nobody.value]
    for name in USUAL[task_of(base)][:others]:
        other = _tried(pooled, base, name, folds)
        numbers += [NO_SCORE, 0.0, 0.0] if other is None else _lead(own, other[1])
    return numbers


def better_model(base: ModelGame, numbers: Sequence[float], n_trainings: int) -> str | None:
    """A note on the usual model that scores clearly higher on the owners' rows; None: none does."""
    if not len(numbers):
        return None
    own, gain = numbers[:2]
    score, name = NO_SCORE, ""
    for usual, place in zip(USUAL[task_of(base)], range(2, len(numbers), 3), strict=False):
        value, lead, error = numbers[place : place + 3]
        if value > score and lead > max(CLEARLY * error, LEAST_BETTER * abs(gain)):
            score, name = value, usual
    if not name:
        return None
    return (
        f"Another model would do better: {name} scores {score:.4g} in {tried(n_trainings)[0]}-fold "
        f"cross-validation of the owners' own rows, this one {own:.4g} ({base.scoring}). The test "
        f"set was not asked. --model A,{name} shows the values under both; the first named pays."
    )


def task_of(base: ModelGame) -> str:
    """Return what the game's model predicts: "classification" or "regression"."""
    return "regression" if base.classes is None else "classification"


def _tried(owners: Owners, base: ModelGame, model: Any, folds: int) -> list[Outcome] | None:
    """Nobody's and everybody's rows cross-validated under a model; None where that fails."""

    def make(own: Owners, X_test: Any, y_test: Any) -> ModelGame:
        task: Any = task_of(base) if isinstance(model, str) else "auto"
        return ModelGame(
            own, model, X_test, y_test, scoring=base.scoring, task=task, seed=base.seed
        )

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(FoldsGame(owners, make, folds).evaluate(np.array([[False], [True]]), None))
    except Exception:  # a usual model may lack what the score needs, or its package
        return None


def _lead(own: Outcome, found: Outcome) -> list[float]:
    """Score of a model, by how much it is ahead, and the error of that, row by row."""
    lead = found.value - own.value
    if found.scores is None or own.scores is None or len(found.scores) != len(own.scores):
        return [found.value, lead, abs(lead) / 2]  # of unknown error: not clearly
    away = found.scores - own.scores
    return [found.value, lead, float(away.std(ddof=1) / np.sqrt(len(away)))]
