r"""Can the process be believed? Pools are predicted before they are seen, every time.

Each batch is forecast by the process fitted to the batches before it; the answers then say two
things. *Calibration*: the mean squared error in units of the predicted variance, 1 where error bars
are right; what it exceeds 1 by widens every interval. *Explanation*: the squared error as a part of
the variance of all answers, 0 where everything was foreseen, 1 where the mean of the answers would
have done as well. A process that explains too little, or is surprised far beyond its error bars, is
not believed: its values are replaced by `stratified`, which assumes nothing of the game.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from dushapley.estimators.gp.fit import Posterior
from dushapley.questions import BoolArray, FloatArray, IntArray

MOST_UNEXPLAINED = 0.4
"""Part of the variance of the answers that forecasts may miss."""
MOST_SURPRISE = 16.0
"""Mean squared forecast error in predicted variances, at the most."""
PRIOR_SURPRISE, PRIOR_FORECASTS = 1.5, 10.0
"""What calibration is taken for before forecasts speak, and how many forecasts that weighs."""
POOLED = 5.0
"""How many observations the variance over all sizes weighs within one size."""


@dataclass(frozen=True)
class Forecasts:
    """One batch: predicted mean and variance, then the answers, in standardised units."""

    mean: FloatArray
    variance: FloatArray
    answers: FloatArray

    @property
    def surprise(self) -> FloatArray:
        """Squared errors in units of their predicted variance."""
        return np.asarray((self.answers - self.mean) ** 2 / self.variance)


def forecast(posterior: Posterior, pools: BoolArray, answers: FloatArray) -> Forecasts:
    """Compare what was believed of a batch with what it came to."""
    mean, variance = posterior.predict(pools)
    observed = posterior.observed
    return Forecasts(mean, variance, (answers - observed.centre) / observed.scale)


@dataclass(frozen=True)
class Verdict:
    """What the forecasts say: `widening` multiplies variances, `reason` is why not to believe."""

    forecasts: int
    unexplained: float
    surprise: float
    widening: float
    reason: str = ""


def judge(batches: list[Forecasts], n_players: int) -> Verdict:
    """Verdict on the process from the latest batches (at least as many pools as owners)."""
    recent: list[Forecasts] = []
    for batch in reversed(batches):
        recent.append(batch)
        if sum(len(b.answers) for b in recent) >= n_players:
            break
    surprise = np.concatenate([b.surprise for b in recent]) if recent else np.empty(0)
    missed = np.concatenate([b.answers - b.mean for b in recent]) if recent else np.empty(0)
    return _verdict(surprise, missed)


def _verdict(surprise: FloatArray, missed: FloatArray) -> Verdict:
    count = len(surprise)
    typical = float(surprise.mean()) if count else PRIOR_SURPRISE
    unexplained = float((missed**2).mean()) if count else 0.0
    shrunk = (PRIOR_SURPRISE * PRIOR_FORECASTS + typical * count) / (PRIOR_FORECASTS + count)
    reason = ""
    if unexplained > MOST_UNEXPLAINED:
        reason = f"its forecasts missed {unexplained:.0%} of the variance of the utilities"
    elif typical > MOST_SURPRISE:
        reason = f"its forecasts missed by {typical**0.5:.1f} times their standard error"
    return Verdict(count, unexplained, typical, max(1.0, shrunk), reason)


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
    total = np.zeros((n, len(pools)))
    for owner in range(n):
        total[owner] = _one_owner(pools[:, owner], size, n)
    total -= total.mean(axis=0)
    total[:, size == n] = 1 / n
    return total, (total * _variances(size, answers, n)) @ total.T


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
    found = np.zeros(n + 1)
    counts = np.bincount(size, minlength=n + 1)
    means = np.bincount(size, answers, minlength=n + 1) / np.maximum(counts, 1)
    squares = np.bincount(size, (answers - means[size]) ** 2, minlength=n + 1)
    free = float((counts[2:n] - 1).clip(0).sum())
    overall = float(squares[2:n].sum()) / max(free, 1.0)
    for k in range(1, n):
        spread = (squares[k] + POOLED * overall) / (max(counts[k] - 1, 0) + POOLED)
        found[k] = spread * (1 - counts[k] / comb(n, k))
    return found[size]
