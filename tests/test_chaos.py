"""One round each of a killed group, a full disk, a read-only one, and a crash.

A cut network stands in test_faults.py, beside the cluster that it needs.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import dushapley as ds
from dushapley import errors
from dushapley.engine.executors import base, dask, make_executor, worker
from dushapley.engine.executors.base import Listed
from dushapley.processes import own_folder
from extras import needs
from faults import Driver, kept, payments, sleepy_game, wait_until

slow = pytest.mark.slow


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def in_shared_memory(number: int) -> list[Path]:
    return [
        p for p in Path("/dev/shm").glob("*") if f"-{number}-" in p.name or f"_{number}_" in p.name
    ]


# --- killed -------------------------------------------------------------------------------------


def semaphores(processes: list[psutil.Process]) -> list[Path]:
    """Those that some processes have open, by name."""
    lines = [line for p in processes for line in Path(f"/proc/{p.pid}/maps").read_text().split()]
    return [Path(line) for line in set(lines) if line.startswith("/dev/shm/sem.")]


@slow
@pytest.mark.parametrize("executor", ["local", "dask"])
def test_a_killed_group_leaves_nothing_behind(
    executor: str, tmp_path: Path, temporary: Path
) -> None:
    if executor == "dask":
        needs("distributed")
    log, ledger = tmp_path / "paid.log", tmp_path / "l.sqlite"
    code = (
        "from faults import Path, ds, sleepy_game\n"
        f"game = sleepy_game(0.2, Path({str(log)!r}))\n"
        f"ds.value(game, 'exact', executor={executor!r}, n_jobs=2, ledger={str(ledger)!r})\n"
    )
    group = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )
    wait_until(lambda: ledger.exists() and kept(ledger))
    others = psutil.Process(group.pid).children(recursive=True)
    named = semaphores(others)
    assert bool(named) == (executor == "dask")
    os.killpg(group.pid, signal.SIGKILL)
    group.wait()
    wait_until(lambda: not any(at_work(process) for process in others))
    wait_until(lambda: not any(path.exists() for path in named))
    own_folder().rmdir()  # what is on disk is removed by the next that needs a folder
    assert list(temporary.iterdir()) == in_shared_memory(group.pid) == []
    found = ds.value(sleepy_game(), "exact", ledger=ledger)
    assert 0 < found.n_computed < 128
    assert found.values.tobytes() == ds.value(sleepy_game(), "exact").values.tobytes()


def at_work(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_folders_of_living_processes_and_of_others_are_left_alone(temporary: Path) -> None:
    mine = own_folder()
    assert mine.stat().st_mode & 0o077 == 0
    machine = mine.name.rpartition(f"-{os.getpid()}-")[0]
    dead, other = temporary / f"{machine}-99999999-x", temporary / "dushapley-elsewhere-99999999-x"
    (dead / "inside").mkdir(parents=True)
    other.mkdir()
    again = own_folder()
    assert {path.name for path in temporary.iterdir()} == {mine.name, again.name, other.name}


def test_a_folder_is_in_tmp_where_its_name_would_be_too_long(temporary: Path) -> None:
    folder = own_folder(43)
    try:
        assert folder.parent == Path("/tmp")
        assert len(str(folder)) <= 43
    finally:
        folder.rmdir()


# --- disks --------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own where mounting is permitted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@slow
def test_a_full_disk_and_a_read_only_one(tmp_path: Path) -> None:
    log = tmp_path / "paid.log"
    with small_disk(tmp_path / "disk", "512k") as disk:
        task = {"n_players": 9, "log": str(log), "value": {"ledger": str(disk / "l.sqlite")}}
        full = Driver(tmp_path, **task).result()
        assert full["error"] == "LedgerFull", full
        paid = len(payments(log))
        assert paid > 10
        remount = ["mount", "-o", "remount,{}", str(disk)]
        subprocess.run([word.format("size=64m") for word in remount], check=True)
        driver = Driver(tmp_path, seconds=0.02, **task)
        wait_until(lambda: len(payments(log)) > paid + 5)
        os.kill(driver.process.pid, signal.SIGSTOP)  # a file open for writing forbids it else
        driver.kill()
        subprocess.run([word.format("ro") for word in remount], check=True)
        refused = Driver(tmp_path, **task).result()
        assert refused["error"] == "LedgerReadOnly", refused
        subprocess.run([word.format("rw") for word in remount], check=True)
        again = Driver(tmp_path, **task).result()
    quiet = ds.value(sleepy_game(n_players=9), "exact")
    assert again["bits"] == quiet.values.tobytes().hex()
    assert again["computed"] <= quiet.n_distinct - paid


# --- crashes ------------------------------------------------------------------------------------


class Crashing:
    """A utility whose process ends over the rows of one pool."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self, X: np.ndarray, y: object) -> float:
        if X.sum() == 12.0:
            os.kill(os.getpid(), signal.SIGSEGV) if self.way == "segfault" else os._exit(3)
        return float(X.sum())


