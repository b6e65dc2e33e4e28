"""What an additive model is: how rows become sums, and sums a score.

And what such models share: many small symmetric systems solved at once, each to the same bits
whatever the others are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dushapley.arrays import EPSILON, Array, BoolArray, FloatArray, as_floats
from dushapley.data.summaries import Kind, Statistics
from dushapley.games.base import grouped

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

KEPT = 1e-10
"""What sums may lose of a variance to rounding, as a part of it."""
ROUNDED = 1e-9
"""What rounding may take of an eigenvalue, a penalty, a variance, or a mean beside what varies."""
ELIMINATE_UP_TO = 24
"""Unknowns up to which eliminating all systems side by side beats solving one after the other."""

Known = tuple[BoolArray, BoolArray]
"""Pools whose sums determine the model, and columns that are constant in them."""
Scored = tuple[FloatArray, Callable[[], FloatArray]]
"""Scores of pools, and what computes the coefficients of their scores by test row."""


class Additive(ABC):
    """A model that is trained from sums: how rows become sums, and sums a score.

    Subclasses work on pooled vectors with pools along the last axis, shape (K, m).

    A pool's scores by test row are ``basis @ coefficients``: few coefficients a pool where rows
    need not be looked at again, or (`basis` None) the scores themselves.

    Attributes
    ----------
    kind
        The statistics that it is trained from.
    most
        Pools taken at a time.
    reduce
        Makes statistics of one owner's name, rows and targets.
    width
        K, the numbers of a vector.
    """

    kind: ClassVar[Kind]
    most: int = 1024
    reduce: Callable[[str, Array, Any], Statistics]
    width: int

    def __init__(self, game: ModelGame) -> None:
        assert game.scorer.metric is not None
        self.game, self.metric = game, game.scorer.metric
        self.origin = as_floats(game.X_test).mean(axis=0)

    @property
    def basis(self) -> FloatArray | None:
        """Beside the coefficients of a pool, what its scores by test row are made of."""
        return None

    @abstractmethod
    def vector(self, statistics: Statistics) -> FloatArray:
        """Statistics as a vector around the common origin, in which pools are sums."""

    @abstractmethod
    def features(self, X: Array, y: Any) -> FloatArray:
        """What of each row goes into sums, shape (rows, numbers of a row)."""

    @abstractmethod
    def summed(self, features: FloatArray) -> FloatArray:
        """Sum up some rows' features to a vector."""

    @abstractmethod
    def known(self, pooled: FloatArray) -> Known:
        """Find the pools whose sums determine the model, provided that some columns are constant.

        These are the columns that matter and whose variance sums put at 0, shape (groups of rows,
        columns, m). Where one varies after all, rounding has taken its variance. Models of other
        pools have to be fitted on rows.
        """

    def extent(self, X: Array, y: Any) -> Array:
        """Least and largest value of each column by group, shape (2, groups, columns)."""
        return np.array([[X.min(axis=0)], [X.max(axis=0)]])

    def fitted(self, X: Array, y: Any) -> tuple[float, FloatArray]:
        """Fit the model on rows: its score, and its coefficients as `scored` has them."""
        from sklearn.base import clone

        value, rows = self.game.scorer(clone(self.game.model).fit(X, y))
        return value, np.empty(0) if rows is None else grouped(rows)

    @abstractmethod
    def scored(self, pooled: FloatArray, known: BoolArray) -> Scored:
        """Score pools that are not empty; `known` marks those whose sums determine the model.

        The second entry computes the coefficients of their scores by test row, shape
        (coefficients, m).
        """

    def judged(self, responses: Iterable[Array]) -> Scored:
        """Score the responses of models to the test rows, row by row."""
        target = self.game.scorer.target
        rows = np.stack([self.metric.rows(target, response) for response in responses])
        return rows.mean(axis=1), partial(grouped, rows.T)


def diagonals(systems: FloatArray) -> FloatArray:
    """View the diagonals of m square matrices, shape (p, m)."""
    return np.einsum("iim->im", systems)


def unscaled(systems: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bring m symmetric systems to ones on the diagonal: these, and the factors of their rows."""
    spread = np.sqrt(np.maximum(diagonals(systems), 0.0))
    factors = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    return systems * factors[:, None] * factors, factors


def least_pivots(systems: FloatArray) -> FloatArray:
    """What elimination leaves of the diagonals of m systems, at least, as a part of them.

    In any units: 1 where columns have nothing to do with each other, 0 where one follows from
    those before it.
    """
    p = len(systems)
    lift = 10 * p * EPSILON  # rounding must not end it
    lifted = np.moveaxis(unscaled(systems)[0], 2, 0) + lift * np.eye(p)
    pivots = np.diagonal(np.linalg.cholesky(lifted), axis1=1, axis2=2)
    return pivots.min(axis=1) ** 2


def known_variances(
    squares: FloatArray, sums: FloatArray, rows: FloatArray, origin: FloatArray | float = 0.0
) -> FloatArray:
    """Variances from sums around `origin`; 0 where sums cannot tell them from rounding.

    Those that a `StandardScaler` takes for 0 are among them.
    """
    shift, second = sums / rows, squares / rows
    variances = second - shift**2
    noise = rows * EPSILON * np.abs(variances) + (rows * (shift + origin) * EPSILON) ** 2
    # the sums themselves are known to a few units in their last place only
    return np.where(variances <= noise + 8 * EPSILON * second, 0.0, variances)


def solve(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m positive definite systems; shapes (p, p, m) and (p, k, m), pools along the last axis.

    Small systems are eliminated side by side, element by element over the pools; larger ones go to
    LAPACK one by one. Which it is depends on p alone.
    """
    p = len(systems)
    if p > ELIMINATE_UP_TO:
        return np.moveaxis(_solve_each(np.moveaxis(systems, 2, 0), np.moveaxis(right, 2, 0)), 0, 2)
    left, known = systems.copy(), right.copy()
    for k in range(p):
        ratio = left[k + 1 :, k] / left[k, k]
        left[k + 1 :, k + 1 :] -= ratio[:, None] * left[k, k + 1 :]
        known[k + 1 :] -= ratio[:, None] * known[k]
    for k in reversed(range(p)):
        known[k] -= (left[k, k + 1 :, None] * known[k + 1 :]).sum(axis=0)
        known[k] /= left[k, k]
    return known


def _solve_each(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m systems, shapes (m, p, p) and (m, p, k); NaN for those that have no solution."""
    try:
        return as_floats(np.linalg.solve(systems, right))
    except np.linalg.LinAlgError:
        if len(systems) == 1:
            return np.full(right.shape, np.nan)
        return np.concatenate(list(map(_solve_each, systems[:, None], right[:, None])))


def least_norm(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m semi-definite systems by their shortest solutions; shapes as in `solve`.

    Directions whose eigenvalue is below p·ε of the largest are rounding error and left out.
    """
    values, vectors = np.linalg.eigh(np.moveaxis(systems, 2, 0))
    cut = len(systems) * EPSILON * np.abs(values).max(axis=1, keepdims=True)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > cut)
    inside = np.swapaxes(vectors, 1, 2) @ np.moveaxis(right, 2, 0)
    return np.moveaxis(vectors @ (inverse[:, :, None] * inside), 0, 2)
