"""Classifiers from sums: linear discriminant analysis and naive Bayes."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.data.summaries import Statistics, classification_statistics
from dushapley.games.model.additive.model import (
    EPSILON,
    KEPT,
    ROUNDED,
    Additive,
    known_variances,
    least_norm,
    solve,
)
from dushapley.games.model.training import grouped

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame


TIED = 1e-4
"""What rounding may take of a log-likelihood where only the likeliest class counts."""


class ClassModel(Additive):
    """What discriminant analysis and naive Bayes share: class sums, and scores of predictions.

    A pool is (counts, sums, then squares or one matrix of second moments). The discriminants that
    a subclass finds are quadratic or linear in a test row; the largest wins, the first among
    equals. A pool of a single class is the constant predictor it is.

    Behind a `StandardScaler` (`standardised`) columns are divided by the pool's own standard
    deviations. Where a column does not vary in the pool, its classes do not differ in it: it is
    left out.
    """

    kind = "classification"
    most = 64
    least_rows = 0
    """Rows for each class of a pool that no model is fitted to."""

    def __init__(
        self, game: ModelGame, regularisation: float, *, standardised: bool = False
    ) -> None:
        super().__init__(game)
        assert game.classes is not None
        self.regularisation, self.standardised = regularisation, standardised
        self.classes = game.classes
        self.rows = np.asarray(game.X_test, dtype=np.float64) - self.origin

    def reduce(self, name: str, X: Array, y: Array) -> Statistics:
        return classification_statistics(name, X, y)

    def class_sums(self, statistics: Statistics) -> tuple[FloatArray, FloatArray, Array]:
        """Counts and shifted sums over all classes, and where the owner's classes are in them."""
        known = statistics.arrays["classes"].astype(self.classes.dtype)
        place = np.searchsorted(self.classes, known)
        counts, sums = np.zeros(len(self.classes)), np.zeros((len(self.classes), len(self.origin)))
        counts[place] = statistics.arrays["counts"]
        shift = statistics.arrays["means"] - self.origin
        sums[place] = statistics.arrays["counts"][:, None] * shift
        return counts, sums, place

    def features(self, X: Array, y: Array) -> FloatArray:
        """The class, and the shifted row."""
        codes = np.searchsorted(self.classes, np.asarray(y).astype(self.classes.dtype))
        return np.column_stack([codes, np.asarray(X, dtype=np.float64) - self.origin])

    def summed(self, features: FloatArray) -> FloatArray:
        codes, rows = features[:, 0], features[:, 1:].copy()
        inside = (codes == np.arange(len(self.classes))[:, None]).astype(np.float64)
        parts = inside.sum(axis=1), inside @ rows, self.second(inside, rows)
        return np.concatenate([part.ravel() for part in parts])

    @abstractmethod
    def second(self, inside: FloatArray, rows: FloatArray) -> FloatArray:
        """Second moments of rows; ones tell which class they are in, shape (classes, rows)."""

    def split(self, pooled: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Counts (C, m), sums (C, d, m) and the rest."""
        c, d, m = len(self.classes), len(self.origin), pooled.shape[1]
        return pooled[:c], pooled[c : c + c * d].reshape(c, d, m), pooled[c + c * d :]

    def factors(self, variances: FloatArray) -> FloatArray:
        """What columns of these variances in the pool are multiplied by, both of shape (d, m)."""
        if not self.standardised:
            return np.ones_like(variances)
        return np.divide(1, np.sqrt(variances), out=np.zeros_like(variances), where=variances > 0)

    def is_sound(self, pooled: FloatArray) -> BoolArray:
        """Variances of which rounding has left enough; pools that no model is fitted to are."""
        counts = pooled[: len(self.classes)]
        with np.errstate(divide="ignore", invalid="ignore"):
            known = self._is_known(pooled)
        classes = (counts > 0).sum(axis=0)
        return known | (classes < 2) | (counts.sum(axis=0) <= self.least_rows * classes)

    @abstractmethod
    def _is_known(self, pooled: FloatArray) -> BoolArray:
        """Which pools' variances rounding has left enough of."""

    @abstractmethod
    def squares(self, pooled: FloatArray) -> FloatArray:
        """Sums of squares of each column of a pool, shape (d, m)."""

    def variances(self, pooled: FloatArray) -> FloatArray:
        """Of each column of a pool, shape (d, m); 0 where sums cannot tell them from rounding."""
        counts, sums, _ = self.split(pooled)
        n, around = counts.sum(axis=0), self.origin[:, None]
        return known_variances(self.squares(pooled), sums.sum(axis=0), n, around)

    def rounding_of_means(self, pooled: FloatArray, factors: FloatArray) -> FloatArray:
        """Squared last digits of a pool's means as statistics hold them, in scaled columns."""
        counts, sums, _ = self.split(pooled)
        means = sums.sum(axis=0) / counts.sum(axis=0) + self.origin[:, None]
        return (EPSILON * means * factors) ** 2

    def doubtful(self, pooled: FloatArray) -> BoolArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.variances(pooled) == 0)[None] & self.standardised

    @abstractmethod
    def discriminants(self, pooled: FloatArray) -> FloatArray:
        """Log-probabilities up to a constant, shape (test rows, C, m)."""

    def scores(self, pooled: FloatArray, sound: BoolArray) -> FloatArray:
        return self._means(pooled, self._judged(pooled))

    def scored(self, pooled: FloatArray, sound: BoolArray) -> tuple[FloatArray, FloatArray]:
        rows = self._judged(pooled)
        return self._means(pooled, rows), grouped(np.asarray(rows, dtype=np.float64))

    def _means(self, pooled: FloatArray, rows: Array) -> FloatArray:
        counts = pooled[: len(self.classes)]
        return np.where((counts > 0).sum(axis=0) < 2, np.nan, rows.mean(axis=0))

    def _judged(self, pooled: FloatArray) -> Array:
        """Scores by test row, shape (test rows, m)."""
        discriminants = self.discriminants(pooled)
        discriminants = np.where(pooled[: len(self.classes)] > 0, discriminants, -np.inf)
        if self.game.scoring == "accuracy":
            right: Array = discriminants.argmax(axis=1) == self.game.scorer.target.codes[:, None]
            return right
        return np.stack([self._one(pool) for pool in np.moveaxis(discriminants, 2, 0)]).T

    def _one(self, discriminants: FloatArray) -> FloatArray:
        """Scores of one pool by any metric that is known row by row."""
        metric = self.game.scorer.metric
        assert metric is not None
        probabilities = self.probabilities(discriminants)
        response: Any = self.classes[probabilities.argmax(axis=1)]
        if metric.response == "probabilities":
            response = probabilities
        elif metric.response == "ranking":
            response = discriminants[:, 1] - discriminants[:, 0]
        return metric.rows(self.game.scorer.target, response)

    def probabilities(self, discriminants: FloatArray) -> FloatArray:
        """Of one pool, shape (test rows, C); classes that it lacks have none."""
        grown = np.exp(discriminants - discriminants.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)


