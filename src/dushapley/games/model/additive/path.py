"""The additive path of a `ModelGame`, and the fixed rule that says which models have one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import (
    Array,
    BoolArray,
    Draws,
    FloatArray,
    Fractions,
    IntArray,
    Queries,
    as_floats,
    slices,
)
from dushapley.errors import InvalidGame
from dushapley.games.base import MOST_SCORES, Answers, Scores
from dushapley.games.many.marginals import SumsMarginals
from dushapley.games.model.additive.classification import Discriminant, NaiveBayes
from dushapley.games.model.additive.model import Additive
from dushapley.games.model.additive.regression import ERROR_SCORES, Bins, LinearModel
from dushapley.games.rows import blocks
from dushapley.validation import is_number

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

BLOCK_NUMBERS = 2**22
"""Numbers that the statistics of one block of pools may hold: 32 MB."""


class AdditivePath:
    """Answers the pools of a `ModelGame` whose model is additive.

    A part of an owner is the sum over the rows that `RowsGame.rows_of` draws. Owners who handed
    over sums have no parts.
    """

    cheap = True

    def __init__(self, game: ModelGame, model: Additive) -> None:
        self.game, self.model = game, model
        self.block = int(np.clip(BLOCK_NUMBERS // model.width, 16, model.most))
        self.name = f"additive {type(model).__name__}, float64, blocks of {self.block}"
        self.note = "The model was trained from sums over rows, made once for each owner."
        self.fractions: Fractions = "rows" if game.owners.reduced is None else "none"
        self._cache: dict[bytes, FloatArray] = {}
        if game.owners.reduced is not None:
            if (kind := game.owners.reduced[0].kind) != model.kind:
                raise InvalidGame(
                    f"The owners handed over statistics of {kind}, but "
                    f"{type(game.model).__name__} needs those of {model.kind}. Choose another "
                    "model or ask for other files."
                )
            _ = self.summed  # which refuses bins of another model

    @cached_property
    def summed(self) -> tuple[list[int], FloatArray]:
        """Owners in an order fixed by content, and their vectors in it, shape (numbers, I).

        Sums run in this order, so that the order of owners changes no bit.
        """
        owners, contents = self.game.owners, []
        vectors = np.zeros((self.model.width, len(owners.names)))
        given = owners.reduced or map(self.model.reduce, owners.names, owners.X, owners.y)
        for j, statistics in enumerate(given):
            contents.append(statistics.content)
            vectors[:, j] = self.model.vector(statistics)
        order = sorted(range(len(contents)), key=contents.__getitem__)
        return order, vectors[:, order]

    def _block(self, queries: Queries, draws: Draws) -> tuple[FloatArray, FloatArray]:
        """Return values of at most a block of pools, and coefficients of their scores by row."""
        counts, m = self.game.counts(queries), len(queries)
        there, whole, (order, vectors) = counts.any(axis=1), counts == self.game.sizes, self.summed
        # a block is filled up to its constant shape; all owners stand in for nobody
        full = np.ones((self.block, len(order)))
        full[:m] = np.where(counts.any(axis=1, keepdims=True), whole, 1)[:, order]
        pooled, parts = vectors @ full.T, np.where(whole, 0, counts)
        if parts.any():
            assert draws is not None
            pooled[:, :m] += self._drawn(parts, draws)
        taken = list(self.game.each(queries, draws))
        known = self.known(pooled, counts, taken)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values, by_row = self.model.scored(pooled, known)
            scores = by_row() if self.game.scorer.known_by_row else np.empty((0, self.block))
        values, nobody = values[:m], self.nobody[0]
        found = np.zeros((m, len(nobody)))
        found[:, : len(scores)] = scores.T[:m]
        values[~there], found[~there] = self.game.nobody.value, nobody
        fitted = ~known[:m] & there & (self.fractions == "rows")
        for k in np.flatnonzero(fitted).tolist():
            values[k], rows = self.model.fitted(*self.game.pool(*taken[k]))
            found[k] = 0.0
            found[k, : len(rows)] = rows
        return values, found

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def known(self, pooled: FloatArray, counts: IntArray, taken: Sequence[Any]) -> BoolArray:
        """Find pools whose sums determine the model; the others have to be fitted on rows.

        `taken` are rows of each owner and draw ids, pool by pool.
        """
        known, constant = self.model.known(pooled)
        doubted = (known & constant.any(axis=(0, 1)))[: len(counts)] & counts.any(axis=1)
        for k in np.flatnonzero(doubted & (self.fractions == "rows")).tolist():
            there = counts[k] > 0
            if (there & (counts[k] < self.game.sizes)).any():
                extents = self.model.extent(*self.game.pool(*taken[k]))[None]
            else:
                extents = self.extents[there]
            low, high = extents[:, 0].min(axis=0), extents[:, 1].max(axis=0)
            known[k] = not np.any(constant[:, :, k] & (low < high))
        return known

    @cached_property
    def extents(self) -> Array:
        """Least and largest values of every owner, shape (I, 2, groups, columns)."""
        return np.array([self.model.extent(*rows) for rows in self.owned()])

    def owned(self) -> Iterator[tuple[Array, Any]]:
        """Rows of every owner."""
        return zip(self.game.owners.X, self.game.owners.y, strict=True)

    def _drawn(self, counts: IntArray, draws: IntArray) -> FloatArray:
        """Sums of drawn rows, shape (numbers, pools); pools with the same draws share them."""
        keys = [row.tobytes() for row in np.column_stack([draws, counts])]
        new = {key: k for k, key in enumerate(keys) if key not in self._cache}
        if new:
            if (len(self._cache) + len(new)) * self.model.width > BLOCK_NUMBERS:
                self._cache = {key: self._cache[key] for key in keys if key not in new}
            which = list(new.values())
            self._cache |= zip(new, self._sums(counts[which], draws[which]), strict=True)
        return np.stack([self._cache[key] for key in keys], axis=1)

    def _sums(self, counts: IntArray, draws: IntArray) -> FloatArray:
        """Sums of drawn rows, shape (pools, numbers)."""
        order, sums = self.summed[0], list[FloatArray]()
        ends = np.cumsum(self.game.sizes[order]).astype(np.int64)
        step = max(1, 2**24 // len(self.features))  # 16 MB of marks at a time
        for some in slices(len(counts), step):
            taken, ids = counts[some], draws[some]
            marks = np.zeros((len(taken), len(self.features)), dtype=np.bool_)
            for j, part in zip(order, np.split(marks, ends[:-1], axis=1), strict=True):
                asked = np.flatnonzero(taken[:, j])
                if len(asked):
                    part[asked] = self.game.masks_of(j, taken[asked, j], ids[asked])
            drawn = (self.features.take(np.flatnonzero(rows), axis=0) for rows in marks)
            sums += map(self.model.summed, drawn)
        return np.stack(sums)

    @cached_property
    def features(self) -> FloatArray:
        """What of each row goes into sums, owner after owner in the order of their vectors."""
        rows = list(self.owned())
        return np.concatenate([self.model.features(*rows[j]) for j in self.summed[0]])

    def marginals(self) -> SumsMarginals:
        """Every owner's marginal around a pool, from its sums."""
        order, vectors = self.summed
        vectors = vectors[:, np.argsort(order)]
        return SumsMarginals(vectors, self.worth, self.game.nobody.value, self.name, self.block)

    def worth(self, pooled: FloatArray) -> FloatArray:
        """Utilities of sums of pools that are not empty, shape (numbers, m)."""
        values, _ = self.model.scored(pooled, self.model.known(pooled)[0])
        floor = -np.inf if self.game.at_least is None else self.game.nobody.value
        return np.maximum(values, floor)

    @cached_property
    def nobody(self) -> tuple[FloatArray, FloatArray | None]:
        """Coefficients of nobody's scores, and the model's basis with these as a last column."""
        known, nobody = self.model.basis, self.game.nobody
        entries = min(len(self.game.y_test), MOST_SCORES)
        rows = np.full(entries, nobody.value) if nobody.scores is None else nobody.scores
        if known is None:
            return rows, None
        return np.eye(1 + known.shape[1])[-1], np.column_stack([known, rows])

    def answers(self, queries: Queries, draws: Draws) -> Answers:
        """Utilities of pools, and their scores by test row where these are known."""
        parts = blocks(queries, draws, self.block) or [(queries, draws)]
        found = zip(*(self._block(*part) for part in parts), strict=True)
        values, coefficients = (np.concatenate(part) for part in found)
        known = self.game.scorer.known_by_row
        return Answers(values, Scores(coefficients, self.nobody[1]) if known else None)


