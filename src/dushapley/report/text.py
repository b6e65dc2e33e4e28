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
    columns = [("owner", _name), ("rows", _get("size_text")), ("value", _get("value_text"))]
    if summary["has_error"]:
        columns.append(("± 95%", _get("error_text")))
    columns += [("share", _get("share_text")), ("by size", _get("size_share_text"))]
    if summary["has_error"]:
        columns += [("rank", _rank), ("sure", lambda row: str(row["rank_range"]["sure_text"]))]
    if summary["pot"] is not None:
        columns.append((f"payment {summary['pot']['currency']}".rstrip(), _get("payment_text")))
        if summary["rows"][0]["payment_range"]:
            columns.append(("95% of it", _get("payment_range")))
    shown = summary["rows"][:MOST_ROWS]
    cells = [[get(row) for _, get in columns] for row in shown]
    lines = [valuation._headline(), table([title for title, _ in columns], cells)]
    if len(summary["rows"]) > MOST_ROWS:
        lines.append(f"  ... {len(summary['rows']) - MOST_ROWS} more; --json has all ...")
    if settlement is not None:
        lines.append(f"  pot {summary['pot']['amount_text']}: {summary['pot']['rule']}")
        lines += [f"  note: {note}" for note in settlement.notes]
    return "\n".join([*lines, *valuation._footer()])


def _get(name: str) -> Any:
    return lambda row: str(row[name])


def _name(row: dict[str, Any]) -> str:
    return short_name(row["name"], WIDEST_NAME)


def _rank(row: dict[str, Any]) -> str:
    low, high = row["rank_range"]["low"], row["rank_range"]["high"]
    return str(low) if low == high else f"{low}–{high}"
