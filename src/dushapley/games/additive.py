"""Models that need only sums over rows: trained for thousands of pools in one stroke.

Each owner is reduced once to its `Statistics`. Moved to a common origin (the mean of the test rows,
so that no digits are lost) they are plain vectors v_j, a pool with fractions f_j is the vector
Σ f_j v_j, and the models of all pools are solved for together. Fractions are arithmetic, so
DU-Shapley needs no draws and no replicates.

Pools go through in blocks of a constant shape, filled up where there are fewer, so the last bit of
a value does not depend on its company.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dushapley.errors import InvalidGame
from dushapley.games.base import Outcome
from dushapley.games.scoring import constant_label
from dushapley.games.solving import least_norm, solve
from dushapley.questions import FloatArray, Fractions, IntArray, Queries
from dushapley.statistics import (
    Kind,
    Statistics,
    bin_statistics,
    classification_statistics,
    regression_statistics,
)

if TYPE_CHECKING:
    from dushapley.games.models import ModelGame

Array = np.ndarray[Any, Any]

EPSILON = float(np.finfo(np.float64).eps)
BLOCK_NUMBERS = 2**22
"""Numbers that the statistics of one block of pools may hold: 32 MB."""


class Additive(ABC):
    """A model that is trained from sums: how rows become sums, and sums a score.

    Subclasses work on pooled vectors with pools along the last axis, shape (K, m). `kind` names
    the statistics they are trained from, `most` how many pools they take at a time.
    """

    kind: ClassVar[Kind]
    most: ClassVar[int] = 1024

    def __init__(self, game: ModelGame) -> None:
        self.game = game
        self.origin = np.asarray(game.X_test, dtype=np.float64).mean(axis=0)

    @abstractmethod
    def reduce(self, name: str, X: Array, y: Array) -> Statistics:
        """Rows of one owner as statistics."""

    @abstractmethod
    def vector(self, statistics: Statistics) -> FloatArray:
        """Statistics as a vector around the common origin, in which pools are sums."""

    @abstractmethod
    def scores(self, pooled: FloatArray) -> FloatArray:
        """Scores of pools that are not empty; NaN for those that a constant must answer for."""


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
        shift = statistics.arrays["mean"] - self.around
        matrix = np.empty((len(shift) + 1, len(shift) + 1))
        matrix[0, 0] = statistics.n_rows
        matrix[0, 1:] = matrix[1:, 0] = statistics.n_rows * shift
        matrix[1:, 1:] = statistics.arrays["scatter"]
        matrix[1:, 1:] += statistics.n_rows * np.outer(shift, shift)
        return matrix

    def scores(self, pooled: FloatArray) -> FloatArray:
        beta = self._coefficients(pooled.reshape(*self.moments.shape, -1))
        if self.game.scoring in ERROR_SCORES:
            b = np.vstack([beta, np.full((1, beta.shape[1]), -1.0)])
            mse = (b * (self.moments @ b)).sum(axis=0) / self.test.n_rows
            return ERROR_SCORES[self.game.scoring](np.maximum(mse, 0.0), self.variance)
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
        """Scores that are no function of moments: predict the test rows."""
        scorer = self.game.scorer
        assert scorer.metric is not None
        rows = np.column_stack(
            [np.ones(self.test.n_rows), np.asarray(self.game.X_test) - self.around[:-1]]
        )
        predicted = rows @ beta + self.around[-1]
        found = [scorer.metric.rows(scorer.target, column).mean() for column in predicted.T]
        return np.array(found)


ERROR_SCORES: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "neg_mean_squared_error": lambda mse, variance: -mse,
    "neg_root_mean_squared_error": lambda mse, variance: -np.sqrt(mse),
    "r2": lambda mse, variance: 1 - mse / variance,
}
"""Scores that are functions of the mean squared error."""


class ClassModel(Additive):
    """What discriminant analysis and naive Bayes share: class sums, and scores of predictions.

    A pool is (counts, sums, then squares or one matrix of second moments). The discriminants that
    a subclass finds are quadratic or linear in a test row; the largest wins, the first among
    equals. A pool of a single class is the constant predictor it is.
    """

    kind = "classification"
    most = 64

    def __init__(self, game: ModelGame) -> None:
        super().__init__(game)
        assert game.classes is not None
        self.classes = game.classes
        self.rows = np.asarray(game.X_test, dtype=np.float64) - self.origin
        self.codes = np.searchsorted(self.classes, game.y_test)

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

    def split(self, pooled: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Counts (C, m), sums (C, d, m) and the rest."""
        c, d, m = len(self.classes), len(self.origin), pooled.shape[1]
        return pooled[:c], pooled[c : c + c * d].reshape(c, d, m), pooled[c + c * d :]

    @abstractmethod
    def discriminants(self, pooled: FloatArray) -> FloatArray:
        """Log-probabilities up to a constant, shape (test rows, C, m)."""

    def scores(self, pooled: FloatArray) -> FloatArray:
        counts = pooled[: len(self.classes)]
        found = self.discriminants(pooled)
        found = np.where(counts > 0, found, -np.inf)
        if self.game.scoring == "accuracy":
            right = found.argmax(axis=1) == self.codes[:, None]
            values = right.mean(axis=0)
        else:
            values = np.array([self._one(found[:, :, k]) for k in range(found.shape[2])])
        return np.where((counts > 0).sum(axis=0) < 2, np.nan, values)

    def _one(self, discriminants: FloatArray) -> float:
        """Score of one pool by any metric that is known row by row."""
        metric = self.game.scorer.metric
        assert metric is not None
        grown = np.exp(discriminants - discriminants.max(axis=1, keepdims=True))
        probabilities = grown / grown.sum(axis=1, keepdims=True)
        response: Any = self.classes[probabilities.argmax(axis=1)]
        if metric.response == "probabilities":
            response = probabilities
        elif metric.response == "ranking":
            response = discriminants[:, 1] - discriminants[:, 0]
        return float(metric.rows(self.game.scorer.target, response).mean())


