"""Accuracy and coverage of `gp` and rivals on complete games: for tuning, held back, and stored.

    python benchmarks/gp_complete.py run tune gp 0 3                  # seeds 0 to 2
    python benchmarks/gp_complete.py run held-back gp 0 40 --processes 16    # once, at the end
    python benchmarks/gp_complete.py run held-back leverage 0 40 --budgets I²,2I²
    python benchmarks/gp_complete.py table held-back                  # store and print

Every run is appended to a file beside the games' tables, so a measurement can be stopped and taken
up again; runs that are there already are not made again. `--label` names another version of the
code (put it on PYTHONPATH). Shapiq's estimators are `msr-linear` and `msr-xgboost`, RegressionMSR
with either proxy, and the others of `shapiq_new.py`; they need Python 3.12 and shapiq 1.8.

Per game and budget: relative MSE, coverage of the 95% intervals, and half-widths over those that
95% would have needed (1 over the 95% quantile of |error|/half-width).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import dushapley as ds
from complete_games import FOLDER, HELD_BACK, TUNE, complete_game
from stored_games import StoredGame, stored_games
from tables import load, markdown, save

BUDGETS = {
    "4I": lambda n: 4 * n,
    "6I": lambda n: 6 * n,
    "I²": lambda n: n * n,
    "2I²": lambda n: 2 * n * n,
}
RUNS = FOLDER.parent / "gp-complete.jsonl"
Run = dict[str, Any]


def games_of(which: str) -> list[str]:
    if which == "stored":
        return ["adult-noisy-12", "bank-job-14", "bbc-12", "breast-16", "housing-iid-14",
                "imdb-noisy-16"]  # fmt: skip
    return TUNE if which == "tune" else HELD_BACK


def game_of(name: str) -> StoredGame:
    return complete_game(name) if "/" in name else {g.name: g for g in stored_games()}[name]


def estimated(stored: StoredGame, method: str, budget: int, seed: int) -> tuple[Any, Any]:
    """Values and standard errors (None where the method has none)."""
    if method in ds.methods():
        v = ds.value(stored.game, method, budget=budget, seed=seed)
        return v.values, v.std_errors
    from shapiq_new import shapiq_values

    return shapiq_values(stored.game, method, budget, seed), None


def one_run(stored: StoredGame, method: str, budget: str, seed: int) -> Run:
    """A method on a game with a seed: error, and |error| over half-width of every owner."""
    start = time.process_time()
    count = BUDGETS[budget](stored.game.n_players)
    values, errors = estimated(stored, method, count, 1000 + seed)
    found: Run = {
        "game": stored.name, "budget": budget, "seed": seed,
        "mse": float(f"{stored.relative_mse(values):.4g}"),
        "seconds": round(time.process_time() - start, 2),
    }  # fmt: skip
    if errors is not None:
        ratios = np.abs(values - stored.exact) / (1.96 * np.maximum(errors, 1e-12))
        found["ratios"] = [float(f"{r:.3g}") for r in ratios]
    return found


def all_runs() -> list[Run]:
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def measure(
    which: str, method: str, seeds: range, budgets: list[str], label: str, processes: int
) -> None:
    """All runs that are not there yet, seed by seed, so that any beginning covers all games."""
    done = {
        (r["game"], r["budget"], r["seed"])
        for r in all_runs()
        if r["method"] == method and r["label"] == label
    }
    tasks = [
        (name, method, budget, seed, label)
        for seed in seeds
        for budget in reversed(budgets)  # the longest first
        for name in games_of(which)
        if (name, budget, seed) not in done
    ]
    with ProcessPoolExecutor(processes) as pool:
        for run in pool.map(labelled_run, tasks):
            with RUNS.open("a") as file:
                file.write(json.dumps(run) + "\n")


def labelled_run(task: tuple[str, str, str, int, str]) -> Run:
    name, method, budget, seed, label = task
    return {"method": method, "label": label} | one_run(game_of(name), method, budget, seed)


def summary(runs: list[Run]) -> str:
    lines = []
    for budget in BUDGETS:
        here = by_game([r for r in runs if r["budget"] == budget])
        if not here:
            continue
        mean = np.exp(np.mean([np.log(max(mse(rs), 1e-7)) for rs in here.values()]))
        covers = [c for rs in here.values() if (c := coverage(rs)) is not None]
        needed = [n for rs in here.values() if (n := half_width(rs)) is not None]
        line = [budget, f"{mean:.5f}", str(min(len(rs) for rs in here.values()))]
        line += [f"{np.mean(covers):.3f}", f"{min(covers):.2f}"] if covers else ["–"] * 2
        seconds = np.mean([r["seconds"] for rs in here.values() for r in rs])
        lines.append([*line, f"{np.median(needed):.2f}" if needed else "–", f"{seconds:.2f}"])
    head = ["budget", "geometric mean", "seeds", "coverage", "least", "half-width / needed", "s"]
    return markdown(head, lines)


def by_game(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run["game"], []).append(run)
    return found


def mse(runs: list[Run]) -> float:
    return float(np.mean([r["mse"] for r in runs]))


def coverage(runs: list[Run]) -> float | None:
    ratios = [x for r in runs for x in r.get("ratios", [])]
    return float(np.mean(np.array(ratios) <= 1)) if ratios else None


def half_width(runs: list[Run]) -> float | None:
    ratios = [x for r in runs for x in r.get("ratios", [])]
    return float(1 / np.quantile(ratios, 0.95)) if ratios else None


def each_game(runs: list[Run]) -> str:
    """Relative MSE (coverage) of every game by budget, and its mean coverage over them."""
    lines = []
    for name, here in by_game(runs).items():
        cells, covers = [], []
        for budget in BUDGETS:
            some = [r for r in here if r["budget"] == budget]
            covered = coverage(some)
            covers += [] if covered is None else [covered]
            cells.append(f"{mse(some):.4f}" + (f" ({covered:.2f})" if covers else "")
                         if some else "–")  # fmt: skip
        lines.append([name, *cells, f"{np.mean(covers):.3f}" if covers else "–"])
    return markdown(["game", *BUDGETS, "coverage"], lines)


def paired(runs: list[Run], ours: str, theirs: str) -> str:
    """Geometric means on the games and seeds that both have, and games lost beyond 3 errors."""
    tables = [
        {(r["game"], r["budget"], r["seed"]): r["mse"] for r in runs if of(r) == name}
        for name in (ours, theirs)
    ]
    both = sorted(tables[0].keys() & tables[1].keys())
    lines = []
    for budget in BUDGETS:
        keys = [k for k in both if k[1] == budget]
        names = sorted({k[0] for k in keys})
        if not names:
            continue
        means = [[np.mean([t[k] for k in keys if k[0] == name]) for name in names] for t in tables]
        lost = []
        for name in names:
            gaps = np.array([tables[0][k] - tables[1][k] for k in keys if k[0] == name])
            if len(gaps) > 1 and gaps.mean() > 3 * gaps.std(ddof=1) / len(gaps) ** 0.5:
                lost.append(name)
        a, b = (np.exp(np.mean(np.log(np.maximum(m, 1e-7)))) for m in means)
        seeds = len(keys) // len(names)
        lines.append([budget, str(len(names)), str(seeds), f"{a:.5f}", f"{b:.5f}", f"{a / b:.2f}",
                      "; ".join(lost) or "none"])  # fmt: skip
    head = ["budget", "games", "seeds", ours, theirs, "ratio", f"{theirs} better beyond 3 errors"]
    return markdown(head, lines)


def of(run: Run) -> str:
    return run["method"] + (f", {run['label']}" if run["label"] else "")


def table(which: str) -> None:
    """Store what was measured on a half, beside what others measured, and print it."""
    runs = [r for r in all_runs() if r["game"] in games_of(which)]
    stored = {}
    for name in sorted({of(r) for r in runs}):
        mine = [r for r in runs if of(r) == name]
        stored[name] = [{k: v for k, v in r.items() if k not in ("method", "label")} for r in mine]
        print(name, summary(mine), sep="\n\n", end="\n\n")
        if name != "gp":
            print(paired(runs, "gp", name), end="\n\n")
    print(each_game([r for r in runs if of(r) == "gp"]))
    before = load("gp_complete")
    new = {name: packed(its) for name, its in stored.items()}
    save("gp_complete", before | {which: before.get(which, {}) | new})


def packed(runs: list[Run]) -> dict[str, Any]:
    """By game and budget: errors and coverage in the order of seeds, and half-width over needed."""
    found: dict[str, Any] = {}
    for name, here in by_game(runs).items():
        for budget in BUDGETS:
            some = sorted((r for r in here if r["budget"] == budget), key=lambda r: r["seed"])
            if some:
                line: dict[str, Any] = {"mse": [r["mse"] for r in some]}
                if coverage(some) is not None:
                    line["coverage"] = [round(coverage([r]) or 0.0, 3) for r in some]
                    line["half-width / needed"] = round(half_width(some) or 0.0, 3)
                found[f"{name} {budget}"] = line
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("which", choices=["tune", "held-back", "stored"])
    parser.add_argument("method", nargs="?", default="gp")
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("last", nargs="?", type=int, default=1)
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--label", default="")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    if args.what == "table":
        table(args.which)
    else:
        seeds = range(args.first, args.last)
        budgets = args.budgets.split(",")
        measure(args.which, args.method, seeds, budgets, args.label, args.processes)


if __name__ == "__main__":
    main()
