"""Do total 95% intervals hold? Training noise and test sets drawn anew, the truth on held-out rows.

Three tables × five models (two of them sums, one torch net without `random_state`) × five scores.
Owners are fixed; in each of 400 runs the models get another seed and the test set is 300 other
rows of 9,000 held out. The truth is the value on all held-out rows, averaged over 100 trainings
where a model is random. Then the same with methods that ask few pools, and a reliability table:
owners drawn anew in each run, stated probabilities of orders beside how often they were right.
Everything goes through `dushapley.value(dushapley.ModelGame(...))`.

Run: python benchmarks/whole_errors.py [--runs 400] [--jobs 2] [--only TEXT] [--out FOLDER]
     python benchmarks/whole_errors.py --prepare FOLDER     tables as plain arrays, to take along
     python benchmarks/whole_errors.py --write-docs         stored results into docs/error-bars.md
Needs torch and the data folder (`dushapley_paper.data`), or a folder that was prepared.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dushapley as ds
from tables import RESULTS, load
from whole_errors_cases import (
    DATA,
    METRICS,
    TEST,
    Case,
    cases,
    data,
    draw_owners,
    fixed_owners,
    forget,
    prepare,
)
from whole_errors_tables import SOURCES, show, summary, write_docs

CHUNK = 25
"""Runs of one piece of work."""
TRUTH_REPEATS, TRUTH_SEED = 100, 10**6
BUDGETS = {"exact": None, "permutation": 14, "gp": 12}
"""Methods with the pools they may ask for, of 16."""
SAMPLED = {"adult": "LDA (sums)", "bank": "logistic", "cal-housing": "tree"}
"""Models on which methods that ask few pools are measured, by the first score."""
REDRAWN = {"adult": "LDA (sums)", "bank": "logistic", "cal-housing": "ridge (sums)"}
"""Models of the reliability table; without chance, so that the truth is one training."""
SLOW = ("torch net", "small MLP (batched)", "tree")
"""What to begin with."""


class Piece(NamedTuple):
    """Some runs of one table, model and method."""

    table: str
    model: str
    metrics: tuple[str, ...]
    kind: str
    runs: range = range(0)

    @property
    def method(self) -> str:
        """What values the owners; the truth and fresh owners by all coalitions."""
        return self.kind if self.kind in BUDGETS else "exact"


def pieces(runs: int, only: str) -> list[Piece]:
    """All the work, the longest first."""
    chunks = [range(start, min(start + CHUNK, runs)) for start in range(0, runs, CHUNK)]
    work = [piece for name in DATA for piece in pieces_of(name, chunks)]
    chosen = [p for p in work if only in f"{p.table} {p.model} {p.kind}" or p.kind == "truth"]
    models = {(p.table, p.model) for p in chosen if p.kind != "truth"}
    return sorted(
        (p for p in chosen if (p.table, p.model) in models),
        key=lambda p: (p.model not in SLOW, p.kind != "truth"),
    )


def pieces_of(name: str, chunks: list[range]) -> Iterator[Piece]:
    task = data(name).task
    metrics = METRICS[task]
    for model in cases(task):
        yield Piece(name, model, metrics, "truth")
        kinds = {"exact": metrics}
        if SAMPLED[name] == model:
            kinds |= {method: metrics[:1] for method in BUDGETS if method != "exact"}
        if REDRAWN[name] == model:
            kinds["redrawn"] = metrics[:3]
        yield from (Piece(name, model, s, kind, c) for kind, s in kinds.items() for c in chunks)


def worked(piece: Piece) -> list[tuple[str, Any]]:
    """What the runs of a piece came to, each with its score."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    table = data(piece.table)
    case = cases(table.task)[piece.model]
    found = []
    for run in piece.runs or [None]:
        owners = fixed_owners(table) if piece.kind != "redrawn" else fresh_owners(piece.table, run)
        for metric in piece.metrics:
            valuation = valued(piece, owners, case, metric, run)
            stated = what_is_stated(valuation)
            if piece.kind == "redrawn" and stated["joint"] is not None:
                stated["truth"] = valued(piece, owners, case, metric, None).values
                stated["order"] = ds.probability_greater(valuation)
                stated["first"] = ds.rank_probabilities(valuation)[:, 0]
            found.append((metric, stated))
        if case.repeats > 1 or piece.kind == "redrawn":
            forget()
    return found


def valued(piece: Piece, owners: Any, case: Case, metric: str, run: int | None) -> ds.Valuation:
    """One valuation through the front door: on a fresh test set; without a run, on all rows."""
    table = data(piece.table)
    rows: Any = slice(None)
    if run is not None:
        rows = np.random.default_rng([7, run]).choice(len(table.X_held), TEST, replace=False)
    repeats = TRUTH_REPEATS if run is None and case.repeats > 1 else case.repeats
    game = ds.ModelGame(
        owners,
        case.model,
        table.X_held[rows],
        table.y_held[rows],
        scoring=metric,
        seed=TRUTH_SEED if run is None else run,
        repeats=repeats,
    )
    method = "exact" if run is None else piece.method
    return ds.value(game, method, budget=BUDGETS[method], seed=run or 0, progress=False)


def what_is_stated(valuation: ds.Valuation) -> dict[str, Any]:
    """Values and the law of their errors, or that it is not known."""
    parts = {source: valuation.errors.get(source) for source in SOURCES}
    whole = valuation.errors.get("total") is not None and None not in parts.values()
    return {
        "values": valuation.values,
        "joint": valuation.total_covariance if whole else None,
        "parts": {s: None if e is None else float(np.square(e).mean()) for s, e in parts.items()},
    }


def fresh_owners(name: str, run: int | None) -> ds.Owners:
    """Five owners of 20 to 320 rows, some with wrong targets, drawn for this run."""
    assert run is not None
    rng = np.random.default_rng([11, run])
    sizes = np.exp(rng.uniform(np.log(20), np.log(320), 5)).astype(int)
    return draw_owners(data(name), sizes, rng.choice([0.0, 0.0, 0.4], 5), seed=1000 + run)


def measured(runs: int, jobs: int, only: str) -> dict[tuple[str, str, str, str], list[Any]]:
    """All that was stated, by table, model, kind and score."""
    found: dict[tuple[str, str, str, str], list[Any]] = {}
    work, start = pieces(runs, only), time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for done, (piece, stated) in enumerate(zip(work, pool.map(worked, work), strict=True), 1):
            for metric, entry in stated:
                key = (piece.table, piece.model, piece.kind, metric)
                found.setdefault(key, []).append(entry)
            print(f"{done}/{len(work)} pieces, {time.monotonic() - start:.0f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Do total 95% intervals hold?")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="part of 'table model kind'")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if asked.prepare is not None:
        prepare(asked.prepare)
    elif asked.write_docs:
        write_docs(load("whole_errors"))
    else:
        result = summary(measured(asked.runs, asked.jobs, asked.only))
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "whole_errors.json").write_text(json.dumps(result, indent=1) + "\n")
        print("\n\n".join(f"{title}\n\n{table}" for title, table in show(result).items()))


if __name__ == "__main__":
    main()
