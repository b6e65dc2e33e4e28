"""What the two synthetic experiments share: error curves over budgets, drawn and tabulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dushapley_paper.experiment import Axes, Figure, Finding, Result, judge, short, standing

COLOURS = ("#2f6fb2", "#b2532f", "#3d8f5f", "#8a5fb0")


def best_rival(panel: Result, position: int) -> dict[str, float]:
    """The rival with the smallest MSE at one of the budgets."""
    points = [curve[position] for curve in panel["curves"].values()]
    return min((p for p in points if p is not None), key=lambda p: float(p["mse"]))


def below_rivals(panels: Sequence[Result], position: int) -> tuple[Finding, str]:
    """Whether DU-Shapley's error, which has no noise, is below all rivals', panel by panel."""
    outcomes, ratios = [], []
    for panel in panels:
        best = best_rival(panel, position)
        outcomes.append(standing(best["mse"] - panel["du"], (best["se"], int(best["count"]))))
        ratios.append(f"{short(best['mse'] / max(panel['du'], 1e-300))} ({panel['label']})")
    finding = judge(outcomes.count("won"), len(outcomes), outcomes.count("level"))
    return finding, "best rival's MSE over DU-Shapley's: " + ", ".join(ratios)


def ratio_rows(result: Result, *ratios: float) -> tuple[tuple[str, ...], ...]:
    """One row per panel: DU-Shapley's MSE and the rivals' at some of the budgets."""
    rows = []
    for panel in result["panels"]:
        cells = [panel["label"], panel["form"], short(panel["du"])]
        for ratio in ratios:
            position = result["ratios"].index(ratio)
            points = [curve[position] for curve in panel["curves"].values()]
            cells += [short(None if point is None else point["mse"]) for point in points]
        rows.append(tuple(cells))
    return tuple(rows)


def draw_curves(result: Result, columns: int) -> Figure:
    """MSE against budget, one panel each, DU-Shapley as the horizontal line."""
    panels = result["panels"]
    figure, axes = new_figure(-(-len(panels) // columns), columns, width=3.1, height=2.7)
    for ax, panel in zip(axes.ravel(), panels, strict=False):
        draw_panel(ax, panel, result["ratios"])
    for ax in axes.ravel()[len(panels) :]:
        ax.set_axis_off()
    legend_below(figure, axes, 3)
    return figure


def new_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, Any]:
    """A grid of panels, each of this size in inches."""
    import matplotlib.pyplot as plt

    size = (width * columns, height * rows)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")


def legend_below(figure: Figure, axes: Any, columns: int) -> None:
    """The legend of the first panel, which is that of all, under the figure."""
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=9)


def draw_panel(ax: Axes, panel: Result, ratios: Sequence[float]) -> None:
    """One panel; bands are what 95% of repeated measurements keep to."""
    ax.axhline(panel["du"], color="#222222", label="DU-Shapley")
    if panel.get("plus") is not None:
        ax.axhline(panel["plus"], color="#222222", linestyle=":", label="DU-Shapley++ as printed")
    for (name, curve), colour in zip(panel["curves"].items(), COLOURS, strict=False):
        known = [(r, p) for r, p in zip(ratios, curve, strict=True) if p is not None]
        x, points = [r for r, _ in known], [p for _, p in known]
        ax.plot(x, [p["mse"] for p in points], marker="o", ms=3, color=colour, label=name)
        low = [max(p["low"], p["mse"] / 10) for p in points]
        ax.fill_between(x, low, [p["high"] for p in points], color=colour, alpha=0.2, linewidth=0)
    ax.axvline(1, color="#222222", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(f"{panel['label']} ({panel['form']})", fontsize=9)
    ax.set_xlabel("budget relative to DU-Shapley", fontsize=9)
    ax.set_ylabel("MSE", fontsize=9)
    ax.tick_params(labelsize=8)
