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
from numpy.random import Generator

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.calibration import WITH, WITHOUT, Cells
from dushapley.estimators.exact import non_empty_pools, sides
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.fit import Posterior
from dushapley.estimators.gp.functional import (
    Functional,
    exact_weights,
    linear_map,
    prior_covariance,
)
from dushapley.estimators.gp.study import COARSE, FINE, MEDIUM, MODEL, Study, positive
from dushapley.estimators.pairs import INDICES, by_size, matrices
from dushapley.estimators.semivalues import chance_of_joining, not_shapley
from dushapley.estimators.svarm import stratified_estimate
from dushapley.protocol import Estimate

PAIR_POOLS = 2**12
"""Pools that carry the variances of interactions, twice."""


@dataclass(frozen=True)
class Target:
    """Something linear in the utilities: its rows, and what carries it.

    Attributes
    ----------
    weigh
        Exact weights of non-empty pools, shape (rows, pools).
    sample
        Draws about so many pools that carry it, with their weights.
    nugget
        What nuggets of all pools by their size, 1..I, add to the covariance of the rows.
    """

    weigh: Callable[[BoolArray], FloatArray]
    sample: Callable[[int, Generator], Functional]
    nugget: Callable[[FloatArray], FloatArray]

    def carrier(self, n_players: int, points: int, rng: Generator) -> Functional:
        """All pools where they are few enough, else a sample."""
        if 2**n_players > points:
            return self.sample(points, rng)
        pools = non_empty_pools(n_players)
        return Functional(pools, self.weigh(pools))


def with_answers(posterior: Posterior, target: Target, of: Functional) -> FloatArray:
    """B: covariance of the target with the observed pools."""
    own = target.weigh(posterior.observed.pools.astype(np.bool_)) * posterior.nugget
    return of.covariance(posterior, posterior.seen) + own


def answer_weights(posterior: Posterior, target: Target, of: Functional) -> FloatArray:
    """Map from the answers (∅ left out) to the target: no answer counts where all are equal."""
    total = of.weights.sum(axis=1, keepdims=True)
    return linear_map(posterior, with_answers(posterior, target, of), total)


def covariance(
    posterior: Posterior, target: Target, one: Functional, two: Functional
) -> FloatArray:
    """Of the errors of the target, before calibration; two samples keep their own noise out."""
    white, other = (posterior.whiten(with_answers(posterior, target, of).T) for of in (one, two))
    found = prior_covariance(posterior, one, two) - white.T @ other
    sizes = np.arange(1.0, posterior.observed.pools.shape[1] + 1)
    own = target.nugget(kernel.nugget(posterior.hyper, sizes))
    return (found + found.T) / 2 + own


def semivalue_estimate(study: Study, semivalue: str) -> Estimate:
    """Semivalues by the process; by strata of the pools paid for where it is not believed."""
    if study.verdict.reason:
        return _by_strata(study, semivalue)
    n, rng = study.problem.n_players, study.problem.rng
    posterior = study.posterior
    target = semivalue_target(semivalue, n)
    carrier = target.carrier(n, MEDIUM if study.left else FINE, rng)
    weights = answer_weights(posterior, target, carrier)
    one = target.carrier(n, COARSE, rng)
    two = one if 2**n <= COARSE else target.carrier(n, COARSE, rng)
    joint = covariance(posterior, target, one, two)
    joint = positive(joint) * posterior.observed.scale**2 * study.verdict.widening
    joint = joint + _carried(study, target, weights, carrier, one)
    of_nobody = -carrier.weights.sum(axis=1, keepdims=True)
    estimate = Estimate(
        weights @ study.gains,
        std_errors=np.sqrt(np.diag(joint)),
        covariance=joint,
        notes=not_shapley(semivalue),
        details={"model": MODEL},
        weights=np.concatenate([of_nobody, weights], axis=1),
    )
    return study.checked(estimate)


def _carried(
    study: Study, target: Target, weights: FloatArray, of: Functional, rough: Functional
) -> FloatArray:
    """Covariance that carrying the target on a sample of pools adds."""
    n = study.problem.n_players
    if len(of.pools) == 2**n - 1:
        return np.zeros((len(weights),) * 2)
    other = answer_weights(study.posterior, target, rough)
    gap = (weights - other) @ study.gains
    part = len(rough.pools) / (len(rough.pools) + len(of.pools))
    return np.eye(len(weights)) * (gap**2).mean() * part


def _by_strata(study: Study, semivalue: str) -> Estimate:
    """Means by size with and without each owner, of the pools that were paid for."""
    study.sampled_share = 1.0  # nothing else carries them, so the next pools are drawn at random
    n = study.problem.n_players
    sizes = study.pools.sum(axis=1)
    cells = Cells(n, n + 1)
    cells.know(WITHOUT, 0, study.problem.empty)
    cells.know(WITH, n, study.problem.full)
    inner = sizes < n
    cells.add(study.pools[inner], sizes[inner], study.answers[inner])
    options = {"form": "+", "semivalue": semivalue}
    note = (
        f"gp does not trust its Gaussian process here: {study.verdict.reason}. The values are "
        "stratified means of the pools paid for."
    )
    found = stratified_estimate(replace(study.problem, options=options), cells, last=True)
    return replace(found, notes=(*found.notes, note), details={"model": "stratified"})


