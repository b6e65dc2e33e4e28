r"""How far DU-Shapley is from the Shapley value of a size game, and a better value.

With m = I−1 others and :math:`g(n) = w(n + n_i) - w(n)`, the Shapley value is the mean over
k = 0..m of :math:`E[g(Y_k)]`, :math:`Y_k` the size of k random others; DU-Shapley takes
:math:`g(E\,Y_k)` instead. Three moments and the range of :math:`Y_k` are known exactly. For a
completely monotone curve the fourth derivative of g is not negative, so

- the two points that share three moments with :math:`Y_k` give a lower bound of
  :math:`E[g(Y_k)]`: g minus the cubic that touches it in both is
  :math:`g^{(4)}(\xi)/24\,(y-y_1)^2(y-y_2)^2 \ge 0`;
- the ends of its range with one point between, sharing the same moments, give an upper bound:
  there the difference is :math:`g^{(4)}(\xi)/24\,(y-a)(y-b)(y-y_1)^2 \le 0`.

The lower bound is second-order DU-Shapley: it adds the leading bias ½g''(kμ)·Var of DU-Shapley and
the next term, without a derivative, and its points never leave the range of :math:`Y_k`.

DU-Shapley is poorest at k = 1, 2, 3 (and, by symmetry, when all but 1, 2, 3 are present), where the
exact mean over all choices is cheap: those terms are taken exactly.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.size.curves import Curve, LearningCurve, finite_curve
from dushapley.games.size.exact import (
    Lattice,
    Rule,
    fast_length,
    lattice,
    size_transform,
    utilities,
)

DEGENERATE = 1e-3
"""Where a three-point rule would divide by less than this, a coarser bound is taken."""
ROUNDING = 2.0**-44
"""Room for rounding errors in a bound, as a part of the largest utility."""
FEW_COALITIONS, MOST_COALITIONS = 2**12, 2**20
"""Coalitions that are listed rather than counted, and listed at most where counting cannot be."""
Bracket = tuple[FloatArray, FloatArray, float]
"""Bounds on the Shapley value of every owner, and room for rounding.

