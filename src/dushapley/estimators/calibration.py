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

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import NamedTuple

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray, Queries, slices
from dushapley.protocol import Ask, Conversation, Estimate, Problem

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
        freedom = np.full_like(doubt, np.inf)
        np.divide(1, doubt, out=freedom, where=doubt > 0)
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
        return self.skew > 1 / ENOUGH_EVENTS

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
        return np.maximum(wide, self.unseen / NORMAL)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about intervals that rest on rare events, or on none."""
        rare = int(self.rare.sum())
        unseen = int((self.unseen > 0).sum())
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
        self.draws = 0
        self.shared = shared
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
        largest = change.max()
        if largest == 0 and self.shared and self.draws < FEW:
            largest = self.high.max() - self.low.min()
        return np.where(change <= part * largest, 3 * largest / self.draws, 0.0)


def sum_of_cubes(x: FloatArray) -> FloatArray:
    """By column; many times faster than powers."""
    return np.einsum("ij,ij->j", x * x, x)


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
    design = np.vander(np.log(np.maximum(rows, 1)), 2, increasing=True)
    middle = np.log(variances.mean())
    curve = np.full(len(rows), middle)
    for _ in range(25 if len(rows) >= LEAST_POOLS else 0):
        target = curve + variances / np.exp(curve) - 1
        curve = design @ np.linalg.lstsq(design, target, rcond=None)[0]
        curve = np.clip(curve, middle - 6, middle + 6)
    return (freedom * variances + ALIKE_POOLS * np.exp(curve)) / (freedom + ALIKE_POOLS)


def pooled_freedom(variances: FloatArray, freedom: int) -> float:
    """Degrees of freedom of `pooled_variances`: of all pools together, less the fitted slope.

    Pools whose trainings all came to the same tell nothing of the others.
    """
    slope = len(variances) >= LEAST_POOLS
    return max(freedom * float(np.count_nonzero(variances)) - slope, 1.0)


Gains = Callable[[FloatArray], FloatArray]
"""Maps the answers of some replicates' pools to what each owner adds, one row per replicate."""

ENOUGH = 30
"""Replicates from which a standard error needs no warning."""


class Sums(NamedTuple):
    """How many samples, their mean, and the sums of (sample − mean) squared and cubed."""

    number: FloatArray
    mean: FloatArray
    second: FloatArray
    third: FloatArray

    def spread(self, weight: FloatArray | float = 1.0) -> Spread:
        """Of the weighted mean. Meaningful from two samples on."""
        count = np.maximum(self.number, 1)
        freedom = np.maximum(self.number - 1, 1)
        variance = weight**2 * self.second / (freedom * count)
        return Spread(variance, weight**3 * self.third / count**3, freedom)


def merged(one: Sums, other: Sums) -> Sums:
    """Of two batches together (Chan, Golub and LeVeque; third moments: Pébay 2008).

    Combining batches by their means keeps small variances of large numbers, which sums of powers
    lose.
    """
    total = one.number + other.number
    share = other.number / np.maximum(total, 1)
    shift = other.mean - one.mean
    across = one.number * share
    apart = shift**2 * across
    uneven = (1 - share) * other.second - share * one.second
    third = apart * (1 - 2 * share) + 3 * uneven
    return Sums(
        total,
        one.mean + shift * share,
        one.second + other.second + apart,
        one.third + other.third + shift * third,
    )


