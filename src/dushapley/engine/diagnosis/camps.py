"""What several owners have in common: how common labels are, and camps that contradict each other.

Where two of five owners write labels the other way round, no one owner stands out of the rest: a
model of "all others" is itself of two minds. But who predicts whom still tells the camps apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.engine.diagnosis.measures import Measure

LEAST_GAP, MOST_FOREIGN = 0.3, 0.5
"""Least distance between how owners of one camp and of two predict each other, and the most that
those of two may: half of it is what chance explains."""
LEAST_ROWS = 20
"""Rows below which an owner's model says too little to be of a camp."""


def camps_of(agreement: FloatArray, rows: FloatArray) -> tuple[tuple[int, ...], ...]:
    """Two camps of at least two owners who predict each other, but not the other camp's labels.

    `agreement[i, j]` is how often a model of owner i's rows predicts j's labels. Nothing where
    there are no two camps; the larger stands first. Owners of few rows are of none.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.where(np.equal.outer([0, 0, 1, 0, 1], [0, 0, 1, 0, 1]), 0.9, 0.1)
    >>> camps_of(square, np.full(5, 100.0))
    ((0, 1, 3), (2, 4))
    """
    able = np.flatnonzero((rows >= LEAST_ROWS) & np.isfinite(agreement).all(axis=1))
    if len(able) < 4:
        return ()
    square = agreement[np.ix_(able, able)]
    mutual = (square + square.T) / 2
    first, second = np.triu_indices(len(able), 1)
    ordered = np.sort(mutual[first, second])
    cut = int(np.diff(ordered).argmax())
    if ordered[cut + 1] - ordered[cut] < LEAST_GAP or ordered[cut] > MOST_FOREIGN:
        return ()
    friends = mutual > (ordered[cut] + ordered[cut + 1]) / 2
    np.fill_diagonal(friends, val=True)
    sides = {tuple(able[row].tolist()) for row in friends}  # everybody's friends: two sides only
    if len(sides) != 2 or sum(map(len, sides)) != len(able) or min(map(len, sides)) < 2:
        return ()
    return tuple(sorted(sides, key=lambda side: (-len(side), side)))


def label_shares(targets: Sequence[Array], classes: Array) -> list[Measure]:
    """For each class, how common it is with each owner; with errors of so many rows."""
    counts = np.array([
        np.bincount(np.searchsorted(classes, y), minlength=len(classes)) for y in targets
    ], dtype=np.float64)  # fmt: skip
    rows = counts.sum(axis=1, keepdims=True)
    smooth = (counts + 0.5) / (rows + 1)
    errors = np.sqrt(smooth * (1 - smooth) / np.maximum(rows, 1))
    return [Measure(one, error) for one, error in zip((counts / rows).T, errors.T, strict=True)]
