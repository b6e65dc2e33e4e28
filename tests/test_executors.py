"""Workers: the same bits, nothing left behind, and no loss when they or the parent die."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from threadpoolctl import threadpool_info, threadpool_limits

import dushapley as ds
from dushapley import processes
from dushapley.engine.executors import make_executor
from dushapley.engine.executors.base import Listed
from dushapley.engine.executors.local import Local
from dushapley.errors import InvalidGame, InvalidOption, UtilityFailed, WorkersLost
from dushapley.processes import _thread_pools, interrupts_put_off, one_blas_thread
from faults import faulty_game

PROGRAM = """
import os, sys, time
import numpy as np
import dushapley as ds
from sklearn.ensemble import RandomForestClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(3400, 20)); y = (X[:, 0] * X[:, 1] + rng.normal(size=3400) > 0).astype(int)
parts = [slice(200 * i, 200 * i + 200) for i in range(6)]
owners = ds.Owners.from_arrays({f"o{i}": (X[p], y[p]) for i, p in enumerate(parts)})

class Held(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        if "HELD" in os.environ:
            with open(os.environ["HELD"], "a+") as log:
                print("trained", file=log, flush=True)
                log.seek(0)
                if len(log.readlines()) > 30:
                    time.sleep(600)
        return super().fit(X, y, sample_weight)

game = ds.ModelGame(
    owners, Held(8, max_depth=4), X[1400:], y[1400:], fingerprint="held"
)
if __name__ == "__main__":
    jobs, ledger = int(sys.argv[1]), sys.argv[2]
    result = ds.value(game, "exact", n_jobs=jobs, ledger=ledger, progress=False)
    judged = np.array(result.errors["test set"])
    print(result.n_computed, result.values.tobytes().hex(), judged.tobytes().hex())
"""


def program(folder):
    file = folder / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


def run(folder, jobs, ledger):
    found = subprocess.run(
        [sys.executable, program(folder), str(jobs), folder / ledger],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    return found.stdout.split()


def committed(ledger):
    if not ledger.exists():
        return 0
    try:
        with closing(sqlite3.connect(ledger)) as db:
            return db.execute("select count(*) from evaluations").fetchone()[0]
    except sqlite3.Error:
        return 0


def start_and_wait(folder, jobs, ledger, some=12):
    """A run that has kept some trainings, and waits in the 31st and all later ones."""
    process = subprocess.Popen(
        [sys.executable, program(folder), str(jobs), folder / ledger],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"HELD": str(folder / "held.log")},
    )  # fmt: skip
    for _ in range(1200):
        if committed(folder / ledger) >= some or process.poll() is not None:
            break
        time.sleep(0.1)
    return process


def children_of(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def alive(pids):
    """Those that still run; the dead whom nobody has waited for do not count."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def gone(pid, workers):
    """Whether a process left neither workers nor files, in the end."""
    for _ in range(1200):
        if not alive(workers) and not shared_files(pid):
            return True
        time.sleep(0.1)
    return False


def shared_files(pid):
    return [p.name for p in Path("/dev/shm").iterdir() if f"_{pid}_" in p.name]


@pytest.mark.slow
def test_one_and_two_workers_and_a_kill_give_the_same_bits(tmp_path):
    alone = run(tmp_path, 1, "one.sqlite")
    assert run(tmp_path, 2, "two.sqlite") == alone
    killed = start_and_wait(tmp_path, 2, "killed.sqlite")
    workers = children_of(killed.pid)
    killed.kill()
    killed.communicate(timeout=120)
    kept = committed(tmp_path / "killed.sqlite")
    assert 0 < kept < 64
    assert gone(killed.pid, workers)
    again = run(tmp_path, 1, "killed.sqlite")
    assert again[1:] == alone[1:]
    assert int(again[0]) - (64 - kept) in (0, 1)  # the ledger may hold the training of chance


@pytest.mark.slow
def test_a_kill_before_workers_got_work_leaves_none_behind(tmp_path):
    killed = start_and_wait(tmp_path, 2, "killed.sqlite", some=0)
    workers: list[int] = []
    while killed.poll() is None and len(workers) < 2:  # two workers and who counts their files
        time.sleep(0.01)
        workers = [pid for pid in children_of(killed.pid) if processes.__file__ in started_as(pid)]
    killed.kill()
    killed.communicate(timeout=120)  # a worker that stays would hold the output open
    assert gone(killed.pid, workers)


def started_as(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.slow
def test_an_interrupt_ends_workers_and_files(tmp_path):
    process = start_and_wait(tmp_path, 2, "stopped.sqlite")
    workers = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert "Stopped after" in errors
    assert process.returncode == 1
    assert gone(process.pid, workers)


def slow_identity(z):
    return z.sum(axis=1).astype(float)


def test_workers_serve_bare_functions_and_errors_come_home():
    game = ds.CallableGame(slow_identity, 5, block=2)
    assert ds.value(game, "exact", n_jobs=2).values == pytest.approx(np.ones(5))

    def fails(z):
        raise UtilityFailed("out of order")

    with pytest.raises(UtilityFailed, match="out of order"):
        ds.value(ds.CallableGame(fails, 5, block=2), "exact", n_jobs=2)


SCRIPT = """
import numpy as np
import dushapley as ds
from sklearn.tree import DecisionTreeClassifier

class Mine(DecisionTreeClassifier):
    pass

if __name__ == "__main__":
    X = np.random.default_rng(0).normal(size=(90, 2)); y = (X[:, 0] > 0).astype(int)
    owners = ds.Owners.from_arrays({f"o{i}": (X[20*i:20*i+20], y[20*i:20*i+20]) for i in range(3)})
    game = ds.ModelGame(owners, Mine(max_depth=1), X[60:], y[60:])
    same = [ds.value(game, "exact", n_jobs=jobs).values.tobytes() for jobs in (1, 2)]
    print(same[0] == same[1])
"""


@pytest.mark.slow
def test_models_written_in_the_script_itself_reach_the_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    found = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (found.stdout, found.stderr) == ("True\n", "")


def die_once(marker):
    def function(z):
        if z.sum() == 3 and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return z.sum(axis=1).astype(float)

    return function


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies_is_replaced(tmp_path):
    game = ds.CallableGame(die_once(str(tmp_path / "died")), 4, block=1)
    assert ds.value(game, "exact", n_jobs=2).values == pytest.approx(np.ones(4))
    assert (tmp_path / "died").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_that_keep_dying_are_explained():
    def dies(z):
        if 0 < z.sum() < 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return z.sum(axis=1).astype(float)

    told = r"ended with signal 9 \(SIGKILL, .* while training on .* 'owner \d', 3 times in a row"
    with pytest.raises(WorkersLost, match=told):
        list(
            Local(2).run(
                ds.CallableGame(dies, 4, block=1),
                Listed([(np.eye(4, dtype=bool)[i : i + 1], None, None) for i in range(4)]),
            )
        )


@pytest.mark.parametrize("jobs", [0, -2, 1.5, True, "2"])
def test_numbers_of_workers_are_checked(jobs):
    with pytest.raises(InvalidOption, match="n_jobs is"):
        make_executor("local", jobs)


def test_ctrl_c_during_a_destructor_is_not_lost() -> None:
    class Future:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)  # where Python drops what is raised

    def answered(presses: int) -> list[str]:
        passed = []
        with suppress(KeyboardInterrupt), interrupts_put_off() as answer_interrupt:
            for _ in range(presses):
                Future()
                passed.append("lived through")
            answer_interrupt()
            passed.append("unanswered")
        return passed

    before = signal.getsignal(signal.SIGINT)
    assert answered(0) == ["unanswered"]
    assert answered(1) == ["lived through"]
    with pytest.raises(KeyboardInterrupt), interrupts_put_off():
        Future()  # answered at the end where nobody asks
    assert signal.getsignal(signal.SIGINT) is before


def test_whoever_insists_on_ctrl_c_is_heard_at_once() -> None:
    with suppress(KeyboardInterrupt), interrupts_put_off():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_one_thread_while_inside_and_libraries_that_come_later_are_found(monkeypatch) -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info()}

    with threadpool_limits(2):
        with one_blas_thread(), one_blas_thread():
            assert threads() == {1}
        assert 2 in threads()
    known = _thread_pools(len(sys.modules))
    assert _thread_pools(len(sys.modules)) is known
    monkeypatch.setitem(sys.modules, "one more", ModuleType("one more"))
    assert _thread_pools(len(sys.modules)) is not known


