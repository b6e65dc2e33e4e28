r"""Exact Shapley values of size games at scale: no coalition is ever listed.

With :math:`Y_{-i}(t) = \sum_{j \ne i} n_j\,\mathrm{Bernoulli}(t)`, everybody else joining with
probability t,

.. math:: \varphi_i = \int_0^1 E[w(n_i + Y_{-i}(t)) - w(Y_{-i}(t))]\,dt.

The integrand is a polynomial of degree I−1 in t, so Gauss–Legendre with at least I/2 nodes is
exact. The nodes t and 1−t are taken together, by replacing w(y) with w(y) − w(N−y). What remains is
the law of Y at each node, and to take one owner out of it, for all owners at once:

*Small t* (few owners join, so Y is short). With ρ = t/(1−t) and :math:`S(z) = \sum_j z^{n_j}`, the
discrete Fourier transform of the sizes, :math:`\ln E z^Y = I\ln(1-t) + \sum_r (-1)^{r+1}
\frac{\rho^r}{r} S(z^r)`, and z^r is again a point of the same grid. Owner s leaves by the series
:math:`E[h(Y_{-s})] = \frac1{1-t}\sum_r (-\rho)^r E[h(Y + rs)]`.

*Middle t* (Y is wide, so its transform is narrow). Every factor of :math:`|E z^Y|` falls as t
rises to ½; so frequencies that are negligible where the middle begins stay negligible, and the few
others are summed directly. Owner s leaves by division, which is safe because the very factor that
is divided by was multiplied in.

Other semivalues average over t with other weights: t is beta distributed for Beta values, ½ for
Banzhaf's. The same nodes and laws serve them.

**Rows of different precision.** Where owners are of few kinds, equal in rows and precision, the
numbers present of each kind are independent binomials at every node. *Few present*: utilities of
all small pools are one table, and a mean is a product of this table with the binomials. *Many
present*: each binomial is replaced by its own Gauss rule (Krawtchouk polynomials): a utility that
is smooth in the numbers present, as it is once they are many, has the same mean under it. What that
leaves is measured by a second, coarser rule, and the route is refused where it is not small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dushapley.arrays import EPSILON, ComplexArray, FloatArray, IntArray, slices
from dushapley.games.size.curves import Curve, finite_curve
from dushapley.protocol import Estimate

FINEST = 2.0**-10
"""Part of a row that a size may be a multiple of."""
TINY = 1e-18
"""Probability, and relative weight of a series' rest, that is left out."""
NEGLIGIBLE = 1e-17
"""Part of the largest utility that all frequencies left out may add up to."""
MIDDLE_BEGINS = 60.0
"""Expected number of owners present where the middle begins (at t = ¼ at the latest)."""
Rule = tuple[FloatArray, FloatArray]
"""Points and weights of a mean, or of a sum."""
Law = tuple[float, float] | None
"""Parameters of a beta law, or None for a law that is all at ½."""
SHAPLEY = (1.0, 1.0)

RARE = 1e-17
"""Probability of numbers beyond the table that are left out."""
RULES = {0.0: (14, 11), 50.0: (8, 6), 200.0: (6, 5)}
"""Points of Gauss's rule for a binomial, and of the one that checks it, by how many are expected
to be present: the more there are, the less a utility bends over their spread."""
Utility = Callable[[FloatArray, FloatArray], FloatArray]
"""Utilities of m pools from their rows, shape (m, G), of each precision, shape (G,)."""


@dataclass(frozen=True)
class Lattice:
    """Sizes as whole multiples of a unit; equal owners are one entry.

    Attributes
    ----------
    unit
        Rows of one step.
    steps, counts
        Distinct sizes in steps, and how many owners have each.
    member
        For every owner its entry in `steps`.
    """

    unit: float
    steps: IntArray
    counts: IntArray
    member: IntArray

    @property
    def total(self) -> int:
        """Steps of everybody together."""
        return int(self.steps @ self.counts)


