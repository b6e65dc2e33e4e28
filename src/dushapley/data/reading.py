"""How files are to be read: the keys of `--read`, and of `Owners.from_files`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from io import StringIO
from typing import Any, TypedDict

from dushapley.errors import InvalidOption
from dushapley.validation import is_number, is_whole, suggestion

MAX_ROWS, MAX_BYTES = 50_000_000, 4 * 10**9
"""The most that is read of one file, unless told otherwise; bytes after unpacking."""
TEXT = (".csv", ".tsv", ".txt", ".tab")
WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson")
DATABASES = (".sqlite", ".sqlite3", ".db")
PLAIN_ENDINGS = TEXT + WORKBOOKS + PARQUET + JSON_LINES + DATABASES
ENDINGS = (
    *(f"{ending}.gz" for ending in TEXT + JSON_LINES),
    *(f"{ending}.zip" for ending in PLAIN_ENDINGS),
    *PLAIN_ENDINGS,
    ".zip",
)
"""How names of tables end, the longer endings first."""
MERGES = ("labels", "owners", "categories")
CHOICES: dict[str, tuple[str, ...]] = {
    "decimal": (".", ","),
    "thousands": (",", ".", " ", "'"),
    "percent": ("points", "fraction"),
    "totals": ("drop", "keep"),
}
"""What keys of few words take."""


class TableKeys(TypedDict, total=False):
    """The keys, as keywords, that make sense for a table; `Reading` says what they mean."""

    decimal: str | None
    thousands: str | None
    percent: str | None
    dates: str | None
    missing: str | Iterable[str]
    text: str | Iterable[str]
    mojibake: bool
    columns: str | Iterable[str]
    drop: str | Iterable[str]
    merge: str | Iterable[str]
    positive: str | Iterable[str]


class Keys(TableKeys, total=False):
    """All keys as keywords."""

    sep: str | None
    encoding: str | None
    sheet: str | None
    header: str | int | None
    totals: str | None
    common_columns: bool
    max_rows: int
    max_bytes: int


@dataclass(frozen=True)
class Reading:
    """How to read files; what is None or empty is detected, file by file, and said.

    Attributes
    ----------
    sep, encoding, sheet, header
        Of the file: what separates columns, its encoding, the sheet of a workbook (or table of a
        SQLite file), and the line that holds the names ("3"; "1,2" joins two lines).
    decimal, thousands, percent
        Of numbers: the decimal mark, what stands between thousands, and whether 12% is 12
        ("points") or 0.12 ("fraction"). They decide where the numbers themselves do not.
    dates
        "day-first", "month-first" or a format like "%d/%m/%y", for dates that can be read two ways.
    missing
        Marks that stand for a missing value, beside the empty cell, NA and their like.
    text
        Columns that are text even where their entries look like numbers or dates.
    mojibake
        Mend text that was decoded wrongly before it was saved ("MÃ¼nchen").
    totals
        "drop" or "keep" a last row that looks like the sum of the others.
    columns, drop, common_columns
        Columns to keep, to leave out, or to restrict to those that everybody has.
    merge
        "labels", "owners", "categories": spellings of these that differ only in case, spaces or
        Unicode form become one, the one used most.
    positive
        Labels that count as 1 in the target; all others count as 0.
    max_rows, max_bytes
        The most that is read of a file (bytes after unpacking); more is refused.
    files
        Keys of single files, by the file's name: they win over those for all.

    Examples
    --------
    >>> reading = Reading.from_pairs(["sep=;", "drop=id,name", "Bonn.csv:sep=,"])
    >>> reading.of("Bonn.csv").sep, reading.of("Kiel.csv").sep, reading.drop
    (',', ';', ('id', 'name'))
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    percent: str | None = None
    encoding: str | None = None
    mojibake: bool = False
    dates: str | None = None
    sheet: str | None = None
    header: str | None = None
    totals: str | None = None
    missing: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    common_columns: bool = False
    merge: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if is_whole(self.header):
            object.__setattr__(self, "header", str(self.header))
        for key in LISTS:
            object.__setattr__(self, key, words_of(key, getattr(self, key)))
        for key in KEYS:  # job files may hold values of other types
            given = getattr(self, key)
            if key in FLAGS and not isinstance(given, bool):
                raise wrong(key, given, "yes or no")
            texts = key not in FLAGS + NUMBERS + LISTS
            if texts and not isinstance(given, (str, type(None))):
                raise wrong(key, given, "text")
        for key, able in CHOICES.items():
            if getattr(self, key) not in (None, *able):
                raise wrong(key, getattr(self, key), " or ".join(map(repr, able)))
        odd = [word for word in self.merge if word not in MERGES]
        if odd:
            raise wrong("merge", odd[0], f"{', '.join(MERGES)}, with commas between")
        if self.header is not None and not re.fullmatch(LINES, self.header):
            raise wrong("header", self.header, "the number of the line with the names, like 3")
        for key in ("max_rows", "max_bytes"):
            if not is_whole(getattr(self, key), least=1):
                raise wrong(key, getattr(self, key), "a whole number of at least 1")
        if self.decimal is not None and self.decimal == self.thousands:
            raise wrong("thousands", self.thousands, "another mark than decimal")

    @property
    def header_lines(self) -> tuple[int, ...]:
        """Lines that hold the names, from 0; none where they are to be detected."""
        return tuple(int(word) - 1 for word in (self.header or "").split(",") if word)

    def of(self, name: str) -> Reading:
        """How to read one file, by its name."""
        return replace(self, **self.files.get(name, {}), files={})

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Reading:
        """Keys by name, checked; `files` holds such keys by the name of a file."""
        given = {key.replace("-", "_"): value for key, value in keys.items()}
        nested = given.pop("files", {})
        for name in given:
            refuse_unknown(name)
        if not isinstance(nested, Mapping) or not all(
            isinstance(inner, Mapping) and "files" not in inner for inner in nested.values()
        ):
            raise wrong("files", nested, "keys of reading by the name of a file")
        files = {file: cls.from_keys(inner).changed() for file, inner in nested.items()}
        return cls(**given, files=files)

    @classmethod
    def from_pairs(cls, pairs: Sequence[str]) -> Reading:
        """`KEY=VALUE` or `FILE:KEY=VALUE`, as the command line has them."""
        keys: dict[str, Any] = {"files": {}}
        for pair in pairs:
            name, equals, text = pair.partition("=")
            file, colon, key = name.rpartition(":")
            if not equals:
                raise InvalidOption(f"--read {pair!r} is not of the form KEY=VALUE, like sep=;.")
            home = keys["files"].setdefault(file, {}) if colon else keys
            key = key.replace("-", "_")
            refuse_unknown(key)
            home[key] = (
                (*home.get(key, ()), *worded(key, text)) if key in LISTS else worded(key, text)
            )
        return cls.from_keys(keys)

    def pairs(self) -> list[str]:
        """The keys as `from_pairs` takes them."""
        inner = {f"{name}:": Reading.from_keys(keys) for name, keys in self.files.items()}
        return [
            f"{place}{key.replace('_', '-')}={typed(value)}"
            for place, reading in {"": self, **inner}.items()
            for key, value in reading.changed().items()
        ]

    def changed(self) -> dict[str, Any]:
        """The keys that differ from the defaults."""
        plain = [f for f in fields(self) if f.name != "files"]
        return {f.name: getattr(self, f.name) for f in plain if getattr(self, f.name) != f.default}

    def record(self) -> dict[str, Any]:
        """What was asked for, as plain data that `from_keys` takes."""
        keys = {k: list(v) if isinstance(v, tuple) else v for k, v in self.changed().items()}
        inner = {name: Reading.from_keys(keys).record() for name, keys in self.files.items()}
        return keys | ({"files": inner} if inner else {})


