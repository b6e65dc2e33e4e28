"""Pictures of docs/gp.md, from one stored game and the stored results of gp_games.py.

python benchmarks/gp_pictures.py
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import dushapley as ds
from dushapley.estimators.exact import bits
from dushapley.estimators.gp.study import Study
from dushapley.protocol import Problem
from gp_games import BEST_OTHER, BUDGETS
from stored_games import StoredGame, stored_games

FOLDER = Path(__file__).parent.parent / "docs" / "images"
RESULTS = Path(__file__).parent / "results" / "gp_stored_games.json"
BLUE, RUST, GREY = "#2f6fb2", "#b2532f", "#777777"


def studied(stored: StoredGame, budget: int, seed: int = 0) -> Study:
    """A finished study of a game, with everything it believes."""
    game, n = stored.game, stored.game.n_players
    study = Study(
        Problem(
            n_players=n,
            sizes=game.sizes,
            fractions="none",
            budget=budget - 2,
            empty=float(game.values[0]),
            full=float(game.values[-1]),
            options={},
            rng=np.random.default_rng(seed),
        )
    )
    while study.left:
        pools = study.next_batch()
        study.learn(pools, game(pools))
    return study


def save(figure: plt.Figure, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FOLDER / name, dpi=90, metadata={"Software": None})
    plt.close(figure)


def surface(stored: StoredGame, study: Study) -> None:
    """All pools by size: what they are worth, and which were asked."""
    n = stored.game.n_players
    pools = bits(np.arange(1, 2**n), n)
    rows = pools @ stored.game.sizes
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
    left.scatter(rows, stored.game(pools), s=2, color="#cccccc", label="all 4,095 pools")
    left.scatter(
        study.pools @ stored.game.sizes, study.answers, s=12, color=BLUE, label="pools asked"
    )
    left.set(xscale="log", xlabel="rows in the pool", ylabel="utility")
    left.legend(frameon=False)
    seen = {pool.tobytes() for pool in study.pools}
    unseen = pools[[pool.tobytes() not in seen for pool in pools]]
    observed = study.posterior.observed
    mean = np.concatenate([study.posterior.predict(p)[0] for p in np.array_split(unseen, 8)])
    right.scatter(observed.centre + observed.scale * mean, stored.game(unseen), s=2, color=BLUE)
    ends = [stored.game.values[1:].min(), stored.game.values[1:].max()]
    right.plot(ends, ends, color=GREY, linewidth=0.8)
    right.set(xlabel="predicted utility of pools never asked", ylabel="their utility")
    save(figure, "gp-surface.png")


def intervals(stored: StoredGame) -> None:
    """Values with their intervals at two budgets, beside the exact ones."""
    n = stored.game.n_players
    figure, axes = plt.subplots(figsize=(8.6, 3.2), layout="constrained")
    order = np.argsort(-stored.exact)
    for shift, budget, colour in ((-0.15, 6 * n, RUST), (0.15, 2 * n * n, BLUE)):
        v = ds.value(stored.game, "gp", budget=budget)
        axes.errorbar(
            np.arange(n) + shift,
            v.values[order],
            yerr=1.96 * v.std_errors[order],
            fmt="o",
            markersize=4,
            color=colour,
            label=f"{budget} evaluations",
        )
    axes.plot(stored.exact[order], "_", color="black", markersize=22, label="exact (4,096)")
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.set(xlabel="owner, by value", ylabel="value", xticks=[])
    axes.legend(frameon=False)
    save(figure, "gp-intervals.png")


def errors() -> None:
    """Error against budget, all stored games."""
    runs = json.loads(RESULTS.read_text())["runs"]
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for what, colour, label in (
        ("relative_mse", BLUE, "gp"),
        ("permutation", RUST, "permutation sampling"),
    ):
        means = [
            [
                np.mean([run[what] for key, run in runs.items() if key.startswith(f"{g} {b} ")])
                for g in BEST_OTHER
            ]
            for b in BUDGETS
        ]
        axes.plot(list(BUDGETS), means, color=colour, alpha=0.25, linewidth=1)
        middle = np.exp(np.mean(np.log(means), axis=1))
        axes.plot(list(BUDGETS), middle, "o-", color=colour, label=label)
    best = np.exp(np.mean(np.log(list(BEST_OTHER.values()))))
    axes.plot(["2I²"], [best], "s", color=GREY, label="best other method, game by game")
    axes.set(yscale="log", xlabel="evaluations", ylabel="relative MSE (1: all paid the same)")
    axes.legend(frameon=False)
    save(figure, "gp-error.png")


def main() -> None:
    stored = next(game for game in stored_games() if game.name == "adult-noisy-12")
    surface(stored, studied(stored, 72))
    intervals(stored)
    errors()


if __name__ == "__main__":
    main()
