"""Games that pyDVL and shapiq test themselves with, through every method that takes them.

pyDVL's games (`pydvl.valuation.games`: voting, shoes, airport, minimum spanning tree, miners) are
stated anew, since its pin of NumPy excludes ours; shapiq's are its dummy game and a sum of
unanimity games. Their Shapley values are known by formula and stand beside ours. Every method runs
at 2I² with the seeds named on the command line (default 8; `gp` five). "away" is the distance of
the mean over seeds from the truth, in standard errors of that mean, of the worst owner: an
unbiased method stays below 5. "hold" is how often 95% intervals hold. Run: python
benchmarks/other_games.py [SEEDS]
"""

from __future__ import annotations

import json
import sys
import warnings
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

import dushapley as ds
from dushapley.estimators.registry import REGISTRY, coalition_methods

MOST_AWAY = 5.0
SLOW = {"gp": 5}


def majority(n: int) -> tuple[Any, np.ndarray]:
    """More than half of the voters win; all are worth the same."""
    return lambda z: (z.sum(axis=1) > n / 2).astype(float), np.full(n, 1 / n)


def shoes(left: int, right: int) -> tuple[Any, np.ndarray]:
    """Pairs of shoes; values by counting orders, as pyDVL's formula does."""
    game = ds.games.glove(left, right)
    return _asked(game), _formula(game)


def _asked(game: ds.Game) -> Any:
    return game.__call__


def _formula(game: ds.Game) -> np.ndarray:
    found = game.closed_form("exact")
    assert found is not None
    return found.values


def voting() -> tuple[Any, np.ndarray]:
    """Votes of unequal weight; values by counting pivots of each size."""
    game = ds.games.voting([7, 5, 4, 3, 2, 2, 1, 1], 13)
    return _asked(game), _formula(game)


def airport() -> tuple[Any, np.ndarray]:
    """A landing strip as long as the largest plane needs: each stretch is shared by its users."""
    costs = np.repeat([1.0, 2, 3, 4], [3, 2, 3, 2])
    steps = np.diff(np.unique(costs), prepend=0)
    levels = np.cumsum(steps)
    shared = steps / np.array([(costs >= level).sum() for level in levels])
    values = np.array([shared[levels <= cost].sum() for cost in costs])
    return lambda z: (z * costs).max(axis=1), values


def spanning_tree(n: int) -> tuple[Any, np.ndarray]:
    """Cost of connecting houses on a ring (1 a step) with a source (n + 1 away): 2 each."""
    graph = np.zeros((n + 1, n + 1))
    for i in range(n):
        graph[i, (i + 1) % n] = graph[(i + 1) % n, i] = 1
        graph[i, n] = graph[n, i] = n + 1

    def cost(z: np.ndarray) -> np.ndarray:
        found = []
        for row in z:
            inside = np.flatnonzero(np.append(row, True))
            found.append(minimum_spanning_tree(graph[np.ix_(inside, inside)]).sum())
        return np.array(found)

    return cost, np.full(n, 2.0)


def miners(n: int) -> tuple[Any, np.ndarray]:
    """Two are needed to carry a bar of gold."""
    value = 0.5 if n % 2 == 0 else (n - 1) / (2 * n)
    return lambda z: np.floor(z.sum(axis=1) / 2), np.full(n, value)


def dummy(n: int) -> tuple[Any, np.ndarray]:
    """shapiq's: everybody brings 1/n, and two of them together 1 more."""
    values = np.full(n, 1 / n)
    values[[1, 2]] += 0.5
    return lambda z: z.sum(axis=1) / n + (z[:, 1] & z[:, 2]), values


def unanimity(n: int) -> tuple[Any, np.ndarray]:
    """shapiq's SOUM: a sum of unanimity games; each shares its weight among its members."""
    rng = np.random.default_rng(4)
    members = [rng.permutation(n)[: rng.integers(1, n)] for _ in range(15)]
    weights = rng.uniform(-1, 1, 15)
    values = np.zeros(n)
    for some, weight in zip(members, weights, strict=True):
        values[some] += weight / len(some)

    def utility(z: np.ndarray) -> np.ndarray:
        return sum(w * z[:, m].all(axis=1) for m, w in zip(members, weights, strict=True))

    return utility, values


GAMES = {
    "pyDVL: symmetric voting": majority(9),
    "pyDVL: asymmetric voting": voting(),
    "pyDVL: shoes": shoes(3, 4),
    "pyDVL: airport": airport(),
    "pyDVL: minimum spanning tree": spanning_tree(8),
    "pyDVL: miners": miners(9),
    "shapiq: dummy": dummy(8),
    "shapiq: sum of unanimity games": unanimity(9),
}


def by_hand(utility: Any, n: int) -> np.ndarray:
    """Shapley values straight from the definition."""
    values = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for some in combinations(others, size):
                pool = np.zeros((2, n), dtype=bool)
                pool[:, list(some)] = True
                pool[1, i] = True
                values[i] += np.diff(utility(pool))[0] / (n * comb(n - 1, size))
    return values


def judged(name: str, method: str, utility: Any, truth: np.ndarray, seeds: int) -> dict[str, Any]:
    """One method on one game over all seeds."""
    n = len(truth)
    own = REGISTRY[method]
    options = own.complete(None)
    budget = 2**n if method == "exact" else max(2 * n**2, own.least(n, options))
    game = ds.CallableGame(utility, n, cheap=True)
    runs = [ds.value(game, method, budget=budget, seed=s) for s in range(SLOW.get(method, seeds))]
    values = np.array([v.values for v in runs])
    off = values - truth
    spread = values.std(axis=0, ddof=1) / len(runs) ** 0.5
    least = 1e-12 + 1e-9 * np.abs(truth).max()
    away = float((np.abs(off.mean(axis=0)) / np.maximum(spread, least)).max())
    known = [v for v in runs if v.std_errors is not None and v.std_errors.any()]
    held = [np.abs(v.values - truth) <= 1.96 * v.std_errors + least for v in known]
    biased = own.is_biased(options) or method == "gp"
    return {
        "game": name,
        "method": method,
        "evaluations": budget,
        "biased": biased,
        "largest error": float(f"{np.abs(off).max():.2g}"),
        "away": None if biased else round(away, 2),
        "hold": round(100 * float(np.mean(held)), 1) if held else None,
        "intervals": int(np.size(held)),
    }


def main(seeds: int) -> None:
    warnings.simplefilter("ignore")
    table, wrong = [], []
    for name, (utility, truth) in GAMES.items():
        assert np.abs(by_hand(utility, len(truth)) - truth).max() < 1e-12, name
        for method in coalition_methods():
            line = judged(name, method, utility, truth, seeds)
            table.append(line)
            print(*line.values(), flush=True)
            exact = method == "exact" and line["largest error"] > 1e-12
            if exact or (not line["biased"] and line["away"] > MOST_AWAY):
                wrong.append(f"{method} on {name}")
    fair = [x for x in table if not x["biased"] and x["hold"] is not None]
    pooled = np.average([x["hold"] for x in fair], weights=[x["intervals"] for x in fair])
    print(f"wrong values: {wrong or 'none'}; intervals of unbiased methods hold: {pooled:.1f}%")
    kept = {
        "seeds": seeds,
        "wrong values": wrong,
        "intervals of unbiased methods that hold, %": round(float(pooled), 1),
        "table": table,
    }
    store = Path(__file__).parent / "results" / "other_games.json"
    store.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
