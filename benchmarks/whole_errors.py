"""Do total 95% intervals hold? Training noise and test sets drawn anew, the truth on held-out rows.

Three tables × five models (two of them sums, one torch net without `random_state`) × five scores.
Owners are fixed; in each of 400 runs the models are trained from other seeds and the test set is
300 other rows of 9,000 held out. The truth is the value on all held-out rows, averaged over all
trainings. Then the same with methods that ask few pools, and a reliability table: owners drawn
anew in each run, stated probabilities of orders beside how often they were right. Pools are trained
once (`whole_errors_bank`); the first run of every cell is held against `dushapley.value` itself.

Run: python benchmarks/whole_errors.py [--runs 400] [--jobs 2] [--only TEXT] [--sizes A,B,C,D]
                                           [--out FOLDER]
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
from whole_errors_bank import Bank, Drawn
from whole_errors_cases import (
    DATA,
    METRICS,
    OWN_SCORES,
    SIZES,
    TEST,
    Case,
    cases,
    data,
    draw_owners,
    fixed_owners,
    prepare,
    started,
)
from whole_errors_tables import SOURCES, replaced, show, summary, write_docs

CHECKED = 1
"""Runs of every cell that are held against the front door."""
BUDGETS = {"permutation": 14, "gp": 12}
"""Methods that do not ask all of the 16 pools, and how many they may."""
SAMPLED = {"adult": "torch net", "bank": "logistic", "cal-housing": "tree"}
"""Models on which these are measured, by the first score."""
REDRAWN = {"adult": "LDA (sums)", "bank": "logistic", "cal-housing": "ridge (sums)"}
"""Models of the reliability table; without chance, so that the truth is one training."""
PARTS = 4
"""Pieces that the runs of the reliability table are cut into."""


class Piece(NamedTuple):
    """Some runs of one table and model."""

    table: str
    model: str
    kind: str
    runs: range
    sizes: tuple[int, ...] = SIZES

    @property
    def case(self) -> Case:
        return cases(data(self.table).task)[self.model]

    @property
    def metrics(self) -> tuple[str, ...]:
        return METRICS[data(self.table).task]


def pieces(runs: int, only: str, sizes: tuple[int, ...]) -> Iterator[Piece]:
    """All the work, the longest first."""
    work = []
    for name in DATA:
        for model, case in cases(data(name).task).items():
            work.append((case.repeats == 1, Piece(name, model, "fixed", range(runs), sizes)))
            if REDRAWN[name] == model:
                cuts = [range(k, runs, PARTS) for k in range(PARTS)]
                work += [(True, Piece(name, model, "redrawn", cut)) for cut in cuts]
    for _, piece in sorted(work, key=lambda pair: pair[0]):
        if only in f"{piece.table} {piece.model} {piece.kind}":
            yield piece


def worked(piece: Piece) -> dict[tuple[str, str, str, str], list[Any]]:
    """All that was stated in the runs of a piece, by table, model, kind and score."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return redrawn(piece) if piece.kind == "redrawn" else fixed(piece)


def fixed(piece: Piece) -> dict[tuple[str, str, str, str], list[Any]]:
    """The same owners in every run, by all methods."""
    table = data(piece.table)
    bank = Bank(table, fixed_owners(table, piece.sizes), piece.case)
    methods = BUDGETS if SAMPLED[piece.table] == piece.model else {}
    found: dict[tuple[str, str, str, str], list[Any]] = {}
    for metric in piece.metrics:
        cell = piece.table, piece.model
        found[*cell, "truth", metric] = [bank.truth(metric)]
        found[*cell, "checked", metric] = [check(bank, metric, run) for run in piece.runs[:CHECKED]]
        for run in piece.runs:
            rows, starts = test_rows(run, len(table.y_held)), bank.chance(run)
            stated = what_is_stated(**bank.valued(metric, rows, starts))
            found.setdefault((*cell, "exact", metric), []).append(stated)
            sampled = metric == piece.metrics[0] and run % 2 == 0  # these are slow: every other run
            for method, budget in methods.items() if sampled else ():
                game = Drawn(bank, bank.outcomes(metric, rows, starts))
                v = ds.value(game, method, budget=budget, seed=run, progress=False)
                stated = what_is_stated(v.values, v.errors)
                found.setdefault((*cell, method, metric), []).append(stated)
    return found


