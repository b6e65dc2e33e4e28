"""Two hundred kills over local workers, Dask and Ray: same bits, and nothing is left behind.

A run in a process group of its own loses some of its workers to SIGKILL, one after the other, then
the whole group at once, as when a machine's memory runs out or somebody closes the laptop. It is
started again on the same ledger until its share of kills is spent, then left to finish. Its bits
are compared with those of a quiet run; then temporary folders, shared memory and processes are
searched for anything that carries the number or the folder of one of its processes, and for new
semaphores of any name, but for those that carry the number of a living process of others.

    python benchmarks/kills.py [--kills 200] [--executors local dask ray]     stored in results/
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import dushapley as ds

TESTS = Path(__file__).resolve().parents[1] / "tests"
STORED = Path(__file__).parent / "results" / "kills.json"
SHARES = {"local": 0.45, "dask": 0.4, "ray": 0.15}
SECONDS, PLAYERS, WORKERS_A_LIFE = 0.08, 9, 12
MARKS = {"local": "dushapley/processes.py", "dask": "multiprocessing.spawn", "ray": "ray::pay"}
SCRIPT = """
import sys
from faults import Path, ds, sleepy_game
log, ledger, seconds, players, executor = sys.argv[1:]
game = sleepy_game(float(seconds), Path(log), int(players))
found = ds.value(game, "exact", executor=executor, n_jobs=2, ledger=ledger)
print(found.values.tobytes().hex())
"""


class Soak:
    """One plan on one executor, killed again and again."""

    def __init__(self, executor: str, folder: Path, kills: int) -> None:
        self.executor, self.kills = executor, kills
        self.log, self.ledger = folder / "log", folder / "ledger"
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self.chance, self.pids = random.Random(executor), set[int]()
        self.counts = {"workers": 0, "groups": 0}
        self.semaphores = set(Path("/dev/shm").glob("sem.*"))

    def start(self, seconds: float) -> subprocess.Popen[str]:
        paths = [str(TESTS), str(Path(ds.__file__).parents[1])]
        environment = os.environ | {
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
        }
        arguments = [self.log, self.ledger, seconds, PLAYERS, self.executor]
        group = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *map(str, arguments)],
            env=environment, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.pids.add(group.pid)
        return group

    def paid(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def live(self) -> None:
        """One life: some workers are killed, then everybody."""
        group, before = self.start(SECONDS), self.paid()
        deadline = time.monotonic() + 120
        while group.poll() is None and self.paid() == before and time.monotonic() < deadline:
            time.sleep(0.05)
        for _ in range(self.chance.randrange(WORKERS_A_LIFE + 1)):
            time.sleep(self.chance.uniform(0.1, 1.2))
            if group.poll() is None and self.left() > 1 and self.kill_worker(group.pid):
                self.counts["workers"] += 1
        time.sleep(self.chance.uniform(0, 0.5))
        if group.poll() is None:
            self.pids |= self.members(group.pid)
            with suppress(ProcessLookupError):
                os.killpg(group.pid, signal.SIGKILL)
                self.counts["groups"] += 1
        group.communicate()
        if self.paid() > 2 ** (PLAYERS - 1):  # it would be finished soon: the next one begins
            self.ledger.unlink(missing_ok=True)
            self.log.unlink(missing_ok=True)
            for more in ("-wal", "-shm"):
                Path(f"{self.ledger}{more}").unlink(missing_ok=True)

    def members(self, pid: int) -> set[int]:
        with suppress(psutil.NoSuchProcess):
            return {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return set()

    def kill_worker(self, pid: int) -> bool:
        with suppress(psutil.Error, ProcessLookupError):
            lines = {
                child.pid: " ".join(child.cmdline())
                for child in psutil.Process(pid).children(recursive=True)
            }
            workers = [
                number
                for number, line in lines.items()
                if MARKS[self.executor] in line and "resource_tracker" not in line
            ]
            if workers:
                os.kill(self.chance.choice(workers), signal.SIGKILL)
                return True
        return False

    def left(self) -> int:
        return self.kills - sum(self.counts.values())

    def run(self) -> dict[str, object]:
        began = time.monotonic()
        while self.left() > 0:
            self.live()
        bits = self.start(0.0).communicate(timeout=300)[0].strip()
        sys.path.insert(0, str(TESTS))
        from faults import sleepy_game

        quiet = ds.value(sleepy_game(n_players=PLAYERS), "exact").values.tobytes().hex()
        return {
            "kills": self.counts,
            "same bits": bits == quiet,
            "left behind": self.leftovers(),
            "seconds": round(time.monotonic() - began),
        }

    def leftovers(self) -> list[str]:
        """Files and processes that carry a number or the folder of one of the processes."""
        deadline = time.monotonic() + 30
        while (processes := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.5)  # those of Ray take a while to notice
        files = [*processes, *map(str, self.temporary.rglob("*"))]
        for path in [*Path("/dev/shm").rglob("*"), *Path("/tmp").glob("dushapley-*/*")]:
            numbers = path.name.replace("_", "-").replace(".", "-").split("-")
            files += [str(path)] * any(n.isdecimal() and int(n) in self.pids for n in numbers)
        new = set(Path("/dev/shm").glob("sem.*")) - self.semaphores  # whatever their names are
        return sorted({*files, *(str(path) for path in new if not self.is_others(path))})

    def is_others(self, path: Path) -> bool:
        """Whether a semaphore is of a process that lives and is none of ours."""
        numbers = [int(n) for n in path.name.replace("_", "-").split("-") if n.isdecimal()]
        return any(n not in self.pids and psutil.pid_exists(n) for n in numbers)

    def processes(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("TMPDIR") == str(self.temporary):
                    found.append(f"process {process.pid}: {' '.join(process.cmdline())[:80]}")
        return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--executors", nargs="+", default=list(SHARES), choices=SHARES)
    given = options.parse_args()
    results: dict[str, Any] = {}
    for executor in given.executors:
        with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as folder:
            soak = Soak(executor, Path(folder), round(given.kills * SHARES[executor]))
            results[executor] = soak.run()
        print(f"{executor}: {results[executor]}", flush=True)
        if given.kills >= 200:  # with others that run beside it
            results = (json.loads(STORED.read_text()) if STORED.exists() else {}) | results
            STORED.write_text(json.dumps(results, indent=1) + "\n")
    good = all(r["same bits"] and not r["left behind"] for r in results.values())
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
