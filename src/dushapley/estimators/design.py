"""Designs for regressions: which coalitions are asked, in which strata, with what weight.

Units (a coalition, or a coalition and its complement) belong to strata. A stratum has a mass, the
weight of all its coalitions together, and holds so many units in all; some are drawn. The weight
of a coalition is its stratum's mass over the number seen of it, so any part of a design is again
a design.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.estimators.subsets import distinct_subsets, random_subsets, spread_sizes
from dushapley.protocol import Problem

AT_ONCE = 2**22
"""Memberships that are computed with at a time."""


@dataclass(frozen=True)
class Design:
    """Coalitions to ask, in order.

    Attributes
    ----------
    masks
        Shape (units, width, I); width 2 pairs a coalition with its complement.
    stratum
        Shape (units,).
    mass, room
        Shape (strata,): weight of a stratum as a whole, and how many units it has in all (infinite
        where units are drawn with replacement).
    """

    masks: BoolArray
    stratum: IntArray
    mass: FloatArray
    room: FloatArray

    def first(self, units: int) -> Design:
        """The design of the first units."""
        return Design(self.masks[:units], self.stratum[:units], self.mass, self.room)

    def parts(self) -> Iterator[slice]:
        """Units in parts that are small enough to be computed with."""
        step = max(1, AT_ONCE // self.masks[0].size) if len(self.masks) else 1
        return (slice(start, start + step) for start in range(0, len(self.masks), step))

    @property
    def seen(self) -> IntArray:
        """Units of each stratum."""
        return np.bincount(self.stratum, minlength=len(self.mass))

    @cached_property
    def weights(self) -> FloatArray:
        """Weight of each unit's coalitions."""
        return (self.mass / np.maximum(self.seen * self.masks.shape[1], 1))[self.stratum]


