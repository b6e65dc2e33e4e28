"""Mean utility of coalitions with and without each owner, size by size."""

from __future__ import annotations

from math import comb

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.estimators.calibration import Spread
from dushapley.estimators.moments import Sums, merged

WITH, WITHOUT = 0, 1


class Cells:
    """Counts, means and central sums by (with or without, owner, label), updated batch by batch.

    The label is the size of the coalition, or 0 for all where sizes are not kept apart. Batches
    are centred label by label before powers are taken, and merged by their means.
    """

    def __init__(self, n_players: int, labels: int) -> None:
        shape = (2, n_players, labels)
        self.count, self.mean, self.second, self.third = np.zeros((4, *shape))
        self.exact = np.zeros(shape, dtype=np.bool_)

    def add(self, side: int, inside: BoolArray, labels: IntArray, values: FloatArray) -> None:
        """Credit each value to the owners marked in `inside`, under its label."""
        width = self.count.shape[2]
        number = np.bincount(labels, minlength=width)
        centre = np.bincount(labels, values, minlength=width) / np.maximum(number, 1)
        off = (values - centre[labels])[:, None]
        owners = inside.T.astype(np.float64)
        one_hot = (labels[:, None] == np.arange(width)).astype(np.float64)
        count, first, second, third = (owners @ (one_hot * off**power) for power in range(4))
        shift = first / np.maximum(count, 1)
        third += 2 * count * shift**3 - 3 * shift * second
        second = np.maximum(second - first * shift, 0)
        before = Sums(self.count[side], self.mean[side], self.second[side], self.third[side])
        after = merged(before, Sums(count, centre + shift, second, third))
        for moment, updated in zip(before, after, strict=True):
            moment[...] = updated

    def know(self, side: int, label: int, means: FloatArray | float) -> None:
        """Set the means of all owners under one label to what they are exactly."""
        self.mean[side, :, label] = means
        self.exact[side, :, label] = True

    def known(self, population: FloatArray | None = None) -> BoolArray:
        """Whether the variance of each mean can be told; see `spread`."""
        known = self.exact | (self.count >= 2)
        return np.asarray(known if population is None else known | (self.count >= population))

    def spread(self, weights: FloatArray | float, population: FloatArray | None = None) -> Spread:
        """Error of the weighted sum of all means, by owner.

        Parameters
        ----------
        weights
            Of each cell, shape (2, I, labels) or less.
        population
            How many coalitions each cell has in all, where they were drawn without replacement:
            a mean over all of them is exact.
        """
        drawn = np.where(self.exact, 0.0, weights)
        sampled = Sums(self.count, self.mean, self.second, self.third).spread(drawn)
        left = np.ones(1)
        if population is not None:
            left = np.maximum(1 - self.count / np.maximum(population, 1), 0)
        third = sampled.third * left * (2 * left - 1)
        return Spread(sampled.variance * left, third, sampled.freedom).together(axis=(0, 2))


def populations(n_players: int) -> FloatArray:
    """Number of coalitions of each size with and without an owner, shape (2, 1, I+1)."""
    sizes = range(n_players + 1)
    with_owner = [comb(n_players - 1, s - 1) if s else 0 for s in sizes]
    without = [comb(n_players - 1, s) for s in sizes]
    return np.array([with_owner, without], dtype=np.float64)[:, None, :]
