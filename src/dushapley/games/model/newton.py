r"""Marginals of logistic regression: Newton steps around large pools, refits around small ones.

A pool C of rows x (an intercept first) with labels ±: its model θ minimises

.. math:: F_C(\theta) = \sum_{rows} \log(1 + e^{-y x^\top \theta}) + \tfrac12 \theta^\top D \theta

with D the penalty. Around a large pool one owner more or less moves θ little, by one Newton step

.. math:: \theta_{C \pm i} \approx \theta_C - \bigl(H_C \pm H_i + D\bigr)^{-1}
          \bigl(\nabla F_{C \pm i} - \nabla F_C\bigr)(\theta_C).

Around a small pool every owner's model is trained by Newton steps until they end. Around every
large one so are the models of a few owners: where the single step was off, all are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.games.marginals import Marginals
from dushapley.games.model.additive.model import solve
from dushapley.games.model.additive.path import recognised
from dushapley.games.model.scoring.scorer import constant_label

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

SMALL = 60
"""Owners of a pool up to which all models around it are trained."""
CHECKED, TOLERANCE = 3, 0.02
"""Models trained around a large pool, and the squared error of their steps' marginals, as a part of
the squared marginals, from which on all models around the pool are trained."""
STEPS, END = 40, 1e-6
"""Newton steps of a training at most, and the change of θ that ends it: the next one would be about
its square."""
AT_ONCE, MOST_COLUMNS = 256, 64
"""Owners worked on together, and columns up to which systems of each are made."""
SCORES = ("neg_log_loss", "neg_brier_score", "accuracy")


class NewtonMarginals(Marginals):
    """Marginals of a `ModelGame` of logistic regression with two classes.

    Parameters
    ----------
    game
        Whose rows, test set and score.
    penalty
        Weight of half the squared coefficients beside the sum of losses.
    scaled
        Whether coefficients are those of columns that every pool scales by itself.
    """

    block = 1024
    counted: ClassVar[tuple[str, ...]] = (
        "large",
        "refits",
        "again",
        "checks",
        "off",
        "error",
        "size",
    )

    def __init__(self, game: ModelGame, penalty: float, *, scaled: bool) -> None:
        assert game.classes is not None
        self.game, self.penalty, self.scaled = game, penalty, scaled
        blocks = [np.asarray(X, dtype=np.float64) for X in game.owners.X]
        self.X = _with_ones(np.concatenate(blocks))
        labels = np.concatenate([np.asarray(y) for y in game.owners.y])
        self.sign = np.where(labels == game.classes[1], 1.0, -1.0)
        self.ends = np.cumsum([0, *map(len, blocks)])
        self.test = _with_ones(np.asarray(game.X_test, dtype=np.float64))
        self.test_sign = np.where(game.y_test == game.classes[1], 1.0, -1.0)
        self.pairs = np.triu_indices(self.X.shape[1])
        self.constants = [game.scorer(constant_label(c, game.classes))[0] for c in game.classes]
        self.name = (
            f"newton to {END}, refits up to {SMALL} owners, {CHECKED} checks, "
            f"blocks of {self.block}"
        )
        self.note = (
            "Marginals around large pools are Newton steps from the pool's model, checked by "
            f"training some models; around pools of up to {SMALL} owners every model is trained."
        )

    def states(self, pools: BoolArray, owners: slice) -> FloatArray:
        """Coefficients of each pool's model."""
        return np.stack([self._trained(self._rows(pool)) for pool in pools])

    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        found = [self._around(p, s, owners) for p, s in zip(pools, states, strict=True)]
        return np.stack(found)

    def _around(self, pool: BoolArray, theta: FloatArray, owners: slice) -> FloatArray:
        """Marginals around one pool, then what was done."""
        members, some = int(pool.sum()), np.arange(owners.start, owners.stop)
        worth = float(self._worth(theta[:, None], self._rows(pool))[0])
        first = float(owners.start == 0)
        if members <= SMALL:
            refits = self._refitted(pool, theta, some)
            return np.append(self._signed(pool, some, refits, worth), [0, len(some), 0, 0, 0, 0, 0])
        steps = self._signed(pool, some, self._stepped(pool, theta, some), worth)
        which = np.linspace(0, len(some) - 1, min(CHECKED, len(some))).astype(np.int64)
        checks = self._signed(pool, some[which], self._refitted(pool, theta, some[which]), worth)
        error, size = float(((steps[which] - checks) ** 2).sum()), float((checks**2).sum())
        off = error > TOLERANCE * size
        if off:
            steps = self._signed(pool, some, self._refitted(pool, theta, some), worth)
        work = [first, 0, len(some) * off, len(which), float(off), error, size]
        return np.append(steps, work)

    def _signed(
        self, pool: BoolArray, some: IntArray, changed: FloatArray, worth: float
    ) -> FloatArray:
        return np.where(pool[some], worth - changed, changed - worth)

    def _rows(self, pool: BoolArray) -> IntArray:
        """Rows of a pool."""
        return np.flatnonzero(np.repeat(pool, np.diff(self.ends)))

    def _diagonal(self, sums: FloatArray, squares: FloatArray, n: FloatArray) -> FloatArray:
        """The penalty of pools by column, shape (columns, m), from sums over their rows."""
        if not self.scaled:
            ones = np.ones_like(sums)
        else:
            count = np.maximum(n, 1.0)
            variance = squares / count - (sums / count) ** 2
            ones = np.where(variance > 1e-12 * squares / count, variance, 1.0)
        ones = self.penalty * ones
        ones[0] = 0.0
        return ones

    def _moments(self, rows: IntArray) -> tuple[FloatArray, FloatArray, float]:
        X = self.X[rows]
        return X.sum(axis=0), (X**2).sum(axis=0), float(len(rows))

    def _stepped(self, pool: BoolArray, theta: FloatArray, some: IntArray) -> FloatArray:
        """Worth of the pool with each of these owners more or less, by one Newton step."""
        rows = self._rows(pool)
        _, curve = self._slopes(rows, theta)
        sums, squares, n = self._moments(rows)
        before = self._diagonal(sums[:, None], squares[:, None], np.array([n]))
        worth = []
        for start in range(0, len(some), AT_ONCE):
            part = some[start : start + AT_ONCE]
            own, same = Changed(self, pool, part), np.tile(theta[:, None], (1, len(part)))
            more, more2, count = own.moments()
            diagonal = self._diagonal(sums[:, None] + more, squares[:, None] + more2, n + count)
            every, nothing = np.arange(len(part)), np.zeros_like(same)
            slopes, curves = own.add(every, same, nothing, curve[:, None])
            change = slopes + (diagonal - before) * same
            moved = same - solve(self._systems(curves, diagonal), change[:, None])[:, 0]
            worth.append(self._worth(moved, rows))
        return np.concatenate(worth)

    def _slopes(self, rows: IntArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and curvature (upper triangle) of the losses of some rows."""
        X, sign = self.X[rows], self.sign[rows]
        p = 1 / (1 + np.exp(np.clip(sign * (X @ theta), -500, 500)))
        first, second = self.pairs
        weighted = X * (p * (1 - p))[:, None]
        whole = weighted.T @ X
        return -X.T @ (sign * p), whole[first, second]

    def _systems(self, curves: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Whole symmetric matrices of upper triangles, the penalty added."""
        width = self.X.shape[1]
        whole = np.empty((width, width, curves.shape[1]))
        first, second = self.pairs
        whole[first, second] = whole[second, first] = curves
        inner = np.arange(width)
        whole[inner, inner] += diagonal + 1e-10  # a pool of few rows may not know its intercept
        return whole

    def _refitted(self, pool: BoolArray, theta: FloatArray, some: IntArray) -> FloatArray:
        """Worth of the pool with each of these owners more or less, every model trained."""
        parts = [some[start : start + AT_ONCE] for start in range(0, len(some), AT_ONCE)]
        return np.concatenate([self._refitted_part(pool, theta, part) for part in parts])

    def _refitted_part(self, pool: BoolArray, theta: FloatArray, part: IntArray) -> FloatArray:
        rows, own = self._rows(pool), Changed(self, pool, part)
        sums, squares, n = self._moments(rows)
        more, more2, count = own.moments()
        diagonal = self._diagonal(sums[:, None] + more, squares[:, None] + more2, n + count)
        positive = (self.sign[rows] > 0).sum() + own.positive()
        trained = (positive > 0) & (positive < n + count)
        models = np.tile(theta[:, None], (1, len(part)))
        open_ = np.flatnonzero(trained)
        for _ in range(STEPS):
            if not len(open_):
                break
            some, penalty = models[:, open_], diagonal[:, open_]
            slopes, curves = own.add(open_, some, *self._pooled_slopes(rows, some))
            change = solve(self._systems(curves, penalty), (slopes + penalty * some)[:, None])[:, 0]
            largest = np.abs(change).max(axis=0)
            models[:, open_] = some - change * np.minimum(1.0, 5.0 / np.maximum(largest, 1e-300))
            open_ = open_[largest >= END]
        worth = self._worth(models, rows)
        constant = np.where(positive > 0, self.constants[1], self.constants[0])
        constant = np.where(n + count > 0, constant, self.game.nobody.value)
        floor = -np.inf if self.game.at_least is None else self.game.nobody.value
        return np.where(trained, worth, np.maximum(constant, floor))

    def _pooled_slopes(self, rows: IntArray, models: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradients and curvatures of the losses of the same rows under many models."""
        X, sign = self.X[rows], self.sign[rows][:, None]
        p = 1 / (1 + np.exp(np.clip(sign * (X @ models), -500, 500)))
        first, second = self.pairs
        return -X.T @ (sign * p), (X[:, first] * X[:, second]).T @ (p * (1 - p))

    def _trained(self, rows: IntArray) -> FloatArray:
        """Coefficients of the model of some rows, by Newton steps until they end."""
        theta = np.zeros(self.X.shape[1])
        if not len(rows) or abs(self.sign[rows].sum()) == len(rows):
            return theta  # nobody's, or of one class: a constant answers
        sums, squares, n = self._moments(rows)
        diagonal = self._diagonal(sums[:, None], squares[:, None], np.array([n]))
        for _ in range(STEPS):
            slope, curve = self._slopes(rows, theta)
            slope = slope + diagonal[:, 0] * theta
            system = self._systems(curve[:, None], diagonal)[:, :, 0]
            change = np.linalg.solve(system, slope)
            change *= min(1.0, 5.0 / max(float(np.abs(change).max()), 1e-300))
            theta = theta - change
            if float(np.abs(change).max()) < END:
                break
        return theta

    def _worth(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """Scores of models, shape (columns, m), of pools that hold about these rows."""
        there = self.sign[rows]
        if theta.shape[1] == 1 and (not len(rows) or abs(there.sum()) == len(rows)):
            nobody = self.game.nobody.value
            found = np.array([self.constants[int(there[0] > 0)] if len(rows) else nobody])
        else:
            found = self._scores(theta)
        floor = -np.inf if self.game.at_least is None else self.game.nobody.value
        return np.maximum(found, floor)

    def _scores(self, theta: FloatArray) -> FloatArray:
        margin = self.test_sign[:, None] * (self.test @ theta)
        if self.game.scoring == "accuracy":
            right = np.where(margin == 0, self.test_sign[:, None] < 0, margin > 0)
            return np.asarray(right.mean(axis=0))
        loss = np.logaddexp(0.0, -margin)
        if self.game.scoring == "neg_log_loss":
            return np.asarray(-np.minimum(loss, -np.log(np.finfo(np.float64).eps)).mean(axis=0))
        return np.asarray(-np.square(-np.expm1(-loss)).mean(axis=0))

    def told(self, work: Mapping[str, float]) -> dict[str, Any]:
        centres, large = int(work["centres"]), int(work["large"])
        refits, again, checks = int(work["refits"]), int(work["again"]), int(work["checks"])
        steps = int(work["updates"]) - refits - again
        return {
            "by": self.note,
            "centres": centres,
            f"centres of more than {SMALL} owners": large,
            "trainings": centres + refits + again + checks,
            f"trainings on more than {SMALL} owners": large + again + checks,
            f"trainings around up to {SMALL} owners": centres - large + refits,
            "updates": steps,
            "checks": checks,
            "centres where steps were off": int(work["off"]),
            "relative squared error of checked steps": work["error"] / (work["size"] or 1.0),
        }


class Changed:
    """Rows of single owners that come to a pool or leave it, all owners padded to one length."""

    def __init__(self, whose: NewtonMarginals, pool: BoolArray, owners: IntArray) -> None:
        starts, ends = whose.ends[owners], whose.ends[owners + 1]
        places = starts[:, None] + np.arange(int((ends - starts).max(initial=0)))
        there = places < ends[:, None]
        places = np.where(there, places, 0)
        self.weight = there * np.where(pool[owners], -1.0, 1.0)[:, None]
        self.X, self.sign, self.pairs = whose.X[places], whose.sign[places], whose.pairs

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums, squares and numbers of rows that come, less those that leave."""
        more = np.einsum("mlk,ml->km", self.X, self.weight)
        return more, np.einsum("mlk,ml->km", self.X**2, self.weight), self.weight.sum(axis=1)

    def positive(self) -> FloatArray:
        """Rows of the second class that come, less those that leave."""
        return np.asarray((self.weight * (self.sign > 0)).sum(axis=1))

    def add(
        self, which: IntArray, models: FloatArray, slopes: FloatArray, curves: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Gradients and curvatures with the rows of some owners, each under its own model."""
        X, sign, weight = self.X[which], self.sign[which], self.weight[which]
        p = 1 / (1 + np.exp(np.clip(sign * (X @ models.T[:, :, None])[:, :, 0], -500, 500)))
        first, second = self.pairs
        more = np.transpose(X, (0, 2, 1)) @ (weight * sign * p)[:, :, None]
        whole = np.transpose(X, (0, 2, 1)) @ (X * (weight * p * (1 - p))[:, :, None])
        return slopes - more[:, :, 0].T, curves + whole[:, first, second].T


def _with_ones(X: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(X)), X])


def newton_marginals(game: ModelGame) -> NewtonMarginals | None:
    """Marginals by Newton steps, where model and score have them: a fixed rule."""
    plain = game.path is None and game.training.repeats == 1
    plain = plain and not game.training.limits.any
    arrays = all(isinstance(X, np.ndarray) and X.ndim == 2 for X in (game.X_test, *game.owners.X))
    if not plain or not arrays or game.owners.weights is not None or game.scoring not in SCORES:
        return None
    numbers = all(X.dtype.kind in "fiub" and np.isfinite(X).all() for X in game.owners.X)
    if game.classes is None or len(game.classes) != 2 or not numbers:
        return None
    piped = recognised(game.model) == "sklearn.Pipeline"
    steps = [step for _, step in game.model.steps] if piped else [game.model]
    names = [recognised(step) for step in steps]
    scaled = names == ["sklearn.StandardScaler", "sklearn.LogisticRegression"]
    if not scaled and names != ["sklearn.LogisticRegression"]:
        return None
    if scaled and not (steps[0].with_mean and steps[0].with_std):
        return None
    options = steps[-1].get_params(deep=False)
    usual = options["fit_intercept"] and options["class_weight"] is None and not options["l1_ratio"]
    usual = usual and options.get("penalty") in ("l2", "deprecated") and not options["dual"]
    if not usual or options["solver"] == "liblinear" or game.X_test.shape[1] > MOST_COLUMNS:
        return None
    return NewtonMarginals(game, 1 / float(options["C"]), scaled=scaled)
