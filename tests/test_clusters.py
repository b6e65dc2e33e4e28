"""Where work runs: the same bits anywhere, clean stops, limits, shared and damaged ledgers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import dushapley as ds
from dushapley import errors, processes
from dushapley.engine.executors import Executor, base, local, make_executor, worker
from dushapley.engine.executors.base import Listed, Pace
from dushapley.engine.executors.worker import ALIGNED, WorkerLost, pack
from dushapley.games import Answers, Outcome
from dushapley.games.policy import still_counts
from extras import needs
from faults import Faulty, faulty_game, fill_the_disk, sleepy_game, unimportable_game


def test_dask_gives_the_bits_of_this_process(client: Any, tmp_path: Path) -> None:
    quiet = ds.value(sleepy_game(), "permutation", budget=200)
    there = ds.value(
        sleepy_game(), "permutation", budget=200, executor="dask", address=client,
        ledger=tmp_path / "l.sqlite",
    )  # fmt: skip
    assert there.values.tobytes() == quiet.values.tobytes()
    assert there.std_errors.tobytes() == quiet.std_errors.tobytes()
    assert there.n_computed == quiet.n_computed
    assert client.status == "running"  # it was lent, and is still the owner's
    with ds.Ledger(tmp_path / "l.sqlite", sleepy_game().context) as ledger:
        assert len(ledger) == there.n_computed


def test_a_models_own_error_is_not_tried_again_on_dask(client: Any, tmp_path: Path) -> None:
    model = Faulty(("raise",), rate=1.0, once=str(tmp_path))  # a second try would go well
    with pytest.raises(errors.UtilityFailed, match="does not feel like it"):
        ds.value(faulty_game(4, model), "exact", executor="dask", address=client)


class Secretive(Faulty):
    """Raises an error that cannot be packed to travel."""

    def _misbehave(self, fault: str) -> None:
        error = RuntimeError("keeps a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error


def test_errors_that_cannot_travel_are_told_all_the_same(client: Any) -> None:
    with pytest.raises(errors.UtilityFailed, match="RuntimeError: keeps a lock"):
        ds.value(faulty_game(3, Secretive(("raise",))), "exact", executor="dask", address=client)


class Clumsy(ds.CallableGame):
    """A game of somebody else's, which lets errors through as they are."""

    def evaluate(self, queries: Any, draws: Any) -> Any:
        raise KeyError("clumsy")


def test_errors_of_somebody_elses_game_are_not_the_clusters(client: Any) -> None:
    with pytest.raises(errors.UtilityFailed, match="The game raised KeyError: 'clumsy'"):
        ds.value(Clumsy(len, 3), "exact", executor="dask", address=client)


def test_time_is_up_on_dask(client: Any) -> None:
    owners = ds.Owners.from_arrays({name: [[1.0]] for name in "abc"})
    try:
        with pytest.raises(ds.Stopped, match="Time is up"):  # trainings without an end are given up
            ds.value(
                ds.DatasetGame(owners, endless), "exact", executor="dask", address=client,
                max_seconds=1,
            )  # fmt: skip
    finally:
        RELEASED.set()


RELEASED = threading.Event()


def endless(X: np.ndarray, y: object) -> float:
    RELEASED.wait()
    return 0.0


def test_time_is_up_on_local_workers(tmp_path: Path) -> None:
    ledger, started = tmp_path / "l.sqlite", time.monotonic()
    ds.value(sleepy_game(), "loo", ledger=ledger)
    with pytest.raises(ds.Stopped, match=r"Time is up.*run the same again to go on"):
        ds.value(sleepy_game(900.0), "exact", n_jobs=2, max_seconds=2, ledger=ledger)
    assert time.monotonic() - started < 600  # trainings of 900 s are given up
    again = ds.value(sleepy_game(), "exact", n_jobs=2, ledger=ledger)
    assert again.values.tobytes() == ds.value(sleepy_game(), "exact").values.tobytes()


def test_time_is_up_for_a_single_block_on_local_workers() -> None:
    started = time.monotonic()
    with pytest.raises(ds.Stopped, match="Time is up"):
        ds.value(ds.CallableGame(sleep_long, 4), "exact", n_jobs=2, max_seconds=2)
    assert time.monotonic() - started < 600


