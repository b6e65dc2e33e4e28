r"""DU-Shapley of a size game from its formula, for a million owners.

With m = I−1 others, μ their mean size and :math:`g(n) = w(n + n_i) - w(n)`,

.. math:: \psi_i = \frac1I \sum_{k=0}^{m} g(k\mu).

Owners of equal size have equal values, so all work is per distinct size. Where rows differ in
precision, n is a vector: how many rows there are of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.size.curves import LearningCurve, finite_curve
from dushapley.games.size.exact import Utility
from dushapley.protocol import Estimate

MOST_TERMS = 2**23
"""(Size, k) pairs that are summed one by one; above, the sum over k is by Gauss's rule."""
MOST_PRECISE = 2**24
"""(Owner, k, precision) triples where rows differ in precision."""
HEAD = 64
"""Terms at the beginning that are always summed one by one."""
NODES = 8
"""Nodes of Gauss's rule in each doubling of k."""
RIEMANN = 4096
"""Pieces of the bracket when a curve is known to be monotone, but not how smooth."""


def du_values(
    sizes: FloatArray, curve: LearningCurve, scale: FloatArray | None = None
) -> tuple[FloatArray, float, str]:
    """DU-Shapley of all owners, its numerical error, and how the sum over k was taken.

    Up to 2^23 terms are summed one by one. Beyond, k runs through doublings, each by Gauss's rule
    for sums (exact for polynomials of degree 15). Its error is proven where the curve is declared
    completely monotone (Gauss's rule is below the sum, Lobatto's above), bracketed where it is
    declared increasing or concave, and otherwise checked against the rule with twice the nodes.
    With `scale`, weights of the terms as multiples of 1/I, all terms are summed one by one.
    Rounding goes by the level of w.
    """
    n = len(sizes)
    distinct, member, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    owner = Owner(distinct, sum_of_others(distinct, counts), n)
    if scale is not None or len(distinct) * n <= MOST_TERMS:
        k, weight = np.arange(n), np.ones(n) if scale is None else scale
        sums, error, how = weighted_sum(owner, curve, k, weight), 0.0, "summed term by term"
    else:
        sums, error, how = by_rule(owner, curve)
    ends = finite_curve(curve, np.array([0.0, float(sizes.sum())]))
    rounding = 4 * float(np.finfo(float).eps * np.abs(ends).max())
    return sums[member] / n, error / n + rounding, how


def du_by_precision(sizes: FloatArray, gamma: FloatArray, utility: Utility) -> Estimate | None:
    """DU-Shapley where rows differ in precision; None: too many terms."""
    kinds, member = np.unique(np.stack([sizes, gamma], axis=1), axis=0, return_inverse=True)
    precisions, which = np.unique(gamma, return_inverse=True)
    n, all_rows = len(sizes), np.bincount(which, sizes)
    if n * len(kinds) * len(precisions) > MOST_PRECISE:
        return None
    share = np.arange(n)[:, None] / (n - 1)
    worth = np.empty((len(kinds), 2, n))
    for j, (size, precision) in enumerate(kinds):
        own = size * (precisions == precision)
        pooled = share * np.maximum(all_rows - own, 0.0)
        worth[j] = utility(np.concatenate([pooled + own, pooled]), precisions).reshape(2, n)
    if not np.isfinite(worth).all():
        return None  # the pole of the paper's form, which those who pay refuse
    error = 1e-14 * float(np.abs(worth).max())
    values = np.mean(worth[:, 0] - worth[:, 1], axis=1)[member.ravel()]
    return Estimate(values, details={"route": "rows of each precision", "numerical_error": error})


@dataclass(frozen=True)
class Owner:
    """Owners of each distinct size: own rows, rows of all others, and how many owners there are."""

    own: FloatArray
    others: FloatArray
    n: int


def sum_of_others(distinct: FloatArray, counts: IntArray) -> FloatArray:
    """Rows of everybody but one owner of each size; added, for a difference loses the dwarfs."""
    rows = distinct * counts
    below = np.cumsum(np.append(0.0, rows[:-1]))
    above = np.cumsum(np.append(0.0, rows[:0:-1]))[::-1]
    return np.asarray(below + above + distinct * (counts - 1))


