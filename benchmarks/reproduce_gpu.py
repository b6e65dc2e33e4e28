"""The heavy trainings of the reproduction, for a machine with a GPU.

    python benchmarks/reproduce_gpu.py prepare --out FOLDER
        here: the data sets as plain arrays (needs DUSHAPLEY_DATA and pandas), to be copied over
    DUSHAPLEY_DATA=FOLDER python benchmarks/reproduce_gpu.py table-1 --out TABLES
        there: all utilities of table-1's cases, and the errors of every method, a line a case
    DUSHAPLEY_DATA=FOLDER python benchmarks/reproduce_gpu.py table-2 --out TABLES
        there: the scores of table-2, a line for each game; --seconds 200 stops in time

Back here, DUSHAPLEY_TABLES=TABLES makes `dushapley reproduce table-1 --profile full` (and table-2,
older-table) read them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from dushapley_paper import cases
from dushapley_paper import table_2 as experiment
from dushapley_paper.data import Table, load, save
from dushapley_paper.table_1 import measure

EMBEDDED = ("BBC", "IMDB", "CIFAR10")
DIMENSIONS = 384
"""What sentence embeddings have; pictures have 2,048, and networks five times as many weights."""


def prepare(out: Path, only: str | None) -> None:
    """Store data sets as arrays, embeddings in half precision and 384 dimensions at most."""
    out.mkdir(parents=True, exist_ok=True)
    for name in only.split(",") if only else (*cases.LOGISTIC, *cases.TREES, *EMBEDDED):
        save(reduced(load(name)) if name in EMBEDDED else load(name), out)


def reduced(table: Table) -> Table:
    """The first principal components, scaled so that a row is as long as its dimensions say."""
    X = table.X
    if X.shape[1] > DIMENSIONS:
        _, directions = np.linalg.eigh(X.T @ X)
        X = X @ directions[:, : -DIMENSIONS - 1 : -1] * (DIMENSIONS / X.shape[1]) ** 0.5
    return replace(table, X=X.astype(np.float16))


def table_1(
    out: Path, seed: int, device: str, only: str | None, keep: str, replicates: int, seconds: float
) -> None:
    """All utilities of every case, smallest first, and errors measured while the next is trained.

    With `only` ("cal-housing-20-iid,uneven") the cases whose keys hold one of these; utilities are
    stored of those whose keys hold `keep`.
    """
    out.mkdir(parents=True, exist_ok=True)
    begun, jobs = time.perf_counter(), []
    kept: dict[str, dict[str, tuple[str, cases.Utilities]]] = defaultdict(dict)
    with ProcessPoolExecutor(12, mp_context=get_context("spawn")) as pool:
        for case in sorted(cases.full_cases(seed), key=effort):
            late = time.perf_counter() - begun > seconds
            if late or not (only is None or any(part in case.key for part in only.split(","))):
                continue
            case, rows = replace(case, replicates=replicates), case.split()
            table = cases.compute(case, rows, device)
            if keep in case.key:
                kept[case.data][case.key] = (case.fingerprint(rows), table)
                cases.save(out, case.data, kept[case.data])
            print(f"{case.key}: {time.perf_counter() - begun:.1f} s", flush=True)
            jobs.append(pool.submit(measure, case, table, False))
        with (out / f"table-1-{seed}.jsonl").open("a", encoding="utf-8") as file:
            for job in jobs:
                print(json.dumps(job.result()), file=file, flush=True)
    print(f"measured: {time.perf_counter() - begun:.1f} s", flush=True)


def effort(case: cases.Case) -> tuple[bool, int]:
    """Small games first, those of most rows last."""
    order = ("breast-cancer", "make-regression", "bank", "year", "adult", "cal-housing")
    return case.owners > 10, order.index(case.data)


def table_2(out: Path, seed: int, seconds: float, workers: int, done: Path | None) -> None:
    """One game after the other, a line for each, until all are played or time is up."""
    out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    known = {} if done is None else experiment.read_scores(done)
    games = [game for game in experiment.plays("full") if game.key not in known]
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        (out / f"table-2-{seed}.jsonl").open("a", encoding="utf-8") as file,
    ):
        played = {pool.submit(experiment.scores_of, game, "full", seed): game for game in games}
        for number, job in enumerate(as_completed(played), 1):
            line = {
                "key": played[job].key,
                "where": cases.device_name(cases.gpu()),
                "scores": job.result(),
            }
            print(json.dumps(line), file=file, flush=True)
            if number % 20 == 0:
                print(f"{number} games: {time.perf_counter() - begun:.0f} s", flush=True)
            if time.perf_counter() - begun > seconds:
                pool.shutdown(wait=True, cancel_futures=True)
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("prepare", "table-1", "table-2"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="data sets to prepare, or parts of cases' keys, by commas")
    parser.add_argument("--keep", default="", help="table-1: store utilities of such cases")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after these")
    parser.add_argument("--workers", type=int, default=8, help="table-2: processes that share it")
    parser.add_argument("--done", type=Path, help="table-2: file of games that need no playing")
    parser.add_argument("--replicates", type=int, default=10, help="table-1: runs of DU-Shapley")
    given = parser.parse_args()
    if given.what == "prepare":
        prepare(given.out, given.only)
    elif given.what == "table-1":
        table_1(
            given.out,
            given.seed,
            given.device,
            given.only,
            given.keep,
            given.replicates,
            given.seconds,
        )
    else:
        table_2(given.out, given.seed, given.seconds, given.workers, given.done)


if __name__ == "__main__":
    main()
