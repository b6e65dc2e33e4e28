"""A thousand trainings that all go wrong, and what they leave behind: nothing.

Every pool's model raises, scores NaN, sleeps forever, eats memory, sleeps where no alarm is heard,
or dies as if killed; the policy counts each as no data. Afterwards the script looks for zombies,
processes and files: of this process, in the folder for temporary files, and in shared memory.

    python benchmarks/wild.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

import dushapley as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [sys.path[0], str(Path(ds.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
)
from faults import Faulty, faulty_game

WAYS = ("raise", "nan", "hang", "eat") * 27 + ("stuck", "die")
SHARED = Path("/dev/shm")


def wild_run(**where: Any) -> ds.Valuation:
    game = faulty_game(10, Faulty(WAYS), timeout=0.1, memory=10**8, on_failure="empty")
    return ds.value(game, "exact", **where)


def leftovers(temporary: Path, shared: set[Path]) -> dict[str, int]:
    """Zombies, other processes and files that were not there before."""
    children = psutil.Process().children(recursive=True)
    return {
        "zombies": sum(child.status() == psutil.STATUS_ZOMBIE for child in children),
        "processes": sum(child.status() != psutil.STATUS_ZOMBIE for child in children),
        "temporary files": len(list(temporary.rglob("*"))),
        "shared memory": sum(f"{os.getpid()}" in str(file) for file in files(SHARED) - shared),
    }


def files(folder: Path) -> set[Path]:
    """Files below a folder."""
    return {file for file in folder.rglob("*") if not file.is_dir()}


@contextmanager
def own_temporary_folder() -> Iterator[Path]:
    """Where this process and its children put temporary files, to be inspected."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = None
            del os.environ["TMPDIR"]


def measured(place: str, **where: Any) -> dict[str, Any]:
    shared, started = files(SHARED), time.perf_counter()
    with own_temporary_folder() as folder:
        found = wild_run(**where)
        seconds = time.perf_counter() - started
        left = leftovers(folder, shared)
    kinds = Counter[str]()
    for cause, count in found.failures.items():
        kinds[cause.split(":")[0]] += count
    causes = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    wild = {"trainings": found.n_computed, "went wrong": sum(kinds.values()), "as": causes}
    return {"where": place} | wild | left | {"s": round(seconds)}


def main() -> None:
    rows = [measured("this process"), measured("two local workers", n_jobs=2)]
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(map(str, row.values())) + " |")
    quiet = all(row[kind] == 0 for row in rows for kind in ("zombies", "processes"))
    clean = all(row[kind] == 0 for row in rows for kind in ("temporary files", "shared memory"))
    sys.exit(0 if quiet and clean else 1)


if __name__ == "__main__":
    main()
