"""The heavy trainings of the reproduction, for a machine with a GPU.

    python benchmarks/reproduce_gpu.py prepare --out FOLDER
        here: the data sets as plain arrays (needs DUSHAPLEY_DATA and pandas), to be copied over
    DUSHAPLEY_DATA=FOLDER python benchmarks/reproduce_gpu.py table-1 --out TABLES
        there: all utilities of table-1's cases, one file per data set
    DUSHAPLEY_DATA=FOLDER python benchmarks/reproduce_gpu.py table-2 --out TABLES
        there: the scores of table-2, one file per data set

Back here, DUSHAPLEY_TABLES=TABLES makes `dushapley reproduce table-1 --profile full` (and table-2,
older-table) read them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

from dushapley_paper import cases
from dushapley_paper import table_2 as experiment
from dushapley_paper.data import find, load, save


def prepare(out: Path) -> None:
    """Store every data set as arrays; the embeddings already are."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (*cases.LOGISTIC, *cases.TREES):
        save(load(name), out)
    for name in ("BBC", "IMDB", "CIFAR10"):
        shutil.copy(find(name), out)


def table_1(out: Path, seed: int, device: str, only: str | None) -> None:
    """All utilities of every case, data set by data set, smallest first."""
    out.mkdir(parents=True, exist_ok=True)
    for data in ("breast-cancer", "make-regression", "bank", "year", "adult", "cal-housing"):
        if only not in (None, data):
            continue
        found = {}
        for case in cases.full_cases(seed):
            if case.data == data:
                begun = time.perf_counter()
                rows = case.split()
                table = cases.compute(case, rows, device)
                found[case.key] = (case.fingerprint(rows), table)
                print(f"{case.key}: {time.perf_counter() - begun:.1f} s", flush=True)
                cases.save(out, data, found)


def table_2(out: Path, seed: int, only: str | None) -> None:
    """Every data set, then the choices, each stored as soon as it is done."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("BBC", "IMDB", "CIFAR10", "choices"):
        if only in (None, name):
            begun = time.perf_counter()
            found = experiment.part(name, "full", seed)
            (out / f"table-2-{name}-{seed}.json").write_text(json.dumps(found), encoding="utf-8")
            print(f"table-2 {name}: {time.perf_counter() - begun:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("prepare", "table-1", "table-2"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="one data set, or table-2's choices")
    given = parser.parse_args()
    if given.what == "prepare":
        prepare(given.out)
    elif given.what == "table-1":
        table_1(given.out, given.seed, given.device, given.only)
    else:
        table_2(given.out, given.seed, given.only)


if __name__ == "__main__":
    main()
