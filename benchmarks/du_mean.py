"""DU-Shapley's questions as the mean function of `gp`: do they pay? (docs/du-shapley.md)

    DUSHAPLEY_DATA=FOLDER python benchmarks/du_mean.py      writes results/du_mean.json

A share of everybody's rows is worth m(share): DU-Shapley's curve. It is asked at a few shares, and
drawn through them; `gp` then learns u(S) − m(rows of S over all rows) with what is left of the
budget, and the Shapley values of m, a game of sizes, are added exactly. Games, owners and exact
values as in du_stratified.py; everything at DU-Shapley's evaluations and at 6I.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator

import dushapley as ds
from du_stratified import OWNERS, ROWS, store_all
from dushapley.estimators.exact import coalitions
from dushapley_paper.cases import Case

OUT = Path(__file__).parent / "results" / "du_mean.json"
SEEDS = 3
SHARES = (0.1, 0.2, 0.35, 0.5, 0.75)
"""Where the curve is asked; the ends are nobody and everybody."""


def with_du_mean(game: ds.Game, u: np.ndarray, budget: int, seed: int) -> np.ndarray:
    """Values by `gp` on what DU-Shapley's curve leaves."""
    rng = np.random.default_rng(seed)
    pools = np.repeat(np.array(SHARES)[:, None], OWNERS, axis=1)
    asked = game(pools, rng.integers(2**62, size=len(pools)))
    shares, worth = np.array([0.0, *SHARES, 1.0]), np.array([u[0], *asked, u[-1]])
    curve = PchipInterpolator(shares, worth)
    total = float(game.sizes.sum())
    table = np.concatenate(list(coalitions(OWNERS))).astype(float)
    rest = ds.TableGame(u - curve(table @ game.sizes / total), game.sizes)
    learned = ds.value(rest, "gp", budget=budget - len(SHARES), seed=seed, progress=False)
    sized = ds.SizeGame(game.sizes, lambda n: curve(n / total))
    return learned.values + ds.value(sized, "exact", progress=False).values


def measured(data: str, scenario: str) -> dict[str, object]:
    """Relative MSEs of du, auto, gp and gp on what du's curve leaves."""
    case = Case(data, OWNERS, scenario, 0, most_rows=ROWS[data])  # type: ignore[arg-type]
    game = case.game(case.split(), None)
    u = np.concatenate([game(block) for block in coalitions(OWNERS)])
    table = ds.TableGame(u, game.sizes)
    exact = ds.value(table, "exact", budget=2**OWNERS, progress=False).values
    found: dict[str, object] = {"data": data, "scenario": scenario}
    du = [ds.value(game, "du", seed=s, progress=False).values for s in range(SEEDS)]
    found["du"] = relative(du, exact)
    for said, budget in (("2I²", 2 * OWNERS * (OWNERS - 1) + 2), ("6I", 6 * OWNERS)):
        for method in ("auto", "gp"):
            runs = [
                ds.value(table, method, budget=budget, seed=s, progress=False).values
                for s in range(SEEDS)
            ]
            found[f"{method} at {said}"] = relative(runs, exact)
        runs = [with_du_mean(game, u, budget, s) for s in range(SEEDS)]
        found[f"gp on what du leaves at {said}"] = relative(runs, exact)
    return found


def relative(runs: list[np.ndarray], exact: np.ndarray) -> float:
    return float(np.mean((np.array(runs) - exact) ** 2) / exact.var())


if __name__ == "__main__":
    store_all(measured, OUT)
