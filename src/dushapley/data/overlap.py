"""Rows that several hold: who shares how many with whom, beside what chance would give.

Rows are compared by a 64-bit hash of their content, targets included, so that a million of them
take a second. In coarse data (few columns, few values) equal rows are no sign of copying: between
two owners chance gives about as many as the other pairs of owners show, and as rows repeat within
an owner. Of these rates the highest tenth is left out, lest one copy hide the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Rows
from dushapley.data.rows import count, is_sparse, is_table
from dushapley.data.tables import enumerated

if TYPE_CHECKING:
    from dushapley.data.owners import Owners

BLOCK = 1 << 16
"""Cells hashed at a time: they fit a processor's cache."""
BEYOND_CHANCE = 4.0
"""Standard deviations above what chance gives that count as a sign of copying."""


@dataclass(frozen=True)
class Overlap:
    """Pairs of holders with rows in common. Arrays have one entry per pair.

    Attributes
    ----------
    one, other
        Positions of the two holders; the same one where rows repeat within its data.
    rows
        Rows of `one` that `other` holds as well (or that it holds more than once itself).
    chance
        How many of them chance would give.
    shared
        Different rows that more than one holder has.
    """

    one: IntArray
    other: IntArray
    rows: IntArray
    chance: FloatArray
    shared: int

    @property
    def striking(self) -> Array:
        """Pairs with more rows in common than chance explains."""
        return np.asarray(self.rows - self.chance > BEYOND_CHANCE * np.sqrt(self.chance))

    def pairs(self) -> list[tuple[int, int, int, float]]:
        """Striking pairs of different holders, each once, most rows first."""
        chosen = np.flatnonzero(self.striking & (self.one < self.other))
        order = chosen[np.argsort(-self.rows[chosen], kind="stable")]
        parts = [part[order].tolist() for part in (self.one, self.other, self.rows, self.chance)]
        return list(zip(*parts, strict=True))


def overlap(hashes: Sequence[Array]) -> Overlap:
    """Who has rows in common with whom; one array of row hashes per holder."""
    from scipy.sparse import coo_array

    sizes = np.array([len(rows) for rows in hashes], dtype=np.int64)
    holder = np.repeat(np.arange(len(sizes)), sizes)
    _, row, count = np.unique(np.concatenate(hashes), return_inverse=True, return_counts=True)
    repeated = count[row] > 1
    if not repeated.any():
        nothing = np.zeros(0, dtype=np.int64)
        return Overlap(nothing, nothing, nothing, np.zeros(0), 0)
    _, kind = np.unique(row[repeated], return_inverse=True)
    places = (kind, holder[repeated])
    shape = (int(kind.max()) + 1, len(sizes))
    owned = coo_array((np.ones(len(kind), dtype=np.int64), places), shape=shape).tocsr()
    held = owned.copy()
    held.data[:] = 1
    common = coo_array(owned.T @ held)  # the diagonal counts rows that do not repeat, too
    within = owned.copy()
    within.data *= within.data > 1
    own = np.bincount(within.indices, within.data, minlength=len(sizes)).astype(np.int64)
    apart = common.row != common.col
    inside = np.flatnonzero(own)
    one = np.concatenate([common.row[apart], inside])
    other = np.concatenate([common.col[apart], inside])
    rows = np.concatenate([common.data[apart], own[inside]])
    shared = int((np.diff(held.indptr) > 1).sum())
    return Overlap(one, other, rows, _chance(one, other, rows, sizes), shared)


