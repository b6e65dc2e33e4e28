"""Would another of the usual models do better? Asked of the owners' rows, never of the test set.

Rows of all owners together are cross-validated under the game's own model and under each usual
one, by the game's own score and on the same folds; so two models differ row by row, and a note says
so only where that is no chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dushapley.data.owners import Owners
from dushapley.data.rows import is_table, joined, take
from dushapley.engine.diagnosis.difference import some_rows
from dushapley.games.base import Outcome
from dushapley.games.model.folds import FoldsGame
from dushapley.games.model.game import ModelGame

USUAL = {
    "classification": ("gbdt", "logistic", "knn"),
    "regression": ("gbdt", "ridge", "knn"),
}
"""Models that are tried beside the game's own, the most unlike first: few trainings try fewer."""
MOST_FOLDS, MOST_ROWS = 3, 2000
CLEARLY, LEAST_BETTER = 3.0, 0.05
"""Standard errors, and part of what the own model gains, by which another is clearly better."""
UNKNOWN = -1e300
"""Stands for what could not be measured, where a ledger keeps nothing but numbers."""


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
    X, y = base.owners.X, base.owners.y
    plain = not is_table(X[0]) and X[0].dtype.kind in "biuf" and X[0].ndim == 2
    if not others or not plain or any(part is None or part.ndim > 1 for part in y):
        return []
    pooled = _some_of_all(base)
    own = _tried(pooled, base, base.model, folds)
    if own is None:
        return []
    numbers = [own[1].value, own[1].value - own[0].value]
    for name in usual(base)[:others]:
        numbers += _lead(own[1], _tried(pooled, base, name, folds))
    return numbers


def better_model(base: ModelGame, numbers: Sequence[float], n_trainings: int) -> str | None:
    """A note on the usual model that scores clearly higher on the owners' rows; None: none does."""
    if not len(numbers):
        return None
    own, gain = numbers[:2]
    folds = tried(n_trainings)[0]
    found = zip(usual(base), np.reshape(numbers[2:], (-1, 3)).tolist(), strict=False)
    better = {
        name: score
        for name, (score, lead, error) in found
        if score > UNKNOWN and lead > CLEARLY * error and lead > LEAST_BETTER * abs(gain)
    }
    if not better:
        return None
    name = max(better, key=lambda one: better[one])
    return (
        f"Another model would do better: {name} scores {better[name]:.4g} in {folds}-fold "
        f"cross-validation of the owners' own rows, this one {own:.4g} ({base.scoring}). The test "
        f"set was not asked. --model A,{name} shows the values under both; the first named pays."
    )


def usual(base: ModelGame) -> tuple[str, ...]:
    """Names of the usual models for the game's task."""
    return USUAL["regression" if base.classes is None else "classification"]


def _some_of_all(base: ModelGame) -> Owners:
    """One owner of some rows of everybody's, in the order of content."""
    owners, most = base.owners, max(1, MOST_ROWS // base.n_players)
    picked = [some_rows(f"model {owners.hashes[j]}", int(base.sizes[j]), most) for j in base.order]
    pairs = list(zip(base.order, picked, strict=True))
    X = joined([take(owners.X[j], rows) for j, rows in pairs])
    y = np.concatenate([np.asarray(owners.y[j])[rows] for j, rows in pairs])
    return Owners.from_arrays({"all": (X, y)})


def _tried(owners: Owners, base: ModelGame, model: Any, folds: int) -> list[Outcome] | None:
    """Nobody's and everybody's rows cross-validated under a model; None where that fails."""

    def make(own: Owners, X_test: Any, y_test: Any) -> ModelGame:
        task = "regression" if base.classes is None else "classification"
        named = {"task": task} if isinstance(model, str) else {}
        how: dict[str, Any] = {"scoring": base.scoring, "seed": base.seed, **named}
        return ModelGame(own, model, X_test, y_test, **how)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pools = np.array([[False], [True]])
            return list(FoldsGame(owners, make, folds).evaluate(pools, None))
    except Exception:  # a usual model may lack what the score needs, or its package
        return None


def _lead(own: Outcome, other: list[Outcome] | None) -> list[float]:
    """Score of a model, by how much it is ahead, and the error of that, row by row."""
    if other is None:
        return [UNKNOWN, 0.0, 0.0]
    found, lead = other[1], other[1].value - own.value
    if found.scores is None or own.scores is None or len(found.scores) != len(own.scores):
        return [found.value, lead, abs(lead) / 2]  # of unknown error: not clearly
    away = found.scores - own.scores
    return [found.value, lead, float(away.std(ddof=1) / np.sqrt(len(away)))]
