"""What the trainings of a diagnosis came to, owner by owner, and who stands out of the others.

Nobody is judged by a fixed number alone: data differ in how well anything can be predicted. An
owner stands out by how far it is from the middle of the *others*, in standard errors of its own
measurement and of the spread that these have among themselves. How far it takes grows with the
number of owners, so that one among many honest ones is not accused for being many.

Where two of five owners write labels the other way round, no one owner stands out of the rest: a
model of "all others" is itself of two minds. But who predicts whom still tells the camps apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray
from dushapley.engine.diagnosis.agreement import GRID, LEAST_ROWS, USUAL
from dushapley.results.diagnosis import Interval, Range
from dushapley.results.uncertainty import half_width

LEAST_FAR, ANYBODY = 3.2, 0.01
"""Standard errors from the others' middle from which an owner stands out, at least; and the chance,
of normal errors, that any of all owners does who should not, in two measurements each."""
NORMAL = 1.4826
"""Median distance from the median, to standard deviations."""
LEAST_GAP, MOST_FOREIGN = 0.3, 0.5
"""Least distance between how owners of one camp and of two predict each other, and the most that
those of two may: half of it is what chance explains."""
CAMP_ROWS = 20
"""Rows below which an owner's model says too little to be of a camp."""


def far(n_owners: int) -> float:
    """Standard errors from the others' middle from which one of so many owners stands out.

    Examples
    --------
    >>> [round(far(n), 2) for n in (5, 10, 100, 1000)]
    [3.2, 3.29, 3.89, 4.42]
    """
    return max(LEAST_FAR, NormalDist().inv_cdf(1 - ANYBODY / (2 * max(n_owners, 1))))


def part_of(x: float) -> float:
    """An estimate of a part, which may lie below 0 or above 1, as a part."""
    return min(max(0.0, x), 1.0)


@dataclass(frozen=True)
class Measure:
    """A number for each owner (not a number: not measured), with its standard error.

    Attributes
    ----------
    values, errors
        One for each owner.
    few
        Who has few rows, so that its number is mostly chance: ranges leave it out.
    """

    values: FloatArray
    errors: FloatArray
    few: BoolArray

    @property
    def known(self) -> BoolArray:
        """Whether it was measured."""
        return np.isfinite(self.values)

    def others(self, i: int) -> BoolArray:
        """Who else was measured."""
        return self.known & (np.arange(len(self.values)) != i)

    @cached_property
    def stands_out(self) -> BoolArray:
        """Who is so far from the others, to either side, that ranges of them leave it out."""
        distances = np.array([self.z(i) for i in range(len(self.values))])
        return np.abs(distances) > far(len(distances))

    def is_above(self, i: int, least: float) -> bool:
        """Whether an owner stands out above the others, and by at least so much."""
        return self.z(i) > far(len(self.values)) and self.value(i) - self.middle(i) > least

    def value(self, i: int) -> float:
        """What was measured of one owner."""
        return float(self.values[i])

    def left_out(self, i: int) -> tuple[int, int]:
        """How many of the others a range leaves out: those who stand out, those of few rows."""
        others = self.others(i)
        odd = others & self.stands_out
        n_odd, n_few = int(odd.sum()), int((others & self.few & ~odd).sum())
        return (n_odd, n_few) if n_odd + n_few < others.sum() else (0, 0)

    def usual(self, i: int) -> Range | None:
        """From the smallest to the largest of the others, but for those of `left_out`."""
        others = self.others(i)
        usual = others & ~self.stands_out & ~self.few
        values = self.values[usual if usual.any() else others]
        return (float(values.min()), float(values.max())) if len(values) else None

    def middle(self, i: int) -> float:
        """The median of the others."""
        return float(np.median(self.values[self.others(i)]))

    def z(self, i: int) -> float:
        """How far an owner is above the others' middle, in standard errors; 0 where unknown.

        Two owners differ from each other alike, so that at least two others are needed.
        """
        among = self.others(i)
        others = self.values[among]
        if len(others) < 2 or not self.known[i]:
            return 0.0
        noise = float(np.median(self.errors[among] ** 2))
        middle = np.median(others)
        mad = NORMAL * float(np.median(np.abs(others - middle)))
        spread = max(0.0, mad**2 - noise)
        scale = np.sqrt(self.errors[i] ** 2 + spread + 1.57 * noise / len(others))
        return float((self.values[i] - middle) / max(scale, 1e-12))

    def interval(self, i: int) -> Interval | None:
        """The measurement of a part with its interval, from 0 to 1."""
        if not self.known[i]:
            return None
        value, width = self.value(i), half_width(float(self.errors[i]))
        return part_of(value), part_of(value - width), part_of(value + width)