def sleep_long(z: np.ndarray) -> np.ndarray:
    time.sleep(900)
    return z.sum(axis=1)


def test_time_is_up_cleanly_and_the_ledger_goes_on(tmp_path: Path) -> None:
    for attempt in range(10):  # a machine that stalls may leave no time for a first estimate
        ledger = tmp_path / f"{attempt}.sqlite"
        with pytest.raises(ds.Stopped, match=r"Time is up.*run the same again to go on") as stop:
            ds.value(sleepy_game(0.05), "permutation", budget=400, ledger=ledger, max_seconds=4)
        if stop.value.valuation is not None:
            break
    assert stop.value.out_of_time
    assert stop.value.valuation is not None
    assert not stop.value.valuation.complete
    done = stop.value.valuation.n_computed
    assert done > 0
    again = ds.value(sleepy_game(), "permutation", budget=400, ledger=ledger)
    quiet = ds.value(sleepy_game(), "permutation", budget=400)
    assert again.values.tobytes() == quiet.values.tobytes()
    assert again.n_computed == quiet.n_computed - done


@pytest.mark.parametrize("wrong", [0, -1, "5", True, float("nan")])
def test_impossible_time_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.InvalidOption, match="max_seconds"):
        ds.value(sleepy_game(), "exact", max_seconds=wrong)


def test_unknown_places_are_refused_before_anything_is_paid() -> None:
    def never(X: np.ndarray, y: object) -> float:
        raise AssertionError("paid")

    game = ds.DatasetGame(ds.Owners.from_arrays({"a": [[1.0]], "b": [[2.0]]}), never)
    with pytest.raises(errors.InvalidOption, match="'local', 'dask', 'ray'"):
        ds.value(game, executor="moon")
    with pytest.raises(errors.InvalidOption, match="executor='local' is this machine"):
        ds.value(game, address="tcp://x:1")


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("distributed")
    monkeypatch.setattr(base, "PATIENCE", 0.4)
    with pytest.raises(
        errors.WorkersLost, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"
    ):
        ds.value(sleepy_game(), "exact", executor="dask", address="tcp://127.0.0.1:9")


@pytest.mark.parametrize("wrong", ["hello", "tcp://127.0.0.1", "http://127.0.0.1:8786", 8786])
def test_what_is_no_address_is_refused_at_once(wrong: Any) -> None:
    needs("distributed")
    with pytest.raises(errors.InvalidOption, match="like tcp://host:8786"):
        ds.value(sleepy_game(), "exact", executor="dask", address=wrong)


def test_a_scheduler_without_workers_is_not_waited_for_beyond_the_runs_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "PATIENCE", 900.0)
    distributed = needs("distributed")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as nobody,
        distributed.Client(nobody, set_as_default=False) as client,
    ):
        started = time.monotonic()
        with pytest.raises(ds.Stopped, match="Time is up after 0"):
            ds.value(sleepy_game(), "exact", executor="dask", address=client, max_seconds=1.5)
        assert time.monotonic() - started < 600


def test_a_cluster_without_the_models_module_is_told_what_it_needs(client: Any) -> None:
    with pytest.raises(errors.WorkersDiffer, match=r"No module named 'my_models'.*install both"):
        ds.value(unimportable_game(), "exact", executor="dask", address=client, max_seconds=600)


class Counted:
    """A utility that counts how often it is packed to travel."""

    packed = 0

    def __call__(self, X: np.ndarray, y: object) -> float:
        return float(len(X))

    def __reduce__(self) -> Any:
        Counted.packed += 1
        return Counted, ()


@pytest.mark.parametrize("place", ["local", "dask"])
def test_the_game_is_packed_once_a_run(place: str, client: Any) -> None:
    owners = ds.Owners.from_arrays({f"o{i}": [[float(i)]] * (i + 1) for i in range(6)})
    game, Counted.packed = ds.DatasetGame(owners, Counted()), 0
    where = {"n_jobs": 2} if place == "local" else {"executor": "dask", "address": client}
    found = ds.value(game, "exact", **where)
    assert Counted.packed == 1  # however many groups of blocks there were
    assert found.values.tobytes() == ds.value(game, "exact").values.tobytes()


