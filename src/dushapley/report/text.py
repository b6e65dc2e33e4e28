"""The table of a summary as text, for terminals."""

from __future__ import annotations

from textwrap import wrap

from dushapley.arrays import AnyDict
from dushapley.results.valuation import Valuation
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import columns, printable, table

MOST_ROWS, WIDEST_NAME, NARROWEST_NAME, MOST_TOLD = 60, 32, 16, 10
QUIET = ("alike", "size", "pools", "unknown")
"""Codes of first reasons that a terminal leaves to letters and pages."""
COLUMNS = (
    ("name", "owner"),
    ("size_text", "rows"),
    ("value_text", "value"),
    ("error_text", "± 95%"),
    ("share_text", "share"),
    ("size_share_text", "by size"),
    ("rank_text", "rank"),
    ("sure_text", "sure"),
    ("payment_text", "payment"),
    ("payment_range", "95% of it"),
)
"""Keys of a row of the summary, and their titles."""
RANKS = "rank: places it may have, 95%; sure: how likely the place is that it has here"
FIRST_TO_GO = ("sure_text", "size_share_text", "rank_text", "error_text", "size_text", "share_text")
"""What a narrow terminal does without, the least needed first."""


def text_table(
    valuation: Valuation,
    summary: AnyDict,
    settlement: Settlement | None = None,
    *,
    width: int | None = None,
) -> str:
    """Owner, rows, value ± 95%, share, share by size, rank and how sure it is, and payments.

    Names are whole; long ones go on below. In a terminal (or in `width` columns) that is too narrow
    for all columns, the least needed are left out, which is said.
    """
    pot, rows = summary["pot"], summary["rows"]
    width = columns() if width is None else width
    shown = [row | (row["rank_range"] or {}) for row in rows[:MOST_ROWS]]
    titles = {key: title for key, title in COLUMNS if any(row.get(key) for row in shown)}
    if pot:
        titles |= {"share_text": "of pot", "payment_text": f"payment {pot['currency']}"}
    text, left_out = _fitted(titles, shown, width)
    lines = [valuation.headline(), text]
    if left_out:
        names = ", ".join(titles[key].strip() for key in left_out)
        lines.append(f"  left out for lack of room: {names}")
    if "sure_text" in titles and not {"rank_text", "sure_text"} & set(left_out):
        lines.append(f"  {RANKS}")
    if len(rows) > MOST_ROWS:
        lines.append(f"  ... {len(rows) - MOST_ROWS} more; --json has all ...")
    if settlement is not None:
        lines.append(f"  pot {pot['amount_text']}: {pot['rule']}")
        lines.append(f"  {pot['certainty'] or pot['interval']}")
        lines += [f"  note: {note}" for note in settlement.notes]
    return "\n".join([*lines, *_why(summary["why"], width), *valuation.footnotes()])


def _why(why: AnyDict, width: int | None) -> list[str]:
    """The weightiest reason of those of whom there is something to say; pages have all."""
    if not why["owners"]:
        return []
    first = [(one["name"], one["reasons"][0]) for one in why["owners"]]
    told = [(name, reason["text"]) for name, reason in first if reason["code"] not in QUIET]
    if not told:
        return ["  why: nothing stands out in anybody's data"]
    lines = ["  why, to those of whom there is something to say (letters and pages have all):"]
    room = max(40, (width or 100) - 1)
    for name, text in told[:MOST_TOLD]:
        lines += wrap(
            printable(f"{name}: {text}"),
            room,
            initial_indent="    ",
            subsequent_indent="      ",
        )
    more = len(told) - MOST_TOLD
    return [*lines, f"    and {more} more"] if more > 0 else lines


def _fitted(
    titles: dict[str, str], rows: list[AnyDict], width: int | None
) -> tuple[str, list[str]]:
    """The table with as many columns as there is room for, and the keys of those left out."""
    from rich.cells import cell_len

    able = [key for key in FIRST_TO_GO if key in titles]
    for gone in range(len(able) + 1):
        kept = [key for key in titles if key not in able[:gone]]
        cells = [[row.get(key, "") for key in kept] for row in rows]
        heads = [titles[key].rstrip() for key in kept]
        text = table(heads, cells, widest=WIDEST_NAME)
        if width is None:
            break
        over = max(map(cell_len, text.splitlines())) - width
        if over > 0:  # names may give way first
            text = table(heads, cells, widest=max(NARROWEST_NAME, WIDEST_NAME - over))
            over = max(map(cell_len, text.splitlines())) - width
        if over <= 0:
            break
    return text, able[:gone]