@dataclass(frozen=True)
class Labels:
    """How the others' models do on each owner's rows.

    Attributes
    ----------
    rows
        Rows that were judged.
    disagreement
        Part of them that is predicted otherwise.
    wrong
        Part of the labels that look wrong: an estimate, which may lie below 0 or above 1.
    mended
        Disagreement that is left once labels are exchanged, or numbers rescaled, as it fits best.
    change
        What that is: positions of predicted and written label; or slope and offset.
    score
        Of the others' model on the test set.
    tolerance
        Of numbers: the miss up to which they count as predicted.
    correlation
        Of numbers: with their predictions, whatever its sign.
    gain
        Of classes: by how much an exchange of labels raises the chances of what is written.
    """

    rows: FloatArray
    disagreement: Measure
    wrong: Measure
    mended: FloatArray
    change: FloatArray
    score: FloatArray
    tolerance: float | None = None
    correlation: FloatArray | None = None
    gain: Measure | None = None


def labels_of_classes(table: FloatArray, few: BoolArray) -> Labels:
    """Of rows (score, rows, disagreement, wrong, error, and if exchanged: agreement, gain ...)."""
    score, rows, off, wrong, error, exchanged, *change, gain, gain_error = table.T
    n = np.maximum(rows, 1)
    chance = np.sqrt(np.maximum(off * (1 - off), 0.25 / n) / n)
    wrong = np.where(rows >= LEAST_ROWS, wrong, np.nan)
    return Labels(
        rows=rows,
        disagreement=Measure(off, chance, few),
        wrong=Measure(wrong, error, few),
        mended=1 - exchanged,
        change=np.stack(change, axis=1),
        score=score,
        gain=Measure(gain, gain_error, few),
    )


def labels_of_numbers(table: FloatArray, few: BoolArray) -> Labels:
    """Of rows (score, rows, trend, error, correlation, slope, offset, quantiles, once mended)."""
    numbers, raw, mended = np.split(table, [-2 * len(GRID), -len(GRID)], axis=1)
    score, rows, trend, trend_error, correlation, *change = numbers.T
    known = np.isfinite(rows) & (rows >= LEAST_ROWS)
    usual = [float(np.interp(USUAL, GRID, row)) for row in raw[known]]
    tolerance = float(np.median(usual)) if usual else np.nan
    off, left = np.full((2, len(rows)), np.nan)
    for i in np.flatnonzero(known):  # what is missed by more than the tolerance
        off[i] = 1 - np.interp(tolerance, raw[i], GRID)
        left[i] = 1 - np.interp(tolerance, mended[i], GRID)
    error = np.sqrt(np.maximum(off * (1 - off), 0.05) / np.maximum(rows, 1))
    flat = np.where(known, 1 - trend, np.nan)
    return Labels(
        rows=rows,
        disagreement=Measure(off, error, few),
        wrong=Measure(flat, trend_error, few),
        mended=left,
        change=np.stack(change, axis=1),
        score=score,
        tolerance=tolerance if usual else None,
        correlation=np.abs(correlation),
    )


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
    able = np.flatnonzero((rows >= CAMP_ROWS) & np.isfinite(agreement).all(axis=1))
    if len(able) < 4:
        return ()
    square = agreement[np.ix_(able, able)]
    mutual = (square + square.T) / 2
    first, second = np.triu_indices(len(able), 1)
    ordered = np.sort(mutual[first, second])
    cut = int(np.diff(ordered).argmax())
    foreign, friendly = ordered[cut : cut + 2]
    if friendly - foreign < LEAST_GAP or foreign > MOST_FOREIGN:
        return ()
    friends = mutual > (foreign + friendly) / 2
    np.fill_diagonal(friends, val=True)
    sides = {tuple(able[row].tolist()) for row in friends}  # everybody's friends: two sides only
    sizes = [len(side) for side in sides]
    if len(sizes) != 2 or sum(sizes) != len(able) or min(sizes) < 2:
        return ()
    return tuple(sorted(sides, key=lambda side: (-len(side), side)))


def label_shares(
    targets: Sequence[Array | None], classes: Array | None, few: BoolArray
) -> list[Measure]:
    """For each class, how common it is with each owner; nothing of numbers."""
    lists = [y for y in targets if y is not None and y.ndim == 1]
    if classes is None or len(lists) < len(targets):
        return []
    found = [np.bincount(np.searchsorted(classes, y), minlength=len(classes)) for y in lists]
    counts = np.array(found, dtype=np.float64)
    rows = counts.sum(axis=1, keepdims=True)
    smooth = (counts + 0.5) / (rows + 1)
    errors = np.sqrt(smooth * (1 - smooth) / np.maximum(rows, 1))
    return [Measure(*one, few) for one in zip((counts / rows).T, errors.T, strict=True)]
