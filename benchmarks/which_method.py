"""Draws docs/images/which-method.svg: which method to take, with the figures it rests on.

    python benchmarks/which_method.py

Every number is read from benchmarks/results: nothing is measured here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from scipy.stats import gmean

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "images" / "which-method.svg"
SHOWN = ("permutation", "antithetic", "tmc", "owen", "stratified-svarm", "kernel", "leverage")
INK, TAKE, ASK = "#1f2933", "#d9f0e3", "#e8eefc"


def stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def errors_of_samplers() -> dict[str, float]:
    """Geometric mean over the stored games of the relative MSE at 2I² evaluations."""
    games = stored("stored_games").values()
    return {
        method: float(gmean([game[method][2][0] for game in games]))
        for method in SHOWN
        if all(method in game for game in games)
    }


def errors_of_gp() -> dict[str, float]:
    """The same of `gp`, by budget."""
    rows = [line.split("|") for line in stored("gp_stored_games")["table"]]
    cells = {row[1].strip(): row for row in rows}
    column = [cell.strip() for cell in rows[0]].index("geometric mean")
    return {budget: float(cells[budget][column]) for budget in ("6I", "2I²")}


def questions(gp: dict[str, float], samplers: dict[str, float]) -> list[tuple[str, str]]:
    """What to ask oneself, and what to take if the answer is yes."""
    seconds = stored("guarantees")["speed"][0][1]
    ridge = stored("trainings")["rows"][0]["ms_per_training"]
    best = min(samplers, key=lambda method: samplers[method])
    return [
        (
            "Does a formula give the score\n(only row counts matter, or KNN)?",
            f"exact, by formula\n1,000 owners in {seconds:.1f} s",
        ),
        (
            "Few owners, or trainings for nothing\n(2^I pools fit your budget)?",
            f"exact, by enumeration\nridge: {1000 * ridge:.0f} µs a training",
        ),
        (
            "More owners than trainings,\nand marginals cheap?",
            "centres\neverybody around a few pools",
        ),
        (
            "Must the estimate be unbiased,\nwhatever the game is like?",
            f"{best}\nrelative MSE {samplers[best]:.2g} at 2I²",
        ),
        (
            "Else, which is nearly always:",
            f"gp\nrelative MSE {gp['6I']:.2g} at 6I, {gp['2I²']:.1g} at 2I²",
        ),
    ]


def draw_questions(ax: Axes, asked: list[tuple[str, str]]) -> None:
    """Boxes from top to bottom; to the right of each what to take."""
    ax.set(xlim=(0, 10.9), ylim=(-0.2, len(asked)))
    ax.axis("off")
    for row, (question, answer) in enumerate(asked):
        y = len(asked) - row - 0.5
        last = row == len(asked) - 1
        box = {"boxstyle": "round,pad=0.5", "edgecolor": "#9fb3c8"}
        ax.text(0.2, y, question, va="center", color=INK, bbox={**box, "facecolor": ASK})
        name, _, figure = answer.partition("\n")
        ax.text(
            5.8, y + 0.11, name, va="center", weight="bold", color=INK, family="monospace", zorder=3
        )
        ax.text(5.8, y - 0.16, figure, va="center", color=INK, fontsize=8, zorder=3)
        ax.add_patch(
            plt.Rectangle((5.6, y - 0.34), 5.2, 0.66, facecolor=TAKE, edgecolor="#7bb893", zorder=1)
        )
        arrow = {"arrowstyle": "->", "color": "#52606d"}
        ax.annotate("", (5.55, y), (4.95, y), arrowprops=arrow)
        if not last:
            ax.text(5.0, y + 0.1, "yes", fontsize=8, color="#52606d")
            ax.annotate("", (0.8, y - 0.68), (0.8, y - 0.32), arrowprops=arrow)
            ax.text(0.95, y - 0.53, "no", fontsize=8, color="#52606d")


def draw_errors(ax: Axes, gp: dict[str, float], samplers: dict[str, float]) -> None:
    """Dots on a logarithmic axis: how far off at the same 2I² evaluations."""
    rows = sorted({**samplers, "gp": gp["2I²"]}.items(), key=lambda row: -row[1])
    for place, (name, error) in enumerate(rows):
        ax.plot(error, place, "o", color="#1a7f4b" if name == "gp" else "#52606d")
        ax.text(error * 1.35, place, f"{error:.2g}", va="center", fontsize=8)
    ax.set_yticks(range(len(rows)), [name for name, _ in rows], family="monospace", fontsize=8)
    ax.set(xscale="log", xlim=(1e-4, 30 * max(samplers.values())))
    ax.set_xlabel(
        "relative MSE of values at 2I² evaluations,\nsix games of trained models", fontsize=8
    )
    ax.axvline(1, color="#b2532f", linewidth=0.8, linestyle=":")
    ax.text(1.1, len(rows) - 0.6, "1: no better than\npaying all alike", fontsize=7, va="top")
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    gp, samplers = errors_of_gp(), errors_of_samplers()
    plt.rcParams.update({"svg.hashsalt": "which-method", "svg.fonttype": "none", "font.size": 9})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4.6), layout="constrained", width_ratios=[1.75, 1], facecolor="white"
    )
    draw_questions(left, questions(gp, samplers))
    draw_errors(right, gp, samplers)
    figure.savefig(PICTURE, metadata={"Date": None})
    print(json.dumps({"gp": gp, "samplers": samplers}, indent=1))


if __name__ == "__main__":
    main()
