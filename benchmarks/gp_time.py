"""`gp`'s own computing time and memory, from twenty owners to a thousand, beside a bare sampler.

    OMP_NUM_THREADS=2 python benchmarks/gp_time.py

The games are formulas, so all the time is the method's; seconds on the wall and of the processor,
once each (a machine that does other work as well shows in the difference).

    python benchmarks/gp_time.py knn 1000 3      # coverage on nearest-neighbour games, 3 seeds

The values of those games are known exactly.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import dushapley as ds

CASES = [(20, 120), (20, 800), (100, 600), (400, 2400), (1000, 6000)]
PATH = Path(__file__).parent / "results" / "gp_time.json"


def game(n: int) -> ds.Game:
    """Learning curve over rows of different quality, with unequal sizes."""
    rng = np.random.default_rng(n)
    sizes = np.exp(rng.uniform(2, 6, n))
    quality = rng.uniform(0.2, 1.0, n)

    def utility(z: np.ndarray) -> np.ndarray:
        rows = np.maximum(z @ sizes, 1e-9)
        return rows / (rows + 300) * (0.5 + 0.5 * (z @ (sizes * quality)) / rows)

    return ds.CallableGame(utility, n, sizes, cheap=True)


def neighbours(n: int, seed: int) -> ds.KNNGame:
    """Owners of unequal sizes with rows of four classes in six dimensions, a sixth mislabelled."""
    rng = np.random.default_rng([n, seed])
    centres = 1.5 * rng.standard_normal((4, 6))

    def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
        label = rng.integers(0, 4, count)
        return centres[label] + rng.standard_normal((count, 6)), label

    blocks = {}
    for owner in range(n):
        X, y = rows(int(rng.integers(2, 20)))
        blocks[str(owner)] = (X, rng.integers(0, 4, len(y)) if owner % 6 == 0 else y)
    return ds.KNNGame(ds.Owners.from_arrays(blocks), *rows(100), k=5)


def timed(method: str, n: int, budget: int) -> dict[str, float]:
    played = game(n)
    wall, cpu = time.perf_counter(), time.process_time()
    ds.value(played, method, budget=budget)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "wall": round(time.perf_counter() - wall, 2),
        "cpu": round(time.process_time() - cpu, 2),
        "peak_mb": round(peak),
    }


def times(path: Path, most: int) -> None:
    found = json.loads(path.read_text()) if path.exists() else {}
    print("| owners | queries | gp, s | gp, CPU s | permutation, CPU s | peak memory, MB |")
    print("|---|---|---|---|---|---|")
    for n, budget in [case for case in CASES if case[0] <= most]:
        own, peer = timed("gp", n, budget), timed("permutation", n, budget)
        found[f"{n} owners, {budget} queries"] = {**own, "permutation cpu": peer["cpu"]}
        print(f"| {n} | {budget} | {own['wall']:.1f} | {own['cpu']:.1f} | {peer['cpu']:.2f} "
              f"| {own['peak_mb']} |", flush=True)  # fmt: skip
        path.write_text(json.dumps(found, indent=1) + "\n")


def coverage(path: Path, n: int, seeds: int) -> None:
    found = json.loads(path.read_text()) if path.exists() else {}
    for seed in range(seeds):
        played = neighbours(n, seed)
        exact = ds.value(played, "exact").values
        start = time.process_time()
        asked = ds.CallableGame(played, n, played.sizes, cheap=True)
        v = ds.value(asked, "gp", budget=6 * n, seed=seed)
        line = {
            "relative_mse": float(np.mean((v.values - exact) ** 2) / exact.var()),
            "coverage": float((np.abs(v.values - exact) <= 1.96 * v.std_errors).mean()),
            "half-width / RMSE": float(
                1.96 * v.std_errors.mean() / np.mean((v.values - exact) ** 2) ** 0.5
            ),
            "cpu": round(time.process_time() - start, 1),
        }
        found[f"knn, {n} owners, seed {seed}"] = line
        print(n, seed, line, v.notes, flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", choices=["times", "knn"], default="times")
    parser.add_argument("owners", nargs="?", type=int, default=1000)
    parser.add_argument("seeds", nargs="?", type=int, default=3)
    parser.add_argument("--json", type=Path, default=PATH)
    args = parser.parse_args()
    if args.what == "times":
        times(args.json, args.owners)
    else:
        coverage(args.json, args.owners, args.seeds)


if __name__ == "__main__":
    main()
