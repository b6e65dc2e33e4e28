r"""From beliefs about pools to beliefs about values: the Shapley functional.

A value is linear in the utilities. Rearranged by the size of the pool,

.. math:: \varphi_i = \frac{u(I) - u(∅)}{I}
          + \frac1I \sum_{k=1}^{I-1} \big(E_k[u \mid i \in S] - E_k[u \mid i \notin S]\big)
          = \frac{u(I) - u(∅)}{I} + \frac{1}{I-1} \sum_{k=1}^{I-1} b_{ik}

with :math:`E_k` over uniform pools of k owners, and :math:`b_k` the coefficients (summing to zero)
of the least-squares regression of u on membership, whose slope is the difference of the two means
times (I−1)/I. With all pools of a size the regression is exact; with a sample it is exact for the
linear part of u, and only the rest is averaged. So the functional is a matrix Ω (`weights`) on a
list of pools (`pools`), and everything the process says of pools it says of values:

.. math:: E\varphi = BK^{-1}y, \qquad \mathrm{Cov}\,\varphi = ΩK_{FF}Ω^\top + N - BK^{-1}B^\top,
          \qquad B = ΩK_{FT} + D\,\mathrm{diag}(\nu)

for pools F of the functional and observed pools T; D holds the exact Shapley weights of the
observed pools and N what the nuggets of all pools add. The nugget being part of the game, an
observed pool counts with its observed utility.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.random import Generator
from scipy.interpolate import CubicSpline

from dushapley.arrays import BoolArray, FloatArray, IntArray, Queries, slices
from dushapley.estimators.exact import non_empty_pools, shapley_weights, sides
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.fit import Posterior
from dushapley.estimators.gp.kernel import View, in_order
from dushapley.estimators.permutation import random_orders
from dushapley.estimators.semivalues import SHAPLEY
from dushapley.estimators.subsets import all_subsets, subsets_of

if TYPE_CHECKING:
    from dushapley.estimators.gp.crowd import Crowd

MOST_DOUBLE = 32
"""Owners up to which all is in double precision."""
BLURRED = 3e-5
"""Nugget of all pools from which on single precision cannot be told from double."""
BLOCK = 2**19
"""Entries of a covariance matrix made at a time, so that memory stays bounded."""
MOST_ENUMERATED = kernel.MOST_TOLD_APART
"""Owners up to which values are carried by pools; of more, by whom they join (`crowd`)."""
MANY_OWNERS = 200
"""Owners from which on each regression has fewer pools."""
CROWD_SIZES = 24
"""Sizes of pools looked at where owners are many."""
OFTEN = 2**15
"""Points from which on twice as many pools are drawn to be joined."""
LEAST_SIZES, MOST_SIZES = 8, 32
"""Sizes of pools looked at; between them slopes are interpolated."""
PER_OWNER, PER_MANY = 3, 2
"""Pools of a size per owner, at least, for the regression on owners to be sound; of many owners."""


@dataclass(frozen=True)
class Functional:
    """The Shapley functional on a list of non-empty pools: values ≈ weights @ utilities − u(∅)/I.

    `weights` has shape (I, pools).
    """

    pools: BoolArray
    weights: FloatArray

    @cached_property
    def by_size(self) -> FloatArray:
        """Weights added up over pools of each number of owners, shape (I, I+1)."""
        found = np.zeros((self.pools.shape[1] + 1, len(self.weights)))
        np.add.at(found, self.pools.sum(axis=1), self.weights.T)
        return found.T

    def of_sizes(self, kept: BoolArray) -> Functional:
        """The part of it that pools of some numbers of owners (0..I) make."""
        return Functional(self.pools, self.weights * kept[self.pools.sum(axis=1)])

    def covariance(self, posterior: Posterior, pools: View, rough: bool = False) -> FloatArray:
        """Return ΩK: prior covariance of the values with pools, nuggets left out, (I, pools).

        Terms that are products of features are added up feature by feature, which costs next to
        nothing. The others are made in single precision if owners are many, if a sample of pools
        carries the values of noisy answers, or if it may be `rough`, as where questions are
        compared.
        """
        h = posterior.hyper
        n = self.pools.shape[1]
        blurred = posterior.nugget.min() >= BLURRED and len(self.pools) < 2**n - 1
        dtype = np.float32 if n > MOST_DOUBLE or rough or blurred else np.float64
        weights: FloatArray = self.weights.astype(dtype)
        of_features = weights if n > MOST_ENUMERATED else self.weights  # errors, not values
        other = replace(pools, root_mix=pools.root_mix.astype(dtype))
        bent = np.zeros((len(weights), len(pools.z)))
        made = np.zeros((len(weights), 2 * n + 2))

        def part_of(some: slice) -> tuple[FloatArray, FloatArray]:
            part = posterior.view(self.pools[some])
            features = kernel.features(h, part).astype(of_features.dtype, copy=False)
            from_terms = weights[:, some] @ kernel.bent(h, part, other, dtype)
            return from_terms, of_features[:, some] @ features

        parts = list(slices(len(self.pools), max(n, BLOCK // len(pools.z))))
        for from_terms, from_features in in_order(part_of, parts, bent.size):
            bent += from_terms
            made += from_features
        whole = np.rint(pools.owners).astype(np.int64)
        steps = h.step * self.by_size[:, whole] * (whole == pools.owners)
        seen = kernel.features(h, pools).astype(of_features.dtype, copy=False)
        return bent + made.astype(seen.dtype, copy=False) @ seen.T + steps


Carrier: TypeAlias = "Functional | Crowd"
"""What carries the values: pools, or of many owners whom they join."""


def functional(n_players: int, points: int, rng: Generator) -> Functional:
    """The functional on about `points` pools: all of them if there are no more than that.

    Sizes with few pools are taken whole, the others by a balanced sample.
    """
    if 2**n_players <= points:
        pools = non_empty_pools(n_players)
        return Functional(pools, exact_weights(pools).T)
    each = PER_OWNER if n_players <= MANY_OWNERS else PER_MANY
    affordable = points // (each * n_players)
    sizes, stands = size_grid(n_players, min(max(affordable, LEAST_SIZES), MOST_SIZES))
    per_size = max(points // len(sizes), each * n_players)
    parts = [np.ones((1, n_players), dtype=np.bool_)]
    weights = [np.full((n_players, 1), 1 / n_players)]
    for size, share in zip(sizes.tolist(), stands.sum(axis=1).tolist(), strict=True):
        some = pools_of_size(n_players, size, per_size, rng)
        parts.append(some)
        # slopes in membership are fixed up to a constant, as memberships sum to the size; adding
        # the matrix of ones picks those that sum to zero
        centred = some - some.mean(axis=0)
        slopes = np.linalg.solve(centred.T @ centred + 1.0, centred.T)
        weights.append(slopes * (share / (n_players - 1)))
    return Functional(np.concatenate(parts), np.concatenate(weights, axis=1))


def carrier(n_players: int, points: int, rng: Generator) -> Carrier:
    """Draw what carries the values, at about so many points."""
    if n_players <= MOST_ENUMERATED:
        return functional(n_players, points, rng)
    from dushapley.estimators.gp.crowd import crowd

    sizes, stands = size_grid(n_players, CROWD_SIZES)
    often = 1 if points < OFTEN else 2
    return crowd(n_players, sizes, stands @ np.ones(n_players - 1), often, rng)


def size_grid(n_players: int, most: int) -> tuple[IntArray, FloatArray]:
    """About `most` of the sizes 1..I−1, and what each counts of all of them, (sizes, I−1).

    By cubic splines in log(k/(I−k)), in which slopes bend little: straight lines between sizes
    would lie above every learning curve's.
    """
    everything = np.arange(1, n_players, dtype=np.int64)
    if len(everything) <= most:
        return everything, np.eye(len(everything))
    spaced = np.geomspace(1, n_players / 2, most // 2)
    low = np.unique(np.rint(spaced).astype(np.int64))
    sizes = np.unique(np.concatenate([low, n_players - low]))
    spline = CubicSpline(np.log(sizes / (n_players - sizes)), np.eye(len(sizes)))
    stands = spline(np.log(everything / (n_players - everything))).T
    return sizes, stands


def pools_of_size(n_players: int, size: int, most: int, rng: Generator) -> BoolArray:
    """All pools of a size if there are at most `most`, else a balanced uniform sample of them.

    Random orders of the owners are cut into as many pools as fit, so that everybody is in about
    as many; of pools of more than half of the owners the complements are drawn.
    """
    if comb(n_players, size) <= most:
        return all_subsets(n_players, size)
    if 2 * size > n_players:
        return ~pools_of_size(n_players, n_players - size, most, rng)
    cuts = n_players // size
    orders = random_orders(rng, -(-most // cuts), n_players)
    members = orders[:, : cuts * size].reshape(-1, size)
    return subsets_of(members[:most], n_players)


def exact_weights(pools: Queries, semivalue: str = SHAPLEY) -> FloatArray:
    """Weight of each coalition's utility in each owner's value, shape (pools, I)."""
    outside, inside = sides(semivalue, pools.shape[1])
    size = np.rint(pools.sum(axis=1)).astype(np.int64)[:, None]
    weights = np.where(pools == 1, inside[size], -outside[size])
    whole = ((pools == 0) | (pools == 1)).all(axis=1)
    return np.where(whole[:, None], weights, 0.0)  # a true fraction is not a coalition


def nugget_covariance(posterior: Posterior, kept: BoolArray | None = None) -> FloatArray:
    """What the nuggets of all coalitions add to the covariance of the values, N."""
    n = posterior.observed.pools.shape[1]
    nu = kernel.nugget(posterior.hyper, np.arange(1.0, n + 1))
    if kept is not None:
        nu = nu * kept[1:]
    p = shapley_weights(n)
    own = (nu[:-1] * (p[:-1] + p[1:])).sum() / n
    common = nu[-1] / n**2 - own / (n - 1)
    return np.full((n, n), common) + np.eye(n) * (own * n / (n - 1))


def covariance_with_answers(
    posterior: Posterior, of: Carrier, kept: BoolArray | None = None
) -> FloatArray:
    """B: covariance of the values with the observed pools, shape (I, observed).

    Own parts of observed pools count at the sizes that are `kept`.
    """
    own = exact_weights(posterior.observed.pools) * posterior.nugget[:, None]
    if kept is not None:
        owners = np.rint(posterior.seen.owners).astype(np.int64)
        own = own * kept[owners][:, None]
    return of.covariance(posterior, posterior.seen) + own.T


def prior_covariance(posterior: Posterior, one: Functional, two: Functional) -> FloatArray:
    """ΩKΩᵀ: covariance of the values before any answer, nuggets left out.

    Two independent samples of pools keep the noise of sampling them out of it. It depends on
    answers only through hyper-parameters.
    """
    return one.covariance(posterior, posterior.view(two.pools)) @ two.weights.T


def value_covariance(
    posterior: Posterior,
    one: Functional,
    two: Functional,
    kept: BoolArray | None = None,
    prior: FloatArray | None = None,
    with_answers: FloatArray | None = None,
) -> FloatArray:
    """Covariance of the errors of the values, in standardised units, before any calibration.

    Of `kept` sizes only, where some are left to others. `prior_covariance`, and
    `covariance_with_answers` of the first sample, are made where they are not known.
    """
    if kept is not None:
        same = two is one
        one = one.of_sizes(kept)
        two = one if same else two.of_sizes(kept)
    if with_answers is None:
        with_answers = covariance_with_answers(posterior, one, kept)
    white = posterior.whiten(with_answers.T)
    other = (
        white if two is one else posterior.whiten(covariance_with_answers(posterior, two, kept).T)
    )
    if prior is None:
        prior = prior_covariance(posterior, one, two)
    found = prior - white.T @ other
    return (found + found.T) / 2 + nugget_covariance(posterior, kept)


def linear_map(
    posterior: Posterior, with_answers: FloatArray, total: FloatArray | None = None
) -> FloatArray:
    """Map from the answers (∅ left out) to the values, shape (I, observed).

    `total` is what a value is where all answers are one; by default an equal share.
    """
    a = posterior.unwhiten(posterior.whiten(with_answers.T)).T
    missing = (1 / len(a) if total is None else total) - a.sum(axis=1, keepdims=True)
    return a + missing / len(posterior.nugget)  # what centring the answers adds
