"""Excel and OpenDocument workbooks, by calamine."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from python_calamine import CalamineError, CalamineWorkbook

from dushapley.data.formats.columnar import cells_of
from dushapley.data.formats.layout import is_total, layout_of
from dushapley.data.formats.raw import Account, Raw, as_text
from dushapley.data.formats.unpacking import refuse_archive_bomb, refuse_too_many_rows
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners
from dushapley.validation import suggestion

ARCHIVES = (".xlsx", ".xlsb", ".ods", ".xlsm")
MOST_CELLS = 50_000_000
"""Cells of a sheet, empty ones between included: calamine makes room for all of them."""
SAMPLED = 200
PART = re.compile(rb"<(?:[\w.-]+:)?(?:worksheet|sst|workbook|document-content)\b")
"""Begins the parts of a workbook that cells are read from, whatever their names."""
UNFAITHFUL = re.compile(
    rb"<!DOCTYPE"
    rb"|&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[\da-fA-F]+);)[^;<]{0,20};?"  # an entity of its own
    rb"|&#(?:0*(?:4[35689]|5[0-7]|69|101)|x0*(?:2[bdeBDE]|3\d|[46]5));"  # a digit in disguise
    rb"|<(?:[\w.-]+:)?v\b[^<>]*>[^<]*<[!?]"  # a number in pieces
)
"""What calamine leaves out of a cell without a word, and no spreadsheet program writes."""
REFERENCE = re.compile(rb"<(?:\w+:)?c [^>]*?r=[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
ROW = re.compile(rb"<\w+:table-row\b([^>]*)>(.*?)</\w+:table-row>", re.DOTALL)
REPEATED_CELL = re.compile(rb"number-columns-repeated=[\"']([0-9]{1,9})[\"']")
REPEATED_ROW = re.compile(rb"number-rows-repeated=[\"']([0-9]{1,9})[\"']")


def read_workbook(content: bytes, ending: str, reading: Reading, account: Account) -> Raw:
    """The only sheet that holds anything, or the one that was named."""
    if ending in ARCHIVES:
        refuse_archive_bomb(account.name, content, reading)
        refuse_odd_sheets(account.name, content, ending)
    rows = _rows(content, reading, account)
    refuse_too_many_rows(account.name, len(rows), reading)
    texts = [[as_text(cell) for cell in row] for row in rows[:SAMPLED]]
    titles, start = layout_of(texts, reading, account)
    body = [row for row in rows[start:] if any(cell != "" for cell in row)]
    total = None
    if body and reading.totals != "keep" and is_total(last := [as_text(c) for c in body[-1]]):
        body, total = body[:-1], last
    names = [name or f"\0{k}" for k, name in enumerate(titles)]
    cells = [[None if cell == "" else cell for cell in row] for row in body]
    columns = ([row[k] if k < len(row) else None for row in cells] for k in range(len(names)))
    return Raw(cells_of(names, columns), total=total)


def _rows(content: bytes, reading: Reading, account: Account) -> list[list[Any]]:
    try:
        book = CalamineWorkbook.from_filelike(BytesIO(content))
        names = list(book.sheet_names)
        sheet = reading.sheet or account.known.get("sheet")
        if sheet is not None and sheet not in names:
            raise InvalidOwners(
                f"{account.name} has no sheet {sheet!r}.{suggestion(sheet, names)} "
                f"It has: {', '.join(map(repr, names[:12]))}."
            )
        wanted = names if sheet is None else [sheet]
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in wanted}
    except (CalamineError, ValueError, OSError, OverflowError) as error:
        raise InvalidOwners(
            f"{account.name} cannot be read as a workbook: {str(error).strip()[:200]}. Save it "
            "again, without a password."
        ) from error
    filled = {name: rows for name, rows in sheets.items() if rows}
    if len(filled) > 1:
        raise InvalidOwners(
            f"{account.name} has {len(filled)} sheets that hold something: "
            f"{', '.join(map(repr, list(filled)[:12]))}. Choose one with --read sheet=NAME."
        )
    if not filled:
        raise InvalidOwners(f"{account.name} is empty; it needs a line of names and one per row.")
    account.detected["sheet"], rows = filled.popitem()
    return rows


def refuse_odd_sheets(name: str, content: bytes, ending: str) -> None:
    """Refuse sheets that would be misread, or with a cell too far out to make room for all before.

    The archive was unpacked before within its limits, so that each part may be read whole.
    """
    with ZipFile(BytesIO(content)) as archive:
        for member in archive.namelist():
            xml = archive.read(member)
            if not PART.search(xml):
                continue
            if odd := UNFAITHFUL.search(xml):
                raise InvalidOwners(
                    f"{name} cannot be read faithfully: {odd[0][:40].decode(errors='replace')!r} "
                    f"in its part {member!r} is nothing that spreadsheet programs write. Save it "
                    "again with one."
                )
            cells = _repeats(xml) if ending == ".ods" else _far_corner(xml)
            if cells > MOST_CELLS:
                raise InvalidOwners(
                    f"{name} has a sheet of {cells:,} cells, empty ones included; at most "
                    f"{MOST_CELLS:,} are read. Delete what lies far from the table, or save it as "
                    "CSV."
                )


def _far_corner(xml: bytes) -> int:
    cells = REFERENCE.findall(xml)
    last = max(((len(letters), letters) for letters, _ in cells), default=(0, b""))[1]
    columns = sum(26**k * (letter - 64) for k, letter in enumerate(reversed(last)))
    return columns * max((int(digits) for _, digits in cells), default=0)


def _repeats(xml: bytes) -> int:
    """Rows times columns of an OpenDocument sheet, those that repeat another counted."""
    rows = columns = empty = 0
    for about, inside in ROW.findall(xml):
        repeated = max(sum(int(number) for number in REPEATED_ROW.findall(about)), 1)
        if b"value-type" not in inside:
            empty += repeated  # takes room only if something comes below
            continue
        rows, empty = rows + empty + repeated, 0
        columns = max(columns, sum(int(number) for number in REPEATED_CELL.findall(inside)), 1)
    return rows * columns
