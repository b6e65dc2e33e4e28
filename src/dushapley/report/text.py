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
    has_error, pot = summary["has_error"], summary["pot"]
    columns = [
        ("name", "owner", True),
        ("size_text", "rows", True),
        ("value_text", "value", True),
        ("error_text", "± 95%", has_error or summary["unknown"]),
        ("share_text", "of pot" if pot else "share", True),
        ("size_share_text", "by size", True),
        ("rank_text", "rank", has_error),
        ("sure_text", "sure", has_error),
        ("payment_text", f"payment {pot['currency'] if pot else ''}".rstrip(), pot),
        ("payment_range", "95% of it", summary["rows"][0].get("payment_range")),
    ]
    titles = {name: title for name, title, is_shown in columns if is_shown}
    shown = [
        row | (row["rank_range"] or {}) | {"name": short_name(row["name"], WIDEST_NAME)}
        for row in summary["rows"][:MOST_ROWS]
    ]
    cells = [[row[name] for name in titles] for row in shown]
    lines = [valuation.headline(), table(list(titles.values()), cells)]
    if len(summary["rows"]) > MOST_ROWS:
        lines.append(f"  ... {len(summary['rows']) - MOST_ROWS} more; --json has all ...")
    if settlement is not None:
        lines.append(f"  pot {pot['amount_text']}: {pot['rule']}")
        lines += [f"  {text}" for text in [pot["certainty"] or pot["interval"]]]
        lines += [f"  note: {note}" for note in settlement.notes]
    return "\n".join([*lines, *valuation.footnotes()])
