"""Dask with one and two workers beside a bare loop: speed-up, and the driver's overhead.

Trainings sleep, so two workers do not need two cores. Every line is one run of `exact` over 2^7
pools, best of three. The bare loop calls the utility pool by pool, without engine, ledger or
workers. The driver's own work is its processor time, as a fraction of the time of all trainings:
this separates the overhead from the waiting that a busy machine adds to every process.

The last line is as many workers as this machine has cores, over 2^10 pools of 50 ms: how busy they
were, which is the time of all trainings over that of all workers.

    python benchmarks/cluster.py [--busy]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import dushapley as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [sys.path[0], str(Path(ds.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
)
from faults import dask_cluster, sleepy_game

if TYPE_CHECKING:
    from distributed import Client

PLAYERS, REPEATS = 7, 3
POOLS = 2**PLAYERS


def bare_loop(seconds: float) -> float:
    game = sleepy_game(seconds, n_players=PLAYERS)
    masks = (np.arange(POOLS)[:, None] >> np.arange(PLAYERS)) & 1 == 1
    started = time.perf_counter()
    for mask in masks:
        game(mask[None])
    return time.perf_counter() - started


def on_dask(client: object, seconds: float) -> tuple[float, float]:
    """Wall and driver's processor seconds of one run."""
    game = sleepy_game(seconds, n_players=PLAYERS)
    with tempfile.TemporaryDirectory() as folder:
        started, busy = time.perf_counter(), time.process_time()
        ds.value(game, "exact", executor="dask", address=client, ledger=Path(folder) / "l.sqlite")
        return time.perf_counter() - started, time.process_time() - busy


@contextmanager
def standing(workers: int) -> Iterator[Client]:
    """A client of so many workers that have imported what they need."""
    import distributed

    with (
        tempfile.TemporaryDirectory() as folder,
        dask_cluster(Path(folder), workers) as cluster,
        distributed.Client(cluster.address, set_as_default=False) as client,
    ):
        client.wait_for_workers(workers, timeout=120)
        on_dask(client, 0.0)
        yield client


def best_on_dask(workers: int, trainings: tuple[float, ...]) -> dict[float, tuple[float, float]]:
    with standing(workers) as client:
        return {t: min(on_dask(client, t) for _ in range(REPEATS)) for t in trainings}


def kept_busy() -> dict[str, object]:
    """How busy as many workers as there are cores are kept by trainings of 50 ms."""
    workers, n_players, seconds = os.cpu_count() or 1, 10, 0.05
    game = sleepy_game(seconds, n_players=n_players)
    with tempfile.TemporaryDirectory() as folder, standing(workers) as client:
        walls = []
        for turn in range(REPEATS):
            started = time.perf_counter()
            ledger = Path(folder) / f"{turn}.sqlite"
            ds.value(game, "exact", executor="dask", address=client, ledger=ledger)
            walls.append(time.perf_counter() - started)
    return {
        "training, ms": 1000 * seconds,
        "workers": workers,
        "trainings": 2**n_players,
        "wall, s": round(min(walls), 2),
        "busy": round(2**n_players * seconds / (workers * min(walls)), 3),
    }


def main() -> None:
    store = Path(__file__).parent / "results" / "cluster.json"
    if "--busy" in sys.argv:
        rows = [row for row in json.loads(store.read_text()) if "busy" not in row]
        store.write_text(json.dumps([*rows, kept_busy()], indent=1) + "\n")
        print(store.read_text())
        return
    trainings = (0.05, 0.1)
    loop = {t: min(bare_loop(t) for _ in range(REPEATS)) for t in trainings}
    walls = {workers: best_on_dask(workers, trainings) for workers in (1, 2)}
    rows = []
    for t in trainings:
        for workers in (1, 2):
            wall, busy = walls[workers][t]
            rows.append(
                {
                    "training, ms": 1000 * t,
                    "workers": workers,
                    "wall, s": round(wall, 2),
                    "bare loop, s": round(loop[t], 2),
                    "speed-up over one worker": round(walls[1][t][0] / wall, 2),
                    "wall over bare loop": f"{workers * wall / loop[t] - 1:.1%}",
                    "driver's own work": f"{busy / (POOLS * t):.1%}",
                }
            )
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(map(str, row.values())) + " |")
    store.write_text(json.dumps([*rows, kept_busy()], indent=1) + "\n")


if __name__ == "__main__":
    main()
