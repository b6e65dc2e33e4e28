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

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.games.many.marginals import Marginals
from dushapley.games.nearest import own_ranks

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
        self.own = own_ranks(whose)
        self.farthest = k + int(self.own.max(initial=-1)) + 1  # as far as anybody's leaving reaches
        self.name = f"neighbours, K = {k}"
        self.note = "Marginals around a pool are counts of neighbours that come or go: exact."

    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        found = np.zeros(pools.shape)
        for start in range(0, len(self.whose), POINTS):
            some = slice(start, start + POINTS)
            for pool, row in zip(pools, found, strict=True):
                row += self._gains(pool, self.whose[some], self.right[some], self.own[some])
        return found / (self.k * len(self.whose))

    def _gains(
        self, pool: BoolArray, whose: IntArray, right: BoolArray, own: IntArray
    ) -> FloatArray:
        """Marginals of all owners, summed over a few test points."""
        inside, (points, n) = pool[whose], (len(whose), len(pool))
        before = np.cumsum(inside, axis=1, dtype=np.int32)
        others = np.where(inside, before - 1 - own, before + own)
        point, place = np.nonzero(others < self.k)
        cell = point * n + whose[point, place]
        moved, hits = (
            np.bincount(cell, counted, minlength=points * n).reshape(points, n)
            for counted in (None, right[point, place])
        )
        first = right[inside].reshape(points, -1)[:, : self.farthest]
        table = np.cumsum(np.column_stack([np.zeros(points), first]), axis=1)
        last = table.shape[1] - 1
        end = np.minimum(self.k + np.where(pool, moved, -moved), last)
        lost = np.take_along_axis(table, end, axis=1) - table[:, [min(self.k, last)]]
        return np.asarray((hits - np.abs(lost)).sum(axis=0))