KEYS = tuple(sorted(Keys.__required_keys__ | Keys.__optional_keys__))
INTERPRETING = ("decimal", "thousands", "percent", "dates", "missing", "mojibake")
"""Keys that ask for text to be read as something else."""
LISTS = ("missing", "text", "columns", "drop", "merge", "positive")
NUMBERS = ("max_rows", "max_bytes")
FLAGS = ("common_columns", "mojibake")
LINES = r"0*[1-9][0-9]{0,8}(,0*[1-9][0-9]{0,8})*"
"""Numbers of lines, from 1."""
ESCAPES = {r"\t": "\t", "tab": "\t", "space": " "}
"""What is hard to type."""


def typed(value: Any) -> str:
    """The value of a key as it would be typed; words with commas in quotes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, tuple):
        return str(value)
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(value)
    return line.getvalue()


def worded(key: str, text: str) -> Any:
    """The value of a key, from the command line's text."""
    if key in LISTS:
        return tuple(next(csv.reader([text]), [""]))
    if key in FLAGS:
        return text.lower() in ("true", "yes", "1", "mend")
    if key in NUMBERS:
        return int(float(text)) if re.fullmatch(r"[0-9]{1,18}(e[0-9]{1,2})?", text) else text
    return ESCAPES.get(text, text) if key in ("sep", "thousands") else text


def words_of(key: str, given: object) -> tuple[str, ...]:
    """Words of a list, or of a text with commas; numbers stand for themselves: missing=[-999]."""
    words = given.split(",") if isinstance(given, str) else given
    if isinstance(words, Iterable) and not isinstance(words, (Mapping, bytes)):
        listed = tuple(words)
        if all(isinstance(word, str) or is_number(word) for word in listed):
            return tuple(map(str, listed))
    raise wrong(key, given, "words, with commas between")


def refuse_unknown(key: str) -> None:
    """Refuse a key that nobody reads."""
    if key not in KEYS:
        names = [name.replace("_", "-") for name in KEYS]
        hint = suggestion(key.replace("_", "-"), names)
        raise InvalidOption(f"There is no key {key!r} of reading.{hint} Keys: {', '.join(names)}.")


def wrong(key: str, value: object, needed: str) -> InvalidOption:
    """The error for a value that a key does not take."""
    return InvalidOption(f"{key.replace('_', '-')} is {value!r:.100}; it takes {needed}.")
