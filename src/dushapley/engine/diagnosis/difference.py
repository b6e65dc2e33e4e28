"""How different an owner's rows are: a classifier told to tell them apart, and its columns.

The classifier is a forest of randomised trees that is to tell whose each row is, one for all owners
(in groups, where they are many). Each tree is grown on a part of the rows, and every row is judged
by trees that did not see it: one training is cross-validated by itself. An area under the curve of
0.5 is what coins give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Names
from dushapley.hashing import random_numbers
from dushapley.results.diagnosis import Column

MOST_OWN, MOST_TOGETHER, MOST_COLUMNS = 300, 4000, 500
"""Rows of an owner and of all together that a forest sees, and columns that are looked at."""
MOST_OWNERS = 50
"""Owners whom one forest is to tell apart."""
UNTOLD = -1.0
"""Stands for what could not be measured, where a ledger keeps nothing but numbers."""
LEAST_ROWS = 20
"""Rows below which no classifier is asked."""
TREES = 50
PLACES = np.linspace(0.05, 0.95, 19)
"""Quantiles by which columns are compared."""
FEW_VALUES = 10
"""Different values below which a column is not a measurement, and has no units."""
MOST_COLUMN_ROWS = 4000


def some_rows(name: str, size: int, most: int) -> IntArray:
    """At most so many of the rows, chosen by their owner's content: the same in every process."""
    if size <= most:
        return np.arange(size)
    return np.sort(np.argsort(random_numbers(name, size), kind="stable")[:most])


def as_numbers(block: Any) -> FloatArray:
    """Rows of any kind as numbers that trees can split: text by its order, holes as lowest."""
    dense = block.toarray() if hasattr(block, "toarray") else np.asarray(block)
    flat = dense.reshape(len(dense), -1)[:, :MOST_COLUMNS]
    if flat.dtype.kind in "biuf":
        numbers = flat.astype(np.float64)
    else:
        numbers = np.stack([_numbered(column) for column in flat.T], axis=1)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _numbered(column: Array) -> FloatArray:
    """Numbers and dates as numbers, text by hash: equal cells are equal."""
    import pandas as pd

    as_number = pd.to_numeric(pd.Series(column), errors="coerce").to_numpy(np.float64)
    if np.isfinite(as_number).any():
        return as_number
    hashed = pd.util.hash_array(column.astype(str).astype(object))
    return np.asarray(hashed >> np.uint64(12), dtype=np.float64)


def told_apart(blocks: Sequence[FloatArray], seed: int) -> list[float]:
    """For each block of rows the area under the curve of "its own or another's", and its error.

    All of one forest that is to tell whose each row is. `UNTOLD` twice where rows are too few.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    enough = [k for k, block in enumerate(blocks) if len(block) >= LEAST_ROWS]
    if len(enough) < 2:
        return [UNTOLD, UNTOLD] * len(blocks)
    rows = np.concatenate([blocks[k] for k in enough])
    known = np.where(np.isfinite(rows), rows, np.inf)
    low = np.nanmin(known, axis=0, initial=np.inf)
    below = np.where(np.isfinite(low), low, 0.0) - 1.0  # holes are below the lowest
    rows = np.clip(np.where(np.isnan(rows), below, rows), -1e30, 1e30)
    whose = np.repeat(np.arange(len(enough)), [len(blocks[k]) for k in enough])
    forest = ExtraTreesClassifier(
        TREES,
        min_samples_leaf=3,
        bootstrap=True,
        class_weight="balanced_subsample",
        random_state=seed,
    ).fit(rows, whose)
    votes = _out_of_bag(forest, rows)
    seen = np.isfinite(votes[:, 0])
    found = np.full((len(blocks), 2), UNTOLD)
    for place, k in enumerate(enough):
        own, its = whose == place, votes[:, place]
        found[k] = area(its[seen & own], its[seen & ~own]) or UNTOLD
    return found.ravel().tolist()


def _out_of_bag(forest: Any, rows: FloatArray) -> FloatArray:
    """Mean votes of the trees that did not see a row; not numbers where all did."""
    small, n = rows.astype(np.float32), len(rows)
    votes, counts = np.zeros((n, len(forest.classes_))), np.zeros((n, 1))
    for tree, sample in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.bincount(sample, minlength=n) == 0
        values = tree.tree_.predict(small[out]).reshape(int(out.sum()), -1)  # without its checks
        votes[out] += values / values.sum(axis=1, keepdims=True)
        counts[out] += 1
    return np.divide(votes, counts, out=np.full(votes.shape, np.nan), where=counts > 0)


def area(own: FloatArray, others: FloatArray) -> list[float]:
    """Chance that an own row gets more votes than one of the others', and DeLong's error of it."""
    from scipy.stats import rankdata

    n, m = len(own), len(others)
    if min(n, m) < 2:
        return []
    together = rankdata(np.concatenate([own, others]))
    above = (together[:n] - rankdata(own)) / m
    below = 1 - (together[n:] - rankdata(others)) / n
    variance = above.var(ddof=1) / n + below.var(ddof=1) / m
    return [float(above.mean()), float(np.sqrt(variance))]


STRETCH = 2.5
"""Factor between spreads of a column that another unit explains, and another population not."""
STRAIGHT = 0.85
"""How straight quantiles must lie over the others' quantiles (R²): of one shape, that is."""
APART, ALSO_APART = 0.5, 0.3
"""Part of the rows that lie apart (Kolmogorov and Smirnov's distance) in a column of other units.

A zero of its own is believed only where no other column lies apart, by the second: a population
that lives elsewhere differs in more than one.
"""


