"""The page of thousands of owners: their distribution, both ends, a search and a download."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dushapley.results.uncertainty import half_width
from dushapley.results.valuation import Valuation
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import printable

MOST_ROWS = 1000
"""Owners of whom every one has a row on the page; of more, both ends are shown."""
SHOWN = 20
"""Owners shown at either end."""
SEARCHED = 100_000
"""Owners whom the page itself can look up; of more, the table of payments has them."""
BINS = 48
SAMPLING_ONLY = "95%, told of sampling alone: the error of the test set is unknown and not in it"


def many_page(
    valuation: Valuation, settlement: Settlement | None, *, title: str, date: str = ""
) -> dict[str, Any]:
    """What the template shows, in plain types."""
    v = valuation
    order = np.argsort(-v.values, kind="stable")
    payments = None if settlement is None else [str(p) for p in settlement.payments]
    rows = [
        {
            "rank": rank + 1,
            "name": printable(v.owners[j]),
            "value": f"{v.values[j]:.4g}",
            "error": _error(v, j),
            "payment": "" if payments is None else payments[j],
            "rows": f"{v.sizes[j]:,.0f}",
        }
        for rank, j in enumerate(order.tolist())
        if rank < SHOWN or rank >= len(order) - SHOWN
    ]
    return {
        "title": printable(title),
        "date": date,
        "owners": f"{len(order):,}",
        "method": v.method,
        "sum": f"{v.values.sum():.4g}",
        "currency": "" if settlement is None else settlement.currency,
        "negative": f"{int((v.values < 0).sum()):,}",
        "median": f"{np.median(v.values):.4g}",
        "top_tenth": f"{100 * _top_tenth(v.values):.0f}%",
        "interval": SAMPLING_ONLY if v.unknown == ("test set",) else v.interval_meaning,
        "top": rows[:SHOWN],
        "bottom": rows[SHOWN:],
        "bars": _bars(v.values),
        "low": f"{v.values.min():.3g}",
        "high": f"{v.values.max():.3g}",
        "notes": [printable(note) for note in v.notes],
        "table": _table(v, order.tolist(), payments),
    }


def _error(v: Valuation, owner: int) -> str:
    """The ± of an owner; where part of it is unknown, that word, and what is known of the rest."""
    if v.total_errors is not None:
        return f"± {half_width(float(v.total_errors[owner])):.2g}"
    if v.std_errors is None or not v.unknown:
        return ""
    return f"± unknown (sampling alone {half_width(float(v.std_errors[owner])):.2g})"


def _top_tenth(values: np.ndarray[Any, Any]) -> float:
    """Part of all positive value that the best tenth of owners has."""
    positive = np.sort(np.maximum(values, 0.0))[::-1]
    total = float(positive.sum())
    return float(positive[: -(-len(positive) // 10)].sum()) / total if total else 0.0


def _bars(values: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """A histogram, heights in percent of the highest."""
    counts, edges = np.histogram(values, BINS)
    return [
        {
            "height": round(100 * count / counts.max(), 2),
            "told": f"{count:,} owners from {low:.3g} to {high:.3g}",
            "negative": high <= 0,
        }
        for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
    ]


def _table(v: Valuation, order: list[int], payments: list[str] | None) -> str:
    """Everybody's numbers as JSON that may stand in a page; nothing where they are too many."""
    if len(order) > SEARCHED:
        return ""
    rows = [
        [printable(v.owners[j]), float(f"{v.values[j]:.6g}"), float(v.sizes[j])]
        + ([] if payments is None else [payments[j]])
        for j in order
    ]
    return json.dumps(rows, ensure_ascii=True).replace("<", "\\u003c")
