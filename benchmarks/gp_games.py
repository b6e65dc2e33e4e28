"""Accuracy and coverage of `gp` on complete games of trained models, at four budgets.

    python benchmarks/gp_games.py            # the six stored games, 10 seeds
    python benchmarks/gp_games.py made       # the games of made_games.py, 3 seeds

Error is relative MSE: 1 means paying everyone the same. "Peer" is the library's permutation
sampling in the same run; "best other" is the best of seven sampling methods at 2I², from the notes
of the stored games. Results are stored run by run, so a stopped benchmark resumes where it was.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np

import dushapley as ds
from made_games import made_games
from stored_games import StoredGame, stored_games

BUDGETS = {
    "4I": lambda n: 4 * n,
    "6I": lambda n: 6 * n,
    "I²": lambda n: n**2,
    "2I²": lambda n: 2 * n**2,
}
BEST_OTHER = {
    "adult-noisy-12": 0.018,
    "bank-job-14": 0.015,
    "bbc-12": 0.0099,
    "breast-16": 0.016,
    "housing-iid-14": 0.012,
    "imdb-noisy-16": 0.013,
}


def one_run(stored: StoredGame, budget: int, seed: int) -> dict[str, float | str]:
    start = time.process_time()
    v = ds.value(stored.game, "gp", budget=budget, seed=seed)
    seconds = time.process_time() - start
    error = np.abs(v.values - stored.exact)
    peer = ds.value(stored.game, "permutation", budget=budget, seed=seed)
    return {
        "relative_mse": stored.relative_mse(v.values),
        "coverage": float(np.mean(error <= 1.96 * v.std_errors)),
        "half_width_over_rmse": float(1.96 * v.std_errors.mean() / np.sqrt(np.mean(error**2))),
        "half_width": float(1.96 * v.std_errors.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "model": v.details["model"],
        "surprise": v.details["surprise"],
        "unexplained": v.details["unexplained"],
        "permutation": stored.relative_mse(peer.values),
        "cpu_seconds": seconds,
    }


def measure(games: list[StoredGame], seeds: range, path: Path) -> dict[str, dict]:
    runs = json.loads(path.read_text())["runs"] if path.exists() else {}
    for seed, stored, name in product(seeds, games, BUDGETS):  # balanced when stopped early
        key = f"{stored.name} {name} {seed}"
        budget = BUDGETS[name](stored.game.n_players)
        if key not in runs and budget < 2**stored.game.n_players:
            runs[key] = one_run(stored, budget, seed)
            path.write_text(json.dumps({"runs": runs}, indent=0))
    return runs


def summary(runs: dict[str, dict], games: list[StoredGame]) -> list[str]:
    cells = defaultdict(list)
    for key, run in runs.items():
        game, budget, _ = key.split(" ")
        cells[game, budget].append(run)

    def mean(game: str, budget: str, what: str) -> float:
        return float(np.mean([run[what] for run in cells[game, budget]]))

    names = [stored.name for stored in games]
    head = [
        "budget",
        *names,
        "geometric mean",
        "coverage",
        "half-width / RMSE",
        "fallbacks",
        "CPU s",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for budget in BUDGETS:
        there = [name for name in names if cells[name, budget]]
        found = {name: mean(name, budget, "relative_mse") for name in there}
        every = [run for name in there for run in cells[name, budget]]
        ratio = np.mean([mean(n, budget, "half_width") / rms(cells[n, budget]) for n in there])
        lines.append(
            f"| {budget} | "
            + " | ".join(f"{found[n]:.5f}" if n in found else "–" for n in names)
            + f" | {np.exp(np.mean(np.log(list(found.values())))):.5f}"
            + f" | {np.mean([run['coverage'] for run in every]):.3f} | {ratio:.2f}"
            + f" | {sum(run['model'] != 'gaussian process' for run in every)} of {len(every)}"
            + f" | {np.mean([run['cpu_seconds'] for run in every]):.1f} |"
        )
    last = {n: mean(n, "2I²", "permutation") for n in names if cells[n, "2I²"]}
    lines.append(
        "| permutation, 2I² | "
        + " | ".join(f"{last[n]:.4f}" if n in last else "–" for n in names)
        + " | | | | | |"
    )
    if set(names) <= set(BEST_OTHER):
        best = " | ".join(f"{BEST_OTHER[n]:.3f}" for n in names)
        lines.append(f"| best other, 2I² | {best} | | | | | |")
    return lines


def rms(runs: list[dict]) -> float:
    return float(np.sqrt(np.mean([run["rmse"] ** 2 for run in runs])))


def main() -> None:
    made = sys.argv[1:] == ["made"]
    games = made_games() if made else stored_games()
    name = "gp_made_games" if made else "gp_stored_games"
    path = Path(__file__).parent / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    runs = measure(games, range(3 if made else 10), path)
    lines = summary(runs, games)
    path.write_text(json.dumps({"table": lines, "runs": runs}, indent=0))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
