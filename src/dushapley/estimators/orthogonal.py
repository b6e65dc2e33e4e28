"""Orders from points of a sphere: orthogonal directions and Sobol sequences.

Sorting the coordinates of a point gives an order of joining. Points uniform on the sphere in the
hyperplane Σx = 0 give uniform orders, so well-spread points give well-spread orders.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from dushapley.arrays import FloatArray, IntArray, slices
from dushapley.estimators.calibration import Extremes, Moments, Spread, final
from dushapley.estimators.method import refuse_large_plan
from dushapley.estimators.permutation import (
    ANTITHETIC,
    both_ways,
    marginals,
    one_walk,
    paired_marginals,
    prefixes,
)
from dushapley.protocol import Ask, Conversation, Estimate, Problem

MOST_SCRAMBLINGS = 16
"""Independent Sobol sequences, at most: enough for a standard error, few enough to be long."""


def orthogonal(problem: Problem) -> Conversation:
    r"""Walk along mutually orthogonal directions, each forwards and backwards.

    A block holds up to I−1 orthonormal directions of the hyperplane Σx = 0 (Gram–Schmidt on random
    normal vectors); each direction x gives the orders sort(x) and sort(−x). Every direction by
    itself is uniform, so the plain average over all walks is unbiased; together they spread evenly.

    Cost: 2(I−1) evaluations a direction, 2(I−1)² a full block, and 2; the last block may be
    partial. Shares out exactly u(all) − u(∅). Standard errors from the spread of block means,
    weighted by their directions (somewhat wide when the last of few blocks is partial), from two
    blocks on. Mitchell et al. (2022), section 5.
    """
    n = problem.n_players
    left = problem.budget // (2 * (n - 1))
    at_once = max(1, problem.batch // (2 * (n - 1) ** 2))
    means = np.empty((0, n))
    weights = np.empty(0)
    extremes = Extremes(n)
    while left > 0:
        width = min(left, n - 1)
        blocks = min(at_once, left // width)
        orders = both_ways(directions(problem.rng, blocks, width, n).argsort(axis=1))
        answers = yield Ask(prefixes(orders), partial(weighted_mean, means, weights, extremes))
        gains = paired_marginals(problem, orders, answers)
        means = np.concatenate([means, gains.reshape(blocks, width, n).mean(axis=1)])
        weights = np.concatenate([weights, np.full(blocks, width)])
        extremes.add(gains)
        left -= blocks * width
    return final(weighted_mean(means, weights, extremes))


def directions(rng: Generator, blocks: int, width: int, n_players: int) -> FloatArray:
    """Blocks of orthonormal vectors with Σx = 0, each uniform on its sphere, one a row."""
    normal = rng.standard_normal((blocks, n_players, width))
    normal -= normal.mean(axis=1, keepdims=True)
    q, r = np.linalg.qr(normal)
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    return q.transpose(0, 2, 1).reshape(blocks * width, n_players)


def weighted_mean(means: FloatArray, weights: FloatArray, extremes: Extremes) -> Estimate | None:
    """Mean of independent blocks whose variances are inverse to their weights."""
    if len(means) == 0:
        return None
    share = weights / weights.sum()
    mean = share @ means
    if len(means) == 1:
        return Estimate(mean, replicates=1)
    off = means - mean
    covariance = (off * share[:, None]).T @ off / (len(means) - 1)
    third = share**2 @ off**3 / len(means)
    freedom = np.full(len(mean), len(means) - 1.0)
    spread = Spread(np.diag(covariance), third, freedom, extremes)
    return spread.around(mean, covariance, len(means))


def sobol(problem: Problem) -> Conversation:
    r"""Orders from a scrambled Sobol sequence.

    A point of :math:`[0,1)^{I-1}` becomes a normal vector by :math:`\Phi^{-1}`, is turned into the
    hyperplane Σx = 0 and sorted. A randomly scrambled point is uniform, so each walk is unbiased;
    the points of one scrambling fill the cube evenly.

    Cost: M(I−1)+2 evaluations for M walks. Shares out exactly u(all) − u(∅). One scrambling serves
    up to about 4I walks, then up to 16 share the walks equally; standard errors from their
    spread, None with a single one. Mitchell et al. (2022), section 5.
    """
    n = problem.n_players
    refuse_large_plan(problem, 64 / MOST_SCRAMBLINGS)  # points, normal vectors and orders
    walks = problem.budget // (n - 1)
    scramblings = min(MOST_SCRAMBLINGS, max(1, walks // (2 * n)))
    moments = Moments(n)
    for _ in range(scramblings):
        orders = sobol_orders(problem.rng, walks // scramblings, n)
        so_far = moments.estimate()
        parts = []
        for part in slices(len(orders), problem.batch // (n - 1)):
            answers = yield Ask(prefixes(orders[part]), so_far)
            parts.append(marginals(problem, orders[part], answers))
        gains = np.concatenate(parts)
        moments.add(gains.mean(axis=0, keepdims=True), gains)
    return final(moments.estimate())


def sobol_orders(rng: Generator, count: int, n_players: int) -> IntArray:
    """Orders from the first `count` points of one scrambled Sobol sequence."""
    from scipy.special import ndtri
    from scipy.stats import qmc  # slow to import, and only needed here

    sequence = qmc.Sobol(n_players - 1, scramble=True, rng=rng)
    points = sequence.random_base2(max(0, count - 1).bit_length())[:count]
    normal = ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    return (normal @ hyperplane(n_players)).argsort(axis=1)


def hyperplane(n_players: int) -> FloatArray:
    """Orthonormal rows that span Σx = 0: row i is (1, …, 1, −i, 0, …, 0), normalised."""
    rows = np.tri(n_players - 1, n_players)
    steps = np.arange(1, n_players)
    rows[np.arange(n_players - 1), steps] = -steps
    return rows / np.sqrt(steps * (steps + 1.0))[:, None]


ORTHOGONAL = replace(
    ANTITHETIC,
    name="orthogonal",
    summary="orders from orthogonal directions, forwards and backwards (unbiased)",
    run=orthogonal,
)

SOBOL = replace(
    ANTITHETIC,
    name="sobol",
    summary="orders from a scrambled Sobol sequence (unbiased)",
    run=sobol,
    least=one_walk,
)