class Moments:
    """Mean, scatter and skewness of vectors that arrive in batches."""

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.sums = Sums(*np.zeros((4, dimension)))
        self.scatter = np.zeros((dimension, dimension))
        self.extremes = Extremes(dimension)

    def add(self, sample: FloatArray, draws: FloatArray | None = None) -> None:
        """Take in replicates, shape (r, dimension), and the draws that they are means of."""
        mean = sample.mean(axis=0)
        centred = sample - mean
        shift = mean - self.sums.mean
        scatter = centred.T @ centred
        third = sum_of_cubes(centred)
        number = np.full(len(mean), len(sample))
        across = self.count * len(sample) / (self.count + len(sample))
        self.scatter += scatter + np.outer(shift, shift) * across
        self.sums = merged(self.sums, Sums(number, mean, np.diag(scatter), third))
        self.extremes.add(sample if draws is None else draws)
        self.count += len(sample)

    def estimate(self) -> Estimate | None:
        """Mean of the replicates with its standard errors (from two replicates on).

        The standard errors are calibrated (see `spread`), so that the normal 95% interval holds
        also with few or skewed replicates; the covariance is not.
        """
        if self.count == 0:
            return None
        if self.count == 1:
            return Estimate(self.sums.mean, replicates=1)
        spread = replace(self.sums.spread(), extremes=self.extremes)
        covariance = self.scatter / (self.count * (self.count - 1))
        notes: tuple[str, ...] = ()
        if self.count < ENOUGH:
            notes = (
                f"The standard errors rest on {self.count} replicates only; where an owner's "
                "contribution is rare but large, so few can miss it.",
            )
        if not spread.errors.any():
            notes += (
                f"For all owners all {self.count} replicates agreed: a standard error of 0 says "
                "that nothing else was seen, not that nothing else can happen.",
            )
        return spread.around(self.sums.mean, covariance, self.count, notes)


