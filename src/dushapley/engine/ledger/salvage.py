"""What is intact of a damaged ledger, in a new one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dushapley.engine.ledger.database import (
    DAMAGE,
    at_most,
    open_database,
    refuse_other_files,
    schema_of,
)
from dushapley.engine.ledger.file import Ledger
from dushapley.engine.ledger.rows import Row, ScoresRow, unsealed, unsealed_scores
from dushapley.engine.ledger.tables import is_ledger
from dushapley.engine.ledger.values import PlainRow, each_row, unsealed_values
from dushapley.errors import LedgerUnreadable

_PAGE = 4096
_FEW_PAGES = 64
"""Ranges of keys go by their first byte in files up to this, by the first two in larger ones."""
_SCORES_A_PAGE = 128
"""More than fit on a page."""
_AT_ONCE = 500
"""Evaluations copied at a time."""


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
    refuse_other_files(old)
    if not old.is_file():
        raise LedgerUnreadable(f"{old} does not exist. Name the damaged ledger.")
    refuse_other_files(new)
    if new.exists():
        raise LedgerUnreadable(f"{new} exists already. Name a new file for what is saved.")
    with TemporaryDirectory() as folder:
        copy = _readable_copy(old, Path(folder))
        with closing(open_database(copy)) as db:
            known = context or _context(db)
            if known is None:
                raise LedgerUnreadable(
                    f"{old} no longer says which game it belongs to. Pass context= with that of "
                    "the game."
                )
            with Ledger(new, known) as ledger:
                return _copy_intact(db, ledger, copy.stat().st_size // _PAGE)


def _copy_intact(db: sqlite3.Connection, ledger: Ledger, pages: int) -> int:
    """Copy evaluations that are intact, and whose scores are if they have any."""
    places = dict(_places(db, pages))
    intact = (
        row
        for row in _rows(db, 1 if pages <= _FEW_PAGES else 2)
        if unsealed(row, ledger.context) is not None
    )
    while some := list(islice(intact, _AT_ONCE)):
        numbers = {row[0]: places.get(row[0]) for row in some if row[4] is not None}
        scores = [_scores(db, number) for number in numbers.values() if number is not None]
        whole = {
            row[0]: row
            for row in scores
            if row is not None and unsealed_scores(row, ledger.context) is not None
        }
        rows = [row for row in some if row[4] is None or row[0] in whole]
        ledger.adopt(rows, list(whole.values()))
    values = _plain_rows(db, 1 if pages <= _FEW_PAGES else 2)
    while plain := list(islice(values, _AT_ONCE)):
        for part in unsealed_values(plain, ledger.context):
            ledger.write_values(each_row(part.keys[part.sound]), part.values[part.sound])
    return len(ledger)


def _readable_copy(old: Path, folder: Path) -> Path:
    """A copy with its write-ahead log, and with a first page that can be read."""
    copy, fresh = folder / "copy.sqlite", folder / "fresh.sqlite"
    shutil.copyfile(old, copy)
    log = old.with_name(f"{old.name}-wal")
    if log.exists():
        shutil.copyfile(log, folder / "copy.sqlite-wal")
    if not _is_declared(copy):  # the first page of a new ledger, with the size of the old one
        Ledger(fresh, "").close()
        page, size = fresh.read_bytes()[:_PAGE], (old.stat().st_size // _PAGE).to_bytes(4, "big")
        copy.write_bytes(page[:28] + size + page[32:] + old.read_bytes()[_PAGE:])
    return copy


def _is_declared(path: Path) -> bool:
    """Whether the file still declares what a ledger declares, and nothing else."""
    try:
        with closing(open_database(path)) as db:
            return is_ledger(schema_of(db))
    except DAMAGE:
        return False


def _context(db: sqlite3.Connection) -> str | None:
    try:
        with at_most(db):
            row = db.execute("select value from about where name = 'context'").fetchone()
    except DAMAGE:
        return None
    return None if row is None or not isinstance(row[0], str) else row[0]


def _rows(db: sqlite3.Connection, width: int) -> Iterator[Row]:
    """All evaluations that can be read.

    Each narrow range of keys is looked for by itself, from the root of the tree: a scan would end
    at the first damaged page, or silently at the first key that damage made too large.
    """
    inner = (start.to_bytes(width, "big") for start in range(1, 256**width))
    for bounds in pairwise([b"", *inner, b"\xff" * 128]):
        yield from _readable(db, "select * from evaluations where key >= ? and key < ?", bounds)


def _plain_rows(db: sqlite3.Connection, width: int) -> Iterator[PlainRow]:
    """All values that can be read, by narrow ranges of their numbers."""
    step = 2**64 // 256**width
    for low in range(-(2**63), 2**63, step):
        bounds = low, low + step - 1
        yield from _readable(db, "select id, body from plain where id between ? and ?", bounds)


def _places(db: sqlite3.Connection, pages: int) -> Iterator[tuple[bytes, int]]:
    """Where scores are, found without the index, which may be damaged as well."""
    for first in range(0, pages * _SCORES_A_PAGE, _SCORES_A_PAGE):
        bounds = first, first + _SCORES_A_PAGE
        yield from _readable(
            db, "select key, rowid from scores where rowid >= ? and rowid < ?", bounds
        )


def _scores(db: sqlite3.Connection, number: int) -> ScoresRow | None:
    found = _readable(db, "select key, packed, seal from scores where rowid = ?", (number,))
    return found[0] if found else None


def _readable(db: sqlite3.Connection, query: str, values: Sequence[Any]) -> list[Any]:
    """What a query finds; nothing where damage is in its way."""
    with suppress(*DAMAGE), at_most(db):
        return db.execute(query, values).fetchall()
    return []
