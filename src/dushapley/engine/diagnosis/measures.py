"""What the trainings of a diagnosis came to, owner by owner, and who stands out of the others.

Nobody is judged by a fixed number alone: data differ in how well anything can be predicted. An
owner stands out by how far it is from the middle of the *others*, in standard errors of its own
measurement and of the spread that these have among themselves. How far it takes grows with the
number of owners, so that one among many honest ones is not accused for being many.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.engine.diagnosis.agreement import GRID, LEAST_ROWS, USUAL, beyond, part
from dushapley.results.diagnosis import Interval, Range
from dushapley.results.uncertainty import half_width

LEAST_FAR, ANYBODY = 3.2, 0.01
"""Standard errors from the others' middle from which an owner stands out, at least; and the chance,
of normal errors, that any of all owners does who should not, in two measurements each."""
NORMAL = 1.4826
"""Median distance from the median, to standard deviations."""


def far(n_owners: int) -> float:
    """Standard errors from the others' middle from which one of so many owners stands out.

    Examples
    --------
    >>> [round(far(n), 2) for n in (5, 10, 100, 1000)]
    [3.2, 3.29, 3.89, 4.42]
    """
    return max(LEAST_FAR, NormalDist().inv_cdf(1 - ANYBODY / (2 * max(n_owners, 1))))


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
    few: BoolArray | None = None

    @property
    def known(self) -> BoolArray:
        """Whether it was measured."""
        return np.isfinite(self.values)

    def beside(self, i: int) -> FloatArray:
        """What it is for the others."""
        return self.values[self.known & (np.arange(len(self.values)) != i)]

    @cached_property
    def stands_out(self) -> BoolArray:
        """Who is so far from the others, to either side, that ranges of them leave it out."""
        limit = far(len(self.values))
        return np.array([abs(self.z(i)) > limit for i in range(len(self.values))])

    def is_above(self, i: int, least: float) -> bool:
        """Whether an owner stands out above the others, and by at least so much."""
        if not self.known[i] or self.z(i) <= far(len(self.values)):
            return False
        return float(self.values[i]) - self.middle(i) > least

    def left_out(self, i: int) -> tuple[int, int]:
        """How many of the others a range leaves out: those who stand out, those of few rows."""
        others = self.known & (np.arange(len(self.values)) != i)
        odd, few = others & self.stands_out, others & ~self.stands_out & self._few
        if (others & ~odd & ~few).any():
            return int(odd.sum()), int(few.sum())
        return 0, 0

    @property
    def _few(self) -> BoolArray:
        return np.zeros(len(self.values), dtype=np.bool_) if self.few is None else self.few

    def usual(self, i: int) -> Range | None:
        """From the smallest to the largest of the others, but for those of `left_out`."""
        mine = np.arange(len(self.values)) == i
        usual = self.known & ~self.stands_out & ~self._few & ~mine
        others = self.values[usual] if usual.any() else self.beside(i)
        return (float(others.min()), float(others.max())) if len(others) else None

    def middle(self, i: int) -> float:
        """The median of the others."""
        return float(np.median(self.beside(i)))

    def z(self, i: int) -> float:
        """How far an owner is above the others' middle, in standard errors; 0 where unknown.

        Two owners differ from each other alike, so that at least two others are needed.
        """
        others = self.beside(i)
        if len(others) < 2 or not self.known[i]:
            return 0.0
        errors = self.errors[self.known & (np.arange(len(self.values)) != i)]
        noise = float(np.median(errors**2))
        mad = NORMAL * float(np.median(np.abs(others - np.median(others))))
        spread = max(0.0, mad**2 - noise)
        scale = np.sqrt(self.errors[i] ** 2 + spread + 1.57 * noise / len(others))
        return float((self.values[i] - np.median(others)) / max(scale, 1e-12))

    def interval(self, i: int, low: float = -np.inf, high: float = np.inf) -> Interval | None:
        """The measurement with its interval, within bounds."""
        if not self.known[i]:
            return None
        value, width = float(self.values[i]), half_width(float(self.errors[i]))
        ends = value - width, value + width
        return tuple(min(max(low, x), high) for x in (value, *ends))  # type: ignore[return-value]


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

    def part(self, i: int) -> Interval | None:
        """The disagreement with its interval."""
        known = self.disagreement.known[i]
        return part(float(self.disagreement.values[i]), float(self.rows[i])) if known else None


def labels_of_classes(table: FloatArray) -> Labels:
    """Of rows (score, rows, disagreement, wrong, error, and if exchanged: agreement, gain ...)."""
    score, rows, off, wrong, error, exchanged, *change, gain, gain_error = table.T
    enough = rows >= LEAST_ROWS
    chance = np.sqrt(np.maximum(off * (1 - off), 0.25 / np.maximum(rows, 1)) / np.maximum(rows, 1))
    return Labels(
        rows=rows,
        disagreement=Measure(off, chance),
        wrong=Measure(np.where(enough, wrong, np.nan), error),
        mended=1 - exchanged,
        change=np.stack(change, axis=1),
        score=score,
        gain=Measure(gain, gain_error),
    )


def labels_of_numbers(table: FloatArray) -> Labels:
    """Of rows (score, rows, trend, error, correlation, slope, offset, quantiles, once mended)."""
    score, rows, trend, trend_error, correlation, *change = table[:, :7].T
    raw, mended = table[:, 7 : 7 + len(GRID)], table[:, 7 + len(GRID) :]
    known = np.isfinite(rows) & (rows >= LEAST_ROWS)
    usual = [float(np.interp(USUAL, GRID, row)) for row in raw[known]]
    tolerance = float(np.median(usual)) if usual else None
    parts = np.full((2, len(rows)), np.nan)
    for i in np.flatnonzero(known):
        assert tolerance is not None
        parts[:, i] = beyond(raw[i], tolerance), beyond(mended[i], tolerance)
    off = parts[0]
    error = np.sqrt(np.maximum(off * (1 - off), 0.05) / np.maximum(rows, 1))
    return Labels(
        rows=rows,
        disagreement=Measure(off, error),
        wrong=Measure(np.where(known, 1 - trend, np.nan), trend_error),
        mended=parts[1],
        change=np.stack(change, axis=1),
        score=score,
        tolerance=tolerance,
        correlation=np.abs(correlation),
    )
