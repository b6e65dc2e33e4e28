"""Payments as a table for whoever transfers the money: CSV, Parquet, or a workbook.

Numbers are numbers. Names cannot become formulas: in CSV they are quoted away, in a workbook they
are cells of text.
"""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.results.uncertainty import half_width, rank_ranges
from dushapley.settlement.money import harmless
from dushapley.settlement.settlement import Settlement

if TYPE_CHECKING:
    import pandas as pd

TEXT = ("owner", "currency", "seal")
"""Columns whose cells are text, whatever they look like."""
WIDTHS = {"owner": 36, "payment": 17, "payment_low": 17, "payment_high": 17, "seal": 68}
FORMATS = {
    "share_of_pot": "0.0%",
    "rows": "#,##0",
    "rank_low": "0",
    "rank_high": "0",
} | dict.fromkeys(("value", "value_low", "value_high"), "0.0000##")
"""How a workbook shows its columns."""


def payments_frame(settlement: Settlement) -> pd.DataFrame:
    """One row per owner, best paid first, with all that a transfer and its file need.

    Examples
    --------
    >>> import dushapley as ds
    >>> settled = ds.settle(ds.value(ds.TableGame([0, 1, 2, 4]), "exact"), 100, currency="EUR")
    >>> payments_frame(settled)[["owner", "payment", "share_of_pot", "rank_low"]].values.tolist()
    [['owner 2', Decimal('62.50'), 0.625, 1], ['owner 1', Decimal('37.50'), 0.375, 2]]
    """
    import pandas as pd

    v, unknown = settlement.valuation, (None,) * len(settlement.payments)
    known, ranks = v.total_errors, rank_ranges(v)
    half = np.nan if known is None else half_width(known)
    own = v.places if not v.unknown and known is None else unknown
    frame = pd.DataFrame(
        {
            "owner": v.owners,
            "payment": settlement.payments,
            "payment_low": settlement.low or unknown,
            "payment_high": settlement.high or unknown,
            "share_of_pot": settlement.shares,
            "value": v.values,
            "value_low": v.values - half,
            "value_high": v.values + half,
            "rows": [int(n) if n.is_integer() else n for n in v.sizes.tolist()],
            "rank_low": own if ranks is None else ranks.low,
            "rank_high": own if ranks is None else ranks.high,
            "currency": settlement.currency,
            "seal": settlement.to_dict()["seal"],
        }
    )
    return frame.sort_values("payment", ascending=False, kind="stable", ignore_index=True)


def payments_csv(settlement: Settlement) -> str:
    """`payments_frame` as CSV that no spreadsheet can mistake for formulas."""
    frame = payments_frame(settlement)
    for name in TEXT:
        frame[name] = frame[name].map(harmless)
    return frame.to_csv(index=False, lineterminator="\n")


def payments_parquet(settlement: Settlement) -> bytes:
    """`payments_frame` as Parquet, for more owners than a spreadsheet has rows."""
    frame, file = payments_frame(settlement), BytesIO()
    frame["rows"] = frame["rows"].astype(np.float64)
    frame.to_parquet(file, index=False)
    return file.getvalue()


def payments_workbook(settlement: Settlement) -> bytes:
    """`payments_frame` as an Excel workbook, with headings in words and a total."""
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter

    book = Workbook()
    sheet: Any = book.active
    sheet.title = "payments"
    frame = payments_frame(settlement)
    places = ("#,##0." + "0" * settlement.decimals).rstrip(".")
    bold = Font(bold=True)
    for column, name in enumerate(frame.columns, start=1):
        head, letter = sheet.cell(1, column, name.replace("_", " ")), get_column_letter(column)
        head.font, head.alignment = bold, Alignment(wrap_text=True, vertical="top")
        sheet.column_dimensions[letter].width = WIDTHS.get(name, 14)
        for line, thing in enumerate(frame[name].tolist(), start=2):
            cell = sheet.cell(line, column)
            if name in TEXT:
                cell.value = ILLEGAL_CHARACTERS_RE.sub("\ufffd", str(thing))
                cell.data_type, cell.quotePrefix = "s", True  # text, also where it begins with =
            elif thing is not None and not (isinstance(thing, float) and np.isnan(thing)):
                cell.value = thing if isinstance(thing, (Decimal, int)) else float(thing)
            cell.number_format = (
                places if name.startswith("payment") else FORMATS.get(name, "General")
            )
    last = len(frame) + 2
    sheet.cell(last, 1, "total").font = bold
    total = sheet.cell(last, 2, settlement.pot)
    total.font, total.number_format = bold, places
    column = 1 + list(frame.columns).index("rows")
    rows = sheet.cell(last, column, sum(frame["rows"]))
    rows.font, rows.number_format = bold, "#,##0"
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(frame.columns))}{last - 1}"
    book.save(content := BytesIO())
    return content.getvalue()