class Discriminant(ClassModel):
    r"""Linear discriminant analysis from class sums and one matrix of second moments.

    .. math:: \delta_c(x) = x^\top \Sigma^{-1}\mu_c - \tfrac12 \mu_c^\top\Sigma^{-1}\mu_c
              + \log \pi_c

    Σ is the covariance within classes, shrunk by `regularisation` towards its mean variance;
    without shrinkage a singular one is inverted in the directions it knows.
    """

    least_rows = 1

    def vector(self, statistics: Statistics) -> FloatArray:
        counts, sums, place = self.class_sums(statistics)
        second = statistics.arrays["scatter"].copy()
        for c in place:
            second += np.outer(sums[c], sums[c]) / counts[c]
        return np.concatenate([counts, sums.ravel(), second.ravel()])

    @property
    def width(self) -> int:
        c, d = len(self.classes), len(self.origin)
        return c + c * d + d * d

    def second(self, inside: FloatArray, rows: FloatArray) -> FloatArray:
        return rows.T @ rows

    @property
    def powers(self) -> IntArray:
        (c, d), begin = (len(self.classes), len(self.origin)), self.width - len(self.origin) ** 2
        return np.concatenate([np.arange(c), begin + (d + 1) * np.arange(d)])

    def discriminants(self, pooled: FloatArray) -> FloatArray:
        counts, sums, second = self.split(pooled)
        n, d = counts.sum(axis=0), sums.shape[1]
        means = sums / np.where(counts > 0, counts, 1)[:, None]
        covariance, squares = second.reshape(d, d, -1).copy(), self.squares(pooled)
        factors = self.factors(self.variances(pooled))
        for mean, total in zip(means, sums, strict=True):
            covariance -= mean[:, None] * total
        covariance *= factors[:, None] * factors / n
        # within classes nothing may vary, and rounding is no variance
        rounding = 8 * EPSILON * (squares * factors**2 / n).sum(axis=0)
        scaled = means.swapaxes(0, 1) * factors[:, None]
        slopes = self._inverse_times(covariance, scaled, rounding) * factors[:, None]
        level = np.log(np.where(counts > 0, counts, 1) / n) - 0.5 * (
            means.swapaxes(0, 1) * slopes
        ).sum(axis=0)
        return (self.rows @ slopes.reshape(d, -1)).reshape(len(self.rows), *level.shape) + level

    def squares(self, pooled: FloatArray) -> FloatArray:
        d = np.arange(len(self.origin))
        return self.split(pooled)[2].reshape(len(d), len(d), -1)[d, d]

    def probabilities(self, discriminants: FloatArray) -> FloatArray:
        """Of two classes scikit-learn takes 1 − p for one of them, where small ones are rounded."""
        there = np.flatnonzero(np.isfinite(discriminants[0]))
        if len(there) != 2:
            return super().probabilities(discriminants)
        first, second = there
        found = np.zeros_like(discriminants)
        with np.errstate(over="ignore"):
            found[:, second] = 1 / (1 + np.exp(discriminants[:, first] - discriminants[:, second]))
        found[:, first] = 1 - found[:, second]
        return found

    def _is_known(self, pooled: FloatArray) -> BoolArray:
        counts, sums, _ = self.split(pooled)
        squares, factors = self.squares(pooled), self.factors(self.variances(pooled))
        between = (sums**2 / np.where(counts > 0, counts, 1)[:, None]).sum(axis=0)
        within, scale = (squares - between) * factors**2, squares * factors**2
        if not self.standardised:  # scikit-learn's discriminants are around 0
            scale += counts.sum(axis=0) * self.origin[:, None] ** 2
        shrunk = (1 - self.regularisation) * within + self.regularisation * within.mean(axis=0)
        lost = self.rounding_of_means(pooled, factors) <= ROUNDED**2 * shrunk / counts.sum(axis=0)
        return np.asarray((lost & (EPSILON * scale <= KEPT * shrunk)).all(axis=0))

    def _inverse_times(
        self, covariance: FloatArray, means: FloatArray, rounding: FloatArray
    ) -> FloatArray:
        """Σ⁻¹μ for all classes, Σ being shrunk in place; a Σ of nothing but zeros knows nothing."""
        if self.regularisation == 0:
            return least_norm(covariance, means)
        d = len(covariance)
        diagonal = np.arange(d)
        trace = covariance[diagonal, diagonal].sum(axis=0)
        known = trace > rounding
        covariance *= 1 - self.regularisation
        covariance[diagonal, diagonal] += np.where(known, self.regularisation * trace / d, 1.0)
        return solve(covariance, means) * known


