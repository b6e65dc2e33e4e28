"""Cache, resume and provenance at once: every paid evaluation, committed as it is paid.

One SQLite file (write-ahead log) per *context*: what must be equal for evaluations of equal pools
to be interchangeable (model, metric, test data, seed). Within it a pool is known by its content,
so that an owner who leaves, joins or is renamed costs only what is new. Numbers are written as
text that reads back to the last bit (SQLite's own would lose the sign of zero), and every row is
sealed by a checksum, so that damage is noticed and never taken for an evaluation.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import quote
from time import monotonic, sleep
from typing import Any

import numpy as np

from dushapley.errors import (
    LedgerBusy,
    LedgerError,
    LedgerFull,
    LedgerMismatch,
    LedgerReadOnly,
    LedgerUnreadable,
)
from dushapley.games.base import Outcome
from dushapley.hashing import checksum

FORMAT = "dushapley.ledger/2"
_SCHEMA = (
    "create table if not exists about (name text primary key, value text not null) without rowid",
    "create table if not exists evaluations (key blob primary key, value text not null, "
    "failure text, scores blob, spread text, seal blob not null) without rowid",
)
_INSERT = """
insert into evaluations values (?, ?, ?, ?, ?, ?) on conflict (key) do update set
    value = excluded.value, failure = excluded.failure,
    scores = excluded.scores, spread = excluded.spread, seal = excluded.seal
where evaluations.failure is not null
"""  # a failure may be tried again; an answer stands
PATIENCE = 60
"""Seconds to wait while another run is writing."""
_AT_ONCE = 500
"""Keys looked up by one statement."""

Row = tuple[bytes, str, str | None, bytes | None, str | None, bytes]
"""Key, value, failure, scores, spread and seal, as they are stored."""


class Ledger(AbstractContextManager["Ledger"]):
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
    ...         news = ledger.write([(b"pool", Outcome(0.5))])
    ...         ledger.read([b"pool", b"other"])[b"pool"].value
    0.5
    """

    def __init__(self, path: str | os.PathLike[str], context: str) -> None:
        self.path, self.context = Path(path), context
        self._refuse_read_only()
        try:
            self._db = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )  # made in one thread, it may be used in another, one at a time
        except sqlite3.Error as error:
            raise LedgerUnreadable(
                f"The ledger {self.path} cannot be opened ({error}). Name a file in a folder that "
                "exists and can be written."
            ) from error
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise
        self._place = self.path.absolute()  # models may change the folder they work in
        self._file = self._standing()

    def _standing(self) -> int | None:
        """Which file stands under the ledger's name now."""
        try:
            return self._place.stat().st_ino
        except OSError:
            return None

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

    def _prepare(self) -> None:
        started = monotonic()
        while True:
            try:
                about = self._set_up()
                break
            except sqlite3.DatabaseError as error:
                refusal = self._refusal(error)
                # SQLite itself does not wait when two runs make the same file at the same moment
                if not isinstance(refusal, LedgerBusy) or monotonic() - started > PATIENCE:
                    raise refusal from error
            sleep(0.02)
        if about["format"] != FORMAT:
            raise LedgerUnreadable(
                f"The ledger {self.path} has format {about['format']!r}; this version reads "
                f"{FORMAT!r}. Use another file."
            )
        if about["context"] != self.context:
            raise LedgerMismatch(
                f"The ledger {self.path} holds evaluations of another game (context "
                f"{about['context'][:12]}…, this game has {self.context[:12]}…): model, its "
                "code, versions of packages, metric, test data, seed or fingerprint differ. Use "
                "another file, or the game it was made with."
            )

    def _set_up(self) -> dict[str, str]:
        """Make the tables where there are none; what the file says about itself."""
        self._refuse_foreign()
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = normal")
        with self._db:
            self._db.execute("begin immediate")  # proves now that we may write
            for statement in _SCHEMA:
                self._db.execute(statement)
            for name, value in (("format", FORMAT), ("context", self.context)):
                self._db.execute("insert or ignore into about values (?, ?)", (name, value))
            return dict(self._db.execute("select name, value from about").fetchall())

    def _refuse_foreign(self) -> None:
        """Refuse a database that is somebody else's before anything is written to it."""
        tables = {name for (name,) in self._db.execute("select name from sqlite_master")}
        if tables and not {"about", "evaluations"} <= tables:
            raise LedgerUnreadable(
                f"{self.path} is a database, but not a ledger: it holds "
                f"{', '.join(sorted(tables))}. It was left alone; name another file."
            )

    def _refusal(self, error: Exception) -> LedgerError:
        """What an error of SQLite means for the user."""
        path, reason = self.path, str(error)
        refusals: dict[tuple[str, ...], LedgerError] = {
            ("locked", "busy"): LedgerBusy(
                f"Another program has been writing to the ledger {path} for {PATIENCE} seconds. "
                "Wait until it is done, or use another file."
            ),
            ("full", "disk I/O"): LedgerFull(
                f"The ledger {path} cannot grow ({reason}). What it held before is intact; free "
                "some space, and run the same again to go on."
            ),
            ("readonly",): LedgerReadOnly(
                f"The ledger {path} cannot be written ({reason}). What it held before is intact; "
                "make it writable, copy it elsewhere, or run without one."
            ),
            ("",): LedgerUnreadable(
                f"{path} is not a readable ledger ({reason}). Name another file; if this one was "
                f"damaged, `dushapley salvage {quote(str(path))} NEW` saves what is intact."
            ),
        }
        return next(e for words, e in refusals.items() if any(w in reason for w in words))

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Outcome]:
        """What is known of these pools."""
        outcomes: dict[bytes, Outcome] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            for row in self._execute(f"select * from evaluations where key in ({marks})", some):  # noqa: S608
                outcome = unsealed(row, self.context)
                if outcome is None:
                    raise self._refusal(ValueError("an evaluation does not match its checksum"))
                outcomes[row[0]] = outcome
        return outcomes

    def write(self, paid: Iterable[tuple[bytes, Outcome]]) -> int:
        """Commit a block of evaluations: all of it, or nothing. How many of them were news."""
        rows = [sealed(key, outcome, self.context) for key, outcome in paid]
        if self._standing() != self._file:  # SQLite would go on writing into a file without a name
            raise LedgerUnreadable(
                f"The ledger {self.path} was deleted, moved or replaced during the run, so what is "
                "paid now could not be found again. Put it back, and run the same again to go on."
            )
        try:
            with self._db:  # which commits, or takes all of it back
                self._db.execute("begin immediate")
                return self._db.executemany(_INSERT, rows).rowcount
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def __len__(self) -> int:
        return int(self._execute("select count(*) from evaluations", ())[0][0])

    def _execute(self, statement: str, values: Sequence[object]) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        """Close the file; everything written is already safe."""
        self._db.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def sealed(key: bytes, outcome: Outcome, context: str) -> Row:
    """An evaluation as it is stored."""
    scores = None if outcome.scores is None else outcome.scores.tobytes()
    spread = None if outcome.spread is None else repr(float(outcome.spread))
    content = key, repr(float(outcome.value)), outcome.failure, scores, spread
    return *content, checksum(context, *content)


def unsealed(row: Row, context: str) -> Outcome | None:
    """A stored evaluation, or None when it is not what was once stored."""
    _, value, failure, scores, spread, seal = row
    if checksum(context, *row[:-1]) != seal:
        return None
    array = None if scores is None else np.frombuffer(scores, dtype=np.float64)
    return Outcome(float(value), failure, array, None if spread is None else float(spread))
