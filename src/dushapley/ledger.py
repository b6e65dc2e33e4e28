"""Cache, resume and provenance at once: every paid evaluation, committed as it is paid.

One SQLite file (write-ahead log) per *context*: what must be equal for evaluations of equal pools
to be interchangeable (model, metric, test data, seed). Within it a pool is known by its content,
so that an owner who leaves, joins or is renamed costs only what is new.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from dushapley.errors import (
    LedgerBusy,
    LedgerError,
    LedgerMismatch,
    LedgerReadOnly,
    LedgerUnreadable,
)
from dushapley.games.base import Outcome

FORMAT = "dushapley.ledger/1"
_SCHEMA = """
create table if not exists about (name text primary key, value text not null);
create table if not exists evaluations (
    key blob primary key, value real not null, failure text, scores blob, spread real
) without rowid;
"""
_INSERT = """
insert into evaluations values (?, ?, ?, ?, ?) on conflict (key) do update set
    value = excluded.value, failure = excluded.failure,
    scores = excluded.scores, spread = excluded.spread
where evaluations.failure is not null
"""  # a failure may be tried again; an answer stands
_PATIENCE = 60
"""Seconds to wait while another run is writing."""
_AT_ONCE = 500
"""Keys looked up by one statement."""


class Ledger:
    """Paid evaluations of one context, on disk.

    Parameters
    ----------
    path
        The file; made if it does not exist.
    context
        Content hash of everything but the pool. A ledger of another context is refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dushapley.games import Outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger(pathlib.Path(folder) / "paid.sqlite", "model A") as ledger:
    ...         ledger.write([(b"pool", Outcome(0.5))])
    ...         ledger.read([b"pool", b"other"])[b"pool"].value
    0.5
    """

    def __init__(self, path: str | os.PathLike[str], context: str) -> None:
        self.path = Path(path)
        self._refuse_read_only()
        try:
            self._db = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        except sqlite3.Error as error:
            raise LedgerUnreadable(
                f"The ledger {self.path} cannot be opened ({error}). Name a file in a folder that "
                "exists and can be written."
            ) from error
        try:
            self._prepare(context)
        except BaseException:
            self._db.close()
            raise

    def _refuse_read_only(self) -> None:
        """Refuse before any work is paid for; a file without write permission is meant so."""
        for place in (self.path, self.path.parent):
            if place.exists() and (
                not os.access(place, os.W_OK) or place.stat().st_mode & 0o222 == 0
            ):
                raise LedgerReadOnly(
                    f"{place} is read-only, so evaluations could not be kept. Make it writable, "
                    "copy the ledger elsewhere, or run without one."
                )

    def _prepare(self, context: str) -> None:
        try:
            self._refuse_foreign()
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.executescript(_SCHEMA)
            self._db.execute("begin immediate")  # proves now that we may write
            for name, value in (("format", FORMAT), ("context", context)):
                self._db.execute("insert or ignore into about values (?, ?)", (name, value))
            about = dict(self._db.execute("select name, value from about").fetchall())
            self._db.execute("commit")
        except sqlite3.DatabaseError as error:
            raise self._refusal(error) from error
        if about["format"] != FORMAT:
            raise LedgerUnreadable(
                f"The ledger {self.path} has format {about['format']!r}; this version reads "
                f"{FORMAT!r}. Use another file."
            )
        if about["context"] != context:
            raise LedgerMismatch(
                f"The ledger {self.path} holds evaluations of another game (context "
                f"{about['context'][:12]}…, this game has {context[:12]}…): model, metric, test "
                "data, seed or fingerprint differ. Use another file, or the game it was made with."
            )

    def _refuse_foreign(self) -> None:
        """Refuse a database that is somebody else's before anything is written to it."""
        tables = {name for (name,) in self._db.execute("select name from sqlite_master")}
        if tables and not {"about", "evaluations"} <= tables:
            raise LedgerUnreadable(
                f"{self.path} is a database, but not a ledger: it holds "
                f"{', '.join(sorted(tables))}. It was left alone; name another file."
            )

    def _refusal(self, error: sqlite3.Error) -> LedgerError:
        """What an error of SQLite means to the user."""
        if "locked" in str(error) or "busy" in str(error):
            return LedgerBusy(
                f"Another program has been writing to the ledger {self.path} for {_PATIENCE} "
                "seconds. Wait until it is done, or use another file."
            )
        if "readonly" in str(error):
            return LedgerReadOnly(
                f"The ledger {self.path} cannot be written ({error}). Make it writable, copy it "
                "elsewhere, or run without one."
            )
        return LedgerUnreadable(
            f"{self.path} is not a readable ledger ({error}). Name another file; if this one was "
            f"damaged, `sqlite3 {self.path.name} .recover` may save what is intact."
        )

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Outcome]:
        """What is known of these pools."""
        found: dict[bytes, Outcome] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self._execute(
                f"select key, value, failure, scores, spread from evaluations "  # noqa: S608
                f"where key in ({marks})",
                some,
            )
            for key, value, failure, scores, spread in rows:
                array = None if scores is None else np.frombuffer(scores, dtype=np.float64)
                found[key] = Outcome(value, failure, array, spread)
        return found

    def write(self, paid: Iterable[tuple[bytes, Outcome]]) -> None:
        """Commit a block of evaluations: all of it, or nothing."""
        rows = [
            (key, o.value, o.failure, None if o.scores is None else o.scores.tobytes(), o.spread)
            for key, o in paid
        ]
        try:
            self._db.execute("begin immediate")
            self._db.executemany(_INSERT, rows)
            self._db.execute("commit")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            if "locked" in str(error):
                raise self._refusal(error) from error
            raise LedgerReadOnly(
                f"The ledger {self.path} could not take an evaluation ({error}). What it held "
                "before is intact; free space or make it writable, and run again to go on."
            ) from error

    def __len__(self) -> int:
        return int(self._execute("select count(*) from evaluations", ())[0][0])

    def _execute(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        """Close the file; everything written is already safe."""
        self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