class NaiveBayes(ClassModel):
    r"""Gaussian naive Bayes from class counts, sums and squares.

    .. math:: \delta_c(x) = \log \pi_c - \tfrac12 \sum_k
              \Big[\log 2\pi\sigma_{ck}^2 + \frac{(x_k - \mu_{ck})^2}{\sigma_{ck}^2}\Big]

    every variance raised by `regularisation` times the largest variance of a feature in the pool.
    Rows that are all equal tell nothing: such a pool predicts its larger class.
    """

    def vector(self, statistics: Statistics) -> FloatArray:
        counts, sums, place = self.class_sums(statistics)
        squares = np.zeros_like(sums)
        squares[place] = statistics.arrays["squares"] + sums[place] ** 2 / counts[place, None]
        return np.concatenate([counts, sums.ravel(), squares.ravel()])

    @property
    def width(self) -> int:
        return len(self.classes) * (1 + 2 * len(self.origin))

    def second(self, inside: FloatArray, rows: FloatArray) -> FloatArray:
        return inside @ rows**2

    @property
    def powers(self) -> IntArray:
        c, n_squares = len(self.classes), len(self.classes) * len(self.origin)
        return np.concatenate([np.arange(c), c + n_squares + np.arange(n_squares)])

    def discriminants(self, pooled: FloatArray) -> FloatArray:
        counts, sums, rest = self.split(pooled)
        squares = rest.reshape(sums.shape)
        rows = np.where(counts > 0, counts, 1)[:, None]
        means, n, spread = sums / rows, counts.sum(axis=0), self.variances(pooled)
        squared = self.factors(spread) ** 2
        added = self.regularisation * (spread * squared).max(axis=0)
        variances = known_variances(squares, sums, rows) * squared
        variances += np.where(added > 0, added, 1.0)
        level = np.log(rows[:, 0] / n) - 0.5 * np.log(2 * np.pi * variances).sum(axis=1)
        level = np.where(added > 0, level, np.log(rows[:, 0] / n))
        return level + self._log_likelihood(means, np.where(added > 0, squared / variances, 0.0))

    def squares(self, pooled: FloatArray) -> FloatArray:
        _, sums, rest = self.split(pooled)
        return np.asarray(rest.reshape(sums.shape).sum(axis=0))

    def _is_known(self, pooled: FloatArray) -> BoolArray:
        nothing, kept = self._within(pooled)
        metric = self.game.scorer.metric
        assert metric is not None
        lost = EPSILON * self._reach(pooled)
        near = lost <= (TIED if metric.response == "labels" else ROUNDED)
        return np.asarray((kept | nothing).all(axis=(0, 1)) & near)

    def _reach(self, pooled: FloatArray) -> FloatArray:
        """Bound Σ (x − μ)²/σ² over test rows and classes; the last digits of more are lost."""
        counts, sums, rest = self.split(pooled)
        rows = np.where(counts > 0, counts, 1)[:, None]
        means, spread = sums / rows, self.variances(pooled)
        units = 1 / np.where((spread > 0) & self.standardised, spread, 1.0)
        added = self.regularisation * (spread * units).max(axis=0)
        variances = known_variances(rest.reshape(sums.shape), sums, rows) * units + added
        low, high = self.rows.min(axis=0)[:, None], self.rows.max(axis=0)[:, None]
        away = np.maximum(np.abs(means - low), np.abs(means - high))
        reach = (away**2 * units / variances).sum(axis=1)
        return np.where((counts > 0) & (added > 0), reach, 0.0).max(axis=0)

    def _within(self, pooled: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Variances within classes that sums put at 0, and those that rounding has left."""
        counts, sums, rest = self.split(pooled)
        squares, rows = rest.reshape(sums.shape), np.where(counts > 0, counts, 1)[:, None]
        spread = self.variances(pooled)
        squared = self.factors(spread) ** 2
        added = self.regularisation * (spread * squared).max(axis=0)
        variances, scale = known_variances(squares, sums, rows) * squared, squares / rows * squared
        lost = self.rounding_of_means(pooled, np.sqrt(squared)) <= ROUNDED**2 * (variances + added)
        return variances == 0, lost & (EPSILON * scale <= KEPT * (variances + added))

    def doubtful(self, pooled: FloatArray) -> BoolArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            nothing, kept = self._within(pooled)
        return np.concatenate([super().doubtful(pooled), nothing & ~kept])

    def extent(self, X: Array, y: Array) -> tuple[FloatArray, FloatArray]:
        """Of all rows, and of each class; an absent one has no extent."""
        codes = np.asarray(y).astype(self.classes.dtype)
        parts = [np.asarray(X, dtype=np.float64)]
        parts += [parts[0][codes == c] for c in self.classes]
        low = [part.min(axis=0, initial=np.inf) for part in parts]
        return np.stack(low), np.stack([part.max(axis=0, initial=-np.inf) for part in parts])

    def _log_likelihood(self, means: FloatArray, precisions: FloatArray) -> FloatArray:
        """−½ Σ (x − μ)²/σ², pool by pool: expanding the square would lose its digits."""
        c, _, m = means.shape
        likelihoods = np.empty((len(self.rows), c, m))
        for k in range(m):
            for j in range(c):
                away = self.rows - means[j, :, k]
                likelihoods[:, j, k] = -0.5 * (away * away) @ precisions[j, :, k]
        return likelihoods
