"""Rows of every kind, taken, joined and counted alike.

A block of rows is what a model is handed: an array, a pandas table with its names, types and
categories, or scipy's compressed sparse rows. Whatever pools rows asks here, so that no other
place need know which of the three it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dushapley.arrays import IntArray, Rows


def is_sparse(block: Any) -> bool:
    """Whether these are sparse rows, of any of scipy's kinds."""
    return type(block).__module__.startswith("scipy.sparse")


def is_table(block: Any) -> bool:
    """Whether this is a table of pandas."""
    return hasattr(block, "iloc") and hasattr(block, "columns")


def count(block: Rows) -> int:
    """Number of rows; sparse ones refuse to tell their length."""
    return int(block.shape[0])


def take(block: Rows, rows: IntArray | slice) -> Rows:
    """These rows, in this order."""
    return block.iloc[rows] if is_table(block) else block[rows]


def without(block: Rows, rows: IntArray) -> Rows:
    """All rows but these."""
    if isinstance(block, np.ndarray):
        return np.delete(block, rows, axis=0)
    return take(block, np.delete(np.arange(count(block)), rows))


def joined(blocks: Sequence[Rows]) -> Rows:
    """Blocks of one kind below each other.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> joined([csr_array([[0, 1]]), csr_array([[2, 0]])]).toarray().tolist()
    [[0, 1], [2, 0]]
    """
    if is_table(blocks[0]):
        import pandas as pd

        return pd.concat(blocks, ignore_index=True)
    if is_sparse(blocks[0]):
        from scipy.sparse import vstack

        return vstack(blocks, format="csr")
    return np.concatenate(blocks)


def frozen(block: Rows) -> Rows:
    """The same block, which nobody can write to (tables are copied whenever they are handed on)."""
    parts = (block.data, block.indices, block.indptr) if is_sparse(block) else (block,)
    for part in parts:
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return block


def compressed(block: Any) -> Rows:
    """Sparse rows in the one form that equal content has: by row, sorted, without stored zeros."""
    rows = block.tocsr(copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
