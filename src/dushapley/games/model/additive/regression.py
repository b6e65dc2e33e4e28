"""Regressions from sums: least squares, ridge and the regressogram."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import EPSILON, Array, BoolArray, FloatArray, IntArray, as_floats
from dushapley.data.summaries import Statistics, bin_statistics, regression_statistics
from dushapley.errors import InvalidGame
from dushapley.games.base import MOST_SCORES, grouped
from dushapley.games.model.additive.model import (
    ELIMINATE_UP_TO,
    ROUNDED,
    Additive,
    Known,
    Scored,
    diagonals,
    known_variances,
    least_norm,
    least_pivots,
    solve,
    unscaled,
)

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

SOUND, SPANNED, PIVOT = 1e-6, 1e-10, 1e-5
"""From which on sums determine a solution. Least squares: the least eigenvalue of a system with
ones on its diagonal, and a lower bound of that of the system itself beside its largest. Ridge: what
elimination leaves of the diagonal."""
ERROR_SCORES = ("neg_mean_squared_error", "neg_root_mean_squared_error", "r2")
"""Scores that are functions of the mean squared error."""


def error_scores(scoring: str, mse: FloatArray, variance: float) -> tuple[FloatArray, ...]:
    """One of `ERROR_SCORES`, and by test row as a + b·e² + c·(y − ȳ)², e the row's error: a, b, c.

    As in `dushapley.games.model.scoring.scorer`: the influence of a row on the score. Of a mean of
    squared errors and the `variance` of the test targets it makes the score.
    """
    fixed, around, error = np.zeros_like(mse), np.zeros_like(mse), -np.ones_like(mse)
    if scoring == "r2":
        fixed, around, error = 1 - mse / variance, mse / variance**2, error / variance
    elif scoring == "neg_root_mean_squared_error":
        root = np.sqrt(np.where(mse > 0, mse, 0.25))
        fixed, error = np.where(mse > 0, -root / 2, 0.0), -0.5 / root
    return fixed + error * mse + around * variance, fixed, error, around


class LinearModel(Additive):
    r"""Least squares and ridge regression from one matrix of moments.

    With z = (1, x − o, y − o_y) an owner is M_j = Σ zz'. A pool's coefficients solve

    .. math:: (M_{xx} + \alpha D)\,\beta = M_{xy}, \quad D = \mathrm{diag}(0, 1, \dots, 1)

    (α = `alpha`; the intercept is free; behind a `StandardScaler` D holds the pool's variances
    instead of ones), and its mean squared error on the test set with moments T
    is :math:`b^\top T b / n`, b = (β, −1): the test rows are not looked at again. The error of
    row r is the quadratic form :math:`b^\top z_r z_r^\top b`, so the scores by row have as many
    coefficients as b has pairs of entries.
    """

    kind = "regression"

    def __init__(
        self, game: ModelGame, alpha: float, *, intercept: bool, standardised: bool = False
    ) -> None:
        super().__init__(game)
        self.alpha, self.intercept, self.standardised = alpha, intercept, standardised
        y = as_floats(game.y_test)
        self.around = np.append(self.origin, y.mean()) * intercept
        if len(self.around) > ELIMINATE_UP_TO:
            self.most = 128  # solved one after the other: filling up a larger block costs more
        self.reduce, self.variance = regression_statistics, float(y.var())
        self.rows = self.features(game.X_test, y)
        self.squares = (y - y.mean()) ** 2
        self.width = self.rows.shape[1] ** 2

    @cached_property
    def moments(self) -> FloatArray:
        """Moments T of the test set."""
        statistics = self.reduce("test", self.game.X_test, self.game.y_test)
        return self.vector(statistics).reshape(-1, self.rows.shape[1])

    @cached_property
    def basis(self) -> FloatArray | None:
        """Of the scores by row: ones, squares of the targets, and products of entries of rows."""
        p, most = self.rows.shape[1], min(len(self.rows), MOST_SCORES)
        if self.game.scoring not in ERROR_SCORES or p * (p + 1) // 2 >= most:
            return None
        columns = [grouped(np.column_stack([np.ones(len(self.rows)), self.squares]))]
        for a, row in enumerate(self.rows.T):
            factors = np.where(np.arange(a, p) == a, 1.0, 2.0)
            columns.append(grouped(row[:, None] * self.rows[:, a:] * factors))
        return np.concatenate(columns, axis=1)

    def vector(self, statistics: Statistics) -> FloatArray:
        n, shift = statistics.n_rows, statistics.arrays["mean"] - self.around
        inner = statistics.arrays["scatter"] + n * np.outer(shift, shift)
        return np.block([[np.array(float(n)), n * shift], [n * shift[:, None], inner]]).ravel()

    def summed(self, features: FloatArray) -> FloatArray:
        return (features.T @ features).ravel()

    def features(self, X: Array, y: Any) -> FloatArray:
        """Rows z = (1, x − o, y − o_y)."""
        return np.column_stack([np.ones(len(y)), np.column_stack([X, y]) - self.around])

    def known(self, pooled: FloatArray) -> Known:
        """Columns that do not follow from each other; what is made of others, sums do not tell."""
        M = self._square(pooled)
        squares, variances = diagonals(M)[1:-1], self._variances(M)
        if self.alpha:
            penalty = self._penalty(M)
            known = (penalty / (squares + penalty)).min(axis=0) > PIVOT  # elimination leaves more
            known[~known] = least_pivots(self._penalised(M[:, :, ~known])) > PIVOT
            # of few rows scikit-learn solves XX' + α, where the largest unit rounds most
            rounding = EPSILON * (squares / (penalty / self.alpha)).sum(axis=0)
            known &= (M[0, 0] > len(squares)) | (rounding <= ROUNDED * self.alpha)
        else:
            known = self._is_of_full_rank(M)
        if self.intercept:  # statistics hold means, whose last digits are of their own size
            means = M[0, 1:] / M[0, 0] + self.around[:, None]
            spread = np.append(variances, [M[-1, -1] / M[0, 0] + self.variance], axis=0)
            kept = (spread == 0) | (EPSILON * np.abs(means) <= ROUNDED * np.sqrt(spread))
        else:  # sums around 0 do not tell rows apart that are far from it
            within = squares - pooled[1 : len(self.around)] ** 2 / M[0, 0]
            kept = EPSILON * squares <= ROUNDED * within
        return known & kept.all(axis=0), (variances == 0)[None] & self.standardised

    def _is_of_full_rank(self, moments: FloatArray) -> BoolArray:
        centred = self._centred(moments)
        scaled, factors = unscaled(centred[:-1, :-1])
        lowest = np.linalg.eigvalsh(np.moveaxis(scaled, 2, 0))[:, 0]
        within = diagonals(centred).copy()
        within[-1] += len(self.rows) * self.variance
        # scikit-learn leaves out singular values below 1e-6 of the largest, in the columns' units
        lost = EPSILON * (diagonals(moments)[1:] / within).max(axis=0)  # to centring
        spanned = lowest / (factors**2).max(axis=0) / (1 / factors**2).sum(axis=0)
        known = (lowest > SOUND) & (lost <= ROUNDED * lowest)
        return known & (spanned > SPANNED)

    def fitted(self, X: Array, y: Any) -> tuple[float, FloatArray]:
        from sklearn.base import clone

        model = clone(self.game.model).fit(X, y)
        scaler, line = model if self.standardised else (None, model)
        slopes, level = as_floats(line.coef_), float(line.intercept_)
        if scaler is not None:
            slopes = slopes / scaler.scale_
            level -= float(slopes @ scaler.mean_)
        level += float(slopes @ self.around[:-1]) - float(self.around[-1])
        b = np.concatenate([[level], slopes, [-1.0]])[:, None]
        return self.game.scorer.value(model), self._scored(b)[1]()[:, 0]  # large slopes would round

    def scored(self, pooled: FloatArray, known: BoolArray) -> Scored:
        M = self._square(pooled)
        if self.alpha:
            beta = solve(self._penalised(M), M[:-1, -1:])[:, 0]
        else:  # the shortest around the pool's own mean; the only one is found in any units
            centred, sums = self._centred(M), M[0, 1:]
            left, right = centred[:-1, :-1], centred[:-1, -1:]
            systems, factors = unscaled(left[:, :, known])
            only = solve(systems, right[:, :, known] * factors[:, None])[:, 0]
            slopes = np.empty((len(left), M.shape[2]))
            slopes[:, known] = only * factors
            slopes[:, ~known] = least_norm(left[:, :, ~known], right[:, :, ~known])[:, 0]
            level = (sums[-1] - (slopes * sums[:-1]).sum(axis=0)) / M[0, 0]
            beta = np.vstack([level[None], slopes])
        return self._scored(np.vstack([beta, np.full((1, beta.shape[1]), -1.0)]))

    def _scored(self, b: FloatArray) -> Scored:
        """Score b = (β, −1) of every pool; the second entry computes coefficients by row."""
        if self.game.scoring not in ERROR_SCORES:  # not a function of moments: predict rows
            return self.judged((self.rows[:, :-1].copy() @ b[:-1] + self.around[-1]).T)
        mse = (b * (self.moments @ b)).sum(axis=0) / len(self.rows)
        parts = np.diagonal(self.moments) @ b**2 / len(self.rows)
        for k in np.flatnonzero(mse <= 1e-6 * parts).tolist():  # moments all but cancel
            mse[k] = np.mean((self.rows @ b[:, k]) ** 2)
        mse = np.maximum(mse, 0.0)
        values, fixed, error, around = error_scores(self.game.scoring, mse, self.variance)

        def by_row() -> FloatArray:
            if self.basis is None:
                squares = around * self.squares[:, None]
                return grouped(fixed + error * (self.rows @ b) ** 2 + squares)
            first, second = np.triu_indices(len(b))
            return np.vstack([fixed, around, error * b[first] * b[second]])

        return values, by_row

    def _square(self, pooled: FloatArray) -> FloatArray:
        """Return vectors as matrices of moments, shape (p, p, m); no sums without intercept."""
        M = pooled.reshape(len(self.rows.T), -1, pooled.shape[1])
        if not self.intercept:
            M = M.copy()
            M[0, 1:] = M[1:, 0] = 0.0
        return M

    def _penalised(self, M: FloatArray) -> FloatArray:
        """The systems of ridge regressions."""
        left = M[:-1, :-1].copy()
        diagonals(left)[1:] += self._penalty(M)
        return left

    def _penalty(self, M: FloatArray) -> FloatArray | float:
        if not self.standardised:
            return self.alpha
        variances = self._variances(M)
        return self.alpha * np.where(variances > 0, variances, 1.0)  # as scalers have it

    def _variances(self, M: FloatArray) -> FloatArray:
        """Variance of each feature in each pool; 0 where sums cannot tell it from rounding."""
        squares, sums = diagonals(M)[1:-1], M[0, 1:-1]
        return known_variances(squares, sums, M[0, 0], self.around[:-1, None])

    def _centred(self, M: FloatArray) -> FloatArray:
        """Moments of (x, y) around the pool's own mean; no mean, no intercept."""
        return M[1:, 1:] - M[1:, :1] * M[:1, 1:] / M[0, 0]


