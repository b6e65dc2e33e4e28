"""All findings of one collaboration: as text, as a table, and what of them stops a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from dushapley.data.findings import CODES, Finding
from dushapley.data.intake import TEST
from dushapley.errors import InvalidOption, UnresolvedFindings
from dushapley.terminal import columns, html_table, printable, short_name, table
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
        usual = re.compile(r"--read (?:missing|positive)=(?:'[^']*'|[^\s']+)")
        only = re.compile(r"--read (?:[^\s']+|[^\s']+='[^']*')")
        remedies = [finding.remedy or "" for finding in self.stops]
        options = (usual.match(text) or only.fullmatch(text) for text in remedies)
        return tuple(dict.fromkeys(o[0] for o in options if o and "LABEL" not in o[0]))

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

    def refuse_stops(self, *, in_python: bool = False) -> None:
        """Raise one error that tells everything that stops a run, and which options resolve it."""
        if self.stops:
            keywords = "\n".join(as_keywords(str(stop)) for stop in self.stops)
            raise UnresolvedFindings(keywords if in_python else self.told(self.stops, "stop"), self)

    def sentences(self) -> tuple[str, ...]:
        """Notes as sentences for a valuation, a page and a settlement; not too many of one kind."""
        return tuple(f"{sentence} [{code}]" for code, sentence in self._few(self.notes))

    def of(self, owner: str) -> Findings:
        """What is about one owner, or names it."""
        own = (f for f in self.found if f.owner == owner or repr(owner) in f.message)
        return replace(self, found=tuple(own))

    def not_told_by_games(self) -> Findings:
        """The same without what games tell by themselves: rows that are equal."""
        told = ("shared-rows", "tested-rows")
        return replace(self, found=tuple(f for f in self.found if f.code not in told))

    def _few(self, findings: Sequence[Finding]) -> list[tuple[str, str]]:
        """Codes and sentences; of how files are written one example stands for all."""
        counts = Counter(finding.code for finding in findings)
        seen: Counter[str] = Counter()
        told = []
        for finding in findings:
            code, stops = finding.code, finding.severity == "stop"
            seen[code] += 1
            most = 1 if CODES[code].of_file else MOST_OF_A_CODE
            accepted = finding.message.startswith("Accepted")
            if seen[code] <= most or stops or accepted:
                more = counts[code] - most if seen[code] == most and not accepted else 0
                also = f" (And {more} more like this.)" if more > 0 else ""
                resolve = "Resolve it with" if stops else "If so:"
                remedy = "" if finding.remedy is None else f" {resolve} {finding.remedy}."
                told.append((code, f"{finding.message}{remedy}{also}"))
        return told

    def record(self) -> list[dict[str, Any]]:
        """Plain data, for the record of a settlement."""
        return [{k: v for k, v in asdict(f).items() if v is not None} for f in self.found]

    def to_frame(self) -> pd.DataFrame:
        """One row per finding: code, severity, owner, column, row, value, message, remedy."""
        import pandas as pd

        names = ["severity", "code", "owner", "column", "row", "value", "message", "remedy"]
        return pd.DataFrame([asdict(f) for f in self.found], columns=names).astype({"row": "Int64"})

    def told(self, findings: Sequence[Finding], what: str) -> str:
        """Findings of one severity as text."""
        count = f"{len(findings)} {what}{'s' * (len(findings) != 1)}"
        head = {
            "stop": f"{count}: nothing is trained or paid before this is resolved.",
            "note": f"{count}: may be real; the run goes on.",
        }[what]
        lines = [head, table((), self._few(findings), left=(0, 1), width=columns())]
        if what == "stop" and self.remedies:
            lines.append(f"  To resolve: {' '.join(self.remedies)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A table for notebooks: what stops a run first."""
        if not self.found:
            return "<p>Nothing odd was found.</p>"
        cells = [
            [one.code, one.severity, printable(one.message), printable(one.remedy or "")]
            for one in self.found
        ]
        return html_table(("code", "kind", "found", "resolved by"), cells)

    def __repr__(self) -> str:
        """Sizes, how files were read, and all findings, stops first."""
        names = {column for cells in self.cells.values() for column in cells} - {self.target}
        sizes, rows = self.sizes, sum(self.sizes.values())
        who = f"{len(sizes) - 1} owners and a test set" if TEST in sizes else f"{len(sizes)} owners"
        cells = [(short_name(name), f"{size:,}") for name, size in sizes.items()]
        lines = [
            f"{who}, {rows:,} rows, {len(names)} columns and the target {self.target!r}",
            table(("owner", "rows"), cells[:MOST_OWNERS]),
        ]
        if len(sizes) > MOST_OWNERS:
            lines.append(f"  ... {len(sizes) - MOST_OWNERS} more ...")
        if self.detected:
            read = [
                (short_name(name), ", ".join(f"{key} {value!r}" for key, value in how.items()))
                for name, how in self.detected.items()
            ]
            lines += ["Read as", table((), read, left=(0, 1))]
        lines += [
            self.told(of, what) for of, what in ((self.stops, "stop"), (self.notes, "note")) if of
        ]
        return "\n".join(lines if self.found else [*lines, "Nothing odd was found."])


def as_keywords(text: str) -> str:
    """Options of the command line as keywords of Python.

    Examples
    --------
    >>> as_keywords("Resolve it with --read common-columns=true or --accept file-skipped.")
    "Resolve it with common_columns='true' or accept=['file-skipped']."
    """
    text = re.sub(r"--accept ([a-z-]+)", r"accept=['\1']", text)
    option = re.compile(r"--read ([a-z-]+)=('[^']*'|[^\s']*[^\s'.])")
    return option.sub(lambda m: f"{m[1].replace('-', '_')}={m[2].strip(chr(39))!r}", text)


def refuse_unknown(code: str) -> None:
    """Refuse to accept what is not a code, or what no run can go on with."""
    known = CODES.get(code)
    if known is None:
        stops = [name for name, of in CODES.items() if of.severity == "stop" and not of.why_not]
        raise InvalidOption(
            f"There is no code {code!r} to accept.{suggestion(code, list(CODES))} Those that can "
            f"be: {', '.join(stops)}."
        )
    if known.severity == "note":
        raise InvalidOption(f"{code} is a note, which stops nothing: leave it out of --accept.")
    if known.why_not is not None:
        raise InvalidOption(
            f"{code} cannot be accepted: {known.why_not}. Resolve it as its message says."
        )
