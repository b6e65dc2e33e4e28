r"""Can the process be believed, and at which sizes? Pools are predicted before they are seen.

Some pools are drawn at random, sizes by known chances and owners in turns: those of the pilot, and
a few in every batch, whatever the process thinks of them. Each is predicted from all others, and by
*strata* of sizes (2 and 3 owners, 4 to 7, ... and likewise all but a few) it is asked whether the
errors tell owners apart: a value is a sum of slopes in membership over all sizes, so
a process whose errors have slopes is wrong about values, and one whose errors have none is right
about them, however large they are. With errors r of the random pools of a stratum and the slopes
:math:`c = Cr` of them (`slope_map`), a stratum is *sampled* instead of believed where

.. math:: \sum_i c_i^2 > (1 + z\sqrt{2/(I-1)}) \sum_i \mathrm{Var}\,c_i

and where that is more than the intervals of the values allow for anyway; likewise where random
pools surprised it far beyond its error bars, even one of them; and everywhere if the utility jumps.

There the slopes of the process are corrected by those of its errors, a control variate: in
expectation a whole correction nearly gives the true slope, whatever the process believes (nearly,
as what is missed at one pool depends a little on which others were drawn), and its error is about
that of a stratified sample of what the process missed. It is drawn in by what chance makes of it
(`believable`). The interval follows from the spread of the errors and allows for what was not
corrected, and the next random pools go there.

A process that is believed still fits its hyper-parameters to few pools and is surer than it should
be, the more so the fewer. Variances are therefore widened by a factor that was measured on games
of trained models, and further where recent forecasts ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import NamedTuple

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.estimators.gp.fit import Posterior

MOST_SURPRISE = 9.0
"""Mean squared error of random forecasts of a stratum in predicted variances, at most."""
AS_EXPECTED = 6
"""Random forecasts, as good as expected, that the average starts with: two or three are too few."""
VERY_FEW_LEVELS, PER_LEVEL, FEW_LEVELS, PER_FEW = 3, 50, 6, 100
"""A utility that takes no more different values than the first, and one for so many pools, jumps;
by the other two if they are not foreseen."""
ALIKE_NEXT, OUTLYING, LITTLE = 3.5, 3.0, 1.0
"""So does one that is missed alike by pools of nearly equal size: standard deviations by which
products of neighbours' errors exceed chance, errors in their own standard deviations beyond which a
pool counts no more, and the sum of their squares below which they say nothing."""
ROUGH = 0.01
"""Part of its standard deviation: what is missed by less is foreseen."""
SUSPECT = 6.0
"""Standard deviations by which slopes of errors may exceed what chance makes of them."""
FEWEST = 6
"""Random pools of a stratum below which nothing is concluded."""
WILD = 150.0
"""Squared error of a forecast in predicted variances above which it counts no more."""
WIDENING = (1.5, 7.0)
"""What variances are multiplied by: the first, plus the second times I/N."""
POOLED = 5.0
"""How many observations the variance over all sizes weighs within one size."""


class Forecasts(NamedTuple):
    """One batch: errors of its forecasts, predicted variances, which were random, and sizes."""

    errors: FloatArray
    variances: FloatArray
    random: BoolArray
    owners: IntArray

    def squared(self) -> FloatArray:
        """Squared errors in units of their predicted variance."""
        return self.errors**2 / self.variances


@dataclass(frozen=True)
class FitCheck:
    """What the predictions say; `sampled` are the sizes (0..I) at which it is not believed."""

    forecasts: int
    unexplained: float
    random_forecasts: int
    surprise: float
    widening: float
    sampled: BoolArray

    @property
    def reason(self) -> str:
        """Why not to believe it, where that is so."""
        return (
            f"at pools of {sizes_in_words(self.sampled)} owners its errors may tell owners apart"
            if self.sampled.any()
            else ""
        )


def forecast(
    posterior: Posterior, pools: BoolArray, answers: FloatArray, random: BoolArray
) -> Forecasts:
    """Compare what was believed of a batch with its answers."""
    mean, variance = posterior.predict(pools)
    scale = posterior.observed.scale
    errors = answers - posterior.observed.centre - scale * mean
    return Forecasts(errors, scale**2 * variance, random, pools.sum(axis=1))


def judge(
    batches: list[Forecasts], posterior: Posterior, random: BoolArray, claimed: float
) -> FitCheck:
    """Check the process fitted now; forecasts are recent if among the last 2I or so.

    `claimed` is the variance of all values together that the process claims, not widened.
    """
    seen, n = posterior.observed.pools.shape
    latest: list[Forecasts] = []
    for batch in reversed(batches):
        if sum(len(b.errors) for b in latest) >= 2 * n:
            break
        latest.append(batch)
    recent, every = _joined(latest), _joined(batches)
    drawn = every.squared()[every.random]
    usual = WIDENING[0] + WIDENING[1] * n / (seen + 1)
    recently = np.minimum(recent.squared(), WILD).mean() if batches else usual
    widening = max(usual, (usual + float(recently)) / 2)
    answers = posterior.observed.answers
    left_out = posterior.observed.scale * posterior.leave_one_out()
    missed = np.concatenate([recent.errors, left_out]) ** 2
    spread = (answers - np.median(answers)) ** 2
    unexplained = [
        typical(missed) / typical(spread) if typical(spread) > 0 else 1.0
        for typical in (np.mean, np.median)
    ]
    sampled = sampled_sizes(posterior, random, widening * claimed)
    return FitCheck(
        forecasts=len(recent.errors),
        unexplained=float(min(unexplained)),
        random_forecasts=len(drawn),
        surprise=float(drawn.mean()) if len(drawn) else 1.0,
        widening=widening,
        sampled=sampled | surprising_sizes(every, n) | jumping_sizes(posterior),
    )


def _joined(batches: list[Forecasts]) -> Forecasts:
    none = Forecasts(np.empty(0), np.empty(0), np.empty(0, np.bool_), np.empty(0, np.int64))
    return Forecasts(*map(np.concatenate, zip(none, *batches, strict=True)))


def all_alike(answers: FloatArray) -> bool:
    """Whether the answers are equal but for rounding, so that there is nothing to predict."""
    return bool(np.ptp(answers) <= 1e-12 * np.abs(answers).max())


# --- strata


def sizes_in_words(sampled: BoolArray) -> str:
    """Numbers of owners, neighbours together."""
    sizes = np.flatnonzero(sampled)
    gaps = np.flatnonzero(np.diff(sizes) > 1)
    runs = np.split(sizes, gaps + 1)
    named = [f"{r[0]}" if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs]
    return " and ".join(named)


def strata(n_players: int) -> IntArray:
    """Which stratum each number of owners 0..I belongs to; −1: asked whole, so never judged."""
    size = np.arange(n_players + 1)
    nearest = np.maximum(np.minimum(size, n_players - size), 1)
    small = np.log2(nearest).astype(np.int64)
    found = np.where(2 * size <= n_players, small, 100 + small)
    found[[0, 1, n_players]] = -1
    return found


def sampled_sizes(posterior: Posterior, random: BoolArray, claimed: float) -> BoolArray:
    """Sizes of the strata in which the errors of predictions tell owners apart."""
    pools = posterior.observed.pools == 1
    n = pools.shape[1]
    size = pools.sum(axis=1)
    stratum = strata(n)
    missed = posterior.leave_one_out()
    each = variances(size, missed, n, random)
    found = np.zeros(n + 1, dtype=np.bool_)
    for one in np.unique(stratum[stratum >= 0]).tolist():
        inside = stratum == one
        here = inside[size]
        if (random & here).sum() >= FEWEST:
            slope = slope_map(pools[here], random[here], inside)
            by_chance = (slope**2 @ each[here]).sum()
            limit = 1 + SUSPECT * (2 / (n - 1)) ** 0.5
            missing = ((slope @ missed[here]) ** 2).sum()
            found |= inside & (missing > max(limit * by_chance, claimed))
    return found


def believable(slopes: FloatArray, missed: FloatArray, each: FloatArray) -> float:
    r"""Part of a correction :math:`c = Cr` that is more than chance makes of it.

    .. math:: s = \max\Bigl(0,\ 1 - \frac{2(I-3)}{I-1}
                  \frac{\sum_i \mathrm{Var}\,c_i}{\sum_i c_i^2}\Bigr)

    Slopes of errors that are as large as chance makes them say nothing, and correcting by them
    would add all of their error: one wild pool among six is such a case. Were the variances known,
    a correction drawn in this far would have no larger squared error in expectation, of all owners
    together, than a whole one (James and Stein 1961). Single owners may lose by it, which is why
    their variances allow for what was not corrected.

    Parameters
    ----------
    slopes, missed, each
        C, the errors r, and the variance of each as a sample.
    """
    n = len(slopes)
    seen = ((slopes @ missed) ** 2).sum()
    by_chance = (slopes**2 @ each).sum()
    most = 2 * max(n - 3, 0) / (n - 1)
    return max(0.0, 1 - most * by_chance / seen) if seen > 0 else 0.0


def surprising_sizes(every: Forecasts, n_players: int) -> BoolArray:
    """Sizes of the strata whose random pools were far from their forecasts, or one very far."""
    stratum = strata(n_players)
    found = np.zeros(n_players + 1, dtype=np.bool_)
    squared = every.squared()[every.random]
    of = stratum[every.owners[every.random]]
    for one in np.unique(of[of >= 0]).tolist():
        here = squared[of == one]
        average = (here.sum() + AS_EXPECTED) / (len(here) + AS_EXPECTED)
        if average > MOST_SURPRISE or here.max() > WILD:
            found |= stratum == one
    return found


def jumping_sizes(posterior: Posterior) -> BoolArray:
    """All sizes that are judged, if the utility jumps; else none.

    It does if it takes very few values, or few that are not foreseen, or if pools that hold nearly
    as much data are missed alike: a staircase leaves errors like the teeth of a saw, with slopes
    that no nugget tells of.
    """
    answers = posterior.observed.answers
    missed = posterior.leave_one_out()
    levels = len(np.unique(answers))
    jumps = levels <= VERY_FEW_LEVELS + len(answers) // PER_LEVEL
    if np.sqrt((missed**2).mean()) > ROUGH:
        jumps |= levels <= FEW_LEVELS + len(answers) // PER_FEW
        jumps |= neighbours_alike(posterior) > ALIKE_NEXT
    return (strata(len(posterior.weights)) >= 0) & jumps


def neighbours_alike(posterior: Posterior) -> float:
    r"""How far errors of neighbours in size go together, in standard deviations of chance.

    .. math:: \sqrt m \, \sum_s e_s e_{s+1} \Big/ \sum_s e_s^2

    over the m pools of two owners and more by how much data they hold, each predicted from all
    others, with errors e in units of their own standard deviation, less their mean over pools of
    as many owners, which moves no value.
    """
    several = posterior.seen.owners > 1
    errors = (posterior.leave_one_out() / np.sqrt(posterior.alone))[several]
    errors = np.clip(errors, -OUTLYING, OUTLYING)
    owners = np.rint(posterior.seen.owners[several]).astype(np.int64)
    counts = np.maximum(np.bincount(owners), 1)
    errors -= (np.bincount(owners, errors) / counts)[owners]
    errors = errors[np.argsort(posterior.seen.log_size[several], kind="stable")]
    total = max(errors @ errors, LITTLE)
    return len(errors) ** 0.5 * (errors[1:] @ errors[:-1]) / total


def slope_map(pools: BoolArray, random: BoolArray, sizes: BoolArray) -> FloatArray:
    r"""What pools of some sizes that were not asked add to the values, by those drawn at random.

    .. math:: \frac1I \sum_{k} (\bar u_{k, i \in S} - \bar u_{k, i \notin S})

    with means over the random pools, times the part of all such pools that nobody asked: a size
    that was seen whole has nothing left to add. Sizes at which an owner was never drawn in, or
    never out, are interpolated from others of the same list. Columns sum to zero over owners, as
    true slopes do.
    """
    n = pools.shape[1]
    inside = sizes[pools.sum(axis=1)]
    total = np.zeros((n, len(pools)))
    pools, random = pools[inside], random[inside]
    size = pools.sum(axis=1)
    owner = np.arange(n)[:, None]
    weights = np.zeros((n, len(pools)))
    found = []
    for kept, members, sign in ((pools.T, 1, 1), (~pools.T, 0, -1)):
        chosen = kept & random
        drawn = _counts(chosen, size)
        share = np.minimum(_counts(kept, size) / _ways(n, members), 1.0)
        each = (1 - share) / np.maximum(drawn, 1)
        weights += np.where(chosen, each[owner, size], 0.0) * sign
        found.append(drawn > 0)
    stands_for = _interpolated(found[0] & found[1] & sizes, np.flatnonzero(sizes))
    total[:, inside] = stands_for[owner, size] / n * weights
    return total - total.mean(axis=0)


def _counts(kept: BoolArray, size: IntArray) -> IntArray:
    """How many of the kept pools (I, pools) have each number of owners, shape (I, I+1)."""
    counts = np.zeros((len(kept), len(kept) + 1), dtype=np.int64)
    for one in np.unique(size).tolist():
        counts[:, one] = kept[:, size == one].sum(axis=1)
    return counts


@cache
def _ways(n_players: int, inside: int) -> FloatArray:
    """How many pools of each size have a given owner in, or out; infinite beyond counting."""
    others = [max(k - inside, 0) for k in range(n_players + 1)]
    ways = np.array([min(comb(n_players - 1, k), 2**60) for k in others], dtype=np.float64)
    return np.where(ways < 2**60, np.maximum(ways, 1.0), np.inf)


def _interpolated(valid: BoolArray, wanted: IntArray) -> FloatArray:
    """How many of the wanted sizes each valid one stands for, by straight lines, (I, I+1)."""
    found = np.zeros(valid.shape)
    for row, mine in zip(found, valid, strict=True):
        known = np.flatnonzero(mine)
        if len(known):
            place = np.interp(wanted, known, np.arange(len(known)))
            low = np.floor(place).astype(np.int64)
            part = place - low
            np.add.at(row, known[low], 1 - part)
            np.add.at(row, known[np.minimum(low + 1, len(known) - 1)], part)
    return found


def unseen(pools: BoolArray, sampled: BoolArray, spread: float) -> float:
    """Variance for what few random pools cannot have shown: equal answers prove no equal owners.

    An equal share of the whole range, squared, fading as more pools of equal size are compared.
    """
    n = pools.shape[1]
    counts = np.bincount(pools.sum(axis=1), minlength=n + 1)
    compared = (counts[2:n] - 1).clip(0).sum()
    part = float(sampled.sum()) / (n - 1)
    left = max(0.0, 1 - len(pools) / (2.0**n - 1))
    return (part * spread / n) ** 2 * n / (n + compared) * left


def variances(size: IntArray, missed: FloatArray, n: int, random: BoolArray) -> FloatArray:
    """Error variance of each random pool as a sample of its size; 0 of all others."""
    counts = np.bincount(size[random], minlength=n + 1)
    squares = np.bincount(size[random], missed[random] ** 2, minlength=n + 1)
    overall = squares[2:n].sum() / max(counts[2:n].sum(), 1.0)
    spread = (squares + POOLED * overall) / (counts + POOLED)
    return np.where(random & (size < n), spread[size], 0.0)
