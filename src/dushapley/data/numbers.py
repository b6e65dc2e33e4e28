"""Numbers out of text: decimal commas, thousands, percent signs, and what stands among them.

A style fits a column if every entry can be read in it. Where two styles fit and give different
numbers (1,234), the rest of the file decides, or whoever asks; never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute

from dushapley.arrays import Array
from dushapley.data.formats.raw import Account, Raw
from dushapley.data.reading import Reading

SPACES, APOSTROPHES, MINUS = "[ \u00a0\u202f\u2009]", "['’]", "−"
PROBED = 50
"""Different entries that are looked at before all of a column is."""


@dataclass(frozen=True)
class Style:
    """How numbers are written: the decimal mark, and what stands between thousands."""

    decimal: str
    thousands: str = ""

    @property
    def mark(self) -> str:
        """A regular expression for what stands between thousands."""
        return {" ": SPACES, "'": APOSTROPHES}.get(self.thousands, re.escape(self.thousands))

    @property
    def pattern(self) -> str:
        """A regular expression for all of an entry."""
        grouped = rf"\d{{1,3}}(?:{self.mark}\d{{3}})+|" if self.thousands else ""
        point = re.escape(self.decimal)
        return rf"^[+-]?(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?$"

    def plain(self, entries: pa.Array) -> pa.Array:
        """Entries as a computer writes numbers."""
        if self.thousands:
            entries = compute.replace_substring_regex(entries, self.mark, "")
        return compute.replace_substring(entries, self.decimal, ".")

    def number(self, text: str) -> float | None:
        """One entry as a number, if it is one."""
        text = text.strip().rstrip("%").strip().replace(MINUS, "-")
        if not re.match(self.pattern, text):
            return None
        bare = re.sub(self.mark, "", text) if self.thousands else text
        return float(bare.replace(self.decimal, "."))


PLAIN = Style(".")
STYLES = (
    PLAIN, Style(","), Style(",", "."), Style(".", ","), Style(".", " "), Style(",", " "),
    Style(".", "'"), Style(",", "'"),
)  # fmt: skip
"""Styles of all countries, the simpler before those that add something."""


@dataclass
class TextColumn:
    """A column of text with its different entries, and the styles that fit all of them."""

    name: str
    entries: pa.Array
    codes: Array
    percent: bool = False
    styles: list[Style] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, values: pd.Series[Any]) -> TextColumn:
        """The entries of a column of text, each once."""
        array = pa.array(values, pa.string(), from_pandas=True)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        known = array.dictionary_encode()
        trimmed = compute.utf8_trim_whitespace(known.dictionary)
        codes = known.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return cls(name, compute.replace_substring(trimmed, MINUS, "-"), codes)

    def fits(self) -> dict[Style, Any]:
        """Of each style, which entries fit it."""
        entries = self.bare()
        return {
            style: compute.match_substring_regex(entries, style.pattern).to_numpy(False)
            for style in STYLES
        }

    def bare(self) -> pa.Array:
        """Entries without percent signs."""
        return compute.replace_substring_regex(self.entries, r"\s*%$", "")

    def first_row(self, entry: int) -> int:
        """Row, from 1, in which an entry first stands."""
        return int(np.argmax(self.codes == entry)) + 1

    def stop(
        self, account: Account, code: str, entry: int, before: str, after: str, remedy: str
    ) -> None:
        """Add a stop about an entry, whose first row is named."""
        word, row = self.entries[entry].as_py(), self.first_row(entry)
        account.tell(
            code,
            "stop",
            f"Column {self.name!r} of {account.name} {before} {word!r} in row {row}{after}.",
            column=self.name,
            row=row,
            value=word,
            remedy=remedy,
        )

    def tell_of_strays(self, account: Account, kind: str, strays: Array, more: str = "") -> None:
        """Add a stop about words among numbers or dates."""
        marks = ",".join(self.entries[int(k)].as_py() for k in strays[:5])
        remedy = (
            f"--read missing='{marks}' if that stands for a missing value, or --read "
            f"text='{self.name}' if the column is text"
        )
        self.stop(account, "stray-text", int(strays[0]), f"holds {kind}, but", more, remedy)

    def values(self, style: Style) -> pd.Series[Any]:
        """The numbers, whole ones as such."""
        plain = style.plain(self.bare())
        try:
            numbers = plain.cast(pa.int64())
        except pa.ArrowInvalid:
            numbers = plain.cast(pa.float64())
        taken = numbers.take(pa.array(self.codes, mask=self.codes < 0))
        return pd.Series(taken.to_pandas().to_numpy())


def numbers_in(
    frame: pd.DataFrame, raw: Raw, reading: Reading, account: Account
) -> dict[str, TextColumn]:
    """Replace columns of numbers written as text, telling how; what stays text is given back."""
    columns = text_columns(frame, reading)
    numeric = [column for column in columns.values() if _fit(column, raw, account)]
    styles = _chosen_styles(numeric, reading, account)
    for column in numeric:
        style = styles[column.name]
        frame[column.name] = column.values(style).set_axis(frame.index)
        if reading.percent == "fraction" and column.percent:
            frame[column.name] = frame[column.name] / 100
    if any(style.decimal == "," for style in styles.values()):
        _read_points_again(frame, raw, account, done=styles)
    _tell(numeric, styles, account)
    return {name: column for name, column in columns.items() if name not in styles}


def text_columns(frame: pd.DataFrame, reading: Reading) -> dict[str, TextColumn]:
    """Columns of text, but for those that are to stay as they are."""
    types, words = pd.api.types, {}
    for name, dtype in frame.dtypes.items():
        if types.is_string_dtype(dtype) and name not in reading.text:
            cells = frame[name]
            if types.infer_dtype(cells, skipna=True) == "string":
                words[str(name)] = TextColumn.of(str(name), cells)
    return words


def _fit(column: TextColumn, raw: Raw, account: Account) -> bool:
    """Whether a column holds numbers in some style; what stands among numbers is told."""
    probes = TextColumn(column.name, column.entries[:PROBED], column.codes)
    if not np.any(list(probes.fits().values())):  # saves the look at all of them
        return False
    fits = column.fits()
    able = np.any(list(fits.values()), axis=0)
    if not able.all():
        # most rows are numbers, and the words among them hold no digit
        present, strays = able[column.codes[column.codes >= 0]], np.flatnonzero(~able)
        words = "".join(column.entries.take(pa.array(strays)).to_pylist())
        if present.mean() >= 0.5 and not any(map(str.isdigit, words)):
            count = int((~present).sum())
            more = f" and text in {count - 1} more rows" * (count > 1)
            column.tell_of_strays(account, "numbers", strays, more)
        return False
    column.styles = [style for style, fit in fits.items() if fit.all()]
    entries = column.entries.to_pylist()
    signs = [entry.endswith("%") for entry in entries]
    column.percent = any(signs)
    zeros = raw.texts is None and any(re.match(r"^0\d", entry) for entry in entries)
    if column.percent and not all(signs):
        first, name = signs.index(True), column.name
        row = column.first_row(first)
        message = (
            f"Column {name!r} of {account.name} has percent signs in some rows only, first in row "
            f"{row}. Write all of them in one way."
        )
        account.tell("percent-sign", "stop", message, column=name, row=row, value=entries[first])
    return bool(column.styles) and not zeros  # codes that begin with 0 are names, not amounts


def _chosen_styles(
    columns: Sequence[TextColumn], reading: Reading, account: Account
) -> dict[str, Style]:
    """One style for each column: the only one, or that of the file, or the one asked for."""
    options = {column.name: _different(column, reading) for column in columns}
    sure = [styles[0] for styles in options.values() if len(styles) == 1]
    decimals = {style.decimal for style in sure if style != PLAIN}
    chosen = {}
    for column in columns:
        able = options[column.name]
        if len(able) > 1 and len(decimals) == 1:
            able = [s for s in able if s.decimal in decimals] or able
        if len(able) > 1:
            readings = [f"{style.number(column.entries[0].as_py()):,}" for style in able[:2]]
            after = f" may be {' or '.join(readings)}"
            remedy = f"--read decimal={able[0].decimal} or --read decimal={able[1].decimal}"
            column.stop(account, "ambiguous-number", 0, "can be read in two ways:", after, remedy)
        chosen[column.name] = able[0]
    return chosen


def _different(column: TextColumn, reading: Reading) -> list[Style]:
    """The styles that fit, one for each way to read the numbers; those asked for first."""
    decimal, thousands = reading.decimal, reading.thousands
    wanted = [style for style in column.styles if decimal in (None, style.decimal)]
    if thousands is not None:
        wanted = [style for style in wanted if style.thousands in ("", thousands)]
        # a mark that is asked for is not a decimal mark
        wanted = [style for style in wanted if style.decimal != thousands] or wanted
    different: dict[bytes, Style] = {}
    for style in wanted or column.styles:
        numbers = style.plain(column.bare()).cast("float64").to_numpy(zero_copy_only=False)
        different.setdefault(numbers.tobytes(), style)
    return list(different.values())


def _read_points_again(
    frame: pd.DataFrame, raw: Raw, account: Account, done: Collection[str]
) -> None:
    """In a file of decimal commas, 1.234 is 1234 where all of a column is written so."""
    numbers = [str(name) for name, dtype in frame.dtypes.items() if dtype.kind == "f"]
    names = [name for name in numbers if name not in done]
    if raw.texts is None or not names:
        return
    style, texts = Style(",", "."), raw.texts(names)
    for name in names:
        column = TextColumn.of(name, texts[name].to_pandas())
        entries = column.entries.to_pylist()
        if not any("." in entry for entry in entries):
            continue
        if all(re.match(style.pattern, entry) for entry in entries):
            frame[name] = column.values(style).set_axis(frame.index)
            account.tell(
                "thousands",
                "note",
                f"Column {name!r} of {account.name}, a file of decimal commas, has points between "
                f"thousands: {entries[0]!r} is read as {style.number(entries[0]):,.0f}.",
                column=name,
            )
        else:
            account.tell(
                "decimal-marks",
                "note",
                f"{account.name} has decimal commas, but points in column {name!r} "
                f"({entries[0]!r}); each column is read as it is written.",
                column=name,
            )


def _tell(columns: Sequence[TextColumn], styles: dict[str, Style], account: Account) -> None:
    """Say once for each way of writing which columns it was found in."""
    for mark, usual, code, words in (
        ("decimal", ".", "decimal-comma", "decimal commas"),
        ("thousands", "", "thousands", "marks between thousands"),
    ):
        written = [column for column in columns if getattr(styles[column.name], mark) != usual]
        if written:
            first, count = written[0], len(written)
            entry, style = first.entries[0].as_py(), styles[first.name]
            account.detected[mark] = getattr(style, mark)
            message = (
                f"{account.name} writes {count} column{'s' * (count > 1)} with {words}; {entry!r} "
                f"in {first.name!r} is read as {style.number(entry)}."
            )
            account.tell(code, "note", message)
    signs = [column.name for column in columns if column.percent]
    if signs:
        account.detected["percent columns"] = signs
