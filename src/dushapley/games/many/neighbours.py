r"""Marginals of the nearest-neighbour game around a pool, for all owners at once.

For a test point let the pool's rows stand from near to far, H(m) the right labels among the first
m. An owner outside whose rows stand with r rows of the pool before them, and j of its own, brings
those into the K nearest that have j + r < K; they push as many of the pool's out. If an owner
inside leaves, its rows with fewer than K others before them go, and as many move up. So each
marginal is a count of few rows:

.. math:: \Delta_i = \tfrac1K \Bigl[\sum_{\text{its } a \text{ rows}} right
          - \bigl(H(K) - H(K-a)\bigr)\Bigr], \qquad
          \Delta_i = \tfrac1K \Bigl[\sum_{\text{its } b \text{ rows}} right
          - \bigl(H(K+b) - H(K)\bigr)\Bigr]

for owners outside and inside.
"""

from __future__ import annotations

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.games.many.marginals import Marginals

POINTS = 16
"""Test points worked on together."""


class NeighbourMarginals(Marginals):
    """Marginals of a `KNNGame`, whose rows stand from near to far for every test point.

    Parameters
    ----------
    whose, right
        Owner of each row and whether its label is right, shape (test points, rows).
    k
        Number of neighbours.
    """

    power = 1.0  # a row counts in full wherever it is near enough, in about one pool of s

    def __init__(self, whose: IntArray, right: BoolArray, k: int, n_players: int) -> None:
        self.whose, self.right, self.k, self.block = whose, right, k, n_players
        self.name = f"neighbours, K = {k}"
        self.note = "Marginals around a pool are counts of neighbours that come or go: exact."

    def states(self, pools: BoolArray, owners: slice) -> FloatArray:
        return np.zeros((len(pools), 1))

    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        points = len(self.whose)
        found = np.zeros(pools.shape)
        for start in range(0, points, POINTS):
            some = slice(start, start + POINTS)
            for pool, row in zip(pools, found, strict=True):
                row += self._gains(pool, self.whose[some], self.right[some])
        return found / (self.k * points)

    def _gains(self, pool: BoolArray, whose: IntArray, right: BoolArray) -> FloatArray:
        """Of all owners, summed over a few test points."""
        n, k = len(pool), self.k
        inside = pool[whose]
        rank = np.cumsum(inside, axis=1, dtype=np.int32)
        near = np.where(inside, rank - 1 < k + self._most(whose), rank < k)
        point, place = np.nonzero(near)
        owner, member = whose[point, place], inside[point, place]
        cell = point * n + owner
        # how many of its own rows stand before each: cells in order, then from near to far
        order = np.argsort(cell, kind="stable")
        cell, owner, member = cell[order], owner[order], member[order]
        hit, before = right[point, place][order], rank[point, place][order]
        begins = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
        lengths = np.diff(np.append(begins, len(cell)))
        own = np.arange(len(cell)) - np.repeat(begins, lengths)
        counts = np.where(member, before - 1 - own < k, before + own < k)
        moved = np.add.reduceat(counts.astype(np.int64), begins) if len(cell) else counts
        hits = np.add.reduceat((counts & hit).astype(np.int64), begins) if len(cell) else counts
        who, where, is_member = owner[begins], cell[begins] // n, member[begins]
        table = self._table(inside, right, k)
        last = table.shape[1] - 1
        end = np.where(is_member, k + moved, k - moved)
        change = np.where(
            is_member,
            hits - (table[where, np.minimum(end, last)] - table[where, min(k, last)]),
            hits - (table[where, min(k, last)] - table[where, np.minimum(end, last)]),
        )
        return np.asarray(np.bincount(who, change, minlength=n), dtype=np.float64)

    def _most(self, whose: IntArray) -> int:
        """Most rows that one owner has, by which an owner's leaving reaches further."""
        return int(np.bincount(whose[0]).max())

    def _table(self, inside: BoolArray, right: BoolArray, k: int) -> IntArray:
        """H: right labels among the pool's first 0, 1, ... rows, as far as anybody reaches."""
        reach = min(k + self._most(self.whose), int(inside[0].sum()))
        table = np.zeros((len(inside), reach + 1), dtype=np.int64)
        rank = np.cumsum(inside, axis=1, dtype=np.int32)
        point, place = np.nonzero(inside & (rank <= reach))
        table[point, rank[point, place]] = right[point, place]
        return np.cumsum(table, axis=1)


def owners_of_rows(sizes: Array, order: list[int], near: IntArray) -> IntArray:
    """Whose the rows are, in the order of `near`."""
    whose = np.repeat(np.array(order), sizes[order].astype(np.int64))
    return np.asarray(whose[near].astype(np.int32))


