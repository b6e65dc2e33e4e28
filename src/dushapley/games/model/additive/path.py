"""The additive path of a `ModelGame`, and the fixed rule that says which models have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Fractions, IntArray, Queries
from dushapley.data.summaries import MOST_SCATTER, Statistics, scatter_bytes
from dushapley.errors import InvalidGame
from dushapley.games.base import Outcome, Scored
from dushapley.games.marginals import SumsMarginals
from dushapley.games.model.additive.classification import Discriminant, NaiveBayes
from dushapley.games.model.additive.model import Additive
from dushapley.games.model.additive.regression import ERROR_SCORES, Bins, LinearModel
from dushapley.games.model.scoring.scorer import constant_label
from dushapley.games.model.training import MOST_SCORES, grouped
from dushapley.validation import is_number

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

BLOCK_NUMBERS = 2**22
"""Numbers that the statistics of one block of pools may hold: 32 MB."""
FAR = 1e100
"""Features from here on have squares that sums cannot hold."""


class AdditivePath:
    """Answers the pools of a `ModelGame` whose model is additive."""

    fractions: Fractions = "exact"
    cheap = True

    def __init__(self, game: ModelGame, model: Additive) -> None:
        self.game, self.model = game, model
        statistics = self._statistics()
        # sums run in an order fixed by content, so that the order of owners changes no bit
        self.order = sorted(range(len(statistics)), key=lambda j: statistics[j].content)
        self.vectors = np.array([model.vector(statistics[j]) for j in self.order]).T.copy()
        self.block = int(np.clip(BLOCK_NUMBERS // len(self.vectors), 16, model.most))
        self.name = f"additive {type(model).__name__}, float64, blocks of {self.block}"
        self.note = (
            "The model was trained from sums over rows: each owner was reduced to them once, and a "
            "fraction of an owner is that fraction of its sums."
        )

    def _statistics(self) -> Sequence[Statistics]:
        owners = self.game.owners
        if owners.reduced is None:
            blocks = zip(owners.names, owners.X, owners.y, strict=True)
            return [self.model.reduce(name, X, np.asarray(y)) for name, X, y in blocks]
        kind = owners.reduced[0].kind
        if kind != self.model.kind:
            raise InvalidGame(
                f"The owners handed over statistics of {kind}, but "
                f"{type(self.game.model).__name__} needs those of {self.model.kind}. Choose "
                "another model or ask for other files."
            )
        return owners.reduced

    def values(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        """Utilities of pools, block by block; fractions are arithmetic and need no draws."""
        shares = queries.astype(np.float64)[:, self.order]
        parts = [self._block(shares[a : a + self.block]) for a in range(0, len(shares), self.block)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _block(self, shares: FloatArray) -> FloatArray:
        filled, empty = self._filled(shares)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scores = self.model.scores(self.vectors @ filled.T)
        scores[empty] = self.game.nobody.value
        for k in np.flatnonzero(np.isnan(scores[: len(shares)])).tolist():
            scores[k] = self._constant(self.vectors @ filled[k])[0]
        return scores[: len(shares)]

    def _filled(self, shares: FloatArray) -> tuple[FloatArray, BoolArray]:
        """A block filled up to its constant shape, everybody standing in for nobody."""
        filled = np.ones((self.block, shares.shape[1]))
        filled[: len(shares)] = shares
        empty = np.asarray(~filled.any(axis=1))
        filled[empty] = 1.0
        return filled, empty

    def _constant(self, pooled: FloatArray) -> tuple[float, FloatArray | None]:
        """Score of a pool of one class and its rows, or NaN where the arithmetic has failed."""
        classes = np.empty(0) if self.game.classes is None else self.game.classes
        there = np.flatnonzero(pooled[: len(classes)] > 0)
        if len(there) != 1:
            return float("nan"), None
        return self.game.scorer(constant_label(classes[there[0]], classes))

    def marginals(self) -> SumsMarginals:
        """Every owner's marginal around a pool, from its sums."""
        vectors = self.vectors[:, np.argsort(self.order)]
        return SumsMarginals(vectors, self.worth, self.game.nobody.value, self.name, self.block)

    def worth(self, pooled: FloatArray) -> FloatArray:
        """Utilities of sums of pools that are not empty, shape (numbers, m)."""
        scores = self.model.scores(pooled)
        for k in np.flatnonzero(np.isnan(scores)).tolist():
            scores[k] = self._constant(pooled[:, k])[0]
        floor = -np.inf if self.game.at_least is None else self.game.nobody.value
        return np.maximum(scores, floor)

    def scored(self, queries: Queries) -> Scored | None:
        """Utilities of pools, and coefficients of their scores by test row; None: unknown."""
        if not self.game.scorer.known_by_row:
            return None
        shares = queries.astype(np.float64)[:, self.order]
        cuts = range(0, len(shares), self.block)
        parts = [self._scored_block(shares[a : a + self.block]) for a in cuts]
        values, coefficients = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Scored(values, coefficients, self.basis)

    def _scored_block(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        filled, empty = self._filled(shares)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values, coefficients = self.model.scored(self.vectors @ filled.T)
        found = np.zeros((len(shares), len(self.nobody)))
        found[:, : len(coefficients)] = coefficients.T[: len(shares)]
        values[empty], found[empty[: len(shares)]] = self.game.nobody.value, self.nobody
        for k in np.flatnonzero(np.isnan(values[: len(shares)])).tolist():
            values[k], rows = self._constant(self.vectors @ filled[k])
            found[k] = np.nan if rows is None else grouped(rows)
        return values[: len(shares)], found

    @cached_property
    def basis(self) -> FloatArray | None:
        """That of the model, and as a last column the scores of nobody."""
        known = self.model.basis
        return None if known is None else np.column_stack([known, self._nobody_rows(len(known))])

    @cached_property
    def nobody(self) -> FloatArray:
        """Coefficients of nobody's scores."""
        if self.basis is None:
            return self._nobody_rows(min(len(self.game.y_test), MOST_SCORES))
        return np.append(np.zeros(self.basis.shape[1] - 1), 1.0)

    def _nobody_rows(self, entries: int) -> FloatArray:
        nobody = self.game.nobody
        return np.full(entries, nobody.value) if nobody.scores is None else nobody.scores

    def outcomes(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        scored = self.scored(queries)
        if scored is None:
            return [Outcome(float(value)) for value in self.values(queries, draws)]
        pairs = zip(scored.values.tolist(), scored.scores, strict=True)
        return [Outcome(value, scores=rows) for value, rows in pairs]


def additive_path(game: ModelGame) -> AdditivePath | None:
    """The additive path of a game, where its model and score have one.

    A fixed rule on the model's class, parameters and score. Subclasses are not taken: what they
    changed cannot be known.
    """
    if game.backend != "numpy" or game.scorer.metric is None or game.y_test.ndim != 1:
        return None
    if game.owners.reduced is None and scatter_bytes(game.owners) > MOST_SCATTER:
        return None  # so many columns are trained on as they are
    rows = (game.X_test, *game.owners.X)
    if not all(X.ndim == 2 and X.dtype.kind in "fiub" and (np.abs(X) < FAR).all() for X in rows):
        return None
    targets = (np.asarray(y) for y in game.owners.y)
    if any(y.dtype.kind == "f" and not np.isfinite(y).all() for y in targets):
        return None  # the model itself says what it makes of them
    rule = _RULES.get(recognised(game.model))
    model = rule(game, game.model.get_params(deep=False)) if rule else None
    return None if model is None else AdditivePath(game, model)


def recognised(model: Any) -> str:
    """Package and class of a model."""
    return f"{type(model).__module__.split('.')[0]}.{type(model).__name__}"


def _scaled_ridge(game: ModelGame, pipeline: dict[str, Any]) -> Additive | None:
    """Ridge regression behind a scaler, the only pipeline that is additive."""
    steps = [step for _, step in pipeline["steps"]]
    if [recognised(step) for step in steps] != ["sklearn.StandardScaler", "sklearn.Ridge"]:
        return None
    scaler, options = (step.get_params(deep=False) for step in steps)
    if not (scaler["with_mean"] and scaler["with_std"] and options["fit_intercept"]):
        return None
    return _ridge(game, options, standardised=True)


def _ridge(
    game: ModelGame, options: dict[str, Any], *, standardised: bool = False
) -> Additive | None:
    """Ridge regression, and least squares, which has no penalty."""
    alpha, solver = options.get("alpha", 0.0), options.get("solver", "auto")
    if options["positive"] or ("alpha" in options and not is_number(alpha, above=0)):
        return None
    if solver not in ("auto", "svd", "cholesky"):
        return None  # the others stop when they are near
    intercept = bool(options["fit_intercept"])
    return LinearModel(game, float(alpha), intercept=intercept, standardised=standardised)


def _discriminant(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    shrinkage = options["shrinkage"]
    plain = options["priors"] is None and options["covariance_estimator"] is None
    if not plain or options["solver"] != "lsqr" or isinstance(shrinkage, str):
        return None
    return Discriminant(game, float(shrinkage or 0.0))


def _naive_bayes(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    # for areas scikit-learn ranks by probabilities, of which many round to the same 1
    taken = options["priors"] is None and not game.scoring.startswith("roc_auc")
    return NaiveBayes(game, float(options["var_smoothing"])) if taken else None


def _regressogram(game: ModelGame, options: dict[str, Any]) -> Additive | None:
    edges = np.asarray(options["edges"], dtype=np.float64)
    return Bins(game, edges, int(options["column"])) if game.scoring in ERROR_SCORES else None


_RULES: dict[str, Callable[[ModelGame, dict[str, Any]], Additive | None]] = {
    "sklearn.Pipeline": _scaled_ridge,
    "sklearn.Ridge": _ridge,
    "sklearn.LinearRegression": _ridge,
    "sklearn.LinearDiscriminantAnalysis": _discriminant,
    "sklearn.GaussianNB": _naive_bayes,
    "dushapley.Regressogram": _regressogram,
}
