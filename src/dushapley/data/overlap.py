"""Rows that appear in the data of two owners, or of an owner and the test set."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import Array
from dushapley.errors import SharedRows

if TYPE_CHECKING:
    from dushapley.data.owners import Owners


def warn_of_shared_rows(owners: Owners) -> None:
    """Say aloud when the same row, target included, stands in the data of two owners."""
    first: dict[bytes, int] = {}
    shared: dict[bytes, tuple[int, int]] = {}
    for j, rows in enumerate(row_sets(owners)):
        for row in rows & first.keys():
            shared.setdefault(row, (first[row], j))
        first |= dict.fromkeys(rows - first.keys(), j)
    if shared:
        one, other = (owners.names[j] for j in min(shared.values()))
        warnings.warn(
            f"{len(shared)} rows, targets included, appear in the data of more than one owner (for "
            f"example of {one!r} and {other!r}); they share what such rows are worth.",
            SharedRows,
            stacklevel=4,
        )


def tested_rows(owners: Owners, X_test: Array, y_test: Array) -> int:
    """How many different rows of the test set, targets included, some owner has as well."""
    return len(row_set(X_test, y_test) & set().union(*row_sets(owners)))


def row_sets(owners: Owners) -> list[set[bytes]]:
    """The different rows of each owner, each by its content."""
    return [row_set(X, y) for X, y in zip(owners.X, owners.y, strict=True)]


def row_set(X: Array, y: Array | None) -> set[bytes]:
    """Different rows with their targets, as bytes."""
    parts = [_as_bytes(array) for array in (X, y) if array is not None]
    return {b"|".join(row) for row in zip(*parts, strict=True)}


def _as_bytes(array: Array) -> list[bytes]:
    if array.dtype.kind in "OUS":
        return [repr(row).encode("utf-8", "surrogatepass") for row in array.tolist()]
    numbers = np.ascontiguousarray(array, dtype=np.float64) + 0.0  # no negative zeros
    return [row.tobytes() for row in numbers]
