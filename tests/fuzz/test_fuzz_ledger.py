"""Any ledger is read or refused in a sentence; one that nobody touched gives the right values.

What it holds is taken on trust: a number that was changed to another one is not noticed.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from fuzzing import CASES, TOKENS, Target, bytewise, check
from hypothesis import given, settings

import dushapley as ds
from dushapley.games.base import Answers, Game, Outcome, Training

PAGE, PLAYERS = 4096, 4
SIZES = {"none": 0, "bits": 2048, "levels": 100, "steps": 600}


class Scored(Game):
    """A game whose outcomes are made up from the pool alone; some fail."""

    block = 4
    training = Training(repeats=2, deterministic=False, on_failure="empty", shift=0.0)

    def __init__(self, kind: str) -> None:
        self._set_owners(None, None, PLAYERS)
        self.kind, self.fingerprint = kind, f"scored by {kind}"

    def keys(self, queries: Any, draws: Any) -> list[bytes]:
        return [sha256(row.tobytes()).digest() for row in queries.astype(np.bool_)]

    def evaluate(self, queries: Any, draws: Any) -> Answers:
        return Answers.of([self.outcome(int(pool @ (1 << np.arange(PLAYERS)))) for pool in queries])

    def outcome(self, number: int) -> Outcome:
        rows = SIZES[self.kind]
        if number % 5 == 3:
            return Outcome(float("nan"), "RuntimeError: by its number")
        if number % 5 == 0 or not rows:
            return Outcome(number / 7)
        scores = np.random.default_rng(number).random(rows)
        if self.kind == "bits":
            scores = np.rint(scores)
        return Outcome(float(scores.mean()), None, scores, spread=0.1)


@cache
def truth(kind: str) -> tuple[bytes, str]:
    return bits(ds.value(Scored(kind), "exact"))


def bits(v: ds.Valuation) -> tuple[bytes, str]:
    return v.values.tobytes(), str(v.errors)


def corpus() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for kind in SIZES:
            ds.value(Scored(kind), "exact", ledger=Path(folder, kind))
        return [Path(folder, kind).read_bytes() for kind in SIZES]


STATEMENTS = (
    "update evaluations set value = ? where key = (select {}(key) from evaluations)",
    "update evaluations set failure = ? where key = (select {}(key) from evaluations)",
    "update evaluations set spread = ? where key = (select {}(key) from evaluations)",
    "update evaluations set scores = ? where key = (select {}(key) from evaluations)",
    "update evaluations set members = ? where key = (select {}(key) from evaluations)",
    "update evaluations set key = ? where key = (select {}(key) from evaluations)",
    "update meta set value = ? where name = (select {}(name) from meta)",
    "delete from evaluations where ? is not null and key = (select {}(key) from evaluations)",
    "insert into meta select ?, {}(value) from meta",
)
PROGRAMS = (
    "create view more as with recursive n(i) as (values(0) union all select i + 1 from n) "
    "select i from n",
    "drop table meta; create view meta as with recursive n(name, value) as (values(0, 0) union "
    "all select name + 1, value from n) select name, value from n",
    "create trigger t after insert on evaluations begin delete from evaluations; end",
    "create trigger t before insert on evaluations begin select randomblob(900000000); end",
    "alter table evaluations add column more generated always as (randomblob(900000000))",
    "create index more on evaluations (length(key))",
    "drop table evaluations",
    "create table more (x); insert into more values (zeroblob(100000))",
    "pragma user_version = 7; pragma application_id = 9",
    "pragma auto_vacuum = 1; vacuum",
    "pragma page_size = 512; pragma journal_mode = delete; vacuum",
    "pragma encoding = 'UTF-16'; vacuum",
    "pragma writable_schema = on; update sqlite_master set sql = sql || char(0, 27, 8238)",
    "pragma writable_schema = on; update sqlite_master set rootpage = 1",
    "pragma writable_schema = on; update sqlite_master set rootpage = 1000000",
    "pragma writable_schema = on; update sqlite_master set name = cast(x'ff1b5b324a' as text)",
    "pragma writable_schema = on; update sqlite_master set type = 'view' where name = 'meta'",
    "pragma writable_schema = on; delete from sqlite_master where name = 'meta'",
)
VALUES: tuple[Any, ...] = (
    None, 0, -1, 7.5, float("inf"), "nan", "0.5", "", "x" * 5000, b"", b"\xff" * 40, 2**62,
    "\x1b[2J", b"1\xff\xff\xff\xff\xff\xff", b"s\x01\x00\x00\x00\x02\x00",
)  # fmt: skip


def mutate(rng: Random, content: bytes) -> bytes:
    """Damage bytes or pages, change rows by SQL, or declare what no ledger declares."""
    way = rng.random()
    if way < 0.25:
        return bytewise(rng, content)
    if way < 0.5:
        return _pages(rng, content)
    programs = [rng.choice(PROGRAMS)] if way < 0.75 else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "l.sqlite")
        path.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for _ in range(rng.choice((0, 1, 1, 3)) if programs else 2):
                statement = rng.choice(STATEMENTS).format(rng.choice(("min", "max")))
                with suppress(sqlite3.Error):
                    db.execute(statement, (rng.choice(VALUES),))
            for program in programs:  # last, lest they run here
                with suppress(sqlite3.Error):
                    db.executescript(program)
        changed = path.read_bytes()
    return changed if rng.random() < 0.8 else bytewise(rng, changed)


def _pages(rng: Random, content: bytes) -> bytes:
    """Overwrite, swap or cut pages, or bytes in their headers."""
    damaged, pages = bytearray(content), len(content) // PAGE
    for _ in range(rng.choice((1, 1, 3))):
        start = PAGE * rng.randrange(pages)
        way = rng.randrange(5)
        if way == 0:
            other = PAGE * rng.randrange(pages)
            damaged[start : start + PAGE] = content[other : other + PAGE]
        elif way == 1:
            damaged[start : start + PAGE] = rng.choice((bytes(PAGE), rng.randbytes(PAGE)))
        elif way == 2:
            place = start + rng.randrange(12) + (100 if start == 0 else 0)
            damaged[place] = rng.choice((0, 2, 5, 10, 13, 255, rng.randrange(256)))
        elif way == 3:
            place = start + rng.randrange(PAGE - 40)
            token = rng.choice(TOKENS)[:40]
            damaged[place : place + len(token)] = token
        else:
            del damaged[max(PAGE, start + rng.randrange(PAGE)) :]
        damaged += bytes(max(0, PAGE - len(damaged)))
        pages = max(1, len(damaged) // PAGE)
    return bytes(damaged)


def read(path: Path) -> None:
    """Run and learn on a copy of it, as on one that came by mail."""
    content = path.read_bytes()
    kind = next((k for k in SIZES if f"scored by {k}".encode() in content), "bits")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "l.sqlite")
        shutil.copyfile(path, copy)
        found = ds.value(Scored(kind), "exact", ledger=copy)
        assert np.isfinite(found.values).all()
        assert content not in TARGET.seeds or bits(found) == truth(kind)
        ds.value(Scored(kind), "gp", budget=14, ledger=copy, learn_from_ledger=True)


TARGET = Target("ledger", "l.sqlite", corpus, read, mutate)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that nobody could have paid for
@given(CASES)
@settings(max_examples=40)
def test_any_ledger_ends_clearly(case: int) -> None:
    check(TARGET, case)
