"""Regressions from sums: least squares, ridge and the regressogram."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.summaries import Statistics, bin_statistics, regression_statistics
from dushapley.errors import InvalidGame
from dushapley.games.model.additive.model import Additive, least_norm, solve

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

EPSILON = float(np.finfo(np.float64).eps)
ERROR_SCORES = ("neg_mean_squared_error", "neg_root_mean_squared_error", "r2")
"""Scores that are functions of the mean squared error."""


def error_score(scoring: str, mse: FloatArray, variance: float) -> FloatArray:
    """One of `ERROR_SCORES`, given the variance of the test targets."""
    if scoring == "r2":
        return 1 - mse / variance
    return -mse if scoring == "neg_mean_squared_error" else -np.sqrt(mse)


class LinearModel(Additive):
    r"""Least squares and ridge regression from one matrix of moments.

    With z = (1, x − o, y − o_y) an owner is M_j = Σ zz'. A pool's coefficients solve

    .. math:: (M_{xx} + \alpha D)\,\beta = M_{xy}, \quad D = \mathrm{diag}(0, 1, \dots, 1)

    (α = `alpha`; the intercept is free; behind a `StandardScaler` D holds the pool's variances
    instead of ones), and its mean squared error on the test set with moments T
    is :math:`b^\top T b / n`, b = (β, −1): the test rows are not looked at again.
    """

    kind = "regression"

    def __init__(
        self, game: ModelGame, alpha: float, *, intercept: bool, standardised: bool = False
    ) -> None:
        super().__init__(game)
        self.alpha, self.intercept, self.standardised = alpha, intercept, standardised
        y = np.asarray(game.y_test, dtype=np.float64)
        self.around = np.append(self.origin, y.mean()) * intercept
        self.test = self.reduce("test", game.X_test, y)
        self.moments = self._matrix(self.test)
        self.variance = float(y.var())

    def reduce(self, name: str, X: Array, y: Array) -> Statistics:
        return regression_statistics(name, X, y)

    def vector(self, statistics: Statistics) -> FloatArray:
        return self._matrix(statistics).ravel()

    def _matrix(self, statistics: Statistics) -> FloatArray:
        n, shift = statistics.n_rows, statistics.arrays["mean"] - self.around
        inner = statistics.arrays["scatter"] + n * np.outer(shift, shift)
        return np.block([[np.array(float(n)), n * shift], [n * shift[:, None], inner]])

    def scores(self, pooled: FloatArray) -> FloatArray:
        beta = self._coefficients(pooled.reshape(*self.moments.shape, -1))
        if self.game.scoring in ERROR_SCORES:
            b = np.vstack([beta, np.full((1, beta.shape[1]), -1.0)])
            mse = (b * (self.moments @ b)).sum(axis=0) / self.test.n_rows
            return error_score(self.game.scoring, np.maximum(mse, 0.0), self.variance)
        return self._row_scores(beta)

    def _coefficients(self, M: FloatArray) -> FloatArray:
        if self.alpha == 0:
            return self._least_squares(M)
        first = 0 if self.intercept else 1
        left = M[first:-1, first:-1].copy()
        inner = np.arange(1 - first, len(left))
        left[inner, inner] += self.alpha * (self._variances(M) if self.standardised else 1.0)
        beta = np.zeros((len(M) - 1, M.shape[2]))
        beta[first:] = solve(left, M[first:-1, -1:])[:, 0]
        return beta

    def _variances(self, M: FloatArray) -> FloatArray:
        """Variance of each feature in each pool; 1 where a feature does not vary, as scalers do."""
        n, k = M[0, 0], np.arange(1, len(M) - 1)
        shift = M[0, 1:-1] / n
        variance = M[k, k] / n - shift**2
        mean = shift + self.around[:-1, None]
        noise = n * EPSILON * np.abs(variance) + (n * mean * EPSILON) ** 2
        # the moments themselves are known to a few units in their last place only
        noise = noise + 8 * EPSILON * M[k, k] / n
        return np.where(variance <= noise, 1.0, variance)

    def _least_squares(self, M: FloatArray) -> FloatArray:
        """Shortest solution around the pool's own mean, as least squares with too few rows has."""
        n, sums = M[0, 0], M[0, 1:] * self.intercept
        centred = M[1:, 1:] - sums[:, None] * sums / n
        slopes = least_norm(centred[:-1, :-1], centred[:-1, -1:])[:, 0]
        level = (sums[-1] - (slopes * sums[:-1]).sum(axis=0)) / n
        return np.vstack([level[None], slopes])

    def _row_scores(self, beta: FloatArray) -> FloatArray:
        """Scores that are not a function of moments: predict the test rows."""
        scorer = self.game.scorer
        assert scorer.metric is not None
        shifted = np.asarray(self.game.X_test) - self.around[:-1]
        predicted = np.column_stack([np.ones(len(shifted)), shifted]) @ beta + self.around[-1]
        return np.array([scorer.metric.rows(scorer.target, p).mean() for p in predicted.T])


class Bins(Additive):
    """A regressogram: the mean target of the bin a row falls into, from counts and sums.

    A bin without rows predicts the mean of the whole pool. The test error comes from the test
    set's own counts, sums and squares.
    """

    kind = "bins"

    def __init__(self, game: ModelGame, edges: FloatArray, column: int) -> None:
        super().__init__(game)
        self.edges, self.column = edges, column
        y = np.asarray(game.y_test, dtype=np.float64)
        self.level, self.variance = float(y.mean()), float(y.var())
        self.test = self.reduce("test", np.asarray(game.X_test), y)

    def reduce(self, name: str, X: Array, y: Array) -> Statistics:
        return bin_statistics(name, X, y, self.edges, self.column)

    def vector(self, statistics: Statistics) -> FloatArray:
        same = np.array_equal(statistics.arrays["edges"], self.edges)
        if not same or int(statistics.arrays["column"]) != self.column:
            raise InvalidGame(
                f"Statistics of {statistics.name!r} were made with other bins than the model's. "
                "Write them anew with the model that is to be valued."
            )
        counts, means = statistics.arrays["counts"], statistics.arrays["means"]
        return np.concatenate([counts, counts * (means - self.level)])

    def scores(self, pooled: FloatArray) -> FloatArray:
        counts, sums = np.split(pooled, 2)
        overall = sums.sum(axis=0) / counts.sum(axis=0)
        predicted = np.where(counts > 0, sums / np.where(counts > 0, counts, 1), overall)
        there = self.test.arrays
        away = predicted - (there["means"] - self.level)[:, None]
        errors = there["counts"] @ away**2 + there["squares"].sum()
        return error_score(self.game.scoring, errors / self.test.n_rows, self.variance)
