"""Figures of the page: static SVG by matplotlib, coloured by the page's own CSS variables."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import AnyDict
from dushapley.report.wording import percent
from dushapley.results.uncertainty import half_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn in colours that occur nowhere else, which the page then replaces with its variables.
INK, MUTED, ACCENT, WARN, LINE, PAPER = (f"#01020{k}" for k in range(3, 9))
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    ACCENT: "--accent",
    WARN: "--warn",
    LINE: "--line",
    PAPER: "--paper",
}
WIDTH, HEIGHT, TALL, LINE_TALL = 4.6, 3.0, 0.22, 0.13
MOST_LABELS, MOST_BANDS, MOST_CELLS_NAMED = 24, 15, 12
HALF_SHADE = 0.6
"""From this shade on, text on it is of the paper's colour."""
BEHIND: AnyDict = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 0.6}
"""Paper behind a name, so that no line runs through it."""
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


def figures(numbers: AnyDict) -> dict[str, dict[str, str]]:
    """The figures these numbers allow, by name: title, sentence and SVG of each."""
    makers = {
        "history": settling,
        "curve": learning,
        "stages": adding,
        "size": size_and_value,
        "matrix": trained_and_tested,
    }
    names = numbers["names"]
    # the grid grows with the owners
    grown = len(names) * max(TALL, 0.06 + LINE_TALL * _lines_of(names)) + 1.8
    drawn = {}
    for name, maker in makers.items():
        if numbers.get(name) and (figure := maker(numbers)) is not None:
            title, caption, draw = figure
            picture = svg(name, draw, grown if name == "matrix" else HEIGHT)
            drawn[name] = {"name": name, "title": title, "caption": caption, "svg": picture}
    return drawn


Drawing = tuple[str, str, Callable[["Axes"], None]] | None
"""Title, caption and what draws it; None where there is too little to draw."""


def settling(numbers: AnyDict) -> Drawing:
    """Values of all owners after so many questions, with the errors known at the time."""
    history = numbers["history"]
    asked, values = np.array(history["asked"]), np.array(history["values"], dtype=np.float64)
    if len(asked) < 3:
        return None
    none = [np.nan] * values.shape[1]
    errors = np.array([none if e is None else e for e in history["std_errors"]])

    def draw(ax: Axes) -> None:
        _lines(ax, asked, values.T, numbers, bands=half_width(errors).T)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.locator_params(axis="x", integer=True)
        ax.set(xlabel="evaluations", ylabel="value")

    known, unknown = "Bands: 95% for sampling.", "Their errors along the way are not known."
    bands = known if np.isfinite(errors).any() else unknown
    return (
        "Values settling",
        f"Each line is an owner’s value as questions are answered. {bands}",
        draw,
    )


