"""What is odd in the owners' files, one record a matter: all told at once, before paying."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from dushapley.errors import InvalidOwners

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


def stops(findings: Iterable[Finding], accepted: Collection[str] = ()) -> list[Finding]:
    """Findings that end a run, but for those of the accepted codes."""
    return [f for f in findings if f.severity == "stop" and f.code not in accepted]


def refuse_stops(findings: Iterable[Finding], accepted: Collection[str] = ()) -> None:
    """Raise one error that tells all that stops a run."""
    found = stops(findings, accepted)
    if found:
        raise InvalidOwners("\n".join(map(str, found)))