class Discriminant(ClassModel):
    r"""Linear discriminant analysis from class sums and one matrix of second moments.

    .. math:: \delta_c(x) = x^\top \Sigma^{-1}\mu_c - \tfrac12 \mu_c^\top\Sigma^{-1}\mu_c
              + \log \pi_c

    Σ is the covariance within classes, shrunk by `shrinkage` towards its mean variance; without
    shrinkage a singular one is inverted in the directions it knows.
    """

    def __init__(self, game: ModelGame, shrinkage: float) -> None:
        super().__init__(game)
        self.shrinkage = shrinkage

    def vector(self, statistics: Statistics) -> FloatArray:
        counts, sums, place = self.class_sums(statistics)
        second = statistics.arrays["scatter"].copy()
        for c in place:
            second += np.outer(sums[c], sums[c]) / counts[c]
        return np.concatenate([counts, sums.ravel(), second.ravel()])

    def discriminants(self, pooled: FloatArray) -> FloatArray:
        counts, sums, second = self.split(pooled)
        n, d = counts.sum(axis=0), sums.shape[1]
        means = sums / np.where(counts > 0, counts, 1)[:, None]
        covariance = second.reshape(d, d, -1).copy()
        for mean, total in zip(means, sums, strict=True):
            covariance -= mean[:, None] * total
        covariance /= n
        slopes = self._inverse_times(covariance, means.swapaxes(0, 1))
        level = np.log(np.where(counts > 0, counts, 1) / n) - 0.5 * (
            means.swapaxes(0, 1) * slopes
        ).sum(axis=0)
        return (self.rows @ slopes.reshape(d, -1)).reshape(len(self.rows), *level.shape) + level

    def _inverse_times(self, covariance: FloatArray, means: FloatArray) -> FloatArray:
        """Σ⁻¹μ for all classes, Σ being shrunk in place; a Σ of nothing but zeros knows nothing."""
        if self.shrinkage == 0:
            return least_norm(covariance, means)
        d = len(covariance)
        diagonal = np.arange(d)
        trace = covariance[diagonal, diagonal].sum(axis=0)
        known = trace > 0
        covariance *= 1 - self.shrinkage
        covariance[diagonal, diagonal] += np.where(known, self.shrinkage * trace / d, 1.0)
        return solve(covariance, means) * known


