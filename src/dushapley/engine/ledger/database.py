"""SQLite files from anywhere, opened so that they can neither hang, run nor pretend anything.

A ledger may come by mail. So its name must be a plain file's, its schema must be ours to the
letter (views and triggers are programs), and no question to it may take longer than `LONGEST`.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from dushapley.errors import LedgerReadOnly, LedgerRefused, LedgerUnreadable
from dushapley.terminal import printable
from dushapley.validation import is_unicode

LONGEST = 8.0
"""Seconds that a look into the file may take."""
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What Python raises over a damaged database: not even SQLite's message need be text."""
_DEFENSIVE = 1010
"""SQLITE_DBCONFIG_DEFENSIVE: nothing done by SQL can damage the file."""
_MAGIC = {
    b"PK\x03\x04": "a zip or Excel file",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "a gzip file",
    b"%PDF": "a PDF",
    b"\x93NUMPY": "a NumPy file",
}


def open_database(path: Path, patience: float = LONGEST) -> sqlite3.Connection:
    """A connection in which only data counts as data; made in one thread, used in any.

    It waits so many seconds (`patience`) while another run is writing.
    """
    refuse_other_files(path)
    refuse_read_only(path)
    db = sqlite3.connect(
        path.absolute(), timeout=patience, isolation_level=None, check_same_thread=False
    )  # absolute, because SQLite takes some names for wishes
    db.execute("pragma trusted_schema = off")
    db.execute("pragma cell_size_check = on")
    if hasattr(db, "setconfig"):  # from Python 3.12 on
        db.setconfig(_DEFENSIVE, True)
    return db


@contextmanager
def at_most(db: sqlite3.Connection, seconds: float = LONGEST) -> Iterator[None]:
    """Interrupt what takes longer."""
    until = monotonic() + seconds
    db.set_progress_handler(lambda: monotonic() > until, 10_000)
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)


def refuse_other_files(path: Path) -> None:
    """Refuse what is not a plain file, or is one of another kind, by its name and first bytes."""
    name = os.fspath(path)
    nameless = name in (":memory:", ".") or name.startswith("file:")
    if nameless or "\0" in name or not is_unicode(name):
        raise LedgerRefused(
            f"ledger is {printable(name)!r}, which does not name a file. Evaluations are kept in a "
            "file, so that they need not be paid twice: name one, like paid.sqlite."
        )
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise LedgerUnreadable(
            f"The ledger {printable(name)} cannot be opened ({error.strerror}). Name a file in a "
            "folder that exists and can be written."
        ) from error
    if not stat.S_ISREG(kind):
        what = "a folder" if stat.S_ISDIR(kind) else "a device or a pipe"
        raise LedgerUnreadable(f"{printable(name)} is {what}, not a ledger. Name a file.")
    _refuse_other_kind(path)


def _refuse_other_kind(path: Path) -> None:
    """Tell people what they named; damaged ledgers, which look like nothing, are let through."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise LedgerReadOnly(
            f"The ledger {path} cannot be read ({error.strerror}). Make it readable, or name "
            "another file."
        ) from error
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if kind is None and start and _is_text(start):
        first = printable(start.decode(errors="ignore").splitlines()[0][:40])
        kind = f"a text file (it begins {first!r})"
    if kind is not None:
        raise LedgerUnreadable(
            f"{path} is {kind}, not a ledger. It was left alone; name another file."
        )


def _is_text(start: bytes) -> bool:
    if start.startswith(b"SQLite format 3\0"):
        return False
    try:
        text = start[: len(start) - 3 * (len(start) == 4096)].decode()
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter.isspace() for letter in text)


def refuse_read_only(path: Path) -> None:
    """Refuse before any work is paid for; a file without write permission is meant so."""
    for place in (path, path.parent):
        if place.exists() and (not os.access(place, os.W_OK) or place.stat().st_mode & 0o222 == 0):
            raise LedgerReadOnly(
                f"{place} is read-only, so evaluations could not be kept. Make it writable, "
                "copy the ledger elsewhere, or run without one."
            )


def schema_of(db: sqlite3.Connection) -> dict[str, str | None]:
    """Everything that the file declares, by name."""
    with at_most(db):
        return dict(db.execute("select name, sql from sqlite_master").fetchall())
