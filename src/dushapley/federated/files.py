"""Owners and test sets of a federation from files, checked where the files are."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from dushapley.data.check import Findings, accepted_tables, examine
from dushapley.data.files import PathLike, SourceFile, opened
from dushapley.data.intake import take_in
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOption
from dushapley.federated.owner import Owner
from dushapley.federated.policy import Log, Policy
from dushapley.federated.schema import Table


def owner_of_files(
    files: PathLike | Sequence[PathLike],
    *,
    target: str,
    name: str | None = None,
    policy: Policy | None = None,
    log: Log | None = None,
    reading: Reading | None = None,
    accept: Collection[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Owner:
    """An owner whose rows are in files of its own, checked as `dushapley.check` does.

    Parameters
    ----------
    files
        One file or several with the same columns, whose rows are then one owner's.
    target
        Column to predict.
    name
        What the others call it; None: the name of its only file.
    policy, log
        What it answers, and where it notes all that leaves.
    reading
        How to read the files; None detects everything.
    accept
        Codes of findings that shall not stop it.
    tell
        Is told here what is odd and may be real; the coordinator learns the codes of it only, since
        sentences quote cells.
    """
    found, skipped = opened(files)
    if name is None and len(found) != 1:
        raise InvalidOption(f"Found {len(found)} files of one owner; say its name with --name.")
    changed = _watch(found)
    table, findings = _table(found, target, reading, accept, skipped)
    for sentence in findings.sentences():
        tell(sentence)
    codes = sorted({finding.code for finding in findings})
    notes = (f"its own check noted {', '.join(codes)}",) if codes else ()
    return Owner(name or found[0].owner, table, policy, log, changed=changed, notes=notes)


def file_of_nobody(
    file: PathLike,
    *,
    target: str,
    reading: Reading | None = None,
    accept: Collection[str] = (),
) -> Table:
    """The coordinator's test set from a file."""
    return _table([SourceFile.read(file)], target, reading, accept, ())[0]


def _table(
    files: Sequence[SourceFile],
    target: str,
    reading: Reading | None,
    accept: Collection[str],
    skipped: Sequence[object],
) -> tuple[Table, Findings]:
    """All rows as one table, once nothing odd about them stops it, and what is odd."""
    import pandas as pd

    intake = take_in(files, target=target, reading=reading or Reading())
    intake = replace(intake, findings=(*skipped, *intake.findings))  # type: ignore[arg-type]
    findings = examine(intake, target, accept)
    findings.refuse_stops()
    tables = list(accepted_tables(intake, findings).tables.values())
    frame = tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)
    whose = files[0].path.name if len(files) == 1 else f"{len(files)} files"
    return Table.from_frame(frame, target=target, whose=whose), findings


def _look(path: Path) -> tuple[int, int, int]:
    about = os.stat(path)
    return about.st_mtime_ns, about.st_size, about.st_ino


def _watch(files: Sequence[SourceFile]) -> Callable[[], bool]:
    """Whether a file holds other bytes than when it was read; read again only if it was touched."""
    known = {file.path: file.sha256 for file in files}
    seen = {path: _look(path) for path in known}

    def changed() -> bool:
        for path, content in known.items():
            try:
                now = _look(path)
                if now != seen[path] and SourceFile.read(path).sha256 != content:
                    return True
            except (OSError, ValueError):
                return True
            seen[path] = now
        return False

    return changed