class NaiveBayes(ClassModel):
    r"""Gaussian naive Bayes from class counts, sums and squares.

    .. math:: \delta_c(x) = \log \pi_c - \tfrac12 \sum_k
              \Big[\log 2\pi\sigma_{ck}^2 + \frac{(x_k - \mu_{ck})^2}{\sigma_{ck}^2}\Big]

    every variance raised by `smoothing` times the largest variance of a feature in the pool.
    Rows that are all equal tell nothing: such a pool predicts its larger class.
    """

    def __init__(self, game: ModelGame, smoothing: float) -> None:
        super().__init__(game)
        self.smoothing = smoothing

    def vector(self, statistics: Statistics) -> FloatArray:
        counts, sums, place = self.class_sums(statistics)
        squares = np.zeros_like(sums)
        squares[place] = statistics.arrays["squares"] + sums[place] ** 2 / counts[place, None]
        return np.concatenate([counts, sums.ravel(), squares.ravel()])

    def discriminants(self, pooled: FloatArray) -> FloatArray:
        counts, sums, rest = self.split(pooled)
        squares = rest.reshape(sums.shape)
        rows = np.where(counts > 0, counts, 1)[:, None]
        means = sums / rows
        variances = np.maximum(squares / rows - means**2, 0.0)
        n = counts.sum(axis=0)
        spread = squares.sum(axis=0) / n - (sums.sum(axis=0) / n) ** 2
        added = self.smoothing * spread.max(axis=0)
        variances += np.where(added > 0, added, 1.0)
        level = np.log(rows[:, 0] / n) - 0.5 * np.log(2 * np.pi * variances).sum(axis=1)
        level = np.where(added > 0, level, np.log(rows[:, 0] / n))
        return level + self._log_likelihood(means, np.where(added > 0, 1 / variances, 0.0))

    def _log_likelihood(self, means: FloatArray, precisions: FloatArray) -> FloatArray:
        """−½ Σ (x − μ)²/σ², pool by pool: expanding the square would lose its digits."""
        c, _, m = means.shape
        found = np.empty((len(self.rows), c, m))
        for k in range(m):
            for j in range(c):
                away = self.rows - means[j, :, k]
                found[:, j, k] = -0.5 * (away * away) @ precisions[j, :, k]
        return found


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
        return ERROR_SCORES[self.game.scoring](errors / self.test.n_rows, self.variance)


