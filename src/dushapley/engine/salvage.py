"""What is intact of a damaged ledger, in a new one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from dushapley.engine.ledger import Ledger, Row, unsealed
from dushapley.errors import LedgerUnreadable

_PAGE = 4096
_RANGES = 2**16
"""Ranges of keys, by their first two bytes."""


def salvage(
    path: str | os.PathLike[str], to: str | os.PathLike[str], *, context: str | None = None
) -> int:
    """Copy every intact evaluation of a damaged ledger into a new one.

    The damaged file is left as it is. Every row is checked against its seal, so nothing is taken
    over that was not written by a run. A destroyed first page (the file's description of itself)
    is replaced by that of a new ledger. Rows are lost with the pages that hold them, or that lead
    to them: all of them with the third, the root of the tree.

    Parameters
    ----------
    path
        The damaged ledger.
    to
        The new one; must not exist.
    context
        `game.context`, needed only where the damaged file no longer says whose it is.

    Returns
    -------
    int
        Evaluations saved.

    Examples
    --------
    >>> import tempfile, pathlib, dushapley as ds
    >>> from dushapley.games import Outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     old, new = pathlib.Path(folder) / "old.sqlite", pathlib.Path(folder) / "new.sqlite"
    ...     with ds.Ledger(old, "model A") as ledger:
    ...         news = ledger.write([(b"pool", Outcome(0.5))])
    ...     _ = old.write_bytes(bytes(100) + old.read_bytes()[100:])  # a destroyed header
    ...     ds.salvage(old, new)
    1
    """
    old, new = Path(path), Path(to)
    if not old.is_file():
        raise LedgerUnreadable(f"{old} does not exist. Name the damaged ledger.")
    if new.exists():
        raise LedgerUnreadable(f"{new} exists already. Name a new file for what is saved.")
    with TemporaryDirectory() as folder:
        copy = _readable_copy(old, Path(folder))
        with closing(sqlite3.connect(copy)) as db:
            known = context or _context(db)
            if known is None:
                raise LedgerUnreadable(
                    f"{old} no longer says which game it belongs to. Pass context=game.context."
                )
            with Ledger(new, known) as ledger:
                checked = ((row[0], unsealed(row, known)) for row in _rows(db))
                ledger.write((key, outcome) for key, outcome in checked if outcome is not None)
                return len(ledger)


def _readable_copy(old: Path, folder: Path) -> Path:
    """A copy with its write-ahead log, and with a first page that can be read."""
    copy, fresh = folder / "copy.sqlite", folder / "fresh.sqlite"
    shutil.copyfile(old, copy)
    log = old.with_name(f"{old.name}-wal")
    if log.exists():
        shutil.copyfile(log, folder / "copy.sqlite-wal")
    if not _opens(copy):  # the first page of a new ledger, with the size of the old one
        Ledger(fresh, "").close()
        page, size = fresh.read_bytes()[:_PAGE], (old.stat().st_size // _PAGE).to_bytes(4, "big")
        copy.write_bytes(page[:28] + size + page[32:] + old.read_bytes()[_PAGE:])
    return copy


def _opens(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path)) as db:
            tables = {name for (name,) in db.execute("select name from sqlite_master")}
    except sqlite3.DatabaseError:
        return False
    return {"about", "evaluations"} <= tables


def _context(db: sqlite3.Connection) -> str | None:
    try:
        row = db.execute("select value from about where name = 'context'").fetchone()
    except sqlite3.DatabaseError:
        return None
    return None if row is None else str(row[0])


def _rows(db: sqlite3.Connection) -> Iterator[Row]:
    """All rows that can be read.

    Each narrow range of keys is looked for by itself, from the root of the tree: a scan would end
    at the first damaged page, or silently at the first key that damage made too large.
    """
    inner = (start.to_bytes(2, "big") for start in range(1, _RANGES))
    for low, high in pairwise([b"", *inner, b"\xff" * 128]):
        with suppress(sqlite3.DatabaseError):
            yield from db.execute(
                "select * from evaluations where key >= ? and key < ?", (low, high)
            ).fetchall()