def additive_path(game: ModelGame) -> AdditivePath | None:
    """The additive path of a game, where its model and score have one.

    A fixed rule on the model's class, parameters and score. Subclasses are not taken: what they
    changed cannot be known.
    """
    known = game.classes
    objects = [] if known is None or known.dtype.kind != "O" else known.tolist()
    if (
        game.backend != "numpy"
        or game.scorer.metric is None
        or game.y_test.ndim != 1
        or not all(map(_can_be_summed, (game.X_test, *game.owners.X)))
        # numbers among objects are fitted as codes
        or not all(isinstance(label, str) for label in objects)
    ):
        return None
    model = additive_model(game)
    if model is None or _too_wide(game, model):
        return None
    path = AdditivePath(game, model)
    if path.fractions == "rows":  # not even the sums of all owners may determine the model
        rows = (model.features(*owned) for owned in path.owned())
        pooled = sum(map(model.summed, rows), np.zeros(model.width))[:, None]
        everybody = game.sizes.astype(np.int64)
        if not path.known(pooled, everybody[None], [(everybody, None)])[0]:
            return None  # it is fitted on rows
    return path


def _can_be_summed(X: Array) -> bool:
    """True if rows are numbers whose squares are finite, in which scikit-learn computes as sums do.

    Of rows in single precision it makes a model in single precision. Features from 1e100 on have
    squares that sums cannot hold.
    """
    numbers = X.ndim == 2 and (X.dtype == np.float64 or X.dtype.kind in "iub")
    return numbers and float(np.abs(X).max(initial=0)) < 1e100