The lower ones are second-order DU-Shapley itself. lower − room ≤ φ ≤ upper + room is proven if the
curve is completely monotone.
"""


def bracket(sizes: FloatArray, curve: LearningCurve, scale: FloatArray | None = None) -> Bracket:
    """Two-sided bounds on the Shapley values of w(Σn).

    Terms k ≤ 3 and k ≥ m−3 are exact where coalitions can be listed or counted; the others are
    bracketed by their moments. No coalition of the game is asked. `scale` holds the weight of every
    term k = 0..I−1 as a multiple of 1/I, where it is another semivalue than Shapley's.
    """
    n = len(sizes)
    own, member = np.unique(sizes, return_inverse=True)
    ends = finite_curve(curve, np.array([0.0, float(sizes.sum())]))
    ks, exact = exact_terms(sizes, curve)
    between = np.setdiff1d(np.arange(n), ks)
    weight = np.ones(n) if scale is None else scale
    known = (exact * weight[ks]).sum(axis=1)
    lower, upper = (
        (known + (means * weight[between]).sum(axis=1)[member]) / n
        for means in middle_means(sizes, own, between, curve)
    )
    return lower, np.maximum(lower, upper), ROUNDING * float(np.abs(ends).max())


def middle_means(
    sizes: FloatArray, own: FloatArray, k: IntArray, curve: LearningCurve
) -> list[FloatArray]:
    """Bounds of the terms between the exact ones, lower and upper, each of shape (D, K).

    `own` holds the distinct sizes, k how many of the m = I−1 others are drawn without replacement.
    Var = kσ²(m−k)/(m−1); the third central moment of their pooled size is that of one owner times
    k(m−k)(m−2k)/((m−1)(m−2)).
    """
    m, others = len(sizes) - 1, without_one(sizes, own)
    mean = others.sum(axis=1, keepdims=True) / max(m, 1)
    second, third = (((others - mean) ** r).sum(axis=1, keepdims=True) / max(m, 1) for r in (2, 3))
    variance = second * k * (m - k) / max(m - 1, 1)
    third = third * k * (m - k) * (m - 2 * k) / max((m - 1) * (m - 2), 1)
    low = np.cumsum(np.insert(others, 0, 0.0, axis=1), axis=1)[:, k]
    high = np.cumsum(np.insert(others[:, ::-1], 0, 0.0, axis=1), axis=1)[:, k]
    moments, bounds = (k * mean, variance, third), []
    for points, masses in (two_points(*moments), ended_points(*moments, low, high)):
        pooled = np.clip(points, low, high)  # the range that others can have
        gains = finite_curve(curve, pooled + own[:, None]) - finite_curve(curve, pooled)
        bounds.append((masses * gains).sum(axis=0))
    return bounds


def without_one(sizes: FloatArray, own: FloatArray) -> FloatArray:
    """Sizes of all owners but one of each of these sizes, rising, shape (D, I−1)."""
    ordered = np.sort(sizes)
    return np.array([np.delete(ordered, rank) for rank in np.searchsorted(ordered, own)])


def two_points(mean: FloatArray, variance: FloatArray, third: FloatArray) -> Rule:
    """The two points that share three moments with Y_k."""
    spread = np.sqrt(variance)
    cubed = variance * spread
    lean = np.divide(third, 2 * cubed, out=np.zeros_like(cubed), where=cubed > 0)
    far = np.abs(lean) + np.sqrt(1 + lean**2)
    down, up = np.where(lean > 0, [1 / far, far], [far, 1 / far])
    nudge, share = 2.0**-48 * (mean + spread), up / (up + down)  # up, for rounding
    points = np.stack([mean - spread * down + nudge, mean + spread * up + nudge])
    return points, np.stack([share, 1 - share])


def ended_points(
    mean: FloatArray, v: FloatArray, third: FloatArray, low: FloatArray, high: FloatArray
) -> Rule:
    """Both ends of the range and a point between them, sharing three moments with Y_k.

    Where that point falls near an end, or the law is nearly one of two points, the bound that uses
    mean, variance and the lower end only is taken: it holds because the third derivative of g is
    not positive.
    """
    a, b, width = low - mean, high - mean, high - low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = (third - (a + b) * v) / (v + a * b)
        at_a = (v + x * b) / ((a - x) * (a - b))
        at_b = (v + x * a) / ((b - x) * (b - a))
        sound = (-(v + a * b) > DEGENERATE * -a * b) & (x - a > DEGENERATE * width)
        sound &= (b - x > DEGENERATE * width) & (at_a >= 0) & (at_b >= 0) & (at_a + at_b <= 1)
        far, mass = np.where((v > 0) & (a < 0), [v / -a, v / (v + a**2)], 0.0)
    x, at_a, at_b = np.where(sound, [x, at_a, at_b], [far, mass, np.zeros_like(v)])
    points = np.stack([low, high, mean + x - 1e-11 * width])  # down, for rounding
    return points, np.stack([at_a, at_b, 1 - at_a - at_b])


def exact_terms(sizes: FloatArray, w: Curve) -> tuple[IntArray, FloatArray]:
    r"""Mean of w(n_i + n_T) − w(n_T) over all T of k others, for the k that can be had exactly.

    Returns the ks and a matrix (I, number of ks). With m = I−1 others these are k ≤ 3 and
    k ≥ m−3: by listing coalitions where they are few, by counting pooled sizes on a lattice where
    they are many. Sizes without a lattice reach less deep, down to k = 0 and m for thousands.
    """
    n = len(sizes)
    depth = min(3, n - 1)
    grid = lattice(sizes) if comb(n, depth + 1) > FEW_COALITIONS else None
    if grid is not None and 0 < grid.steps[-1] <= 2**20:
        level = utilities(grid, w)
        sides = [counted_means(grid, n, level, depth), -counted_means(grid, n, level[::-1], depth)]
    else:
        while comb(n, depth + 1) > MOST_COALITIONS and depth > 0:
            depth -= 1
        sides = [listed_means(sizes, w, depth, False), -listed_means(sizes, w, depth, True)]
    both = [*range(depth + 1), *range(n - 1, n - 2 - depth, -1)]
    ks, first = np.unique(both, return_index=True)
    return ks, np.concatenate(sides, axis=1)[:, first]


def listed_means(sizes: FloatArray, w: Curve, depth: int, all_but: bool) -> FloatArray:
    """Terms k = 0..depth, or m, m−1, ..., by listing every coalition of up to depth+1 owners.

    The mean of w(n_i + n_T) runs over the coalitions of k+1 that contain i, that of w(n_T) over
    those of k that do not. With `all_but` the coalitions listed are those who are absent, and terms
    have the other sign.
    """
    n = len(sizes)
    with_i, without_i = np.zeros((n, depth + 2)), np.zeros((n, depth + 2))
    for order in range(depth + 2):
        listed = list(combinations(range(n), order))
        teams = np.array(listed, dtype=np.int64).reshape(len(listed), order)
        worth = finite_curve(w, absent_rows(sizes, teams) if all_but else sizes[teams].sum(axis=1))
        inside = np.bincount(teams.ravel(), np.repeat(worth, order), minlength=n)
        with_i[:, order] = inside / comb(n - 1, max(order - 1, 0))
        without_i[:, order] = (worth.sum() - inside) / max(comb(n - 1, order), 1)
    return with_i[:, 1:] - without_i[:, :-1]


def absent_rows(sizes: FloatArray, teams: IntArray) -> FloatArray:
    """Rows of everybody but each team, added up afresh: a giant's rows would drown the rest."""
    rows = []
    for some in np.array_split(teams, len(teams) // 2**14 + 1):
        present = np.ones((len(some), len(sizes)))
        np.put_along_axis(present, some, 0.0, axis=1)
        rows.append(present @ sizes)
    return np.concatenate(rows)


def counted_means(grid: Lattice, n: int, level: FloatArray, depth: int) -> FloatArray:
    r"""Terms k = 0..depth from the number of coalitions of each pooled size.

    With e_k(z) the generating function of all coalitions of k owners, those without owner s have
    :math:`\sum_r (-1)^r z^{rs} e_{k-r}(z)`; so a term is an alternating sum of
    :math:`a_k(y) = \sum_Y e_k(Y)\,w(Y + y)` at y = 0, s, 2s, ... Sizes that no coalition has
    cancel in it. With `level` reversed, the coalitions counted are those who are absent.
    """
    reach = (2 * depth + 2) * int(grid.steps[-1])
    length = fast_length(2 * reach + 2)
    here = np.minimum(np.arange(reach + 1), grid.total)
    sums, frequency = size_transform(grid, length), np.arange(length // 2 + 1)
    power = [sums[(r * frequency) % length] for r in range(1, depth + 1)]
    e = [np.ones(len(frequency), dtype=sums.dtype)]
    for k in range(1, depth + 1):  # Newton's identities, from the power sums S(z^r)
        e.append(sum((-1) ** (r - 1) * e[k - r] * power[r - 1] for r in range(1, k + 1)) / k)
    transform = np.fft.rfft(level[here], length)
    shifted = [np.fft.irfft(transform * np.conj(e_k), length)[: reach + 1] for e_k in e]
    around = [[part[r * grid.steps] for r in range(depth + 2)] for part in shifted]
    terms = [
        sum((-1) ** r * (around[k - r][r + 1] - around[k - r][r]) for r in range(k + 1))
        / comb(n - 1, k)
        for k in range(depth + 1)
    ]
    return np.stack(terms, axis=1)[grid.member]
