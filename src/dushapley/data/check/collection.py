"""All findings of one collaboration: as text, as a table, and what of them stops a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from dushapley.data.check.codes import CODES
from dushapley.data.findings import Finding
from dushapley.errors import InvalidOption, UnresolvedFindings
from dushapley.terminal import columns, short_name, table
from dushapley.validation import suggestion

if TYPE_CHECKING:
    import pandas as pd

MOST_OF_A_CODE = 3
"""Notes of one code that are told one by one where others have to be read as well."""
MOST_OWNERS = 40
"""Owners listed in the text."""


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """Everything odd about the files, stops first; and what they hold.

    Attributes
    ----------
    found
        The findings; a stop that was accepted is a note.
    accepted
        Codes of stops that were accepted.
    sizes
        Rows by owner, and of the test set.
    cells
        What each holder's columns hold and what part of them is missing: ``cells[holder][column]``
        is a pair like ("number", 0.02).
    target
        The column to predict.
    detected
        How each file was read, where that was not plain CSV.
    """

    found: tuple[Finding, ...]
    accepted: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    cells: Mapping[str, Mapping[str, tuple[str, float]]] = field(default_factory=dict)
    target: str = ""
    detected: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @overload
    def __getitem__(self, key: int) -> Finding: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Finding]: ...
    def __getitem__(self, key: int | slice) -> Finding | Sequence[Finding]:
        return self.found[key]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    @cached_property
    def stops(self) -> tuple[Finding, ...]:
        """What must be resolved or accepted before anything is paid."""
        return tuple(finding for finding in self.found if finding.severity == "stop")

    @cached_property
    def notes(self) -> tuple[Finding, ...]:
        """What may be real; the run goes on."""
        return tuple(finding for finding in self.found if finding.severity == "note")

    @cached_property
    def remedies(self) -> tuple[str, ...]:
        """Options that resolve all stops for which there is one, each once."""
        options = (finding.remedy or "" for finding in self.stops)
        return tuple(dict.fromkeys(o for o in options if o.startswith("--") and " (" not in o))

    def accepting(self, codes: Iterable[str]) -> Findings:
        """The same where stops of these codes are notes that say so."""
        wanted = tuple(dict.fromkeys(codes))
        for code in wanted:
            refuse_unknown(code)
        found = tuple(
            replace(f, severity="note", message=f"Accepted: {f.message}", remedy=None)
            if f.severity == "stop" and f.code in wanted
            else f
            for f in self.found
        )
        return replace(self, found=found, accepted=wanted)

    def refuse_stops(self) -> None:
        """Raise one error that tells everything that stops a run."""
        if self.stops:
            raise UnresolvedFindings(self.told(self.stops, "stop"), self)

    def sentences(self) -> tuple[str, ...]:
        """Notes as sentences for a valuation, a page and a settlement; not too many of one kind."""
        seen: Counter[str] = Counter()
        told = []
        for note in self.notes:
            seen[note.code] += 1
            if seen[note.code] <= MOST_OF_A_CODE or note.message.startswith("Accepted"):
                told.append(f"{note.message} [{note.code}]")
        more = {code: n - MOST_OF_A_CODE for code, n in seen.items() if n > MOST_OF_A_CODE}
        hidden = [f"{n} more notes [{c}]; `dushapley check` tells all." for c, n in more.items()]
        return (*told, *hidden)

    def record(self) -> list[dict[str, Any]]:
        """Plain data, for the record of a settlement."""
        return [{k: v for k, v in asdict(f).items() if v is not None} for f in self.found]

    def to_frame(self) -> pd.DataFrame:
        """One row per finding: code, severity, owner, column, row, value, message, remedy."""
        import pandas as pd

        names = ["severity", "code", "owner", "column", "row", "value", "message", "remedy"]
        frame = pd.DataFrame([asdict(f) for f in self.found], columns=names)
        return frame.astype({"row": "Int64"})

    def told(self, findings: Sequence[Finding], what: str) -> str:
        """Findings of one severity as text."""
        count = f"{len(findings)} {what}{'s' * (len(findings) != 1)}"
        head = {
            "stop": f"{count}: nothing is trained or paid before this is resolved.",
            "note": f"{count}: may be real; the run goes on.",
        }[what]
        rows = [(f.code, f"{f.message}{_remedy(f)}") for f in findings]
        lines = [head, table((), rows, left=(0, 1), width=columns())]
        if what == "stop" and self.remedies:
            lines.append(f"  To resolve: {' '.join(self.remedies)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Sizes, how files were read, and all findings, stops first."""
        held = {name: cells for name, cells in self.cells.items() if name in self.sizes}
        n_columns = len({column for cells in held.values() for column in cells} - {self.target})
        lines = [
            f"{len(self.sizes)} holders of {sum(self.sizes.values()):,} rows, {n_columns} columns "
            f"and the target {self.target!r}",
            table(
                ("holder", "rows"),
                [(short_name(name), f"{rows:,}") for name, rows in self.sizes.items()][
                    :MOST_OWNERS
                ],
            ),
        ]
        if len(self.sizes) > MOST_OWNERS:
            lines.append(f"  ... {len(self.sizes) - MOST_OWNERS} more ...")
        if self.detected:
            read = [(short_name(name), _read_as(how)) for name, how in self.detected.items()]
            lines += ["Read as", table((), read, left=(0, 1))]
        lines += [
            self.told(of, what) for of, what in ((self.stops, "stop"), (self.notes, "note")) if of
        ]
        return "\n".join(lines if self.found else [*lines, "Nothing odd was found."])


def _read_as(how: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value!r}" for key, value in how.items())


def _remedy(finding: Finding) -> str:
    if finding.remedy is None:
        return ""
    resolve = "Resolve it with" if finding.severity == "stop" else "If so:"
    return f" {resolve} {finding.remedy}."


def refuse_unknown(code: str) -> None:
    """Refuse to accept what is not a code, or what no run can go on with."""
    if code not in CODES:
        stops = [name for name, of in CODES.items() if of.acceptable]
        raise InvalidOption(
            f"There is no code {code!r} to accept.{suggestion(code, list(CODES))} Those that can "
            f"be: {', '.join(stops)}."
        )
    if not CODES[code].acceptable:
        raise InvalidOption(
            f"{code} cannot be accepted: {CODES[code].why_not}. Resolve it as its message says."
        )
