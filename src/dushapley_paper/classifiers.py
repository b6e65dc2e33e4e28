"""Small classifiers as a game, trained for thousands of pools at once, on the CPU or a GPU."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Queries
from dushapley.data.owners import Owners
from dushapley.games.model.batched.arithmetic import Arithmetic, Precision, arithmetic
from dushapley.games.model.batched.program import Judge, Program, Trained
from dushapley.games.model.batched.recipe import Recipe, memberships
from dushapley.games.rows import RowsGame, blocks


class ClassifierGame(RowsGame):
    """u(S) = test accuracy of a small classifier after the steps of one recipe on pool S.

    `ModelGame` answers the same question with everything people need around it; here are the bare
    numbers, for a million pools. The empty pool is worth the best constant prediction.

    Parameters
    ----------
    owners
        Whose rows are pooled; targets are class codes 0..C−1.
    X_test, y_test
        The test set.
    recipe
        Model and training.
    device
        None: NumPy, float32. Otherwise torch on this device.
    block
        Pools trained together.
    """

    cheap = True
    precision: Precision = "float32"

    def __init__(
        self,
        owners: Owners,
        X_test: Array,
        y_test: Array,
        recipe: Recipe,
        device: str | None = None,
        block: int = 4096,
    ) -> None:
        super().__init__(owners)
        codes = [self.labels[j].astype(np.int64) for j in range(self.n_players)]
        self.n_classes = 1 + max(int(y_test.max()), *(int(c.max()) for c in codes))
        self.numbers = numbers_for(device, self.precision)
        self.program = Program(
            recipe, owners.X, codes, range(self.n_classes), self.numbers, list(self.order)
        )
        sizes = self.sizes.astype(np.int64)[self.order]
        self.owner_of = np.repeat(self.order, sizes)
        self.seat = np.repeat(np.arange(self.n_players), sizes)
        self.position = np.concatenate([np.arange(size) for size in sizes])
        self.classes = np.concatenate([codes[j] for j in self.order])
        self.judge = Judge(self.program, X_test, np.asarray(y_test, dtype=np.int64))
        self.block = block
        self.empty = float(np.bincount(y_test, minlength=self.n_classes).max() / len(y_test))

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        parts = []
        for pools, ids in blocks(queries, draws, self.block):
            counts = self.counts(pools)
            scores = self.judge.accuracy(self.train(counts, ids))
            parts.append(np.where(counts.any(axis=1), scores, self.empty))
        return np.concatenate(parts)

    def train(self, counts: IntArray, draws: IntArray | None) -> Trained:
        """Train the pools that take these counts of rows."""
        sizes = self.sizes.astype(np.int64)
        members = memberships(counts, sizes, draws, self.rows_of, list(self.order))
        return self.program.train(len(counts), members)


class ManyOwnersGame(ClassifierGame):
    """The same for a hundred small owners and mini-batches.

    A pool that holds part of every owner's rows asks for a hundred draws; here one random key per
    row decides them all: of owner j the `count` rows with the smallest keys are taken. The law is
    the same and pools of one draw still share their rows; only the dice differ. On a GPU products
    read tf32: mini-batches are noisier than that.
    """

    precision = "tf32"

    def train(self, counts: IntArray, draws: IntArray | None) -> Trained:
        n_rows = counts.sum(axis=1)
        batches = self.program.recipe.batch_positions(n_rows)
        present = np.zeros((len(counts), self.n_classes), dtype=np.bool_)
        for p, count in enumerate(counts):
            rows = self.held(count, None if draws is None else int(draws[p]))
            if len(rows):
                present[p, self.classes[rows]] = True
                batches[p] = rows[batches[p]]
        weights = self.program.train_rows(batches, present, n_rows)
        return Trained(weights, present, n_rows)

    def held(self, counts: IntArray, draw: int | None) -> IntArray:
        """Rows of one pool, as numbers in the program's own order."""
        taken = counts[self.owner_of]
        whole = (counts == 0) | (counts == self.sizes)
        if whole.all():
            return np.flatnonzero(taken)
        keys = np.random.default_rng(draw).random(len(self.seat))
        ranked = np.argsort(self.seat + keys)
        return np.sort(ranked[self.position < taken])


def numbers_for(device: str | None, precision: Precision) -> Arithmetic:
    """NumPy in float32, or torch on a device in the wanted precision."""
    if device is None or device == "cpu":
        return arithmetic("numpy" if device is None else "torch", "float32", device)
    return arithmetic("torch", precision, device)
