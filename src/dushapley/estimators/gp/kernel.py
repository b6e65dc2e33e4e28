r"""How alike are two pools of data? The covariance of utilities under the Gaussian process.

Utilities of trained models are smooth in two things: how much data a pool holds, and whose. Both
are read off a pool's shares z (0 or 1 per owner, or the part of its rows) once every owner j has a
weight :math:`w_j`, the rows it is effectively worth:

.. math:: \log w_j = \gamma \log(n_j/\bar n) + \eta_j, \qquad
          \ell = \log\frac{\sum_j w_j z_j}{\sum_j w_j}, \qquad
          p_j = \frac{w_j z_j}{\sum_k w_k z_k}

with sizes :math:`n_j`, `log_size` ℓ ≤ 0 (zero for the grand coalition) and `mix` p, the
composition. Every owner has a strength :math:`a_j` of its own, so that one owner may spoil what all
others share. Two pools differ by
:math:`H = \tfrac12 \sum_j a_j (\sqrt{p_j} - \sqrt{p'_j})^2`, zero for equal mixtures, one for
disjoint pools of owners of strength one; :math:`m = \ell + \log I` counts data in average owners.
The covariance is a sum of terms, each one thing a utility can do:

=========  ==========================================  =========================================
constant   1                                           a level
curve      s·R, R = exp(−(ℓ−ℓ')²/2λ²)                  a learning curve
trend      s·ℓℓ'                                       a straight line in log size
owners     s·exp(−e(m+m'))·Σ a_j z_j z'_j              an effect of each owner, less in big pools
mix        s·exp(−e(m+m'))·exp(−H/λ)                   what the mixture does, less in big pools
shift      s·R·exp(−H/λ)                               a learning curve of each mixture
blend      s·exp(−e(m+m'))·Σ a_j p_j p'_j              the average quality of the rows
step       s·[|S| = |S'|]                              a level of its own for each number of owners
=========  ==========================================  =========================================

plus a nugget :math:`\nu(S) = c\,|S|^{-d}\,e^{\delta(|S|)} + 10^{-8}` on the diagonal: what no
smooth function explains. δ is piecewise linear in the logarithm of the number of owners, with a
knot at each power of two: scores of tiny pools can be wild where those of larger ones are not.
The nugget belongs to the game, so an observed pool is worth exactly what was observed. Steps
are the same for all pools of a size, so they move no value; they keep jumps of the curve out of
everything else. The empty pool has no size and no mixture; it is never part of the process.

All of s, e, λ, c are positive and live as logarithms in one vector `theta`, with normal priors
and bounds (`PRIORS`); γ and d are plain; after them come δ at the knots, η, and log a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from os import cpu_count
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dushapley.arrays import FloatArray, Queries, slices

JITTER = 1e-8
"""Variance that every pool has of its own, for the sake of arithmetic."""
BLOCK = 2**17
"""Entries of a covariance matrix that are made at a time: few enough to stay in cache, and enough
for threads not to wait for each other."""
MANY_ENTRIES = 2**22
"""Entries of a covariance matrix from which on threads share its rows."""
MOST_TOLD_APART = 64
"""Owners up to which H knows their strengths; of more, all have strength one there, so that a pool
is no more than what its weights add up to (`crowd`)."""
LONG = 512
"""Rows of a covariance matrix from which on it is made below the diagonal only."""


class Hyper(NamedTuple):
    """Hyper-parameters in their natural units; the docstring of the module has the formulas."""

    curve_length: float
    curve: float
    trend: float
    owners: float
    owners_decay: float
    mix: float
    mix_decay: float
    mix_length: float
    shift: float
    shift_length: float
    blend: float
    blend_decay: float
    size_power: float
    noise: float
    noise_decay: float
    step: float
    knots: Sequence[float] = ()


PRIORS = {
    "curve_length": (0.5, 0.6, -4.0, 6.0),
    "curve": (-1.6, 1.2, -9.0, 6.0),
    "trend": (-2.4, 1.0, -9.0, 6.0),
    "owners": (-2.7, 1.5, -9.0, 6.0),
    "owners_decay": (0.0, 0.5, -9.0, 2.0),
    "mix": (-0.5, 1.5, -9.0, 6.0),
    "mix_decay": (-0.2, 0.7, -9.0, 2.0),
    "mix_length": (-0.9, 1.0, -4.0, 6.0),
    "shift": (-4.3, 1.5, -9.0, 6.0),
    "shift_length": (-0.2, 0.7, -4.0, 6.0),
    "blend": (-1.8, 1.8, -9.0, 6.0),
    "blend_decay": (-0.7, 0.6, -9.0, 2.0),
    "size_power": (0.95, 0.2, -0.3, 1.7),
    "noise": (-7.5, 2.5, -16.0, 1.0),
    "noise_decay": (0.5, 0.5, -1.0, 4.0),
    "step": (-11.0, 2.5, -16.0, 2.0),
}
"""Normal priors of single entries of `theta`: mean, standard deviation, and the box of the fit.

