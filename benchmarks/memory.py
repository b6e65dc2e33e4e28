"""A million evaluations of a model with 2,048 test rows: how much memory, how large a ledger?

`exact` over 20 owners asks 2^20 = 1,048,576 pools; each is paid, committed to a ledger with its
scores of 2,048 test rows, and read back for its error bars. The model is made up, so that what is
measured is the library: its test rows score 0 or 1, or any real number. Keys are as long as those
of real models. Every run is a process of its own, whose memory is the most it ever held.

    python benchmarks/memory.py [--owners 20]        both, stored in results/memory.json
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import numpy as np

STORED = Path(__file__).parent / "results" / "memory.json"
ROWS = 2048
LIMITS = {"0 or 1": (500, 2.0), "any number": (500, 6.0)}
"""Megabytes of memory, gigabytes of ledger."""


def run(kind: str, owners: int, method: str, budget: int, ledger: Path | None) -> dict[str, float]:
    """One valuation in this process, and what it took."""
    import dushapley as ds
    from dushapley.games.base import Answers, Game, Scores
    from dushapley.games.policy import Training

    rng = np.random.default_rng(0)
    hardness, noise = rng.random(ROWS), rng.normal(size=4096 + ROWS)

    class Model(Game):
        """Scores of a model that learns from every owner a little, differently on every row."""

        def __init__(self) -> None:
            self._set_owners(None, None, owners)
            self.fingerprint = f"memory, {kind}"
            self.training = Training(deterministic=True, shift=0.0)
            self.worth = rng.random(owners) / owners

        def keys(self, queries, draws):
            packed = np.packbits(queries.astype(np.bool_), axis=1)
            return [sha256(row.tobytes()).digest() for row in packed]

        def evaluate(self, queries, draws):
            scores = np.stack([self.scores_of(float(pool @ self.worth)) for pool in queries])
            return Answers(scores.mean(axis=1), Scores(scores))

        def scores_of(self, level: float) -> np.ndarray:
            start = int(1e6 * level) % 4096
            scores = level - hardness + 0.1 * noise[start : start + ROWS]
            return (scores > 0).astype(np.float64) if kind == "0 or 1" else scores

    started = time.perf_counter()
    v = ds.value(Model(), method, budget=budget, ledger=ledger, progress=False)
    return {
        "evaluations": v.n_evaluations,
        "different": v.n_distinct,
        "test-set error known": v.errors["test set"] is not None,
        "seconds": round(time.perf_counter() - started),
        "memory, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
        "ledger, GB": 0.0 if ledger is None else round(ledger.stat().st_size / 1e9, 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--owners", type=int, default=20)
    options.add_argument("--method", default="exact")
    options.add_argument("--budget", type=int)
    options.add_argument("--kind", choices=LIMITS)
    options.add_argument("--no-ledger", action="store_true")
    given = options.parse_args()
    budget = given.budget or 2**given.owners
    if given.kind:
        with tempfile.TemporaryDirectory() as folder:
            ledger = None if given.no_ledger else Path(folder, "ledger.sqlite")
            print(json.dumps(run(given.kind, given.owners, given.method, budget, ledger)))
        return
    results = {}
    for kind, (memory, ledger) in LIMITS.items():
        command = [sys.executable, __file__, "--kind", kind, "--owners", str(given.owners)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[kind] = found = json.loads(told)
        print(f"{kind}: {found}")
        assert found["memory, MB"] < memory, "too much memory"
        assert found["ledger, GB"] < ledger, "too large a ledger"
    if given.owners == 20:
        STORED.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
