"""Exact terms of a size game's Shapley value: what an owner adds to k others, for small k.

DU-Shapley replaces the size of k random others by its mean. That is poorest at k = 1, 2, 3 (and,
by symmetry, when all but 1, 2, 3 are present), where the exact mean over all choices is cheap.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.size.curves import Curve, finite_curve
from dushapley.games.size.exact import Lattice, fast_length, lattice, size_transform, utilities

DEEPEST = 3
FEW_COALITIONS, MOST_COALITIONS = 2**12, 2**20
"""Coalitions that are listed rather than counted, and listed at most where counting cannot be."""
MOST_STEPS = 2**20
"""Longest lattice on which they are counted."""


def exact_terms(sizes: FloatArray, w: Curve) -> tuple[IntArray, FloatArray]:
    r"""Mean of w(n_i + n_T) − w(n_T) over all T of k others, for the k that can be had exactly.

    Returns the ks and a matrix (I, number of ks). With m = I−1 others these are k ≤ 3 and
    k ≥ m−3: by listing coalitions where they are few, by counting pooled sizes on a lattice where
    they are many. Sizes without a lattice reach less deep, down to k = 0 and m for thousands.
    """
    n = len(sizes)
    depth = min(DEEPEST, n - 1)
    grid = lattice(sizes) if comb(n, depth + 1) > FEW_COALITIONS else None
    if grid is not None and grid.n_players > 0 and grid.steps[-1] <= MOST_STEPS:
        level = utilities(grid, w)
        sides = [counted_means(grid, n, level, depth), -counted_means(grid, n, level[::-1], depth)]
    else:
        while comb(n, depth + 1) > MOST_COALITIONS and depth > 0:
            depth -= 1
        sides = [listed_means(sizes, w, depth, all_but) for all_but in (False, True)]
    ks = np.array([*range(depth + 1), *range(n - 1, n - 2 - depth, -1)])
    ks, first = np.unique(ks, return_index=True)
    return ks, np.concatenate(sides, axis=1)[:, first]


def listed_means(sizes: FloatArray, w: Curve, depth: int, all_but: bool) -> FloatArray:
    """Terms k = 0..depth, or m, m−1, ..., by listing every coalition of up to depth+1 owners.

    The mean of w(n_i + n_T) runs over the coalitions of k+1 that contain i, that of w(n_T) over
    those of k that do not. With `all_but` the coalitions listed are those who are absent.
    """
    n = len(sizes)
    with_i, without_i = [], []
    for order in range(depth + 2):
        listed = list(combinations(range(n), order))
        teams = np.array(listed, dtype=np.int64).reshape(len(listed), order)
        worth = finite_curve(w, absent_rows(sizes, teams) if all_but else sizes[teams].sum(axis=1))
        inside = np.bincount(teams.ravel(), np.repeat(worth, order), minlength=n)
        with_i.append(inside / comb(n - 1, order - 1) if order else inside)
        outside = np.maximum(comb(n - 1, order), 1)
        without_i.append((worth.sum() - inside) / outside)
    if all_but:
        return np.stack([without_i[k] - with_i[k + 1] for k in range(depth + 1)], axis=1)
    return np.stack([with_i[k + 1] - without_i[k] for k in range(depth + 1)], axis=1)


def absent_rows(sizes: FloatArray, teams: IntArray) -> FloatArray:
    """Rows of everybody but each team, added up afresh: a giant's rows would drown the rest."""
    rows = np.empty(len(teams))
    for start in range(0, len(teams), 2**14):
        some = teams[start : start + 2**14]
        present = np.ones((len(some), len(sizes)))
        np.put_along_axis(present, some, 0.0, axis=1)
        rows[start : start + 2**14] = present @ sizes
    return rows


def counted_means(grid: Lattice, n: int, level: FloatArray, depth: int) -> FloatArray:
    r"""Terms k = 0..depth from the number of coalitions of each pooled size.

    With e_k(z) the generating function of all coalitions of k owners, those without owner s have
    :math:`\sum_r (-1)^r z^{rs} e_{k-r}(z)`; so a term is an alternating sum of
    :math:`a_k(y) = \sum_Y e_k(Y)\,w(Y + y)` at y = 0, s, 2s, ... Sizes that no coalition has
    cancel in it. With `level` reversed, the coalitions counted are those who are absent.
    """
    steps = np.concatenate([[0], grid.steps])  # owners without rows are owners here
    empty = n - grid.n_players
    reach = (2 * depth + 2) * int(grid.steps[-1])
    length = fast_length(2 * reach + 2)
    here = np.minimum(np.arange(reach + 1), grid.total)
    transform = np.fft.rfft(level[here], length)
    shifted = [
        np.fft.irfft(transform * np.conj(e), length)[: reach + 1]
        for e in elementary(grid, empty, depth, length)
    ]
    terms = []
    for k in range(depth + 1):
        parts = [
            (-1) ** r * (shifted[k - r][(r + 1) * steps] - shifted[k - r][r * steps])
            for r in range(k + 1)
        ]
        terms.append(np.sum(parts, axis=0) / comb(n - 1, k))
    return np.stack(terms, axis=1)[grid.member + 1]


def elementary(grid: Lattice, empty: int, depth: int, length: int) -> list[np.ndarray]:
    """Transforms of e_0..e_depth by Newton's identities, from the power sums S(z^r)."""
    sums = size_transform(grid, length)
    frequency = np.arange(length // 2 + 1)
    power = [sums[(r * frequency) % length] + empty for r in range(1, depth + 1)]
    e = [np.ones(len(frequency), dtype=sums.dtype)]
    for k in range(1, depth + 1):
        e.append(sum((-1) ** (r - 1) * e[k - r] * power[r - 1] for r in range(1, k + 1)) / k)
    return e
