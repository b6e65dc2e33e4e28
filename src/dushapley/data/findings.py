"""Findings about the owners' files, and the code of each kind with what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Severity = Literal["stop", "note"]


@dataclass(frozen=True)
class Finding:
    """Something odd: whose, where, and what to do about it.

    Attributes
    ----------
    code
        Its kind, like "ambiguous-date": what `--accept` takes.
    severity
        "stop": it would move money in silence, so nothing runs until it is resolved; "note": it may
        be real, and the run goes on.
    message
        One sentence: what was found and, for a stop, what is needed.
    owner, column, row, value
        Where, as far as that can be told; rows are counted from 1 below the names of columns. The
        owner is that of the file, or the file's name where it holds rows of several.
    remedy
        The option that resolves it, as it would be typed.
    """

    code: str
    severity: Severity
    message: str
    owner: str | None = None
    column: str | None = None
    row: int | None = None
    value: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        """The sentence, what to do, and the code."""
        remedy = f" Resolve it with {self.remedy}." if self.remedy else ""
        return f"{self.message}{remedy} [{self.code}]"


FindingStream = Iterator[Finding]
"""What a check gives, one finding after the other."""


@dataclass(frozen=True)
class Code:
    """What a finding of this code is about.

    Attributes
    ----------
    severity
        "stop" or "note".
    meaning
        What was found, in a few words.
    why_not
        Why a stop cannot be accepted; None where it can.
    of_file
        Whether it is about how a file is written: one example stands for all of them.
    """

    severity: Severity
    meaning: str
    why_not: str | None = None
    of_file: bool = False


_STOPS = {
    "file-skipped": "a file or folder that is not read",
    "owners-changed": "other owners than those whom the job file names",
    "unreadable-file": "a file that holds no table, or is damaged",
    "ragged-row": "rows with more or fewer fields than there are names",
    "unnamed-column": "a column without a name that holds something",
    "stray-text": "a word among numbers or dates",
    "ambiguous-number": "numbers that can be read in two ways, like 1,234",
    "ambiguous-date": "dates that can be read in two ways, like 03/04/2022",
    "percent-sign": "percent signs that others do not write",
    "mojibake": "text that was decoded wrongly before it was saved",
    "totals-row": "a last row that holds the sums of the others",
    "owner-spelling": "two owners' names differ in spelling only",
    "label-spelling": "labels of the target differ in spelling only",
    "category-spelling": "categories of a feature differ in spelling only",
    "test-labels": "labels in the test set that no owner has",
    "lacking-column": "a column that others have",
    "extra-column": "a column that others lack",
    "mixed-types": "numbers for one, text or dates for another",
    "label-foreign": "an owner's labels are none of those that others use",
    "infinite-value": "an infinite number",
    "copied-file": "all rows of one are rows of another, or of the test set",
    "missing-target": "rows without a target; if accepted, they are left out",
    "no-rows": "a table without rows; if accepted, its owner is left out",
}
_NOTES = {
    "encoding": "another encoding than UTF-8",
    "separator": "another separator than the name of the file says",
    "header-row": "names of columns that are not in the first line",
    "second-header": "a second line of names, or one of units",
    "index-column": "a column without a name that only counts the rows",
    "empty-columns": "columns without names and values",
    "column-left-out": "a column left out for all, since some lack it",
    "column-spelling": "a column's name that differs in spelling only",
    "decimal-comma": "decimal commas",
    "thousands": "marks between thousands",
    "decimal-marks": "decimal commas and decimal points in one file",
    "date-format": "dates that are not written like 2022-12-31",
    "serial-dates": "dates as numbers of days, as spreadsheets count",
    "unseen-label": "a few test rows have a label that no owner has",
    "test-columns": "columns of the test set that no owner has",
    "constant-column": "a column of one value, for everybody or for one owner",
    "id-column": "a column that is different in every row",
    "giveaway-column": "a column that tells the target by itself",
    "missing-values": "an owner with far more missing values than the others",
    "placeholder": "a repeated number far outside all others, like -999",
    "outlier": "a single number far outside all others",
    "rare-label": "a label of one row only that is spelt almost like another",
    "few-rows": "owners with fewer than ten rows",
    "one-class": "an owner whose rows all have one label",
    "own-category": "categories or labels that only one owner uses",
    "shifted-units": "a median far outside the others' values",
    "inverted-target": "targets that run against what the others' rows say",
    "repeated-rows": "equal rows within an owner",
    "shared-rows": "equal rows of two owners",
    "tested-rows": "rows of an owner that are in the test set",
    "near-rows": "rows that differ by a millionth only",
}
_OF_FILE = (
    "encoding", "separator", "header-row", "second-header", "index-column", "empty-columns",
    "column-spelling", "decimal-comma", "thousands", "decimal-marks", "date-format", "serial-dates",
)  # fmt: skip
_WHY_NOT = {
    **dict.fromkeys(
        ("ambiguous-number", "ambiguous-date", "percent-sign", "totals-row"),
        "it has to be said which way it is read",
    ),
    **dict.fromkeys(
        ("lacking-column", "extra-column"), "a model needs the same columns of everybody"
    ),
    "mixed-types": "a column is numbers, dates or text for everybody",
    "infinite-value": "no model can be trained on it",
}

CODES: dict[str, Code] = {
    **{name: Code("stop", meaning, _WHY_NOT.get(name)) for name, meaning in _STOPS.items()},
    **{name: Code("note", meaning, None, name in _OF_FILE) for name, meaning in _NOTES.items()},
}
"""All codes; `--accept` takes those of stops."""
