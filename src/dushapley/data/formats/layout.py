"""Where a table lies among the lines of a file: titles above, names, units, and a total below."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from dushapley.data.formats.raw import Account
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners

NUMBER = re.compile(r"^[+-]?[\d.,'’ \u00a0\u202f]*\d\s?%?([eE][+-]?\d+)?$")
"""Anything that may be a number, in whatever country."""
TOTALS = frozenset(
    (
        "total", "totals", "grand total", "subtotal", "sum", "summe", "gesamt", "gesamtsumme",
        "insgesamt", "somme", "totale", "suma", "average", "mean", "mittelwert", "durchschnitt",
    )
)  # fmt: skip
"""What people call such a row, in small letters."""
MOST_ABOVE = 20
"""Lines above the names that are looked through."""

Lines = Sequence[Sequence[str]]
Layout = tuple[tuple[str, ...], int]
"""Names of the columns, and the line (from 0) that the rows start on."""


def layout_of(lines: Lines, reading: Reading, account: Account) -> Layout:
    """Find the names of columns among the first lines; blank ones count as lines."""
    known = replace(reading, header=account.known.get("header")).header_lines
    if reading.header_lines:
        return _as_told(lines, reading, account)
    if known and (len(known) > 1 or known[0] >= len(lines)):
        return _as_told(lines, replace(reading, header=account.known["header"]), account)
    width = _width(lines)
    first = next((k for k, line in enumerate(lines) if any(filled(line))), 0)
    if not lines or not any(filled(lines[first])):
        raise InvalidOwners(
            f"{account.name} is empty; it needs a line of names and one line per row."
        )
    head = known[0] if known else _head(lines, first, width)
    if head != first:
        above = " ".join(cell for line in lines[first:head] for cell in line if cell.strip())
        account.detected["header"] = str(head + 1)
        account.tell(
            "header-row",
            "note",
            f"{account.name} has its names of columns in line {head + 1}, below {above[:60]!r}.",
        )
    below = head + 1
    if _is_units(lines, head, width):
        account.tell(
            "second-header",
            "note",
            f"{account.name} has a second line of names or units below the first "
            f"({', '.join(c for c in lines[below] if c.strip())[:60]!r}); it is left out.",
        )
        below += 1
    return _padded(lines[head], lines[below:], account), below


def _as_told(lines: Lines, reading: Reading, account: Account) -> Layout:
    chosen = reading.header_lines
    if max(chosen) >= len(lines):
        raise InvalidOwners(
            f"{account.name} has no line {max(chosen) + 1} for the names of columns, which --read "
            f"header={reading.header} names. Look for the right line, and count from 1."
        )
    columns = zip_longest(*(lines[k] for k in chosen), fillvalue="")
    names = [" ".join(filter(None, map(str.strip, cells))) for cells in columns]
    start = max(chosen) + 1
    if len(chosen) == 1 and _is_units(lines, chosen[0], _width(lines)):
        start += 1
    return _padded(names, lines[start:], account), start


def filled(line: Sequence[str]) -> list[bool]:
    """Which cells hold something."""
    return [bool(cell.strip()) for cell in line]


def _width(lines: Lines) -> int:
    """Number of cells that most lines have."""
    counts = Counter(len(line) for line in lines if any(filled(line)))
    return counts.most_common(1)[0][0] if counts else 0


def _head(lines: Lines, first: int, width: int) -> int:
    """The line of names: the first that fills at least half of the columns that hold anything."""
    if all(filled(lines[first])) and len(lines[first]) >= width - 1:
        return first
    used = sum(map(any, zip_longest(*map(filled, lines))))
    least = max(min(2, used), used / 2)
    for k in range(first, min(first + MOST_ABOVE, len(lines))):
        if sum(filled(lines[k])) >= least:
            return k + 1 if _is_group(lines, k) else k
    return first


def _is_group(lines: Lines, k: int) -> bool:
    """Whether a line only groups the columns that the next line names, all of them."""
    if k + 2 >= len(lines):
        return False
    line, below, row = lines[k : k + 3]
    named = all(filled(below)) and len(set(below)) == len(below) >= len(line)
    groups = named and not all(filled(line)) and not any(map(is_number, below))
    return groups and any(map(is_number, row))


def _is_units(lines: Lines, head: int, width: int) -> bool:
    """Whether the line below the names holds words wherever the rows below hold only numbers."""
    rows = [line for line in lines[head + 2 :] if len(line) == width and any(filled(line))]
    if len(rows) < 2 or len(lines[head + 1]) != width:
        return False
    units = []
    for unit, *cells in zip(lines[head + 1], *rows, strict=True):
        entries = [cell for cell in cells if cell.strip()]
        if len(entries) >= 2 and all(map(is_number, entries)):
            units.append(unit)
    words = [unit for unit in units if any(c.isalpha() or c in "%°" for c in unit)]
    least = min(2, width - 1, len(units))
    return len(words) >= least > 0 and not any(map(is_number, units))


def is_number(cell: str) -> bool:
    """Whether a cell may be a number."""
    return NUMBER.match(cell.strip()) is not None


def _padded(names: Sequence[str], rows: Lines, account: Account) -> tuple[str, ...]:
    """Names for every field of the rows; fields beyond the names must be empty."""
    width = _width(rows) or len(names)
    beyond = [cell for line in rows if len(line) == width for cell in line[len(names) :]]
    if any(cell.strip() for cell in beyond):
        raise InvalidOwners(
            f"{account.name} has rows with more fields than its line of names has. Name every "
            "column."
        )
    return (*(name.strip() for name in names), *[""] * (width - len(names)))


def is_total(line: Sequence[str]) -> bool:
    """Whether a line calls itself a total."""
    words = (cell.strip().rstrip(":").lower() for cell in line)
    return any(word in TOTALS for word in words) and any(map(is_number, line))
