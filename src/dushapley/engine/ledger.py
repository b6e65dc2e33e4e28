r"""Cache, resume and provenance at once: every paid evaluation, committed as it is paid.

One SQLite file (write-ahead log) per *context*: what must be equal for evaluations of equal pools
to be interchangeable (model, metric, test data, seed). Within it a training is known by one hash of
its content (`Game.keys`), so that an owner who leaves, joins or is renamed costs only what is new.
All of it can be computed again: a file that SQLite cannot read is refused, never repaired.

Scores of test rows are thousands of numbers for each evaluation, so they are packed. At most 256
different scores (0 and 1, ranks, small test sets) are packed exactly, in one bit or one byte each.
Others are rounded to 65,536 even steps from the lowest to the highest, two bytes each. Scores of n
rows span at most :math:`\sqrt{2n}` of their standard deviations, so that rounding adds at most
:math:`2n / (12 \cdot 65535^2)` of their variance: 0.00001% at 2,048 rows. What is used is always
what was packed, so that a resumed run has the bits of an uninterrupted one.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Queries
from dushapley.errors import (
    LedgerBusy,
    LedgerError,
    LedgerFull,
    LedgerMismatch,
    LedgerReadOnly,
    LedgerRefused,
    LedgerUnreadable,
    UtilityFailed,
)
from dushapley.games.base import Answers, Game, Outcome
from dushapley.hashing import sha256
from dushapley.terminal import printable
from dushapley.validation import is_partial, is_unicode

FORMAT = "dushapley.ledger/4"
TABLES = {
    "meta": "CREATE TABLE meta (name text primary key, value blob not null) without rowid",
    "evaluations": "CREATE TABLE evaluations (key blob primary key, members blob, value real, "
    "failure text, spread real, scores blob) without rowid",
}
"""All that a ledger declares, as SQLite tells it.

`meta` has the format, the context, rosters of owners by number, and the pools that runs began with.
`members` of an evaluation are the number of a roster and, bit by bit, who of it was in the pool;
null where part of an owner's rows was.
"""
INSERT = """
insert into evaluations values (?, ?, ?, ?, ?, ?) on conflict (key) do update set
    members = excluded.members, value = excluded.value, failure = excluded.failure,
    spread = excluded.spread, scores = excluded.scores
where evaluations.failure is not null
"""  # a failure may be tried again; an answer stands
PATIENCE = 60
"""Seconds to wait while another run is writing."""
LONGEST = 8.0
"""Seconds that a look into the file may take."""
MOST_LEARNED = 2**12
"""Pools that a run begins with at most; of more, those whose keys come first: a random choice."""
Row = tuple[bytes, bytes | None, float | None, str | None, float | None, bytes | None]
"""An evaluation as it is stored: key, members, value, failure, spread and scores."""
LEVELS, STEPS = 2**8, 2**16 - 1
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What Python raises over a damaged database: not even SQLite's message need be text."""
_AT_ONCE = 1_000
"""Keys looked up by one statement."""
_CACHE = 64 * 2**10
"""KiB of the file that are held in memory at most."""
_DEFENSIVE = 1010
"""SQLITE_DBCONFIG_DEFENSIVE: nothing done by SQL can damage the file."""
first = itemgetter(0)
_HEAD = struct.Struct("<cIH")
"""Kind (bits, bytes or steps), number of scores, number of levels."""


