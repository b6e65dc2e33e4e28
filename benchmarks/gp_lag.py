"""What it costs gp to choose many questions at a time, so that a cluster is kept busy.

    python benchmarks/gp_lag.py [--seeds 40]

The six stored games at 6I evaluations: gp as it is, whose questions of a batch are chosen without
each other's answers, beside gp that waits for every answer. Error is the root mean square over
seeds and owners; the figure is the ratio of the two. Stored run by run, so that a stopped benchmark
resumes where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import dushapley as ds
from dushapley.arrays import FloatArray
from dushapley.estimators.gp.study import CHECKED, Study
from stored_games import StoredGame, stored_games

RESULT = Path(__file__).parent / "results" / "gp_lag.json"


@contextmanager
def one_by_one() -> Iterator[None]:
    """Let gp ask one question after the other once the pilot is answered.

    As many of them are drawn at random as of twelve that are asked together.
    """
    size, at_random = Study._batch_size, Study._at_random

    def in_turn(self: Study, count: int) -> tuple[int, FloatArray]:
        wanted, chances = at_random(self, CHECKED)
        asked = len(self.pools)
        return count * ((asked + 1) * wanted // CHECKED - asked * wanted // CHECKED), chances

    Study._batch_size = lambda _self: 1  # type: ignore[method-assign]
    Study._at_random = in_turn  # type: ignore[method-assign]
    try:
        yield
    finally:
        Study._batch_size, Study._at_random = size, at_random  # type: ignore[method-assign]


def one_run(stored: StoredGame, seed: int) -> dict[str, float]:
    budget = 6 * stored.game.n_players
    batched = ds.value(stored.game, "gp", budget=budget, seed=seed)
    with one_by_one():
        waiting = ds.value(stored.game, "gp", budget=budget, seed=seed)
    errors = [float(((v.values - stored.exact) ** 2).mean()) for v in (batched, waiting)]
    return {"batched": errors[0], "one_by_one": errors[1], "lag": batched.details["lag"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    seeds = parser.parse_args().seeds
    runs = json.loads(RESULT.read_text())["runs"] if RESULT.exists() else {}
    games = list(stored_games())
    for seed in range(seeds):
        for stored in games:
            done = runs.setdefault(stored.name, {})
            if str(seed) not in done:
                done[str(seed)] = one_run(stored, seed)
                RESULT.write_text(
                    json.dumps({"ratio": ratios(runs), "runs": runs}, indent=1) + "\n"
                )
    for name, ratio in ratios(runs).items():
        print(f"| {name} | {ratio:.3f} |")


def ratios(runs: dict[str, dict[str, dict[str, float]]]) -> dict[str, float]:
    """Root mean square errors over one by one, by game, and their geometric mean."""
    found = {
        name: float(
            np.sqrt(
                np.mean([run["batched"] for run in by_seed.values()])
                / np.mean([run["one_by_one"] for run in by_seed.values()])
            )
        )
        for name, by_seed in runs.items()
        if by_seed
    }
    return {**found, "geometric mean": float(np.exp(np.mean(np.log(list(found.values())))))}


if __name__ == "__main__":
    main()
