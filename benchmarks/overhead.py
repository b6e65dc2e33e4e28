"""What the front door costs: a utility of 50 µs bare, through `ds.value`, and with a ledger.

    python benchmarks/overhead.py [--json FILE]

CPU seconds, best of three, in one run with a bare loop over the same pools; the ledger alone in
blocks of 20,000, and how long a ledger of many evaluations takes to open.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import dushapley as ds
from dushapley.engine.ledger import Ledger

RESULT = Path(__file__).parent / "results" / "overhead.json"
OWNERS, BUDGET, EACH = 40, 12_000, 50e-6
BLOCK = 20_000


def busy(steps: int) -> Callable[[np.ndarray], np.ndarray]:
    """A utility that computes for a fixed number of steps a pool."""

    def utility(pools: np.ndarray) -> np.ndarray:
        worth = np.empty(len(pools))
        for row, pool in enumerate(pools):
            total = float(pool.sum())
            for _ in range(steps):
                total = total * 1.0000001
            worth[row] = total**0.5
        return worth

    return utility


def calibrated() -> Callable[[np.ndarray], np.ndarray]:
    """The utility of which one pool takes 50 µs here."""
    pools = np.ones((400, OWNERS), dtype=bool)
    steps = 1000
    for _ in range(6):
        seconds = best(lambda steps=steps: busy(steps)(pools))[0] / len(pools)
        steps = max(10, int(steps * EACH / seconds))
    return busy(steps)


def best(run: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    found = None
    seconds = []
    for _ in range(times):
        start = process_time()
        found = run()
        seconds.append(process_time() - start)
    return min(seconds), found


def front_door(folder: Path) -> dict[str, float]:
    utility = calibrated()
    game = ds.CallableGame(utility, OWNERS, fingerprint="busy")
    ds.value(game, "permutation", budget=400)  # imports what is needed
    pools = np.random.default_rng(0).random((BUDGET, OWNERS)) < 0.5
    number = iter(range(1000))

    def kept() -> ds.Valuation:
        return ds.value(
            game, "permutation", budget=BUDGET, ledger=folder / f"{next(number)}.sqlite"
        )

    door, found = best(lambda: ds.value(game, "permutation", budget=BUDGET))
    ledger, _ = best(kept)
    bare, _ = best(lambda: utility(pools[: found.n_computed]))
    return {
        "evaluations": found.n_computed,
        "bare_microseconds": 1e6 * bare / found.n_computed,
        "front_door_adds": door / bare - 1,
        "ledger_adds": ledger / bare - 1,
    }


def ledger_alone(folder: Path, count: int) -> dict[str, float]:
    keys = [sha256(str(i).encode()).digest() for i in range(count)]
    values = np.random.default_rng(0).random(count).tolist()
    cuts = [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]
    path = folder / "values.sqlite"
    with Ledger(path, "context") as ledger:
        start = process_time()
        for cut in cuts:
            ledger.write_values(keys[cut], values[cut])
        stored = process_time() - start
        found = best(lambda: [ledger.values(keys[cut]) for cut in cuts])[0]
    opened = best(lambda: Ledger(path, "context").close())[0]
    return {
        "evaluations": count,
        "stored_per_second": count / stored,
        "found_per_second": count / found,
        "seconds_to_open": opened,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=RESULT)
    parser.add_argument("--count", type=int, default=300_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"front door": front_door(Path(folder))}
        found["ledger alone"] = ledger_alone(Path(folder), args.count)
    print(json.dumps(found, indent=1))
    args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
