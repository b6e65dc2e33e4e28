"""Which pools of a block hold which owners' rows: what the tensor program is told.

Pools that hold an owner are gathered into tiles of constant size, so that rows of absent owners
cost nothing and every matrix product has the same shape whoever else is in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dushapley.arrays import BoolArray, IntArray

RowsOf = Callable[[int, int, int | None], IntArray | slice]
"""(owner, count, draw) -> which of the owner's rows a pool takes."""


@dataclass(frozen=True)
class Membership:
    """Pools of a block that hold rows of one owner.

    Attributes
    ----------
    owner
        Which owner.
    pools
        Positions of the pools in the block.
    rows
        Shape (pools, rows of the owner): which rows each pool took; None where all took all.
    """

    owner: int
    pools: IntArray
    rows: BoolArray | None = None

    def tiles(self, size: int, n_pools: int) -> Iterator[tuple[IntArray, BoolArray | None]]:
        """Tiles of exactly `size` pools; the last is filled up with a pool that does not exist."""
        for start in range(0, len(self.pools), size):
            chosen = self.pools[start : start + size]
            missing = size - len(chosen)
            filled = np.concatenate([chosen, np.full(missing, n_pools)])
            taken = None if self.rows is None else self.rows[start : start + size]
            yield filled, taken if taken is None else np.pad(taken, ((0, missing), (0, 0)))


def memberships(
    counts: IntArray, sizes: IntArray, draws: IntArray | None, rows_of: RowsOf, order: list[int]
) -> list[Membership]:
    """Memberships of a block of pools, in the given order of owners.

    Parameters
    ----------
    counts
        Shape (pools, I): rows that each pool takes of each owner.
    sizes
        Rows that each owner has.
    draws
        Draw id of each pool; needed where part of an owner's rows is taken.
    rows_of
        Says which rows those are.
    order
        Order of owners; sums follow it.
    """
    members = []
    for j, taken in zip(order, np.ascontiguousarray(counts.T[order]), strict=True):
        whole = np.flatnonzero(taken == sizes[j]) if sizes[j] else np.empty(0, dtype=np.int64)
        if len(whole):
            members.append(Membership(j, whole))
        if np.count_nonzero(taken) > len(whole):
            partial = np.flatnonzero((taken < sizes[j]) & (taken > 0))
            rows = np.zeros((len(partial), int(sizes[j])), dtype=np.bool_)
            for mark, pool in zip(rows, partial.tolist(), strict=True):
                draw = None if draws is None else int(draws[pool])
                mark[rows_of(j, int(counts[pool, j]), draw)] = True
            members.append(Membership(j, partial, rows))
    return members
