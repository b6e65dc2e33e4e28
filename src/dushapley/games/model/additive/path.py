"""The additive path of a `ModelGame`, and the fixed rule that says which models have one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, Fractions, IntArray, Queries
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
FAR = 1e100
"""Features from here on have squares that sums cannot hold."""
MASKS = 2**24
"""Marks of drawn rows that are held at a time: 16 MB."""
FEW_BYTES, MANY_TIMES = 2**27, 8
"""Sums of all owners may take this much memory, or this many times that of the rows."""


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

    def _block(self, queries: Queries, draws: IntArray | None) -> tuple[FloatArray, FloatArray]:
        """Return values of at most a block of pools, and coefficients of their scores by row."""
        counts, m = self.game.counts(queries), len(queries)
        ids = [None] * m if draws is None else draws.tolist()
        pooled, there = self._pooled(counts, draws), counts.any(axis=1)
        known = self.known(pooled, counts, ids)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values, by_row = self.model.scored(pooled, known)
            scores = by_row() if self.game.scorer.known_by_row else np.empty((0, self.block))
        values, found = values[:m], np.zeros((m, len(self.nobody)))
        found[:, : len(scores)] = scores.T[:m]
        values[~there], found[~there] = self.game.nobody.value, self.nobody
        fitted = ~known[:m] & there & (self.fractions == "rows")
        for k in np.flatnonzero(fitted).tolist():
            values[k], rows = self.model.fitted(*self.game.pool(counts[k], ids[k]))
            found[k] = 0.0
            found[k, : len(rows)] = rows
        return values, found

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def known(self, pooled: FloatArray, counts: IntArray, ids: Sequence[int | None]) -> BoolArray:
        """Find pools whose sums determine the model; the others have to be fitted on rows."""
        known, constant = self.model.known(pooled)
        doubted = (known & constant.any(axis=(0, 1)))[: len(counts)] & counts.any(axis=1)
        for k in np.flatnonzero(doubted & (self.fractions == "rows")).tolist():
            low, high = self._extent(counts[k], ids[k])
            known[k] = not np.any(constant[:, :, k] & (low < high))
        return known

    def _extent(self, counts: IntArray, draw: int | None) -> tuple[FloatArray, FloatArray]:
        """Least and largest values of a pool, those of whole owners being known."""
        if ((counts > 0) & (counts < self.game.sizes)).any():
            return self.model.extent(*self.game.pool(counts, draw))
        low, high = self.extents
        return low[counts > 0].min(axis=0), high[counts > 0].max(axis=0)

    @cached_property
    def extents(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest values of every owner, shapes (I, groups, columns)."""
        low, high = zip(*(self.model.extent(*rows) for rows in self._owned()), strict=True)
        return np.stack(low), np.stack(high)

    def _owned(self) -> Iterator[tuple[Array, Any]]:
        """Rows of every owner."""
        return zip(self.game.owners.X, self.game.owners.y, strict=True)

    def _pooled(self, counts: IntArray, draws: IntArray | None) -> FloatArray:
        """Sums of a block filled up to its constant shape; all owners stand in for nobody."""
        (order, vectors), whole = self.summed, counts == self.game.sizes
        taken = np.ones((self.block, len(order)))
        taken[: len(counts)] = np.where(counts.any(axis=1, keepdims=True), whole, 1)[:, order]
        pooled, parts = vectors @ taken.T, np.where(whole, 0, counts)
        if parts.any():
            assert draws is not None
            pooled[:, : len(counts)] += self._drawn(parts, draws)
        return pooled

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
        step, sums = max(1, MASKS // len(self.features)), []
        for start in range(0, len(counts), step):
            some = slice(start, start + step)
            for marks in self._marked(counts[some], draws[some]):
                rows = self.features.take(np.flatnonzero(marks), axis=0)
                sums.append(self.model.summed(rows))
        return np.stack(sums)

    @cached_property
    def features(self) -> FloatArray:
        """What of each row goes into sums, owner after owner in the order of their vectors."""
        rows = list(self._owned())
        return np.concatenate([self.model.features(*rows[j]) for j in self.summed[0]])

    def _marked(self, counts: IntArray, draws: IntArray) -> BoolArray:
        """Mark the rows that pools draw, shape (pools, rows)."""
        order = self.summed[0]
        marks = np.zeros((len(counts), len(self.features)), dtype=np.bool_)
        ends = np.cumsum(self.game.sizes[order]).astype(np.int64)
        for j, part in zip(order, np.split(marks, ends[:-1], axis=1), strict=True):
            asked = np.flatnonzero(counts[:, j])
            if len(asked):
                part[asked] = self.game.masks_of(j, counts[asked, j], draws[asked])
        return marks

    def marginals(self) -> SumsMarginals:
        """Every owner's marginal around a pool, from its sums."""
        order, vectors = self.summed
        vectors = vectors[:, np.argsort(order)]
        return SumsMarginals(vectors, self.worth, self.game.nobody.value, self.name, self.block)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def worth(self, pooled: FloatArray) -> FloatArray:
        """Utilities of sums of pools that are not empty, shape (numbers, m)."""
        values, _ = self.model.scored(pooled, self.model.known(pooled)[0])
        floor = -np.inf if self.game.at_least is None else self.game.nobody.value
        return np.maximum(values, floor)

    def is_singular(self) -> bool:
        """True if not even the sums of all owners determine the model: it is fitted on rows."""
        rows = (self.model.features(*rows) for rows in self._owned())
        pooled = sum(map(self.model.summed, rows), np.zeros(self.model.width))[:, None]
        everybody = self.game.counts(np.ones((1, len(self.game.names)), dtype=np.bool_))
        return not self.known(pooled, everybody, [None])[0]

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

    def answers(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Utilities of pools, and their scores by test row where these are known."""
        parts = blocks(queries, draws, self.block) or [(queries, draws)]
        found = zip(*(self._block(*part) for part in parts), strict=True)
        values, coefficients = (np.concatenate(part) for part in found)
        known = self.game.scorer.known_by_row
        return Answers(values, Scores(coefficients, self.basis) if known else None)


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
    return None if path.fractions == "rows" and path.is_singular() else path


def _can_be_summed(X: Array) -> bool:
    """True if rows are numbers whose squares are finite, in which scikit-learn computes as sums do.

    Of rows in single precision it makes a model in single precision.
    """
    numbers = X.ndim == 2 and (X.dtype == np.float64 or X.dtype.kind in "iub")
    return numbers and float(np.abs(X).max(initial=0)) < FAR


def _too_wide(game: ModelGame, model: Additive) -> bool:
    """True if the sums of all owners take far more memory than their rows, which are kept."""
    rows = sum(X.nbytes for X in game.owners.X)
    scatter = game.X_test.shape[1] ** 2  # which every owner is reduced to on the way
    sums = 8 * max(model.width * len(game.names), scatter)
    return game.owners.reduced is None and sums > max(FEW_BYTES, MANY_TIMES * rows)


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
    last, scaled = after_scaler(game.model)
    rule = _RULES.get(recognised(last))
    return None if rule is None else rule(game, last.get_params(deep=False), scaled)


def _ridge(game: ModelGame, options: dict[str, Any], scaled: bool) -> Additive | None:
    alpha, intercept = options["alpha"], bool(options["fit_intercept"])
    # other solvers stop when they are near
    exact = options["solver"] in ("auto", "svd", "cholesky") and not options["positive"]
    if not exact or not is_number(alpha, above=0) or (scaled and not intercept):
        return None
    return LinearModel(game, float(alpha), intercept=intercept, standardised=scaled)


def _least_squares(game: ModelGame, options: dict[str, Any], scaled: bool) -> Additive | None:
    if options["positive"] or scaled:
        return None
    return LinearModel(game, 0.0, intercept=bool(options["fit_intercept"]))


def _discriminant(game: ModelGame, options: dict[str, Any], scaled: bool) -> Additive | None:
    shrinkage = options["shrinkage"]
    plain = options["priors"] is None and options["covariance_estimator"] is None
    # without shrinkage few rows are singular up to rounding, which decides
    known = shrinkage or game.owners.reduced is not None
    if not plain or options["solver"] != "lsqr" or isinstance(shrinkage, str) or not known:
        return None
    return Discriminant(game, float(shrinkage or 0.0), standardised=scaled)


def _naive_bayes(game: ModelGame, options: dict[str, Any], scaled: bool) -> Additive | None:
    # for areas scikit-learn ranks by probabilities, of which many round to the same 1
    smoothing, ranked = float(options["var_smoothing"]), game.scoring.startswith("roc_auc")
    if options["priors"] is not None or ranked or smoothing <= 0:
        return None
    return NaiveBayes(game, smoothing, standardised=scaled)


def _regressogram(game: ModelGame, options: dict[str, Any], scaled: bool) -> Additive | None:
    if scaled or game.scoring not in ERROR_SCORES:
        return None
    return Bins(game, np.asarray(options["edges"], dtype=np.float64), int(options["column"]))


_RULES: dict[str, Callable[[ModelGame, dict[str, Any], bool], Additive | None]] = {
    "sklearn.Ridge": _ridge,
    "sklearn.LinearRegression": _least_squares,
    "sklearn.LinearDiscriminantAnalysis": _discriminant,
    "sklearn.GaussianNB": _naive_bayes,
    "dushapley.Regressogram": _regressogram,
}
