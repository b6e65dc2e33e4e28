"""Random and adversarial sizes of owners, and exact values of size games by enumeration.

Shared by the tests that try to break every guarantee and by the tables of how tight they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np

from dushapley.games import LearningCurve, logarithmic, power_law, rational, saturating

KINDS = (
    "uniform", "lognormal", "giant among dwarfs", "dwarf among giants", "powers of two",
    "all equal", "ones and one", "two scales", "scales to 1e15", "fractions",
    "giant at large scale",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One size game: what kind of sizes, the sizes, and its curve."""

    kind: str
    sizes: np.ndarray
    curve: LearningCurve


def trials(number: int, seed: int = 0, n_players: tuple[int, int] = (3, 11)) -> Iterator[Trial]:
    """Size games of every kind in turn, with curves of every kind and scale."""
    rng = np.random.default_rng(seed)
    for k in range(number):
        kind = KINDS[k % len(KINDS)]
        sizes = rng.permutation(draw_sizes(rng, kind, int(rng.integers(*n_players))))
        yield Trial(kind, sizes, draw_curve(rng, float(sizes.sum())))


def draw_sizes(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    giant = 10.0 ** rng.uniform(1, 9)
    return {
        "uniform": lambda: rng.integers(1, 10 ** int(rng.integers(1, 5)), n).astype(float),
        "lognormal": lambda: np.ceil(np.exp(rng.normal(3, 2, n))),
        "giant among dwarfs": lambda: np.r_[rng.integers(1, 20, n - 1), np.ceil(giant)],
        "dwarf among giants": lambda: np.r_[np.ceil(giant * rng.uniform(1, 2, n - 1)), 1.0],
        "powers of two": lambda: 2.0 ** (np.arange(n) * int(rng.integers(1, 5))),
        "all equal": lambda: np.full(n, np.ceil(giant)),
        "ones and one": lambda: np.r_[np.ones(n - 1), rng.integers(1, 1000)],
        "two scales": lambda: np.where(rng.random(n) < 0.5, 1.0, np.ceil(giant)),
        "scales to 1e15": lambda: np.ceil(10.0 ** rng.uniform(0, 15, n)),
        "fractions": lambda: rng.uniform(0.001, 50, n),
        "giant at large scale": lambda: large_scale(rng, n),
    }[kind]()


def large_scale(rng: np.random.Generator, n: int) -> np.ndarray:
    """Equal others, a giant among them, and an owner larger still: what Theorem 2 overlooks."""
    dwarf = 10.0 ** rng.uniform(2, 9)
    giant = dwarf ** rng.uniform(1.2, 1.67)
    return np.r_[np.full(n - 2, dwarf), giant, giant * 10.0 ** rng.uniform(0, 3)]


def draw_curve(rng: np.random.Generator, total: float) -> LearningCurve:
    c = total * 10.0 ** rng.uniform(-5, 1) if rng.random() < 0.5 else 10.0 ** rng.uniform(-1, 3)
    which = int(rng.integers(4))
    if which == 0:
        return rational(c)
    if which == 1:
        return logarithmic(c)
    if which == 2:
        return power_law(c, float(rng.uniform(0.1, 3)))
    return saturating(c)


@cache
def coalitions(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All coalitions of the others, (2^(n−1), n−1), and their Shapley weights."""
    inside = ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n - 1)) & 1).astype(float)
    weight = np.array([1 / (n * comb(n - 1, k)) for k in range(n)])
    return inside, weight[inside.sum(axis=1).astype(int)]


def enumerated(sizes: np.ndarray, w: LearningCurve) -> np.ndarray:
    """Shapley values of w(Σn), each owner's marginals taken one by one."""
    inside, weight = coalitions(len(sizes))
    values = []
    for i, mine in enumerate(sizes):
        pooled = inside @ np.delete(sizes, i)
        values.append(float(weight @ (w(pooled + mine) - w(pooled))))
    return np.array(values)
