"""The table of a summary as text, for terminals."""

from __future__ import annotations

from typing import Any

from dushapley.results.valuation import Valuation
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import short_name, table

MOST_ROWS, WIDEST_NAME = 60, 32


def text_table(
    valuation: Valuation, summary: dict[str, Any], settlement: Settlement | None = None
) -> str:
    """Owner, rows, value ± 95%, share, share by size, rank and how sure it is, and payments."""
    titles = {"name": "owner", "size_text": "rows", "value_text": "value"}
    if summary["has_error"]:
        titles["error_text"] = "± 95%"
    titles |= {"share_text": "share", "size_share_text": "by size"}
    if summary["has_error"]:
        titles |= {"rank_text": "rank", "sure_text": "sure"}
    if summary["pot"] is not None:
        titles["payment_text"] = f"payment {summary['pot']['currency']}".rstrip()
        if summary["rows"][0]["payment_range"]:
            titles["payment_range"] = "95% of it"
    shown = [
        row | (row["rank_range"] or {}) | {"name": short_name(row["name"], WIDEST_NAME)}
        for row in summary["rows"][:MOST_ROWS]
    ]
    cells = [[row[name] for name in titles] for row in shown]
    lines = [valuation._headline(), table(list(titles.values()), cells)]
    if len(summary["rows"]) > MOST_ROWS:
        lines.append(f"  ... {len(summary['rows']) - MOST_ROWS} more; --json has all ...")
    if settlement is not None:
        lines.append(f"  pot {summary['pot']['amount_text']}: {summary['pot']['rule']}")
        lines += [f"  note: {note}" for note in settlement.notes]
    return "\n".join([*lines, *valuation._footer()])
