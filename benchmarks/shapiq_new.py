"""Shapiq 1.8's estimators beside `gp` on the six stored games, at 6I, I² and 2I².

Needs Python 3.12 in an environment of its own:

    python3.12 -m venv peers && peers/bin/pip install shapiq==1.8.0 xgboost lightgbm pyarrow
    peers/bin/pip install torch gpytorch botorch            # for ShaplEIG
    PYTHONPATH=src peers/bin/python benchmarks/shapiq_new.py run 4        # seeds 0 to 3
    PYTHONPATH=src peers/bin/python benchmarks/shapiq_new.py run 1 shapleig
    PYTHONPATH=src python benchmarks/shapiq_new.py table

Each peer at its best setting, by geometric mean over the games: RegressionMSR with both proxies,
PolySHAP with and without pairs of complements, LeverageSHAP with them, OddSHAP with both factors.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from stored_games import StoredGame, stored_games
from tables import load, markdown, save

BUDGETS = {"6I": lambda n: 6 * n, "I²": lambda n: n * n, "2I²": lambda n: 2 * n * n}
LIMIT = 600
"""Seconds that one run of ShaplEIG may take."""


def peers() -> dict[str, Callable[[int, int], Any]]:
    """Estimators by name, from owners and seed."""
    from shapiq import approximator as shapiq

    def odd(n: int, seed: int, factor: int) -> Any:
        return shapiq.OddSHAP(n, random_state=seed, interaction_factor=factor)

    def msr(n: int, seed: int, proxy: str) -> Any:
        return shapiq.RegressionMSR(n, "SV", proxy_model=proxy, random_state=seed)

    def poly(n: int, seed: int, pairs: bool) -> Any:
        return shapiq.PolySHAP(n, max_order=2, pairing_trick=pairs, random_state=seed)

    return {
        "msr-linear": lambda n, s: msr(n, s, "linear"),
        "msr-xgboost": lambda n, s: msr(n, s, "xgboost"),
        "oddshap": lambda n, s: odd(n, s, 10),
        "oddshap-3": lambda n, s: odd(n, s, 3),
        "polyshap-2": lambda n, s: poly(n, s, False),
        "polyshap-2-pairs": lambda n, s: poly(n, s, True),
        "leverageshap": lambda n, s: shapiq.LeverageSHAP(n, random_state=s),
        "shapleig": lambda n, s: shapiq.ShaplEIG(n, random_state=s),
    }


def shapiq_values(game: Any, method: str, budget: int, seed: int) -> np.ndarray:
    """Values of a table of utilities by one of shapiq's estimators."""
    n, table = game.n_players, np.asarray(game.values)
    place = 1 << np.arange(n)

    def utility(pools: np.ndarray) -> np.ndarray:
        return table[np.asarray(pools, dtype=np.int64) @ place] - table[0]

    found = peers()[method](n, seed).approximate(budget, utility)
    return np.array([found[(i,)] for i in range(n)])


def run(stored: StoredGame, method: str, budget: str, seed: int) -> dict[str, float]:
    start = time.process_time()
    try:
        count = BUDGETS[budget](stored.game.n_players)
        error = stored.relative_mse(shapiq_values(stored.game, method, count, 1000 + seed))
    except Exception as refused:  # a peer that refuses a budget has a row that says so
        return {"refused": f"{type(refused).__name__}: {refused}"[:160]}
    return {"mse": float(f"{error:.4g}"), "seconds": round(time.process_time() - start, 2)}


def measure(seeds: int, methods: list[str]) -> None:
    games = stored_games()
    for seed in range(seeds):
        for method in methods:
            for stored in games:
                for budget in BUDGETS:
                    found = load("shapiq_new")
                    key = f"{method} {stored.name} {budget}"
                    rows = found.setdefault("runs", {}).setdefault(key, [])
                    if len(rows) > seed or slow(rows, found["runs"], method, stored.name):
                        continue
                    rows.append(run(stored, method, budget, seed))
                    names = ("shapiq", "xgboost", "lightgbm")
                    found["versions"] = {name: version(name) for name in names}
                    save("shapiq_new", found)


def slow(rows: list[Any], runs: dict[str, Any], method: str, game: str) -> bool:
    """Whether a smaller budget already took longer than a run may take."""
    smaller = [r for b in BUDGETS for r in runs.get(f"{method} {game} {b}", [])]
    return not rows and any(r.get("seconds", 0.0) > LIMIT / 3 for r in smaller)


def table() -> str:
    """Geometric means over the games, of those that have a figure for all."""
    runs, lines = load("shapiq_new")["runs"], []
    for method in dict.fromkeys(key.split()[0] for key in runs):
        line = [method]
        for budget in BUDGETS:
            rows = [
                runs[key] for key in runs if key.split()[0] == method and key.endswith(" " + budget)
            ]
            means = [
                np.mean([r["mse"] for r in some]) for some in rows if some and "mse" in some[0]
            ]
            seconds = [r["seconds"] for some in rows for r in some if "mse" in r]
            line.append(
                f"{np.exp(np.mean(np.log(means))):.3g} ({len(means)} games, "
                f"{np.mean(seconds):.1f} s)" if means else "refused"
            )  # fmt: skip
        seeds = min((len(v) for k, v in runs.items() if k.split()[0] == method), default=0)
        lines.append([*line, str(seeds)])
    return markdown(["estimator", *BUDGETS, "seeds"], lines)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table())
    else:
        every = [
            "msr-linear", "msr-xgboost", "oddshap", "oddshap-3", "polyshap-2", "polyshap-2-pairs",
            "leverageshap",
        ]  # fmt: skip
        measure(int(sys.argv[2]), sys.argv[3:] or every)
