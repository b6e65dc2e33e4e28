"""Valuations in notebooks: a table that fits its cell, and bars with names that can be read."""

from __future__ import annotations

from html import escape
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import IntArray
from dushapley.errors import DUShapleyError
from dushapley.results.uncertainty import half_width
from dushapley.terminal import html_table, printable, short_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dushapley.results.valuation import Valuation

TITLES = ("owner", "rows", "value", "± 95%", "share")
"""What tables show of each owner."""
ROUNDING = 1e-24
"""Mean squared errors below this are those of arithmetic."""
MOST_ROWS = 200
"""Owners in a notebook's table."""
TALLEST, ROW = 10.0, 0.32
"""Inches of a plot at most, and of one owner where there is room."""
LETTERS_AN_INCH = 14
"""Small letters that an inch holds."""
LEAST_NAME = 0.085
"""Inches that a name needs at least; where there are fewer, only some are named."""
FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans", "PingFang SC",
    "Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei", "SimHei", "Noto Sans", "Arial Unicode MS", "Unifont",
)  # fmt: skip
"""What may be installed that has the letters which matplotlib's own font lacks."""


def html(valuation: Valuation) -> str:
    """The table for notebooks; lines under it wrap, however long they are."""
    shown = valuation.order[:MOST_ROWS]
    table = html_table(TITLES, valuation.cells(shown), valuation.values[shown].tolist())
    left_out = len(valuation) - MOST_ROWS
    more = f"<p>… {left_out:,} more</p>" if left_out > 0 else ""
    style = "max-width: 60em; white-space: normal; overflow-wrap: anywhere"
    notes = "".join(f"<li>{escape(line.strip())}</li>" for line in valuation.footnotes())
    return f"<p>{escape(valuation.headline())}</p>{table}{more}<ul style='{style}'>{notes}</ul>"


def plot(valuation: Valuation, ax: Axes | None = None) -> Axes:
    """Bars of the values, largest on top, with 95% error bars where they are known."""
    order = valuation.order[::-1]
    height = min(TALLEST, max(1.5, ROW * len(order) + 0.8))
    ax = _axes(ax, height)
    ink = ax.xaxis.label.get_color()  # white in a dark style
    known = valuation.total_errors
    errors = None if known is None else half_width(known[order])
    values = valuation.values[order]
    cap, line = (3, 1.2) if len(order) <= 40 else (0, 0.7)
    ax.barh(
        range(len(order)),
        values,
        color=np.where(values < 0, "#b2532f", "#2f6fb2"),
        height=0.7,
        xerr=errors,
        ecolor=ink,
        capsize=cap,
        error_kw={"elinewidth": line},
    )
    _name_bars(ax, valuation, order, (height - 0.8) / len(order))
    ax.axvline(0, color=ink, linewidth=0.8)
    meaning = "" if errors is None else f", bars: {valuation.interval_meaning}"
    meaning = f", ± {valuation.interval_meaning}" if valuation.unknown else meaning
    how = f"{valuation.method}, {valuation.n_evaluations} evaluations{meaning}"
    inches = ax.get_window_extent().width / ax.figure.dpi
    label = fill(how, max(30, int(inches * LETTERS_AN_INCH)))
    ax.set_xlabel(f"value\n{label}", fontsize="small")
    return ax


def plot_comparison(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw error against budget, one line per method, from the frame of `compare`.

    Means over seeds with bars of two standard errors; both axes logarithmic. Refused methods have
    no line, and exact values, whose error is 0 or rounding, no place on a logarithmic axis.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400, 800], w=lambda n: n / (n + 100))
    >>> frame = ds.compare(game, ["permutation", "owen"], budgets=[14, 56], seeds=range(3))
    >>> ds.plot_comparison(frame).get_xlabel()
    'budget, evaluations'
    """
    ran = frame[frame["seed"].notna()]
    if len(ran) == 0:
        raise DUShapleyError("Every method was refused, so there is nothing to draw; see `reason`.")
    measure = "relative_mse" if ran["relative_mse"].notna().all() else "mse"
    ax = _axes(ax, 4.4)
    for method, runs in ran.groupby("method", sort=False):
        by_budget = runs.groupby("budget")[measure]
        mean, bar = by_budget.mean(), 2 * by_budget.sem().fillna(0.0)
        mean = mean.where(mean > ROUNDING)
        ax.errorbar(mean.index.astype(float), mean, yerr=bar, marker="o", capsize=2, label=method)
    ax.set(
        xscale="log", yscale="log", xlabel="budget, evaluations", ylabel=measure.replace("_", " ")
    )
    budgets = sorted(set(ran["budget"].astype(int)))
    ax.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")
    return ax


def _axes(ax: Axes | None, height: float) -> Axes:
    """Return these axes, or those of a new figure of this height in inches, without a frame."""
    import matplotlib.pyplot as plt

    shown = ax or plt.subplots(figsize=(6.4, height), layout="constrained")[1]
    shown.spines[["top", "right"]].set_visible(False)
    return shown


def _name_bars(ax: Axes, valuation: Valuation, order: np.ndarray, room: float) -> None:
    """Names beside the bars, as large as there is room for; some of them where there is none."""
    names = [printable(short_name(valuation.owners[i])).replace("$", r"\$") for i in order]
    step = int(np.ceil(LEAST_NAME / room))
    shown = np.arange(len(order) - 1, -1, -step)[::-1]  # the best always has its name
    labels, fonts = drawable([names[k] for k in shown], order[shown])
    size = min(10.0, 72 * max(room, LEAST_NAME) * 0.8)
    ax.set_yticks(shown, labels, fontsize=size, fontfamily=fonts)


def drawable(names: list[str], numbers: IntArray) -> tuple[list[str], list[str]]:
    """Names in fonts that have their letters; where no font has them, the number of the owner."""
    from matplotlib import font_manager, rcParams
    from matplotlib.ft2font import FT2Font

    installed = {font.name for font in font_manager.fontManager.ttflist}
    families = dict.fromkeys((*rcParams["font.sans-serif"], *FONTS))
    fonts = [name for name in families if name in installed] or ["sans-serif"]
    known: set[int] = set()
    for name in fonts:
        known |= set(FT2Font(font_manager.findfont(name)).get_charmap())
    pairs = zip(names, numbers, strict=True)
    return [n if known.issuperset(map(ord, n)) else f"owner {i + 1}" for n, i in pairs], fonts
