"""Cache, resume and provenance at once: every paid evaluation, committed as it is paid.

One SQLite file (write-ahead log) per *context*: what must be equal for evaluations of equal pools
to be interchangeable (model, metric, test data, seed). Within it a pool is known by its content,
so that an owner who leaves, joins or is renamed costs only what is new. Numbers are written as
text that reads back to the last bit (SQLite's own would lose the sign of zero), and every row is
sealed by a checksum, so that damage is noticed and never taken for an evaluation. Scores of test
rows stand in a table of their own: they are many times larger, and only error bars need them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from shlex import quote
from time import monotonic, sleep
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Queries
from dushapley.engine.database import DAMAGE, at_most, open_database, schema_of
from dushapley.engine.scores import packed, unpacked
from dushapley.errors import (
    LedgerBusy,
    LedgerError,
    LedgerFull,
    LedgerMismatch,
    LedgerReadOnly,
    LedgerUnreadable,
)
from dushapley.games.base import Game, Outcome
from dushapley.hashing import begun_checksum, checksum, sha256
from dushapley.terminal import printable
from dushapley.validation import is_partial

FORMAT = "dushapley.ledger/3"
SCHEMA = {
    "about": "CREATE TABLE about (name text primary key, value text not null) without rowid",
    "evaluations": "CREATE TABLE evaluations (key blob primary key, value text not null, "
    "failure text, spread text, rows text, seal blob not null) without rowid",
    "scores": "CREATE TABLE scores (key blob primary key, packed blob not null, "
    "seal blob not null)",  # with row numbers: what is large is appended, not sorted in
}
MEMBERS = {
    "pools": "CREATE TABLE pools (roster blob, key blob, members blob not null, "
    "primary key (roster, key)) without rowid",
    "beginnings": "CREATE TABLE beginnings (run blob primary key, members blob not null) "
    "without rowid",
}
"""Which of whose owners a pool held, and with which pools a run began: a key does not tell."""
OLDER = {**SCHEMA, "sqlite_autoindex_scores_1": None}
DECLARED = {**OLDER, **MEMBERS}
"""All that a ledger declares, as SQLite tells it; older ones know no members."""
_INSERT = """
insert into evaluations values (?, ?, ?, ?, ?, ?) on conflict (key) do update set
    value = excluded.value, failure = excluded.failure, spread = excluded.spread,
    rows = excluded.rows, seal = excluded.seal
