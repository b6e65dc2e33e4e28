"""The tables of all owners side by side: what they have in common, and a sample of their rows.

Most checks look at a sample first and count everything only where the sample is odd: a million rows
are surveyed in a second or two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray
from dushapley.data.intake import TEST
from dushapley.data.tables import kinds_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from dushapley.data.tables import Tables

Coded = tuple[list[Any], list[IntArray]]
"""Different entries of a column, and by holder which of them stands where."""
MOST_SAMPLED = 2_000
"""Rows of one owner in the sample."""
MOST_CLASSES = 20
"""Different whole numbers up to which a target is taken for classes."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Tables of the owners, the test table, and what is to be predicted."""

    tables: Tables
    target: str
    test: DataFrame | None = None
    _coded: dict[str, Coded] = field(default_factory=dict, repr=False)

    @cached_property
    def everybody(self) -> Tables:
        """All tables by holder: those of the owners and, if there is one, the test table."""
        return self.tables if self.test is None else {**self.tables, TEST: self.test}

    @cached_property
    def names(self) -> list[str]:
        """Owners who have rows and the target."""
        return [n for n, t in self.tables.items() if len(t) and self.target in t.columns]

    @cached_property
    def holders(self) -> list[str]:
        """These owners and, last, the test set."""
        return [*self.names, TEST]

    @cached_property
    def own(self) -> list[DataFrame]:
        """The table of each of these owners."""
        return [self.tables[name] for name in self.names]

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each of them."""
        return np.array([len(table) for table in self.own], dtype=np.int64)

    @cached_property
    def columns(self) -> list[str]:
        """Features that all owners have."""
        first = self.own[0].columns.drop(self.target) if self.own else ()
        return [str(name) for name in first if all(name in table.columns for table in self.own)]

    @cached_property
    def kinds(self) -> dict[str, dict[str, str]]:
        """What each column holds, by holder: number, date, text or nothing."""
        return {name: kinds_of(table) for name, table in self.everybody.items()}

    def kind(self, column: str) -> str:
        """What a column holds for all owners; "mixed" where they disagree."""
        held = {self.kinds[name].get(column, "nothing") for name in self.names} - {"nothing"}
        return held.pop() if len(held) == 1 else "mixed" if held else "nothing"

    @cached_property
    def target_kind(self) -> str:
        """What the target holds for all owners."""
        return self.kind(self.target)

    @cached_property
    def numbers(self) -> list[str]:
        """Features of numbers."""
        return [column for column in self.columns if self.kind(column) == "number"]

    @cached_property
    def texts(self) -> list[str]:
        """Features of text."""
        return [column for column in self.columns if self.kind(column) == "text"]

    @cached_property
    def classes(self) -> list[Any]:
        """Labels of the target, where it holds classes; none where it holds amounts."""
        if self.target_kind not in ("text", "number"):
            return []
        numeric = self.target_kind == "number"
        if numeric:
            sampled = self.sample[:, -1]
            if len(np.unique(sampled[~np.isnan(sampled)])) > MOST_CLASSES:
                return []
        entries, codes = self.coded(self.target)
        used = np.unique(np.concatenate(codes[: len(self.names)]))
        labels = [entries[k] for k in used if k >= 0]
        if numeric:
            whole = all(float(label).is_integer() for label in labels)
            if not whole or len(labels) > MOST_CLASSES:
                return []
        return sorted(labels, key=str)

    @cached_property
    def picked(self) -> list[IntArray]:
        """Positions of the sampled rows of each owner."""
        rng = np.random.default_rng(0)
        return [
            np.arange(n) if n <= MOST_SAMPLED else np.sort(rng.choice(n, MOST_SAMPLED, False))
            for n in self.sizes.tolist()
        ]

    @cached_property
    def holder(self) -> IntArray:
        """Whose each row of the sample is."""
        return np.repeat(np.arange(len(self.names)), [len(rows) for rows in self.picked])

    @cached_property
    def measured(self) -> list[str]:
        """Columns of numbers, the target at the end if it is one."""
        return self.numbers + [self.target] * (self.target_kind == "number")

    @cached_property
    def amounts(self) -> list[str]:
        """The measured columns but for a target of classes."""
        return self.numbers if self.classes else self.measured

    @cached_property
    def blocks(self) -> list[FloatArray]:
        """The measured columns of each owner as one array; infinite numbers count as missing."""
        return [block(table, self.measured) for table in self.own]

    def parts(self, column: str) -> list[FloatArray]:
        """One of the measured columns, owner by owner."""
        position = self.measured.index(column)
        return [own[:, position] for own in self.blocks]

    def sampled(self, parts: Iterable[Array]) -> list[Array]:
        """The sampled rows of what each owner has; what more there is, is the test set's."""
        return [part[rows] for part, rows in zip(parts, self.picked, strict=False)]

    @cached_property
    def sample(self) -> FloatArray:
        """Sampled rows of the columns in `measured`."""
        return np.concatenate(self.sampled(self.blocks))

    @cached_property
    def goals(self) -> FloatArray:
        """Targets of the sample: one column of amounts, or one per class (of two, one)."""
        if not self.classes:
            return self.sample[:, len(self.numbers) :]
        entries, codes = self.coded(self.target)
        own = np.concatenate(self.sampled(codes))
        labels = [entries.index(label) for label in self.classes]
        chosen = labels[: 1 if len(labels) == 2 else MOST_CLASSES]
        return np.stack([(own == label).astype(np.float64) for label in chosen], axis=1)

    def coded(self, column: str) -> Coded:
        """Different entries of a column, and which of them stands where (−1: none), by holder.

        Holders are the owners, and at the end the test set if it has the column.
        """
        import pandas as pd

        if column not in self._coded:
            tested = self.test is not None and column in self.test.columns
            place: dict[Any, int] = {}
            codes = []
            for holder in self.holders if tested else self.names:
                own, entries = pd.factorize(self.everybody[holder][column])
                to = [place.setdefault(entry, len(place)) for entry in entries.tolist()]
                codes.append(np.array([*to, -1], dtype=np.int64)[own])
            self._coded[column] = list(place), codes
        return self._coded[column]

    def counts(self, column: str) -> tuple[list[Any], IntArray]:
        """Different entries of a column, and how often each holder has each (entries × holders)."""
        entries, codes = self.coded(column)
        tables = [np.bincount(of[of >= 0], minlength=len(entries)) for of in codes]
        return entries, np.stack(tables, axis=1)

    @cached_property
    def missing(self) -> IntArray:
        """Missing values of each owner in each of `columns`."""
        measured = np.transpose([np.isnan(own).sum(axis=0) for own in self.blocks])
        counts: dict[str, Any] = dict(zip(self.measured, measured, strict=True))
        for column in self.columns:
            if column not in counts:
                counts[column] = [table[column].isna().sum() for table in self.own]
        return np.array([counts[column] for column in self.columns], dtype=np.int64).T


def block(table: DataFrame, columns: list[str]) -> FloatArray:
    """Columns of numbers as one array; infinite ones, and what is not a number, as missing."""
    import pandas as pd

    numbers = np.empty((len(table), len(columns)))
    for position, column in enumerate(columns):
        values = pd.to_numeric(table[column], errors="coerce")
        numbers[:, position] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    numbers[np.isinf(numbers)] = np.nan
    return numbers


def lacks_target(table: DataFrame, target: str) -> Array:
    """Which rows have no target, or an infinite one."""
    import pandas as pd

    goal = table[target]
    gone = goal.isna().to_numpy(dtype=bool)
    if pd.api.types.is_float_dtype(goal.dtype):
        gone = gone | np.isinf(goal.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(gone)


def shown(value: object) -> str:
    """An entry as Python writes it, not too long."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_row(table: DataFrame, where: Array) -> int:
    """The number of the first of these rows in the file, counted below its names."""
    position = int(np.argmax(where))
    label = table.index[position]
    return int(label) + 1 if isinstance(label, (int, np.integer)) else position + 1
