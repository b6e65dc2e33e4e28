r"""Exact values where owners are of few kinds: equal in rows and precision.

Everybody joins with probability t, so the numbers present of each kind are independent binomials;
as in `exact`, the integral over t is done by Gauss's rule for polynomials of degree I−1.

*Few present.* Utilities of all small pools are one table, and a mean is a product of this table
with the binomials.

*Many present.* Each binomial is replaced by its own Gauss rule (Krawtchouk polynomials): a utility
that is smooth in the numbers present, as it is once they are many, has the same mean under it. What
that leaves is measured by a second, coarser rule, and the route is refused where it is not small.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.protocol import Estimate

MOST_POOLS = 2**21
"""Pools in the table of few present."""
LONGEST = 36
"""Owners of one kind up to which few are present."""
TINY = 1e-17
"""Probability of numbers beyond the table that are left out."""
RULES = {0.0: (14, 11), 50.0: (8, 6), 200.0: (6, 5)}
"""Points of Gauss's rule for a binomial, and of the one that checks it, by how many are expected
to be present: the more there are, the less a utility bends over their spread."""
MOST_OWNERS = 5_000
MOST_TERMS = 2**24
"""(Owner, k, precision) triples of DU-Shapley's formula."""
GOOD = 1e-9
"""What the rules may differ by, as a part of the largest utility."""
Law = tuple[FloatArray, FloatArray]
"""How many are present, and with which weight."""


class RowsFormula(Protocol):
    """A game whose utility is a formula of how many rows there are of each precision."""

    sizes: FloatArray
    gamma: FloatArray

    @property
    def form(self) -> str:
        """Which formula; the paper's rounds down."""
        ...

    def of_rows(self, rows: FloatArray, gamma: FloatArray) -> FloatArray:
        """Utility of pools of so many rows, shape (m, G), of such precisions, shape (G,)."""
        ...


def exact_by_kinds(game: RowsFormula) -> Estimate | None:
    """Shapley values of owners of few kinds; None where this route does not reach them."""
    pairs = np.stack([game.sizes, game.gamma], axis=1)
    kinds, member, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    n, size, gamma = len(pairs), kinds[:, 0], kinds[:, 1]
    most = table_sides(counts)
    if n > MOST_OWNERS or most is None or (game.form == "paper" and (most < counts).any()):
        return None  # the paper's rounding down leaves nothing smooth
    table = game.of_rows(grid([np.arange(m + 1.0) for m in most]) * size, gamma)
    table = table.reshape(most + 1)
    if not np.isfinite(table).all():
        return None
    values, check = np.zeros(len(counts)), np.zeros(len(counts))
    for t, weight in zip(*nodes(n), strict=True):
        for kind in range(len(counts)):
            others = counts - (np.arange(len(counts)) == kind)
            both = gains(game, kinds, kind, table, others, float(t))
            values[kind] += weight * both[0]
            check[kind] += weight * both[1]
    error, scale = float(np.abs(values - check).max()), float(np.abs(table).max())
    if error > GOOD * scale:
        return None
    details: dict[str, object] = {
        "route": "kinds of owners",
        "numerical_error": error + 1e-14 * scale,
        "error_checked_only": bool((most < counts).any()),
    }
    return Estimate(values[member.ravel()], details=details)


def du_by_precision(game: RowsFormula) -> Estimate | None:
    """DU-Shapley by its formula: every other owner gives k/(I−1) of its rows; None: too many."""
    pairs = np.stack([game.sizes, game.gamma], axis=1)
    kinds, member = np.unique(pairs, axis=0, return_inverse=True)
    gamma, which = np.unique(game.gamma, return_inverse=True)
    n, all_rows = len(pairs), np.bincount(which, game.sizes)
    if n == 1 or n * len(kinds) * len(gamma) > MOST_TERMS:
        return None
    share = np.arange(n)[:, None] / (n - 1)
    values, largest = np.zeros(len(kinds)), 0.0
    for j, (size, precision) in enumerate(kinds):
        own = size * (gamma == precision)
        pooled = share * np.maximum(all_rows - own, 0.0)
        worth = game.of_rows(np.concatenate([pooled + own, pooled]), gamma)
        if not np.isfinite(worth).all():
            return None  # the pole of the paper's form, which those who pay refuse
        values[j] = float(np.mean(worth[:n] - worth[n:]))
        largest = max(largest, float(np.abs(worth).max()))
    details = {"route": "rows of each precision", "numerical_error": 1e-14 * largest}
    return Estimate(values[member.ravel()], details=details)