def test_a_parcel_unpacks_to_the_same_game() -> None:
    game = sleepy_game(n_players=3)
    game.odd = [
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(9)[::2],
    ]
    parcel = pack(game)
    again = parcel.game
    assert [a.tobytes() for a in again.odd] == [a.tobytes() for a in game.odd]
    assert again.odd[1].flags.f_contiguous
    masks = np.eye(3, dtype=bool)
    assert again(masks).tobytes() == game(masks).tobytes()
    assert all(start % ALIGNED == 0 for start, _ in parcel.bounds)
    travelled = pickle.loads(pickle.dumps(parcel))
    assert travelled.game(masks).tobytes() == game(masks).tobytes()


def test_workers_with_other_packages_are_refused() -> None:
    parcel = pack(unimportable_game())
    parcel.packages["numpy"] = "1.0"
    with pytest.raises(errors.WorkersDiffer, match=r"driver: 1\.0.*same versions on all workers"):
        worker.pay(parcel, [])  # before anything is unpacked, which could fail less clearly


def test_groups_follow_the_measured_time() -> None:
    pace = Pace()
    assert pace.size(64, 2) == 1  # nothing measured
    pace.saw(0.0, 1)
    assert pace.size(64, 2) == 8  # fair shares
    pace.saw(0.01, 10)
    assert pace.size(64, 2) == 5
    assert pace.size(6400, 100) == 16  # more workers than a driver could follow one by one
    pace.saw(60.0, 1)
    assert pace.size(64, 2) == 1
    pace.saw(0.0, 1)
    assert pace.size(64, 2) == 1  # the next one may be long again


@pytest.mark.parametrize("seconds", [0.003, 0.03, 0.2])
def test_all_but_the_shortest_trainings_travel_alone_so_that_a_kill_loses_few(
    seconds: float,
) -> None:
    pace = Pace()
    pace.saw(seconds, 1)
    assert pace.size(10_000, 2) == 1


class Flaky(Executor):
    """Workers in name only: every group of several blocks dies once, `poison` always."""

    def __init__(self, poison: int | None = None) -> None:
        super().__init__(float("inf"))
        self.poison, self.sizes, self.shipped = poison, [], 0

    def count(self) -> int:
        return 2

    def ship(self, parcel: Any) -> None:
        self.shipped += 1

    def submit(self, group: Any, alone: bool) -> Any:
        assert alone <= (len(group) == 1)
        self.sizes.append(len(group))
        return tuple(number for number, _ in group)

    def wait(self, futures: Any, seconds: float) -> Any:
        return futures[:1]

    def result(self, future: Any) -> Any:
        if len(future) > 1 or self.poison in future:
            raise WorkerLost("gone")
        return 0.0, [(future[0], Answers(np.array([float(future[0])])))]

    def cancel(self, futures: Any) -> None:
        self.cancelled = list(futures)

    def close(self) -> None:
        pass


def test_lost_groups_travel_again_one_by_one() -> None:
    block = (np.zeros((1, 7), dtype=bool), None, None)
    crew = Flaky()
    found = dict(crew.run(sleepy_game(), Listed([block] * 32)))
    assert sorted(found) == list(range(32))
    assert max(crew.sizes) > 1
    poisoned = Flaky(poison=5)
    with pytest.raises(errors.WorkersLost, match=r"memory=\.\.\., on_failure='empty'"):
        list(poisoned.run(sleepy_game(), Listed([block] * 32)))


