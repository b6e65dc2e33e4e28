r"""Exact Banzhaf and Beta values of size games at scale: no coalition is ever listed.

A semivalue is an average over the chance t with which every other owner is there,

.. math:: \int E[w(n_i + Y_{-i}(t)) - w(Y_{-i}(t))]\,d\beta(t), \qquad
          Y_{-i}(t) = \sum_{j \ne i} n_j\,\mathrm{Bernoulli}(t),

t being beta distributed for Beta values (uniform for Shapley's) and ½ for Banzhaf's. The integrand
is a polynomial of degree I−1, so Gauss–Jacobi with I/2 nodes is exact. Above ½ the owners who are
absent are counted instead: w(y) becomes −w(N−y). The rest is as in `exact`, but that an owner is
left out of the product of transforms by multiplying all others, which holds at ½ as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.games.size.closed_forms import Part
from dushapley.games.size.exact import (
    AT_ONCE,
    MIDDLE_BEGINS,
    MOST_OWNERS,
    MOST_WORK,
    Lattice,
    Spectrum,
    from_few,
    lattice,
    significant,
    utilities,
)
from dushapley.protocol import Estimate

Chance = tuple[float, float] | None


def solve_semivalue(chance: Chance, sizes: FloatArray, parts: Sequence[Part]) -> Estimate | None:
    """Semivalues part by part; None where some part has no lattice or too much work."""
    values = np.zeros(len(sizes))
    for part in parts:
        grid = lattice(part.sizes)
        found = None if grid is None else semivalues(grid, utilities(grid, part.curve), chance)
        if found is None:
            return None
        values += part.weight * found
    return Estimate(values, details={"route": "law of the pooled size"})


def semivalues(grid: Lattice, level: FloatArray, chance: Chance) -> FloatArray | None:
    """One value per owner; whoever brings nothing is worth nothing.

    Examples
    --------
    >>> grid = lattice(np.array([1.0, 2.0]))
    >>> semivalues(grid, np.array([0.0, 1.0, 1.0, 4.0]), None).round(12).tolist()  # Banzhaf
    [2.0, 2.0]
    """
    if grid.n_players == 0:
        return np.zeros(len(grid.member))
    if grid.n_players > MOST_OWNERS:
        return None
    t, weight = nodes(grid.n_players, chance)
    low = t <= 0.5
    below = _half(grid, level, t[low], weight[low])
    above = _half(grid, -level[::-1], 1 - t[~low], weight[~low])
    if below is None or above is None:
        return None
    return np.append(below + above, 0.0)[grid.member]


def nodes(n_players: int, chance: Chance) -> tuple[FloatArray, FloatArray]:
    """Chances t and their weights, exact for polynomials of degree I−1."""
    if chance is None:
        return np.array([0.5]), np.ones(1)
    from scipy.special import roots_jacobi

    x, weight = roots_jacobi((n_players + 1) // 2, chance[1] - 1, chance[0] - 1)
    return (1 + x) / 2, weight / weight.sum()


def _half(grid: Lattice, curve: FloatArray, t: FloatArray, weight: FloatArray) -> FloatArray | None:
    """Nodes up to ½: few owners there by series, the middle by frequencies."""
    begins = min(0.25, MIDDLE_BEGINS / grid.n_players)
    middle = t > begins
    values = from_few(grid, curve, t[~middle], weight[~middle])
    if middle.any():
        spectrum = significant(grid, curve, begins)
        if len(spectrum.frequency) * len(grid.steps) * int(middle.sum()) > MOST_WORK:
            return None
        values += _middle(grid, spectrum, t[middle], weight[middle])
    return values


def _middle(grid: Lattice, spectrum: Spectrum, t: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ_z ŵ(z) (z^s − 1) Π_{j ≠ s}(1 − t + t z^{n_j}) for every distinct size s."""
    values = np.zeros(len(grid.steps))
    at_once = max(1, AT_ONCE // len(grid.steps))
    for start in range(0, len(spectrum.frequency), at_once):
        some = slice(start, start + at_once)
        turns = spectrum.frequency[some, None] * grid.steps % spectrum.length / spectrum.length
        z, w = np.exp(2j * np.pi * turns), spectrum.level[some]
        for node, part in zip(t, weight, strict=True):
            others = all_but_one((1 - node) + node * z, grid)
            values += part * (w @ ((z - 1) * others)).real
    return values


def all_but_one(factor: np.ndarray, grid: Lattice) -> np.ndarray:
    """Products over all owners but one of each size, column by column."""
    powers = factor**grid.counts
    before, after = np.ones_like(powers), np.ones_like(powers)
    before[:, 1:] = np.cumprod(powers[:, :-1], axis=1)
    after[:, :-1] = np.cumprod(powers[:, :0:-1], axis=1)[:, ::-1]
    return np.asarray(before * after * factor ** (grid.counts - 1))
