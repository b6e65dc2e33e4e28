"""How often stated 95% intervals hold the exact value: every unbiased method, every kind of game.

At 20I² evaluations with 5, 10 and 20 owners, 400 runs a cell: the nine closed-form games of the
contract suite, the paper's sharp curve and a smooth one among them. Owners whose value is the same
in all runs are left out. "exact": nobody is left. "r": most results carry the note that some
owners' contributions are too rare for 95% intervals, and nothing is promised.
Then smaller and larger budgets with 8 owners, 600 runs, on three of the games; and two games in
which owners contribute a little all the time and a lot so rarely that it is often not seen.
Run: python benchmarks/intervals.py [--quick] [--only-rare]
"""

from __future__ import annotations

import sys

import numpy as np

import dushapley as ds
from dushapley.engine.compare import label
from dushapley.estimators.exact import coalitions
from dushapley.testing import covered, run, small_games
from tables import load, markdown, save

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
    ("kernel", {"form": "unbiased"}),
    ("kernel", {"form": "unbiased", "borders": False}),
]
FACTORS = (2, 6, 20, 40)
RARE = "seldom but large, in effect"


def games(owners: int) -> dict[str, ds.Game]:
    sizes = np.random.default_rng(1).integers(1, 1001, owners)
    scale = 10.0 ** (np.floor(np.log10(sizes.sum())) - 1)
    sharp = ds.SizeGame(sizes, lambda rows: rows / (rows + scale))
    smooth = ds.SizeGame(sizes, lambda rows: rows / (rows + 1000))
    return {"sharp": sharp, "smooth": smooth, **small_games(owners)}


def rare_games(owners: int) -> dict[str, ds.Game]:
    """One left glove and many right ones; two bumps that need three owners and forbid four."""
    z = np.concatenate(list(coalitions(owners)))
    noise = 1e-3 * np.random.default_rng(1).normal(size=len(z))
    gloves = z[:, 0] & z[:, 1:].any(axis=1)
    bumps = z[:, :3].all(axis=1) & ~z[:, 3:7].any(axis=1)
    bumps = bumps + 1.0 * (z[:, -3:].all(axis=1) & ~z[:, :4].any(axis=1))
    return {
        "gloves + noise": ds.TableGame(gloves + noise),
        "bumps + noise": ds.TableGame(bumps + noise),
    }


def cell(method: str, options: dict, game: ds.Game, budget: int, runs: int) -> str:
    """Percent of intervals that hold; a dash where some seed leaves a method without any."""
    found = [run(method, game, options, budget, seed) for seed in range(runs)]
    if any(estimate.std_errors is None for estimate in found):
        return "–"
    part = covered(found, ds.value(game, "exact", budget=2**game.n_players).values)
    noted = np.mean([any(RARE in note for note in e.notes) for e in found]) > 0.5
    return "exact" if np.isnan(part) else f"{100 * part:.1f}" + " r" * bool(noted)


def by_game(played: dict[str, ds.Game], budget: int, runs: int) -> dict[str, dict[str, str]]:
    return {
        label(method, options): {
            name: cell(method, options, game, budget, runs) for name, game in played.items()
        }
        for method, options in METHODS
    }


def by_budget(owners: int, runs: int) -> dict[str, dict[str, str]]:
    chosen = [games(owners)[kind] for kind in ("sharp", "smooth", "table")]
    return {
        label(method, options): {
            f"{factor}I²": " / ".join(
                cell(method, options, game, factor * owners**2, runs) for game in chosen
            )
            for factor in FACTORS
        }
        for method, options in METHODS
    }


def show(title: str, table: dict[str, dict[str, str]]) -> None:
    columns = list(next(iter(table.values())))
    rows = [[name, *row.values()] for name, row in table.items()]
    print(f"\n{title}\n\n{markdown(['method', *columns], rows)}", flush=True)


def main() -> None:
    runs = 40 if "--quick" in sys.argv else 400
    stored = load("intervals")
    for owners in () if "--only-rare" in sys.argv else (5, 10, 20):
        title = f"{owners} owners, 20I² = {20 * owners**2:,} evaluations"
        stored[title] = by_game(games(owners), 20 * owners**2, runs)
        show(title, stored[title])
    if "--only-rare" not in sys.argv:
        stored["8 owners"] = by_budget(8, runs * 3 // 2)
        show("8 owners, sharp / smooth / random", stored["8 owners"])
    stored["rare, 12 owners"] = by_game(rare_games(12), 20 * 12**2, runs)
    show("too rare to be seen: 12 owners, 20I² = 2,880 evaluations", stored["rare, 12 owners"])
    if "--quick" not in sys.argv:
        save("intervals", stored)


if __name__ == "__main__":
    main()