The boxes are wide: they only keep line searches from overflowing.
"""
OWNER = (0.0, 0.15, -4.0, 4.0)
"""Prior of every η: how much the rows of one owner differ in worth from another's."""
STRENGTH = (0.0, 0.85, -6.0, 6.0)
"""Prior of every log a: how much more one owner changes than another."""
KNOT = (0.0, 1.5, -8.0, 12.0)
"""Prior of δ at every knot: how far the nugget of a size may be from a power law."""
COUNT = len(PRIORS)
SIZE_POWER = Hyper._fields.index("size_power")
NOISE_DECAY = Hyper._fields.index("noise_decay")
"""Where the two that are not logarithms lie in `theta`."""


def n_knots(n_players: int) -> int:
    """Knots of δ: at 1, 2, 4, ... owners, the last one at or beyond all of them."""
    return (n_players - 1).bit_length() + 1


def prior(n_players: int) -> FloatArray:
    """Prior means, standard deviations, lower and upper bounds of `theta`, shape (4, entries)."""
    rows = [*PRIORS.values(), *[KNOT] * n_knots(n_players)]
    rows += [OWNER] * n_players
    rows += [STRENGTH] * n_players
    return np.array(rows, dtype=np.float64).T


def natural(theta: FloatArray, n_players: int) -> Hyper:
    """Hyper-parameters out of `theta`, those of single owners left out."""
    knots = theta[COUNT : COUNT + n_knots(n_players)].tolist()
    return Hyper(*np.exp(theta[:COUNT]).tolist())._replace(
        size_power=theta[SIZE_POWER], noise_decay=theta[NOISE_DECAY], knots=knots
    )


def log_relative_sizes(sizes: FloatArray) -> FloatArray:
    """log(n_j/mean n); owners without rows count as half a row."""
    filled = np.maximum(sizes, 0.5)
    return np.log(filled / filled.mean())


def owner_weights(theta: FloatArray, log_sizes: FloatArray) -> FloatArray:
    """What the rows of each owner are worth, w."""
    n = len(log_sizes)
    return np.exp(theta[SIZE_POWER] * log_sizes + theta[-2 * n : -n])


def strengths(theta: FloatArray, n_players: int) -> FloatArray:
    """Square roots of how strong the effect of each owner is, √a."""
    return np.exp(0.5 * theta[-n_players:])


@dataclass(frozen=True)
class View:
    """Non-empty pools as the kernel sees them under given owner weights."""

    z: FloatArray
    log_size: FloatArray
    mix: FloatArray
    root_mix: FloatArray
    strength: FloatArray

    @cached_property
    def half(self) -> FloatArray:
        """What a pool adds to the difference H from another of other owners."""
        return 0.5 * np.einsum("ij,ij->i", self.root_mix, self.root_mix)

    @property
    def owners(self) -> FloatArray:
        """Number of owners in the pool."""
        return self.z.sum(axis=1)

    @property
    def log_count(self) -> FloatArray:
        """Data in the pool, counted in average owners, as a logarithm."""
        return self.log_size + np.log(self.z.shape[1])