where evaluations.failure is not null
"""  # a failure may be tried again; an answer stands
_INSERT_SCORES = """
insert or replace into scores select ?1, ?2, ?3
where ?4 = (select seal from evaluations where key = ?1)
"""  # of the evaluation that stands
_SELECT_SCORES = """
select evaluations.key, rows, packed, scores.seal
from evaluations left join scores on scores.key = evaluations.key
where rows is not null and evaluations.key in """
PATIENCE = 60
"""Seconds to wait while another run is writing."""
_AT_ONCE = 10_000
"""Keys looked up by one statement."""
_CACHE = 64 * 2**10
"""KiB of the file that are held in memory at most."""

Row = tuple[bytes, str, str | None, str | None, str | None, bytes]
"""Key, value, failure, spread, number of scores, and seal, as they are stored."""
ScoresRow = tuple[bytes, bytes, bytes]
"""Key, packed scores and seal, as they are stored."""
MembersRow = tuple[bytes, bytes, bytes]
"""Roster of the owners, key of a pool, and which of them it holds, as packed bits."""


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
                for statement in (SCHEMA | MEMBERS).values():
                    self._db.execute(statement.replace("TABLE", "TABLE IF NOT EXISTS", 1))
                for name, value in (("format", FORMAT), ("context", self.context)):
                    self._db.execute("insert or ignore into about values (?, ?)", (name, value))
                return dict(self._db.execute("select name, value from about").fetchall())

    def _refuse_foreign(self) -> None:
        """Refuse a database that is not a ledger to the letter before anything is written to it.

        Views and triggers are programs, and a table declared otherwise may compute what it says.
        """
        declared = schema_of(self._db)
        if declared in ({}, OLDER, DECLARED):
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
        return {
            key: Outcome(value, failure, None, None if spread is None else float(spread))
            for key, value, failure, spread in self._found(keys)
        }

    def values(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """Values of those of these pools that are plain: trained once, and without a failure."""
        found = self._found(keys)
        return {key: value for key, value, failure, spread in found if failure is spread is None}

    def _found(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, float, Any, Any]]:
        begun = begun_seal(self.context)
        for row in self._select("select * from evaluations where key in ", keys):
            key, value, failure, spread, rows, seal = row
            plain = failure is spread is rows is None and type(key) is bytes and type(value) is str
            sound = plain_seal(begun, key, value) == seal if plain else is_sealed(row, self.context)
            if not sound:
                raise self._refusal(ValueError("an evaluation does not match its checksum"))
            yield key, float(value), failure, spread

    def scores(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Scores of test rows of those of these pools that have any."""
        scores: dict[bytes, FloatArray] = {}
        for key, rows, body, seal in self._select(_SELECT_SCORES, keys):
            values = unsealed_scores((key, body, seal), self.context)
            if values is None or str(len(values)) != rows:
                raise self._refusal(ValueError("scores of test rows do not match their checksum"))
            scores[key] = values
        return scores

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

    def write_values(self, keys: Sequence[bytes], values: Sequence[float]) -> int:
        """Commit a block of plain values, as `write` does; how many of them were news."""
        begun = begun_seal(self.context)
        texts = map(repr, values)
        rows: list[Row] = [
            (key, text, None, None, None, plain_seal(begun, key, text))
            for key, text in zip(keys, texts, strict=True)
        ]
        rows.sort()  # neighbours in the tree are written one after the other
        return self.adopt(rows, [])

    def adopt(
        self,
        rows: Sequence[Row],
        scores: Sequence[ScoresRow],
        members: Sequence[MembersRow] = (),
    ) -> int:
        """Commit evaluations as they are stored, with their scores; how many of them were news."""
        if self._standing() != self._file:  # SQLite would go on writing into a file without a name
            raise LedgerUnreadable(
                f"The ledger {self.path} was deleted, moved or replaced during the run, so what is "
                "paid now could not be found again. Put it back, and run the same again to go on."
            )
        seals = {row[0]: row[-1] for row in rows}
        try:
            with self._db:  # which commits, or takes all of it back
                self._db.execute("begin immediate")
                news = self._db.executemany(_INSERT, rows).rowcount
                self._db.executemany(_INSERT_SCORES, [(*row, seals[row[0]]) for row in scores])
                self._db.executemany("insert or ignore into pools values (?, ?, ?)", members)
                return news
        except DAMAGE as error:
            raise self._refusal(error) from error

    def members(self, roster: bytes) -> list[tuple[bytes, bytes]]:
        """Key and members of every pool of these owners that was paid, in the order of keys."""
        return self._execute(
            "select key, members from pools where roster = ? order by key", [roster]
        )

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
        return int(self._execute("select count(*) from evaluations", ())[0][0])

    def _select(self, statement: str, keys: Sequence[bytes]) -> Iterator[Any]:
        """Rows of these keys, looked up some hundreds at a time."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            yield from self._execute(f"{statement} ({','.join('?' * len(some))})", some)

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


def sealed(key: bytes, outcome: Outcome, context: str) -> Row:
    """An evaluation as it is stored."""
    spread = None if outcome.spread is None else repr(float(outcome.spread))
    rows = None if outcome.scores is None else str(len(outcome.scores))
    content = key, repr(float(outcome.value)), outcome.failure, spread, rows
    return *content, _seal(context, content)


def unsealed(row: Row, context: str) -> Outcome | None:
    """A stored evaluation, or None when it is not what was once stored."""
    _, value, failure, spread, _, _ = row
    if not is_sealed(row, context):
        return None
    return Outcome(float(value), failure, None, None if spread is None else float(spread))


def sealed_scores(key: bytes, body: bytes, context: str) -> ScoresRow:
    """Packed scores as they are stored."""
    return key, body, checksum(context, key, body)


def unsealed_scores(row: ScoresRow, context: str) -> FloatArray | None:
    """Stored scores, or None when they are not what was once stored."""
    return unpacked(row[1]) if is_sealed(row, context) else None


def is_sealed(row: Sequence[Any], context: str) -> bool:
    """Whether a row is what was once stored."""
    *content, seal = row
    if not all(isinstance(part, (str, bytes, type(None))) for part in content):
        return False  # damage can change the type of a number, too
    return _seal(context, content) == seal


def _seal(context: str, content: Sequence[Any]) -> bytes:
    key, value, *rest = content
    if len(rest) == 3 and rest == [None] * 3 and type(value) is str:
        return plain_seal(begun_seal(context), key, value)
    return checksum(context, *content)


def plain_seal(begun: Any, key: bytes, value: str) -> bytes:
    """The checksum of a value without failure, spread and scores, the common case, in one go."""
    seal = begun.copy()
    body = value.encode()
    seal.update(_PLAIN % (len(key), key, len(body), body))
    return bytes(seal.digest())


_PLAIN = b"bytes %d %bstr %d %b" + 3 * b"NoneType 4 none"


@lru_cache(maxsize=8)
def begun_seal(context: str) -> Any:
    """A checksum that has the context already."""
    return begun_checksum(context)


def roster_of(game: Game) -> bytes:
    """Names whose owners a game has, and in which order: what their pools of one are called."""
    alone = np.eye(game.n_players, dtype=np.bool_)
    return sha256(*game.keys(*game.check(alone, None)))


def members_of(roster: bytes, keys: Sequence[bytes], queries: Queries) -> list[MembersRow]:
    """Who is in the pools of these keys; those that hold part of an owner's rows are left out."""
    whole = ~is_partial(queries)
    packed_bits = np.packbits(queries == 1, axis=1)
    return [
        (roster, key, row.tobytes())
        for key, row, kept in zip(keys, packed_bits, whole, strict=True)
        if kept
    ]


def paid_pools(game: Game, ledger: Ledger, run: bytes) -> BoolArray:
    """Every pool that a ledger holds of this game, but nobody's and everybody's; shape (m, I).

    They are fixed when the `run` of this name first begins, so that it can be resumed. Members
    without a value count as not known; they are asked by their content, like any pool, so that
    wrong ones could only cost evaluations.
    """
    roster = roster_of(game)
    stored = ledger.members(roster)
    width = -(-game.n_players // 8)
    sound = [(key, row) for key, row in stored if isinstance(row, bytes) and len(row) == width]
    paid = ledger.read([key for key, _ in sound])
    named = [row for key, row in sound if key in paid and game.recall(paid[key]) is not None]
    pools = _unpacked_members(ledger.begin(sha256(roster, run), b"".join(named)), game.n_players)
    some = pools.any(axis=1) & ~pools.all(axis=1)
    return pools[some]


def _unpacked_members(body: bytes, n_players: int) -> BoolArray:
    width = -(-n_players // 8)
    rows = np.frombuffer(body[: len(body) // width * width], dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(rows, axis=1, count=n_players).astype(np.bool_)