def crashing_game(way: str) -> Any:
    owners = ds.Owners.from_arrays({name: [[2.0**i]] for i, name in enumerate("abcd")})
    return ds.DatasetGame(owners, Crashing(way))


LAST_TWO = np.array([[False, False, True, True]])
TOLD = {
    "segfault": r"The process ended with signal 11 \(SIGSEGV, a crash in compiled code\) while "
    r"training on the pool of 'c', 'd', 3 times in a row",
    "exit": r"The process ended with exit code 3 while training on the pool of 'c', 'd', 2 times",
}


@slow
@pytest.mark.filterwarnings("ignore")
def test_a_crash_on_local_workers_names_pool_and_cause(temporary: Path) -> None:
    with pytest.raises(errors.WorkersLost, match=TOLD["segfault"]):
        ds.value(crashing_game("segfault"), "exact", n_jobs=2)
    assert [path for path in temporary.rglob("*") if path.is_file()] == []


def test_a_single_training_of_somebodys_model_never_runs_in_the_parent() -> None:
    game = ds.DatasetGame(ds.Owners.from_arrays({"a": [[1.0]]}), lambda X, y: float(os.getpid()))
    executor = make_executor("local", 2, None, float("inf"))
    try:
        ((_, answers),) = executor.run(game, Listed([(np.array([[True]]), None, None)]))
    finally:
        executor.close()
    assert answers.values[0] != os.getpid()


@slow
def test_a_process_that_exits_names_pool_and_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ATTEMPTS", 2)
    executor = make_executor("local", 2)
    try:
        with pytest.raises(errors.WorkersLost, match=TOLD["exit"]):
            list(executor.run(crashing_game("exit"), Listed([(LAST_TWO, None, None)])))
    finally:
        executor.close()


def test_a_block_whose_worker_died_is_paid_in_a_process_of_its_own() -> None:
    parcel = worker.pack(crashing_game("exit"))
    with pytest.raises(worker.ChildEnded, match="exit code 3"):
        worker.pay(parcel, [(0, (LAST_TWO, None, None))], alone=True)


@slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_started_here_tells_of_a_crash_and_is_open_to_nobody(temporary: Path) -> None:
    client = needs("distributed").Client
    cluster: Any = make_executor("dask", 1)
    try:
        everybody = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [
            connection.laddr.ip
            for process in everybody
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert set(listening) == {"127.0.0.1"}
        address = cluster.client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        for wrong in (address, address.replace("tls", "tcp")):
            with pytest.raises((OSError, TypeError, RuntimeError, ValueError)):
                client(wrong, timeout=1, set_as_default=False)
            gc.collect()  # found dead while another one starts, a client would wait for itself
        with pytest.raises(errors.WorkersLost, match=TOLD["segfault"]):
            list(cluster.run(crashing_game("segfault"), Listed([(LAST_TWO, None, None)])))
    finally:
        cluster.close()
    assert list(temporary.iterdir()) == []


def test_a_cluster_that_nobody_can_talk_to_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = needs("distributed")
    closed = []

    def unreachable(*address: Any, **settings: Any) -> None:
        raise OSError("timed out")

    def started(n_jobs: int, security: Any, kept: ExitStack) -> str:
        kept.callback(closed.append, True)
        return "tls://127.0.0.1:9"

    monkeypatch.setattr(dask, "_started", started)
    silent = type("Client", (distributed.Client,), {"__new__": unreachable})
    monkeypatch.setattr(distributed, "Client", silent)
    with pytest.raises(errors.WorkersLost, match="No Dask scheduler answers"):
        make_executor("dask", 1)
    assert closed == [True]
