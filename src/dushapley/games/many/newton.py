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
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import EPSILON, BoolArray, FloatArray, IntArray, as_floats, slices
from dushapley.games.many.marginals import Marginals
from dushapley.games.model.additive.model import diagonals, solve
from dushapley.games.model.additive.path import after_scaler, recognised
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
    counted = ("large", "refits", "again", "steps", "checks", "off", "error", "size")

    def __init__(self, game: ModelGame, penalty: float, *, scaled: bool) -> None:
        assert game.classes is not None
        self.penalty, self.scaled, self.scoring = penalty, scaled, game.scoring
        blocks = [as_floats(X) for X in game.owners.X]
        self.X = np.insert(np.concatenate(blocks), 0, 1.0, axis=1)
        labels = np.concatenate([np.asarray(y) for y in game.owners.y])
        self.sign = np.where(labels == game.classes[1], 1.0, -1.0)
        self.ends = np.cumsum([0, *map(len, blocks)])
        self.test = np.insert(as_floats(game.X_test), 0, 1.0, axis=1)
        self.test_sign = np.where(game.y_test == game.classes[1], 1.0, -1.0)
        self.pairs = np.triu_indices(self.X.shape[1])
        self.constants = [game.scorer(constant_label(c, game.classes))[0] for c in game.classes]
        self.nobody = game.nobody.value
        self.floor = -np.inf if game.at_least is None else self.nobody
        self.name = (
            f"newton to {END}, refits up to {SMALL} owners, {CHECKED} checks, "
            f"blocks of {self.block}"
        )
        self.note = (
            "Marginals around large pools are Newton steps from the pool's model, checked by "
            f"training some models; around pools of up to {SMALL} owners every model is trained."
        )

    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        some, repeated = np.arange(owners.start, owners.stop), float(owners.start > 0)
        return np.stack([self._around(pool, some, repeated) for pool in pools])

    def _around(self, pool: BoolArray, some: IntArray, repeated: float) -> FloatArray:
        """Marginals around one pool, then what was done.

        The pool's own model is trained for every block of owners, so `repeated` beyond the first.
        """
        centre = Centre(self, pool)
        if pool.sum() <= SMALL:
            refits = [0, len(some) + repeated, 0, 0, 0, 0, 0, 0]
            return np.append(centre.gains(some, STEPS), refits)
        found, steps = centre.gains(some, 1), len(some)
        which = np.linspace(0, len(some) - 1, min(CHECKED, len(some))).astype(np.int64)
        checks = centre.gains(some[which], STEPS)
        error, size = float(((found[which] - checks) ** 2).sum()), float((checks**2).sum())
        off = error > TOLERANCE * size
        if off:
            found, steps = centre.gains(some, STEPS), 0
        again = len(some) - steps + repeated
        return np.append(found, [1 - repeated, 0, again, steps, len(which), off, error, size])

    def account(self, work: Mapping[str, float]) -> dict[str, Any]:
        centres, large, refits = int(work["centres"]), int(work["large"]), int(work["refits"])
        on_large = int(large + work["again"] + work["checks"])
        return {
            "by": self.note,
            "centres": centres,
            f"centres of more than {SMALL} owners": large,
            "trainings": centres - large + refits + on_large,
            f"trainings on more than {SMALL} owners": on_large,
            f"trainings around up to {SMALL} owners": centres - large + refits,
            "updates": int(work["steps"]),
            "checks": int(work["checks"]),
            "centres where steps were off": int(work["off"]),
            "relative squared error of checked steps": work["error"] / (work["size"] or 1.0),
        }

    def scores(self, models: FloatArray) -> FloatArray:
        """Scores of models, shape (columns, m)."""
        margin = self.test_sign[:, None] * (self.test @ models)
        if self.scoring == "accuracy":
            right = np.where(margin == 0, self.test_sign[:, None] < 0, margin > 0)
            return right.mean(axis=0)
        loss = np.logaddexp(0.0, -margin)
        if self.scoring == "neg_log_loss":
            return -np.minimum(loss, -np.log(EPSILON)).mean(axis=0)
        return -np.square(-np.expm1(-loss)).mean(axis=0)


