"""DU-Shapley's error against exact values, I = 5 to 20: draws docs/images/du-error.svg.

python benchmarks/du_error.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dushapley as ds

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "du-error.svg"
CURVES = {
    "steep: 1 − 100/(100+n)": lambda n: 1 - 100 / (100 + n),
    "smooth: 1 − 1000/(1000+n)": lambda n: 1 - 1000 / (1000 + n),
}


def errors(n_players: int, w, draws: int = 30) -> tuple[float, float]:
    """Mean absolute error over owners and draws of sizes, also over the mean value."""
    rng = np.random.default_rng(n_players)
    absolute, relative = [], []
    for _ in range(draws):
        game = ds.SizeGame(rng.integers(1, 1001, n_players), w)
        exact = ds.value(game, "exact").values
        error = np.abs(ds.value(game, "du").values - exact).mean()
        absolute.append(error)
        relative.append(error / exact.mean())
    return float(np.mean(absolute)), float(np.mean(relative))


def main() -> None:
    players = list(range(5, 21))
    mpl.rcParams["svg.hashsalt"] = "dushapley"  # same input, same bytes
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    axes = figure.subplots(1, 2)
    print("| owners | " + " | ".join(f"{name}, absolute | relative" for name in CURVES) + " |")
    found = {name: np.array([errors(n, w) for n in players]) for name, w in CURVES.items()}
    print("|---" * (1 + 2 * len(CURVES)) + "|")
    for row, n in enumerate(players):
        cells = [f"{found[k][row, 0]:.5f} | {found[k][row, 1]:.1%}" for k in CURVES]
        print(f"| {n} | " + " | ".join(cells) + " |")
    for name, error in found.items():
        axes[0].plot(players, error[:, 0], marker="o", markersize=3, label=name)
        axes[1].plot(players, 100 * error[:, 1], marker="o", markersize=3, label=name)
    axes[0].set(xlabel="owners", ylabel="mean |DU − exact|", ylim=(0, None))
    axes[1].set(xlabel="owners", ylabel="% of the mean value", ylim=(0, None))
    axes[0].legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.set_xticks(range(5, 21, 5))
        ax.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
