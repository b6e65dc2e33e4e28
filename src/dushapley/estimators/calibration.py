r"""From the spread of samples to intervals that hold: the one place where errors are calibrated.

A mean of n samples of skewness γ, divided by its estimated standard error, is not normal: the
variance is itself uncertain, and where samples are skewed it is estimated too small just when the
mean is too small (a contribution that is rare but large was seen too rarely). To second order
(Hall 1992, section 2.6), ±z estimated standard errors cover more than ±z true ones by

.. math:: \frac{2}{n}\,z\,\varphi(z)\,\Bigl[\frac{z^2-3}{12}\,\kappa
          - \frac{z^4+2z^2-3}{18}\,\gamma^2 - \frac{z^2+1}{4}\Bigr]

with φ the normal density and κ the excess kurtosis, so half-widths must grow by a part −[…]/n. Its
last term is that of Student's t (with squares divided by n − 1). At the z of 95% the first two are
0.07κ − 1.08γ², and −1.01γ² for rare events, where κ = γ²; so κ is not estimated, and

.. math:: \text{half-width} = t_\nu\,\sqrt{V}\,(1 + 1/m), \qquad m = n/\gamma^2.

m has a meaning: the count of a rare event that is expected m times is as skewed. The same holds of
sums of independent parts (strata): the second and third cumulants V and K of their errors add up,
m = V³/K², and ν is Welch and Satterthwaite's V²/Σ(V_h²/ν_h) over parts of ν_h degrees of freedom.

An owner whose contribution was the same in all n draws has no spread to go by. A change that
happens in 3 of n draws is missed with a chance of 5% (the rule of three), so the half-width is at
least 3/n of the largest change that anybody's contribution showed. Where contributions are known to
be rare, because some owner's m is below five, this also holds of owners whose contributions
differed, but never by much: the rare one may be what they were not seen to make.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.protocol import Estimate

NORMAL = 1.96
"""Half-width of the normal 95% interval in standard deviations; `results.uncertainty` uses it."""
ALIKE_POOLS = 8
"""Degrees of freedom of a pool's variance of training as other pools tell it by their rows:
that of pools of equal size differs by about a half."""
LEAST_POOLS = 6
"""Pools whose variances of training a curve of their rows is fitted to; of fewer, their mean."""
ENOUGH_EVENTS = 5
"""Rare events, expected, from which intervals are promised to hold; below, results say so."""
FEW = 10
"""Shared draws below which it says little that all of them agreed."""
ALIKE = 1e-12
"""Part of the largest change seen below which contributions differ by rounding only."""
SMALL = 0.1
"""The same part, below which nothing large was seen of an owner."""


@dataclass(frozen=True)
class Spread:
    """What the samples tell of an estimate's error, owner by owner.

    Attributes
    ----------
    variance, third
        Second and third cumulants of the error, estimated.
    freedom
        Degrees of freedom of the variance.
    extremes
        Smallest and largest contributions, for the rule of three.
    """

    variance: FloatArray
    third: FloatArray
    freedom: FloatArray
    extremes: Extremes | None = None

    def together(self, axis: int | tuple[int, ...]) -> Spread:
        """Of the sum of the independent parts that lie along an axis (Welch–Satterthwaite).

        Only ratios of variances are squared, so that utilities of any size can be taken.
        """
        total = self.variance.sum(axis=axis, keepdims=True)
        share = self.variance / np.where(total > 0, total, 1.0)
        doubt = (share**2 / self.freedom).sum(axis=axis)
        freedom = np.where(doubt > 0, 1 / np.where(doubt > 0, doubt, 1.0), np.inf)
        return Spread(total.squeeze(axis), self.third.sum(axis=axis), freedom)

    @property
    def skew(self) -> FloatArray:
        """1/m: squared skewness of the estimate, less what normal samples show by chance."""
        variance = np.where(self.variance > 0, self.variance, np.inf)
        skewness = self.third / variance / np.sqrt(variance)
        return np.maximum(skewness**2 - 6 / self.freedom**2, 0.0)

    @property
    def rare(self) -> BoolArray:
        """Whose estimate rests on too few events for its interval to be promised."""
        return np.asarray(self.skew > 1 / ENOUGH_EVENTS)

    @property
    def unseen(self) -> FloatArray:
        """Least half-widths, by the rule of three."""
        if self.extremes is None:
            return np.zeros(1)
        return self.extremes.unseen(SMALL if self.rare.any() else ALIKE)

    @property
    def errors(self) -> FloatArray:
        """Standard errors such that the normal 95% interval around them holds."""
        wide = np.sqrt(self.variance) * student(self.freedom) * (1 + self.skew)
        return np.asarray(np.maximum(wide, self.unseen / NORMAL))

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about intervals that rest on rare events, or on none."""
        rare, unseen = int(self.rare.sum()), int((self.unseen > 0).sum())
        notes = []
        if rare:
            notes.append(
                f"For {rare} owner{'s' * (rare > 1)} the estimate rests on contributions that are "
                f"rare but large, in effect on fewer than {ENOUGH_EVENTS} of them: too few for 95% "
                "intervals. Theirs are widened, and rough; a larger budget settles it."
            )
        if unseen:
            notes.append(
                f"For {unseen} owner{'s' * (unseen > 1)} the contribution never changed, or not by "
                "much. Their standard errors allow for a change as large as anybody's that is too "
                "rare to have been seen."
            )
        return tuple(notes)

    def around(
        self,
        values: FloatArray,
        covariance: FloatArray | None = None,
        replicates: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> Estimate:
        """The estimate of these values, with calibrated errors and what must be said of them."""
        every_note = (*notes, *self.notes)
        return Estimate(values, self.errors, covariance, replicates=replicates, notes=every_note)


class Extremes:
    """Smallest and largest contribution of every owner in single draws, for the rule of three.

    Where one coalition serves all owners (`shared`), a few draws may agree for all of them by
    chance. The largest change that could then have been missed is taken between owners.
    """

    def __init__(self, dimension: int, *, shared: bool = False) -> None:
        self.draws, self.shared = 0, shared
        self.low = np.full(dimension, np.inf)
        self.high = np.full(dimension, -np.inf)

    def add(self, draws: FloatArray) -> None:
        """Take in draws, shape (r, dimension)."""
        self.draws += len(draws)
        self.low = np.minimum(self.low, draws.min(axis=0))
        self.high = np.maximum(self.high, draws.max(axis=0))

    def unseen(self, part: float) -> FloatArray:
        """Half-widths of owners who changed by at most this part of the most; 0 for others."""
        change = self.high - self.low
        largest = float(change.max())
        if largest == 0 and self.shared and self.draws < FEW:
            largest = float(self.high.max() - self.low.min())
        return np.where(change <= part * largest, 3 * largest / self.draws, 0.0)


def sum_of_cubes(x: FloatArray) -> FloatArray:
    """By column; many times faster than powers."""
    return np.asarray(np.einsum("ij,ij->j", x * x, x))


def student(freedom: float | FloatArray) -> FloatArray:
    """How much wider Student's 95% interval is than the normal one, by its degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, 0.975) / NORMAL)


def pooled_variances(variances: FloatArray, freedom: int, rows: FloatArray) -> FloatArray:
    r"""Variances of few trainings each, drawn towards what pools of as many rows have.

    .. math:: \frac{\nu s_S^2 + \nu_0 \hat\sigma^2(n_S)}{\nu + \nu_0},
              \qquad \hat\sigma^2(n) = e^a n^b

    with s² = `variances` of ν = `freedom` degrees of freedom, n = `rows`, ν₀ = `ALIKE_POOLS`. A
    variance from three trainings is right to a factor of two at best; an interval of a value rests
    on the few pools that weigh most, and would be too narrow as often as one of theirs is. Curve:
    gamma regression with a logarithmic link, by reweighted least squares; the mean of all where
    pools are fewer than `LEAST_POOLS`.
    """
    if not variances.any():
        return variances
    design = np.stack([np.ones(len(rows)), np.log(np.maximum(rows, 1))], axis=1)
    middle = np.log(variances.mean())
    curve = np.full(len(rows), middle)
    for _ in range(25 if len(rows) >= LEAST_POOLS else 0):
        target = curve + variances / np.exp(curve) - 1
        curve = design @ np.linalg.lstsq(design, target, rcond=None)[0]
        curve = np.clip(curve, middle - 6, middle + 6)
    return np.asarray((freedom * variances + ALIKE_POOLS * np.exp(curve)) / (freedom + ALIKE_POOLS))


def pooled_freedom(variances: FloatArray, freedom: int) -> float:
    """Degrees of freedom of `pooled_variances`: of all pools together, less the fitted slope.

    Pools whose trainings all came to the same tell nothing of the others.
    """
    slope = int(len(variances) >= LEAST_POOLS)
    return float(max(freedom * int(np.count_nonzero(variances)) - slope, 1))
