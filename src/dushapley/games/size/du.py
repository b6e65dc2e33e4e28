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
NODES = 8, 16
"""Nodes of Gauss's rule in each doubling of k: of the check, and of the values."""


def du_values(
    sizes: FloatArray, curve: LearningCurve, scale: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """DU-Shapley of all owners, and its numerical error.

    Up to 2^23 terms are summed one by one. Beyond, k runs through doublings, each by Gauss's rule
    for sums (exact for polynomials of degree 31), whose error is checked against the rule with half
    the nodes. With `scale`, weights of the terms as multiples of 1/I, all terms are summed one by
    one. Rounding goes by the level of w.
    """
    n = len(sizes)
    distinct, member, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    owner = Owner(distinct, sum_of_others(distinct, counts), n)
    if scale is not None or len(distinct) * n <= MOST_TERMS:
        weight = np.ones(n) if scale is None else scale
        sums = rough = weighted_sum(owner, curve, np.arange(n), weight)
    else:
        rough, sums = (weighted_sum(owner, curve, *sum_rule(n, nodes)) for nodes in NODES)
    ends = finite_curve(curve, np.array([0.0, float(sizes.sum())]))
    rounding = 4 * float(np.finfo(float).eps * np.abs(ends).max())
    return sums[member] / n, float(np.abs(sums - rough).max()) / n + rounding


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
    owner: Owner, curve: LearningCurve, k: FloatArray | IntArray, weight: FloatArray
) -> FloatArray:
    """Σ weight·g(kμ) for each distinct size, k not necessarily whole."""
    sums = np.empty(len(owner.own))
    at_once = max(1, 2**20 // len(k))
    for start in range(0, len(sums), at_once):
        some = slice(start, start + at_once)
        pooled = k / max(owner.n - 1, 1) * owner.others[some, None]
        gain = finite_curve(curve, pooled + owner.own[some, None]) - finite_curve(curve, pooled)
        sums[some] = gain @ weight
    return sums


def sum_rule(n: int, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Points and weights for a sum over k = 0..n−1: the head as it is, then doublings."""
    head = min(HEAD, n)
    points, weights = [np.arange(float(head))], [np.ones(head)]
    edges = np.unique(np.minimum(HEAD * 2 ** np.arange(n.bit_length()), n))
    for start, end in pairwise(edges.tolist()):
        x, weight = gauss_for_sums(end - start, min(nodes, end - start))
        points.append(start + x)
        weights.append(weight)
    return np.concatenate(points), np.concatenate(weights)


def gauss_for_sums(length: int, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss's rule for Σ f(k), k = 0..length−1.

    The weights of the discrete Legendre polynomials' recurrence are n²(L²−n²)/(4(4n²−1)); nodes and
    weights are the eigenvalues and first components of the tridiagonal matrix they form.
    """
    from scipy.linalg import eigh_tridiagonal

    j = np.arange(1, nodes)
    beta = j**2 * (length**2 - j**2) / (4 * (4 * j**2 - 1))
    x, vectors = eigh_tridiagonal(np.zeros(nodes), np.sqrt(beta))
    return np.asarray(x + (length - 1) / 2), np.asarray(length * vectors[0] ** 2)
