"""How the rows of a data set are dealt out to owners: of unequal size, alike or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray
from dushapley.data.owners import Owners
from dushapley_paper.data import Table

Scenario = Literal["iid", "uneven", "mislabelled", "shifted"]
Spread = Literal["uniform", "dirichlet", "equal"]

HOLDOUT = 0.1
"""Test rows as a part of the training rows, as in the paper."""
BAD_OWNERS, BAD_LABELS = 0.3, 0.5
"""Mislabelled: this part of the owners has this part of its labels wrong."""


@dataclass(frozen=True)
class Split:
    """Owners and the test set that values them.

    `rows` holds all training rows, owner after owner; `sizes` says where they are cut; `bad` marks
    owners whose labels were spoiled.
    """

    X: FloatArray
    y: Array
    sizes: IntArray
    X_test: FloatArray
    y_test: Array
    bad: IntArray

    def owners(self) -> Owners:
        """The rows as named blocks."""
        ends = np.cumsum(self.sizes)[:-1]
        blocks = zip(np.split(self.X, ends), np.split(self.y, ends), strict=True)
        return Owners.from_arrays({f"owner {i + 1}": block for i, block in enumerate(blocks)})


def split(
    table: Table,
    n_owners: int,
    scenario: Scenario,
    seed: int,
    *,
    most_rows: int | None = None,
    sizes: Spread = "uniform",
) -> Split:
    """Deal shuffled rows out to owners, after setting the test rows aside.

    "iid": at random. "uneven": the same, with sizes uniform over all ways to share, so that many
    owners are tiny. "mislabelled": as "iid", then 30% of the owners get half their labels wrong
    (another class; for regression, targets shuffled within the owner). "shifted": rows sorted by
    their first column (age, mean radius, income, ...) with noise of the same spread, then cut, so
    that owners see different parts of the population.
    """
    rng = np.random.default_rng([seed, n_owners])
    rows = rng.permutation(len(table.X))[:most_rows]
    n_test = round(len(rows) * HOLDOUT / (1 + HOLDOUT))
    test, train = rows[:n_test], rows[n_test:]
    counts = draw_sizes(rng, n_owners, len(train), "dirichlet" if scenario == "uneven" else sizes)
    if scenario == "shifted":
        blurred = table.X[train, 0] + rng.normal(0, 1, len(train))
        train = train[np.argsort(blurred, kind="stable")]
    y = table.y[train].copy()
    bad = np.zeros(0, dtype=np.int64)
    if scenario == "mislabelled":
        bad = np.sort(rng.choice(n_owners, round(BAD_OWNERS * n_owners), replace=False))
        spoil(rng, y, counts, bad, table, BAD_LABELS)
    return Split(table.X[train], y, counts, table.X[test], table.y[test], bad)


def draw_sizes(rng: np.random.Generator, n_owners: int, rows: int, how: Spread) -> IntArray:
    """Rows of each owner, at least one each, adding up to `rows`.

    "uniform": in proportion to whole numbers drawn from 1 to 10. "dirichlet": uniform over all
    ways to share. "equal": as equal as can be.
    """
    if how == "uniform":
        weights = rng.integers(1, 11, n_owners).astype(np.float64)
    else:
        weights = rng.dirichlet(np.ones(n_owners)) if how == "dirichlet" else np.ones(n_owners)
    spare = rows - n_owners
    ends = np.rint(np.cumsum(weights) / weights.sum() * spare).astype(np.int64)
    return 1 + np.diff(ends, prepend=0)


def spoil(
    rng: np.random.Generator,
    y: Array,
    sizes: IntArray,
    bad: IntArray,
    table: Table,
    part: float,
) -> None:
    """Make part of the labels of some owners wrong, in place."""
    ends = np.cumsum(sizes)
    n_classes = int(table.y.max()) + 1 if table.task == "classification" else 0
    for i in bad:
        block = np.arange(ends[i] - sizes[i], ends[i])
        chosen = rng.choice(block, round(part * len(block)), replace=False)
        if table.task == "classification":
            y[chosen] = (y[chosen] + rng.integers(1, n_classes, len(chosen))) % n_classes
        else:
            y[chosen] = y[rng.permutation(chosen)]
