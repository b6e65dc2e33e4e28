"""Fault injection: everything that can go wrong with a run, on request and for every backend.

`Faulty` is a model that misbehaves by a rule of its data, `sleepy_game` a game whose every payment
is logged, `Driver` a run in a process of its own that can be killed, `DaskCluster` a scheduler and
workers in processes of their own that can be killed too.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import dushapley as ds
from extras import needs

SMALL_DISK = 8
"""Pages of a ledger that fit on a disk that is nearly full."""


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no room for databases to grow, until the monkeypatch is undone."""
    connect = sqlite3.connect

    def connect_to_small_file(*arguments: Any, **named: Any) -> sqlite3.Connection:
        database = connect(*arguments, **named)
        database.execute(f"pragma max_page_count = {SMALL_DISK}")
        return database

    monkeypatch.setattr(sqlite3, "connect", connect_to_small_file)


FAULTS = ("raise", "nan", "hang", "stuck", "grip", "eat", "die")


class Faulty:
    """A regressor that predicts the mean target, unless the rows it is given are unlucky.

    Parameters
    ----------
    faults
        What may happen: "raise" an error, predict "nan", "hang" in a sleep, be "stuck" where no
        alarm is heard, in the "grip" of compiled code that lets no other thread run, "eat"
        memory, "die" as if killed for memory.
    rate
        Part of the pools that are unlucky; which ones is a matter of their content.
    once
        A folder in which the first fault of every pool is noted; later trainings go well.
    """

    _estimator_type = "regressor"

    def __init__(self, faults: tuple[str, ...] = (), rate: float = 1.0, once: str | None = None):
        self.faults, self.rate, self.once = faults, rate, once

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"faults": self.faults, "rate": self.rate, "once": self.once}

    def set_params(self, **params: Any) -> Faulty:
        vars(self).update(params)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags, Tags, TargetTags

        return Tags("regressor", TargetTags(required=True), regressor_tags=RegressorTags())

    def fit(self, X: np.ndarray, y: np.ndarray) -> Faulty:
        name = hashlib.sha256(X.tobytes()).digest()
        self.mean_ = float(y.mean())
        if int.from_bytes(name[:4], "big") / 2**32 < self.rate and self.faults:
            if self.once is not None:
                note = Path(self.once) / name.hex()
                if note.exists():
                    return self
                note.touch()
            self._misbehave(self.faults[name[4] % len(self.faults)])
        return self

    def _misbehave(self, fault: str) -> None:
        if fault == "raise":
            raise RuntimeError("the model does not feel like it")
        if fault == "nan":
            self.mean_ = float("nan")
        elif fault == "hang":
            time.sleep(3600)
        elif fault == "stuck":
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        elif fault == "grip":
            self.mean_ = float(3**10**9 % 2)
        elif fault == "eat":
            eaten = []
            while True:
                eaten.append(np.ones(2**22))
        elif fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.mean_)


class Noting(Faulty):
    """One without faults that takes its time, and notes in a file that it was trained."""

    def __init__(self, seconds: float = 0.0, log: str = os.devnull) -> None:
        super().__init__()
        self.seconds, self.log = seconds, log

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"seconds": self.seconds, "log": self.log}

    def fit(self, X: np.ndarray, y: np.ndarray) -> Faulty:
        time.sleep(self.seconds)
        with open(self.log, "ab", buffering=0) as log:
            log.write(b"x\n")
        return super().fit(X, y)


def negative_error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return -float(np.abs(model.predict(X) - y).mean())


def faulty_game(n_players: int = 8, model: Faulty | None = None, **settings: Any) -> ds.ModelGame:
    """A game whose models are faulty."""
    rng = np.random.default_rng(5)
    blocks = {f"o{i}": (rng.normal(size=(2, 1)), rng.normal(size=2)) for i in range(n_players)}
    return ds.ModelGame(
        ds.Owners.from_arrays(blocks),
        Faulty() if model is None else model,
        np.zeros((3, 1)),
        np.array([0.0, 0.2, 0.4]),
        scoring=negative_error,
        empty=-1.0,
        fingerprint="faulty",
        fast=False,
        **settings,
    )


class Unimportable:
    """A utility from a module that only the driver has."""

    def __call__(self, X: np.ndarray, y: object) -> float:
        return 0.0

    def __reduce__(self) -> Any:
        return _import_my_models, ()


def _import_my_models() -> Any:
    raise ModuleNotFoundError("No module named 'my_models'")


def unimportable_game() -> Any:
    """A game that no worker can unpack."""
    return ds.DatasetGame(ds.Owners.from_arrays({"a": [[1.0]], "b": [[2.0]]}), Unimportable())


class Sleepy:
    """A utility that takes its time, and notes in a file that it was paid."""

    def __init__(self, seconds: float, log: Path | None) -> None:
        self.seconds, self.log = seconds, log

    def __call__(self, X: np.ndarray, y: object) -> float:
        time.sleep(self.seconds)
        if self.log is not None:
            line = hashlib.sha256(np.sort(X, axis=0).tobytes()).hexdigest()[:16] + "\n"
            with self.log.open("ab", buffering=0) as log:
                log.write(line.encode())
        return float(np.sqrt(np.abs(X).sum()) + np.sin(X.sum()))


