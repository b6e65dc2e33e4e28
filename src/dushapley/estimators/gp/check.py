r"""Can the process be believed? Pools are predicted before they are seen, every time.

Each batch is forecast by the process fitted to the batches before it. Most of its pools were chosen
by the process; some were drawn at random, with sizes as the Shapley value weighs them, so that a
process that is sure of itself where it is wrong finds out. The answers then say two things.

*Explanation* (`unexplained`): squared errors as a part of the squared deviations of the answers, 0
where all was foreseen, 1 where a constant would have done as well; from recent forecasts and from
predicting every observed pool by all the others, by means or by medians, whichever is kinder.
*Surprise*: squared errors of the random pools in units of their predicted variance, on average 1
where error bars are right.

A process that explains too little, or is surprised far beyond its error bars, even by one random
pool, is not believed; nor is one of a utility that jumps. Its values are replaced by `stratified`,
which assumes nothing of the game. On games of trained models random pools rarely surprised by more
than 4 standard errors, and once in hundreds of runs by 10; pools that the process chose are not a
reason to disbelieve it, since it looks for the wild ones (tiny owners make wild models).

A process that is believed still fits its hyper-parameters to few pools and is surer than it should
be, the more so the fewer. Variances are therefore widened by a factor that was measured on games
of trained models, 1.2 + 6·I/N after N pools, and further where recent forecasts ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import comb

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.estimators.gp.fit import Posterior

MOST_UNEXPLAINED = 0.5
"""Part of the spread of the answers that predictions may miss."""
MOST_SURPRISE, WILD = 9.0, 150.0
"""Squared error of random forecasts in predicted variances, on average and once, at most."""
AS_EXPECTED = 6
"""Random forecasts, as good as expected, that the average starts with: two or three are too few."""
FEW_LEVELS, SHARPEST = 3, 0.35
"""A utility that takes no more different values than this jumps, and so does one whose learning
curve bends within so short a stretch of log size (trained models: 0.6 to 3)."""
SHARP_PART = 0.01
"""Part of the variance that such a curve must have to count."""
WIDENING = (1.2, 6.0)
"""What variances are multiplied by: the first, plus the second times I/N."""
POOLED = 5.0
"""How many observations the variance over all sizes weighs within one size."""


@dataclass(frozen=True)
class Forecasts:
    """One batch: errors of its forecasts, their predicted variances, and which were random."""

    errors: FloatArray
    variances: FloatArray
    random: BoolArray

    def squared(self) -> FloatArray:
        """Squared errors in units of their predicted variance."""
        return np.asarray(self.errors**2 / self.variances)


@dataclass(frozen=True)
class FitCheck:
    """What the predictions say; `reason` is why not to believe the process, if there is one."""

    forecasts: int
    unexplained: float
    random_forecasts: int
    surprise: float
    widening: float
    reason: str


def forecast(
    posterior: Posterior, pools: BoolArray, answers: FloatArray, n_random: int
) -> Forecasts:
    """Compare what was believed of a batch, whose first pools were random, with its answers."""
    mean, variance = posterior.predict(pools)
    scale, centre = posterior.observed.scale, posterior.observed.centre
    random = np.arange(len(pools)) < n_random
    return Forecasts(answers - centre - scale * mean, scale**2 * variance, random)


def judge(batches: list[Forecasts], posterior: Posterior) -> FitCheck:
    """Check the process fitted now; forecasts are recent if among the last 2I or so."""
    seen, n = posterior.observed.pools.shape
    recent = _joined(_latest(batches, 2 * n))
    unexplained = _unexplained(recent.errors, posterior)
    every = _joined(batches)
    random = every.squared()[every.random]
    usual = WIDENING[0] + WIDENING[1] * n / (seen + 1)
    recently = np.minimum(recent.squared(), WILD).mean() if batches else usual
    return FitCheck(
        forecasts=len(recent.errors),
        unexplained=unexplained,
        random_forecasts=len(random),
        surprise=float(random.mean()) if len(random) else 1.0,
        widening=max(usual, (usual + float(recently)) / 2),
        reason=_reason(unexplained, random) or _jump(posterior),
    )


def _latest(batches: list[Forecasts], enough: int) -> list[Forecasts]:
    latest: list[Forecasts] = []
    for batch in reversed(batches):
        if sum(len(b.errors) for b in latest) >= enough:
            break
        latest.append(batch)
    return latest


def _joined(batches: list[Forecasts]) -> Forecasts:
    none = Forecasts(np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_))
    return Forecasts(
        *(
            np.concatenate([getattr(batch, item.name) for batch in [none, *batches]])
            for item in fields(Forecasts)
        )
    )


def _unexplained(errors: FloatArray, posterior: Posterior) -> float:
    answers, scale = posterior.observed.answers, posterior.observed.scale
    missed = np.concatenate([errors, scale * posterior.leave_one_out()]) ** 2
    spread = (answers - np.median(answers)) ** 2
    return min(
        float(typical(missed) / typical(spread)) if typical(spread) > 0 else 1.0
        for typical in (np.mean, np.median)
    )


def _reason(unexplained: float, random: FloatArray) -> str:
    if unexplained > MOST_UNEXPLAINED:
        return f"its predictions missed {unexplained:.0%} of the spread of the utilities"
    average = (random.sum() + AS_EXPECTED) / (len(random) + AS_EXPECTED)
    if average > MOST_SURPRISE or random.max(initial=0.0) > WILD:
        return f"a random pool surprised it by {random.max() ** 0.5:.1f} standard errors"
    return ""


def all_alike(answers: FloatArray) -> bool:
    """Whether the answers are equal but for rounding, so that there is nothing to predict."""
    return bool(np.ptp(answers) <= 1e-12 * np.abs(answers).max())


def _jump(posterior: Posterior) -> str:
    levels = len(np.unique(posterior.observed.answers))
    if 1 < levels <= FEW_LEVELS:
        return f"the utilities take only {levels} different values, so they jump"
    if posterior.hyper.curve_length < SHARPEST and posterior.hyper.curve > SHARP_PART:
        return "the utility jumps somewhere between small and large pools"
    return ""


def stratified(pools: BoolArray, answers: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Stratified estimate from pools at hand: its linear map and the covariance of its errors.

    .. math:: \varphi_i = \frac{u(I) - u(∅)}{I}
              + \frac1I \sum_{k=1}^{I-1} (\bar u_{k, i \in S} - \bar u_{k, i \notin S})

    with means over the observed pools of size k with and without owner i; sizes at which one of
    them is missing are interpolated. Slopes are centred over owners, as the true ones are. Errors
    from the variance within each size, drawn towards that over all sizes, with the correction for
    sampling without replacement: a size seen whole has no error.
    """
    n = pools.shape[1]
    size = pools.sum(axis=1)
    total = np.stack([_one_owner(member, size, n) for member in pools.T])
    total -= total.mean(axis=0)
    total[:, size == n] = 1 / n
    covariance = (total * _variances(size, answers, n)) @ total.T
    return total, covariance + np.eye(n) * _unseen(size, answers, n)


