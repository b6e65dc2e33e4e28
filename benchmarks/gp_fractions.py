"""Do pools that hold part of everybody's rows help `gp`? Its pilot with and without them.

    python benchmarks/gp_fractions.py

Ridge regression on housing and logistic regression on adult, ten owners, 60 evaluations. The
pilot's random pools (15 of 60) are whole owners (as shipped), or hold the same share of every
owner's rows, drawn at random: DU-Shapley's questions. Relative MSE, mean over 4 seeds.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import dushapley as ds
from dushapley.estimators.gp.study import Study
from dushapley.protocol import Problem
from gp_versus_du import N, adult, dataset_game, housing

SEEDS = range(4)


class FractionalStudy(Study):
    """A study whose pilot asks for shares of everybody's rows."""

    def next_batch(self) -> np.ndarray:
        pools = super().next_batch()
        if self.posterior is not None:
            return pools
        mixed = pools.astype(np.float64)
        mixed[N:] = (pools[N:] @ self.problem.sizes / self.problem.sizes.sum())[:, None]
        return mixed


def estimate(kind: type[Study], game: ds.Game, seed: int) -> np.ndarray:
    ends = np.array([np.zeros(N), np.ones(N)])
    empty, full = game(ends)
    rng = np.random.default_rng(seed)
    study = kind(Problem(N, game.sizes, "rows", 58, empty, full, {}, rng))
    while study.left:
        pools = study.next_batch()
        study.learn(pools, game(pools, np.arange(len(pools)) + 1000 * len(study.pools)))
    return study._by_process().values


def main() -> None:
    rows = []
    print("| data | owners | whole owners | shares of everybody |\n|---|---|---|---|")
    for load in (adult, housing):
        for kind in ("i.i.d.", "shifted"):
            game = dataset_game(load.__name__, *load(), kind)
            exact = ds.value(game, "exact").values
            error = [
                float(
                    np.mean([np.mean((estimate(study, game, s) - exact) ** 2) for s in SEEDS])
                    / np.var(exact)
                )
                for study in (Study, FractionalStudy)
            ]
            rows.append(
                {"data": load.__name__, "owners": kind, "whole": error[0], "shares": error[1]}
            )
            print(f"| {load.__name__} | {kind} | {error[0]:.4f} | {error[1]:.4f} |", flush=True)
    path = Path(__file__).parent / "results" / "gp_fractions.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