LATE = """
from dushapley.processes import one_blas_thread
with one_blas_thread():
    import scipy.linalg
    from threadpoolctl import threadpool_info
    print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
"""


def test_libraries_that_come_late_have_one_thread_too() -> None:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    paths = os.pathsep.join(sys.path)
    here = os.environ | threads | {"PYTHONPATH": paths}
    told = subprocess.run(
        [sys.executable, "-c", LATE], env=here, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "{1}"


def test_daemons_of_ray_end_with_the_folder_of_a_run_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    folder = Path(tempfile.gettempdir(), f"{processes.MACHINE}-{gone.pid}-x")
    folder.mkdir()
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    daemon = subprocess.Popen([*sleep, "/ray/core/raylet", str(folder)])
    reader = subprocess.Popen([*sleep, str(folder)])
    try:
        processes.remove_abandoned_folders()
        assert daemon.wait(20) == -signal.SIGKILL
        assert reader.poll() is None
        assert not folder.exists()
    finally:
        for process in (daemon, reader):
            process.kill()
            process.wait()


ELSEWHERE = """
import numpy as np
import dushapley as ds
from dushapley.cli.main import main
from sklearn.neighbors import KNeighborsClassifier

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 2
    owners = ds.Owners.from_arrays({f"o{i}": (X[i:60:3], y[i:60:3]) for i in range(3)})
    game = ds.ModelGame(owners, KNeighborsClassifier(3), X[60:], y[60:], fast=False)
    there = ds.value(game, "exact", n_jobs=2)
    assert there.values.tobytes() == ds.value(game, "exact").values.tobytes()
    main(["demo"])
"""


@pytest.mark.slow
def test_systems_without_locks_and_limits_run_the_demo_and_workers(tmp_path):
    (tmp_path / "script.py").write_text(ELSEWHERE)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    paths = [str(Path(__file__).with_name("blocked")), *sys.path]
    hidden = {"DUSHAPLEY_BLOCK": "fcntl,resource,prctl", "PYTHONPATH": os.pathsep.join(paths)}
    hidden["TMPDIR"] = str(temporary)
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=os.environ | hidden,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "Lowest values: Dunmore and Fernhill" in ran.stderr
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="memory= needs Linux")
def test_work_space_of_linear_algebra_is_no_training_s_memory():
    """OpenBLAS asks again and again for what it is refused, and never returns."""
    X, y = load_breast_cancer(return_X_y=True)
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:300:2], y[j:300:2]) for j in range(2)})
    game = ds.ModelGame(owners, "logistic", X[300:], y[300:], memory=10**7, timeout=60)
    free = ds.ModelGame(owners, "logistic", X[300:], y[300:])
    assert ds.value(game, "exact").values.tolist() == ds.value(free, "exact").values.tolist()


def test_systems_that_cannot_refuse_memory_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    with pytest.raises(InvalidGame, match="memory= needs Linux"):
        faulty_game(2, memory=10**8)


@pytest.mark.parametrize("missing", [OSError, AttributeError, TypeError])
def test_systems_without_prctl_start_children_all_the_same(missing, monkeypatch):
    def load(_name):
        raise missing

    monkeypatch.setattr(processes.ctypes, "CDLL", load)
    processes.die_with_parent()
