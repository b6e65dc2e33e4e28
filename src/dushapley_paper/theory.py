"""What the three figures about guarantees share: owners drawn at random, one learning curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log
from typing import Literal

import numpy as np

from dushapley.games.size.curves import rational
from dushapley.games.size.games import SizeGame
from dushapley_paper.curves import COLOURS, legend_below, new_figure
from dushapley_paper.experiment import (
    Axes,
    Figure,
    Outcome,
    Result,
    Sheet,
    short,
    standard_error,
    standing,
)

Base = Literal["10", "e"]
Measure = Callable[[int, int, tuple[int, int]], dict[str, float]]
"""What is found of so many owners, of so many rows at most, drawn with this seed."""


def draw_game(n_owners: int, n_max: int, seed: Sequence[int], base: Base = "10") -> SizeGame:
    """w(n) = 1 − c/(c+n) with c = 10^k, k = ⌊log Σn⌋ − 1; sizes uniform on 1..n_max.

    The base of the logarithm is not stated. With 10 the constant c is 1% to 10% of all rows; with
    e it exceeds all rows by far, and w is nearly a straight line.
    """
    sizes = np.random.default_rng([*seed, n_owners, n_max]).integers(1, n_max + 1, n_owners)
    total = float(sizes.sum())
    digits = len(str(int(total))) - 1 if base == "10" else floor(log(total))
    return SizeGame(sizes, rational(10.0 ** (digits - 1)))


def gap(over: Mapping[str, float], under: Mapping[str, float]) -> Outcome:
    """Whether one mean over draws exceeds another by more than their standard errors allow."""
    noise = ((point["se"], int(point["count"])) for point in (over, under))
    return standing(over["mean"] - under["mean"], *noise)


def highest(game: SizeGame) -> float:
    """What everybody's rows are worth: the range of the utility, since w(0) = 0."""
    return float(game(np.ones((1, game.n_players)))[0])


def averaged(found: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean with its standard error, and the range that 95% of the draws of owners keep to."""
    return {
        name: {
            "mean": float(np.mean(column := [f[name] for f in found])),
            "se": standard_error(column),
            "count": len(column),
            "low": float(np.quantile(column, 0.025)),
            "high": float(np.quantile(column, 0.975)),
        }
        for name in found[0]
    }


def panel(measure: Measure, n_max: int, owners: Sequence[int], draws: int, seed: int) -> Result:
    """What is measured of draws of owners, averaged over the draws, by number of owners."""
    points = [averaged([measure(n, n_max, (seed, d)) for d in range(draws)]) for n in owners]
    return {"n_max": n_max, "points": points}


def series_sheet(
    caption: str, result: Result, quantity: str, series: Mapping[str, str], n_max: str = ""
) -> Sheet:
    """Means over the draws of owners: a row per largest size (so formatted) and series."""
    rows = [
        (f"{p['n_max']:{n_max}}", said, *(short(point[key]["mean"]) for point in p["points"]))
        for p in result["panels"]
        for key, said in series.items()
    ]
    header = ("n_max", quantity, *(f"I = {n}" for n in result["owners"]))
    return Sheet(f"{caption} (the paper shows curves only)", header, tuple(rows))


PANEL = {"width": 3.4, "height": 2.9}
"""Size of a panel of the theory figures, in inches."""


def draw_series(result: Result, series: Mapping[str, str]) -> tuple[Figure, list[Axes]]:
    """One panel per largest size, side by side; one curve per entry of `series`."""
    figure, axes = new_figure(1, len(result["panels"]), **PANEL)
    for ax, panel in zip(axes[0], result["panels"], strict=True):
        for (key, said), colour in zip(series.items(), COLOURS, strict=False):
            draw_band(ax, result["owners"], [q[key] for q in panel["points"]], said, colour)
        ax.set_xscale("log")
        ax.set_title(f"n_max = {panel['n_max']:,}", fontsize=9)
    legend_below(figure, axes, 2)
    return figure, list(axes[0])


def draw_band(
    ax: Axes, owners: Sequence[int], found: Sequence[dict[str, float]], label: str, colour: str
) -> None:
    """Mean over the draws of owners against their number, with the range of the draws."""
    ax.plot(owners, [f["mean"] for f in found], marker="o", ms=3, color=colour, label=label)
    low, high = [f["low"] for f in found], [f["high"] for f in found]
    ax.fill_between(owners, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set_xlabel("number of owners I", fontsize=9)
    ax.tick_params(labelsize=8)
