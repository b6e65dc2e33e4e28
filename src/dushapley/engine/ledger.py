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
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
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
from dushapley.hashing import each_row, sha256
from dushapley.terminal import printable
from dushapley.validation import is_partial

FORMAT = "dushapley.ledger/4"
TABLES = {
    "meta": f"CREATE TABLE meta (name text primary key, value blob /* {FORMAT} */) without rowid",
    "evaluations": "CREATE TABLE evaluations (key blob primary key, members blob, value real, "
    "failure text, spread real, scores blob) without rowid",
}
"""All that a ledger declares, to the letter.

`meta` has the context, and the pools that runs began with. `members` of an evaluation are a roster
of owners and, bit by bit, which of them were in the pool; null where part of an owner's rows was.
"""
INSERT = """
insert into evaluations values {rows} on conflict (key) do update set
    members = excluded.members, value = excluded.value, failure = excluded.failure,
    spread = excluded.spread, scores = excluded.scores
where evaluations.failure is not null
"""  # a failure may be tried again; an answer stands
INSERT_VALUES = "insert or ignore into evaluations (key, members, value) values {rows}"
PATIENCE = 60
"""Seconds to wait while another run is writing."""
MOST_LEARNED = 2**12
"""Pools that a run begins with at most; of more, those whose keys come first: a random choice."""
Row = tuple[bytes, bytes | None, float | None, str | None, float | None, bytes | None]
"""An evaluation as it is stored: key, members, value, failure, spread and scores."""
Members = list[bytes | None]
"""Who is in each of some pools, as `Ledger.members_of` names them."""
NUMBER, TEXT = (float, type(None)), (str, type(None))
LEVELS, STEPS = 2**8, 2**16 - 1
ROSTER = 8
"""Bytes of the hash that names a roster of owners."""
_AT_ONCE = 1_000
"""Keys looked up by one statement."""
_ROWS = 64
"""Rows written by one statement: half the time of one by one."""
_CACHE = 64 * 2**10
"""KiB of the file that are held in memory at most."""
_HEAD = struct.Struct("<cIH")
"""Kind (bits, bytes or steps), number of scores, number of levels."""


