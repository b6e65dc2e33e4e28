"""Cache, resume and provenance at once: every paid evaluation, committed as it is paid.

One SQLite file (write-ahead log) per *context*: what must be equal for evaluations of equal pools
to be interchangeable (model, metric, test data, seed). Within it a pool is known by its content,
so that an owner who leaves, joins or is renamed costs only what is new. Numbers read back to the
last bit (SQLite's own would lose the sign of zero), and every evaluation is sealed by a checksum,
so that damage is noticed and never taken for one. Values and nothing else stand in a table of few
bytes a row (`values`); scores of test rows in one of their own: they are many times larger, and
only error bars need them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, compress
from pathlib import Path
from shlex import quote
from sqlite3 import Connection
from time import monotonic, sleep
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray
from dushapley.engine.ledger.database import DAMAGE, at_most, open_database, schema_of
from dushapley.engine.ledger.rows import (
    Row,
    ScoresRow,
    is_sealed,
    sealed,
    sealed_scores,
    tree_order,
    unsealed_scores,
)
from dushapley.engine.ledger.tables import (
    DECLARED,
    FORMAT,
    INSERT,
    INSERT_PLAIN,
    INSERT_ROWS,
    INSERT_SCORES,
    ROWS,
    SELECT_SCORES,
    TABLES,
    is_ledger,
)
from dushapley.engine.ledger.values import (
    PlainRow,
    Wanted,
    key_of,
    sealed_values,
    value_of,
)
from dushapley.engine.scores import packed
from dushapley.errors import (
    LedgerBusy,
    LedgerError,
    LedgerFull,
    LedgerMismatch,
    LedgerReadOnly,
    LedgerUnreadable,
)
from dushapley.games.base import Outcome
from dushapley.terminal import printable

PATIENCE = 60
"""Seconds to wait while another run is writing."""
_AT_ONCE = 1_000
"""Keys looked up by one statement: so few are sorted quickly."""
_CACHE = 64 * 2**10
"""KiB of the file that are held in memory at most."""

MembersRow = tuple[bytes, bytes, bytes]
"""Roster of the owners, key of a pool, and which of them it holds, as packed bits."""
Members = tuple[bytes, BoolArray]
"""Roster of the owners, and which of them each of many pools holds, shape (m, I)."""


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
        try:
            self._db = open_database(self.path, PATIENCE)
        except DAMAGE as error:
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

    def _prepare(self) -> None:
        started = monotonic()
        while True:
            try:
                about = self._set_up()
                break
            except DAMAGE as error:
                refusal = self._refusal(error)
                # SQLite itself does not wait when two runs make the same file at the same moment
                if not isinstance(refusal, LedgerBusy) or monotonic() - started > PATIENCE:
                    raise refusal from error
            sleep(0.02)
        whose, version = (printable(str(about.get(name))) for name in ("context", "format"))
        if version != FORMAT:
            raise LedgerUnreadable(
                f"The ledger {self.path} has format {version!r}; this version reads {FORMAT!r}. "
                "Use another file."
            )
        if about.get("context") != self.context:
            raise LedgerMismatch(
                f"The ledger {self.path} holds evaluations of another game (context "
                f"{whose[:12]}…, this game has {self.context[:12]}…): model, its code, versions of "
                "packages, metric, test data, seed or fingerprint differ. Use another file, or the "
                "game it was made with."
            )

    def _set_up(self) -> dict[str, str]:
        """Make the tables where there are none; what the file says about itself."""
        self._refuse_foreign()
        with at_most(self._db, PATIENCE):
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.execute(f"pragma cache_size = -{_CACHE}")
            with self._db:
                self._db.execute("begin immediate")  # proves now that we may write
                for statement in TABLES.values():
                    self._db.execute(statement.replace("TABLE", "TABLE IF NOT EXISTS", 1))
                for name, value in (("format", FORMAT), ("context", self.context)):
                    self._db.execute("insert or ignore into about values (?, ?)", (name, value))
                return dict(self._db.execute("select name, value from about").fetchall())

    def _refuse_foreign(self) -> None:
        """Refuse a database that is not a ledger to the letter before anything is written to it.

        Views and triggers are programs, and a table declared otherwise may compute what it says.
        """
        declared = schema_of(self._db)
        if not declared or is_ledger(declared):
            return
        if set(declared) == {"about", "evaluations"}:
            raise LedgerUnreadable(
                f"The ledger {self.path} was written by an earlier version of dushapley, which "
                "kept scores otherwise. It was left alone; name another file, and pay anew."
            )
        others = sorted(name for name in declared if DECLARED.get(name, "") != declared[name])
        raise LedgerUnreadable(
            f"{self.path} is a database, but not a ledger: it holds "
            f"{printable(', '.join(others or declared)[:200])}. It was left alone; name another "
            "file."
        )

    def _refusal(self, error: Exception) -> LedgerError:
        """What an error of SQLite means for the user."""
        path, reason = self.path, printable(str(error))[:200]
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
        """What is known of these pools, without their scores."""
        plain = self._plain(keys)
        known = ~np.isnan(plain)
        found = dict(zip(compress(keys, known), map(Outcome, plain[known].tolist()), strict=True))
        for key, value, failure, spread in self._found(list(compress(keys, ~known))):
            found[key] = Outcome(value, failure, None, None if spread is None else float(spread))
        return found

    def values(self, keys: Sequence[bytes]) -> FloatArray:
        """Values of those of these pools that were trained once and did not fail; NaN of others."""
        values = self._plain(keys)
        others = list(compress(keys, np.isnan(values)))
        rows = {key: value for key, value, *rest in self._found(others) if rest == [None, None]}
        if rows:
            values[np.isnan(values)] = [rows.get(key, np.nan) for key in others]
        return values

    def _plain(self, keys: Sequence[bytes]) -> FloatArray:
        """What is known of these pools as values and nothing else; NaN of others."""
        if not keys or not self._holds("plain"):
            return np.full(len(keys), np.nan)
        wanted = Wanted(keys, self.context)
        rows = self._select("select body from plain where id in ", wanted.numbers)
        values = wanted.values([body for (body,) in rows])
        if values is None:
            raise self._refusal(ValueError("an evaluation does not match its checksum"))
        return values

    @property
    def is_empty(self) -> bool:
        """Whether nothing was paid; told at once, however much was."""
        return not self._holds("plain") and not self._holds("evaluations")

    def _holds(self, table: str) -> bool:
        return bool(self._execute(f"select exists (select 1 from {table})", ())[0][0])  # noqa: S608

    def _found(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, float, Any, Any]]:
        """Key, value, failure and spread of those of these pools that have a row of their own."""
        if not keys or not self._holds("evaluations"):
            return
        some = [keys[place] for place in tree_order(keys)]
        for row in self._select("select * from evaluations where key in ", some):
            if not is_sealed(row, self.context):
                raise self._refusal(ValueError("an evaluation does not match its checksum"))
            key, value, failure, spread, _, _ = row
            yield key, float(value), failure, spread

    def scores(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Scores of test rows of those of these pools that have any."""
        scores: dict[bytes, FloatArray] = {}
        for key, rows, body, seal in self._select(SELECT_SCORES, keys):
            values = unsealed_scores((key, body, seal), self.context)
            if values is None or str(len(values)) != rows:
                raise self._refusal(ValueError("scores of test rows do not match their checksum"))
            scores[key] = values
        return scores

    @property
    def has_scores(self) -> bool:
        """Whether any pool has scores of test rows."""
        return self._holds("scores") or self._holds("evaluations where rows is not null")

    def write(
        self, paid: Iterable[tuple[bytes, Outcome]], members: Sequence[MembersRow] = ()
    ) -> int:
        """Commit a block of evaluations: all of it, or nothing. How many of them were news."""
        rows, scores = [], []
        for key, outcome in paid:
            rows.append(sealed(key, outcome, self.context))
            if outcome.scores is not None:
                scores.append(sealed_scores(key, packed(outcome.scores), self.context))
        return self.adopt(rows, scores, members)

    def write_values(
        self, keys: Sequence[bytes], values: ArrayLike, members: Members | None = None
    ) -> int:
        """Commit a block of plain values, as `write` does; how many of them were news."""
        rows = sealed_values(keys, np.array(values, dtype=np.float64), self.context)

        def insert(db: Connection) -> int:
            if members is not None:
                roster, pools = members
                block = roster, np.packbits(pools, axis=1).tobytes()
                db.execute("insert into blocks values (?, ?)", block)
            if self._holds("evaluations"):
                rows[:] = self._unanswered(rows, keys)
            return self._insert_plain(db, rows)

        return self._commit(insert)

    def _unanswered(self, rows: list[PlainRow], keys: Sequence[bytes]) -> list[PlainRow]:
        """Those without an answer among the evaluations, whose failures are taken back."""
        found = {key: failure for key, _, failure, _ in self._found(keys)}
        failed = [(key,) for key, failure in found.items() if failure is not None]
        self._db.executemany("delete from evaluations where key = ?", failed)
        answered = {key for key, failure in found.items() if failure is None}
        return [row for row in rows if key_of(row) not in answered] if answered else rows

    def _insert_plain(self, db: Connection, rows: Sequence[PlainRow]) -> int:
        """Insert what is new; of two keys with one number, the second as a row of its own."""
        whole = len(rows) // ROWS * ROWS
        cuts = (rows[start : start + ROWS] for start in range(0, whole, ROWS))
        many = (list(chain.from_iterable(cut)) for cut in cuts)
        news = db.executemany(INSERT_ROWS, many).rowcount if whole else 0
        news += db.executemany(INSERT_PLAIN, rows[whole:]).rowcount if rows[whole:] else 0
        if news == len(rows):
            return news
        stored = dict(self._select("select id, body from plain where id in ", [r[0] for r in rows]))
        apart = [row for row in rows if key_of(row) != key_of((row[0], stored[row[0]]))]
        own = [sealed(key_of(row), Outcome(value_of(row)), self.context) for row in apart]
        return news + (db.executemany(INSERT, own).rowcount if own else 0)

    def adopt(
        self,
        rows: Sequence[Row],
        scores: Sequence[ScoresRow],
        members: Sequence[MembersRow] = (),
    ) -> int:
        """Commit evaluations as they are stored, with their scores; how many of them were news."""
        seals = {row[0]: row[-1] for row in rows}

        def insert(db: Connection) -> int:
            unknown = np.isnan(self._plain([row[0] for row in rows]))  # an answer stands
            news = db.executemany(INSERT, compress(rows, unknown)).rowcount
            db.executemany(INSERT_SCORES, [(*row, seals[row[0]]) for row in scores])
            db.executemany("insert or ignore into pools values (?, ?, ?)", members)
            return news

        return self._commit(insert)

    def _commit(self, insert: Callable[[Connection], int]) -> int:
        """Write in one transaction: all of it, or nothing."""
        if self._standing() != self._file:  # SQLite would go on writing into a file without a name
            raise LedgerUnreadable(
                f"The ledger {self.path} was deleted, moved or replaced during the run, so what is "
                "paid now could not be found again. Put it back, and run the same again to go on."
            )
        try:
            with self._db:  # which commits, or takes all of it back
                self._db.execute("begin immediate")
                return insert(self._db)
        except DAMAGE as error:
            raise self._refusal(error) from error

    def members(self, roster: bytes) -> list[tuple[bytes, bytes]]:
        """Key and members of every pool of these owners that was paid, in the order of keys."""
        return self._execute(
            "select key, members from pools where roster = ? order by key", [roster]
        )

    def blocks(self, roster: bytes) -> list[bytes]:
        """Members of pools of these owners that were paid in bulk, block by block."""
        found = self._execute("select members from blocks where roster = ?", [roster])
        return [body for (body,) in found if isinstance(body, bytes)]

    def begin(self, run: bytes, members: bytes) -> bytes:
        """Fix with which pools a run begins; what was fixed when it first began."""
        try:
            with self._db:
                self._db.execute("begin immediate")
                self._db.execute("insert or ignore into beginnings values (?, ?)", (run, members))
        except DAMAGE as error:
            raise self._refusal(error) from error
        fixed = self._execute("select members from beginnings where run = ?", [run])
        return bytes(fixed[0][0])

    def __len__(self) -> int:
        tables = "select (select count(*) from evaluations) + (select count(*) from plain)"
        return int(self._execute(tables, ())[0][0])

    def _select(self, statement: str, keys: Sequence[Any]) -> list[Any]:
        """Rows of these keys, looked up a thousand at a time."""
        found = []
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            found += self._execute(f"{statement} ({','.join('?' * len(some))})", some)
        return found

    def _execute(self, statement: str, values: Sequence[object]) -> list[Any]:
        try:
            with at_most(self._db):
                return self._db.execute(statement, values).fetchall()
        except DAMAGE as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        """Close the file; everything written is already safe."""
        self._db.close()

    def __exit__(self, *error: object) -> None:
        self.close()