def test_two_runs_on_one_ledger_use_each_others_work(tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    paid: list[str] = []

    def utility(X: np.ndarray, y: object) -> float:
        paid.append("x")
        if len(paid) == 5:  # while the first run is at work, another one does everything
            ds.value(game, "exact", ledger=ledger)
        return float(X.sum())

    owners = ds.Owners.from_arrays({c: [[float(i)]] for i, c in enumerate("abcdef")})
    game = ds.DatasetGame(owners, utility, fingerprint="sum")
    found = ds.value(game, "exact", ledger=ledger)
    assert found.n_computed == 64  # it had looked up all of its questions before
    assert len(paid) == 64 + 60  # the other one used the four that were kept by then
    with ds.Ledger(ledger, game.context) as kept:
        assert len(kept) == 64
    assert found.n_distinct == found.n_evaluations == 64
    assert found.values.tobytes() == ds.value(game, "exact").values.tobytes()


def test_runs_in_step_part_ways(tmp_path: Path) -> None:
    game = sleepy_game()
    with ds.Ledger(tmp_path / "l.sqlite", game.context) as ledger:
        assert ledger.write([b"a", b"b"], Answers(np.array([1.0, 2.0]))) == 2
        assert ledger.write([b"a", b"c"], Answers(np.array([1.0, 3.0]))) == 1
        assert ledger.write([b"d"], Answers.of([Outcome(np.nan, "failed")])) == 1
        assert ledger.write([b"d"], Answers(np.array([1.5]))) == 1  # one tried again is news


# --- limits -------------------------------------------------------------------------------------


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "fault", [pytest.param("hang", marks=SLOW), pytest.param("stuck", marks=SLOW), "eat"]
)
def test_excess_is_cut_short_and_counted(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "GRACE", 0.2)
    eats = fault == "eat"
    game = faulty_game(
        2,
        Faulty((fault,), rate=0.5),
        timeout=None if eats else 5.0,
        memory=2 * 10**8 if eats else None,
        on_failure="empty",
        deterministic=True,  # or probes would wait as well
    )
    found = ds.value(game, "exact")
    cause = "OutOfMemory: more than 200 MB" if eats else "TimedOut: no result within 5 s"
    assert list(found.failures) == [cause]
    assert 0 < found.failures[cause] < 3
    assert children() == []


def test_excess_raises_where_no_policy_says_otherwise() -> None:
    with pytest.raises(errors.UtilityFailed, match=r"TimedOut: no result within 0\.2 s"):
        ds.value(faulty_game(2, Faulty(("hang",)), timeout=0.2), "exact")


def test_a_process_that_cannot_start_is_no_failed_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(processes, "__file__", str(tmp_path / "broken.py"))
    with pytest.raises(errors.WorkersLost, match="could not start"):
        ds.value(faulty_game(2, timeout=1, on_failure="empty"), "exact")


def children() -> list[psutil.Process]:
    """Child processes under limits that live."""
    here = psutil.Process().children(recursive=True)
    return [child for child in here if processes.__file__ in child.cmdline()]


def test_a_run_that_ends_leaves_the_processes_of_others_alone() -> None:
    mine, other = make_executor("local", 1), make_executor("local", 1)
    pools = [(np.ones((1, 2), dtype=bool), None, None)] * 2
    found = other.run(faulty_game(2, timeout=5), Listed(pools))
    try:
        next(found)
        list(mine.run(faulty_game(2, timeout=5), Listed(pools)))
        mine.close()
        assert len(list(found)) == 1
        assert len(children()) == 1
    finally:
        other.close()
    assert children() == []


@pytest.mark.parametrize("executor", ["dask", "ray"])
def test_limits_on_a_cluster_are_refused_before_anything_is_paid(executor: str) -> None:
    with pytest.raises(errors.InvalidOption, match="limits are the cluster's there"):
        ds.value(faulty_game(2, timeout=5), "exact", executor=executor)


def test_a_child_runs_functions_and_tells_how_it_ended() -> None:
    child = processes.Child()
    assert child.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        child.call(divmod, 7, 0)
    assert child.call(os.getppid) == os.getpid()
    with pytest.raises(SystemExit, match="enough"):
        child.call(sys.exit, "enough")
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        child.call(time.sleep, 60, seconds=0.1)
    assert not child.alive
    child.close()
    child = processes.Child()
    with pytest.raises(processes.ChildEnded, match="exit code 3"):
        child.call(os._exit, 3)
    child.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits need Linux")
def test_a_child_is_refused_memory_beyond_its_limit() -> None:
    child = processes.Child()
    child.call(processes.limit_memory, 10**8)
    with pytest.raises(MemoryError):
        child.call(bytearray, 10**9)
    assert len(child.call(bytearray, 10**6)) == 10**6
    child.close()


