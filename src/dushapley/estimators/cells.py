"""Mean utility of coalitions with and without each owner, size by size."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.estimators.calibration import Spread
from dushapley.estimators.moments import Sums, merged

WITH, WITHOUT = 0, 1
MOST_CREDITS, MOST_PRODUCTS, SOME_PRODUCTS = 2**25, 2**32, 2**22
"""Entries kept, and products taken, for the covariance between owners: at the end and before."""
AT_ONCE = 2**15
"""Entries of it that are made at a time: few enough to stay in cache."""


class Cells:
    """Counts, means and central sums by (with or without, owner, label), updated batch by batch.

    The label is the size of the coalition, or 0 for all where sizes are not kept apart. Batches
    are centred label by label before powers are taken, and merged by their means.
    """

    def __init__(self, n_players: int, labels: int) -> None:
        shape = (2, n_players, labels)
        self.count, self.mean, self.second, self.third = np.zeros((4, *shape))
        self.exact = np.zeros(shape, dtype=np.bool_)
        self.credits: list[tuple[slice, BoolArray, IntArray, FloatArray]] = []
        self.entries = 0

    def add(self, side: int, inside: BoolArray, labels: IntArray, values: FloatArray) -> None:
        """Credit each value to the owners marked in `inside`, under its label."""
        centre, sums, _ = self._sums(inside, labels, values)
        self._merge(slice(side, side + 1), inside, labels, values, centre, sums[:, None])

    def add_to_all(self, inside: BoolArray, labels: IntArray, values: FloatArray) -> None:
        """Credit each value to the owners in `inside` as with them, to all others as without."""
        centre, sums, totals = self._sums(inside, labels, values)
        both = np.stack([sums, totals - sums], axis=1)
        self._merge(slice(0, 2), inside, labels, values, centre, both)

    def _sums(
        self, inside: BoolArray, labels: IntArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means by label, and sums of powers 0 to 3 of what is off them: by owner, and of all."""
        width = self.count.shape[2]
        number = np.bincount(labels, minlength=width)
        centre = np.bincount(labels, values, minlength=width) / np.maximum(number, 1)
        powers = (values - centre[labels]) ** np.arange(4)[:, None]
        spread = np.zeros((len(values), 4, width))
        spread[np.arange(len(values)), :, labels] = powers.T
        by_label = spread.reshape(len(values), 4 * width)
        sums = (inside.T.astype(np.float64) @ by_label).reshape(-1, 4, width)
        totals = by_label.sum(axis=0).reshape(4, 1, width)
        return centre, sums.transpose(1, 0, 2), totals

    def _merge(
        self,
        sides: slice,
        inside: BoolArray,
        labels: IntArray,
        values: FloatArray,
        centre: FloatArray,
        sums: FloatArray,
    ) -> None:
        """Take in a batch: sums of powers, shape (4, sides, I, labels), around its means."""
        self.entries += inside.size * (sides.stop - sides.start)
        self.credits.append((sides, inside, labels, values))
        if self.entries > MOST_CREDITS:
            self.credits.clear()
        count, first, second, third = sums
        shift = first / np.maximum(count, 1)
        third = third + 2 * count * shift**3 - 3 * shift * second
        second = np.maximum(second - first * shift, 0)
        before = Sums(self.count[sides], self.mean[sides], self.second[sides], self.third[sides])
        after = merged(before, Sums(count, centre + shift, second, third))
        for moment, updated in zip(before, after, strict=True):
            moment[...] = updated

    def covariance(self, weights: FloatArray | float, *, last: bool) -> FloatArray | None:
        r"""Of the weighted sums of all means, between owners: they share coalitions.

        .. math:: \sum_A g g^T, \qquad g_i = \pm w \frac{u(A) - m_i}{\sqrt{n_i (n_i - 1)}}

        over the values u(A), with m, n mean and number of the mean that owner i was credited with
        it, w the weight of that mean. None where going through all of them again would take long;
        before the `last` estimate that is sooner.
        """
        n = self.count.shape[1]
        if not self.credits or self.entries * n > (MOST_PRODUCTS if last else SOME_PRODUCTS):
            return None
        shares = np.broadcast_to(np.where(self.exact, 0.0, weights), self.count.shape)
        scale = shares / np.sqrt(np.maximum(self.count * (self.count - 1), 1))
        joint = np.zeros((n, n))
        for parts in self._parts(scale):
            joint += parts.T @ parts
        return joint

    def _parts(self, scale: FloatArray) -> Iterator[FloatArray]:
        """What each value adds to the owners' errors, shape (values, I); both sides together."""
        rows = max(1, AT_ONCE // self.count.shape[1])
        mean, weight = self.mean.transpose(0, 2, 1), scale.transpose(0, 2, 1)
        for sides, inside, labels, values in self.credits:
            for start in range(0, len(values), rows):
                some = slice(start, start + rows)
                of, value = labels[some], values[some, None]
                first, *other = (
                    (1 if side == WITH else -1) * (value - mean[side][of]) * weight[side][of]
                    for side in range(sides.start, sides.stop)
                )
                yield np.where(inside[some], first, other[0] if other else 0.0)

    def know(self, side: int, label: int, means: FloatArray | float) -> None:
        """Set the means of all owners under one label to what they are exactly."""
        self.mean[side, :, label] = means
        self.exact[side, :, label] = True

    def known(self, population: FloatArray | None = None) -> BoolArray:
        """Whether the variance of each mean can be told; see `spread`."""
        known = self.exact | (self.count >= 2) | ((self.count == 1) & (self._lent() >= 0))
        return np.asarray(known if population is None else known | (self.count >= population))

    def _lent(self) -> FloatArray:
        """Variance of single values as other owners' means of the same label tell it.

        Of the same side, or else of both; −1 where nobody has two values. Shape (2, 1, labels).
        """
        squares, freedom = self.second.sum(axis=1), np.maximum(self.count - 1, 0).sum(axis=1)
        own = np.divide(squares, freedom, out=np.full(squares.shape, -1.0), where=freedom > 0)
        either = np.divide(
            squares.sum(axis=0), freedom.sum(axis=0), out=own.max(axis=0), where=freedom.any(axis=0)
        )
        return np.where(own < 0, either, own)[:, None, :]

    def spread(self, weights: FloatArray | float, population: FloatArray | None = None) -> Spread:
        """Error of the weighted sum of all means, by owner.

        A mean of a single value has the variance that other owners' means of its label have, as if
        from two values.

        Parameters
        ----------
        weights
            Of each cell, shape (2, I, labels) or less.
        population
            How many coalitions each cell has in all, where they were drawn without replacement:
            a mean over all of them is exact.
        """
        drawn = np.where(self.exact, 0.0, weights)
        alone = (self.count == 1) & ~self.exact
        second = np.where(alone, np.maximum(self._lent(), 0), self.second)
        sampled = Sums(self.count, self.mean, second, self.third).spread(drawn)
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