class Ledger(AbstractContextManager["Ledger"]):
    """Paid evaluations of one context, on disk.

    Parameters
    ----------
    path
        The file; made if it does not exist. None: a private file that has no name, so that it is
        gone however the process ends (in the folder that TMPDIR names, or /var/tmp).
    context
        Content hash of everything but the pool. A ledger of another context is refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dushapley.games import Answers, Outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger(pathlib.Path(folder) / "paid.sqlite", "model A") as ledger:
    ...         news = ledger.write([b"pool"], Answers.of([Outcome(0.5)]))
    ...         ledger.read([b"pool", b"other"])[b"pool"].value
    0.5
    """

    def __init__(self, path: str | os.PathLike[str] | None, context: str = "") -> None:
        self.path = None if path is None else Path(path)
        self.context = context
        self._rosters: dict[bytes, int] = {}
        try:
            self._db = open_database(self.path)
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
        # models may change the folder they work in
        self._place = None if self.path is None else self.path.absolute()
        self._file = self._standing()

    def _standing(self) -> int | None:
        """Which file stands under the ledger's name now."""
        try:
            return None if self._place is None else self._place.stat().st_ino
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
        version, whose = (printable(str(about.get(name))) for name in ("format", "context"))
        if version != FORMAT:
            raise LedgerUnreadable(
                f"The ledger {self.path} has format {version!r}; this version reads {FORMAT!r}. "
                "Use another file."
            )
        if whose != self.context:
            raise LedgerMismatch(
                f"The ledger {self.path} holds evaluations of another game (context "
                f"{whose[:12]}…, this game has {self.context[:12]}…): model, its code, versions of "
                "packages, metric, test data, seed or fingerprint differ. Use another file, or the "
                "game it was made with."
            )

    def _set_up(self) -> dict[str, str]:
        """Make the tables where there are none; what the file says about itself."""
        with at_most(self._db):
            declared = dict(self._db.execute("select name, sql from sqlite_master").fetchall())
        if declared and declared != TABLES:
            self._refuse_foreign(declared)
        with at_most(self._db, PATIENCE):
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.execute(f"pragma cache_size = -{_CACHE}")
            with self._db:
                self._db.execute("begin immediate")  # proves now that we may write
                for statement in TABLES.values():
                    self._db.execute(statement.replace("TABLE", "TABLE IF NOT EXISTS", 1))
                about = {"format": FORMAT, "context": self.context}
                self._db.executemany("insert or ignore into meta values (?, ?)", about.items())
                chosen = "select name, value from meta where name in ('format', 'context')"
                return dict(self._db.execute(chosen).fetchall())

    def _refuse_foreign(self, declared: dict[str, str | None]) -> None:
        """Refuse a database that is not a ledger to the letter before anything is written to it.

        Views and triggers are programs, and a table declared otherwise may compute what it says.
        """
        if {"about", "evaluations"} <= declared.keys():
            raise LedgerUnreadable(
                f"The ledger {self.path} was written by an earlier version of dushapley. It was "
                "left alone; name another file, and pay anew."
            )
        others = sorted(name for name in declared if TABLES.get(name) != declared[name])
        raise LedgerUnreadable(
            f"{self.path} is a database, but not a ledger: it holds "
            f"{printable(', '.join(others or declared))[:200]}. It was left alone; name another "
            "file."
        )

    def _refusal(self, error: Exception) -> LedgerError:
        """What an error of SQLite means for the user."""
        path, reason = self.path, printable(str(error))[:200]
        if path is None:
            return LedgerFull(
                f"Scores of test rows cannot be put aside ({reason}). Free some space in the "
                "temporary folder, name another one in TMPDIR, or keep a ledger."
            )
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
                f"{path} is not a readable ledger ({reason}). It was left alone; name another "
                "file, and what it held is computed again."
            ),
        }
        return next(e for words, e in refusals.items() if any(w in reason for w in words))

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Outcome]:
        """What is known of these trainings, without their scores."""
        if self.is_empty:
            return {}
        found = {}
        for key, value, failure, spread in self._select("key, value, failure, spread", keys):
            numbers = all(isinstance(number, float | None) for number in (value, spread))
            if not numbers or not isinstance(failure, str | None) or failure is value:
                raise self._refusal(ValueError("an evaluation is not what was stored"))
            found[key] = Outcome(np.nan if value is None else value, failure, None, spread)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing was paid; told at once, however much was."""
        return not self._execute("select exists (select 1 from evaluations)", ())[0][0]

    def scores(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Scores of test rows of those of these trainings that have any."""
        rows = self._select("key, scores", keys)
        try:
            return {key: unpacked(body) for key, body in rows if body is not None}
        except (ValueError, TypeError) as error:
            raise self._refusal(error) from error

    def write(self, keys: Sequence[bytes], answers: Answers) -> int:
        """Commit evaluations: all of them, or nothing. How many of them were news."""
        return self.commit(self.rows(keys, answers))

    def rows(
        self,
        keys: Sequence[bytes],
        answers: Answers,
        members: Sequence[bytes | None] | None = None,
        *,
        scored: bool = True,
    ) -> list[Row]:
        """Evaluations as they are stored.

        Parameters
        ----------
        keys, answers
            Trainings, and what they came to.
        members
            Who was in each pool, as `members_of` names them.
        scored
            Whether scores are kept, where there are some.
        """
        known = scored and answers.scores is not None
        unknown = [None] * len(keys)
        values = (answers.values + 0.0).tolist()  # no negative zeros: SQLite has none
        return list(
            zip(
                keys,
                unknown if members is None else members,
                [None if value != value else value for value in values],
                [answers.failures.get(place) for place in range(len(keys))],
                unknown if answers.spread is None else _numbers(answers.spread),
                _packed_rows(answers) if known else unknown,
                strict=True,
            )
        )

    def commit(self, rows: Sequence[Row]) -> int:
        """Commit rows in one transaction; how many of them were news."""
        return self._write(INSERT, sorted(rows, key=first))  # neighbours are written together

    def members_of(self, roster: bytes, pools: Queries) -> list[bytes | None]:
        """Who is in each pool, by the number of the roster; None where part of an owner is."""
        if roster not in self._rosters:
            name = f"roster {roster.hex()}"
            following = "(select count(*) from meta where name like 'roster %')"
            statement = f"insert or ignore into meta select ?, cast({following} as blob)"
            self._write(statement, [(name,)])
            found = self._execute("select value from meta where name = ?", [name])
            self._rosters[roster] = int(found[0][0])
        number = self._rosters[roster].to_bytes(2, "big")
        bits = np.packbits(pools == 1, axis=1)
        rows = [number + row.tobytes() for row in bits]
        partial = np.flatnonzero(is_partial(pools))
        for place in partial.tolist():
            rows[place] = b""
        return [row or None for row in rows]

    def known_pools(self, roster: bytes, n_players: int) -> tuple[list[bytes], BoolArray]:
        """Keys and members of the first pools of these owners that were paid, in order of keys."""
        number = self._execute("select value from meta where name = ?", [f"roster {roster.hex()}"])
        if not number:
            return [], np.zeros((0, n_players), dtype=np.bool_)
        width = 2 + -(-n_players // 8)
        rows = self._execute(
            "select key, members from evaluations where substr(members, 1, 2) = ? "
            "and length(members) = ? order by key limit ?",
            [int(number[0][0]).to_bytes(2, "big"), width, MOST_LEARNED],
        )
        return [key for key, _ in rows], unpacked_pools([row[2:] for _, row in rows], n_players)

    def begin(self, run: bytes, pools: BoolArray) -> BoolArray:
        """Fix with which pools a run begins; what was fixed when it first began."""
        name, body = f"run {run.hex()}", np.packbits(pools, axis=1).tobytes()
        self._write("insert or ignore into meta values (?, ?)", [(name, body)])
        fixed = bytes(self._execute("select value from meta where name = ?", [name])[0][0])
        width = -(-pools.shape[1] // 8)
        rows = [fixed[start : start + width] for start in range(0, len(fixed), width)]
        return unpacked_pools(rows, pools.shape[1])

    def _write(self, statement: str, rows: Sequence[Sequence[object]]) -> int:
        """Write in one transaction: all of it, or nothing; how many rows are new."""
        if self._standing() != self._file:  # SQLite would go on writing into a file without a name
            raise LedgerUnreadable(
                f"The ledger {self.path} was deleted, moved or replaced during the run, so what is "
                "paid now could not be found again. Put it back, and run the same again to go on."
            )
        try:
            with self._db:  # which commits, or takes all of it back
                self._db.execute("begin immediate")
                return self._db.executemany(statement, rows).rowcount
        except DAMAGE as error:
            raise self._refusal(error) from error

    def __len__(self) -> int:
        return int(self._execute("select count(*) from evaluations", ())[0][0])

    def _select(self, columns: str, keys: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        """Columns of the evaluations under these keys, looked up a thousand at a time."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            statement = f"select {columns} from evaluations where key in ({marks})"  # noqa: S608
            yield from self._execute(statement, some)

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


def refuse_nameless(game: Game, ledger: str | os.PathLike[str] | None) -> None:
    """Refuse to keep what could be mistaken for another game's."""
    if ledger is not None and game.context is None:
        raise LedgerRefused(
            "This game is made from a bare function, whose content cannot be compared, so a "
            "ledger could mix up two games. Give the game a fingerprint= that names its content."
        )


def roster_of(game: Game) -> bytes:
    """Names whose owners a game has, and in which order: what their pools of one are called."""
    alone = np.eye(game.n_players, dtype=np.bool_)
    return sha256(*game.keys(*game.check(alone, None)))


def paid_answers(game: Game, ledger: Ledger) -> tuple[BoolArray, FloatArray]:
    """Pools that a ledger holds of this game, nobody's left out, and what they are worth.

    Failures are left out. Pools are asked by their content, like any, so that members that are not
    true could only cost evaluations.
    """
    keys, pools = ledger.known_pools(roster_of(game), game.n_players)
    paid = ledger.read(keys)
    known = [key in paid and paid[key].failure is None for key in keys]
    kept = np.array(known, dtype=np.bool_) & pools.any(axis=1)
    return pools[kept], np.array([paid[keys[k]].value for k in np.flatnonzero(kept)])


def paid_pools(game: Game, ledger: Ledger, run: bytes) -> BoolArray:
    """Every pool that a ledger holds of this game, but nobody's and everybody's; shape (m, I).

    They are fixed when the `run` of this name first begins, so that it can be resumed.
    """
    pools, _ = paid_answers(game, ledger)
    return ledger.begin(sha256(roster_of(game), run), pools[~pools.all(axis=1)])


def unpacked_pools(rows: Sequence[bytes], n_players: int) -> BoolArray:
    """Members of pools, bit by bit."""
    width = -(-n_players // 8)
    bits = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(bits, axis=1, count=n_players).astype(np.bool_)


def _numbers(spread: FloatArray) -> list[float | None]:
    return [None if number != number else number for number in spread.tolist()]


def _packed_rows(answers: Answers) -> list[bytes | None]:
    """Scores of each pool as they are stored; None where one has none."""
    assert answers.scores is not None
    matrix = answers.scores.matrix()
    unknown = np.isnan(matrix).any(axis=1)
    unknown[list(answers.failures)] = True
    return [None if no else packed(row) for no, row in zip(unknown, matrix, strict=True)]


def packed(scores: FloatArray) -> bytes:
    """Scores in as few bytes as error bars need."""
    if not np.isfinite(scores).all():
        raise UtilityFailed(
            "The score of some test row is not a finite number, though the utility is. Give scores "
            "whose mean is the utility, or none."
        )
    levels = np.unique(scores + 0.0)
    if len(levels) > LEVELS:
        lowest, step = levels[0], levels[-1] / STEPS - levels[0] / STEPS
        codes = np.clip(np.rint(scores / step - lowest / step), 0, STEPS).astype("<u2")
        ends = np.array([lowest, step], dtype="<f8")
        return _HEAD.pack(b"s", len(scores), 2) + ends.tobytes() + codes.tobytes()
    codes = np.searchsorted(levels, scores).astype(np.uint8)
    few = len(levels) <= 2
    body = np.packbits(codes) if few else codes
    head = _HEAD.pack(b"1" if few else b"8", len(scores), len(levels))
    return head + levels.astype("<f8").tobytes() + body.tobytes()


def unpacked(body: bytes) -> FloatArray:
    """The scores that were packed; raises `ValueError` where they cannot have been."""
    try:
        kind, rows, count = _HEAD.unpack_from(body)
        levels = np.frombuffer(body, "<f8", count, _HEAD.size)
        codes = np.frombuffer(body, "<u2" if kind == b"s" else np.uint8, -1, _HEAD.size + 8 * count)
        if kind == b"s":
            values = levels[0] + levels[1] * codes
        else:
            values = levels[np.unpackbits(codes, count=rows) if kind == b"1" else codes]
    except (struct.error, IndexError) as error:
        raise ValueError("scores are cut short") from error
    if len(values) != rows:
        raise ValueError("scores are cut short")
    return values


def open_database(path: Path | None) -> sqlite3.Connection:
    """A connection in which only data counts as data; made in one thread, used in any.

    A ledger may come by mail. So its name must be a plain file's, its schema must be ours to the
    letter, and no question to it may take longer than `LONGEST`.
    """
    if path is not None:
        refuse_other_files(path)
        refuse_read_only(path)
    name = "" if path is None else path.absolute()  # SQLite takes some names for wishes
    db = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
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
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise LedgerReadOnly(
            f"The ledger {path} cannot be read ({error.strerror}). Make it readable, or name "
            "another file."
        ) from error
    if start and not start.startswith(b"SQLite format 3\0"):
        raise LedgerUnreadable(
            f"{path} is not a ledger: it begins {printable(repr(start))[:60]}. It was left alone; "
            "name another file."
        )


def refuse_read_only(path: Path) -> None:
    """Refuse before any work is paid for; a file without write permission is meant so."""
    for place in (path, path.parent):
        if place.exists() and (not os.access(place, os.W_OK) or place.stat().st_mode & 0o222 == 0):
            raise LedgerReadOnly(
                f"{place} is read-only, so evaluations could not be kept. Make it writable, "
                "copy the ledger elsewhere, or run without one."
            )
