"""Ledgers: what they keep in how little room, and files that are not what they seem."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dushapley as ds
from dushapley import errors
from dushapley.engine.ledger import TABLES, packed, unpacked
from dushapley.games.base import Answers, Game, Outcome
from dushapley.games.policy import Training
from dushapley.hashing import digest


class Scored(Game):
    """A game that costs something and has scores, made up from the pool alone."""

    block = 16
    training = Training(deterministic=True, on_failure="empty", shift=0.0)

    def __init__(self, n_players: int, rows: int, kind: str = "steps", failing: int = 0) -> None:
        self._set_owners(None, None, n_players)
        self.rows, self.kind, self.failing = rows, kind, failing
        self.fingerprint = digest("scored", n_players, rows, kind)

    def evaluate(self, queries: Any, draws: Any) -> Answers:
        return Answers.of([self.outcome(pool) for pool in queries])

    def outcome(self, pool: Any) -> Outcome:
        number = int(pool @ (1 << np.arange(self.n_players)))
        if number == 0:
            return Outcome(0.25, scores=np.linspace(0.0, 0.5, self.rows))
        rng = np.random.default_rng(number)
        if number <= self.failing:
            return Outcome(float("nan"), "RuntimeError: by its number")
        scores = rng.random(self.rows) + pool.sum()
        if self.kind == "bits":
            scores = (scores / self.n_players > 0.5).astype(np.float64)
        return Outcome(float(scores.mean()), None, scores)


def bits(v: ds.Valuation) -> tuple[object, ...]:
    return v.values.tobytes(), str(v.errors), v.failures, v.n_distinct


# --- scores of test rows ------------------------------------------------------------------------


@given(arrays(np.float64, st.integers(1, 600), elements=st.floats(-1e6, 1e6)))
def test_scores_are_packed_to_what_error_bars_need(scores: Any) -> None:
    found = unpacked(packed(scores))
    assert found.shape == scores.shape
    if len(np.unique(scores)) <= 256:
        assert (found == scores).all()
    else:
        step = np.ptp(scores) / 65535
        assert np.abs(found - scores).max() <= 0.51 * step + 1e-9 * np.abs(scores).max()
        assert found.var() == pytest.approx(scores.var(), rel=2 * 600 / (12 * 65535**2) + 1e-6)


def test_scores_take_a_bit_or_two_bytes_each() -> None:
    rng = np.random.default_rng(0)
    assert len(packed(rng.integers(0, 2, 2048).astype(np.float64))) < 2048 / 8 + 32
    assert len(packed(rng.integers(0, 5, 2048) / 5)) < 2048 + 64
    assert len(packed(rng.normal(size=2048))) < 2 * 2048 + 32


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_not_numbers_are_refused(wrong: float) -> None:
    with pytest.raises(errors.UtilityFailed, match="not a finite number"):
        packed(np.array([0.5, wrong]))


@pytest.mark.parametrize("method", ["exact", "permutation", "gp"])
@pytest.mark.parametrize("failing", [0, 9])
def test_a_resumed_run_has_the_error_bars_of_an_uninterrupted_one(
    method: str, failing: int, tmp_path: Path
) -> None:
    game, plan = Scored(6, 400, failing=failing), {"seed": 3}
    without = ds.value(game, method, **plan)
    first = ds.value(game, method, ledger=tmp_path / "l.sqlite", **plan)
    again = ds.value(game, method, ledger=tmp_path / "l.sqlite", **plan)
    assert bits(without) == bits(first) == bits(again)
    assert again.n_computed == 0
    assert without.errors["test set"] is not None


def test_error_bars_read_scores_as_often_as_memory_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dushapley.engine import evaluator

    game = Scored(6, 300)
    whole = ds.value(game, "permutation", budget=100)
    monkeypatch.setattr(evaluator, "AT_ONCE", 7)
    parts = ds.value(game, "permutation", budget=100)
    np.testing.assert_allclose(parts.errors["test set"], whole.errors["test set"], rtol=1e-9)


@pytest.mark.parametrize("kept", [True, False])
def test_memory_does_not_grow_with_the_scores(kept: bool, tmp_path: Path) -> None:
    """2^12 evaluations of 2,048 test rows: 67 MB of scores."""
    game = Scored(12, 2048, "bits")
    ds.value(Scored(4, 2048, "bits"), "exact")  # whatever is imported along the way
    tracemalloc.start()
    try:
        ds.value(game, "exact", ledger=tmp_path / "l.sqlite" if kept else None)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 30e6  # most of it is one matrix of scores, and the rows that it is made of
    if kept:
        assert (tmp_path / "l.sqlite").stat().st_size < 2e9 / 10**6 * 2**12


SHORT = packed(np.ones(299))


@pytest.mark.parametrize("body", [b"", b"8", b"1" + bytes(6), SHORT, b"x" * 40, "text", 7])
def test_damaged_scores_are_refused(body: Any, tmp_path: Path) -> None:
    path, game = tmp_path / "l.sqlite", Scored(4, 300)
    ds.value(game, "exact", ledger=path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        some = "(select max(key) from evaluations)"
        db.execute(f"update evaluations set scores = ? where key = {some}", [body])
    with pytest.raises(errors.LedgerUnreadable, match=r"ledger.* computed again"):
        ds.value(game, "exact", ledger=path)


# --- files that are not what they seem ----------------------------------------------------------


def opened(path: Path | str) -> None:
    ds.Ledger(path, "context").close()


@pytest.mark.parametrize(
    "content",
    [b"owner,x,y\nnorth,1,2\n", b"PAR1\x15\x04\x15", b"PK\x03\x04\x14\x00", b"\x1b[2Jx\n"],
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    with pytest.raises(errors.LedgerUnreadable, match=r"not a readable ledger .*It was left alone"):
        opened(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["l\0.sqlite", "\ud800", ""])
def test_a_name_that_keeps_nothing_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.LedgerUnreadable, match=r"Name a file|name another file"):
        ds.value(Scored(2, 3), "exact", ledger=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [":memory:", "file:l?mode=memory"])
def test_no_name_is_a_wish(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ds.value(Scored(2, 3), "exact", ledger=name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert ds.value(Scored(2, 3), "exact", ledger=name).n_computed == 0


def test_names_that_no_file_can_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.LedgerUnreadable, match="File name too long"):
        opened(tmp_path / ("x" * 300))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(errors.LedgerUnreadable, match="cannot be opened"):
        opened(tmp_path / "loop")


def test_pipes_devices_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(errors.LedgerUnreadable, match="is not a file"):
            opened(path)
    with pytest.raises(errors.LedgerUnreadable, match="is not a file"):
        opened(tmp_path)


ENDLESS = (
    "create view {} as with recursive n(i) as (values(0) union all select i + 1 from n) "
    "select i as name, i as value, i as key from n"
)


@pytest.mark.parametrize("table", ["meta", "evaluations", "more"])
def test_a_view_that_never_ends_is_refused_at_once(table: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    opened(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"drop table if exists {table}")
        db.execute(ENDLESS.format(table))
    with pytest.raises(errors.LedgerUnreadable, match=f"not a ledger: it holds {table}"):
        opened(path)


@pytest.mark.parametrize("name", ["cheat", "meta"])
def test_a_trigger_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    opened(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"create trigger {name} after insert on evaluations begin delete from meta; end")
    with pytest.raises(errors.LedgerUnreadable, match=f"not a ledger: it holds {name}"):
        opened(path)


def test_schemas_that_are_not_text_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    opened(path)
    for old, new in (
        (b"evaluations (", b"evalu\xfftions ("),
        (b"CREATE TABLE", b"CREATE TABL\xff"),
    ):
        damaged = path.read_bytes().replace(old, new)
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(errors.LedgerUnreadable) as refusal:
            opened(tmp_path / "damaged")
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("older", ["/2", "/3"])
def test_a_ledger_of_another_version_is_refused_and_left_alone(older: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with closing(sqlite3.connect(path)) as db:
        for statement in TABLES.values():
            db.execute(statement.replace("/4", older))
        db.commit()
    before = path.read_bytes()
    with pytest.raises(errors.LedgerUnreadable, match="not as this version"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("first", "last"), [(20_000, 40_000), (0, 4096), (100, 5000)])
def test_what_sqlite_finds_damaged_is_refused(tmp_path: Path, first: int, last: int) -> None:
    path, keys = tmp_path / "l.sqlite", named(3000)
    with ds.Ledger(path, "context") as ledger:
        ledger.write(keys, Answers(np.linspace(0, 1, 3000)))
    damaged = bytearray(path.read_bytes())
    damaged[first:last] = np.random.default_rng(1).bytes(last - first)
    path.write_bytes(damaged)
    with (
        pytest.raises(errors.LedgerUnreadable, match="It was left alone; name another file"),
        ds.Ledger(path, "context") as ledger,
    ):
        ledger.read(keys)


def test_a_ledger_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path, keys = tmp_path / "l.sqlite", named(3000)
    with ds.Ledger(path, "context") as ledger:
        ledger.write(keys, Answers(np.linspace(0, 1, 3000)))
    path.write_bytes(path.read_bytes()[:40_000])
    with (
        pytest.raises(errors.LedgerUnreadable, match="computed again"),
        ds.Ledger(path, "context") as ledger,
    ):
        ledger.read(keys)


@pytest.mark.parametrize("column", ["value", "spread", "failure"])
@pytest.mark.parametrize("wrong", ["'text'", "x'00ff'", "null"])
def test_an_evaluation_of_another_type_is_refused(column: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with ds.Ledger(path, "context") as ledger:
        ledger.write([b"key"], Answers.of([Outcome(0.5, spread=0.1)]))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"update evaluations set {column} = {wrong}")
    with ds.Ledger(path, "context") as ledger:
        # a value beside a failure is that of a pool some of whose folds failed
        if (column, wrong) in (("spread", "null"), ("failure", "null"), ("failure", "'text'")):
            assert ledger.read([b"key"])[b"key"].value == 0.5
            return
        with pytest.raises(errors.LedgerUnreadable, match="not what was stored"):
            ledger.read([b"key"])


def test_beginnings_and_members_that_were_never_written_are_refused(tmp_path: Path) -> None:
    path, pools = tmp_path / "l.sqlite", np.eye(20, dtype=bool)
    for wrong in (b"x", "text", None):
        with ds.Ledger(path, "context") as ledger:
            assert (ledger.begin(b"run", pools) == pools).all()
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("update meta set value = ? where name like 'run %'", [wrong])
        with (
            ds.Ledger(path, "context") as ledger,
            pytest.raises(errors.LedgerUnreadable, match="not a readable ledger"),
        ):
            ledger.begin(b"run", pools)
        path.unlink()


# --- values and nothing else --------------------------------------------------------------------


def named(count: int, length: int = 32) -> list[bytes]:
    return [digest(number).encode()[:length] for number in range(count)]


def test_values_are_kept_to_the_last_bit_and_found_in_any_order(tmp_path: Path) -> None:
    keys = [*named(500), b"nobody", *named(40, 5)]
    values = np.random.default_rng(0).normal(size=len(keys))
    values[7] = -0.0
    with ds.Ledger(tmp_path / "l.sqlite", "context") as ledger:
        assert ledger.write(keys[:300], Answers(values[:300])) == 300
        assert ledger.write(keys[200:], Answers(values[200:] + 1)) == len(keys) - 300
        assert len(ledger) == len(keys)
        values[300:] += 1  # what stood before stands
        found = ledger.read([*keys[::-1], b"never paid", keys[3], keys[3]])
    assert np.array([found[key].value for key in keys]).tobytes() == (values + 0.0).tobytes()
    assert b"never paid" not in found


def test_a_value_takes_the_place_of_a_failure_and_of_nothing_else(tmp_path: Path) -> None:
    failed, answered, new = named(3)
    with ds.Ledger(tmp_path / "l.sqlite", "context") as ledger:
        stands = Answers.of([Outcome(float("nan"), "ValueError"), Outcome(1.0, spread=0.5)])
        ledger.write([failed, answered], stands)
        assert ledger.write([failed, answered, new], Answers(np.array([2.0, 3.0, 4.0]))) == 2
        found = ledger.read([failed, answered, new])
        assert [found[key].value for key in (failed, answered, new)] == [2.0, 1.0, 4.0]
        assert len(ledger) == 3
        assert ledger.write([new], Answers.of([Outcome(9.0, "ValueError")])) == 0
        assert ledger.read([new])[new] == Outcome(4.0)


def test_values_are_stored_and_found_by_the_thousand(tmp_path: Path) -> None:
    keys, values = named(20_000), np.random.default_rng(0).random(20_000)
    with ds.Ledger(tmp_path / "l.sqlite", "context") as ledger:
        assert ledger.write(keys, Answers(values)) == 20_000
        found = ledger.read(keys)
    assert np.array([found[key].value for key in keys]).tobytes() == values.tobytes()


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError])
def test_however_a_run_ends_all_that_was_paid_is_kept(end: type, tmp_path: Path) -> None:
    """Blocks of a moment are committed together, and none of them is forgotten."""
    paid: list[int] = []

    def utility(pools: np.ndarray) -> np.ndarray:
        if sum(paid) >= 40:
            raise end
        paid.append(len(pools))
        return pools.sum(axis=1)

    game = ds.CallableGame(utility, 9, fingerprint="count", block=8)
    with pytest.raises((ds.Stopped, errors.UtilityFailed)):
        ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    with ds.Ledger(tmp_path / "l.sqlite", game.context) as ledger:
        assert len(ledger) == sum(paid) >= 40
