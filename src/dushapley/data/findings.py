"""Findings about the owners' files, and the code of each kind with what it means."""

from __future__ import annotations

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

    @property
    def acceptable(self) -> bool:
        """Whether `--accept` takes it."""
        return self.severity == "stop" and self.why_not is None


_COLUMNS = "a model needs the same columns of everybody"
_TYPES = "a column is numbers, dates or text for everybody"
_WAYS = "it has to be said which way it is read"

CODES: dict[str, Code] = {
    "file-skipped": Code("stop", "a file or folder that is not read"),
    "owners-changed": Code("stop", "other owners than those whom the job file names"),
    "unreadable-file": Code("stop", "a file that holds no table, or is damaged"),
    "ragged-row": Code("stop", "rows with more or fewer fields than there are names"),
    "unnamed-column": Code("stop", "a column without a name that holds something"),
    "stray-text": Code("stop", "a word among numbers or dates"),
    "ambiguous-number": Code("stop", "numbers that can be read in two ways, like 1,234", _WAYS),
    "ambiguous-date": Code("stop", "dates that can be read in two ways, like 03/04/2022", _WAYS),
    "percent-sign": Code("stop", "percent signs that others do not write", _WAYS),
    "mojibake": Code("stop", "text that was decoded wrongly before it was saved"),
    "totals-row": Code("stop", "a last row that holds the sums of the others", _WAYS),
    "encoding": Code("note", "another encoding than UTF-8", of_file=True),
    "separator": Code("note", "another separator than the name of the file says", of_file=True),
    "header-row": Code("note", "names of columns that are not in the first line", of_file=True),
    "second-header": Code("note", "a second line of names, or one of units", of_file=True),
    "index-column": Code("note", "a column without a name that only counts the rows", of_file=True),
    "empty-columns": Code("note", "columns without names and values", of_file=True),
    "column-left-out": Code("note", "a column left out for all, since some lack it"),
    "column-spelling": Code("note", "a column's name that differs in spelling only", of_file=True),
    "decimal-comma": Code("note", "decimal commas", of_file=True),
    "thousands": Code("note", "marks between thousands", of_file=True),
    "decimal-marks": Code("note", "decimal commas and decimal points in one file", of_file=True),
    "date-format": Code("note", "dates that are not written like 2022-12-31", of_file=True),
    "serial-dates": Code("note", "dates as numbers of days, as spreadsheets count", of_file=True),
    "owner-spelling": Code("stop", "two owners' names differ in spelling only"),
    "label-spelling": Code("stop", "labels of the target differ in spelling only"),
    "category-spelling": Code("stop", "categories of a feature differ in spelling only"),
    "test-labels": Code("stop", "labels in the test set that no owner has"),
    "unseen-label": Code("note", "a few test rows have a label that no owner has"),
    "lacking-column": Code("stop", "a column that others have", _COLUMNS),
    "extra-column": Code("stop", "a column that others lack", _COLUMNS),
    "mixed-types": Code("stop", "numbers for one, text or dates for another", _TYPES),
    "label-foreign": Code("stop", "an owner's labels are none of those that others use"),
    "infinite-value": Code("stop", "an infinite number", "no model can be trained on it"),
    "copied-file": Code("stop", "all rows of one are rows of another, or of the test set"),
    "missing-target": Code("stop", "rows without a target; if accepted, they are left out"),
    "no-rows": Code("stop", "a table without rows; if accepted, its owner is left out"),
    "test-columns": Code("note", "columns of the test set that no owner has"),
    "constant-column": Code("note", "a column of one value, for everybody or for one owner"),
    "id-column": Code("note", "a column that is different in every row"),
    "giveaway-column": Code("note", "a column that tells the target by itself"),
    "missing-values": Code("note", "an owner with far more missing values than the others"),
    "placeholder": Code("note", "a repeated number far outside all others, like -999"),
    "outlier": Code("note", "a single number far outside all others"),
    "rare-label": Code("note", "a label of one row only that is spelt almost like another"),
    "few-rows": Code("note", "owners with fewer than ten rows"),
    "one-class": Code("note", "an owner whose rows all have one label"),
    "own-category": Code("note", "categories or labels that only one owner uses"),
    "shifted-units": Code("note", "a median far outside the others' values"),
    "inverted-target": Code("note", "targets that run against what the others' rows say"),
    "repeated-rows": Code("note", "equal rows within an owner"),
    "shared-rows": Code("note", "equal rows of two owners"),
    "tested-rows": Code("note", "rows of an owner that are in the test set"),
    "near-rows": Code("note", "rows that differ by a millionth only"),
}
"""All codes; `--accept` takes those of stops."""