def semivalue_target(semivalue: str, n: int) -> Target:
    """One row an owner."""
    outside, inside = sides(semivalue, n)

    def weigh(pools: BoolArray) -> FloatArray:
        return exact_weights(pools, semivalue).T

    def sample(points: int, rng: Generator) -> Functional:
        # what each owner adds to each pool S, without itself: (±)(u(S) − u(S flipped))
        bases = joined_pools(n, max(2, points // (n + 1)), chance_of_joining(semivalue), rng)
        sign = np.where(bases, 1.0, -1.0) / len(bases)
        weights = np.zeros((n, len(bases), n))
        weights[np.arange(n), :, np.arange(n)] = -sign.T
        flips = bases[:, None] ^ np.eye(n, dtype=np.bool_)
        return _non_empty([bases, flips], [sign.T, weights])

    def nugget(nu: FloatArray) -> FloatArray:
        off = own = 0.0
        for k, (v, x, y) in enumerate(zip(nu, inside[1:], outside[1:], strict=True), 1):
            both = comb(n - 2, k - 2) if k > 1 else 0
            one, none = comb(n - 2, k - 1), comb(n - 2, k)
            off += v * (both * x * x - 2 * one * x * y + none * y * y)
            own += v * (comb(n - 1, k - 1) * x * x + comb(n - 1, k) * y * y)
        return np.full((n, n), off) + np.eye(n) * (own - off)

    return Target(weigh, sample, nugget)


def joined_pools(
    n_players: int, count: int, chance: tuple[float, float] | None, rng: Generator
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
    if alike:
        pools = np.concatenate([pools, ~pools])
    return pools[:count]


def _non_empty(pools: list[BoolArray], weights: list[FloatArray]) -> Functional:
    every = np.concatenate([block.reshape(-1, block.shape[-1]) for block in pools])
    weighed = np.concatenate([block.reshape(len(block), -1) for block in weights], axis=1)
    some = every.any(axis=1)  # nobody's worth is known, and answers are taken relative to it
    return Functional(every[some], weighed[:, some])


def pair_target(index: str, n: int) -> Target:
    """One row a pair, in the order of `np.triu_indices`."""
    first, second = np.triu_indices(n, 1)
    both, one, none = by_size(index, n)

    def weigh(pools: BoolArray) -> FloatArray:
        size = pools.sum(axis=1)
        members = pools[:, first].astype(np.int64) + pools[:, second]
        signed = np.stack([none, -one, both])
        return signed[members, size[:, None]].T

    def sample(points: int, rng: Generator) -> Functional:
        per_base = 1 + n + len(first)
        law = None if index == "banzhaf" else (1.0, 1.0)
        return flipped_twice(joined_pools(n, max(4, points // per_base), law, rng))

    def nugget(nu: FloatArray) -> FloatArray:
        own = 0.0
        for k, v in enumerate(nu.tolist(), 1):
            for w, held, times in ((both[k], 2, 1), (one[k], 1, 2), (none[k], 0, 1)):
                if k >= held:
                    own += v * (w**2) * comb(n - 2, k - held) * times
        return np.eye(len(first)) * own

    return Target(weigh, sample, nugget)


def flipped_twice(bases: BoolArray) -> Functional:
    """Second differences of each pair at each of these pools: u(S) − u(S^i) − u(S^j) + u(S^ij)."""
    count, n = bases.shape
    first, second = np.triu_indices(n, 1)
    pairs = len(first)
    row = np.arange(pairs)
    alone = np.eye(n, dtype=np.bool_)
    signs = np.where(bases, 1.0, -1.0)
    sign = signs[:, first] * signs[:, second] / count
    once = np.zeros((pairs, count, n))
    once[row, :, first] = once[row, :, second] = -sign.T
    twice = np.zeros((pairs, count, pairs))
    twice[row, :, row] = sign.T
    base = bases[:, None]
    pools = [bases, base ^ alone, base ^ (alone[first] | alone[second])]
    return _non_empty(pools, [sign.T, once, twice])


def pair_details(study: Study) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Both interactions of every pair with their standard errors, and what must be said of them."""
    n, rng = study.problem.n_players, study.problem.rng
    targets = [pair_target(index, n) for index in INDICES]
    carriers = [target.carrier(n, FINE, rng) for target in targets]
    widening = study.verdict.widening * max(1.0, study.verdict.surprise)
    found: dict[str, FloatArray] = {}
    for index, target, carrier in zip(INDICES, targets, carriers, strict=True):
        weights = answer_weights(study.posterior, target, carrier)
        one, two = (target.carrier(n, PAIR_POOLS, rng) for _ in range(2))
        variance = np.diag(covariance(study.posterior, target, one, two))
        # sampled variances are drawn towards their mean
        variance = np.maximum(variance, 0.25 * max(variance.mean(), 0.0))
        variance = variance * study.posterior.observed.scale**2 * widening
        errors = np.sqrt(variance + np.diag(_carried(study, target, weights, carrier, one)))
        for name, rows in ((index, weights @ study.gains), (f"{index} errors", errors)):
            matrix = np.zeros((n, n))
            matrix[np.triu_indices(n, 1)] = rows
            found[name] = matrix + matrix.T
    note = (
        f"gp does not trust its Gaussian process here: {study.verdict.reason}. Interactions rest "
        "on it all the same, with wider intervals: take them for a hint, or raise the budget.",
    )
    return matrices(found), note if study.verdict.reason else ()
