"""Use-case 3 with owners of different precision: exact values, certificate, the footnote's bound.

    python benchmarks/precisions.py [--cases 10000]      writes results/precisions.json

References are written here from the formulas alone: the fixed point by bisection, Shapley values by
all coalitions, DU-Shapley term by term. Then 1,000 owners of four precisions.
"""

from __future__ import annotations

import argparse
import json
import time
from math import comb
from pathlib import Path

import numpy as np

import dushapley as ds

OUT = Path(__file__).parent / "results" / "precisions.json"


def utility(rows: np.ndarray, gamma: np.ndarray, d: int) -> np.ndarray:
    """max(−d, −d·x) with Σ n γ² x/(1 + (d+1)γ² x) = 1, by bisection in ln x; −d if Σn ≤ d+1."""
    found = np.full(len(rows), -float(d))
    solvable = rows.sum(axis=1) > d + 1
    n, g2 = rows[solvable], gamma**2
    free = n.sum(axis=1) - d - 1  # were all as precise as the best, or as the worst
    low, high = -np.log(g2.max() * free), -np.log(g2.min() * free)
    for _ in range(54):
        middle = (low + high) / 2
        x = np.exp(middle)[:, None]
        more = (n * g2 * x / (1 + (d + 1) * g2 * x)).sum(axis=1) < 1
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    found[solvable] = np.maximum(-d, -d * np.exp((low + high) / 2))
    return found


def references(sizes: np.ndarray, gamma: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values by all coalitions; DU-Shapley by what i adds to k/(I−1) of all others."""
    n = len(sizes)
    pools = np.arange(2**n)
    present = (pools[:, None] >> np.arange(n)) & 1
    shares = np.repeat(np.arange(n)[None, :, None] / (n - 1) * sizes, n, axis=0)
    own = np.eye(n)[:, None, :]
    shared = [(shares * (1 - own) + joined * own * sizes).reshape(-1, n) for joined in (1, 0)]
    u = utility(np.concatenate([present * sizes, *shared]), gamma, d)
    added, kept = u[2**n :].reshape(2, n, n)
    count = present.sum(axis=1)
    weight = np.array([1 / (n * comb(n - 1, k)) for k in range(n)])
    values = np.empty(n)
    for i in range(n):
        without = pools[present[:, i] == 0]
        values[i] = weight[count[without]] @ (u[without | (1 << i)] - u[without])
    return values, (added - kept).mean(axis=1)


def drawn(rng: np.random.Generator, large: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Up to seven owners of four precisions; large ones each have an estimate of their own."""
    n, d = int(rng.integers(3, 8)), int(rng.integers(1, 7))
    gamma = rng.choice(10 ** rng.uniform(-1, 1, 4), n)
    least = d + 2 + 1 / gamma.min() ** 2 if large else 1
    spread = 10 ** rng.uniform(0, 2.5)
    sizes = np.ceil(least * spread ** rng.uniform(0, 1, n) * (1 + rng.random() * large))
    if rng.random() < 0.3:  # few kinds, as in the large games
        sizes = sizes[rng.integers(0, 2, n)]
    return sizes, gamma, d


def tried(cases: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    worst = {"exact": 0.0, "du": 0.0, "certificate": 0.0, "footnote": 0.0}
    violated = {"certificate": 0, "footnote": 0}
    asked = {"certificate": 0, "footnote": 0}
    for number in range(cases):
        sizes, gamma, d = drawn(rng, large=number % 2 == 0)
        game = ds.LinearRegressionGame(sizes, gamma, d)
        exact, du = references(sizes, gamma, d)
        if number % 10 == 0:
            for name, reference in (("exact", exact), ("du", du)):
                found = game.closed_form(name)
                assert found is not None
                worst[name] = max(worst[name], float(np.abs(found.values - reference).max()))
        error = np.abs(du - exact)
        bounds = {"certificate": ds.guarantees.certificate(game).bound}
        if number % 2 == 0:
            bounds["footnote"] = ds.guarantees.footnote_bound(game).bound
        for name, bound in bounds.items():
            asked[name] += 1
            violated[name] += bool((error > bound + 1e-12).any())  # bisection is as exact
            tight = (error / np.maximum(bound, 1e-300))[error > 1e-9]
            worst[name] = max(worst[name], float(tight.max(initial=0.0)))
    return {"cases": asked, "violated": violated, "largest gap or error over bound": worst}


def many() -> dict[str, object]:
    """1,000 owners of four kinds: time, and how exact the values add up."""
    kind = np.arange(1000) % 4
    sizes, gamma = np.array([20.0, 40, 60, 30])[kind], np.array([0.5, 1, 2, 4])[kind]
    game = ds.LinearRegressionGame(sizes, gamma, 5)
    start = time.process_time()
    exact = ds.value(game, "exact")
    seconds = time.process_time() - start
    du = ds.value(game, "du").values
    whole = float(utility(sizes[None], gamma, 5)[0] + 5)
    gap = np.abs(du - exact.values)
    return {
        "seconds": seconds,
        "values": exact.values[:4].tolist(),
        "sum less u(all) − u(nobody)": float(exact.values.sum() - whole),
        "du off by": gap[:4].tolist(),
        "footnote": ds.guarantees.footnote_bound(game).bound[:4].tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    found = {"tried": tried(parser.parse_args().cases), "1,000 owners": many()}
    print(json.dumps(found, indent=1))
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
