r"""What a run has learned, in little memory: numbers here, scores of test rows on disk.

Error bars need the score of every pool on every test row, which is thousands of numbers for each
evaluation. They are packed as they are paid, kept in the ledger, or without one in a temporary
file that has no name (so that it is gone however the run ends), and read back block by block.

At most 256 different scores (0 and 1, ranks, small test sets) are packed exactly, in one bit or one
byte each. Others are rounded to 65,536 even steps from the lowest to the highest, two bytes each.
Scores of n rows span at most :math:`\sqrt{2n}` of their standard deviations, so that rounding adds
at most :math:`2n / (12 \cdot 65535^2)` of their variance: 0.00001% at 2,048 rows. What is used is
always what was packed, so that a resumed run has the bits of an uninterrupted one.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.errors import LedgerFull, UtilityFailed
from dushapley.games.base import Outcome

LEVELS, STEPS = 2**8, 2**16 - 1
AT_ONCE = 256
"""Pools whose scores are put into one matrix."""
_HEAD = struct.Struct("<cIH")
"""Kind (bits, bytes or steps), number of scores, number of levels."""


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


class Store(Protocol):
    """Keeps what was paid, scores of test rows included."""

    def write(self, paid: Iterable[tuple[bytes, Outcome]]) -> int:
        """Keep evaluations; how many of them were news."""

    def scores(self, keys: Sequence[bytes]) -> Mapping[bytes, FloatArray]:
        """Scores of those of these pools that have any."""

    @property
    def has_scores(self) -> bool:
        """Whether any pool has."""


class Spool:
    """Scores of a run without a ledger, in a temporary file.

    It is a private database of SQLite (where `SQLITE_TMPDIR`, `TMPDIR` or /var/tmp says), whose
    file is unlinked as soon as it is made: nobody else can open it, and nothing is left of it.
    """

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None

    def write(self, paid: Iterable[tuple[bytes, Outcome]]) -> int:
        rows = [(key, packed(o.scores)) for key, o in paid if o.scores is not None]
        try:
            if rows and self._db is None:
                self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                self._db.execute("create table scores (key blob primary key, packed blob not null)")
            if self._db is not None:
                self._db.executemany("insert or replace into scores values (?, ?)", rows)
        except sqlite3.Error as error:
            raise LedgerFull(
                f"Scores of test rows cannot be put aside ({error}). Free some space in the "
                "temporary folder, name another one in TMPDIR, or keep a ledger."
            ) from error
        return len(rows)

    def scores(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        if self._db is None:
            return {}
        marks = ",".join("?" * len(keys))
        found = self._db.execute(f"select * from scores where key in ({marks})", keys)  # noqa: S608
        return {key: unpacked(body) for key, body in found}

    @property
    def has_scores(self) -> bool:
        return self._db is not None

    def close(self) -> None:
        """Let the file go."""
        if self._db is not None:
            self._db.close()
            self._db = None


class Answers:
    """What the different pools of a run came to, numbered as they were first asked.

    About 150 bytes for each: its key, its number, its value and its spread.

    Parameters
    ----------
    store
        Where scores of test rows are.

    Attributes
    ----------
    causes
        Failures, by cause.
    n_known
        Pools that have a value.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.causes: Counter[str] = Counter()
        self.n_known = 0
        self._numbers: dict[bytes, int] = {}
        self._values = self._spreads = np.empty(0)  # NaN where unknown, with room to grow
        self._failed: set[int] = set()
        self._replaced: dict[int, FloatArray | None] = {}

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Answers:
        """Outcomes that are at hand."""
        paid = [(str(number).encode(), outcome) for number, outcome in enumerate(outcomes)]
        answers = cls(Spool())
        answers.store.write(paid)
        answers.numbers([key for key, _ in paid])
        answers.learn(paid)
        return answers

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: object) -> bool:
        """Whether the pool of this key was asked for."""
        return key in self._numbers

    def numbers(self, keys: Sequence[bytes]) -> IntArray:
        """The numbers of these pools; new ones get the next."""
        known = self._numbers
        found = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
        if len(known) > len(self._values):
            room = np.full(max(2 * len(known), 2**10) - len(self._values), np.nan)
            self._values = np.concatenate([self._values, room])
            self._spreads = np.concatenate([self._spreads, room])
        return found

    def numbered(self, keys: Sequence[bytes]) -> tuple[IntArray, IntArray]:
        """The numbers of these pools, and the rows of those that were never asked before."""
        following = len(self._numbers)
        numbers = self.numbers(keys)
        before = np.maximum.accumulate(np.append(following - 1, numbers))[:-1]
        return numbers, np.flatnonzero(numbers > before)  # new numbers come in their order

    def is_known(self, number: int) -> bool:
        """Whether the pool of this number has a value."""
        value: float = self._values[number]
        return value == value

    def unknown(self, numbers: IntArray) -> IntArray:
        """Those of these numbers whose pools have no value yet."""
        return numbers[np.isnan(self._values[numbers])]

    def learn(self, outcomes: Iterable[tuple[bytes, Outcome]]) -> None:
        """Remember what pools came to, without their scores, which are in the store."""
        for key, outcome in outcomes:
            number = self._numbers[key]
            self._values[number] = outcome.value
            self._spreads[number] = np.nan if outcome.spread is None else outcome.spread
            self.n_known += 1
            if outcome.failure is not None:
                self.causes[outcome.failure] += 1
                self._failed.add(number)

    def learn_values(self, keys: Sequence[bytes], values: FloatArray) -> None:
        """The same of pools that have a value and nothing else."""
        self._values[[self._numbers[key] for key in keys]] = values
        self.n_known += len(keys)

    def replace(self, key: bytes, outcome: Outcome) -> None:
        """Remember what a pool counts as today, whatever the store has: its scores too."""
        self.learn([(key, outcome)])
        self._replaced[self._numbers[key]] = outcome.scores  # the game's own, one for all of them

    def at(self, numbers: IntArray) -> FloatArray:
        """Values of the pools with these numbers."""
        return self._values[numbers]

    @property
    def values(self) -> FloatArray:
        """Values by number."""
        return self._values[: len(self)].copy()

    @property
    def spreads(self) -> FloatArray:
        """Standard deviations between repeated trainings, by number; NaN where unknown."""
        return self._spreads[: len(self)].copy()

    def rows(self, first: int) -> int:
        """How many scores the first pools have each; 0 where none has any."""
        if not self._replaced and not self.store.has_scores:
            return 0
        found = (scores for _, some in self._scores(first) for scores in some)
        return next((len(scores) for scores in found if scores is not None), 0)

    def blocks(self, first: int) -> Iterator[tuple[int, FloatArray]]:
        """Scores of the first pools, a matrix at a time, and the number its first row has.

        A utility fixed beforehand (nobody's, number 0, or a failure's) is the same on every test
        set; any other without scores might be anything (NaN).
        """
        rows = self.rows(first)
        for start, some in self._scores(first):
            yield (
                start,
                np.stack(
                    [
                        np.full(rows, self._fixed(number)) if scores is None else scores
                        for number, scores in enumerate(some, start)
                    ]
                ),
            )

    def _fixed(self, number: int) -> float:
        fixed = number == 0 or number in self._failed
        return float(self._values[number]) if fixed else float("nan")

    def _scores(self, first: int) -> Iterator[tuple[int, list[FloatArray | None]]]:
        keys = islice(self._numbers, first)
        start = 0
        while some := list(islice(keys, AT_ONCE)):
            stored = self.store.scores(some)
            yield start, [self._own(n, stored.get(key)) for n, key in enumerate(some, start)]
            start += len(some)

    def _own(self, number: int, stored: FloatArray | None) -> FloatArray | None:
        if number not in self._replaced:
            return stored
        scores = self._replaced[number]
        return None if scores is None else unpacked(packed(scores))
