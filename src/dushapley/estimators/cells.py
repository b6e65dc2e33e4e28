"""Mean utility of coalitions with and without each owner, size by size."""

from __future__ import annotations

from math import comb

import numpy as np

from dushapley.questions import BoolArray, FloatArray, IntArray

WITH, WITHOUT = 0, 1


class Cells:
    """Counts, means and scatters by (with or without, owner, label), updated batch by batch.

    The label is the size of the coalition, or 0 for all where sizes are not kept apart. Batches
    are centred label by label before squares are taken, and merged by their means.
    """

    def __init__(self, n_players: int, labels: int) -> None:
        shape = (2, n_players, labels)
        self.count = np.zeros(shape)
        self.mean = np.zeros(shape)
        self.scatter = np.zeros(shape)
        self.exact = np.zeros(shape, dtype=np.bool_)

    def add(self, side: int, inside: BoolArray, labels: IntArray, values: FloatArray) -> None:
        """Credit each value to the owners marked in `inside`, under its label."""
        width = self.count.shape[2]
        number = np.bincount(labels, minlength=width)
        centre = np.bincount(labels, values, minlength=width) / np.maximum(number, 1)
        off = (values - centre[labels])[:, None]
        owners = inside.T.astype(np.float64)
        one_hot = (labels[:, None] == np.arange(width)).astype(np.float64)
        count, first, second = (owners @ (one_hot * off**power) for power in range(3))
        shift = first / np.maximum(count, 1)
        self._merge(side, count, centre + shift, np.maximum(second - first * shift, 0))

    def _merge(self, side: int, count: FloatArray, mean: FloatArray, scatter: FloatArray) -> None:
        before = self.count[side]
        total = before + count
        share = count / np.maximum(total, 1)
        shift = mean - self.mean[side]
        self.mean[side] += shift * share
        self.scatter[side] += scatter + shift**2 * before * share
        self.count[side] = total

    def know(self, side: int, label: int, means: FloatArray | float) -> None:
        """Set the means of all owners under one label to what they are exactly."""
        self.mean[side, :, label] = means
        self.exact[side, :, label] = True

    def variances(self, population: FloatArray | None = None) -> FloatArray:
        """Variance of each mean; infinite while it is unknown.

        Parameters
        ----------
        population
            How many coalitions each cell has in all, where they were drawn without replacement:
            a mean over all of them is exact.
        """
        freedom = np.maximum(self.count - 1, 1)
        variance = self.scatter / freedom / np.maximum(self.count, 1)
        known = self.exact | (self.count >= 2)
        if population is not None:
            variance = variance * np.maximum(1 - self.count / np.maximum(population, 1), 0)
            known |= self.count >= population
        return np.where(self.exact, 0.0, np.where(known, variance, np.inf))


def populations(n_players: int) -> FloatArray:
    """Number of coalitions of each size with and without an owner, shape (2, 1, I+1)."""
    sizes = range(n_players + 1)
    with_owner = [comb(n_players - 1, s - 1) if s else 0 for s in sizes]
    without = [comb(n_players - 1, s) for s in sizes]
    return np.array([with_owner, without], dtype=np.float64)[:, None, :]
