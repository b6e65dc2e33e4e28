"""From opened files to tables that fit each other: all owners' and the test set's, read as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dushapley.data.files import SourceFile, read_by_file, read_together
from dushapley.data.findings import Finding
from dushapley.data.reading import Reading
from dushapley.data.tables import split_by_owner

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Intake:
    """What was read, and what was odd about it.

    Attributes
    ----------
    tables
        One table per owner, in the order of the files (or of the owner column).
    test
        The test table, if there is a test file.
    detected
        How each file was read, by the file's name, where that differs from plain CSV: encoding,
        separator, decimal mark, line of names, formats of dates.
    findings
        All that reading noticed; stops among them are for the caller to refuse.
    """

    tables: Mapping[str, pd.DataFrame]
    test: pd.DataFrame | None = None
    detected: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def take_in(
    files: Sequence[SourceFile],
    *,
    target: str,
    owner: str | None = None,
    test: SourceFile | None = None,
    reading: Reading | None = None,
) -> Intake:
    """Read all files and put their columns into one type each.

    Parameters
    ----------
    files, test
        The owners' files and the test file, opened.
    target, owner
        Columns that hold what is to be predicted and, unless each file is an owner's, the owner.
    reading
        How to read; None detects everything.
    """
    del reading
    if owner is None:
        tables = read_by_file(files)
    else:
        tables = split_by_owner(read_together(files), owner, target)
    return Intake(tables, None if test is None else test.table())