def test_no_training_pays_for_the_imports_of_its_trainer() -> None:
    import cloudpickle

    class OfThisScript(Faulty):
        pass

    packed = cloudpickle.dumps(faulty_game(2, OfThisScript(), timeout=1)).hex()
    code = f"import pickle, sys; pickle.loads(bytes.fromhex({packed!r}))"
    code += "; print('sklearn.base' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert told.stdout.strip() == "True"


def test_another_limit_tries_again() -> None:
    def recalled(failure: str, **settings: Any) -> bool:
        return still_counts(failure, faulty_game(2, on_failure="empty", **settings).training)

    assert recalled("OutOfMemory: more than 5 MB", memory=5 * 10**6)
    assert not recalled("OutOfMemory: more than 5 MB", memory=10**9)
    assert not recalled("OutOfMemory: more than 5 MB")
    assert recalled("TimedOut: no result within 2 s", timeout=2, memory=10**9)
    assert not recalled("TimedOut: no result within 2 s", timeout=3, memory=10**9)


@pytest.mark.parametrize("wrong", [0, -5, 1.5, "1GB", True])
def test_impossible_memory_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.InvalidGame, match="memory is"):
        faulty_game(2, memory=wrong)


# --- the ledger ---------------------------------------------------------------------------------


def test_numbers_come_back_to_the_last_bit(tmp_path: Path) -> None:
    values = [-0.0, 0.0, 5e-324, 1 / 3, -1e308, 2.0]
    held = {bytes([i]): Outcome(v, spread=abs(v)) for i, v in enumerate(values)}
    with ds.Ledger(tmp_path / "l.sqlite", "context") as ledger:
        ledger.write(list(held), Answers.of(list(held.values())))
        found = ledger.read(list(held))
    for key, outcome in held.items():
        stored = np.float64(outcome.value + 0.0)  # no negative zeros
        assert np.float64(found[key].value).tobytes() == stored.tobytes()
        assert found[key].spread == outcome.spread


def test_runs_that_make_the_ledger_at_the_same_moment(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    start = Barrier(4)

    def make(number: int) -> int:
        counted = 0
        for turn in range(25):
            start.wait(120)
            with ds.Ledger(tmp_path / f"{turn}.sqlite", "context") as ledger:
                counted += ledger.write([bytes([number])], Answers(np.ones(1)))
        return counted

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [25] * 4


def test_a_ledger_that_cannot_grow_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.sqlite"
    fill_the_disk(monkeypatch)
    with pytest.raises(errors.LedgerFull, match="free some space, and run the same again"):
        ds.value(sleepy_game(n_players=9), "exact", ledger=ledger)
    monkeypatch.undo()
    again = ds.value(sleepy_game(n_players=9), "exact", ledger=ledger)
    quiet = ds.value(sleepy_game(n_players=9), "exact")
    assert again.values.tobytes() == quiet.values.tobytes()
    assert again.n_computed < 450  # more than 60 of 512 had been kept


@pytest.mark.parametrize("fate", ["deleted", "moved", "replaced"])
def test_a_ledger_that_goes_away_during_a_run_is_missed(fate: str, tmp_path: Path) -> None:
    ledger, elsewhere = tmp_path / "l.sqlite", tmp_path / "elsewhere.sqlite"
    asked: list[int] = []

    def utility(X: np.ndarray, y: object) -> float:
        asked.append(len(X))
        if len(asked) == 3:
            ledger.rename(elsewhere)
            if fate == "deleted":
                elsewhere.unlink()
            if fate == "replaced":
                ledger.write_bytes(b"")
        return float(len(X))

    owners = ds.Owners.from_arrays({c: [[float(i)]] for i, c in enumerate("abcd")})
    game = ds.DatasetGame(owners, utility, fingerprint="rows")
    with pytest.raises(errors.LedgerUnreadable, match="deleted, moved or replaced during the run"):
        ds.value(game, "exact", ledger=ledger)
    assert len(asked) == 3  # nothing more is paid
