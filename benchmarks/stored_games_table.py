"""All methods on complete utility tables of trained models, at 6I, I² and 2I² evaluations.

Relative MSE (1 = paying everyone the same), mean over seeds ± its standard error; a dash where a
method needs a larger budget, or rows that a table does not have. DU-Shapley comes from the
replicates stored with the tables, each a run of about 2I² evaluations.
Run: DUSHAPLEY_DATA=... python benchmarks/stored_games_table.py
"""

from __future__ import annotations

import dushapley as ds
from dushapley.engine.compare import label
from stored_games import StoredGame, stored_games
from tables import markdown, mean_and_error, save

SEEDS = 32
METHODS: list[tuple[str, dict]] = [
    ("permutation", {}),
    ("antithetic", {}),
    ("orthogonal", {}),
    ("sobol", {}),
    ("tmc", {}),
    ("owen", {}),
    ("owen", {"form": "shared-efficient"}),
    ("owen", {"form": "per-owner"}),
    ("svarm", {}),
    ("stratified-svarm", {}),
    ("stratified-svarm", {"form": "+"}),
    ("group-testing", {}),
    ("group-testing", {"form": "original"}),
    ("kernel", {}),
    ("kernel", {"form": "unbiased"}),
    ("leverage", {}),
    ("leverage", {"size_intercepts": True}),
    ("loo", {}),
    ("random", {}),
    ("knn", {}),
]

# Figures measured earlier by separate implementations (means over 8 seeds): DU at 2I², and the
# best of permutations, antithetic, orthogonal, leverage, stratified SVARM at I² and 2I²
PUBLISHED = {
    "adult-noisy-12": (0.074, 0.034, 0.018),
    "bank-job-14": (0.264, 0.059, 0.014),
    "bbc-12": (0.198, 0.025, 0.009),
    "breast-16": (0.141, 0.051, 0.022),
    "housing-iid-14": (0.180, 0.061, 0.015),
    "imdb-noisy-16": (0.025, 0.032, 0.013),
}
FIELD = ("permutation", "antithetic", "orthogonal", "leverage", "stratified-svarm")


def measure(stored: StoredGame) -> dict[str, list[tuple[float, float] | None]]:
    """Errors of all methods at the three budgets."""
    n = stored.game.n_players
    budgets = [6 * n, n**2, 2 * n**2]
    frame = ds.compare(stored.game, METHODS, budgets, range(SEEDS), stored.exact)
    found = {}
    for name in [label(*entry) for entry in METHODS]:
        runs = frame[frame["method"] == name]
        found[name] = [
            None if len(some) == 0 else mean_and_error(some.tolist())
            for budget in budgets
            for some in [runs[runs["budget"] == budget]["relative_mse"].dropna()]
        ]
    du = mean_and_error([stored.relative_mse(values) for values in stored.du])
    return {"du (stored replicates)": [None, None, du], **found}


def show(cell: tuple[float, float] | None) -> str:
    return "–" if cell is None else f"{cell[0]:.3g} ±{cell[1]:.1g}"


def best_of_field(found: dict, column: int) -> tuple[str, tuple[float, float]]:
    """The best of the methods whose earlier figures are known."""
    known = {k: v[column] for k, v in found.items() if k.split(" ")[0] in FIELD and v[column]}
    name = min(known, key=lambda k: known[k][0])
    return name, known[name]


def gap(cell: tuple[float, float], earlier: float) -> float:
    """Difference in standard errors of both; the earlier mean had 8 seeds and the same spread."""
    mean, error = cell
    return (mean - earlier) / (error * (1 + SEEDS / 8) ** 0.5)


def main() -> None:
    results, check = {}, []
    for stored in stored_games():
        n = stored.game.n_players
        found = results[stored.name] = measure(stored)
        print(f"\n### {stored.name}\n")
        header = ["method", f"6I = {6 * n}", f"I² = {n**2}", f"2I² = {2 * n**2}"]
        print(markdown(header, [[k, *map(show, v)] for k, v in found.items()]))
        if stored.name in PUBLISHED:
            du, at_one, at_two = PUBLISHED[stored.name]
            one, two = best_of_field(found, 1), best_of_field(found, 2)
            check.append(
                [
                    stored.name,
                    f"{show(found['du (stored replicates)'][2])} ({du})",
                    f"{show(one[1])} {one[0]} ({at_one}, {gap(one[1], at_one):+.1f})",
                    f"{show(two[1])} {two[0]} ({at_two}, {gap(two[1], at_two):+.1f})",
                ]
            )
    print("\n### Beside earlier figures (in brackets, and the gap in standard errors)\n")
    print(markdown(["game", "DU at 2I²", "best at I²", "best at 2I²"], check))
    save("stored_games", results)


if __name__ == "__main__":
    main()
