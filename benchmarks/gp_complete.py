"""Accuracy and coverage of `gp` on the complete games: the tune half, and the half held back.

    python benchmarks/gp_complete.py tune 3 --processes 2     # 3 seeds of the tune half
    python benchmarks/gp_complete.py held-back 40             # looked at once, at the end
    python benchmarks/gp_complete.py rivals 40                # samplers on the held-back half

Per game and budget: relative MSE, coverage of the 95% intervals, and the half-width that 95% would
have needed (the 95% quantile of |error|/half-width, below 1 where intervals are too wide).
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import dushapley as ds
from complete_games import HELD_BACK, TUNE, complete_game
from stored_games import stored_games
from tables import load, markdown, save

BUDGETS = {
    "4I": lambda n: 4 * n,
    "6I": lambda n: 6 * n,
    "I²": lambda n: n * n,
    "2I²": lambda n: 2 * n * n,
}
RIVALS = ("stratified-svarm", "leverage")


def games_of(which: str) -> list[str]:
    return TUNE if which == "tune" else HELD_BACK


def runs_of(task: tuple[str, str, str, int]) -> dict[str, Any]:
    """One game, budget and method over all seeds."""
    name, budget, method, seeds = task
    stored = complete_game(name) if "/" in name else {g.name: g for g in stored_games()}[name]
    count = BUDGETS[budget](stored.game.n_players)
    mse, ratios, seconds = [], [], time.process_time()
    for seed in range(seeds):
        v = ds.value(stored.game, method, budget=count, seed=1000 + seed)
        mse.append(stored.relative_mse(v.values))
        if v.std_errors is not None:
            half = 1.96 * np.maximum(v.std_errors, 1e-12)
            ratios.append(np.abs(v.values - stored.exact) / half)
    found: dict[str, Any] = {
        "game": name, "budget": budget, "method": method,
        "relative_mse": np.array(mse).round(9).tolist(),
        "seconds": (time.process_time() - seconds) / seeds,
    }  # fmt: skip
    if ratios:
        found["coverage"] = float((np.array(ratios) <= 1).mean())
        found["needed"] = float(np.quantile(ratios, 0.95))
    return found


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for budget in BUDGETS:
        here = [r for r in rows if r["budget"] == budget]
        if not here:
            continue
        mean = np.exp(np.mean([np.log(max(np.mean(r["relative_mse"]), 1e-7)) for r in here]))
        covers = [r["coverage"] for r in here if "coverage" in r]
        needs = [r["needed"] for r in here if "needed" in r]
        lines.append([
            budget, f"{mean:.5f}", f"{np.mean(covers):.3f}", f"{min(covers, default=0):.2f}",
            f"{1 / np.median(needs):.2f}", f"{np.mean([r['seconds'] for r in here]):.2f}",
        ])  # fmt: skip
    head = ["budget", "geometric mean", "coverage", "least", "half-width / needed", "CPU s"]
    return markdown(head, lines)


def by_game(rows: list[dict[str, Any]]) -> str:
    lines = []
    for name in dict.fromkeys(r["game"] for r in rows):
        here = {r["budget"]: r for r in rows if r["game"] == name}
        cells = [
            f"{np.mean(here[b]['relative_mse']):.4f} ({here[b].get('coverage', np.nan):.2f})"
            if b in here
            else "–"
            for b in BUDGETS
        ]
        covered = np.mean([r.get("coverage", np.nan) for r in here.values()])
        lines.append([name, *cells, f"{covered:.3f}"])
    return markdown(["game", *BUDGETS, "coverage"], lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["tune", "held-back", "rivals", "stored"])
    parser.add_argument("seeds", type=int)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--every", type=int, default=1, help="only one game in so many")
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    methods = RIVALS if args.which == "rivals" else ("gp",)
    if args.which == "stored":
        games = [g.name for g in stored_games()]
    else:
        games = games_of(args.which)[:: args.every]
    budgets = args.budgets.split(",")[::-1]  # the longest first
    tasks = [(g, b, m, args.seeds) for b in budgets for m in methods for g in games]
    with ProcessPoolExecutor(args.processes) as pool:
        rows = list(pool.map(runs_of, tasks))
    if args.save:
        save(args.save, load(args.save) | {args.which: rows})
    for method in methods:
        mine = [r for r in rows if r["method"] == method]
        print(method, summary(mine), by_game(mine), sep="\n\n")


if __name__ == "__main__":
    main()