def _too_wide(game: ModelGame, model: Additive) -> bool:
    """True if the sums of all owners take far more memory than their rows, which are kept."""
    rows = sum(X.nbytes for X in game.owners.X)
    scatter = game.X_test.shape[1] ** 2  # which every owner is reduced to on the way
    sums = 8 * max(model.width * len(game.names), scatter)
    return game.owners.reduced is None and sums > max(2**27, 8 * rows)


def recognised(model: Any) -> str:
    """Package and class of a model."""
    return f"{type(model).__module__.split('.')[0]}.{type(model).__name__}"


def after_scaler(model: Any) -> tuple[Any, bool]:
    """The last step of a model, and whether columns are scaled before it; None after other steps.

    A `StandardScaler` tells means and variances of a pool, which are known from its sums.
    """
    if recognised(model) != "sklearn.Pipeline":
        return model, False
    *before, last = (step for _, step in model.steps)
    plain = [recognised(step) for step in before] == ["sklearn.StandardScaler"]
    return last if plain and before[0].with_mean and before[0].with_std else None, True


def additive_model(game: ModelGame) -> Additive | None:
    """Make the additive model that computes what a model of scikit-learn or ours does."""
    model, scaled = after_scaler(game.model)
    match recognised(model):
        case "sklearn.Ridge":
            alpha, intercept = model.alpha, bool(model.fit_intercept)
            # other solvers stop when they are near
            exact = model.solver in ("auto", "svd", "cholesky") and not model.positive
            if exact and is_number(alpha, above=0) and (intercept or not scaled):
                return LinearModel(game, float(alpha), intercept=intercept, standardised=scaled)
        case "sklearn.LinearRegression" if not model.positive and not scaled:
            return LinearModel(game, 0.0, intercept=bool(model.fit_intercept))
        case "sklearn.LinearDiscriminantAnalysis" if model.solver == "lsqr":
            shrinkage = model.shrinkage
            plain = model.priors is None and model.covariance_estimator is None
            # without shrinkage few rows are singular up to rounding, which decides
            known = shrinkage or game.owners.reduced is not None
            if plain and known and not isinstance(shrinkage, str):
                return Discriminant(game, float(shrinkage or 0.0), standardised=scaled)
        case "sklearn.GaussianNB" if model.priors is None:
            # for areas scikit-learn ranks by probabilities, of which many round to the same 1
            smoothing, ranked = float(model.var_smoothing), game.scoring.startswith("roc_auc")
            if smoothing > 0 and not ranked:
                return NaiveBayes(game, smoothing, standardised=scaled)
        case "dushapley.Regressogram" if game.scoring in ERROR_SCORES and not scaled:
            return Bins(game, as_floats(model.edges), int(model.column))
    return None