class AdditivePath:
    """Answers the pools of a `ModelGame` whose model is additive."""

    fractions: Fractions = "exact"
    cheap = True

    def __init__(self, game: ModelGame, model: Additive) -> None:
        self.game, self.model = game, model
        held = self._statistics()
        # sums run in an order fixed by content, so that the order of owners changes no bit
        self.order = sorted(range(len(held)), key=lambda j: held[j].content)
        self.vectors = np.array([model.vector(held[j]) for j in self.order]).T.copy()
        self.block = int(np.clip(BLOCK_NUMBERS // len(self.vectors), 16, model.most))
        self.name = f"additive {type(model).__name__}, float64, blocks of {self.block}"

    def _statistics(self) -> Sequence[Statistics]:
        owners = self.game.owners
        if owners.reduced is None:
            blocks = zip(owners.names, owners.X, owners.y, strict=True)
            return [self.model.reduce(name, X, np.asarray(y)) for name, X, y in blocks]
        found = owners.reduced[0].kind
        if found != self.model.kind:
            raise InvalidGame(
                f"The owners handed over statistics of {found}, but {type(self.game.model).__name__} "
                f"needs those of {self.model.kind}. Choose another model or ask for other files."
            )
        return owners.reduced

    def values(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        """Utilities of pools, block by block; fractions are arithmetic and need no draws."""
        shares = queries.astype(np.float64)[:, self.order]
        found = [self._block(shares[a : a + self.block]) for a in range(0, len(shares), self.block)]
        return np.concatenate(found) if found else np.empty(0)

    def _block(self, shares: FloatArray) -> FloatArray:
        filled = np.ones((self.block, shares.shape[1]))
        filled[: len(shares)] = shares
        empty = ~filled.any(axis=1)
        filled[empty] = 1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scores = self.model.scores(self.vectors @ filled.T)
        scores[empty] = self.game.nobody.value
        for k in np.flatnonzero(np.isnan(scores[: len(shares)])).tolist():
            scores[k] = self._constant(filled[k])
        return scores[: len(shares)]

    def _constant(self, shares: FloatArray) -> float:
        """Score of a pool of one class, or NaN where the arithmetic has failed."""
        classes = self.game.classes
        if classes is None:
            return float("nan")
        there = np.flatnonzero((self.vectors[: len(classes)] @ shares) > 0)
        if len(there) != 1:
            return float("nan")
        return self.game.scorer(constant_label(classes[there[0]], classes))[0]

    def outcomes(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        return [Outcome(float(value)) for value in self.values(queries, draws)]


def additive_path(game: ModelGame) -> AdditivePath | None:
    """The additive path of a game, where its model and score have one."""
    model = additive_model(game)
    return None if model is None else AdditivePath(game, model)


def additive_model(game: ModelGame) -> Additive | None:
    """The additive form of the game's model: a fixed rule on its class, parameters and score.

    Subclasses are not taken: what they changed cannot be known.
    """
    if game.backend != "numpy" or game.scorer.metric is None or game.y_test.ndim != 1:
        return None
    for X in (game.X_test, *game.owners.X):
        if X.ndim != 2 or X.dtype.kind not in "fiub" or not bool(np.isfinite(X).all()):
            return None
    if recognised(game.model) == "sklearn.Pipeline":
        return _scaled_ridge(game, [step for _, step in game.model.steps])
    make = _RULES.get(recognised(game.model))
    return None if make is None else make(game, game.model.get_params(deep=False))


def recognised(model: Any) -> str:
    """Package and class of a model."""
    return f"{type(model).__module__.split('.')[0]}.{type(model).__name__}"


def _scaled_ridge(game: ModelGame, steps: list[Any]) -> Additive | None:
    """Ridge regression behind a scaler, the only pipeline that is additive."""
    if [recognised(step) for step in steps] != ["sklearn.StandardScaler", "sklearn.Ridge"]:
        return None
    scaler, options = (step.get_params(deep=False) for step in steps)
    if not (scaler["with_mean"] and scaler["with_std"] and options["fit_intercept"]):
        return None
    return _ridge(game, options, standardised=True)


def _ridge(
    game: ModelGame, options: dict[str, Any], *, standardised: bool = False
) -> Additive | None:
    alpha = options["alpha"]
    if options["positive"] or not np.isscalar(alpha) or not alpha > 0:
        return None
    intercept = bool(options["fit_intercept"])
    return LinearModel(game, float(alpha), intercept=intercept, standardised=standardised)


def _least_squares(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    if options["positive"]:
        return None
    return LinearModel(game, 0.0, intercept=bool(options["fit_intercept"]))


def _discriminant(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    shrinkage = options["shrinkage"]
    plain = options["priors"] is None and options["covariance_estimator"] is None
    if not plain or options["solver"] != "lsqr" or isinstance(shrinkage, str):
        return None
    return Discriminant(game, float(shrinkage or 0.0))


def _naive_bayes(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    if options["priors"] is not None:
        return None
    return NaiveBayes(game, float(options["var_smoothing"]))


def _regressogram(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    if game.scoring not in ERROR_SCORES:
        return None
    return Bins(game, np.asarray(options["edges"], dtype=np.float64), int(options["column"]))


_RULES: dict[str, Callable[[ModelGame, dict[str, Any]], Additive | None]] = {
    "sklearn.Ridge": _ridge,
    "sklearn.LinearRegression": _least_squares,
    "sklearn.LinearDiscriminantAnalysis": _discriminant,
    "sklearn.GaussianNB": _naive_bayes,
    "dushapley.Regressogram": _regressogram,
}
