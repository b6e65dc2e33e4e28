"""What an owner computes for a block of pools: sums of gradients, local steps, local scores.

Softmax regression as `dushapley.games.SoftmaxRegression` trains it, in float64. Pools are worked on
one after the other, each in the shape of its own rows: what a pool comes to depends on no other
pool of the block, so a block that is cut otherwise after a restart has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.games.model.batched.recipe import Recipe, Steps, softmax
from dushapley.games.model.batched.reference import (
    batches,
    gradients,
    logits,
    with_intercept,
)
from dushapley.hashing import whole_number

GROUPS = 10
"""Groups of held-back rows of which counts are told, so that the test set's error can be known."""


class Rows:
    """An owner's rows as numbers, ready to be trained on.

    Parameters
    ----------
    X, y
        Features as agreed, and labels.
    classes
        All labels of the federation, in order.
    """

    def __init__(self, X: FloatArray, y: Array, classes: Array) -> None:
        self.X = with_intercept(X)
        self.codes = np.searchsorted(classes, y)
        self.targets = np.eye(len(classes))[self.codes]

    def seen(self, rows: IntArray | slice) -> BoolArray:
        """Which classes these rows have."""
        return np.asarray(self.targets[rows].any(axis=0))

    def slopes(self, weights: FloatArray, rows: IntArray | slice, present: BoolArray) -> FloatArray:
        """Sum over rows of the gradient of the cross-entropy, shape (C, d+1)."""
        X = self.X[rows]
        missed = softmax(logits([weights], X)[-1], present) - self.targets[rows]
        return np.asarray(missed.T @ X)

    def stepped(
        self,
        weights: FloatArray,
        rows: IntArray | slice,
        present: BoolArray,
        recipe: Recipe,
        round_: int,
    ) -> FloatArray:
        """The weights after local steps of this round, shape (C, d+1); momentum begins anew."""
        X, targets = self.X[rows], self.targets[rows]
        here = [weights.copy()]
        steps = Steps(recipe, here)
        # every round has mini-batches of its own, the same for all pools
        seeded = replace(recipe, seed=whole_number(f"{recipe.seed} round {round_}", 4))
        for batch in batches(seeded, len(X)):
            steps.take(gradients(here, X[batch], targets[batch], present))
        return here[0]

    def right(self, weights: FloatArray, present: BoolArray, groups: Sequence[IntArray]) -> Array:
        """Rows of each group that these weights predict rightly."""
        scores = np.where(present, logits([weights], self.X)[-1], -np.inf)
        hit = scores.argmax(axis=1) == self.codes
        return np.array([int(hit[group].sum()) for group in groups], dtype=np.int64)


def held_back_groups(n_rows: int, least_rows: int) -> list[IntArray]:
    """Rows by group: as many groups as have `least_rows` rows each, at most `GROUPS`."""
    count = int(np.clip(n_rows // max(least_rows, 1), 1, GROUPS))
    order = np.random.default_rng(0).permutation(n_rows)
    return [np.sort(order[k::count]) for k in range(count)]
