r"""DU-Shapley of a size game from its formula, for a million owners.

With m = I−1 others, μ their mean size and :math:`g(n) = w(n + n_i) - w(n)`,

.. math:: \psi_i = \frac1I \sum_{k=0}^{m} g(k\mu).

Owners of equal size have equal values, so all work is per distinct size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.size.curves import LearningCurve, finite_curve

MOST_TERMS = 2**23
"""(Size, k) pairs that are summed one by one; above, the sum over k is by Gauss's rule."""
HEAD = 64
"""Terms at the beginning that are always summed one by one."""
NODES = 8
"""Nodes of Gauss's rule in each doubling of k."""
RIEMANN = 4096
"""Pieces of the bracket when a curve is known to be monotone, but not how smooth."""


@dataclass(frozen=True)
class DUValues:
    """DU-Shapley values per owner and what is known of their numerical error.

    That is the error of the sum over k and of rounding, which goes by the level of w.
    """

    values: FloatArray
    error: float
    how: str


def du_values(sizes: FloatArray, curve: LearningCurve, scale: FloatArray | None = None) -> DUValues:
    """DU-Shapley of all owners; the sum over k exactly, or by a rule whose error is stated.

    Up to 2^23 terms are summed one by one. Beyond, k runs through doublings, each by Gauss's rule
    for sums (exact for polynomials of degree 15). Its error is proven where the curve is declared
    completely monotone (Gauss's rule is below the sum, Lobatto's above), bracketed where it is
    declared increasing or concave, and otherwise checked against the rule with twice the nodes.
    With `scale`, weights of the terms as multiples of 1/I, all terms are summed one by one.
    """
    n = len(sizes)
    ends = finite_curve(curve, np.array([0.0, float(sizes.sum())]))
    rounding = 4 * float(np.finfo(float).eps * np.abs(ends).max())
    if n == 1:
        return DUValues(ends[1:] - ends[:1], rounding, "summed term by term")
    distinct, member, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    owner = Owner(distinct, sum_of_others(distinct, counts), n)
    if scale is not None or len(distinct) * n <= MOST_TERMS:
        sums = weighted_sum(owner, np.arange(n), np.ones(n) if scale is None else scale, curve)
        return DUValues(sums[member] / n, rounding, "summed term by term")
    sums, error, how = by_rule(owner, curve)
    return DUValues(sums[member] / n, error / n + rounding, how)


def definition_values(sizes: FloatArray, within: FloatArray, curve: LearningCurve) -> FloatArray:
    """Definition 1 of a curve of how many rows lie in one bin, its mean over the draws.

    Of round(kμ) rows drawn from the others', `within` of whose are in the bin, a hypergeometric
    number is in the bin.
    """
    from scipy.stats import hypergeom

    n = len(sizes)
    values = np.zeros(n)
    for i in range(n):
        rows, inside = float(sizes.sum() - sizes[i]), float(within.sum() - within[i])
        drawn = np.round(np.arange(n) / max(n - 1, 1) * rows)[:, None]
        count = np.arange(inside + 1)[None, :]
        chance = hypergeom.pmf(count, rows, inside, drawn)
        gain = finite_curve(curve, count + within[i]) - finite_curve(curve, count)
        values[i] = float((chance @ gain[0]).mean())
    return values


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
    owner: Owner, k: FloatArray | IntArray, weight: FloatArray, curve: LearningCurve
) -> FloatArray:
    """Σ weight·g(kμ) for each distinct size, k not necessarily whole."""
    sums = np.empty(len(owner.own))
    at_once = max(1, 2**20 // len(k))
    for start in range(0, len(sums), at_once):
        mine = owner.own[start : start + at_once, None]
        pooled = k / (owner.n - 1) * owner.others[start : start + at_once, None]
        gain = finite_curve(curve, pooled + mine) - finite_curve(curve, pooled)
        sums[start : start + at_once] = gain @ weight
    return sums


def by_rule(owner: Owner, curve: LearningCurve) -> tuple[FloatArray, float, str]:
    """Σ_k g(kμ) for many owners: values, largest error, and how the error is known."""
    n = owner.n
    lower = weighted_sum(owner, *sum_rule(n, NODES, ends=False), curve)
    if curve.shape == "completely monotone":
        upper = weighted_sum(owner, *sum_rule(n, NODES, ends=True), curve)
        half = float(np.abs(upper - lower).max()) / 2
        return (lower + upper) / 2, half, "error proven (completely monotone curve)"
    if curve.shape is not None:
        error = float(np.max(monotone_error(owner, lower, curve)))
        return lower, error, f"error proven ({curve.shape} curve)"
    finer = weighted_sum(owner, *sum_rule(n, 2 * NODES, ends=False), curve)
    error = float(np.abs(finer - lower).max())
    return finer, error, "error checked numerically, not proven (no shape declared)"


def sum_rule(n: int, nodes: int, ends: bool) -> tuple[FloatArray, FloatArray]:
    """Points and weights for a sum over k = 0..n−1: the head as it is, then doublings."""
    points, weights = [np.arange(float(min(HEAD, n)))], [np.ones(min(HEAD, n))]
    start = HEAD
    while start < n:
        length = min(start, n - start)
        x, weight = gauss_for_sums(length, min(nodes, length), ends)
        points.append(start + x)
        weights.append(weight)
        start += length
    return np.concatenate(points), np.concatenate(weights)


def gauss_for_sums(length: int, nodes: int, ends: bool) -> tuple[FloatArray, FloatArray]:
    """Gauss's rule (or Lobatto's, one node more) for Σ f(k), k = 0..length−1.

    The weights of the discrete Legendre polynomials' recurrence are n²(L²−n²)/(4(4n²−1)); nodes and
    weights are the eigenvalues and first components of the tridiagonal matrix they form.
    """
    from scipy.linalg import eigh_tridiagonal

    if nodes == length:
        return np.arange(float(length)), np.ones(length)
    j = np.arange(1, nodes)
    beta = j**2 * (length**2 - j**2) / (4 * (4 * j**2 - 1))
    if ends:  # one more coefficient, chosen so that both ends are nodes
        half = (length - 1) / 2
        ratio = half
        for b in beta:
            ratio = half - b / ratio
        beta = np.append(beta, half * ratio)
    x, vectors = eigh_tridiagonal(np.zeros(len(beta) + 1), np.sqrt(beta))
    return np.asarray(x + (length - 1) / 2), np.asarray(length * vectors[0] ** 2)


def monotone_error(owner: Owner, sums: FloatArray, curve: LearningCurve) -> FloatArray:
    """How far `sums` can be from the truth, knowing only that g falls (concave) or w rises."""
    n = owner.n
    inner = np.unique(np.geomspace(HEAD, n - 1, RIEMANN).astype(np.int64))
    a, b = np.append(np.arange(HEAD), inner[:-1]), np.append(np.arange(HEAD), inner[1:] - 1)
    a, b = np.append(a, n - 1), np.append(b, n - 1)
    length = (b - a + 1).astype(np.float64)
    if curve.shape == "concave":
        high, low = (weighted_sum(owner, k, length, curve) for k in (a, b))
        return np.maximum(high - sums, sums - low)
    mine, others = owner.own[:, None], owner.others[:, None]
    first, last = (k / (n - 1) * others for k in (a, b))
    high = (finite_curve(curve, last + mine) - finite_curve(curve, first)) @ length
    low = (finite_curve(curve, first + mine) - finite_curve(curve, last)) @ length
    return np.maximum(high - sums, sums - low)
