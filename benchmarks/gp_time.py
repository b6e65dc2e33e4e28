"""`gp`'s own computing time and memory, beside a bare loop of its cheapest rival.

    python benchmarks/gp_time.py

The game is a formula, so all the time is the method's. CPU seconds, best of three.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import numpy as np

import dushapley as ds

CASES = [(20, 120), (20, 800), (100, 600)]


def game(n: int) -> ds.Game:
    """Learning curve over rows of different quality, with unequal sizes."""
    rng = np.random.default_rng(n)
    sizes = np.exp(rng.uniform(2, 6, n))
    quality = rng.uniform(0.2, 1.0, n)

    def utility(z: np.ndarray) -> np.ndarray:
        rows = np.maximum(z @ sizes, 1e-9)
        return rows / (rows + 300) * (0.5 + 0.5 * (z @ (sizes * quality)) / rows)

    return ds.CallableGame(utility, n, sizes, cheap=True)


def seconds(run) -> float:
    def once() -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    return min(once() for _ in range(3))


def main() -> None:
    rows = []
    print("| owners | queries | gp, CPU s | permutation, CPU s | peak memory, MB |")
    print("|---|---|---|---|---|")
    for n, budget in CASES:
        played = game(n)
        own = seconds(lambda: ds.value(played, "gp", budget=budget))  # noqa: B023
        peer = seconds(lambda: ds.value(played, "permutation", budget=budget))  # noqa: B023
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append({"owners": n, "queries": budget, "gp": own, "peer": peer, "peak_mb": peak})
        print(f"| {n} | {budget} | {own:.1f} | {peer:.3f} | {peak:.0f} |", flush=True)
    path = Path(__file__).parent / "results" / "gp_time.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
