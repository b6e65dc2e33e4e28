"""Runs that survive: drivers and workers killed, full disks, two drivers, models gone wild."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import dushapley as ds
from dushapley import processes
from dushapley.engine.executors import local
from dushapley.errors import WorkersLost
from extras import needs
from faults import (
    DaskCluster,
    Driver,
    Faulty,
    Noting,
    Proxy,
    dask_cluster,
    faulty_game,
    kept,
    payments,
    sleepy_game,
    wait_until,
)

pytestmark = pytest.mark.slow
SECONDS, WORKERS = 0.1, 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask"), WORKERS) as started:
        yield started


def way(place: str, request: Any) -> dict[str, Any]:
    """How to run somewhere."""
    if place == "dask":
        cluster = request.getfixturevalue("cluster")
        return {"executor": "dask", "address": cluster.address}
    return {"n_jobs": WORKERS}


def quiet(n_players: int) -> ds.Valuation:
    return ds.value(sleepy_game(n_players=n_players), "exact")


def integrity(ledger: Path) -> str:
    with closing(sqlite3.connect(ledger)) as db:
        return str(db.execute("pragma integrity_check").fetchone()[0])


@pytest.mark.parametrize("place", ["local", "dask"])
def test_drivers_killed_at_random_moments(place: str, request: Any, tmp_path: Path) -> None:
    chance, log, ledger = random.Random(place), tmp_path / "paid.log", tmp_path / "l.sqlite"
    task = {"n_players": 7, "log": str(log), "seconds": SECONDS}
    task["value"] = way(place, request) | {"ledger": str(ledger)}
    before = 0
    for _ in range(5):
        driver, wanted = Driver(tmp_path, **task), len(payments(log)) + chance.choice([0, 1, 4, 9])
        wait_until(lambda: len(payments(log)) >= wanted or not driver.process.is_alive())  # noqa: B023
        time.sleep(chance.uniform(0, 0.3))
        driver.kill()
        assert integrity(ledger) == "ok"
        assert kept(ledger) >= before
        before = kept(ledger)
    found, reference = Driver(tmp_path, **(task | {"seconds": 0.0})).result(), quiet(7)
    assert found["bits"] == reference.values.tobytes().hex()
    assert found["asked"] == reference.n_evaluations
    assert found["computed"] == reference.n_distinct - before  # nothing that was kept is paid again
    assert len(set(payments(log))) == reference.n_distinct


def test_a_driver_killed_while_it_probes(tmp_path: Path) -> None:
    log, ledger = tmp_path / "paid.log", tmp_path / "l.sqlite"
    value = {"n_jobs": WORKERS, "ledger": str(ledger)}
    task = {"probed": True, "log": str(log), "seconds": SECONDS, "value": value}
    driver = Driver(tmp_path, **task)
    wait_until(lambda: kept(ledger) >= 10)  # nobody, and three for two trainings of a pool
    driver.kill()
    before = len(payments(log))
    found = Driver(tmp_path, **task).result()
    assert found["trained"] == ds.value(faulty_game(4, Noting()), "exact").n_trainings
    again = len(payments(log)) - before - WORKERS  # which end the trainings that they have in hand
    assert again <= found["trained"] - 6


def test_dask_workers_killed_one_after_another(cluster: DaskCluster, tmp_path: Path) -> None:
    log, chance = tmp_path / "paid.log", random.Random(3)
    value = {"executor": "dask", "address": cluster.address, "ledger": str(tmp_path / "l.sqlite")}
    driver = Driver(tmp_path, n_players=7, log=str(log), seconds=SECONDS, value=value)
    for kills in (1, 2, 3):  # no training can be unlucky more often than it is tried again
        wait_until(lambda: len(payments(log)) >= 8 * kills)  # noqa: B023
        wait_until(lambda: cluster.kill_worker(chance) is not None)
    found, reference = driver.result(), quiet(7)
    assert found["bits"] == reference.values.tobytes().hex()
    assert found["computed"] == reference.n_distinct


def test_two_drivers_on_one_ledger(request: Any, tmp_path: Path) -> None:
    log, ledger = tmp_path / "paid.log", tmp_path / "l.sqlite"
    drivers = [
        Driver(
            tmp_path,
            n_players=7,
            log=str(log),
            seconds=0.05,
            value=way(place, request) | {"ledger": str(ledger)},
        )
        for place in ("local", "dask")
    ]
    found = [driver.result() for driver in drivers]
    reference = quiet(7)
    assert {told["bits"] for told in found} == {reference.values.tobytes().hex()}
    assert integrity(ledger) == "ok"
    paid = len(payments(log))
    assert paid == sum(told["computed"] for told in found)
    assert kept(ledger) == reference.n_distinct  # once each, whoever came first


def test_a_network_that_is_cut_ends_the_run_in_words(cluster: DaskCluster, tmp_path: Path) -> None:
    log, ledger = tmp_path / "paid.log", tmp_path / "l.sqlite"
    proxy = Proxy(cluster.address)
    value = {"executor": "dask", "address": proxy.address, "ledger": str(ledger)}
    driver = Driver(tmp_path, n_players=6, log=str(log), seconds=0.1, value=value)
    wait_until(lambda: kept(ledger))
    proxy.cut()
    told = driver.result()
    assert told["error"] == "WorkersLost", told
    assert "Start it again, and run again to go on" in told["message"]
    task = {"n_players": 6, "value": value | {"address": cluster.address}}
    again, reference = Driver(tmp_path, **task).result(), quiet(6)
    assert again["bits"] == reference.values.tobytes().hex()
    assert again["computed"] < reference.n_distinct


@pytest.mark.parametrize("moment", ["nthreads", "submit"])
def test_a_network_that_is_cut_before_the_client_notices(
    moment: str, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client
    from distributed.comm import CommClosedError

    def cut(*_: Any, **__: Any) -> None:
        raise CommClosedError("Stream is closed")

    monkeypatch.setattr(Client, moment, cut)
    with pytest.raises(WorkersLost, match=r"is lost \(Stream is closed\)\. Start it again"):
        ds.value(sleepy_game(n_players=3), "exact", executor="dask", address=cluster.address)


@pytest.mark.parametrize("n_jobs", [1, WORKERS])
def test_a_clock_pulled_back_changes_nothing_here(n_jobs: int, tmp_path: Path) -> None:
    task = {"clock": "back", "value": {"n_jobs": n_jobs, "max_seconds": 600}}
    assert Driver(tmp_path, **task).result()["bits"] == quiet(7).values.tobytes().hex()
    task["value"]["max_seconds"] = 1.5
    late = Driver(tmp_path, seconds=0.1, **task).result()
    assert late["error"] == "Stopped"
    assert late["message"].startswith("Time is up")


def kept_of_a_frozen_run(folder: Path, seconds: float) -> int:
    """What a run of so many seconds had paid when its scheduler stopped answering."""
    folder.mkdir()
    ledger = folder / "l.sqlite"
    with dask_cluster(folder, 1) as frozen:
        value = {"executor": "dask", "address": frozen.address, "ledger": str(ledger)}
        task = {"n_players": 9, "log": str(folder / "paid.log"), "seconds": 0.4}
        driver = Driver(folder, **task, value=value | {"max_seconds": seconds})
        wait_until(lambda: kept(ledger) or not driver.process.is_alive())
        frozen.scheduler.send_signal(signal.SIGSTOP)
        try:
            assert driver.result()["error"] == "Stopped"
        finally:
            frozen.scheduler.send_signal(signal.SIGCONT)
    return kept(ledger)


def test_time_is_up_even_where_the_scheduler_has_stopped_answering(tmp_path: Path) -> None:
    # a busy machine may not have paid anything in time: then there is more time
    runs = (kept_of_a_frozen_run(tmp_path / str(s), s) for s in (6, 30, 150))
    assert 0 < next(filter(None, runs)) < 512


def test_a_full_disk_is_told_and_nothing_paid_is_lost(tmp_path: Path) -> None:
    log, ledger = tmp_path / "paid.log", tmp_path / "l.sqlite"
    task = {"n_players": 9, "log": str(log), "value": {"ledger": str(ledger)}}
    full = Driver(tmp_path, file_size=300_000, **task).result()
    assert full["error"] == "LedgerFull", full
    assert "free some space, and run the same again to go on" in full["message"]
    paid = len(payments(log))
    assert paid > 10
    again = Driver(tmp_path, **task).result()
    reference = quiet(9)
    assert again["bits"] == reference.values.tobytes().hex()
    assert again["computed"] <= reference.n_distinct - paid + 1  # the one that found no room


def test_ctrl_c_is_answered_by_the_driver_alone(tmp_path: Path) -> None:
    needs("distributed")
    script = tmp_path / "script.py"
    script.write_text(
        "from faults import Path, ds, sleepy_game\n"
        "if __name__ == '__main__':\n"
        f"    game = sleepy_game(0.2, Path({str(tmp_path / 'paid.log')!r}))\n"
        "    try:\n"
        "        ds.value(game, 'exact', executor='dask', n_jobs=2)\n"
        "    except ds.Stopped as stopped:\n"
        "        print(stopped)\n"
    )
    driver = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: payments(tmp_path / "paid.log"))
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to all of them
    told = driver.communicate(timeout=120)[0]
    assert "Stopped after" in told
    assert "Traceback" not in told


def test_a_full_temporary_folder_is_told(tmp_path: Path) -> None:
    code = """if True:
        import resource
        import numpy as np, dushapley as ds
        rows = np.zeros((200_000, 1))
        game = ds.DatasetGame(ds.Owners.from_arrays({"a": rows, "b": rows}), lambda X, y: len(X))
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))  # as on a full disk
        try:
            ds.value(game, "exact", n_jobs=2)
        except ds.errors.WorkersLost as error:
            print(error)
    """
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert "which is full or not writable" in told.stdout, told
    assert list(tmp_path.iterdir()) == []


def test_wild_trainings_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "GRACE", 0.2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of the children
    model = Faulty(("raise", "nan", "hang", "eat") * 9 + ("stuck", "die"), rate=0.6)
    game = faulty_game(7, model, timeout=0.2, memory=10**8, on_failure="empty")
    found = ds.value(game, "exact")
    assert found.n_computed == 128
    kinds = {cause.split(":")[0] for cause in found.failures}
    assert kinds >= {"RuntimeError", "ArithmeticError", "TimedOut", "WorkerLost"}
    assert sum(found.failures.values()) >= 70  # of which some that eat may run out of time first
    assert f"{sum(found.failures.values())} utilities failed" in repr(found)
    children = psutil.Process().children(recursive=True)
    assert [c for c in children if c.status() == psutil.STATUS_ZOMBIE] == []
    assert [c for c in children if processes.__file__ in c.cmdline()] == []
    assert list(tmp_path.iterdir()) == []


def test_a_child_in_the_grip_of_compiled_code_ends_with_its_driver(tmp_path: Path) -> None:
    model = f"Faulty(('grip',), once={str(tmp_path)!r})"
    code = f"from faults import *; ds.value(faulty_game(2, {model}, timeout=900), 'exact')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_until(lambda: list(tmp_path.iterdir()))
    (child,) = psutil.Process(driver.pid).children()
    driver.kill()
    driver.wait()
    try:
        wait_until(lambda: not at_work(child))
    finally:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def at_work(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("executor", ["local", "dask"])
def test_no_worker_runs_the_script_again(executor: str, tmp_path: Path) -> None:
    if executor == "dask":
        needs("distributed")
    script = tmp_path / "script.py"
    script.write_text(
        "import dushapley as ds\n"
        "print('once')\n"
        "utility = ds.CallableGame(lambda pools: pools.any(axis=1), 3)\n"
        f"print(ds.value(utility, 'exact', executor={executor!r}, n_jobs=2).n_computed)\n"
    )
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout == "once\n8\n", run.stderr


def test_the_command_line_uses_the_cluster(cluster: DaskCluster, tmp_path: Path) -> None:
    rows = [f"{'abcd'[i % 4]},{i * 7 % 11},{i * 7 % 11 + i % 13}" for i in range(80)]
    (tmp_path / "rows.csv").write_text("who,x,y\n" + "\n".join(rows) + "\n")
    command = [sys.executable, "-m", "dushapley.cli.main", "value", str(tmp_path / "rows.csv")]
    command += ["--owner", "who", "--target", "y", "--holdout", "0.25", "--task", "regression"]
    command += ["--model", "knn", "--method", "exact", "--json"]
    there = [
        "--ledger",
        str(tmp_path / "l.sqlite"),
        "--executor",
        "dask",
        "--address",
        cluster.address,
    ]
    run = subprocess.run([*command, *there], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    here = subprocess.run([*command, "--no-ledger"], capture_output=True, text=True, check=True)
    assert run.stdout == here.stdout
