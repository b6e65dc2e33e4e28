"""The trained games of the real-data tables: which there are, and all their utilities.

A case is a data set, a number of owners and a scenario. Everything the tables need of it are its
2^I utilities and some DU-Shapley replicates, which are computed once (on a GPU where 2^20
trainings are wanted) and can be kept in a folder named by ``DUSHAPLEY_TABLES``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.engine.value import value
from dushapley.errors import DUShapleyError
from dushapley.estimators.exact import coalitions
from dushapley.games.base import TableGame
from dushapley.games.model.batched.recipe import Recipe
from dushapley.hashing import digest
from dushapley_paper.boosting import BoostedTreesGame, Boosting
from dushapley_paper.classifiers import ClassifierGame
from dushapley_paper.data import load
from dushapley_paper.splits import Scenario, Split, Spread, split

Thing = TypeVar("Thing")
Made = TypeVar("Made")

TABLES = "DUSHAPLEY_TABLES"
"""Name of the environment variable that names the folder of stored tables."""
MOST_HERE = 2**14
"""Trainings of one case that are done without being stored first, when there is no GPU."""

LOGISTIC = ("adult", "breast-cancer", "bank")
TREES = ("cal-housing", "make-regression", "year")
MOST_ROWS = {"cal-housing": 4000, "year": 4000}
"""Rows used where the whole set would cost more than it teaches."""
ALIKE = ("iid", "uneven")
"""Owners alike, as in the paper: here cal-housing has all its rows, for ten owners."""


TWENTY_STEPS = Recipe(steps=20)
TWENTY_ROUNDS = Boosting()
"""Trainings as short as the paper's."""


class TableMissing(DUShapleyError, FileNotFoundError):
    """A case needs more trainings than this machine should do, and its table is not stored."""


@dataclass(frozen=True)
class Case:
    """One trained game.

    Attributes
    ----------
    data
        Name of the data set.
    owners, scenario, seed
        How it is split.
    most_rows
        Rows used; None: all.
    sizes
        How unequal the owners are.
    recipe, boosting
        How logistic regressions and trees are trained.
    replicates
        DU-Shapley runs.
    """

    data: str
    owners: int
    scenario: Scenario = "iid"
    seed: int = 0
    most_rows: int | None = None
    sizes: Spread = "uniform"
    recipe: Recipe = TWENTY_STEPS
    boosting: Boosting = TWENTY_ROUNDS
    replicates: int = 10

    @property
    def key(self) -> str:
        """Name of the case in stored tables."""
        return f"{self.data}-{self.owners}-{self.scenario}-{self.seed}"

    def split(self) -> Split:
        """The owners and the test set."""
        table = load(self.data)
        return split(
            table, self.owners, self.scenario, self.seed,
            most_rows=self.most_rows, sizes=self.sizes,
        )  # fmt: skip

    def fingerprint(self, rows: Split) -> str:
        """Content hash of everything that decides the utilities, but for the arithmetic."""
        arrays = (rows.X, rows.y, rows.sizes, rows.X_test, rows.y_test)
        return digest("case", *arrays, repr(self.recipe), repr(self.boosting), self.replicates)

    def game(self, rows: Split, device: str | None) -> ClassifierGame | BoostedTreesGame:
        """The trained game on the CPU (None) or a device of torch."""
        owners, many = rows.owners(), device is not None and device.startswith("cuda")
        if self.data in LOGISTIC:
            return ClassifierGame(
                owners, rows.X_test, rows.y_test, self.recipe, device, 65_536 if many else 256
            )
        block = 8192 if many else 64
        return BoostedTreesGame(owners, rows.X_test, rows.y_test, self.boosting, device, block)


@dataclass(frozen=True)
class Utilities:
    """All utilities of a case and DU-Shapley replicates; u[0] is the best constant prediction."""

    u: FloatArray
    sizes: IntArray
    du: FloatArray
    where: str

    def game(self, empty: str) -> TableGame:
        """The game with u(∅) = 0 ("zero") or the best constant prediction ("constant")."""
        table = self.u.copy()
        if empty == "zero":
            table[0] = 0.0
        return TableGame(table, self.sizes)

    def du_values(self, empty: str) -> FloatArray:
        """DU-Shapley replicates; u(∅) enters each value as −u(∅)/I, once."""
        if empty == "constant":
            return self.du
        return self.du + self.u[0] / self.du.shape[1]


