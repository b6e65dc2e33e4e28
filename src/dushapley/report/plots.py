"""Figures of the page: static SVG by matplotlib, coloured by the page's own CSS variables."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.report.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn in colours that occur nowhere else, which the page then replaces with its variables.
INK, MUTED, ACCENT, WARN, LINE = ("#010203", "#010204", "#010205", "#010206", "#010207")
VARIABLES = {INK: "--ink", MUTED: "--muted", ACCENT: "--accent", WARN: "--warn", LINE: "--line"}
WIDTH, HEIGHT = 4.6, 3.0
MOST_LABELS = 24
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: selectable, and in the page's font
    "font.size": 9.5,
    "text.parse_math": False,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "axes.unicode_minus": True,
}


def figures(numbers: dict[str, Any], highlight: int | None = None) -> list[dict[str, str]]:
    """The figures these numbers allow: name, title, sentence and SVG of each.

    `highlight` is the position in the table of the one owner to be drawn, alone; None draws all.
    """
    makers = {"history": settling, "curve": learning, "stages": adding, "size": size_and_value}
    drawn = []
    for name, maker in makers.items():
        if numbers.get(name) and (figure := maker(numbers, highlight)) is not None:
            title, caption, draw = figure
            drawn.append({"name": name, "title": title, "caption": caption, "svg": svg(name, draw)})
    return drawn


Drawing = tuple[str, str, Callable[["Axes"], None]] | None
"""Title, caption and what draws it; None where there is too little to draw."""


def settling(numbers: dict[str, Any], highlight: int | None) -> Drawing:
    """Values of all owners after so many questions."""
    asked = np.array(numbers["history"]["asked"])
    values = np.array(numbers["history"]["values"], dtype=np.float64)
    if len(asked) < 3:
        return None

    def draw(ax: Axes) -> None:
        _lines(ax, asked, values.T, numbers["negative"], highlight)
        ax.locator_params(axis="x", integer=True)
        ax.set(xlabel="evaluations", ylabel="value")

    if highlight is not None:
        return "Your value settling", "Your value as questions were answered.", draw
    return "Values settling", "Each line is an owner’s value as questions are answered.", draw


def learning(numbers: dict[str, Any], highlight: int | None) -> Drawing:
    """Worth of pools against their rows; only drawn for all owners together."""
    rows = np.array(numbers["curve"]["rows"])
    values = np.array(numbers["curve"]["values"])
    if highlight is not None or len(set(rows.tolist())) < 4:
        return None
    edges = np.quantile(rows, np.linspace(0, 1, int(np.clip(len(rows) // 8, 3, 12)) + 1))
    bins = np.clip(np.searchsorted(edges, rows, side="right"), 1, len(edges) - 1)
    middle = [[np.median(x[bins == b]) for b in np.unique(bins)] for x in (rows, values)]

    def draw(ax: Axes) -> None:
        ax.scatter(rows, values, s=9, color=MUTED, alpha=0.35, linewidths=0, gid="marks")
        ax.plot(*middle, color=ACCENT, linewidth=1.8)
        ax.set(xlabel="rows in the pool", ylabel="score")

    return (
        "What more data bring",
        "Each dot is a pool that was tried; the line is the median. Where it is flat, more rows "
        "of the same kind bring little; the spread at equal rows is quality.",
        draw,
    )


def adding(numbers: dict[str, Any], highlight: int | None) -> Drawing:
    """Mean gain of each owner by how much of the others' rows is already there."""
    gains = np.array(numbers["stages"], dtype=np.float64)  # None becomes NaN
    if np.isfinite(gains).sum(axis=1).max(initial=0) < 2:
        return None
    stages = (np.arange(gains.shape[1]) + 0.5) / gains.shape[1]

    def draw(ax: Axes) -> None:
        _lines(ax, stages, gains, numbers["negative"], highlight, end=0)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set_xticks([0, 0.5, 1], ["nobody", "half", "all"])
        ax.set(xlim=(0, 1), xlabel="of the others’ rows already in the pool", ylabel="gain")

    how = " Estimated from all pools by local regression." if numbers["fitted"] else ""
    if highlight is not None:
        caption = "Data usually add a lot to a small pool and little to a large one."
        return "What you add as the pool grows", caption + how, draw
    caption = "Most owners add a lot to little data and little to a lot; below zero, they do harm."
    return "What each owner adds as the pool grows", caption + how, draw


