"""One file's bytes as a table: unpacked, read by its ending, tidied; numbers and dates as such."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dushapley.data.dates import dates_in
from dushapley.data.formats.columnar import read_database, read_json_lines, read_parquet
from dushapley.data.formats.raw import Account, Raw
from dushapley.data.formats.text import read_text
from dushapley.data.formats.unpacking import PACKED, refuse_too_many_bytes, unpacked
from dushapley.data.formats.workbooks import read_workbook
from dushapley.data.numbers import STYLES, numbers_in, text_columns
from dushapley.data.reading import DATABASES, JSON_LINES, PARQUET, TEXT, WORKBOOKS, Reading
from dushapley.data.tables import check_columns
from dushapley.errors import InvalidOwners

LEAST_ROWS = 10
"""Rows from which a last one that holds the sums of the others is taken for a total."""


def read_frame(path: Path, content: bytes, reading: Reading, account: Account) -> pd.DataFrame:
    """The table in a file, or an explanation of why there is none."""
    try:
        return _read_frame(path, content, reading, account)
    except (pa.ArrowException, UnicodeError, OverflowError, MemoryError) as error:
        raise InvalidOwners(
            f"{account.name} holds what cannot be read: {str(error).strip()[:200]}. Save it again."
        ) from error


def _read_frame(path: Path, content: bytes, reading: Reading, account: Account) -> pd.DataFrame:
    refuse_too_many_bytes(account.name, len(content), reading.max_bytes)
    name, content = unpacked(path.name, content, reading)
    ending = Path(name).suffix.lower()
    if ending in PARQUET:
        frame = read_parquet(content, reading, account)
        check_columns(frame.columns, account.name)
        _without_marks(frame, reading, account)
        dates_in(frame, text_columns(frame, reading), reading, account)
        return frame
    raw = _raw(path, content, ending, reading, account)
    frame = _without_last_blanks(_tidied(_as_pandas(raw.columns), account, reading))
    interpret(frame, raw, reading, account)
    return _checked_total(frame, raw, reading, account)


def interpret(frame: pd.DataFrame, raw: Raw, reading: Reading, account: Account) -> None:
    """Put text that holds numbers or dates into columns of numbers and dates."""
    _without_marks(frame, reading, account)
    _mend(frame, reading, account)
    words = numbers_in(frame, raw, reading, account)
    _without_marks(frame, reading, account)
    dates_in(frame, words, reading, account)


def _without_marks(frame: pd.DataFrame, reading: Reading, account: Account) -> None:
    """Put missing values where cells hold a mark of one; -999 as a number is -999.0 as well."""
    words: dict[Any, Any] = dict(zip(reading.missing, reading.missing, strict=True))
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").dropna().to_dict()
    types = pd.api.types
    for name, dtype in frame.dtypes.items():
        marks = words if types.is_string_dtype(dtype) else {}
        if types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype):
            marks = numbers
        for mark, entry in marks.items():
            marked = frame[name] == entry
            if marked.any():
                account.marks.add(mark)
                frame[name] = frame[name].where(~marked)


def _raw(path: Path, content: bytes, ending: str, reading: Reading, account: Account) -> Raw:
    if ending in TEXT:
        return read_text(content, ending, reading, account)
    if ending in WORKBOOKS:
        return read_workbook(content, ending, reading, account)
    if ending in JSON_LINES:
        return read_json_lines(content, reading, account)
    if ending in DATABASES:
        return read_database(content, path, reading, account)
    inside = " inside" if path.name.lower().endswith(PACKED) else ""
    raise InvalidOwners(
        f"{path} ends in {ending!r}{inside}; tables are read from text (.csv, .tsv, .txt), "
        "Parquet, Excel and OpenDocument (.xlsx, .xls, .xlsb, .ods), JSON lines (.jsonl) and "
        "SQLite (.sqlite)."
    )


def _as_pandas(table: pa.Table) -> pd.DataFrame:
    """Arrow's columns in the types that pandas reads a CSV file into, dates as moments."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_null(kind):
            column = column.cast(pa.float64())
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us"), safe=False)
        elif pa.types.is_time(kind) or pa.types.is_decimal(kind):
            column = column.cast(pa.string())
        columns.append(column)
    names = [f"\0{k}" for k in range(len(columns))]  # twins are refused by name, later
    return pa.table(columns, names=names).to_pandas().set_axis(table.column_names, axis=1)


def _without_last_blanks(frame: pd.DataFrame) -> pd.DataFrame:
    """The same without rows at the end in which every cell is empty."""
    rows = len(frame)
    while rows and frame.shape[1] and bool(frame.iloc[rows - 1].isna().all()):
        rows -= 1
    return frame if rows == len(frame) else frame.iloc[:rows]