def levels(n_players: int) -> IntArray:
    """Sizes 1..⌊I/2⌋; each stands for itself and its complement's size."""
    return np.arange(1, n_players // 2 + 1)


def kernel_mass(n_players: int) -> FloatArray:
    """Shapley kernel 1/(s(I−s)) of each level, both sizes together, adding up to 1."""
    sizes = levels(n_players)
    mass = np.where(2 * sizes == n_players, 1.0, 2.0) / (sizes * (n_players - sizes))
    return np.asarray(mass / mass.sum())


def pairs_in(n_players: int, size: int) -> int:
    """How many pairs (coalition of this size, complement) there are."""
    total = comb(n_players, size)
    return total // 2 if 2 * size == n_players else total


def with_complements(masks: BoolArray) -> BoolArray:
    """Pair each coalition with its complement, shape (m, 2, I)."""
    return np.stack([masks, ~masks], axis=1)


def draw_pairs(rng: np.random.Generator, n_players: int, size: int, count: int) -> BoolArray:
    """`count` different pairs of one level, uniform without replacement.

    In the middle, where both have the same size, the first owner is always in the first of the
    two, so that no pair is drawn twice.
    """
    if 2 * size < n_players:
        return with_complements(distinct_subsets(rng, n_players, size, count))
    rest = distinct_subsets(rng, n_players - 1, size - 1, count)
    return with_complements(np.concatenate([np.ones((count, 1), dtype=np.bool_), rest], axis=1))


def kernel_design(
    problem: Problem, *, paired: bool, borders: bool, repeats: bool, by_size: bool = True
) -> Design:
    """Outer sizes whole where the kernel would draw them about as often; the rest by the kernel.

    Draws of a size share its mass (`by_size`), or all draws count alike.
    """
    n = problem.n_players
    width = 2 if paired else 1
    whole = whole_levels(n, problem.budget) if borders else 0
    outer = [draw_pairs(problem.rng, n, s, pairs_in(n, s)) for s in range(1, whole + 1)]
    certain = [block.reshape(-1, width, n) for block in outer]
    units = (problem.budget - sum(block.size // n for block in outer)) // width
    draw = repeated_draws if repeats else distinct_draws
    inner = draw(problem.rng, n, whole, units, width)
    strata = [
        *zip(certain, kernel_mass(n), map(len, certain), strict=False),
        *(inner if by_size else alike(inner)),
    ]
    masks, mass, room = zip(*strata, strict=True)
    stratum = np.repeat(np.arange(len(masks)), [len(block) for block in masks])
    order = np.arange(len(stratum))
    first = sum(map(len, certain))
    order[first:] = problem.rng.permutation(order[first:])
    return Design(np.concatenate(masks)[order], stratum[order], np.array(mass), np.array(room))


Stratum = tuple[BoolArray, float, float]
"""Units of a stratum, its mass, and how many units it has in all."""


def repeated_draws(
    rng: np.random.Generator, n_players: int, whole: int, units: int, width: int
) -> list[Stratum]:
    """One stratum of independent draws from the inner levels by the Shapley kernel."""
    mass = kernel_mass(n_players)[whole:]
    if len(mass) == 0:
        return []
    sizes = 1 + whole + rng.choice(len(mass), size=units, p=mass / mass.sum())
    sizes = np.where(rng.random(units) < 0.5, sizes, n_players - sizes)
    masks = random_subsets(rng, sizes, n_players)
    paired = with_complements(masks) if width == 2 else masks[:, None, :]
    return [(paired, float(mass.sum()), np.inf)]


def distinct_draws(
    rng: np.random.Generator, n_players: int, whole: int, units: int, width: int
) -> list[Stratum]:
    """A stratum for each inner size (or pair of sizes): numbers by the kernel, none drawn twice."""
    n = n_players
    if width == 2:
        sizes = levels(n)[whole:].tolist()
        mass = kernel_mass(n)[whole:]
        room = [pairs_in(n, s) for s in sizes]
    else:
        sizes = list(range(whole + 1, n - whole))
        mass = np.array([1 / (s * (n - s)) for s in sizes])
        mass *= kernel_mass(n)[whole:].sum() / mass.sum() if sizes else 1.0
        room = [comb(n, s) for s in sizes]
    counts = spread_sizes(rng, mass, room, units).tolist()
    drawn = [
        draw_pairs(rng, n, s, c) if width == 2 else distinct_subsets(rng, n, s, c)[:, None, :]
        for s, c in zip(sizes, counts, strict=True)
    ]
    return list(zip(drawn, mass.tolist(), map(float, room), strict=True))


def alike(strata: list[Stratum]) -> list[Stratum]:
    """One stratum of all draws: sizes are weighed by how often they were drawn."""
    if not strata:
        return []
    masks, mass, _ = zip(*strata, strict=True)
    return [(np.concatenate(masks), float(sum(mass)), np.inf)]


def whole_levels(n_players: int, budget: int) -> int:
    """How many outer levels are asked whole: those with fewer coalitions than expected draws."""
    mass = kernel_mass(n_players)
    left = budget
    for level, size in enumerate(levels(n_players).tolist()):
        cost = 2 * pairs_in(n_players, size)
        if left * mass[level] / mass[level:].sum() < cost:
            return level
        left -= cost
    return len(mass)


def leverage_design(problem: Problem) -> Design:
    """As many coalitions of every size, as far as there are so many; pairs, none twice."""
    n = problem.n_players
    sizes = levels(n).tolist()
    counts = equal_counts(problem.rng, n, problem.budget // 2)
    masks = np.concatenate(
        [draw_pairs(problem.rng, n, s, int(c)) for s, c in zip(sizes, counts, strict=True)]
    )
    stratum = np.repeat(np.arange(len(sizes)), counts)
    order = problem.rng.permutation(len(masks))
    room = np.array([pairs_in(n, s) for s in sizes], dtype=np.float64)
    return Design(masks[order], stratum[order], kernel_mass(n), room)


def equal_counts(rng: np.random.Generator, n_players: int, pairs: int) -> IntArray:
    """Pairs of each level: min(c, C(I,s)) coalitions of every size s, c as large as affordable.

    Whole numbers come from random rounding that keeps the sum.
    """
    room = np.array([float(pairs_in(n_players, int(s))) for s in levels(n_players)])
    share = np.where(2 * levels(n_players) == n_players, 0.5, 1.0)
    target = float(min(pairs, room.sum()))
    order = np.argsort(room / share)
    counts = np.zeros(len(room))
    for position, level in enumerate(order):  # the scarcest first; the others share the rest
        left = target - counts.sum()
        counts[level] = min(room[level], left * share[level] / share[order[position:]].sum())
    ends = np.floor(np.cumsum(counts).round(9) + rng.random())
    return np.minimum(np.diff(ends, prepend=0.0), room).astype(np.int64)
