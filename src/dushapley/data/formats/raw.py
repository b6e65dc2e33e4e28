"""What every reader of a format gives back: columns, and how they were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dushapley.data.findings import Finding, Severity


@dataclass
class Account:
    """How one file was read, as it goes along.

    Attributes
    ----------
    name
        The file's.
    owner
        Whose rows they are, where the file is one owner's; else the file's name.
    detected
        Keys of reading, and what was found for them.
    findings
        What was odd.
    marks
        Marks of missing values, of those asked for, that some cell held.
    known
        What was detected when the file was read before: taken as it is, and told again.
    """

    name: str
    owner: str
    detected: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    known: Mapping[str, str] = field(default_factory=dict)

    def tell(
        self,
        code: str,
        severity: Severity,
        message: str,
        *,
        column: str | None = None,
        row: int | None = None,
        value: object = None,
        remedy: str | None = None,
    ) -> None:
        """Add a finding about this file."""
        shown = None if value is None else shortened(str(value))
        self.findings.append(
            Finding(code, severity, message, self.owner, column, row, shown, remedy)
        )


@dataclass(frozen=True)
class Raw:
    """Columns of one file, in the types that the format knows.

    Attributes
    ----------
    columns
        Numbers, truth values, dates where the format has them; all else text.
    texts
        The same file with these columns as text, as they were written; None where the format
        itself says what a number is.
    total
        Cells of a last line that calls itself a total, already taken off.
    """

    columns: Any
    texts: Callable[[Sequence[str]], Any] | None = None
    total: Sequence[str] | None = None


def shortened(text: str, most: int = 40) -> str:
    """A cell as a message shows it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def as_text(cell: Any) -> str:
    """A cell as a person would have typed it into a text file."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