def redrawn(piece: Piece) -> dict[tuple[str, str, str, str], list[Any]]:
    """Fresh owners in each run: what is said of their order, and what is true."""
    found: dict[tuple[str, str, str, str], list[Any]] = {}
    table = data(piece.table)
    for run in piece.runs:
        bank = Bank(table, fresh_owners(piece.table, run), piece.case)
        rows = test_rows(run, len(table.y_held))
        for metric in piece.metrics[::2]:
            game = Drawn(bank, bank.outcomes(metric, rows, bank.chance(run)))
            v = ds.value(game, "exact", progress=False)
            stated = {"truth": bank.truth(metric), "order": ds.probability_greater(v)}
            stated["first"] = v.rank_probabilities().loc[list(v.owners), 1].to_numpy()
            found.setdefault((piece.table, piece.model, "redrawn", metric), []).append(stated)
    return found


def test_rows(run: int, held: int) -> np.ndarray:
    """The test set of a run."""
    return np.random.default_rng([7, run]).choice(held, TEST, replace=False)


def what_is_stated(values: np.ndarray, errors: Any) -> dict[str, Any]:
    """Values and the law of their errors, or that it is not known."""
    whole = not errors["unknown"]
    parts = {s: float(np.square(errors[s]).mean()) for s in SOURCES} if whole else {}
    joint = np.array(errors["covariance"]) if whole else None
    return {"values": values, "joint": joint, "parts": parts}


def check(bank: Bank, metric: str, run: int) -> float:
    """How far a run of the bank is from the front door: of values, and of their covariance."""
    table, case = bank.table, bank.case
    rows = test_rows(run, len(table.y_held))
    started.clear()
    game = ds.ModelGame(
        bank.owners,
        case.model,
        table.X_held[rows],
        table.y_held[rows],
        scoring=OWN_SCORES.get(metric, metric),
        seed=run,
        repeats=case.repeats,
    )
    front = ds.value(game, "exact", progress=False)
    pools = [game.pool(game.counts(pool), None)[0].tobytes() for pool in bank.pools[1:]]
    if case.seeded_by:
        own = [model.random_state for model in game.templates] if case.shared else []
        bank = Bank(table, bank.owners, case, [own or started[pool] for pool in pools])
    each = np.arange(case.repeats)[None].repeat(len(pools), axis=0)
    same = bank.valued(metric, rows, each)
    joint, own = np.array(front.errors["covariance"]), np.array(same["errors"]["covariance"])
    away = np.abs(front.values - same["values"]).max() / np.abs(front.values).max()
    return float(max(away, np.abs(joint - own).max() / np.abs(joint).max()))


def fresh_owners(name: str, run: int) -> ds.Owners:
    """Four owners of 20 to 320 rows, some with wrong targets, drawn for this run."""
    rng = np.random.default_rng([11, run])
    sizes = np.exp(rng.uniform(np.log(20), np.log(320), 4)).astype(int)
    return draw_owners(data(name), sizes, rng.choice([0.0, 0.0, 0.4], 4), seed=1000 + run)


def measured(work: list[Piece], jobs: int) -> dict[tuple[str, str, str, str], list[Any]]:
    """All pieces together."""
    found: dict[tuple[str, str, str, str], list[Any]] = {}
    start = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for piece, stated in zip(work, pool.map(worked, work), strict=True):
            for cell, entries in stated.items():
                found.setdefault(cell, []).extend(entries)
            print(f"{time.monotonic() - start:.0f} s: {' '.join(piece[:3])}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Do total 95% intervals hold?")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="part of 'table model kind'; the rest stays")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="rows of four owners")
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
        sizes = tuple(map(int, asked.sizes.split(",")))
        work = list(pieces(asked.runs, asked.only, sizes))
        result = summary(measured(work, asked.jobs))
        asked.out.mkdir(parents=True, exist_ok=True)
        stored = asked.out / "whole_errors.json"
        if asked.only and stored.is_file():
            result = replaced(json.loads(stored.read_text()), result)
        stored.write_text(json.dumps(result, indent=1) + "\n")
        print("\n\n".join(f"{title}\n\n{table}" for title, table in show(result).items()))


if __name__ == "__main__":
    main()
