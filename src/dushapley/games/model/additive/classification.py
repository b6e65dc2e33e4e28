"""Classifiers from sums: linear discriminant analysis and naive Bayes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dushapley.arrays import EPSILON, Array, BoolArray, FloatArray, as_floats
from dushapley.data.summaries import Statistics, classification_statistics
from dushapley.games.model.additive.model import (
    KEPT,
    ROUNDED,
    Additive,
    Known,
    Scored,
    diagonals,
    known_variances,
    least_norm,
    solve,
)

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame


class ClassSums(NamedTuple):
    """Sums over the rows of m pools, C classes and d columns, and what follows from them.

    Attributes
    ----------
    counts, n
        Rows by class, shape (C, m), and of all classes.
    rows
        Counts again, and ones for classes that a pool lacks, shape (C, 1, m).
    sums, means
        Of each class, around the origin, shape (C, d, m).
    rest
        Squares of each class or second moments of all, shape (C or d, d, m).
    squares, centre, spread
        Of each column in all rows: sum of squares, mean (not around the origin) and variance, 0
        where sums cannot tell it from rounding; shape (d, m).
    factors
        Factors that scale the columns, shape (d, m).
    """

    counts: FloatArray
    n: FloatArray
    rows: FloatArray
    sums: FloatArray
    means: FloatArray
    rest: FloatArray
    squares: FloatArray
    centre: FloatArray
    spread: FloatArray
    factors: FloatArray


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
    is_scatter_shared = False
    """Whether second moments are a matrix of all classes, or squares of each class. A matrix around
    the means of classes needs more rows than classes."""

    def __init__(
        self, game: ModelGame, regularisation: float, *, standardised: bool = False
    ) -> None:
        super().__init__(game)
        self.regularisation, self.standardised = regularisation, standardised
        self.classes, self.reduce = np.asarray(game.classes), classification_statistics
        self.rows = as_floats(game.X_test) - self.origin
        c, d = len(self.classes), len(self.origin)
        self.width = c + c * d + (d if self.is_scatter_shared else c) * d

    def vector(self, statistics: Statistics) -> FloatArray:
        held = statistics.arrays
        place = np.searchsorted(self.classes, held["classes"].astype(self.classes.dtype))
        counts, sums = np.zeros(len(self.classes)), np.zeros((len(self.classes), len(self.origin)))
        counts[place] = held["counts"]
        sums[place] = held["counts"][:, None] * (held["means"] - self.origin)
        if self.is_scatter_shared:  # second moments are moved to the origin
            rest = held["scatter"].copy()
            for total, count in zip(sums[place], held["counts"], strict=True):
                rest += np.outer(total, total) / count
        else:
            rest = np.zeros_like(sums)
            rest[place] = held["squares"] + sums[place] ** 2 / held["counts"][:, None]
        return np.concatenate([counts, sums.ravel(), rest.ravel()])

    def features(self, X: Array, y: Any) -> FloatArray:
        """The class, and the shifted row."""
        codes = np.searchsorted(self.classes, np.asarray(y).astype(self.classes.dtype))
        return np.column_stack([codes, as_floats(X) - self.origin])

    def summed(self, features: FloatArray) -> FloatArray:
        codes, rows = features[:, 0], features[:, 1:].copy()
        inside = (codes == np.arange(len(self.classes))[:, None]).astype(np.float64)
        second = rows.T @ rows if self.is_scatter_shared else inside @ rows**2
        return np.concatenate([inside.sum(axis=1), (inside @ rows).ravel(), second.ravel()])

    def parts(self, pooled: FloatArray) -> ClassSums:
        """Take vectors apart."""
        c, d = len(self.classes), len(self.origin)
        counts, rest = pooled[:c], pooled[c + c * d :].reshape(-1, d, pooled.shape[1])
        sums, n = pooled[c : c + c * d].reshape(c, *rest.shape[1:]), counts.sum(axis=0)
        rows = np.where(counts > 0, counts, 1)[:, None]
        squares = diagonals(rest) if self.is_scatter_shared else rest.sum(axis=0)
        total, origin = sums.sum(axis=0), self.origin[:, None]
        spread = known_variances(squares, total, n, origin)
        factors = np.ones_like(spread)
        if self.standardised:
            factors = np.divide(1, np.sqrt(spread), out=0 * factors, where=spread > 0)
        return ClassSums(
            counts, n, rows, sums, sums / rows, rest, squares, total / n + origin, spread, factors
        )

    def known(self, pooled: FloatArray) -> Known:
        """Find variances of which rounding has left enough; no model, no doubt."""
        parts = self.parts(pooled)
        classes = (parts.counts > 0).sum(axis=0)
        trained = (classes > 1) & (parts.n > self.is_scatter_shared * classes)
        known, constant = self.resolved(parts)
        level = (parts.spread == 0)[None] & self.standardised
        return known | ~trained, np.concatenate([level, constant]) & trained

    @abstractmethod
    def resolved(self, parts: ClassSums) -> Known:
        """Find pools with variances left by rounding, and columns constant in classes."""

    @abstractmethod
    def discriminants(self, parts: ClassSums) -> FloatArray:
        """Log-probabilities up to a constant, shape (test rows, C, m)."""

    def scored(self, pooled: FloatArray, known: BoolArray) -> Scored:
        parts = self.parts(pooled)
        alone = (parts.counts > 0).sum(axis=0) < 2
        found = np.where(alone, 0.0, self.discriminants(parts))
        return self.judged(self.responses(np.where(parts.counts > 0, found, -np.inf)))

    def responses(self, discriminants: FloatArray) -> Iterable[Array]:
        """Predict the test rows in the form that the metric takes, pool by pool."""
        if self.metric.response == "labels":
            return self.classes[discriminants.argmax(axis=1)].T
        if self.metric.response == "ranking":
            return (discriminants[:, 1] - discriminants[:, 0]).T
        return map(self.probabilities, np.moveaxis(discriminants, 2, 0))

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

    is_scatter_shared = True

    def discriminants(self, parts: ClassSums) -> FloatArray:
        n, factors, covariance = parts.n, parts.factors, parts.rest.copy()
        for mean, total in zip(parts.means, parts.sums, strict=True):
            covariance -= mean[:, None] * total
        covariance *= factors[:, None] * factors / n
        # within classes nothing may vary, and rounding is no variance
        rounding = 8 * EPSILON * (parts.squares * factors**2 / n).sum(axis=0)
        means = parts.means.swapaxes(0, 1)
        scaled, d = means * factors[:, None], len(factors)
        if self.regularisation == 0:
            slopes = least_norm(covariance, scaled)
        else:  # shrunk; a Σ of nothing but zeros knows nothing
            variances = diagonals(covariance)
            trace = variances.sum(axis=0)
            known = trace > rounding
            covariance *= 1 - self.regularisation
            variances += np.where(known, self.regularisation * trace / d, 1.0)
            slopes = solve(covariance, scaled) * known
        slopes *= factors[:, None]
        level = np.log(parts.rows[:, 0] / n) - 0.5 * (means * slopes).sum(axis=0)
        linear = self.rows @ slopes.reshape(d, -1)
        return linear.reshape(len(self.rows), *level.shape) + level

    def probabilities(self, discriminants: FloatArray) -> FloatArray:
        """Of two classes scikit-learn takes 1 − p for one of them, where small ones are rounded."""
        there = np.flatnonzero(np.isfinite(discriminants[0]))
        if len(there) != 2:
            return super().probabilities(discriminants)
        first, second = there
        found = np.zeros_like(discriminants)
        found[:, second] = 1 / (1 + np.exp(discriminants[:, first] - discriminants[:, second]))
        found[:, first] = 1 - found[:, second]
        return found

    def resolved(self, parts: ClassSums) -> Known:
        squared = parts.factors**2
        within = (parts.squares - (parts.sums**2 / parts.rows).sum(axis=0)) * squared
        scale = parts.squares * squared
        if not self.standardised:  # scikit-learn's discriminants are around 0
            scale = scale + parts.n * self.origin[:, None] ** 2
        shrunk = (1 - self.regularisation) * within + self.regularisation * within.mean(axis=0)
        lost = (EPSILON * parts.centre) ** 2 * squared <= ROUNDED**2 * shrunk / parts.n
        known = (lost & (EPSILON * scale <= KEPT * shrunk)).all(axis=0)
        return known, np.empty((0, *within.shape), dtype=np.bool_)


class NaiveBayes(ClassModel):
    r"""Gaussian naive Bayes from class counts, sums and squares.

    .. math:: \delta_c(x) = \log \pi_c - \tfrac12 \sum_k
              \Big[\log 2\pi\sigma_{ck}^2 + \frac{(x_k - \mu_{ck})^2}{\sigma_{ck}^2}\Big]

    every variance raised by `regularisation` times the largest variance of a feature in the pool.
    Rows that are all equal tell nothing: such a pool predicts its larger class.
    """

    def variances(self, parts: ClassSums) -> tuple[FloatArray, FloatArray]:
        """Of each class, scaled, and what is added to all of a pool."""
        squared = parts.factors**2
        added = self.regularisation * (parts.spread * squared).max(axis=0)
        return known_variances(parts.rest, parts.sums, parts.rows) * squared, added

    def discriminants(self, parts: ClassSums) -> FloatArray:
        variances, added = self.variances(parts)
        variances += np.where(added > 0, added, 1.0)
        prior = np.log(parts.rows[:, 0] / parts.n)
        level = prior - 0.5 * np.log(2 * np.pi * variances).sum(axis=1)
        precisions = np.where(added > 0, parts.factors**2 / variances, 0.0)
        # pool by pool: expanding the square of x − μ would lose its digits
        found = np.empty((len(self.rows), *prior.shape))
        for j, k in np.ndindex(prior.shape):
            away = self.rows - parts.means[j, :, k]
            found[:, j, k] = -0.5 * (away * away) @ precisions[j, :, k]
        return np.where(added > 0, level, prior) + found

    def resolved(self, parts: ClassSums) -> Known:
        variances, added = self.variances(parts)
        raised, squared = variances + added, parts.factors**2
        kept = (EPSILON * parts.centre * parts.factors) ** 2 <= ROUNDED**2 * raised
        kept &= EPSILON * (parts.rest / parts.rows * squared) <= KEPT * raised
        # Σ (x − μ)²/σ² over columns, at most; the last digits of more are lost
        low, high = self.rows.min(axis=0)[:, None], self.rows.max(axis=0)[:, None]
        away = np.maximum(np.abs(parts.means - low), np.abs(parts.means - high))
        units = np.where(parts.spread > 0, squared, 1.0)
        reach = (away**2 * units / raised).sum(axis=1)
        reach = np.where((parts.counts > 0) & (added > 0), reach, 0.0).max(axis=0)
        # of a log-likelihood rounding may take more where only the likeliest class counts
        near = EPSILON * reach <= (1e-4 if self.metric.response == "labels" else ROUNDED)
        return (kept | (variances == 0)).all(axis=(0, 1)) & near, (variances == 0) & ~kept

    def extent(self, X: Array, y: Any) -> Array:
        """Of all rows, and of each class; an absent one has no extent."""
        codes = np.asarray(y).astype(self.classes.dtype)
        parts = [as_floats(X)]
        parts += [parts[0][codes == c] for c in self.classes]
        low = [part.min(axis=0, initial=np.inf) for part in parts]
        return np.array([low, [part.max(axis=0, initial=-np.inf) for part in parts]])
