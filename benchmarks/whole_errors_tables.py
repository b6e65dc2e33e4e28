"""How often what `whole_errors.py` saw stated was true, as numbers and as tables of the docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dushapley.results.uncertainty import half_width
from tables import markdown

SOURCES = ("sampling", "training", "test set")
DOCS = Path(__file__).parents[1] / "docs" / "error-bars.md"
EDGES = {
    "order": (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0),
    "first": (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0),
}
Cells = list[dict[str, Any]]


def summary(found: dict[tuple[str, str, str, str], list[Any]]) -> dict[str, Any]:
    """Everything in plain JSON types: cells of coverage, and bins of reliability."""
    cells = [
        {"table": table, "model": model, "method": kind, "metric": metric}
        | judged(entries, found[table, model, "truth", metric][0])
        | {"off the front door": max(found[table, model, "checked", metric])}
        for (table, model, kind, metric), entries in found.items()
        if kind not in ("truth", "checked", "redrawn")
    ]
    redrawn = [e for (_, _, kind, _), some in found.items() if kind == "redrawn" for e in some]
    return {"cells": cells, "reliability": reliability(redrawn)}


def replaced(stored: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """A stored result in which cells that were measured again are the new ones."""
    names = ("table", "model", "method", "metric")
    new = {tuple(cell[name] for name in names): cell for cell in fresh["cells"]}
    cells = [new.pop(tuple(cell[name] for name in names), cell) for cell in stored["cells"]]
    reliability = fresh["reliability"] or stored["reliability"]
    return {"cells": [*cells, *new.values()], "reliability": reliability}


def judged(entries: Cells, truth: np.ndarray) -> dict[str, Any]:
    """How often intervals of values and of differences hold the truth, and what speaks why."""
    known = [entry for entry in entries if entry["joint"] is not None]
    counts = {"runs": len(entries), "unknown": len(entries) - len(known)}
    if not known:
        return counts
    values = np.array([entry["values"] for entry in known])
    joint = np.array([entry["joint"] for entry in known])
    a, b = np.triu_indices(len(truth), 1)
    own = np.sqrt(np.diagonal(joint, axis1=1, axis2=2))
    both = np.sqrt(joint[:, a, a] + joint[:, b, b] - 2 * joint[:, a, b])
    away, apart = values - truth, (values[:, a] - values[:, b]) - (truth[a] - truth[b])
    inside, seen = np.abs(away) <= half_width(own), values.var(axis=0, ddof=1).mean()
    parts = {s: float(np.mean([entry["parts"][s] for entry in known])) for s in SOURCES}
    return counts | {
        "covered": float(inside.mean()),
        "worst owner": float(inside.mean(axis=0).min()),
        "pairs": float((np.abs(apart) <= half_width(both)).mean()),
        "stated over seen": float(np.sqrt((own**2).mean() / seen)),
        "bias over seen": float(np.sqrt(np.square(away.mean(axis=0)).mean() / seen)),
        "parts": {source: part / sum(parts.values()) for source, part in parts.items()},
    }


def reliability(entries: Cells) -> dict[str, Cells]:
    """Stated probabilities in bins beside how often they came true."""
    said: dict[str, list[Any]] = {"order": [], "first": []}
    seen: dict[str, list[Any]] = {"order": [], "first": []}
    for entry in entries:
        truth = entry["truth"]
        a, b = np.triu_indices(len(truth), 1)
        chance = entry["order"][a, b]
        said["order"].append(np.maximum(chance, 1 - chance))
        seen["order"].append((chance > 0.5) == (truth[a] > truth[b]))
        said["first"].append(entry["first"])
        seen["first"].append(np.arange(len(truth)) == truth.argmax())
    return {
        name: binned(np.concatenate(said[name]), np.concatenate(seen[name]), EDGES[name])
        for name in (EDGES if entries else ())
    }


def binned(said: np.ndarray, seen: np.ndarray, edges: tuple[float, ...]) -> Cells:
    place = np.clip(np.digitize(said, edges) - 1, 0, len(edges) - 2)
    return [
        {
            "from": edges[k],
            "to": edges[k + 1],
            "cases": int((place == k).sum()),
            "stated": float(said[place == k].mean()),
            "seen": float(seen[place == k].mean()),
        }
        for k in np.unique(place).tolist()
    ]


def show(result: dict[str, Any]) -> dict[str, str]:
    """Markdown tables by title."""
    exact = [cell for cell in result["cells"] if cell["method"] == "exact"]
    sampled = [cell for cell in result["cells"] if cell["method"] != "exact"]
    tables = {table: by_score(exact, table) for table in dict.fromkeys(c["table"] for c in exact)}
    tables |= {f"by {name}": pooled(exact, name) for name in ("model", "metric")}
    tables["few pools"] = markdown(
        ["table", "model", "method", "score", "values", "differences"],
        [[c["table"], c["model"], c["method"], f"`{c['metric']}`", *both(c)] for c in sampled],
    )
    titles = {"order": "one of two owners is worth more", "first": "an owner is worth most"}
    for name, bins in result["reliability"].items():
        rows = [
            [
                f"{b['from']:.0%} to {b['to']:.0%}",
                f"{b['cases']:,}",
                percent(b["stated"]),
                percent(b["seen"]),
            ]
            for b in bins
        ]
        tables[name] = markdown([titles[name], "cases", "stated", "came true"], rows)
    return tables


def by_score(cells: Cells, table: str) -> str:
    """Models down, scores across."""
    some = [cell for cell in cells if cell["table"] == table]
    metrics = list(dict.fromkeys(cell["metric"] for cell in some))
    rows = []
    for model in dict.fromkeys(cell["model"] for cell in some):
        own = {cell["metric"]: cell for cell in some if cell["model"] == model}
        rows.append([model, *(percent(own[m].get("covered")) for m in metrics)])
    return markdown([table, *(f"`{m}`" for m in metrics)], rows)


def pooled(cells: Cells, by: str) -> str:
    """Means over all cells of a model or a score."""
    rows = []
    for name in dict.fromkeys(cell[by] for cell in cells):
        known = [cell for cell in cells if cell[by] == name and "covered" in cell]
        means = {w: np.mean([cell[w] for cell in known]) for w in ("covered", "pairs") if known}
        shown = name if by == "model" else f"`{name}`"
        rows.append([shown, percent(means.get("covered")), percent(means.get("pairs"))])
    known = [cell for cell in cells if "covered" in cell]
    rows.append(["all", *(percent(np.mean([c[w] for c in known])) for w in ("covered", "pairs"))])
    return markdown([{"metric": "score"}.get(by, by), "values", "differences"], rows)


def both(cell: dict[str, Any]) -> list[str]:
    return [percent(cell.get("covered")), percent(cell.get("pairs"))]


def percent(part: Any) -> str:
    """One decimal; the word where nothing was stated."""
    return "unknown" if part is None else f"{100 * part:.1f}"


def write_docs(result: dict[str, Any], path: Path = DOCS) -> None:
    """Put each table where the page has its place: between its marks."""
    text = path.read_text()
    for title, table in show(result).items():
        begin, end = f"<!-- {title} -->\n", "\n<!-- end -->"
        if begin in text:
            head, _, tail = text.partition(begin)
            text = head + begin + "\n" + table + "\n" + tail[tail.index(end) :]
    path.write_text(text)