def other_units(own: FloatArray, others: Sequence[FloatArray], names: Names) -> tuple[Column, ...]:
    """Columns whose values are those of the others, but for a factor and a zero of their own.

    Quantiles over the others' quantiles lie on a straight line then; a column of another population
    has another shape, or the usual spread.
    """
    pairs = list(map(_measured, own.T, np.concatenate(others).T))
    apart = np.array([_distance(*pair) for pair in pairs])
    factor, zero = np.zeros((2, len(pairs)), dtype=np.bool_)
    for j in np.flatnonzero(apart >= APART):
        factor[j], zero[j] = _line(*pairs[j])
    odd = (apart >= ALSO_APART) & ~factor & ~zero
    if odd.any() or zero.sum() > 1:
        zero[:] = False
    found = []
    for k in np.flatnonzero(factor | zero).tolist():
        here, there = pairs[k]
        found.append(Column(names[k], float(np.median(here)), float(np.median(there))))
    return tuple(found)


def _measured(here: FloatArray, there: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Finite values; without zeros where there are many, since these have no units."""
    here, there = (one[np.isfinite(one)] for one in (here, there))
    if len(there) and (there == 0).mean() > 0.25:
        here, there = here[here != 0], there[there != 0]
    return here, there


def _distance(here: FloatArray, there: FloatArray) -> float:
    """Largest distance of the two distributions; 0 for what is not a measurement."""
    if len(here) < LEAST_ROWS or len(np.unique(there[:MOST_OWN])) < FEW_VALUES:
        return 0.0
    places = np.concatenate([here, there])
    mine, usual = (
        np.searchsorted(np.sort(one), places, "right") / len(one) for one in (here, there)
    )
    return float(np.abs(mine - usual).max())


def _line(here: FloatArray, there: FloatArray) -> tuple[bool, bool]:
    """Whether a factor, and whether a zero of its own alone, makes the others' column of it."""
    mine, usual = np.quantile(here, PLACES), np.quantile(there, PLACES)
    low, middle, high = usual[[0, 9, -1]].tolist()
    rising = high > low and mine[-1] > mine[0]
    if not rising or np.corrcoef(mine, usual)[0, 1] ** 2 < STRAIGHT:
        return False, False
    slope, own = float(np.polyfit(usual, mine, 1)[0]), float(mine[9])
    far = abs(own - middle) > high - low
    # rows of one town have a small spread inside the usual range, and no zero in common with it
    outside = not low <= own <= high
    same_zero = abs(own - slope * middle) < 0.2 * slope * (high - low)
    stretched = slope > STRETCH or (slope < 1 / STRETCH and (outside or same_zero))
    return stretched, far and not stretched
