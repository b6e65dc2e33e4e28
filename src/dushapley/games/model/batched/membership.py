"""Which pools of a block hold which owners' rows: what the tensor program is told.

Pools that hold an owner are gathered into tiles of constant size, so that rows of absent owners
cost nothing and every matrix product has the same shape whoever else is in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.games.model.batched.recipe import Recipe

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


def whole_memberships(pools: BoolArray, sizes: FloatArray, order: list[int]) -> list[Membership]:
    """Memberships of coalitions: whole owners, those without rows left out."""
    columns = np.ascontiguousarray(pools.T)
    held = [(j, np.flatnonzero(columns[j])) for j in order if sizes[j] > 0]
    return [Membership(j, pools_of_j) for j, pools_of_j in held if len(pools_of_j)]


def places_of(sizes: IntArray, order: Sequence[int]) -> dict[int, IntArray]:
    """Where each owner's rows stand when all are laid one after the other in this order."""
    ends = np.cumsum(sizes[list(order)])
    return dict(zip(order, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))


def batch_rows(
    recipe: Recipe, members: Sequence[Membership], places: dict[int, IntArray], n_rows: IntArray
) -> IntArray:
    """Rows of every mini-batch of every pool, shape (pools, steps · batch_size)."""
    parts: list[list[IntArray]] = [[] for _ in n_rows]
    for member in members:
        rows = places[member.owner]
        for position, pool in enumerate(member.pools.tolist()):
            parts[pool].append(rows if member.rows is None else rows[member.rows[position]])
    positions = recipe.batch_positions(n_rows)
    for pool, part in enumerate(parts):
        if part:
            positions[pool] = np.concatenate(part)[positions[pool]]
    return positions


def count_classes(
    n_pools: int, members: Sequence[Membership], codes: Sequence[IntArray], n_classes: int
) -> IntArray:
    """Rows of each class in each pool, shape (pools, C)."""
    own = np.array([np.bincount(c, minlength=n_classes) for c in codes])
    exact = np.float32 if own.sum() < 2**24 else np.float64  # sums of whole numbers
    held = np.zeros((len(codes), n_pools), dtype=exact)
    for member in members:
        if member.rows is None:
            held[member.owner, member.pools] = 1
    counts = (held.T @ own.astype(exact)).astype(np.int64)
    for member in members:
        if member.rows is not None:
            counts[member.pools] += (
                member.rows @ np.eye(n_classes, dtype=np.int64)[codes[member.owner]]
            )
    return counts