def utilities(case: Case) -> Utilities:
    """The stored table of a case, or a computed one where that takes minutes, not days."""
    rows = case.split()
    stored = _stored(case, rows)
    if stored is not None:
        return stored
    device = gpu()
    if 2**case.owners > MOST_HERE and device is None:
        raise TableMissing(
            f"{case.key} needs 2^{case.owners} trainings, and there is neither a GPU nor a stored "
            f"table. Run `python benchmarks/reproduce_gpu.py table-1 --out FOLDER` on a machine "
            f"with a GPU (a few minutes), copy FOLDER here and name it: export {TABLES}=FOLDER."
        )
    return compute(case, rows, device)


def known(cases: Iterable[Case]) -> tuple[list[tuple[Case, Utilities]], list[str]]:
    """Cases with their tables, and the keys of those that need a GPU first.

    Results name the latter; where all do, the first one's error says what to do.
    """
    found, missing = attempted(cases, utilities)
    if missing and not found:
        raise next(iter(missing.values()))
    return list(found.items()), [case.key for case in missing]


def attempted(
    things: Iterable[Thing], make: Callable[[Thing], Made]
) -> tuple[dict[Thing, Made], dict[Thing, TableMissing]]:
    """What could be made of each thing, and the errors of those that need a GPU first."""
    found: dict[Thing, Made] = {}
    missing: dict[Thing, TableMissing] = {}
    for thing in things:
        try:
            found[thing] = make(thing)
        except TableMissing as error:
            missing[thing] = error
    return found, missing


def compute(case: Case, rows: Split, device: str | None) -> Utilities:
    """Train all coalitions, and the pools of DU-Shapley, replicate by replicate."""
    game = case.game(rows, device)
    u = np.concatenate([game(block) for block in coalitions(case.owners)])
    du = [
        value(game, "du", seed=case.seed * 1000 + r, progress=False).values
        for r in range(case.replicates)
    ]
    return Utilities(u, rows.sizes, np.stack(du), device_name(device))


def full_cases(seed: int) -> Iterator[Case]:
    """The paper's twelve games (i.i.d.), ten owners of very unequal size, owners that differ."""
    for data, owners, scenario in product((*LOGISTIC, *TREES), (10, 20), get_args(Scenario)):
        whole = data == "cal-housing" and owners == 10 and scenario in ALIKE
        if owners == 10 or scenario != "uneven":
            yield Case(data, owners, scenario, seed, None if whole else MOST_ROWS.get(data))


def quick_cases(seed: int) -> Iterator[Case]:
    """Six owners, a few hundred rows: seconds instead of hours, and no conclusions."""
    for case in full_cases(seed):
        if case.owners == 10 and (case.scenario == "iid" or case.data == "breast-cancer"):
            yield replace(case, owners=6, most_rows=400, replicates=2, boosting=Boosting(bins=8))


def save(folder: Path, data: str, found: dict[str, tuple[str, Utilities]]) -> None:
    """Write all cases of one data set: {key: (fingerprint, utilities)}."""
    arrays: dict[str, Any] = {}
    for key, (fingerprint, table) in found.items():
        stored = {**vars(table), "u": table.u.astype(np.float32), "fingerprint": fingerprint}
        arrays |= {f"{key}/{name}": np.asarray(item) for name, item in stored.items()}
    np.savez_compressed(folder / f"table-1-{data}.npz", **arrays)


def _stored(case: Case, rows: Split) -> Utilities | None:
    folder = os.environ.get(TABLES)
    path = Path(folder or ".") / f"table-1-{case.data}.npz"
    if folder is None or not path.is_file():
        return None
    with np.load(path) as file:
        prefix = f"{case.key}/"
        stored = {n.removeprefix(prefix): file[n] for n in file.files if n.startswith(prefix)}
    if not stored or str(stored["fingerprint"]) != case.fingerprint(rows):
        return None
    u, where = stored["u"].astype(np.float64), str(stored["where"])
    return Utilities(u, stored["sizes"], stored["du"], where)


def gpu() -> str | None:
    """The GPU that torch sees, or None."""
    try:
        import torch
    except ImportError:
        return None
    return "cuda" if torch.cuda.is_available() else None


def device_name(device: str | None) -> str:
    """Where trainings ran, for people."""
    if device is None:
        return "NumPy on the CPU"
    import torch

    return str(torch.cuda.get_device_name()) if device.startswith("cuda") else f"torch on {device}"