def table_sides(counts: IntArray) -> IntArray | None:
    """Largest number present of each kind in the table; None where there are too many kinds."""
    longest = LONGEST
    while float(np.prod(np.minimum(counts, longest) + 1.0)) > MOST_POOLS:
        longest -= 1
        if longest < 8:
            return None
    return np.minimum(counts, longest)


def nodes(n_players: int) -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre on (0, 1), exact for polynomials of degree I−1."""
    from scipy.special import roots_legendre

    x, weight = roots_legendre((n_players + 1) // 2)
    return (1 + x) / 2, weight / 2


def gains(
    game: RowsFormula, kinds: FloatArray, kind: int, table: FloatArray, others: IntArray, t: float
) -> tuple[float, float]:
    """E[u(with one more of this kind) − u] when others join with probability t, by two rules."""
    if all(negligible(c, t, side - 1) for c, side in zip(others, table.shape, strict=True)):
        law = [binomial(int(c), t, side) for c, side in zip(others, table.shape, strict=True)]
        mean = table
        for g in reversed(range(len(law))):  # last axis first; the kind's own axis by differences
            worth = np.append(np.diff(mean, axis=-1), 0 * mean[..., :1], -1) if g == kind else mean
            mean = worth @ law[g]
        return float(mean), float(mean)
    rules = [points for least, points in RULES.items() if t * others.sum() >= least][-1]
    value, check = (
        ruled_gain(game, kinds, kind, [gauss(c, t, points) for c in others]) for points in rules
    )
    return value, check


def negligible(count: int, t: float, most: int) -> bool:
    """Whether more than `most` of so many are present with next to no probability."""
    from scipy.special import bdtrc

    return most >= count or float(bdtrc(most, count, t)) < TINY


@lru_cache(maxsize=1024)  # every kind asks for the laws of all others
def binomial(count: int, t: float, side: int) -> FloatArray:
    """Probability that 0, 1, … and side − 1 of so many are present."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(side, dtype=np.float64), count, t))


def gauss(count: int, t: float, points: int) -> Law:
    """Gauss's rule of a binomial law, from the recurrence of Krawtchouk's polynomials."""
    from scipy.linalg import eigh_tridiagonal

    k = np.arange(min(points, count + 1), dtype=np.float64)
    diagonal = t * (count - k) + (1 - t) * k
    beside = np.sqrt(k[1:] * t * (1 - t) * (count + 1 - k[1:]))
    x, vectors = eigh_tridiagonal(diagonal, beside)
    return np.maximum(x, 0.0), vectors[0] ** 2


def grid(axes: Sequence[FloatArray]) -> FloatArray:
    """All combinations, one a row, the last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def ruled_gain(game: RowsFormula, kinds: FloatArray, kind: int, laws: Sequence[Law]) -> float:
    """The same mean over the product of the rules of all kinds."""
    present = grid([points for points, _ in laws])
    weight = np.prod(grid([part for _, part in laws]), axis=1)
    likely = weight > TINY * float(weight.max())
    rows, added = present[likely] * kinds[:, 0], np.zeros(len(kinds))
    added[kind] = kinds[kind, 0]
    worth = game.of_rows(np.concatenate([rows + added, rows]), kinds[:, 1])
    half = len(rows)
    return float(weight[likely] @ (worth[:half] - worth[half:]))