class Bins(Additive):
    """A regressogram: the mean target of the bin a row falls into, from counts and sums.

    A bin without rows predicts the mean of the whole pool. The test error comes from the test
    set's own counts, sums and squares; by row it is e² = p² − 2py + y² with p the bin's prediction.
    """

    kind = "bins"

    def __init__(self, game: ModelGame, edges: FloatArray, column: int) -> None:
        super().__init__(game)
        self.edges, self.column = edges, column
        self.reduce = partial(bin_statistics, edges=edges, column=column)
        self.width = 2 * (len(edges) + 1)
        y = as_floats(game.y_test)
        self.level, self.variance = float(y.mean()), float(y.var())
        self.test = self.reduce("test", np.asarray(game.X_test), y)

    @cached_property
    def basis(self) -> FloatArray:
        """Of the scores by row: ones, squares of the targets, and both by bin."""
        X = as_floats(self.game.X_test)
        around = as_floats(self.game.y_test) - self.level
        inside = (self._codes(X)[:, None] == np.arange(len(self.edges) + 1)).astype(np.float64)
        levels = np.column_stack([np.ones(len(X)), around**2])
        return grouped(np.column_stack([levels, inside, -2 * around[:, None] * inside]))

    def _codes(self, X: Array) -> IntArray:
        return np.searchsorted(self.edges, X[:, self.column], side="right")

    def features(self, X: Array, y: Any) -> FloatArray:
        """The bin, and the shifted target."""
        return np.column_stack([self._codes(X), y - self.level])

    def summed(self, features: FloatArray) -> FloatArray:
        codes, n_bins = features[:, 0].astype(np.int64), len(self.edges) + 1
        sums = np.bincount(codes, features[:, 1], minlength=n_bins)
        return np.concatenate([np.bincount(codes, minlength=n_bins), sums])

    def vector(self, statistics: Statistics) -> FloatArray:
        same = np.array_equal(statistics.arrays["edges"], self.edges)
        if not same or int(statistics.arrays["column"]) != self.column:
            raise InvalidGame(
                f"Statistics of {statistics.name!r} were made with other bins than the model's. "
                "Write them anew with the model that is to be valued."
            )
        counts, means = statistics.arrays["counts"], statistics.arrays["means"]
        return np.concatenate([counts, counts * (means - self.level)])

    def known(self, pooled: FloatArray) -> Known:
        shape = 1, len(self.origin), pooled.shape[1]
        return np.ones(pooled.shape[1], dtype=np.bool_), np.zeros(shape, dtype=np.bool_)

    def scored(self, pooled: FloatArray, known: BoolArray) -> Scored:
        counts, sums = np.split(pooled, 2)
        overall, there = sums.sum(axis=0) / counts.sum(axis=0), self.test.arrays
        predicted = np.where(counts > 0, sums / np.where(counts > 0, counts, 1), overall)
        away = predicted - (there["means"] - self.level)[:, None]
        mse = (there["counts"] @ away**2 + there["squares"].sum()) / self.test.n_rows
        values, fixed, error, around = error_scores(self.game.scoring, mse, self.variance)
        rows = [fixed, around + error, error * predicted**2, error * predicted]
        return values, partial(np.vstack, rows)