def _tidied(frame: pd.DataFrame, account: Account, reading: Reading) -> pd.DataFrame:
    """Without empty and index columns that have no name; others without a name get one, told."""
    names = list(frame.columns)
    kept: list[int] = []
    empty = False
    for k, name in enumerate(names):
        column, place = frame.iloc[:, k], f"Column {k + 1} of {account.name}"
        if not name.startswith("\0") and name.strip():
            kept.append(k)
        elif bool(column.isna().all()):
            empty = True
        elif _counts_rows(column):
            message = f"{place} has no name and only counts the rows; it is left out."
            account.tell("index-column", "note", message)
        else:
            kept.append(k)
            names[k] = f"column {k + 1}"
            if names[k] not in reading.drop:
                account.tell(
                    "unnamed-column",
                    "stop",
                    f"{place} has no name. Name it, or leave it out.",
                    column=names[k],
                    value=column.dropna().iloc[0],
                    remedy=f"--read drop='{names[k]}'",
                )
    if empty and len(frame):
        message = f"{account.name} has empty columns without a name; left out."
        account.tell("empty-columns", "note", message)
    tidied = frame.set_axis(names, axis=1).iloc[:, kept].copy()
    check_columns(tidied.columns, account.name)
    return tidied


def _counts_rows(column: pd.Series[Any]) -> bool:
    if column.dtype.kind not in "if" or not len(column):
        return False
    numbers = column.to_numpy(np.float64)
    steps = np.arange(len(numbers))
    return bool((numbers == steps).all() or (numbers == steps + 1).all())


BROKEN = r"[ÃÂ][\x80-\u00bf\u0152-\u0161\u0178-\u017e\u2013-\u203a\u20ac\u2122]|â€|â‚¬"
"""UTF-8 that was decoded as cp1252 on its way, as it looks then."""


def _mend(frame: pd.DataFrame, reading: Reading, account: Account) -> None:
    """Mend or tell of text that was decoded wrongly before it was saved."""
    names = {name: mended(name) for name in frame.columns if mended(name) != name}
    if names and not reading.mojibake:
        first = next(iter(names))
        _tell_of_mojibake(first, None, first, account)
    elif names:
        frame.rename(columns=names, inplace=True)
    for name, column in text_columns(frame, reading).items():
        entries = column.entries.to_pylist()
        broken = [k for k, entry in enumerate(entries[:10_000]) if mended(entry) != entry]
        if broken and reading.mojibake:
            frame[name] = frame[name].map(mended, na_action="ignore")
        elif broken:
            entry = broken[0]
            _tell_of_mojibake(name, column.first_row(entry), entries[entry], account)


def mended(text: str) -> str:
    """Text as it was before it was decoded wrongly; as it is, if nothing says so.

    Examples
    --------
    >>> mended("MÃ¼nchen"), mended("München")
    ('München', 'München')
    """
    if text.isascii() or not re.search(BROKEN, text):
        return text
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text


def _tell_of_mojibake(column: str, row: int | None, value: str, account: Account) -> None:
    where = "the names of columns" if row is None else f"column {column!r}, row {row}"
    account.tell(
        "mojibake",
        "stop",
        f"{account.name} holds {value!r} in {where}: text that was decoded wrongly before it was "
        f"saved. It seems to be {mended(value)!r}.",
        column=column,
        row=row,
        value=value,
        remedy="--read mojibake=mend",
    )


def _checked_total(
    frame: pd.DataFrame, raw: Raw, reading: Reading, account: Account
) -> pd.DataFrame:
    """The table, told whether a last row was (or may be) a total."""
    if raw.total is not None and (reading.totals == "drop" or _adds_up(frame, raw.total)):
        account.tell(
            "totals-row",
            "note",
            f"The last row of {account.name} is the total of the others "
            f"({' '.join(filter(None, raw.total))[:60]!r}); it is left out.",
        )
        return frame
    if raw.total is None and (reading.totals == "keep" or not _ends_in_sums(frame)):
        return frame
    if reading.totals == "drop":
        return frame.iloc[:-1]
    row, value = len(frame), frame.iloc[-1].iloc[0] if raw.total is None else " ".join(raw.total)
    says = "holds the sums of the rows above it: it looks like a total, not a row"
    if raw.total is not None:
        row += 1
        says = (
            "calls itself a total, but its numbers are not the sums of the columns. Say whether it "
            "is one"
        )
    account.tell(
        "totals-row",
        "stop",
        f"The last row of {account.name} {says}.",
        row=row,
        value=value,
        remedy="--read totals=drop or --read totals=keep",
    )
    return frame


def _adds_up(frame: pd.DataFrame, total: Any) -> bool:
    """Whether the numbers of a total are sums of columns, in one style or another."""
    numbers = [frame[name] for name in frame.columns if frame[name].dtype.kind in "if"]
    sums = [float(column.sum()) for column in numbers]
    for style in STYLES:
        found = [style.number(cell) for cell in total]
        known = [number for number in found if number is not None]
        if known and all(any(np.isclose(n, s, rtol=1e-6) for s in sums) for n in known):
            return True
    return False


def _ends_in_sums(frame: pd.DataFrame) -> bool:
    """Whether the last row holds the sums of the rows above, in two columns of numbers at least."""
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "if"]
    if len(frame) < LEAST_ROWS or len(numbers) < 2:
        return False
    table = frame[numbers].to_numpy(np.float64)
    above, last = table[:-1], table[-1]
    sums = np.nansum(above, axis=0)
    known = ~np.isnan(last)
    telling = known & (np.abs(sums) > np.nanmax(np.abs(above), axis=0, initial=0.0))
    return bool(telling.sum() >= 2 and np.isclose(last, sums, rtol=1e-9)[known].all())