def _unseen(size: IntArray, answers: FloatArray, n: int) -> float:
    """Variance for what few pools cannot have shown: equal answers do not prove equal owners.

    An equal share of the whole range, squared, fading as more pools of equal size are compared.
    """
    compared = float((np.bincount(size, minlength=n + 1)[2:n] - 1).clip(0).sum())
    unseen = max(0.0, 1 - len(answers) / (2.0**n - 1))
    return float(np.ptp(answers) / n) ** 2 * n / (n + compared) * unseen


def _one_owner(member: BoolArray, size: IntArray, n: int) -> FloatArray:
    """Weights of the answers in the value of one owner."""
    inside = np.bincount(size[member], minlength=n + 1)[1:n]
    outside = np.bincount(size[~member], minlength=n + 1)[1:n]
    valid = np.flatnonzero((inside > 0) & (outside > 0))
    sizes = np.arange(n - 1)
    stands_for = np.zeros(n - 1)
    stands_for[valid] = [np.interp(sizes, valid, row).sum() for row in np.eye(len(valid))]
    at = np.minimum(size - 1, n - 2)
    counts = np.where(member, inside[at], -outside[at])
    return np.where(
        (size < n) & (counts != 0), stands_for[at] / n / np.where(counts == 0, 1, counts), 0.0
    )


def _variances(size: IntArray, answers: FloatArray, n: int) -> FloatArray:
    """Error variance of each answer as a sample of its size."""
    counts = np.bincount(size, minlength=n + 1)
    means = np.bincount(size, answers, minlength=n + 1) / np.maximum(counts, 1)
    squares = np.bincount(size, (answers - means[size]) ** 2, minlength=n + 1)
    free = float((counts[2:n] - 1).clip(0).sum())
    overall = float(squares[2:n].sum()) / max(free, 1.0)
    spread = (squares + POOLED * overall) / (np.maximum(counts - 1, 0) + POOLED)
    seen = np.array([count / comb(n, k) for k, count in enumerate(counts.tolist())])
    return np.where(size < n, (spread * (1 - seen))[size], 0.0)
