"""What the front door costs: a utility of 50 µs bare, through `ds.value`, and with a ledger.

    python benchmarks/overhead.py [--json FILE] [--turns 9] [--many 10_000_000]

First with a utility that costs nothing: all CPU time is the front door's, best of six. With
`--turns` also the utility of 50 µs: CPU seconds beside those of bare loops over as many pools, one
before and one after, the median over so many turns; and what is spent outside the utility as a part
of what is spent in it. The ledger alone in blocks of 20,000, and with `--many` how long a ledger of
so many evaluations takes to open.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np

import dushapley as ds
from dushapley.engine.ledger import Ledger

RESULT = Path(__file__).parent / "results" / "overhead.json"
OWNERS, EACH = 40, 50e-6
CASES = (
    ("exact", 14, 2**14),
    ("permutation", OWNERS, 20_000),
    ("stratified-svarm", OWNERS, 20_000),
)
BLOCK = 20_000


def spinning(pools: np.ndarray) -> np.ndarray:
    """A utility that takes 50 µs of CPU time a pool, by the clock.

    A loop of so many steps would differ from itself by a quarter on a shared machine, and with what
    else the process has in memory.
    """
    worth = np.empty(len(pools))
    for row, pool in enumerate(pools):
        end = thread_time() + EACH
        worth[row] = float(pool.sum()) ** 0.5
        while thread_time() < end:
            pass
    return worth


def best(run: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    found = None
    seconds = []
    for _ in range(times):
        start = process_time()
        found = run()
        seconds.append(process_time() - start)
    return min(seconds), found


def front_door(folder: Path, turns: int) -> list[dict[str, Any]]:
    return [added(spinning, *case, folder, turns) for case in CASES]


def alone(folder: Path) -> list[dict[str, Any]]:
    """CPU microseconds that an evaluation costs beside its utility."""
    rows = []
    for method, owners, budget in CASES:
        game = ds.CallableGame(lambda pools: pools.sum(axis=1) ** 0.5, owners, fingerprint="free")
        ds.value(game, "permutation", budget=400)  # imports what is needed
        door, ledger = [], []
        for turn in range(6):
            run = partial(ds.value, game, method, budget=budget)
            seconds, found = best(run, 1)
            door.append(1e6 * seconds / found.n_computed)
            kept, _ = best(partial(run, ledger=folder / f"free {method} {turn}.sqlite"), 1)
            ledger.append(1e6 * kept / found.n_computed)
        row = {"method": method, "evaluations": found.n_computed}
        rows.append(row | {"front_door": min(door), "with_ledger": min(ledger)})
    return rows


def added(
    utility: Callable[[np.ndarray], np.ndarray],
    method: str,
    owners: int,
    budget: int,
    folder: Path,
    turns: int,
) -> dict[str, Any]:
    clock = Clock(utility)
    game = ds.CallableGame(clock, owners, fingerprint="spinning")
    ds.value(game, "permutation", budget=400)  # imports what is needed
    pools = np.random.default_rng(0).random((budget, owners)) < 0.5
    bare, door, ledger, outside, kept_outside = [], [], [], [], []

    def run_bare() -> None:
        bare.append(best(lambda: utility(pools), 1)[0] / budget)

    run_bare()
    for turn in range(turns):
        path = folder / f"{method} {turn}.sqlite"
        for seconds, parts, more in ((door, outside, {}), (ledger, kept_outside, {"ledger": path})):
            clock.inside = 0.0
            taken, found = best(lambda more=more: ds.value(game, method, budget=budget, **more), 1)
            seconds.append(taken / found.n_computed)
            parts.append(taken / clock.inside - 1)
            run_bare()
    around = np.add(bare[:-1], bare[1:]) / 2
    return {
        "method": method,
        "evaluations": found.n_computed,
        "turns": turns,
        "bare_microseconds": [1e6 * min(bare), 1e6 * float(np.median(bare)), 1e6 * max(bare)],
        "front_door_adds": float(np.median(door / around[::2])) - 1,
        "ledger_adds": float(np.median(ledger / around[1::2])) - 1,
        "front_door_outside_the_utility": float(np.median(outside)),
        "ledger_outside_the_utility": float(np.median(kept_outside)),
    }


class Clock:
    """A utility that counts its CPU seconds."""

    def __init__(self, utility: Callable[[np.ndarray], np.ndarray]) -> None:
        self.utility, self.inside = utility, 0.0

    def __call__(self, pools: np.ndarray) -> np.ndarray:
        start = process_time()
        worth = self.utility(pools)
        self.inside += process_time() - start
        return worth


def ledger_alone(folder: Path, count: int) -> dict[str, float]:
    keys = [sha256(str(i).encode()).digest() for i in range(count)]
    values = np.random.default_rng(0).random(count)
    cuts = [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]
    number = iter(range(100))

    def stored() -> Path:
        path = folder / f"values {next(number)}.sqlite"
        with Ledger(path, "context") as ledger:
            for cut in cuts:
                ledger.commit_values(keys[cut], [None] * len(values[cut]), values[cut])
        return path

    seconds, path = best(stored)
    with Ledger(path, "context") as ledger:
        found = best(lambda: [len(ledger.read(keys[cut])) for cut in cuts])[0]
    return {
        "evaluations": count,
        "stored_per_second": count / seconds,
        "found_per_second": count / found,
    }


def many(folder: Path, count: int) -> dict[str, float]:
    """A ledger of so many values: how long it takes to open and to find a block."""
    path, rng = folder / "many.sqlite", np.random.default_rng(1)
    last: list[bytes] = []
    with Ledger(path, "context") as ledger:
        for start in range(0, count, 1_000_000):
            some = rng.bytes(32 * min(1_000_000, count - start))
            last = [some[at : at + 32] for at in range(0, len(some), 32)]
            ledger.commit_values(last, [None] * len(last), rng.random(len(last)))
    started = perf_counter()
    with Ledger(path, "context") as ledger:
        opened = perf_counter() - started
        first = ledger.read(last[:256])
        answered = perf_counter() - started - opened
    return {
        "evaluations": count,
        "seconds_to_open": opened,
        "seconds_to_find_256": answered,
        "found": len(first),
        "megabytes": path.stat().st_size / 1e6,
        "memory_megabytes": getrusage(RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=RESULT)
    parser.add_argument("--count", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--many", type=int, default=0, help="values of a large ledger to open")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"microseconds beside the utility": alone(Path(folder))}
        if args.turns:
            found["utility of 50 µs"] = front_door(Path(folder), args.turns)
        found["ledger alone"] = ledger_alone(Path(folder), args.count)
        if args.many:
            found["large ledger"] = many(Path(folder), args.many)
    print(json.dumps(found, indent=1))
    args.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