def size_and_value(numbers: dict[str, Any], highlight: int | None) -> Drawing:
    """Share of the pot, or of the value, against share of the rows."""
    of = f"share of the {numbers['size']['of']}"
    sizes, shares = (np.array(numbers["size"][name]) for name in ("sizes", "shares"))
    if highlight is not None or len(sizes) < 2 or len(shares) < 2:
        return None

    def draw(ax: Axes) -> None:
        end = 1.08 * max(float(sizes.max()), float(shares.max()))
        ax.plot([0, end], [0, end], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        colours = [WARN if share < 0 else ACCENT for share in shares]
        ax.scatter(sizes, shares, s=26, color=colours, linewidths=0, gid="marks")
        for k in _labelled(len(sizes)):
            ax.annotate(
                str(k + 1), (sizes[k], shares[k]), (5, 3), textcoords="offset points", fontsize=8.5
            )
        ax.axhline(0, color=INK, linewidth=0.8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda x, _: percent(x, 0))
        ax.set(xlim=(0, end), xlabel="share of the rows", ylabel=of)

    return (
        "Size against quality",
        "On the dashed line an owner’s share is that of its rows. Above it the data are better "
        "than average or scarcer, below it worse or redundant. Numbers are ranks.",
        draw,
    )


def _lines(
    ax: Axes, x: Any, lines: Any, negative: list[bool], highlight: int | None, end: int = -1
) -> None:
    """One quiet line per owner: the best in the accent colour, negative values in the warning's.

    Ranks stand at the right end of the lines, or at the left where `end` is 0.
    """
    n, ends = len(lines), {}
    for k, line in enumerate(lines):
        known = np.isfinite(line)
        if highlight not in (None, k) or not known.any():
            continue
        strong = k == 0 or highlight == k
        colour = WARN if negative[k] else ACCENT if strong else MUTED
        width, alpha = (2.0, 1.0) if strong else (1.1, 0.75 if n <= MOST_LABELS else 0.3)
        ax.plot(x[known], line[known], color=colour, linewidth=width, alpha=alpha)
        if highlight is None and k in _labelled(n):
            ends[k] = (float(x[known][end]), float(line[known][end]))
    _label_ends(ax, ends, left=end == 0)


def _label_ends(ax: Axes, ends: dict[int, tuple[float, float]], *, left: bool) -> None:
    """Ranks at the ends of lines, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    least = 0.052 * (high - low)
    order = sorted(ends, key=lambda k: (-ends[k][1], k))
    wanted = [ends[k][1] for k in order]
    # push down from the top, then take half of it back
    heights = list(accumulate(wanted, lambda above, height: min(height, above - least)))
    shift = (sum(wanted) - sum(heights)) / max(2 * len(order), 1)
    edge = (min if left else max)((x for x, _ in ends.values()), default=0.0)
    for k, height in zip(order, heights, strict=True):
        ax.annotate(
            str(k + 1),
            (edge, height + shift),
            (-5 if left else 5, 0),
            textcoords="offset points",
            fontsize=8,
            ha="right" if left else "left",
            va="center",
            color=MUTED,
            annotation_clip=False,
        )


def _labelled(n: int) -> list[int]:
    """Positions that get a number: all, or the first and last few where there are many."""
    return list(range(n)) if n <= MOST_LABELS else [0, 1, 2, 3, 4, n - 3, n - 2, n - 1]


def svg(name: str, draw: Callable[[Axes], None]) -> str:
    """Draw one figure as SVG that is at home in a page: own ids, the page's colours and font."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        figure.patch.set_alpha(0)
        ax = figure.add_subplot()
        ax.patch.set_alpha(0)
        draw(ax)
        ax.margins(x=0.06)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text := io.StringIO(), format="svg", metadata=nothing)
    return _at_home(text.getvalue(), name)


def _at_home(text: str, name: str) -> str:
    body = text[text.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    return body