def _chance(one: IntArray, other: IntArray, rows: IntArray, sizes: IntArray) -> FloatArray:
    """Rows that the rate among all other pairs, the highest tenth left out, would give."""
    n = sizes.astype(np.float64)
    own, within = n[one], one == other
    size = own * np.where(within, own - 1, n[other])
    pairs = len(n) * (len(n) + 1) // 2
    twice = np.where(within, 1.0, 0.5)  # pairs of two stand here in both directions
    order = np.argsort(-rows / np.maximum(size, 1), kind="stable")
    left_out = order[np.cumsum(twice[order]) <= max(1, pairs // 10)]
    kept_rows = rows.astype(np.float64)
    kept_rows[left_out] = 0
    kept_size = n.sum() ** 2 - n.sum() - size[left_out].sum()
    places = list(zip(one.tolist(), other.tolist(), strict=True))
    place = {pair: i for i, pair in enumerate(places)}
    back = [place[pair[::-1]] for pair in places]
    kept = ~np.isin(np.arange(len(one)), left_out)
    both = np.where(within, 1.0, 2.0)
    own_rows = np.where(within, kept_rows, kept_rows + kept_rows[back])
    rest = np.maximum(kept_size - kept * both * size, 1)
    return np.minimum(own, (kept_rows.sum() - own_rows) / rest * size)


def row_hashes(*parts: Rows | None, start: int = 0) -> Array:
    """A 64-bit hash of each row of arrays that stand side by side, the first at place `start`.

    Hashes of parts of a row add up to that of the whole.
    """
    given = [column for part in parts if part is not None for column in _flat(part)]
    total = np.zeros(count(given[0]), dtype=np.uint64)
    position = start
    for part in given:
        total += (_hashed_sparse if is_sparse(part) else _hashed)(part, position)
        position += part.shape[1]
    return total


def _flat(block: Rows) -> list[Rows]:
    """A block in blocks of cells: of a table its columns, as numbers or as objects."""
    if is_sparse(block):
        return [block]
    if not is_table(block):
        return [block.reshape(len(block), -1)]
    columns = (block[name] for name in block.columns)
    kinds = (("float64" if column.dtype.kind in "iufb" else object, column) for column in columns)
    return [column.to_numpy(dtype=kind, na_value=np.nan)[:, None] for kind, column in kinds]


def _hashed(block: Array, position: int) -> Array:
    """Hashes of a block's rows; columns count from `position`, so that none can be exchanged."""
    salts = _salts(position, block.shape[1])
    rows = max(1, BLOCK // max(1, block.shape[1]))
    parts = (block[k : k + rows] for k in range(0, len(block), rows))
    return np.concatenate([_stirred(_bits(part) * salts).sum(axis=1) for part in parts])


def _hashed_sparse(block: Rows, position: int) -> Array:
    """The same of sparse rows: a cell that is zero adds nothing to the hash of its row."""
    cells = _stirred(_bits(block.data) * _salts(position, block.shape[1])[block.indices])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
    return np.diff(sums[block.indptr])  # around the clock, as sums of hashes are


def _salts(position: int, columns: int) -> Array:
    salts = np.arange(position, position + columns, dtype=np.uint64)
    return salts * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)


def _bits(block: Array) -> Array:
    """64 bits for every cell, the same for equal cells."""
    if block.dtype.kind in "OUSmM":
        from pandas.util import hash_array

        return np.stack([hash_array(column.astype(object)) for column in block.T], axis=1)
    numbers = np.array(block, dtype=np.float64, order="C") + 0.0  # no negative zeros
    numbers[np.isnan(numbers)] = np.nan  # of the many, one
    return numbers.view(np.uint64)


def _stirred(numbers: Array) -> Array:
    """Numbers whose high bits have moved low, so that sums of them hardly ever coincide."""
    numbers ^= numbers >> np.uint64(29)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(32)
    return numbers


def copied_rows(owners: Owners) -> list[str]:
    """A note on rows that more than one owner holds, naming the holders."""
    if owners.reduced is not None:
        return []
    found = overlap(owners.row_hashes)
    if not (pairs := found.pairs()):
        return []
    holders = []
    for j, k, rows, chance in pairs:
        one, other = owners.names[j], owners.names[k]
        holders.append(f"{one!r} and {other!r} ({rows:,}, by chance about {chance:.2g})")
    return [
        f"{found.shared:,} rows, targets included, appear in the data of more than one owner: "
        f"{enumerated(holders)}; they share what such rows are worth."
    ]


def tested_rows(owners: Owners, X_test: Rows, y_test: Array) -> list[str]:
    """A note on rows of the test set that owners hold as well, naming them."""
    if owners.reduced is not None:
        return []
    known = np.unique(row_hashes(X_test, y_test))
    counts = [len(np.intersect1d(known, rows)) for rows in owners.row_hashes]
    if not any(counts):
        return []
    everyone = len(np.intersect1d(known, np.concatenate(owners.row_hashes)))
    holders = sorted(zip(counts, owners.names, strict=True), key=lambda pair: -pair[0])
    named = [f"{name!r} ({count:,})" for count, name in holders if count]
    return [
        f"{everyone:,} rows of the test set, targets included, are in the owners' data as well: "
        f"scores on them flatter whoever holds them, here {enumerated(named)}."
    ]