def weighted_sum(
    owner: Owner,
    curve: LearningCurve,
    k: FloatArray | IntArray,
    weight: FloatArray,
    without: FloatArray | IntArray | None = None,
) -> FloatArray:
    """Σ weight·g(kμ) for each distinct size, k not necessarily whole.

    With `without`, the pools that the owner is not in are of this k.
    """
    without = k if without is None else without
    sums = np.empty(len(owner.own))
    at_once = max(1, 2**20 // len(k))
    for start in range(0, len(sums), at_once):
        some = slice(start, start + at_once)
        mine, others = owner.own[some, None], owner.others[some, None]
        there, gone = (pools / max(owner.n - 1, 1) * others for pools in (k, without))
        sums[some] = (finite_curve(curve, there + mine) - finite_curve(curve, gone)) @ weight
    return sums


def by_rule(owner: Owner, curve: LearningCurve) -> tuple[FloatArray, float, str]:
    """Σ_k g(kμ) for many owners: values, largest error, and how the error is known."""
    lower = weighted_sum(owner, curve, *sum_rule(owner.n, NODES, ends=False))
    if curve.shape == "completely monotone":
        upper = weighted_sum(owner, curve, *sum_rule(owner.n, NODES, ends=True))
        middle, half = (lower + upper) / 2, float(np.abs(upper - lower).max()) / 2
        return middle, half, "error proven (completely monotone curve)"
    if curve.shape is not None:
        return lower, monotone_error(owner, lower, curve), f"error proven ({curve.shape} curve)"
    finer = weighted_sum(owner, curve, *sum_rule(owner.n, 2 * NODES, ends=False))
    checked = "error checked numerically, not proven (no shape declared)"
    return finer, float(np.abs(finer - lower).max()), checked


def sum_rule(n: int, nodes: int, ends: bool) -> tuple[FloatArray, FloatArray]:
    """Points and weights for a sum over k = 0..n−1: the head as it is, then doublings."""
    head = min(HEAD, n)
    points, weights = [np.arange(float(head))], [np.ones(head)]
    edges = np.unique(np.minimum(HEAD * 2 ** np.arange(n.bit_length()), n))
    for start, end in pairwise(edges.tolist()):
        x, weight = gauss_for_sums(end - start, min(nodes, end - start - ends), ends)
        points.append(start + x)
        weights.append(weight)
    return np.concatenate(points), np.concatenate(weights)


def gauss_for_sums(length: int, nodes: int, ends: bool) -> tuple[FloatArray, FloatArray]:
    """Gauss's rule (or Lobatto's, one node more) for Σ f(k), k = 0..length−1.

    The weights of the discrete Legendre polynomials' recurrence are n²(L²−n²)/(4(4n²−1)); nodes and
    weights are the eigenvalues and first components of the tridiagonal matrix they form.
    """
    from scipy.linalg import eigh_tridiagonal

    j = np.arange(1, nodes)
    beta = j**2 * (length**2 - j**2) / (4 * (4 * j**2 - 1))
    half = (length - 1) / 2
    if ends:  # one more coefficient, chosen so that both ends are nodes
        ratio = half
        for b in beta:
            ratio = half - b / ratio
        beta = np.append(beta, half * ratio)
    x, vectors = eigh_tridiagonal(np.zeros(len(beta) + 1), np.sqrt(beta))
    return np.asarray(x + half), np.asarray(length * vectors[0] ** 2)


def monotone_error(owner: Owner, sums: FloatArray, curve: LearningCurve) -> float:
    """How far `sums` can be from the truth, knowing only that g falls (concave) or w rises."""
    inner = np.unique(np.geomspace(HEAD, owner.n - 1, RIEMANN).astype(np.int64))
    a = np.concatenate([np.arange(HEAD), inner])
    b = np.concatenate([np.arange(HEAD), inner[1:] - 1, inner[-1:]])
    length = (b - a + 1).astype(np.float64)
    pools = ((a, a), (b, b)) if curve.shape == "concave" else ((b, a), (a, b))
    high, low = (weighted_sum(owner, curve, k, length, without) for k, without in pools)
    return float(np.maximum(high - sums, sums - low).max())
