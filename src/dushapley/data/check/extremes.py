"""Numbers that lie far from all others: marks of missing values (-999), slips, and infinity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.check.survey import Survey, block, row_of
from dushapley.data.findings import Finding
from dushapley.data.intake import TEST

REPEATED = 3
"""Rows from which one number is a mark rather than a slip."""
APART_REPEATED, APART_SINGLE = 1.0, 10.0
"""How far a number lies from the nearest other one, in the range of all others: of a number that is
repeated, and of one that is not."""
LEAST_OTHERS = 10
"""Different other numbers from which a column has a range."""
MOST_PEELED = 6
"""Numbers of one column that are told."""


def infinite_values(survey: Survey) -> Iterator[Finding]:
    """Infinite numbers, which no model can be trained on."""
    tested = {} if survey.test is None else {TEST: survey.test}
    for name, table in {**survey.tables, **tested}.items():
        for column in table.columns:
            if column == survey.target or table[column].dtype.kind != "f":
                continue
            gone = np.flatnonzero(np.isinf(table[column].to_numpy(dtype=np.float64)))
            if len(gone):
                row, value = row_of(table, int(gone[0])), str(table[column].iloc[gone[0]])
                yield Finding(
                    "infinite-value",
                    "stop",
                    f"{_whose(name)} has an infinite number in {len(gone):,} of {len(table):,} "
                    f"rows of {column!r} ({value!r}, the first in row {row}).",
                    owner=name,
                    column=str(column),
                    row=row,
                    value=value,
                    remedy=f"--read missing={value}",
                )


def extreme_values(survey: Survey) -> Iterator[Finding]:
    """Numbers farther from all others than those are from each other."""
    columns = survey.numbers if survey.classes else survey.measured
    if not columns:
        return
    blocks = [of[:, : len(columns)] for of in survey.blocks]
    if survey.test is not None and set(columns) <= set(survey.test.columns):
        blocks.append(block(survey.test, columns))
    low = np.fmin.reduce([np.fmin.reduce(of, axis=0) for of in blocks if len(of)])
    high = np.fmax.reduce([np.fmax.reduce(of, axis=0) for of in blocks if len(of)])
    for k, column in enumerate(columns):
        if _may_stand_apart(survey.sample[:, k], low[k], high[k]):
            parts = [of[:, k] for of in blocks]
            for value, others in _apart(np.concatenate(parts)):
                yield _told(survey, column, parts, value, others)


def _may_stand_apart(sample: FloatArray, low: float, high: float) -> bool:
    """Whether the sample leaves room for it: saves the look at all rows."""
    inner = sample[(sample > low) & (sample < high)]
    if not len(inner):
        return False
    least, most = float(inner.min()), float(inner.max())
    return max(high - most, least - low) > APART_REPEATED * (most - least) / 2


def _apart(values: FloatArray) -> Iterator[tuple[float, tuple[float, float]]]:
    """Numbers that stand apart, the farthest first, and the range of all that do not."""
    found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    apart: list[float] = []
    while len(found) > LEAST_OTHERS and len(apart) < MOST_PEELED:
        ends = [end for end in ((0,), (-1,), (0, -1)) if _is_apart(found, counts, end)]
        if not ends:
            break
        apart += found[list(ends[0])].tolist()
        found, counts = np.delete(found, ends[0]), np.delete(counts, ends[0])
    for value in apart:
        yield value, (float(found[0]), float(found[-1]))


def _is_apart(found: FloatArray, counts: Array, ends: tuple[int, ...]) -> bool:
    """Whether these ends of the ordered numbers are far from what remains without them."""
    rest = np.delete(found, ends)
    width = rest[-1] - rest[0]
    for end in ends:
        gap = rest[0] - found[0] if end == 0 else found[-1] - rest[-1]
        times = APART_REPEATED if counts[end] >= REPEATED else APART_SINGLE
        if len(rest) < LEAST_OTHERS or gap <= times * width:
            return False
    return True


def _told(
    survey: Survey, column: str, parts: list[FloatArray], value: float, others: tuple[float, float]
) -> Finding:
    counts = np.array([int((of == value).sum()) for of in parts])
    j = int(counts.argmax())
    name = survey.names[j] if j < len(survey.names) else TEST
    table = survey.test if name == TEST else survey.tables[name]
    assert table is not None
    row = row_of(table, int(np.flatnonzero(parts[j] == value)[0]))
    more = int(counts.sum() - counts[j])
    also = f" ({more:,} more rows of others)" if more else ""
    repeated = bool(counts.sum() >= REPEATED)
    guess = "a missing value" if repeated else "a slip"
    return Finding(
        "placeholder" if repeated else "outlier",
        "note",
        f"{_whose(name)} has {value:.10g} in {counts[j]:,} of {len(table):,} rows of {column!r}, "
        f"the first in row {row}{also}; all other values lie from {others[0]:.4g} to "
        f"{others[1]:.4g}: {guess}?",
        owner=name,
        column=column,
        row=row,
        value=f"{value:.10g}",
        remedy=f"--read missing={value:.10g} (for one file: FILE:missing={value:.10g})",
    )


def _whose(name: str) -> str:
    return "The test set" if name == TEST else f"Owner {name!r}"
