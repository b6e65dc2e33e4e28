"""Memory of methods that ask very much: does it grow with the budget?

`stratified-svarm` on 100 owners with growing budgets, and `leverage` on 1,000 owners with 20,000
pools, of a game that costs nothing. Every run is a process of its own; its memory is the most that
it ever held, beside that of a process that only imports the library and makes the game.

    python benchmarks/streaming.py [MILLIONS ...]     stored in results/streaming.json
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

STORED = Path(__file__).parent / "results" / "streaming.json"
MILLIONS = (1, 6)
BEFORE = {"stratified-svarm, 6 million": 9700, "leverage, 1,000 owners, 20,000 pools": 8600}
"""Megabytes that it took when everything asked was kept."""


def run(method: str, owners: int, budget: int) -> dict[str, float]:
    """One valuation in this process, and what it took."""
    import numpy as np

    import dushapley as ds

    sizes = np.random.default_rng(0).integers(1, 100, owners)
    game = ds.SizeGame(sizes, lambda n: n / (n + 1000))
    found: dict[str, float] = {}
    started = time.process_time()
    if budget:
        values = ds.value(game, method, budget=budget).values
        exact = ds.value(game, "exact").values
        error = float(np.mean((values - exact) ** 2) / exact.var())
        found["relative mean squared error"] = float(f"{error:.2g}")
    found["CPU seconds"] = round(time.process_time() - started, 1)
    found["memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def measured(method: str, owners: int, budget: int) -> dict[str, float]:
    """The same in a process of its own."""
    words = [sys.executable, "-W", "ignore", __file__, "--one", method, str(owners), str(budget)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(told)


def main(millions: list[int]) -> None:
    found = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    cases = [
        (f"stratified-svarm, {m} million", "stratified-svarm", 100, m * 10**6) for m in millions
    ]
    cases.insert(0, ("nothing asked", "loo", 100, 0))
    cases.append(("leverage, 1,000 owners, 20,000 pools", "leverage", 1000, 20_000))
    for name, *case in cases:
        if name in found:  # it was measured before; remove the file to measure all anew
            continue
        found[name] = measured(*case)
        if name in BEFORE:
            found[name]["memory before, MB"] = BEFORE[name]
        print(name, found[name], flush=True)
        text = json.dumps(found, indent=1, ensure_ascii=False)
        STORED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main([int(word) for word in sys.argv[1:]] or list(MILLIONS))