def replicated(
    problem: Problem, cost: int, draw: Callable[[int], tuple[Queries, Gains]]
) -> Conversation:
    """Average as many independent replicates of `cost` pools each as the budget buys.

    Parameters
    ----------
    problem
        What is to be estimated.
    cost
        Pools that one replicate asks for.
    draw
        Draws so many replicates: their pools, and what maps the answers to one row of gains each.
    """
    moments = Moments(problem.n_players)
    affordable = problem.budget // cost
    while moments.count < affordable:
        at_once = max(1, problem.round_after(cost * moments.count) // cost)
        pools, gains = draw(min(at_once, affordable - moments.count))
        answers = yield Ask(pools, moments.estimate)
        moments.add(gains(answers))
    return final(moments.estimate())


def final(estimate: Estimate | None) -> Estimate:
    """The last estimate of a method whose least budget buys one."""
    assert estimate is not None
    return estimate


WITH, WITHOUT = 0, 1
MOST_CREDITS, MOST_PRODUCTS, SOME_PRODUCTS = 2**25, 2**32, 2**22
"""Entries kept, and products taken, for the covariance between owners: at the end and before."""
AT_ONCE = 2**15
"""Entries of it that are made at a time: few enough to stay in cache."""


class Cells:
    """Counts, means and central sums by (with or without, owner, label), updated batch by batch.

    The label is the size of the coalition, or 0 for all where sizes are not kept apart. Batches
    are centred label by label before powers are taken, and merged by their means.
    """

    def __init__(self, n_players: int, labels: int) -> None:
        shape = (2, n_players, labels)
        self.moments = np.zeros((4, *shape))
        self.count, self.mean, self.second, self.third = self.moments
        self.exact = np.zeros(shape, dtype=np.bool_)
        self.credits: list[tuple[slice, BoolArray, IntArray, FloatArray]] = []
        self.entries = 0

    def add(
        self, inside: BoolArray, labels: IntArray, values: FloatArray, side: int | None = None
    ) -> None:
        """Credit each value to the owners in `inside` under its label, on one side.

        By default on both: to the owners in `inside` as with them, to all others as without.
        """
        width = self.count.shape[2]
        number = np.bincount(labels, minlength=width)
        centre = np.bincount(labels, values, minlength=width) / np.maximum(number, 1)
        powers = (values - centre[labels]) ** np.arange(4)[:, None]
        spread = np.zeros((len(values), 4, width))
        spread[np.arange(len(values)), :, labels] = powers.T
        by_label = spread.reshape(len(values), 4 * width)
        members = inside.T.astype(np.float64)
        own = (members @ by_label).reshape(-1, 4, width).transpose(1, 0, 2)
        if side is None:
            others = by_label.sum(axis=0).reshape(4, 1, width) - own
            sums, sides = np.stack([own, others], axis=1), slice(2)
        else:
            sums, sides = own[:, None], slice(side, side + 1)
        count, first, second, third = sums
        shift = first / np.maximum(count, 1)
        third = third + 2 * count * shift**3 - 3 * shift * second
        second = np.maximum(second - first * shift, 0)
        before = Sums(*self.moments[:, sides])
        self.moments[:, sides] = merged(before, Sums(count, centre + shift, second, third))
        self.entries += inside.size * sums.shape[1]
        self.credits.append((sides, inside, labels, values))
        if self.entries > MOST_CREDITS:
            self.credits.clear()

    def covariance(self, weights: FloatArray | float, *, last: bool) -> FloatArray | None:
        r"""Of the weighted sums of all means, between owners: they share coalitions.

        .. math:: \sum_A g g^T, \qquad g_i = \pm w \frac{u(A) - m_i}{\sqrt{n_i (n_i - 1)}}

        over the values u(A), with m, n mean and number of the mean that owner i was credited with
        it, w the weight of that mean. None where going through all of them again would take long;
        before the `last` estimate that is sooner.
        """
        n = self.count.shape[1]
        if not self.credits or self.entries * n > (MOST_PRODUCTS if last else SOME_PRODUCTS):
            return None
        shares = np.where(self.exact, 0.0, weights)
        scale = shares / np.sqrt(np.maximum(self.count * (self.count - 1), 1))
        scale[WITHOUT] *= -1
        mean = self.mean.transpose(0, 2, 1)
        weight = scale.transpose(0, 2, 1)
        joint = np.zeros((n, n))
        for sides, inside, labels, values in self.credits:
            for some in slices(len(values), AT_ONCE // n):
                of = labels[some]
                errors = (values[some, None] - mean[sides, of]) * weight[sides, of]
                parts = np.where(inside[some], errors[0], errors[1:].sum(axis=0))
                joint += parts.T @ parts
        return joint

    def know(self, side: int, label: int, means: FloatArray | float) -> None:
        """Set the means of all owners under one label to what they are exactly."""
        self.mean[side, :, label] = means
        self.exact[side, :, label] = True

    def known(self, population: FloatArray | None = None) -> BoolArray:
        """Whether the variance of each mean can be told; see `spread`."""
        known = self.exact | (self.count >= 2) | ((self.count == 1) & (self._lent() >= 0))
        return known if population is None else known | (self.count >= population)

    def _lent(self) -> FloatArray:
        """Variance of single values as other owners' means of the same label tell it.

        Of the same side, or else of both; −1 where nobody has two values. Shape (2, 1, labels).
        """
        squares = self.second.sum(axis=1)
        freedom = np.maximum(self.count - 1, 0).sum(axis=1)
        own = np.divide(squares, freedom, out=np.full(squares.shape, -1.0), where=freedom > 0)
        either = np.divide(
            squares.sum(axis=0), freedom.sum(axis=0), out=own.max(axis=0), where=freedom.any(axis=0)
        )
        return np.where(own < 0, either, own)[:, None, :]

    def spread(self, weights: FloatArray | float, population: FloatArray | None = None) -> Spread:
        """Error of the weighted sum of all means, by owner.

        A mean of a single value has the variance that other owners' means of its label have, as if
        from two values.

        Parameters
        ----------
        weights
            Of each cell, shape (2, I, labels) or less.
        population
            How many coalitions each cell has in all, where they were drawn without replacement:
            a mean over all of them is exact.
        """
        drawn = np.where(self.exact, 0.0, weights)
        alone = (self.count == 1) & ~self.exact
        second = np.where(alone, np.maximum(self._lent(), 0), self.second)
        sampled = Sums(self.count, self.mean, second, self.third).spread(drawn)
        left = np.ones(1)
        if population is not None:
            left = np.maximum(1 - self.count / np.maximum(population, 1), 0)
        third = sampled.third * left * (2 * left - 1)
        return Spread(sampled.variance * left, third, sampled.freedom).together(axis=(0, 2))


def populations(n_players: int) -> FloatArray:
    """Number of coalitions of each size with and without an owner, shape (2, 1, I+1)."""
    sizes = range(n_players + 1)
    with_owner = [comb(n_players - 1, s - 1) if s else 0 for s in sizes]
    without = [comb(n_players - 1, s) for s in sizes]
    return np.array([with_owner, without], dtype=np.float64)[:, None, :]
