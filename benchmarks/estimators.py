"""Every coalition method on the paper's size game, beside what reference implementations reached.

u(S) = 1 − c/(c + Σn), n uniform on 1..1000, c by the paper's rule 10^(⌊log10 Σn⌋−1). 50 seeds: ten
draws of n, five runs each. Error: mean squared error over mean squared exact value,
± its standard error over draws; in brackets the reference and the gap in standard errors.
Run: python benchmarks/estimators.py
"""

from __future__ import annotations

import numpy as np

import dushapley as ds
from dushapley.engine.compare import label
from tables import markdown, mean_and_error, save, short

COLUMNS = [(10, 100), (10, 200), (20, 400), (20, 800)]
DRAWS, RUNS = 10, 5

# method, options, (error, relative standard error in %) of a separate compact implementation of
# the same algorithm, measured once on its own 50 seeds
REFERENCE: list[tuple[str, dict, list[tuple[float, int]] | None]] = [
    ("stratified-svarm", {}, [(2.2e-3, 20), (7.5e-4, 14), (2.8e-3, 10), (1.1e-3, 11)]),
    ("stratified-svarm", {"form": "+"}, [(6.4e-3, 10), (6.2e-4, 22), (3.9e-3, 14), (9.8e-4, 14)]),
    ("leverage", {"size_intercepts": True}, [(4.7e-3, 15), (1.9e-3, 16), (6.4e-3, 9), (2.3e-3, 8)]),
    ("du", {}, [(7.1e-3, 13), (7.1e-3, 13), (6.5e-3, 11), (6.5e-3, 11)]),
    ("kernel", {"form": "unbiased"}, None),
    (
        "kernel",
        {"form": "unbiased", "borders": False},
        [(4.3e-2, 11), (2.0e-2, 13), (1.0e-1, 14), (5.8e-2, 15)],
    ),
    ("orthogonal", {}, [(2.8e-1, 6), (8.7e-2, 7), (2.5e-1, 9), (7.9e-2, 9)]),
    ("sobol", {}, [(3.0e-1, 7), (1.2e-1, 6), (2.0e-1, 9), (8.7e-2, 9)]),
    ("leverage", {}, [(2.1e-1, 5), (5.4e-2, 6), (4.4e-1, 8), (2.2e-1, 8)]),
    ("owen", {}, [(2.8e-1, 13), (1.9e-1, 16), (2.3e-1, 23), (1.1e-1, 19)]),
    (
        "owen",
        {"form": "shared-efficient"},
        [(4.9e-2, 15), (2.6e-2, 15), (2.8e-2, 20), (1.2e-2, 20)],
    ),
    ("antithetic", {}, [(4.2e-1, 7), (2.0e-1, 8), (3.9e-1, 9), (1.7e-1, 9)]),
    ("permutation", {}, [(5.1e-1, 8), (2.4e-1, 9), (3.9e-1, 8), (1.9e-1, 8)]),
    ("tmc", {}, None),
    ("svarm", {}, [(5.0e-1, 13), (3.1e-1, 15), (4.8e-1, 11), (2.3e-1, 13)]),
    ("kernel", {}, None),
    ("kernel", {"borders": False}, [(7.1e-1, 11), (2.4e-1, 8), (6.7e-1, 8), (3.3e-1, 8)]),
    ("owen", {"form": "per-owner"}, [(1.1, 9), (5.9e-1, 10), (8.4e-1, 9), (4.4e-1, 9)]),
    (
        "kernel",
        {"form": "unpaired", "borders": False},
        [(1.3, 6), (6.9e-1, 8), (1.4, 5), (7.4e-1, 7)],
    ),
    ("group-testing", {"form": "original"}, [(4.1, 7), (2.4, 6), (5.2, 4), (2.8, 5)]),
    ("group-testing", {}, [(7.8, 9), (5.8, 12), (11.0, 11), (5.7, 14)]),
]


def size_game(n_players: int, draw: int) -> tuple[ds.SizeGame, np.ndarray]:
    """A game of the family, and its exact values."""
    sizes = np.random.default_rng([n_players, draw]).integers(1, 1001, n_players)
    scale = 10.0 ** (np.floor(np.log10(sizes.sum())) - 1)
    game = ds.SizeGame(sizes, lambda rows: 1 - scale / (scale + rows))
    return game, ds.value(game, "exact", budget=2**n_players).values


def errors(games: list, method: str, options: dict, budget: int | None) -> list[float]:
    """Mean error over the runs on each game: draws of n differ more than runs do."""
    means = []
    for draw, (game, exact) in enumerate(games):
        found = [
            ds.value(game, method, options=options, budget=budget, seed=RUNS * draw + run).values
            for run in range(RUNS)
        ]
        means.append(float(np.mean((np.array(found) - exact) ** 2) / np.mean(exact**2)))
    return means


def main() -> None:
    games = {n: [size_game(n, draw) for draw in range(DRAWS)] for n in (10, 20)}
    rows, stored, gaps = [], [], []
    for method, options, reference in REFERENCE:
        name = label(method, options)
        cells = []
        for column, (n, budget) in enumerate(COLUMNS):
            granted = None if method == "du" else budget  # a formula here, whatever the budget
            mean, error = mean_and_error(errors(games[n], method, options, granted))
            text, entry = f"{short(mean)} ±{error / mean:.0%}", {"mean": mean, "error": error}
            if reference is not None:
                theirs, percent = reference[column]
                gap = float((mean - theirs) / np.hypot(error, theirs * percent / 100))
                gaps.append(gap)
                text += f" ({short(theirs)}, {gap:+.1f})"
                entry |= {"reference": theirs, "gap_in_standard_errors": gap}
            cells.append(text)
            stored.append({"method": name, "owners": n, "budget": budget, **entry})
        rows.append([name, *cells])
    print(markdown(["method", *(f"I={n}, budget {b}" for n, b in COLUMNS)], rows))
    worse, better = sum(gap > 2 for gap in gaps), sum(gap < -2 for gap in gaps)
    print(
        f"\nOf {len(gaps)} cells with a reference, {worse} are more than two standard errors worse "
        f"and {better} more than two better; chance alone would make {0.023 * len(gaps):.0f} each."
    )
    save("estimators", stored)


if __name__ == "__main__":
    main()