class Walk:
    r"""Exact values of many owners by one walk through the rows of some test points, near to far.

    The formula is that of `dushapley.games.nearest.knn_values`. What a right row takes from another
    owner depends on nothing but how many nearer rows that owner has, c. So the subsets d[r, t] are
    carried along, one factor being exchanged as an owner's c grows, and what owners with c rows
    lose is summed by c: an owner settles when its c changes. Cost: rows times K³, whatever the
    number of owners; counts are whole numbers, exact up to 2⁵³.

    Parameters
    ----------
    n_points, n_players, k
        Test points, owners and neighbours.
    weights
        1/(n·C(n−1, r)), shape (I + 1, K + 1).
    """

    def __init__(self, n_points: int, n_players: int, k: int, weights: FloatArray) -> None:
        self.k, self.weights = k, weights
        self.points = np.arange(n_points)
        self.values, self.settled = np.zeros((2, n_points, n_players))
        self.nearer = np.zeros((n_points, n_players), dtype=np.int64)
        self.lost = np.zeros((n_points, k + 1))
        self.subsets = np.zeros((n_points, k, k))
        self.subsets[:, 0, 0] = 1
        self.present = np.zeros(n_points, dtype=np.int64)  # owners with nearer rows

    def step(self, owner: IntArray, right: BoolArray) -> None:
        """The next row of every test point: whose it is, and whether its label is right."""
        k, points = self.k, self.points
        own = self.nearer[points, owner]
        others = self._without(self.subsets, own)
        self._settle(owner, own)
        self._share(owner, right, own, others)
        self.subsets = self._with(others, own + 1)
        self.present += own == 0
        self.nearer[points, owner] = own + 1
        self.settled[points, owner] = self.lost[points, np.minimum(own + 1, k)]

    def _share(self, owner: IntArray, right: BoolArray, own: IntArray, others: FloatArray) -> None:
        """What a right row gives to its owner, and takes from all others."""
        k, cap = self.k, (self.k - 1 - own)[:, None]
        n = 1 + self.present - (own > 0)
        gives, takes = self.weights[n, :-1], self.weights[n, 1:]
        t = np.arange(k)
        fits = t <= cap
        held = others * (fits & right[:, None])[:, None, :]
        self.values[self.points, owner] += np.einsum("prt,pr->p", held, gives)
        blocked = np.einsum("prt,pr->p", held, takes)
        for c in range(1, k + 1):
            if c < k:
                fewer = others.copy()
                for r in range(1, k):  # as `_without`, of one c for all points
                    fewer[:, r, c:] -= fewer[:, r - 1, :-c]
                pushed = fits & (t > cap - c) & right[:, None]
                active = np.einsum("prt,pt,pr->p", fewer, pushed, takes)
                self.lost[:, c] += np.where(c <= cap[:, 0], active, blocked)
            else:
                self.lost[:, c] += blocked

    def _settle(self, owner: IntArray, own: IntArray) -> None:
        """Take from the owners of these rows what they have lost since their c changed."""
        lost = self.lost[self.points, own]
        there = self.settled[self.points, owner]
        self.values[self.points, owner] -= np.where(own > 0, lost - there, 0.0)

    def _with(self, subsets: FloatArray, c: IntArray) -> FloatArray:
        """Subsets once there is one more owner, of c nearer rows."""
        found = subsets.copy()
        found[:, 1:] += self._moved(subsets[:, :-1], c)
        return found

    def _without(self, subsets: FloatArray, c: IntArray) -> FloatArray:
        """Subsets without an owner of c nearer rows; as they are where c is 0."""
        found = subsets.copy()
        for r in range(1, self.k):
            found[:, r] -= self._moved(found[:, r - 1], c)
        return found

    def _moved(self, subsets: FloatArray, c: IntArray) -> FloatArray:
        """Sums t moved up by c; nothing where there is no such owner, or it alone is too many."""
        k, found = self.k, np.zeros_like(subsets)
        for step in range(1, k):
            there = np.flatnonzero(c == step)
            if len(there):
                found[there, ..., step:] = subsets[there, ..., :-step]
        return found

    def finish(self) -> FloatArray:
        """Values by test point, times K, shape (points, I)."""
        c = np.minimum(self.nearer, self.k)
        lost = np.take_along_axis(self.lost, c, axis=1)
        return np.asarray(self.values - np.where(c > 0, lost - self.settled, 0.0))


def walked_values(
    owner: IntArray, right: BoolArray, n_players: int, k: int, weights: FloatArray
) -> FloatArray:
    """Values by test point, times K, of rows that stand from near to far, at most K an owner."""
    walk = Walk(len(owner), n_players, k, weights)
    for column in range(owner.shape[1]):
        walk.step(owner[:, column], right[:, column])
    return walk.finish()
