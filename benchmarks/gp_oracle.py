"""How much of `gp`'s error would go if its hyper-parameters were known? On the half for tuning.

    python benchmarks/gp_oracle.py [SEEDS] [PROCESSES]

Hyper-parameters are fitted to 400 pools of the complete game and then given to every fit of a run
at 6I, questions included. What is left is the price of this kernel with so few answers; better
priors, longer fits and averages over hyper-parameters cannot take more than the difference.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

import numpy as np

import dushapley as ds
from complete_games import TUNE, complete_game
from dushapley.arrays import FloatArray
from dushapley.estimators.gp import kernel, study
from dushapley.estimators.gp.fit import Observed, fit
from stored_games import StoredGame
from tables import load, markdown, save

POOLS, STEPS = 400, 150


def hindsight(stored: StoredGame) -> FloatArray:
    """Hyper-parameters fitted to so many pools, all owners alone and everybody among them."""
    game = stored.game
    n = game.n_players
    chances = study.by_power(n, 1.0)
    drawn = study.spread_pools(n, POOLS - n - 1, chances, set(), np.random.default_rng(5))
    pools = np.concatenate([np.eye(n, dtype=np.bool_), np.ones((1, n), dtype=np.bool_), drawn])
    answers = game.values[pools @ (1 << np.arange(n))]
    sizes = kernel.log_relative_sizes(np.asarray(game.sizes, dtype=np.float64))
    return fit(Observed(pools, answers, sizes), None, STEPS, POOLS)


def both_ways(task: tuple[str, int]) -> tuple[str, list[float], list[float]]:
    """Relative MSE by seed, of `gp` as it is and of one that knows."""
    name, seeds = task
    stored = complete_game(name)
    known = hindsight(stored)

    def errors() -> list[float]:
        budget = 6 * stored.game.n_players
        runs = (ds.value(stored.game, "gp", budget=budget, seed=1000 + s) for s in range(seeds))
        return [float(f"{stored.relative_mse(v.values):.4g}") for v in runs]

    usual = errors()
    with patch.object(study, "fit", lambda *_: known):
        return name, usual, errors()


def main() -> None:
    if len(sys.argv) > 1:
        seeds, processes = int(sys.argv[1]), int((sys.argv[2:] or ["1"])[0])
        with ProcessPoolExecutor(processes) as pool:
            tasks = [(name, seeds) for name in TUNE]
            made = {
                name: {"fitted": usual, "known": known}
                for name, usual, known in pool.map(both_ways, tasks)
            }
        save("gp_oracle", made)
    found = load("gp_oracle")
    lines = [
        [name, f"{np.mean(e['fitted']):.5f}", f"{np.mean(e['known']):.5f}"]
        for name, e in found.items()
    ]
    logs = [[np.log(np.mean(e[k])) for e in found.values()] for k in ("fitted", "known")]
    fitted, known = np.exp(np.mean(logs, axis=1))
    lines.append(["geometric mean", f"{fitted:.5f}", f"{known:.5f} ({known / fitted:.2f})"])
    print(markdown(["game", "fitted", "known"], lines))


if __name__ == "__main__":
    main()
