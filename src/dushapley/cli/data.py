"""Whose files, read how: what `check` shares with `value`, `quote` and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.outputs import identity
from dushapley.data.check import Findings, accepted_tables, examine
from dushapley.data.check.collection import refuse_unknown
from dushapley.data.files import STATISTICS, Listing, SourceFile, listing, owner_name
from dushapley.data.findings import Finding
from dushapley.data.intake import Intake, take_in
from dushapley.data.reading import MAX_ROWS, Reading
from dushapley.errors import InvalidOption
from dushapley.terminal import say

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Inputs:
    """The files of a job, opened: each is read once, for its hash and for its table."""

    owners: Sequence[SourceFile]
    test: SourceFile | None

    def record(self) -> list[dict[str, Any]]:
        """Name, role and hash of every file."""
        tested = [] if self.test is None else [self.test.record("test")]
        return [file.record() for file in self.owners] + tested


@dataclass(frozen=True)
class Data:
    """Files, whose rows they hold, and how they are read.

    Attributes are the options of the command line by the same names.
    """

    files: o.Files
    target: o.Target
    owner: o.Owner = None
    by_file: o.ByFile = False
    test: o.Test = None
    read: o.Read = None
    accept: o.Accept = None
    expect: o.Expect = None
    max_rows: o.MaxRows = MAX_ROWS
    max_bytes: o.MaxBytes = "4GB"

    def __post_init__(self) -> None:
        if not self.from_statistics:
            o.refuse_unclear_owners(self.owner, self.by_file)
        o.refuse_not_unicode(self.paths)
        for code in self.accept or ():
            refuse_unknown(code)
        assert self.reading is not None  # refused here, if at all

    @cached_property
    def reading(self) -> Reading:
        """How the files are to be read."""
        most = o.as_bytes(self.max_bytes, "--max-bytes") or 0
        asked = Reading.from_pairs(self.read or ())
        there = {path.name for path in self.paths}
        files = {
            name: keys
            for name, keys in asked.files.items()
            if name in there or owner_name(Path(name)) not in (self.expect or ())
        }  # an owner who is gone is told as such, not as a name that is misspelt
        return replace(asked, max_rows=self.max_rows, max_bytes=most, files=files)

    @cached_property
    def listing(self) -> Listing:
        """The files themselves, folders listed, and what was left out of them."""
        return listing(self.files)

    @property
    def from_statistics(self) -> bool:
        """Whether the files hold owners' statistics instead of rows."""
        return all(file.name.lower().endswith(STATISTICS) for file in self.listing.files)

    @cached_property
    def inputs(self) -> Inputs:
        """The files, opened."""
        most = self.reading.max_bytes
        test = None if self.test is None else SourceFile.read(self.test, most)
        return Inputs([SourceFile.read(path, most) for path in self.listing.files], test)

    def opened(self, inputs: Inputs) -> Self:
        """The same with files that were opened before."""
        known = copy(self)
        known.__dict__["inputs"] = inputs  # where the cached property would keep them
        return known

    @property
    def paths(self) -> list[Path]:
        """All files that are read."""
        return [*self.listing.files, *filter(None, [self.test])]

    @property
    def identity(self) -> str:
        """What makes another job the same one: roles and names of its files, and its columns."""
        files = [{"name": path.name, "role": "owners"} for path in self.listing.files]
        tested = [] if self.test is None else [{"name": self.test.name, "role": "test"}]
        return identity({"inputs": files + tested, "job": asdict(self)})

    @cached_property
    def intake(self) -> Intake:
        """The tables, with what was noticed on the way."""
        intake = take_in(
            self.inputs.owners, target=self.target, owner=self.owner, test=self.inputs.test,
            reading=self.reading,
        )  # fmt: skip
        changed = () if self.expect is None else changed_owners(self.expect, intake)
        return replace(intake, findings=(*self.listing.skipped, *changed, *intake.findings))

    @cached_property
    def findings(self) -> Findings:
        """All that is odd in the files; nothing where owners handed over statistics."""
        if self.from_statistics:
            return Findings(())
        return examine(self.intake, self.target, self.accept or ())

    def owners(self) -> ds.Owners:
        """The owners, once nothing stops the run; notes are said aloud."""
        if self.from_statistics:
            owners = ds.Owners.from_statistics(self.inputs.owners)
            if owners.target == self.target:
                return owners
            raise InvalidOption(
                f"--target is {self.target!r}, but the statistics are of {owners.target!r}."
            )
        new = self.findings.not_told_by_games()
        if new.notes:  # also where something stops the run: all is told at once
            say(new.told(new.notes, "note"))
        self.findings.refuse_stops()
        owners = ds.Owners.from_tables(self._accepted.tables, target=self.target)
        return replace(owners, notes=new.sentences())

    @cached_property
    def _accepted(self) -> Intake:
        return accepted_tables(self.intake, self.findings)

    def test_set(self, owners: ds.Owners) -> tuple[Any, Any]:
        """Features and targets of the test file."""
        assert self.inputs.test is not None
        table = self.inputs.test.table() if self.from_statistics else self._accepted.test
        assert table is not None
        return owners.align(table, as_frame=True)

    def newcomer(self, path: Path) -> tuple[str, pd.DataFrame]:
        """Name and table of an owner who joins, read as the other files are."""
        file = SourceFile.read(path, self.reading.max_bytes)
        taken = take_in([file], target=self.target, reading=self.reading, everybody=False)
        everybody = {**self._accepted.tables, **taken.tables}
        joined = replace(taken, tables=everybody, test=self._accepted.test)
        findings = examine(joined, self.target, self.accept or ()).of(file.owner)
        findings.refuse_stops()
        if findings.notes:
            say(findings.told(findings.notes, "note"))
        return file.owner, accepted_tables(joined, findings).tables[file.owner]

    def record(self) -> dict[str, Any]:
        """The options as plain data; files by their names only."""
        names = [path.name for path in self.files]
        return asdict(self) | {"files": names, "test": self.test and self.test.name}


def changed_owners(expected: Sequence[str], intake: Intake) -> tuple[Finding, ...]:
    """Owners whom a job file expects and who are gone, and those whom it does not know."""
    told = {finding.owner for finding in intake.findings if finding.code == "unreadable-file"}
    gone = [name for name in expected if name not in intake.tables and name not in told]
    new = [name for name in intake.tables if name not in expected]
    words = dict.fromkeys(gone, "is expected, and not among the files")
    words |= dict.fromkeys(new, "is among the files, and not expected")
    return tuple(
        Finding(
            "owners-changed",
            "stop",
            f"Owner {name!r} {said}: the owners are not those that were agreed on. Look for the "
            "file, or write the job again.",
            owner=name,
            remedy="--accept owners-changed",
        )
        for name, said in words.items()
    )