class Ledger(AbstractContextManager["Ledger"]):
    """Paid evaluations of one context, on disk.

    A ledger may come by mail: nothing in it is executed, since its tables have to be declared as
    they are here.

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
        # models may change the folder they work in, and SQLite takes some names for wishes
        self.path = None if path is None else Path(path).absolute()
        self.context = context
        with self._refusing():
            if self.path is not None and self.path.exists():
                if not self.path.is_file():
                    raise LedgerUnreadable(
                        f"{self.path} is not a file, so it is no ledger. Name a file."
                    )
                if self.path.stat().st_mode & 0o222 == 0:
                    raise PermissionError("readonly")
            self._db = sqlite3.connect(
                self.path or "", timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up()
            except BaseException:
                self._db.close()
                raise
        self._file = self._standing()

    def _standing(self) -> int | None:
        """Which file stands under the ledger's name now."""
        if self.path is None or not self.path.exists():
            return None
        return self.path.stat().st_ino

    def _set_up(self) -> None:
        """Make the tables where there are none.

        Another database is refused before it is changed, and so is one of another context.
        """
        self._db.execute("pragma cell_size_check = on")
        self._db.execute(f"pragma cache_size = -{_CACHE}")
        self._db.execute("pragma synchronous = normal")
        with self._db:
            self._db.execute("begin immediate")  # proves now that we may write
            declared = self._db.execute("select name, sql from sqlite_master").fetchall()
            if declared and sorted(declared) != sorted(TABLES.items()):
                # views and triggers are programs, and another table may compute what it says
                others = sorted({name for name, sql in declared if TABLES.get(name) != sql})
                raise LedgerUnreadable(
                    f"{self.path} is a database, but not a ledger: it holds "
                    f"{printable(', '.join(others))[:200] or 'too little'}, which is not as this "
                    "version of dushapley writes it. It was left alone; name another file, and pay "
                    "anew."
                )
            for statement in () if declared else TABLES.values():
                self._db.execute(statement)
            self._db.execute("insert or ignore into meta values ('context', ?)", [self.context])
            ((whose,),) = self._db.execute("select value from meta where name = 'context'")
        with suppress(sqlite3.OperationalError):  # another run that is opening the file does it
            self._db.execute("pragma journal_mode = wal")
        if whose != self.context:
            raise LedgerMismatch(
                f"The ledger {self.path} holds evaluations of another game (context "
                f"{printable(str(whose))[:12]}…, this game has {self.context[:12]}…): model, its "
                "code, versions of packages, metric, test data, seed or fingerprint differ. Use "
                "another file, or the game it was made with."
            )

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Refuse in words what SQLite cannot do, and what was never written as it is."""
        try:
            yield
        except LedgerError:
            raise
        except (sqlite3.Error, OSError, ValueError, TypeError, IndexError, struct.error) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> LedgerError:
        """What an error means for the user."""
        path, reason = self.path, printable(str(error))[:200]
        if path is None:
            return LedgerFull(
                f"Scores of test rows cannot be put aside ({reason}). Free some space in the "
                "temporary folder, name another one in TMPDIR, or keep a ledger."
            )
        refusals = {
            ("locked", "busy"): LedgerBusy(
                f"Another program has been writing to the ledger {path} for {PATIENCE} seconds. "
                "Wait until it is done, or use another file."
            ),
            ("full", "disk I/O"): LedgerFull(
                f"The ledger {path} cannot grow ({reason}). What it held before is intact; free "
                "some space, and run the same again to go on."
            ),
            ("readonly",): LedgerReadOnly(
                f"The ledger {path} is read-only, so evaluations could not be kept. What it held "
                "before is intact; make it writable, copy it elsewhere, or run without one."
            ),
            ("unable to open", "Errno"): LedgerUnreadable(
                f"The ledger {path} cannot be opened ({reason}). Name a file in a folder that "
                "exists and can be written."
            ),
            ("",): LedgerUnreadable(
                f"{path} is not a readable ledger ({reason}). It was left alone; name another "
                "file, and what it held is computed again."
            ),
        }
        return next(e for words, e in refusals.items() if any(w in reason for w in words))

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Outcome]:
        """What is known of these trainings, without their scores."""
        found = {}
        for key, value, failure, spread in self._select("key, value, failure, spread", keys):
            numbers = isinstance(value, NUMBER) and isinstance(spread, NUMBER)
            known = value is not None or failure is not None  # both, if some folds failed
            if not (numbers and known and isinstance(failure, TEXT)):
                raise self._refusal(ValueError("an evaluation is not what was stored"))
            found[key] = Outcome(np.nan if value is None else value, failure, None, spread)
        return found

    def scores(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Scores of test rows of those of these trainings that have any."""
        with self._refusing():
            rows = self._select("key, scores", keys)
            return {key: unpacked(body) for key, body in rows if body is not None}

    def pools(self, roster: bytes, n_players: int) -> tuple[BoolArray, FloatArray]:
        """The first pools of these owners that were paid, in order of keys, and their values."""
        members = roster[:ROSTER]
        rows = self._execute(
            "select substr(members, ?), value from evaluations where substr(members, 1, ?) = ? "
            "and length(members) = ? and typeof(value) = 'real' and failure is null "
            "order by key limit ?",
            (ROSTER + 1, ROSTER, members, ROSTER + -(-n_players // 8), MOST_LEARNED),
        )
        with self._refusing():
            known = unpacked_pools(b"".join(bits for bits, _ in rows), n_players)
        return known, np.array([value for _, value in rows])

    def begin(self, run: bytes, pools: BoolArray) -> BoolArray:
        """Fix with which pools a run begins; what was fixed when it first began."""
        name, body = f"run {run.hex()}", np.packbits(pools, axis=1).tobytes()
        self._write("insert or ignore into meta values {rows}", [(name, body)])
        with self._refusing():
            ((fixed,),) = self._execute("select value from meta where name = ?", [name])
            return unpacked_pools(fixed, pools.shape[1])

    def write(self, keys: Sequence[bytes], answers: Answers) -> int:
        """Commit evaluations: all of them, or nothing. How many of them were news."""
        return self.commit(self.rows(keys, answers, [None] * len(keys)))

    def rows(self, keys: Sequence[bytes], answers: Answers, members: Members) -> list[Row]:
        """Trainings, and what they came to, as they are stored; SQLite makes null of NaN."""
        unknown, values = [None] * len(keys), answers.values + 0.0  # SQLite has no negative zeros
        causes = map(answers.failures.get, range(len(keys)))
        spreads = unknown if answers.spread is None else answers.spread.tolist()
        scores: Sequence[bytes | None] = unknown
        if answers.scores is not None:
            matrix = answers.scores.matrix()
            none: BoolArray = np.asarray(np.isnan(matrix).any(axis=1))
            scores = [None if no else packed(row) for no, row in zip(none, matrix, strict=True)]
        return list(zip(keys, members, values.tolist(), causes, spreads, scores, strict=True))

    def commit(self, rows: Sequence[Row]) -> int:
        """Commit rows in one transaction; how many of them were news."""
        return self._write(INSERT, sorted(rows, key=itemgetter(0)))  # neighbours go together

    def commit_values(self, keys: Sequence[bytes], members: Members, values: FloatArray) -> int:
        """Commit values alone, which millions of pools have; how many of them were news."""
        starts = np.array(keys, "S8").view(">u8").astype(np.uint64)
        order = np.argsort(starts)  # neighbours go together
        names = np.array([keys, members], dtype=object)[:, order].tolist()
        kept = (values + 0.0)[order].tolist()  # SQLite has no negative zeros
        return self._write(INSERT_VALUES, zip(*names, kept, strict=True))

    @staticmethod
    def members_of(roster: bytes, pools: Queries) -> Members:
        """Who is in each pool of a roster's owners; None where part of an owner is."""
        bits = np.packbits(pools == 1, axis=1)
        owners = np.tile(np.frombuffer(roster[:ROSTER], np.uint8), (len(bits), 1))
        names: Members = [*each_row(np.hstack([owners, bits]))]
        for place in np.flatnonzero(is_partial(pools)).tolist():
            names[place] = None
        return names

    def _write(self, statement: str, rows: Iterable[Sequence[object]]) -> int:
        """Write in one transaction: all of it, or nothing; how many rows are new."""
        if self._standing() != self._file:  # SQLite would go on writing into a file without a name
            raise LedgerUnreadable(
                f"The ledger {self.path} was deleted, moved or replaced during the run, so what is "
                "paid now could not be found again. Put it back, and run the same again to go on."
            )
        with self._refusing(), self._db:  # which commits, or takes all of it back
            self._db.execute("begin immediate")
            remaining, news = iter(rows), 0
            while some := list(islice(remaining, _ROWS)):
                row = ", ".join("?" * len(some[0]))
                marks = ", ".join([f"({row})"] * len(some))
                filled = statement.format(rows=marks)
                news += self._db.execute(filled, list(chain(*some))).rowcount
            return news

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
        with self._refusing():
            return self._db.execute(statement, values).fetchall()

    def close(self, *_: object) -> None:
        """Close the file; everything written is already safe."""
        self._db.close()

    __exit__ = close


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
    pools, values = ledger.pools(roster_of(game), game.n_players)
    some = pools.any(axis=1)
    return pools[some], values[some]


def paid_pools(game: Game, ledger: Ledger, run: bytes) -> BoolArray:
    """Every pool that a ledger holds of this game, but nobody's and everybody's; shape (m, I).

    They are fixed when the `run` of this name first begins, so that it can be resumed.
    """
    pools, _ = paid_answers(game, ledger)
    return ledger.begin(sha256(roster_of(game), run), pools[~pools.all(axis=1)])


def unpacked_pools(members: bytes, n_players: int) -> BoolArray:
    """Members of pools, bit by bit; raises `ValueError` where there are others."""
    bits = np.frombuffer(members, dtype=np.uint8).reshape(-1, -(-n_players // 8))
    return np.unpackbits(bits, axis=1, count=n_players).astype(np.bool_)


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
        kind, levels = b"s", np.array([lowest, step])
    else:
        codes = np.searchsorted(levels, scores).astype(np.uint8)
        kind = b"1" if len(levels) <= 2 else b"8"
    body = np.packbits(codes) if kind == b"1" else codes
    head = _HEAD.pack(kind, len(scores), len(levels))
    return head + levels.astype("<f8").tobytes() + body.tobytes()


def unpacked(body: bytes) -> FloatArray:
    """The scores that were packed; raises `ValueError` or the like where they cannot have been."""
    kind, rows, count = _HEAD.unpack_from(body)
    levels = np.frombuffer(body, "<f8", count, _HEAD.size)
    codes = np.frombuffer(body, "<u2" if kind == b"s" else np.uint8, -1, _HEAD.size + 8 * count)
    if kind == b"1":
        codes = np.unpackbits(codes, count=rows)
    values = levels[0] + levels[1] * codes if kind == b"s" else levels[codes]
    if len(values) != rows:
        raise ValueError("scores are cut short")
    return values
