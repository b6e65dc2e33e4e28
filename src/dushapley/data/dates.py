"""Dates out of text, column by column; what reads two ways is asked about, never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dushapley.data.formats.raw import Account
from dushapley.data.numbers import TextColumn
from dushapley.data.reading import Reading

DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d-%b-%Y", "%d %b %Y", "%d. %b %Y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%d-%b-%y",
)  # fmt: skip
"""Days as people write them. With points, no country puts the month first."""
TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S.%f",
         "T%H:%M:%S%z", " %H:%M:%S%z", " %I:%M %p", " %I:%M:%S %p")  # fmt: skip
FORMATS = tuple(day + time for time, day in product(TIMES, DAYS))
ORDERS = {"d": "day-first", **dict.fromkeys("mbB", "month-first")}
"""What comes first, by the letter of a format that begins it."""
PROBED = 20
SERIAL = (10_000, 80_000)
"""Days since 1899-12-30, as spreadsheets count, of the years 1927 to 2119."""


def dates_in(
    frame: pd.DataFrame, columns: dict[str, TextColumn], reading: Reading, account: Account
) -> None:
    """Replace columns of dates written as text, telling how."""
    for name, column in columns.items():
        able = _formats(column, reading)
        moments = _parsed(column, able, reading, account) if able else None
        if moments is not None:
            frame[name] = np.append(moments.to_numpy(), np.datetime64("NaT"))[column.codes]


def _formats(column: TextColumn, reading: Reading) -> list[str]:
    """Formats in which at least one of the first entries can be read."""
    probes = column.entries[:PROBED].to_pylist()
    likely = [p for p in probes if 6 <= len(p) <= 40 and sum(c.isdigit() for c in p) >= 3]
    if 2 * len(likely) < len(probes) or not likely:
        return []
    return [form for form in _shaped(likely, reading) if _times(likely, form).notna().any()]


def _shaped(entries: Iterable[str], reading: Reading) -> list[str]:
    """Formats that have the shape of some entry; the one that was asked for first."""
    shapes = {re.sub(r"\d", "0", entry): entry for entry in entries}
    given = [reading.dates] if reading.dates and "%" in reading.dates else []
    fit = [form for form, shape in _shapes().items() if any(map(shape.match, shapes.values()))]
    return [*given, *(form for form in fit if form not in given)]


@cache
def _shapes() -> dict[str, re.Pattern[str]]:
    """A pattern for each format: cheaper than to try them all."""
    parts = {"Y": r"\d{4}", "y": r"\d{2}", "f": r"\d+", "z": r"(Z|[+-].*)", "p": r"[AaPp][Mm]"}
    parts |= dict.fromkeys("mdHMSI", r"\d{1,2}") | dict.fromkeys("bB", r"[^\W\d_]+")
    return {
        form: re.compile(re.sub(r"%(\w)", lambda m: parts[m[1]], re.escape(form)) + "$")
        for form in FORMATS
    }


def _times(entries: Sequence[str], form: str) -> Any:
    """Entries as moments without a time zone; NaT for those of another format."""
    try:
        moments = pd.Series(
            pd.to_datetime(list(entries), format=form, errors="coerce", utc="%z" in form)
        )
    except (ValueError, OverflowError):
        return pd.Series([pd.NaT] * len(entries), dtype="datetime64[us]")
    return moments.dt.tz_localize(None).astype("datetime64[us]")


def _parsed(
    column: TextColumn, able: Sequence[str], reading: Reading, account: Account
) -> pd.Series[Any] | None:
    entries = column.entries.to_pylist()
    moments = {form: _times(entries, form) for form in able}
    whole = [form for form in able if moments[form].notna().all()]
    if not whole:
        moments |= {f: _times(entries, f) for f in _shaped(entries, reading) if f not in moments}
        return _mixed(column, moments, account)
    form, sure = _decided(column, whole, moments, reading, account)
    if sure and "%Y-%m-%d" not in form:
        account.detected.setdefault("dates", {})[column.name] = form
        account.tell(
            "date-format",
            "note",
            f"Column {column.name!r} of {account.name} holds dates like {entries[0]!r}, read as "
            f"{moments[form].iloc[0]:%Y-%m-%d}.",
            column=column.name,
        )
    return moments[form]


def _decided(
    column: TextColumn,
    whole: Sequence[str],
    moments: dict[str, Any],
    reading: Reading,
    account: Account,
) -> tuple[str, bool]:
    """The format of a column, and whether it is sure; if not, the choice is told."""
    given = [form for form in whole if form == reading.dates]
    if given:
        return given[0], True
    wanted = [form for form in whole if ORDERS.get(form[1], "iso") == reading.dates]
    first, *rest = wanted or whole
    different = [moments[form] for form in rest if not moments[form].equals(moments[first])]
    if different:
        one, other = moments[first], different[0]
        row = int(np.argmax((one != other).to_numpy()))
        readings = f"{one[row]:%Y-%m-%d} or {other[row]:%Y-%m-%d}"
        remedy = "--read dates=day-first or --read dates=month-first"
        _tell_two_ways(column, row, f"may be {readings}", remedy, account)
    elif "%y" in first:
        remedy = f"--read dates={first}"
        _tell_two_ways(column, 0, "does not tell its century", remedy, account)
    return first, not different and "%y" not in first


def _tell_two_ways(column: TextColumn, entry: int, how: str, remedy: str, account: Account) -> None:
    before = "holds dates that can be read in two ways:"
    after = f" {how}, and nothing in the column decides"
    column.stop(account, "ambiguous-date", entry, before, after, remedy)


def _mixed(column: TextColumn, moments: dict[str, Any], account: Account) -> pd.Series[Any] | None:
    """A column in which no format fits every entry: several formats, or something among dates."""
    table = pd.DataFrame(moments)
    known = table.notna().any(axis=1).to_numpy()
    if known[column.codes[column.codes >= 0]].mean() < 0.5:
        return None
    if not known.all():
        column.tell_of_strays(account, "dates", np.flatnonzero(~known))
        return None
    low, high = table.min(axis=1), table.max(axis=1)
    open_ = np.flatnonzero((low != high).to_numpy())
    if len(open_):
        first = int(open_[0])
        readings = f"may be {low[first]:%Y-%m-%d} or {high[first]:%Y-%m-%d}"
        _tell_two_ways(column, first, readings, "one format for the whole column", account)
    else:
        used = table.columns[table.notna().any()].tolist()
        account.tell(
            "date-format",
            "note",
            f"Column {column.name!r} of {account.name} mixes dates of several formats "
            f"({', '.join(used[:4])}); each is read as it is written.",
            column=column.name,
        )
    return low


def as_dates(values: pd.Series[Any]) -> pd.Series[Any] | None:
    """Numbers that count days as spreadsheets do, or that are written like 20221231, as dates."""
    present = values.dropna()
    if present.between(*SERIAL).all() and len(present):
        start = np.datetime64("1899-12-30", "us")
        micro = (values * 86_400_000_000).round()
        return (start + pd.to_timedelta(micro, unit="us")).astype("datetime64[us]")
    if present.between(19_000_101, 21_001_231).all() and len(present) and (present % 1 == 0).all():
        moments = pd.to_datetime(
            values.astype("Int64").astype("string"), format="%Y%m%d", errors="coerce"
        )
        if moments.notna().sum() == len(present):
            return moments.astype("datetime64[us]")
    return None