def learning(numbers: AnyDict) -> Drawing:
    """Worth of pools against their rows, from nobody's on."""
    rows = np.array(numbers["curve"]["rows"])
    values = np.array(numbers["curve"]["values"])
    if len(set(rows.tolist())) < 4:
        return None
    n_bins = min(max(len(rows) // 8, 3), 12)
    edges = np.quantile(rows, np.linspace(0, 1, n_bins + 1))
    bins = np.clip(np.searchsorted(edges, rows, side="right"), 1, n_bins)
    members = [bins == b for b in np.unique(bins)]
    places = [np.median(rows[inside]) for inside in members]
    low, middle, high = np.transpose([np.quantile(values[m], [0.1, 0.5, 0.9]) for m in members])

    def draw(ax: Axes) -> None:
        ax.fill_between(places, low, high, color=ACCENT, alpha=0.15, linewidth=0)
        ax.scatter(rows, values, s=9, color=MUTED, alpha=0.35, linewidths=0, gid="marks")
        ax.plot(places, middle, color=ACCENT, linewidth=1.8)
        ax.axhline(numbers["empty"], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        ax.set(xlabel="rows in the pool", ylabel="score", xlim=(0, None))

    return (
        "What more data bring",
        "Each dot is a pool that was tried; the line is the median, the band the middle 80%. "
        "Dashed: nobody’s data. Where the line is flat, more rows of the same kind bring little; "
        "the spread at equal rows is quality.",
        draw,
    )


def adding(numbers: AnyDict) -> Drawing:
    """Mean gain of each owner by how much of the others' rows is already there."""
    gains = np.array(numbers["stages"], dtype=np.float64)  # None becomes NaN
    if np.isfinite(gains).sum(axis=1).max(initial=0) < 2:
        return None
    n_stages = gains.shape[1]
    stages = (np.arange(n_stages) + 0.5) / n_stages
    errors = np.array(numbers["stage_errors"], dtype=np.float64)
    bands = "; bands: 95% for which pools were tried" if np.isfinite(errors).any() else ""

    def draw(ax: Axes) -> None:
        _lines(ax, stages, gains, numbers, bands=half_width(errors), dotted=True)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set_xticks([0, 0.5, 1], ["nobody", "half", "all"])
        ax.set(xlim=(0, 1), xlabel="of the others’ rows already in the pool", ylabel="gain")

    how = "Estimated from all pools by local regression" if numbers["fitted"] else "Means of pairs"
    return (
        "What each owner adds as the pool grows",
        "Most owners add a lot to little data and little to a lot; below zero, they do harm. "
        f"{how} in each fifth{bands}.",
        draw,
    )


def size_and_value(numbers: AnyDict) -> Drawing:
    """Share of the pot, or of the value, against share of the rows."""
    size = numbers["size"]
    sizes, shares = np.array(size["sizes"]), np.array(size["shares"])
    if len(sizes) < 2 or len(shares) < 2:
        return None

    def draw(ax: Axes) -> None:
        end = 1.08 * max(sizes.max(), shares.max())
        ax.plot([0, end], [0, end], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        colours = [WARN if share < 0 else ACCENT for share in shares]
        ax.scatter(sizes, shares, s=26, color=colours, linewidths=0, gid="marks")
        points = list(zip(sizes.tolist(), shares.tolist(), strict=True))
        _label(ax, {k: points[k] for k in _labelled(len(points))}, numbers["names"], end)
        ax.axhline(0, color=INK, linewidth=0.8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda x, _: f"{100 * x:.3g}%".replace("-", "−"))
        ax.set(xlim=(0, end), xlabel="share of the rows", ylabel=f"share of the {size['of']}")

    return (
        "Size against quality",
        "On the dashed line an owner’s share is that of its rows. Above it the data are better "
        "than average or scarcer, below it worse or redundant.",
        draw,
    )


def trained_and_tested(numbers: AnyDict) -> Drawing:
    """How well a model of one owner's rows predicts another's labels, as a grid of shades."""
    matrix = numbers["matrix"]
    cells = np.array(matrix["agreement"], dtype=np.float64)  # None becomes NaN
    rows, columns = matrix["trained_on"], matrix["tested_on"]
    low, high = np.nanmin(cells, initial=1.0), np.nanmax(cells, initial=0.0)

    def draw(ax: Axes) -> None:
        shades = 0.06 + 0.84 * (cells - low) / max(high - low, 1e-12)
        for (i, j), cell in np.ndenumerate(cells):
            if np.isnan(cell):
                continue
            shade, ends = shades[i, j], [j - 0.48, j + 0.48]
            ax.fill_between(ends, i - 0.48, i + 0.48, color=ACCENT, alpha=shade, linewidth=0)
            if len(rows) <= MOST_CELLS_NAMED:
                ink = PAPER if shade > HALF_SHADE else INK
                ax.text(j, i, percent(cell, 0), ha="center", va="center", fontsize=6.5, color=ink)
        ax.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=7.5)
        ax.set_yticks(range(len(rows)), rows, fontsize=7.5)
        ax.invert_yaxis()
        ax.grid(visible=False)
        ax.set(xlabel="tested on", ylabel="trained on")

    return (
        "Trained on one, tested on another",
        "How often a model of one owner’s rows alone predicts the labels of another’s "
        f"({percent(low, 0)} is palest, {percent(high, 0)} darkest). A pale column: the others do "
        "not understand its labels; a pale row: its model does not understand theirs.",
        draw,
    )


def _label(ax: Axes, points: dict[int, tuple[float, float]], names: list[str], end: float) -> None:
    """Names beside points, moved apart where they would overlap; `end` is where the axis ends."""
    low, high = ax.get_ylim()
    least = 0.055 * (high - low) * _lines_of(names)
    heights: dict[int, float] = {}
    for k in sorted(points, key=lambda k: (-points[k][1], k)):
        x, y = points[k]
        near = [at for j, at in heights.items() if abs(points[j][0] - x) < 0.35 * end]
        heights[k] = min([y, *(at - least for at in near if at - y < least)])
    # pushed down from the top; half of it is taken back
    back = sum(points[k][1] - height for k, height in heights.items()) / max(2 * len(heights), 1)
    for k, height in heights.items():
        x = points[k][0]
        side, shift = ("right", -6) if x > 0.62 * end else ("left", 6)
        ax.annotate(
            names[k],
            (x, height + back),
            (shift, 0),
            textcoords="offset points",
            fontsize=8,
            ha=side,
            va="center",
            color=MUTED,
            annotation_clip=False,
            bbox=BEHIND,
        )


def _lines_of(names: list[str]) -> int:
    """Lines of the longest name."""
    return max((name.count("\n") + 1 for name in names), default=1)


def _lines(
    ax: Axes,
    x: Any,
    lines: Any,
    numbers: AnyDict,
    *,
    bands: Any,
    dotted: bool = False,
) -> None:
    """One quiet line per owner: the best in the accent colour, negative values in the warning's.

    Names stand at the right end of the lines; `dotted` ones are means at their dots alone.
    """
    n, ends = len(lines), {}
    dots: AnyDict = {"marker": "o", "markersize": 3, "linestyle": (0, (1, 3))} if dotted else {}
    edge = 0.0
    for k, line in enumerate(lines):
        known = np.isfinite(line)
        if not known.any():
            continue
        colour = WARN if numbers["negative"][k] else ACCENT if k == 0 else MUTED
        width, alpha = (2.0, 1.0) if k == 0 else (1.1, 0.75 if n <= MOST_LABELS else 0.3)
        ax.plot(x[known], line[known], color=colour, linewidth=width, alpha=alpha, **dots)
        if n <= MOST_BANDS:
            band = np.where(np.isfinite(bands[k]), bands[k], 0.0)
            low, high = line - band, line + band
            ax.fill_between(x[known], low[known], high[known], color=colour, alpha=0.1, linewidth=0)
        if k in _labelled(n):
            ends[k] = line[known][-1]
            edge = max(edge, x[known][-1])
    _label(ax, {k: (edge, y) for k, y in ends.items()}, numbers["names"], 2 * edge)


def _labelled(n: int) -> list[int]:
    """Positions that get a number: all, or the first and last few where there are many."""
    return list(range(n)) if n <= MOST_LABELS else [*range(5), *range(n - 3, n)]


def svg(name: str, draw: Callable[[Axes], None], height: float) -> str:
    """Draw one figure as SVG that is at home in a page: own ids, the page's colours and font."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        figure.patch.set_alpha(0)
        ax = figure.add_subplot()
        ax.patch.set_alpha(0)
        draw(ax)
        ax.margins(x=0.06)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with warnings.catch_warnings():
            # names of other scripts stay text, for whose glyphs the reader's own fonts are asked
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
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
