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
is divided by was multiplied in, and no node is ½ exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.size.curves import Curve, finite_curve

MOST_ROWS = 2**23
"""Longest lattice of pooled sizes."""
MOST_WORK = 4 * 10**9
"""Most (frequency, owner, node) triples in the middle: about a minute."""
MOST_OWNERS = 20_000
"""Beyond, finding the nodes takes longer than the values."""
TINY = 1e-18
"""Probability, and relative weight of a series' rest, that is left out."""
NEGLIGIBLE = 1e-17
"""Part of the largest utility that all frequencies left out may add up to."""
MIDDLE_BEGINS = 60.0
"""Expected number of owners present where the middle begins (at t = ¼ at the latest)."""
AT_ONCE = 2**18
"""Entries of a (frequencies, sizes) block, so that it stays in cache."""


@dataclass(frozen=True)
class Lattice:
    """Sizes as whole multiples of a unit; equal owners are one entry, empty ones none.

    Attributes
    ----------
    unit
        Rows of one step.
    steps, counts
        Distinct sizes in steps, and how many owners have each.
    member
        For every owner its entry in `steps`; −1 for owners without rows.
    """

    unit: float
    steps: IntArray
    counts: IntArray
    member: IntArray

    @property
    def total(self) -> int:
        """Steps of everybody together."""
        return int(self.steps @ self.counts)

    @property
    def n_players(self) -> int:
        """Owners who hold anything."""
        return int(self.counts.sum())