def view(pools: Queries, weights: FloatArray, strength: FloatArray) -> View:
    """Sizes and mixtures of pools under what owners' rows are worth, and √a.

    `root_mix` are the features √(a p) of which H is half the squared distance.
    """
    z = pools.astype(np.float64, copy=False)
    weighted = z * weights
    total = weighted.sum(axis=1)
    mix = weighted / total[:, None]
    root = np.sqrt(mix)
    if len(weights) <= MOST_TOLD_APART:
        root *= strength
    return View(z, np.log(total / weights.sum()), mix, root, strength)


def curved_terms(
    h: Hyper,
    overlap: FloatArray,
    sizes: tuple[FloatArray, FloatArray],
    fades: tuple[FloatArray, FloatArray],
    room: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Fill `room` with R, shift/R and mix, the terms that no features make.

    Parameters
    ----------
    overlap
        −H of pools (rows) with others (columns); `room` may hold it, as the last.
    sizes, fades
        Of rows and of columns: ℓ; and log s − em of the mix, em'.
    """
    ride, shift, mix = room  # all in place, as this is where the time goes
    np.subtract(*sizes, out=ride)
    ride *= ride
    ride *= -0.5 / h.curve_length**2
    np.exp(ride, out=ride)
    np.multiply(overlap, 1 / h.shift_length, out=shift)
    np.exp(shift, out=shift)
    shift *= h.shift
    np.multiply(overlap, 1 / h.mix_length, out=mix)
    mix += fades[0]
    mix -= fades[1]
    np.exp(mix, out=mix)


def bent(h: Hyper, a: View, b: View, dtype: type[np.floating[Any]] = np.float64) -> FloatArray:
    """The terms that no features make, curve + mix + shift, shape (len(a), len(b))."""
    found = a.root_mix.astype(dtype, copy=False) @ b.root_mix.astype(dtype, copy=False).T
    half = a.half.astype(dtype)[:, None]
    other_half = b.half.astype(dtype)
    fade = (np.log(h.mix) - h.mix_decay * a.log_count).astype(dtype)[:, None]
    less = (h.mix_decay * b.log_count).astype(dtype)
    size = a.log_size.astype(dtype)[:, None]
    other = b.log_size.astype(dtype)
    blocks = _blocks(found)
    room = np.empty((2, blocks[0].stop if blocks else 0, found.shape[1]), dtype)
    for rows in blocks:
        mix = found[rows]
        mix -= half[rows]
        mix -= other_half
        ride, shift = room[:, : len(mix)]
        curved_terms(h, mix, (size[rows], other), (fade[rows], less), (ride, shift, mix))
        shift += h.curve
        ride *= shift
        mix += ride
    return found


def _blocks(matrix: FloatArray) -> list[slice]:
    """Rows that are few enough for their entries to stay in cache."""
    rows, columns = matrix.shape
    return list(slices(rows, BLOCK // max(columns, 1)))


def features(h: Hyper, pools: View) -> FloatArray:
    """Features of the terms that are products of them: constant, trend, owners and blend."""
    constant = np.ones((len(pools.z), 1))
    trend = np.sqrt(h.trend) * pools.log_size[:, None]
    owners = _faded(pools.z, h.owners, h.owners_decay, pools)
    blend = _faded(pools.mix, h.blend, h.blend_decay, pools)
    return np.concatenate([constant, trend, owners, blend], axis=1)


def covariance(h: Hyper, a: View, b: View) -> FloatArray:
    """Covariance of the smooth part of the utilities of two lists of pools."""
    if len(a.z) * len(b.z) < MANY_ENTRIES:
        return _covariance(h, a, b)
    return _by_rows(lambda rows: _covariance(h, some(a, rows), b), len(a.z), len(b.z))


def _by_rows(rows_of: Callable[[slice], FloatArray], count: int, width: int) -> FloatArray:
    """A matrix by stretches of `LONG` rows, each up to its last entry that is wanted."""
    found = np.zeros((count, width))
    parts = list(slices(count, LONG))
    for part, rows in zip(parts, in_order(rows_of, parts, LONG * width), strict=True):
        found[part, : rows.shape[1]] = rows
    return found


def _covariance(h: Hyper, a: View, b: View) -> FloatArray:
    found = features(h, a) @ features(h, b).T
    found += bent(h, a, b)
    for rows in _blocks(found):
        found[rows] += h.step * (a.owners[rows, None] == b.owners)
    return found


def lower_covariance(h: Hyper, a: View, white: FloatArray | None = None) -> FloatArray:
    """Covariance of a list of pools among themselves; of long lists only below the diagonal.

    After answers, where the covariances with them are given, whitened, shape (answers, pools).
    """
    count = len(a.z)

    def rows_of(rows: slice) -> FloatArray:
        columns = slice(rows.stop)
        found = _covariance(h, some(a, rows), some(a, columns))
        if white is not None:
            found -= white[:, rows].T @ white[:, columns]
        return found

    return _by_rows(rows_of, count, count)


def covariance_after(h: Hyper, a: View, white: FloatArray) -> FloatArray:
    """The same after answers, whole."""
    if len(a.z) ** 2 < MANY_ENTRIES:
        return _covariance(h, a, a) - white.T @ white
    found = lower_covariance(h, a, white)
    for rows in slices(len(found), LONG):
        found[rows, rows.start :] = found[rows.start :, rows].T
    return found


def some(pools: View, rows: slice) -> View:
    """A stretch of a list of pools."""
    return View(
        pools.z[rows], pools.log_size[rows], pools.mix[rows], pools.root_mix[rows], pools.strength
    )


def nugget(h: Hyper, size: FloatArray) -> FloatArray:
    """Variance of what no smooth function explains, by number of owners in the pool."""
    bump = knot_shares(size, len(h.knots)) @ np.array(h.knots)
    return h.noise * size**-h.noise_decay * np.exp(bump) + JITTER


def knot_shares(size: FloatArray, knots: int) -> FloatArray:
    """How much of each knot of δ a pool of so many owners has, shape (pools, knots)."""
    place = np.log2(np.maximum(size, 1.0))
    away = np.abs(place[:, None] - np.arange(knots))
    return np.maximum(1 - away, 0.0)


def _faded(features: FloatArray, scale: float, decay: float, pools: View) -> FloatArray:
    fade = np.sqrt(scale) * np.exp(-decay * pools.log_count)
    return features * pools.strength * fade[:, None]


def terms_diagonal(h: Hyper, pools: View) -> FloatArray:
    """Covariance of each pool with itself, nugget not included."""
    count = pools.log_count
    a = pools.strength**2
    diagonal = 1.0 + h.curve + h.shift + h.step + h.trend * pools.log_size**2
    diagonal += h.owners * np.exp(-2 * h.owners_decay * count) * (pools.z**2 @ a)
    diagonal += h.mix * np.exp(-2 * h.mix_decay * count)
    diagonal += h.blend * np.exp(-2 * h.blend_decay * count) * (pools.mix**2 @ a)
    return diagonal


LEAST_PARTS, MOST_THREADS, MOST_WAITING = 4, 8, 2**25
"""Parts from which on threads share them, how many do, and numbers that wait to be added."""

Part = TypeVar("Part")


def in_order(made: Callable[[slice], Part], parts: list[slice], size: int) -> Iterator[Part]:
    """Parts of `size` numbers in their order: sums have the same bits on any number of cores."""
    at_once = min(cpu_count() or 1, MOST_THREADS, MOST_WAITING // size)
    if len(parts) < LEAST_PARTS or at_once < 2:
        yield from map(made, parts)
        return
    with ThreadPoolExecutor(at_once) as threads:
        for some in slices(len(parts), at_once):
            yield from threads.map(made, parts[some])
