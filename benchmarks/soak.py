"""Half an hour of sabotage: two runs on one ledger, and every 20 seconds something is killed.

One run uses local workers, the other a Dask cluster; both keep the same ledger. Every 20 seconds
SIGKILL hits one of the two drivers (which is started again), a Dask worker, or a local worker, at
random. When both runs of a round have ended, their bits are compared with those of a quiet run in
one process without a ledger, and the next round begins with another seed. Trainings sleep, so the
machine stays free.

    python benchmarks/soak.py --minutes 30 --log soak.log
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import psutil

import dushapley as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [sys.path[0], str(Path(ds.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
)
from faults import DaskCluster, Driver, dask_cluster, payments, sleepy_game

SECONDS, PLAYERS, BUDGET = 0.25, 12, 800


class Round:
    """Two runs of one plan on one ledger."""

    def __init__(self, folder: Path, seed: int, address: str) -> None:
        self.folder, self.seed = folder, seed
        folder.mkdir()
        self.log, self.ledger = folder / "paid.log", folder / "ledger.sqlite"
        self.plan = {"budget": BUDGET, "seed": seed}
        self.ways = {
            "local": {"n_jobs": 2},
            "dask": {"executor": "dask", "address": address},
        }
        self.drivers = {name: self.start(name) for name in self.ways}

    def start(self, name: str) -> Driver:
        return Driver(
            self.folder,
            method="permutation",
            seconds=SECONDS,
            n_players=PLAYERS,
            log=str(self.log),
            value=self.plan | self.ways[name] | {"ledger": str(self.ledger)},
        )

    def running(self) -> list[str]:
        return [name for name, driver in self.drivers.items() if driver.process.is_alive()]

    def judge(self) -> tuple[bool, str]:
        quiet = ds.value(sleepy_game(n_players=PLAYERS), "permutation", **self.plan)
        results = {name: driver.result(10) for name, driver in self.drivers.items()}
        same = all(run.get("bits") == quiet.values.tobytes().hex() for run in results.values())
        with closing(sqlite3.connect(self.ledger)) as db:
            intact = db.execute("pragma integrity_check").fetchone()[0]
        paid, needed = len(payments(self.log)), quiet.n_distinct
        errors = [f"{name}: {run['message']}" for name, run in results.items() if "error" in run]
        return same and intact == "ok", (
            f"{'same bits' if same else 'OTHER BITS'} on both, ledger {intact}, "
            f"{paid} trainings paid for {needed} different pools"
            + "".join(f"; {error}" for error in errors).replace(f"{self.folder}/", "")
        )


def sabotage(current: Round, cluster: DaskCluster, chance: random.Random) -> str:
    """Kill something at random and say what it was."""
    target = chance.choice(["local driver", "dask driver", "dask worker", "local worker"])
    if target == "dask worker":
        return target if cluster.kill_worker(chance) else "nobody (the Dask workers were away)"
    name = target.split()[0]
    driver = current.drivers[name]
    if not driver.process.is_alive():
        return f"nobody (the {name} driver had finished)"
    if target == "local worker":
        return target if kill_local_worker(driver, chance) else "nobody (no local worker was there)"
    driver.kill()
    current.drivers[name] = current.start(name)
    return target


def kill_local_worker(driver: Driver, chance: random.Random) -> bool:
    """Kill one of joblib's workers; False if there is none just now."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        children = psutil.Process(driver.process.pid).children()
        workers = [child for child in children if "popen_loky" in " ".join(child.cmdline())]
        if workers:
            os.kill(chance.choice(workers).pid, signal.SIGKILL)
            return True
    return False


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--every", type=float, default=20)
    options.add_argument("--log", type=Path)
    given = options.parse_args()
    out = sys.stdout if given.log is None else given.log.open("w", buffering=1)
    began, chance, kills, verdicts = time.monotonic(), random.Random(0), Counter(), []

    def say(sentence: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {sentence}", file=out, flush=True)

    say(f"soak of {given.minutes:g} minutes, a kill every {given.every:g} s")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with dask_cluster(folder) as cluster:
            number, next_kill = 0, time.monotonic() - began + given.every
            while time.monotonic() - began < 60 * given.minutes:
                current = Round(folder / str(number), number, cluster.address)
                say(f"round {number}: {BUDGET} evaluations of {SECONDS} s, seed {number}")
                while current.running():
                    time.sleep(0.2)
                    if time.monotonic() - began >= next_kill:
                        next_kill += given.every
                        victim = sabotage(current, cluster, chance)
                        kills[victim] += 1
                        say(f"killed: {victim}")
                good, verdict = current.judge()
                verdicts.append(good)
                say(f"round {number}: {verdict}")
                number += 1
    say("; ".join(f"{count} × {victim}" for victim, count in sorted(kills.items())))
    say(f"{sum(verdicts)} of {len(verdicts)} rounds ended with the bits of a quiet run")
    sys.exit(0 if all(verdicts) else 1)


if __name__ == "__main__":
    main()