def lattice(sizes: FloatArray) -> Lattice | None:
    """Smallest lattice that holds all sizes exactly, or None where there is none short enough.

    Whole sizes are divided by their greatest common divisor; halves, quarters, ... down to 2^−10
    are exact in binary and scaled up first. Other fractions have no lattice.
    """
    unit = 1.0
    while (np.floor(sizes / unit) != sizes / unit).any():
        unit /= 2
        if unit < 2.0**-10:
            return None
    if sizes.sum() / unit > 2.0**52:
        return None
    whole = (sizes / unit).astype(np.int64)
    divisor = max(1, int(np.gcd.reduce(whole)))
    if whole.sum() // divisor > MOST_ROWS:
        return None
    steps, member, counts = np.unique(whole // divisor, return_inverse=True, return_counts=True)
    if steps[0] == 0:
        steps, counts, member = steps[1:], counts[1:], member - 1
    return Lattice(unit * divisor, steps, counts.astype(np.int64), member)


def reachable(grid: Lattice) -> IntArray:
    """Every pooled size that some coalition has, in steps: a bit set shifted by each owner."""
    sizes = 1
    for step, count in zip(grid.steps.tolist(), grid.counts.tolist(), strict=True):
        part = 1
        while count > 0:  # 1, 2, 4, ... equal owners at a time reach all their numbers
            part = min(part, count)
            sizes |= sizes << (step * part)
            count -= part
            part *= 2
    raw = np.frombuffer(sizes.to_bytes(grid.total // 8 + 1, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))


def utilities(grid: Lattice, w: Curve) -> FloatArray:
    """Utility of 0, 1, ..., all steps; asked only where a coalition can be, filled in between.

    What is filled in has probability zero; a smooth filling keeps rounding errors small.
    """
    asked = reachable(grid)
    known = finite_curve(w, asked.astype(np.float64) * grid.unit)
    return np.interp(np.arange(grid.total + 1), asked, known)


@dataclass(frozen=True)
class Spectrum:
    """Transform of a curve at the frequencies that count.

    Attributes
    ----------
    level
        The transform there, weighted so that a sum over it is a sum over all frequencies.
    frequency, length
        Which frequencies, out of how many.
    left_out
        What all other frequencies together could add to a value, at most.
    """

    level: np.ndarray
    frequency: IntArray
    length: int
    left_out: float


def exact_values(grid: Lattice, level: FloatArray) -> tuple[FloatArray, float] | None:
    r"""Shapley values of w(Σn), exact up to rounding; None where the work would not end.

    With the values comes a bound on what was left out, plus an estimate of rounding.

    Parameters
    ----------
    grid
        Sizes on a lattice.
    level
        Utilities of 0..N steps, from `utilities`.

    Notes
    -----
    Cost: no coalition is asked; O(I) transforms of length up to N, N the total number of steps.
    Error: all that is left out (frequencies, tails) is bounded by 1e-16 of the range of w;
    rounding is of the order of 1e-15 of it, and of that of the utilities themselves.
    """
    if grid.n_players == 0:
        return np.zeros(len(grid.member)), 0.0
    if grid.n_players > MOST_OWNERS:
        return None
    t, weight = half_nodes(grid.n_players)
    begins = min(0.25, MIDDLE_BEGINS / grid.n_players)
    folded = level - level[::-1]  # nodes t and 1−t together
    scale = float(np.abs(folded).max())
    middle = t > begins
    values = np.zeros(len(grid.steps))
    left_out = NEGLIGIBLE * scale
    if middle.any():
        spectrum = significant(grid, folded, begins)
        frequencies = len(spectrum.frequency)
        if frequencies * len(grid.steps) * int(middle.sum()) > MOST_WORK:
            return None
        left_out += spectrum.left_out
        floor = NEGLIGIBLE * scale / max(1, frequencies)
        values += from_frequencies(grid, spectrum, t[middle], weight[middle], floor)
    values += from_few(grid, folded, t[~middle], weight[~middle])
    eps = float(np.finfo(float).eps)
    # a difference of utilities is as exact as the utilities are, however near they lie
    error = left_out + (4 * TINY + 8 * eps) * scale + 2 * eps * float(np.abs(level).max())
    # from distinct sizes back to owners; whoever brings nothing is worth nothing
    return np.append(values, 0.0)[grid.member], error


def half_nodes(n_players: int) -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre nodes below ½ and weights on (0, 1), exact for polynomials of degree I−1."""
    from scipy.special import roots_legendre

    number = 2 * ((n_players + 3) // 4)  # even, so that ½ is not a node
    x, weight = roots_legendre(number)
    lower = slice(0, number // 2)
    return (1 + x[lower]) / 2, weight[lower] / 2


def from_few(grid: Lattice, folded: FloatArray, t: FloatArray, weight: FloatArray) -> FloatArray:
    """Nodes at which few owners are present: series in ρ = t/(1−t), on a short lattice."""
    values = np.zeros(len(grid.steps))
    lengths = np.array([transform_length(grid, node) for node in t], dtype=np.int64)
    for length in np.unique(lengths):
        rows = np.minimum(np.arange(length), grid.total)
        curve = np.fft.rfft(folded[rows])
        sums = size_transform(grid, int(length))
        for node, part in zip(t[lengths == length], weight[lengths == length], strict=True):
            law = np.exp(log_transform(sums, grid.n_players, node, int(length)))
            shifted = np.fft.irfft(curve * np.conj(law), int(length))  # E[w(Y + y)], all y at once
            values += part * take_out(grid, shifted, node)
    return values


def take_out(grid: Lattice, shifted: FloatArray, t: float) -> FloatArray:
    """E[w(Y_{-s} + s) − w(Y_{-s})] for every distinct size s, from E[w(Y + y)]."""
    rho = t / (1 - t)
    gain = np.zeros(len(grid.steps))
    here = shifted[0]
    for r in range(series_length(rho)):
        there = shifted[np.minimum((r + 1) * grid.steps, grid.total)]
        gain += (-rho) ** r * (there - here)
        here = there
    return gain / (1 - t)


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


def size_transform(grid: Lattice, length: int) -> np.ndarray:
    """S(z) = Σ_j z^{n_j} at all `length` roots of unity."""
    return np.fft.fft(np.bincount(grid.steps % length, grid.counts, minlength=length))


def log_transform(sums: np.ndarray, n_players: int, t: float, length: int) -> np.ndarray:
    """Logarithm of E z^Y at the frequencies of `rfft`, from S at all powers of z."""
    frequency = np.arange(length // 2 + 1)
    rho = t / (1 - t)
    total = np.full(len(frequency), n_players * np.log1p(-t), dtype=sums.dtype)
    for r in range(1, series_length(rho) + 1):
        total -= (-rho) ** r / r * sums[(r * frequency) % length]
    return total


def significant(grid: Lattice, folded: FloatArray, begins: float) -> Spectrum:
    """Transform of w at the frequencies that count in the middle.

    |E z^Y| falls with t for every z, so its value where the middle begins bounds all of it; with
    one owner taken out it is larger by 1/(1−2t) at most.
    """
    length = fast_length(grid.total + 1)
    spectrum = np.fft.rfft(folded, length)
    sums = size_transform(grid, length).real
    size = np.exp(log_transform(sums, grid.n_players, begins, length))
    could_add = 4 * np.abs(spectrum) * size / (length * (1 - 2 * begins))
    could_add[0] = 0.0  # w(Y + s) − w(Y) has no constant part
    order = np.argsort(could_add, kind="stable")
    rest = np.cumsum(could_add[order])
    dropped = int(np.searchsorted(rest, NEGLIGIBLE * np.abs(folded).max(), side="right"))
    left_out = float(rest[dropped - 1]) if dropped else 0.0
    chosen = np.sort(order[dropped:])
    weight = np.where(2 * chosen == length, 1.0, 2.0) / length  # ± frequencies together
    return Spectrum(spectrum[chosen] * weight, chosen, length, left_out)


def fast_length(least: int) -> int:
    from scipy.fft import next_fast_len

    return int(next_fast_len(least, real=True))


def from_frequencies(
    grid: Lattice, spectrum: Spectrum, t: FloatArray, weight: FloatArray, floor: float
) -> FloatArray:
    """Nodes of the middle: Σ_z ŵ(z) (z^s − 1) Π_j(1 − t + t z^{n_j}) / (1 − t + t z^s).

    On the way to t = ½ more frequencies fade; those that can add less than `floor` are let go.
    """
    values = np.zeros(len(grid.steps))
    at_once = max(1, AT_ONCE // len(grid.steps))
    for start in range(0, len(spectrum.frequency), at_once):
        some = slice(start, start + at_once)
        turns = spectrum.frequency[some, None] * grid.steps % spectrum.length / spectrum.length
        z, w = np.exp(2j * np.pi * turns), spectrum.level[some]
        for node, part in zip(t, weight, strict=True):
            factor = (1 - node) + node * z
            law = w * product(factor, grid.counts)
            values += part * (law @ ((z - 1) / factor)).real
            keep = 2 * np.abs(law) > floor * (1 - 2 * node)
            if np.count_nonzero(keep) < 0.8 * len(keep):
                z, w = z[keep], w[keep]
    return values


def product(factor: np.ndarray, counts: IntArray) -> np.ndarray:
    """Product over the columns, each to the power of its count, by repeated squaring."""
    result = np.ones(len(factor), dtype=factor.dtype)
    power, remaining = factor, counts
    while True:
        odd = remaining % 2 == 1
        result = result * np.multiply.reduce(power[:, odd], axis=1)
        remaining = remaining // 2
        if not remaining.any():
            return result
        keep = remaining > 0
        power, remaining = power[:, keep] ** 2, remaining[keep]