def sleepy_game(seconds: float = 0.0, log: Path | None = None, n_players: int = 7) -> Any:
    """A game of sleeping trainings, the same game whatever they sleep and wherever they log."""
    rng = np.random.default_rng(1)
    blocks = {f"o{i}": rng.normal(size=(i % 5 + 1, 2)) for i in range(n_players)}
    return ds.DatasetGame(ds.Owners.from_arrays(blocks), Sleepy(seconds, log), fingerprint="sleepy")


def payments(log: Path) -> list[str]:
    """Names of the pools paid so far, repeats included."""
    return log.read_text().splitlines() if log.exists() else []


def kept(ledger: Path) -> int:
    """Evaluations in a ledger, whether or not its driver had time to make it."""
    with closing(sqlite3.connect(ledger, timeout=120)) as db:
        made = db.execute("select count(*) from sqlite_master where name = 'evaluations'")
        if not made.fetchone()[0]:
            return 0
        return int(db.execute("select count(*) from evaluations").fetchone()[0])


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait for what happens at once on a quiet machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def drive(task: dict[str, Any], answer: Path) -> None:
    """A run: its values to the last bit go to `answer`, or the error that ended it."""
    with answer.with_suffix(".log").open("ab") as log:
        os.dup2(log.fileno(), 2)  # trackers of killed processes complain there
    if "file_size" in task:  # as on a full disk: no file may grow beyond this
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["file_size"], task["file_size"]))
    if task.get("clock") == "back":
        pull_clock_back()
    paid = None if task.get("log") is None else Path(task["log"])
    game = sleepy_game(task.get("seconds", 0.0), paid, task.get("n_players", 7))
    if task.get("probed"):
        game = faulty_game(4, Noting(task["seconds"], task["log"]))
    try:
        found = ds.value(game, task.get("method", "exact"), **task.get("value", {}))
        told = {"bits": found.values.tobytes().hex(), "computed": found.n_computed}
        told |= {"asked": found.n_evaluations, "trained": found.n_trainings}
    except Exception as error:
        told = {"error": type(error).__name__, "message": str(error)}
    answer.write_text(json.dumps(told))
    os._exit(0)  # as a script would end; multiprocessing would first wait for idle workers


def pull_clock_back() -> None:
    """Every look at the wall clock shows an earlier time than the last."""
    start, looks = time.time(), iter(range(1, 10**9))
    time.time = lambda: start - 60.0 * next(looks)


class Driver:
    """A run in a process of its own, forked from one that has imported everything."""

    def __init__(self, folder: Path, **task: Any) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["faults", "dushapley"])
        self.answer = folder / f"answer-{random.SystemRandom().randrange(10**12)}.json"
        # not a daemon: it has workers of its own
        self.process = context.Process(target=drive, args=(task, self.answer))
        self.process.start()

    def kill(self) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def result(self, seconds: float = 300) -> dict[str, Any]:
        self.process.join(seconds)
        if self.process.is_alive():
            self.kill()
            raise AssertionError(f"the driver did not end within {seconds} s")
        return json.loads(self.answer.read_text())


class DaskCluster:
    """A Dask scheduler and its workers, all of them processes of their own.

    Workers are watched over by a nanny each, which starts another one when they die.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.file = folder / "scheduler.json"
        here = str(Path(__file__).parent)
        paths = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        self.environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        self.log = (folder / "dask.log").open("ab")
        self.scheduler = self._start("scheduler", "--port", "0")
        self.nannies = [self._start("worker", "--nthreads", "1") for _ in range(workers)]
        self.address = self._wait_for_address()

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        module = f"distributed.cli.dask_{kind}"
        file = ["--no-dashboard", "--scheduler-file", str(self.file)]
        return subprocess.Popen(
            [sys.executable, "-m", module, *options, *file],
            env=self.environment,
            stdout=self.log,
            stderr=self.log,
            cwd=self.file.parent,
        )

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.file.exists() and self.file.stat().st_size:
                return str(json.loads(self.file.read_text())["address"])
            time.sleep(0.1)
        raise AssertionError("the Dask scheduler did not start")

    def worker_pids(self) -> list[int]:
        """The processes that train: children of the nannies, but for Python's own tracker."""
        import psutil

        found = []
        for nanny in self.nannies:
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                for child in psutil.Process(nanny.pid).children():
                    found += [child.pid] * ("resource_tracker" not in " ".join(child.cmdline()))
        return found

    def kill_worker(self, chance: random.Random) -> int | None:
        """Kill one of the training processes; None when all are just being replaced."""
        for place, nanny in enumerate(self.nannies):  # one whose worker died too early gives up
            if nanny.poll() is not None:
                self.nannies[place] = self._start("worker", "--nthreads", "1")
        pids = self.worker_pids()
        if not pids:
            return None
        victim = chance.choice(sorted(pids))
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return None
        return victim

    def close(self) -> None:
        everybody = [*self.nannies, self.scheduler]
        for process in everybody:
            process.terminate()
        for process in everybody:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[DaskCluster]:
    """A cluster that ends with the block."""
    needs("distributed")
    cluster = DaskCluster(folder, workers)
    try:
        yield cluster
    finally:
        cluster.close()


class Proxy:
    """Passes everything on to an address until it is cut."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("tcp://").split(":")
        self.there = host, int(port)
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.door.getsockname()[1]}"
        self.ends: list[socket.socket] = [self.door]
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, there = self.door.accept()[0], socket.create_connection(self.there)
                self.ends += [here, there]
                for pair in ((here, there), (there, here)):
                    Thread(target=self._pass_on, args=pair, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(2**16):
                target.sendall(data)

    def cut(self) -> None:
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
