"""How often stated 95% intervals hold the exact value, by budget: unbiased methods, 8 owners.

Three games: a sharply concave curve (the paper's), a smooth one (c = 1000) and a table of random
numbers. From 20I² evaluations on, the tests promise 93 to 97%; below, this table is all there is.
Run: python benchmarks/intervals.py
"""

from __future__ import annotations

import numpy as np

import dushapley as ds
from dushapley.compare import label
from dushapley.testing import coverage, small_games
from tables import markdown, save

OWNERS, RUNS = 8, 200
FACTORS = (2, 6, 20, 40)
METHODS: list[tuple[str, dict]] = [
    ("permutation", {}),
    ("antithetic", {}),
    ("orthogonal", {}),
    ("sobol", {}),
    ("owen", {}),
    ("owen", {"form": "shared-efficient"}),
    ("owen", {"form": "per-owner"}),
    ("svarm", {}),
    ("stratified-svarm", {}),
    ("group-testing", {}),
    ("group-testing", {"form": "original"}),
    ("kernel", {"form": "unbiased", "borders": False}),
]


def games() -> list[ds.Game]:
    sizes = np.random.default_rng(1).integers(1, 1001, OWNERS)
    sharp = 10.0 ** (np.floor(np.log10(sizes.sum())) - 1)
    return [
        ds.SizeGame(sizes, lambda rows: rows / (rows + sharp)),
        ds.SizeGame(sizes, lambda rows: rows / (rows + 1000)),
        small_games(OWNERS)["table"],
    ]


def covered(method: str, game: ds.Game, options: dict, budget: int) -> float | None:
    """Part of intervals that hold the value; None where the method states none."""
    found = ds.value(game, method, options=options, budget=budget)
    if found.std_errors is None:
        return None
    try:
        return coverage(method, game, options, budget, range(RUNS))
    except AssertionError:  # some seeds leave a stratum seen once
        return None


def main() -> None:
    rows, stored = [], {}
    for method, options in METHODS:
        cells = []
        for factor in FACTORS:
            budget = factor * OWNERS**2
            found = [covered(method, game, options, budget) for game in games()]
            stored[f"{label(method, options)} at {factor}I²"] = found
            cells.append(" / ".join("–" if c is None else f"{100 * c:.0f}" for c in found))
        rows.append([label(method, options), *cells])
    print(markdown(["method", *(f"{factor}I²" for factor in FACTORS)], rows))
    save("intervals", stored)


if __name__ == "__main__":
    main()
