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

from collections.abc import Callable, Sequence

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.size.exact import nodes
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
GOOD = 1e-9
"""What the rules may differ by, as a part of the largest utility."""
Utility = Callable[[FloatArray, FloatArray], FloatArray]
"""Utilities of m pools from their rows, shape (m, G), of each precision, shape (G,)."""


def exact_by_kinds(
    sizes: FloatArray, gamma: FloatArray, utility: Utility, smooth: bool
) -> Estimate | None:
    """Shapley values of owners of few kinds; None where this route does not reach them.

    A utility that is not `smooth` in the rows is known where few are present only.
    """
    pairs = np.stack([sizes, gamma], axis=1)
    kinds, member, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    n, sides = len(pairs), table_sides(counts)
    if n > MOST_OWNERS or sides is None or not (smooth or (sides == counts).all()):
        return None
    present = grid([np.arange(side + 1.0) for side in sides])
    table = utility(present * kinds[:, 0], kinds[:, 1]).reshape(sides + 1)
    if not np.isfinite(table).all():
        return None
    found = np.zeros((len(counts), 2))
    for t, weight in zip(*nodes((n + 1) // 2, (1.0, 1.0)), strict=True):
        for kind in range(len(counts)):
            found[kind] += weight * gains(utility, kinds, kind, table, counts, float(t))
    error, scale = float(np.abs(np.diff(found)).max()), float(np.abs(table).max())
    if error > GOOD * scale:
        return None
    details: dict[str, object] = {
        "route": "kinds of owners",
        "numerical_error": error + 1e-14 * scale,
        "error_checked_only": bool((sides < counts).any()),
    }
    return Estimate(found[member.ravel(), 0], details=details)


def table_sides(counts: IntArray) -> IntArray | None:
    """Largest number present of each kind in the table; None where there are too many kinds."""
    for longest in range(LONGEST, 7, -1):
        sides = np.minimum(counts, longest)
        if np.prod(sides + 1.0) <= MOST_POOLS:
            return sides
    return None


def gains(
    utility: Utility, kinds: FloatArray, kind: int, table: FloatArray, counts: IntArray, t: float
) -> FloatArray:
    """E[u(with one more of this kind) − u] when others join with probability t, by two rules."""
    from scipy.special import bdtrc
    from scipy.stats import binom

    others = counts - (np.arange(len(counts)) == kind)
    most = np.minimum(np.array(table.shape) - 1, others)
    if (bdtrc(most, others, t) < TINY).all():  # more than are in the table are never present
        mean = table
        for g in reversed(range(len(others))):  # last axis first, the kind's own by differences
            law = binom.pmf(np.arange(table.shape[g] - (g == kind)), others[g], t)
            mean = (np.diff(mean, axis=-1) if g == kind else mean) @ law
        return np.full(2, mean)
    rules = [points for least, points in RULES.items() if t * others.sum() >= least][-1]
    laws = [[gauss(int(count), t, points) for count in others] for points in rules]
    return np.array([ruled_gain(utility, kinds, kind, law) for law in laws])


def gauss(count: int, t: float, points: int) -> tuple[FloatArray, FloatArray]:
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


def ruled_gain(
    utility: Utility, kinds: FloatArray, kind: int, laws: Sequence[tuple[FloatArray, FloatArray]]
) -> float:
    """The same mean over the product of the rules of all kinds."""
    present = grid([points for points, _ in laws])
    weight = np.prod(grid([part for _, part in laws]), axis=1)
    likely = weight > TINY * float(weight.max())
    one = np.arange(len(kinds)) == kind
    pools = np.stack([present[likely] + one, present[likely]]) * kinds[:, 0]
    worth = utility(pools.reshape(-1, len(kinds)), kinds[:, 1]).reshape(2, -1)
    return float(weight[likely] @ (worth[0] - worth[1]))