class Centre:
    """A pool, its model and what that is worth, from which the models around it are made."""

    def __init__(self, whose: NewtonMarginals, pool: BoolArray) -> None:
        self.whose, self.pool = whose, pool
        rows = np.flatnonzero(np.repeat(pool, np.diff(whose.ends)))
        self.X, self.sign = whose.X[rows], whose.sign[rows]
        self.theta = np.zeros((self.X.shape[1], 1))
        itself = Changed(self, np.zeros(1, dtype=np.int64), np.zeros(1))
        self.theta = self._trained(itself, STEPS)
        self.worth = self._worth(itself, self.theta)

    def gains(self, some: IntArray, steps: int) -> FloatArray:
        """Marginals of some owners, by models of at most so many Newton steps from this pool's."""
        found = []
        for part in [some[cut] for cut in slices(len(some), AT_ONCE)]:
            sign = np.where(self.pool[part], -1.0, 1.0)
            changed = Changed(self, part, sign)
            worth = self._worth(changed, self._trained(changed, steps))
            found.append(sign * (worth - self.worth))
        return np.concatenate(found)

    def _trained(self, changed: Changed, steps: int) -> FloatArray:
        """Coefficients of the models of changed pools, shape (columns, m)."""
        models = np.tile(self.theta, (1, len(changed.n)))
        open_ = np.flatnonzero(changed.mixed)
        for _ in range(steps):
            if not len(open_):
                break
            some = models[:, open_]
            here = self.theta if steps == 1 else some  # a single step begins at the pool's model
            change = solve(*self._systems(changed, open_, some, here))[:, 0]
            largest = np.abs(change).max(axis=0)
            longest = np.inf if steps == 1 else 5.0  # change of θ by one step of several
            part = np.minimum(1.0, longest / np.maximum(largest, 1e-300))
            models[:, open_] = some - change * part
            open_ = open_[largest >= END]
        return models

    def _systems(
        self, changed: Changed, which: IntArray, models: FloatArray, here: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Curvatures and gradients of some changed pools: the own rows under models from `here`."""
        X, sign, (first, second) = self.X, self.sign[:, None], self.whose.pairs
        p = chance_of_error(sign, X @ here)
        slopes, curved = -X.T @ (sign * p), p * (1 - p)
        if here.shape[1] == 1:
            curves = ((X * curved).T @ X)[first, second][:, None]
        else:
            curves = (X[:, first] * X[:, second]).T @ curved
        X, sign, weight = changed.X[which], changed.sign[which], changed.weight[which]
        p = chance_of_error(sign, (X @ models.T[:, :, None])[:, :, 0])
        turned, curved = np.swapaxes(X, 1, 2), weight * p * (1 - p)
        more = turned @ (weight * sign * p)[:, :, None]
        curves = curves + (turned @ (X * curved[:, :, None]))[:, first, second].T
        penalty, width = changed.penalty[:, which], X.shape[2]
        systems = np.empty((width, width, len(which)))
        systems[first, second] = systems[second, first] = curves
        # a pool of few rows may not know its intercept
        diagonals(systems)[:] += penalty + 1e-10
        slopes = slopes - more[:, :, 0].T + penalty * models
        return systems, slopes[:, None]

    def _worth(self, changed: Changed, models: FloatArray) -> FloatArray:
        """Utilities of changed pools; a constant answers for those of one class."""
        constant = np.where(changed.positive > 0, *self.whose.constants[::-1])
        constant = np.where(changed.n > 0, constant, self.whose.nobody)
        found = np.where(changed.mixed, self.whose.scores(models), constant)
        return np.maximum(found, self.whose.floor)


class Changed:
    """Pools to which one owner's rows come or from which they go, all owners padded to one length.

    `sign` is 1 of owners who come, −1 of those who go, and 0 where the pool stays as it is.
    """

    def __init__(self, centre: Centre, owners: IntArray, sign: FloatArray) -> None:
        whose = centre.whose
        starts, ends = whose.ends[owners], whose.ends[owners + 1]
        places = starts[:, None] + np.arange(int((ends - starts).max(initial=0)))
        there = places < ends[:, None]
        places = np.where(there, places, 0)
        self.weight = there * sign[:, None]
        self.X, self.sign = whose.X[places], whose.sign[places]
        self.n = len(centre.X) + self.weight.sum(axis=1)
        self.positive = (centre.sign > 0).sum() + (self.weight * (self.sign > 0)).sum(axis=1)
        self.mixed = (self.positive > 0) & (self.positive < self.n)
        self.penalty = np.full((centre.X.shape[1], len(owners)), whose.penalty)
        if whose.scaled:
            count = np.maximum(self.n, 1.0)
            sums, squares = (
                (centre.X**power).sum(axis=0)[:, None]
                + np.einsum("mlk,ml->km", self.X**power, self.weight)
                for power in (1, 2)
            )
            variance = squares / count - (sums / count) ** 2
            # as scalers have it where there is none
            self.penalty *= np.where(variance > 1e-12 * squares / count, variance, 1.0)
        self.penalty[0] = 0.0


def chance_of_error(sign: FloatArray, predicted: FloatArray) -> FloatArray:
    """Probability that models give to the other class than the rows'."""
    return 1 / (1 + np.exp(np.clip(sign * predicted, -500, 500)))


def newton_marginals(game: ModelGame) -> NewtonMarginals | None:
    """Marginals by Newton steps, where model and score have them: a fixed rule."""
    plain = game.path is None and game.owners.weights is None and game.scoring in SCORES
    once = game.training.repeats == 1 and not game.training.limits.any
    two = game.classes is not None and len(game.classes) == 2
    if not (plain and once and two and all(map(_is_finite, (game.X_test, *game.owners.X)))):
        return None
    last, scaled = after_scaler(game.model)
    if recognised(last) != "sklearn.LogisticRegression":
        return None
    options = last.get_params(deep=False)
    usual = options["fit_intercept"] and options["class_weight"] is None and not options["l1_ratio"]
    usual = usual and options.get("penalty") in ("l2", "deprecated") and not options["dual"]
    if not usual or options["solver"] == "liblinear":
        return None
    return NewtonMarginals(game, 1 / float(options["C"]), scaled=scaled)


def _is_finite(X: object) -> bool:
    """True for arrays of finite numbers in few columns."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return False
    return X.shape[1] <= MOST_COLUMNS and bool(np.isfinite(X).all())