def lattice(sizes: FloatArray) -> Lattice | None:
    """Smallest lattice that holds all sizes exactly, or None where there is none short enough.

    Whole sizes are divided by their greatest common divisor; halves, quarters, ... down to 2^−10
    are exact in binary and scaled up first. Other fractions have no lattice.
    """
    if sizes.sum() > 2.0**52 or (sizes / FINEST % 1).any():
        return None
    whole = (sizes / FINEST).astype(np.int64)
    divisor = max(1, int(np.gcd.reduce(whole)))
    if whole.sum() // divisor > 2**23:
        return None
    steps, member, counts = np.unique(whole // divisor, return_inverse=True, return_counts=True)
    return Lattice(FINEST * divisor, steps, counts.astype(np.int64), member)


def utilities(grid: Lattice, w: Curve) -> FloatArray:
    """Utility of 0, 1, ..., all steps; asked only where a coalition can be, filled in between.

    Which these are tells a bit set that is shifted by each owner. What is filled in has probability
    zero; a smooth filling keeps rounding errors small.
    """
    sizes = 1
    for step, count in zip(grid.steps.tolist(), grid.counts.tolist(), strict=True):
        doublings = count.bit_length() - 1  # 1, 2, 4, ... equal owners at a time, and the rest
        for together in (*(2**j for j in range(doublings)), count + 1 - 2**doublings):
            sizes |= sizes << (step * together)
    raw = np.frombuffer(sizes.to_bytes(grid.total // 8 + 1, "little"), dtype=np.uint8)
    asked = np.flatnonzero(np.unpackbits(raw, bitorder="little"))
    known = finite_curve(w, asked.astype(np.float64) * grid.unit)
    return np.interp(np.arange(grid.total + 1), asked, known)


def exact_values(
    sizes: FloatArray, w: Curve, law: Law = SHAPLEY
) -> tuple[FloatArray, float] | None:
    r"""Values of w(Σn) under a law of t, exact up to rounding.

    With the values comes a bound on what was left out, plus an estimate of rounding. None where
    sizes have no lattice, or the work would not end.

    Parameters
    ----------
    sizes, w
        Rows of every owner, and the curve of their sum.
    law
        How t is distributed: uniform for Shapley values.

    Notes
    -----
    Cost: no coalition is asked; O(I) transforms of length up to N, N the total number of steps.
    Error: all that is left out (frequencies, tails) is bounded by 1e-16 of the range of w;
    rounding is of the order of 1e-15 of it, and of that of the utilities themselves.

    Examples
    --------
    >>> values, error = exact_values(np.array([1.0, 2.0]), np.square)
    >>> values.round(12).tolist(), error < 1e-12
    ([3.0, 6.0], True)
    """
    grid = lattice(sizes)
    if grid is None or len(sizes) > 20_000:  # finding the nodes takes longer than the values
        return None
    if grid.total == 0:
        return np.zeros(len(sizes)), 0.0
    level = utilities(grid, w)
    # a difference of utilities is as exact as the utilities are, however near they lie
    values, error = np.zeros(len(grid.steps)), 2 * EPSILON * float(np.abs(level).max())
    begins = min(0.25, MIDDLE_BEGINS / len(sizes))
    for curve, t, weight in halves(len(sizes), level, law):
        middle, scale = t > begins, float(np.abs(curve).max())
        if middle.any():
            many = from_frequencies(grid, curve, begins, t[middle], weight[middle])
        else:
            many = np.zeros(len(grid.steps))
        if many is None:
            return None
        values += many + from_few(grid, curve, t[~middle], weight[~middle])
        error += (2 * NEGLIGIBLE + 4 * TINY + 8 * EPSILON) * scale
    return values[grid.member], error


def halves(
    n_players: int, level: FloatArray, law: Law
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Pair curves with their nodes up to ½, in rising order, and weights.

    Above ½ the owners who are absent are counted instead: w(y) becomes −w(N−y). Where the law is
    symmetric, the nodes t and 1−t are taken together.
    """
    if law is None:
        return [(level, np.array([0.5]), np.ones(1))]
    t, weight = nodes(2 * ((n_players + 3) // 4), law)  # an even number, so that ½ is none of them
    low = t < 0.5
    if law[0] == law[1]:
        return [(level - level[::-1], t[low], weight[low])]
    above = (-level[::-1], (1 - t[~low])[::-1], weight[~low][::-1])
    return [(level, t[low], weight[low]), above]


def nodes(number: int, law: tuple[float, float]) -> Rule:
    """Compute points and weights of Gauss–Jacobi on (0, 1), exact up to degree 2·number − 1."""
    from scipy.special import roots_jacobi

    x, weight = roots_jacobi(number, law[1] - 1, law[0] - 1)
    return (1 + x) / 2, weight / weight.sum()


def from_few(grid: Lattice, curve: FloatArray, t: FloatArray, weight: FloatArray) -> FloatArray:
    """Nodes at which few owners are present: series in ρ = t/(1−t), on a short lattice."""
    values = np.zeros(len(grid.steps))
    lengths = np.array([transform_length(grid, node) for node in t], dtype=np.int64)
    for length in np.unique(lengths).tolist():
        level = np.fft.rfft(curve[np.minimum(np.arange(length), grid.total)])
        sums, some = size_transform(grid, length), lengths == length
        for node, part in zip(t[some], weight[some], strict=True):
            law = np.exp(log_transform(sums, len(grid.member), node))
            shifted = np.fft.irfft(level * np.conj(law), length)  # E[w(Y + y)], all y at once
            rho = node / (1 - node)
            r = np.arange(series_length(rho) + 1)
            added = np.diff(shifted[np.minimum(r[:, None] * grid.steps, grid.total)], axis=0)
            values += part * ((-rho) ** r[:-1] @ added / (1 - node))
    return values


def series_length(rho: float) -> int:
    """Terms after which a geometric series in ρ is down to `TINY`."""
    return int(np.ceil(np.log(TINY) / np.log(rho))) + 1


def transform_length(grid: Lattice, t: float) -> int:
    """Power of two that holds Y (but for `TINY`, by Chernoff) plus the shifts of the series."""
    steps, largest = grid.steps.astype(np.float64), float(grid.steps[-1])
    tilt = np.geomspace(1e-3, 40, 60) / largest
    cumulant = np.log1p(t * np.expm1(tilt[:, None] * steps)) @ grid.counts
    reach = min(grid.total, float(((cumulant - np.log(TINY)) / tilt).min()))
    shifts = min(grid.total, (series_length(t / (1 - t)) + 1) * int(grid.steps[-1]))
    return int(2 ** np.ceil(np.log2(reach + shifts + 2)))


def size_transform(grid: Lattice, length: int) -> ComplexArray:
    """S(z) = Σ_j z^{n_j} at all `length` roots of unity."""
    return np.fft.fft(np.bincount(grid.steps % length, grid.counts, minlength=length))


def log_transform(sums: ComplexArray, n_players: int, t: float) -> ComplexArray:
    """Logarithm of E z^Y at the frequencies of `rfft`, from S at all powers of z."""
    frequency, rho = np.arange(len(sums) // 2 + 1), t / (1 - t)
    total = np.full(len(frequency), n_players * np.log1p(-t), dtype=sums.dtype)
    for r in range(1, series_length(rho) + 1):
        total -= (-rho) ** r / r * sums[(r * frequency) % len(sums)]
    return total


def fast_length(least: int) -> int:
    from scipy.fft import next_fast_len

    return int(next_fast_len(least, real=True))


def from_frequencies(
    grid: Lattice, curve: FloatArray, begins: float, t: FloatArray, weight: FloatArray
) -> FloatArray | None:
    """Nodes of the middle: Σ_z ŵ(z) (z^s − 1) Π_j(1 − t + t z^{n_j}) / (1 − t + t z^s).

    The sum is over the frequencies that count; what the others together could add to a value is
    `NEGLIGIBLE`. |E z^Y| falls with t for every z, so its value where the middle `begins` bounds
    all of it; with one owner taken out it is larger by 1/(1−2t) at most. On the way to t = ½ more
    frequencies fade; those that can add less than their share are let go. None: too much work.
    """
    length = fast_length(grid.total + 1)
    spectrum, sums = np.fft.rfft(curve, length), size_transform(grid, length)
    size = np.exp(log_transform(sums, len(grid.member), begins).real)
    could_add = 4 * np.abs(spectrum) * size / (length * (1 - 2 * begins))
    could_add[0] = 0.0  # w(Y + s) − w(Y) has no constant part
    order = np.argsort(could_add, kind="stable")
    room = NEGLIGIBLE * np.abs(curve).max()
    dropped = int(np.searchsorted(np.cumsum(could_add[order]), room, side="right"))
    chosen = np.sort(order[dropped:])
    if len(chosen) * len(grid.steps) * len(t) > 4 * 10**9:  # more than about a minute
        return None
    both = np.where(2 * chosen == length, 1.0, 2.0) / length  # ± frequencies together
    spectrum, values = spectrum[chosen] * both, np.zeros(len(grid.steps))
    at_once = max(1, 2**18 // len(grid.steps))  # a block of both stays in cache
    for some in slices(len(chosen), at_once):
        turns = chosen[some, None] * grid.steps % length / length
        z, w = np.exp(2j * np.pi * turns), spectrum[some]
        for node, part in zip(t, weight, strict=True):
            factor = (1 - node) + node * z
            faded = w * np.multiply.reduce(factor**grid.counts, axis=1)
            values += part * (faded @ ((z - 1) / factor)).real
            keep = 2 * np.abs(faded) * len(chosen) > room * (1 - 2 * node)
            if np.count_nonzero(keep) < 0.8 * len(keep):
                z, w = z[keep], w[keep]
    return values


def exact_by_kinds(
    sizes: FloatArray, gamma: FloatArray, utility: Utility, smooth: bool
) -> Estimate | None:
    """Shapley values of owners of few kinds; None where this route does not reach them.

    A utility that is not `smooth` in the rows is known where few are present only.
    """
    pairs = np.stack([sizes, gamma], axis=1)
    kinds, member, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    tables = (np.minimum(counts, longest) for longest in range(36, 7, -1))
    # largest number present of each kind in the table; None where there are too many kinds
    sides = next((sides for sides in tables if np.prod(sides + 1.0) <= 2**21), None)
    n = len(pairs)
    if n > 5_000 or sides is None or not (smooth or (sides == counts).all()):
        return None
    present = mesh([np.arange(side + 1.0) for side in sides])
    table = utility(present * kinds[:, 0], kinds[:, 1]).reshape(sides + 1)
    if not np.isfinite(table).all():
        return None
    found = np.zeros((len(counts), 2))
    for t, weight in zip(*nodes((n + 1) // 2, SHAPLEY), strict=True):
        for kind in range(len(counts)):
            found[kind] += weight * gains(utility, kinds, kind, table, counts, float(t))
    error, scale = float(np.abs(np.diff(found)).max()), float(np.abs(table).max())
    if error > 1e-9 * scale:  # the rules differ by too much
        return None
    details: dict[str, object] = {
        "route": "kinds of owners",
        "numerical_error": error + 1e-14 * scale,
        "error_checked_only": bool((sides < counts).any()),
    }
    return Estimate(found[member.ravel(), 0], details=details)


def gains(
    utility: Utility, kinds: FloatArray, kind: int, table: FloatArray, counts: IntArray, t: float
) -> FloatArray:
    """E[u(with one more of this kind) − u] when others join with probability t, by two rules."""
    from scipy.special import bdtrc
    from scipy.stats import binom

    others = counts - (np.arange(len(counts)) == kind)
    most = np.minimum(np.array(table.shape) - 1, others)
    if (bdtrc(most, others, t) < RARE).all():  # more than are in the table are never present
        mean = table
        for g in reversed(range(len(others))):  # last axis first, the kind's own by differences
            law = binom.pmf(np.arange(table.shape[g] - (g == kind)), others[g], t)
            mean = (np.diff(mean, axis=-1) if g == kind else mean) @ law
        return np.full(2, mean)
    rules = [points for least, points in RULES.items() if t * others.sum() >= least][-1]
    one, found = np.arange(len(kinds)) == kind, []
    for points in rules:  # the same mean over the product of the rules of all kinds
        laws = [binomial_rule(int(count), t, points) for count in others]
        present = mesh([points for points, _ in laws])
        weight = np.prod(mesh([part for _, part in laws]), axis=1)
        likely = weight > RARE * float(weight.max())
        pools = np.stack([present[likely] + one, present[likely]]) * kinds[:, 0]
        worth = utility(pools.reshape(-1, len(kinds)), kinds[:, 1]).reshape(2, -1)
        found.append(weight[likely] @ (worth[0] - worth[1]))
    return np.array(found)


def binomial_rule(count: int, t: float, points: int) -> Rule:
    """Gauss's rule of a binomial law, from the recurrence of Krawtchouk's polynomials."""
    k = np.arange(min(points, count + 1), dtype=np.float64)
    diagonal = t * (count - k) + (1 - t) * k
    x, weight = gauss(diagonal, np.sqrt(k[1:] * t * (1 - t) * (count + 1 - k[1:])))
    return np.maximum(x, 0.0), weight


def gauss(diagonal: FloatArray, beside: FloatArray) -> Rule:
    """Points and weights of Gauss's rule from the recurrence of a law's polynomials.

    They are the eigenvalues and first components of the tridiagonal matrix it forms.
    """
    from scipy.linalg import eigh_tridiagonal

    x, vectors = eigh_tridiagonal(diagonal, beside)
    return np.asarray(x), vectors[0] ** 2


def mesh(axes: Sequence[FloatArray]) -> FloatArray:
    """All combinations, one a row, the last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
