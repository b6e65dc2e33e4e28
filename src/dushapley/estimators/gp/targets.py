r"""Other linear questions to the same process: semivalues, and interactions of two owners.

What `functional` does for Shapley values holds for every target that is linear in the utilities:
with its weights Ω on a list of pools, its mean is BK⁻¹y and its covariance ΩKΩᵀ + N − BK⁻¹Bᵀ. Few
owners are carried by all pools. For many, both targets are mean differences,

.. math:: E[u(S \cup i) - u(S \setminus i)], \qquad
          E[u(S \cup ij) - u(S \cup i \setminus j) - u(S \cup j \setminus i) + u(S \setminus ij)]

over pools S that everybody joins with chance t (t uniform for Shapley's, ½ for Banzhaf's, beta for
Beta values), so that some such pools with one or two owners flipped carry all owners at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.calibration import WITH, WITHOUT, Cells
from dushapley.estimators.exact import bits, sides
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.fit import Posterior
from dushapley.estimators.gp.functional import Functional
from dushapley.estimators.gp.study import COARSE, FINE, MEDIUM, Study, positive
from dushapley.estimators.pairs import INDICES, by_size, matrices
from dushapley.estimators.semivalues import chance_of_joining, not_shapley
from dushapley.estimators.svarm import stratified_estimate
from dushapley.protocol import Estimate

PAIR_POOLS = 2**12
"""Pools that carry the variances of interactions, twice."""

Weigh = Callable[[BoolArray], FloatArray]
"""Weights of pools in a target, shape (rows, pools)."""


@dataclass(frozen=True)
class Target:
    """Something linear in the utilities: its rows, and what carries it.

    Attributes
    ----------
    weigh
        Exact weights of non-empty pools.
    sample
        Draws about so many pools that carry it, with their weights.
    nugget
        What nuggets of all pools by their size, 1..I, add to the covariance of the rows.
    """

    weigh: Weigh
    sample: Callable[[int, np.random.Generator], Functional]
    nugget: Callable[[FloatArray], FloatArray]

    def carrier(self, n_players: int, points: int, rng: np.random.Generator) -> Functional:
        """All pools where they are few enough, else a sample."""
        if 2**n_players > points:
            return self.sample(points, rng)
        pools = bits(np.arange(1, 2**n_players), n_players)
        return Functional(pools, self.weigh(pools))


def with_answers(posterior: Posterior, target: Target, of: Functional) -> FloatArray:
    """B: covariance of the target with the observed pools."""
    own = target.weigh(posterior.observed.pools.astype(np.bool_)) * posterior.nugget
    return of.covariance(posterior, posterior.seen) + own


def answer_weights(posterior: Posterior, target: Target, of: Functional) -> FloatArray:
    """Map from the answers (∅ left out) to the target: no answer counts where all are equal."""
    b = with_answers(posterior, target, of)
    a = posterior.unwhiten(posterior.whiten(b.T)).T
    total = of.weights.sum(axis=1, keepdims=True)
    return np.asarray(a + (total - a.sum(axis=1, keepdims=True)) / b.shape[1])


def covariance(
    posterior: Posterior, target: Target, one: Functional, two: Functional
) -> FloatArray:
    """Of the errors of the target, before calibration; two samples keep their own noise out."""
    white, other = (posterior.whiten(with_answers(posterior, target, of).T) for of in (one, two))
    prior = one.covariance(posterior, posterior.view(two.pools)) @ two.weights.T
    found = prior - white.T @ other
    sizes = np.arange(1.0, posterior.observed.pools.shape[1] + 1)
    own = target.nugget(kernel.nugget_of_size(posterior.hyper, sizes))
    return np.asarray((found + found.T) / 2 + own)


def semivalue_estimate(study: Study, semivalue: str) -> Estimate:
    """Semivalues by the process; by strata of the pools paid for where it is not believed."""
    if study.verdict.reason:
        return _by_strata(study, semivalue)
    n, rng, posterior = study.problem.n_players, study.problem.rng, study.posterior
    target = semivalue_target(semivalue, n)
    carrier = target.carrier(n, MEDIUM if study.left else FINE, rng)
    weights = answer_weights(posterior, target, carrier)
    one = target.carrier(n, COARSE, rng)
    two = one if 2**n <= COARSE else target.carrier(n, COARSE, rng)
    joint = covariance(posterior, target, one, two)
    joint = positive(joint) * posterior.observed.scale**2 * study.verdict.widening
    joint = joint + _carried(study, target, weights, carrier, one)
    known = bool(study.forecasts)
    return Estimate(
        weights @ (study.answers - study.problem.empty),
        std_errors=np.sqrt(np.diag(joint)) if known else None,
        covariance=joint if known else None,
        notes=not_shapley(semivalue),
        details={"model": "gaussian process"},
        weights=np.concatenate([-carrier.weights.sum(axis=1, keepdims=True), weights], axis=1),
    )


def _carried(
    study: Study, target: Target, weights: FloatArray, of: Functional, rough: Functional
) -> FloatArray:
    """Covariance that carrying the target on a sample of pools adds."""
    n = study.problem.n_players
    if len(of.pools) == 2**n - 1:
        return np.zeros((len(weights),) * 2)
    other = answer_weights(study.posterior, target, rough)
    gap = (weights - other) @ (study.answers - study.problem.empty)
    part = len(rough.pools) / (len(rough.pools) + len(of.pools))
    return np.eye(len(weights)) * float((gap**2).mean()) * part


def _by_strata(study: Study, semivalue: str) -> Estimate:
    """Means by size with and without each owner, of the pools that were paid for."""
    study.sampled_share = 1.0  # nothing else carries them, so the next pools are drawn at random
    n = study.problem.n_players
    cells, sizes = Cells(n, n + 1), study.pools.sum(axis=1)
    cells.know(WITHOUT, 0, study.problem.empty)
    cells.know(WITH, n, study.problem.full)
    inner = sizes < n
    pools, answers, sizes = study.pools[inner], study.answers[inner], sizes[inner]
    cells.add(pools, sizes, answers)
    options = {"form": "+", "semivalue": semivalue}
    note = (
        f"gp does not trust its Gaussian process here: {study.verdict.reason}. The values are "
        "stratified means of the pools paid for."
    )
    found = stratified_estimate(replace(study.problem, options=options), cells, last=True)
    return replace(found, notes=(*found.notes, note), details={"model": "stratified"})


def semivalue_target(semivalue: str, n_players: int) -> Target:
    """One row an owner."""
    n = n_players
    outside, inside = sides(semivalue, n)

    def weigh(pools: BoolArray) -> FloatArray:
        size = pools.sum(axis=1)
        return np.where(pools, inside[size][:, None], -outside[size][:, None]).T

    def sample(points: int, rng: np.random.Generator) -> Functional:
        bases = joined_pools(n, max(2, points // (n + 1)), chance_of_joining(semivalue), rng)
        return flipped_once(bases)

    def nugget(nu: FloatArray) -> FloatArray:
        p, s = outside[1:], range(1, n + 1)
        a = inside[1:]
        both = [comb(n - 2, k - 2) if k > 1 else 0 for k in s]
        none, one = [comb(n - 2, k) for k in s], [comb(n - 2, k - 1) for k in s]
        off = sum(
            v * (b * x * x - 2 * m * x * y + o * y * y)
            for v, x, y, b, m, o in zip(nu, a, p, both, one, none, strict=True)
        )
        own = sum(
            v * (comb(n - 1, k - 1) * x * x + comb(n - 1, k) * y * y)
            for v, x, y, k in zip(nu, a, p, s, strict=True)
        )
        return np.full((n, n), float(off)) + np.eye(n) * float(own - off)

    return Target(weigh, sample, nugget)


def joined_pools(
    n_players: int, count: int, chance: tuple[float, float] | None, rng: np.random.Generator
) -> BoolArray:
    """Pools that everybody joins with one chance, spread over its law.

    Each with its complement where the law is symmetric: much of the noise of drawing cancels.
    """
    alike = chance is None or chance[0] == chance[1]
    drawn = -(-count // 2) if alike else count
    place = (rng.permutation(drawn) + rng.random()) / drawn
    if chance is None:
        t = np.full(drawn, 0.5)
    else:
        from scipy.special import betaincinv

        t = betaincinv(*chance, place)
    pools = rng.random((drawn, n_players)) < t[:, None]
    return np.concatenate([pools, ~pools])[:count] if alike else pools


def flipped_once(bases: BoolArray) -> Functional:
    """What each owner adds to each of these pools, without itself: (±)(u(S) − u(S flipped))."""
    count, n = bases.shape
    sign = np.where(bases, 1.0, -1.0) / count
    flips = bases[:, None, :] ^ np.eye(n, dtype=np.bool_)
    weights = np.zeros((n, count, n))
    weights[np.arange(n), :, np.arange(n)] = -sign.T
    return _non_empty(
        np.concatenate([bases, flips.reshape(-1, n)]),
        np.concatenate([sign.T, weights.reshape(n, -1)], axis=1),
    )


def _non_empty(pools: BoolArray, weights: FloatArray) -> Functional:
    some = pools.any(axis=1)  # nobody's worth is known, and answers are taken relative to it
    return Functional(pools[some], weights[:, some])


def pair_target(index: str, n_players: int) -> Target:
    """One row a pair, in the order of `np.triu_indices`."""
    n = n_players
    first, second = np.triu_indices(n, 1)
    both, one, none = by_size(index, n)

    def weigh(pools: BoolArray) -> FloatArray:
        size = pools.sum(axis=1)
        members = pools[:, first].astype(np.int8) + pools[:, second]
        table = np.stack([none[size], -one[size], both[size]], axis=1)
        return np.take_along_axis(table, members.astype(np.int64), axis=1).T

    def sample(points: int, rng: np.random.Generator) -> Functional:
        per_base = 1 + n + len(first)
        law = None if index == "banzhaf" else (1.0, 1.0)
        return flipped_twice(joined_pools(n, max(4, points // per_base), law, rng))

    def nugget(nu: FloatArray) -> FloatArray:
        own = sum(
            v * (w**2) * comb(n - 2, k - held) * times
            for k, v in enumerate(nu.tolist(), 1)
            for w, held, times in ((both[k], 2, 1), (one[k], 1, 2), (none[k], 0, 1))
            if k >= held
        )
        return np.eye(len(first)) * float(own)

    return Target(weigh, sample, nugget)


def flipped_twice(bases: BoolArray) -> Functional:
    """Second differences of each pair at each of these pools: u(S) − u(S^i) − u(S^j) + u(S^ij)."""
    count, n = bases.shape
    first, second = np.triu_indices(n, 1)
    pairs, alone = len(first), np.eye(n, dtype=np.bool_)
    signs = np.where(bases, 1.0, -1.0)
    sign = signs[:, first] * signs[:, second] / count
    once, row = np.zeros((pairs, count, n)), np.arange(pairs)
    once[row, :, first] = once[row, :, second] = -sign.T
    twice = np.zeros((pairs, count, pairs))
    twice[row, :, row] = sign.T
    pools = [
        bases,
        (bases[:, None, :] ^ alone).reshape(-1, n),
        (bases[:, None, :] ^ (alone[first] | alone[second])).reshape(-1, n),
    ]
    weights = [sign.T, once.reshape(pairs, -1), twice.reshape(pairs, -1)]
    return _non_empty(np.concatenate(pools), np.concatenate(weights, axis=1))


def pair_details(study: Study) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Both interactions of every pair with their standard errors, and what must be said of them."""
    n, posterior = study.problem.n_players, study.posterior
    targets = {index: pair_target(index, n) for index in INDICES}
    carriers = [target.carrier(n, FINE, study.problem.rng) for target in targets.values()]
    pairs = np.triu_indices(n, 1)
    found: dict[str, FloatArray] = {}
    for (index, target), carrier in zip(targets.items(), carriers, strict=True):
        weights = answer_weights(posterior, target, carrier)
        interactions = weights @ (study.answers - study.problem.empty)
        errors = _pair_errors(study, target, weights, carrier)
        for name, rows in ((index, interactions), (f"{index} errors", errors)):
            found[name] = np.zeros((n, n))
            found[name][pairs] = rows
            found[name] += found[name].T
    note = (
        f"gp does not trust its Gaussian process here: {study.verdict.reason}. Interactions rest "
        "on it all the same, with wider intervals: take them for a hint, or raise the budget.",
    )
    return matrices(found), note if study.verdict.reason else ()


def _pair_errors(
    study: Study, target: Target, weights: FloatArray, carrier: Functional
) -> FloatArray:
    """Standard errors of interactions; sampled variances are drawn towards their mean."""
    n, posterior, rng = study.problem.n_players, study.posterior, study.problem.rng
    one, two = (target.carrier(n, PAIR_POOLS, rng) for _ in range(2))
    variance = np.diag(covariance(posterior, target, one, two))
    typical = max(float(variance.mean()), 0.0)
    variance = np.maximum(variance, 0.25 * typical)
    widening = study.verdict.widening * max(1.0, study.verdict.surprise)
    scaled = variance * posterior.observed.scale**2 * widening
    return np.sqrt(scaled + np.diag(_carried(study, target, weights, carrier, one)))
