"""The tables of all owners side by side: what they have in common, and a sample of their rows.

Most checks look at a sample first and count everything only where the sample is odd: a million rows
are surveyed in a second or two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.data.intake import TEST
from dushapley.data.tables import kinds_of

if TYPE_CHECKING:
    import pandas as pd

MOST_SAMPLED = 2_000
"""Rows of one owner in the sample."""
MOST_CLASSES = 20
"""Different whole numbers up to which a target is taken for classes."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Tables of the owners, the test table, and what is to be predicted."""

    tables: Mapping[str, pd.DataFrame]
    target: str
    test: pd.DataFrame | None = None
    _coded: dict[str, tuple[list[Any], list[IntArray]]] = field(default_factory=dict, repr=False)

    @cached_property
    def everybody(self) -> dict[str, pd.DataFrame]:
        """All tables by holder: those of the owners and, if there is one, the test table."""
        return {**self.tables, **({} if self.test is None else {TEST: self.test})}

    @cached_property
    def names(self) -> list[str]:
        """Owners who have rows and the target."""
        return [n for n, t in self.tables.items() if len(t) and self.target in t.columns]

    @cached_property
    def holders(self) -> list[str]:
        """These owners and, last, the test set."""
        return [*self.names, TEST]

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each of them."""
        return np.array([len(self.tables[name]) for name in self.names], dtype=np.int64)

    @cached_property
    def columns(self) -> list[str]:
        """Features that all owners have."""
        first = list(self.tables[self.names[0]].columns) if self.names else []
        return [
            str(column)
            for column in first
            if column != self.target
            and all(column in self.tables[name].columns for name in self.names)
        ]

    @cached_property
    def kinds(self) -> dict[str, dict[str, str]]:
        """What each column holds, by holder: number, date, text or nothing."""
        return {name: kinds_of(table) for name, table in self.everybody.items()}

    def kind(self, column: str) -> str:
        """What a column holds for all owners; "mixed" where they disagree."""
        held = {self.kinds[name].get(column, "nothing") for name in self.names} - {"nothing"}
        return held.pop() if len(held) == 1 else "mixed" if held else "nothing"

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
        if self.kind(self.target) not in ("text", "number") or not self.names:
            return []
        own = self.sample[:, -1] if self.kind(self.target) == "number" else np.zeros(0)
        if len(np.unique(own[~np.isnan(own)])) > MOST_CLASSES:
            return []
        entries, codes = self.coded(self.target)
        used = np.unique(np.concatenate(codes[: len(self.names)]))
        labels = [entries[k] for k in used if k >= 0]
        whole = all(isinstance(label, str) or float(label).is_integer() for label in labels)
        text = self.kind(self.target) == "text"
        return sorted(labels, key=str) if text or (whole and len(labels) <= MOST_CLASSES) else []

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
        return self.numbers + [self.target] * (self.kind(self.target) == "number")

    @cached_property
    def amounts(self) -> list[str]:
        """The measured columns but for a target of classes."""
        return self.numbers if self.classes else self.measured

    @cached_property
    def blocks(self) -> list[FloatArray]:
        """The measured columns of each owner as one array; infinite numbers count as missing."""
        return [block(self.tables[name], self.measured) for name in self.names]

    @cached_property
    def sample(self) -> FloatArray:
        """Sampled rows of the columns in `measured`."""
        return np.concatenate([of[rows] for of, rows in zip(self.blocks, self.picked, strict=True)])

    @cached_property
    def goals(self) -> FloatArray:
        """Targets of the sample: one column of amounts, or one per class (of two, one)."""
        if not self.classes:
            return self.sample[:, len(self.numbers) :]
        entries, codes = self.coded(self.target)
        own = np.concatenate([of[rows] for of, rows in zip(codes, self.picked, strict=False)])
        labels = [entries.index(label) for label in self.classes]
        chosen = labels[: 1 if len(labels) == 2 else MOST_CLASSES]
        return np.stack([(own == label).astype(np.float64) for label in chosen], axis=1)

    def coded(self, column: str) -> tuple[list[Any], list[IntArray]]:
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
            if column in self.texts:
                codes = self.coded(column)[1][: len(self.names)]
                counts[column] = [(own < 0).sum() for own in codes]
            elif column not in counts:
                counts[column] = [self.tables[name][column].isna().sum() for name in self.names]
        return np.array([counts[column] for column in self.columns], dtype=np.int64).T


def block(table: pd.DataFrame, columns: list[str]) -> FloatArray:
    """Columns of numbers as one array; infinite ones, and what is not a number, as missing."""
    import pandas as pd

    numbers = np.empty((len(table), len(columns)))
    for position, column in enumerate(columns):
        values = pd.to_numeric(table[column], errors="coerce")
        numbers[:, position] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    numbers[np.isinf(numbers)] = np.nan
    return numbers


def whose(name: str) -> str:
    """A holder at the beginning of a sentence."""
    return "The test set" if name == TEST else f"Owner {name!r}"


def shown(value: object) -> str:
    """An entry as Python writes it, not too long."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def row_of(table: pd.DataFrame, position: int) -> int:
    """The number of a row below the names of columns, in the file it came from."""
    label = table.index[position]
    return int(label) + 1 if isinstance(label, (int, np.integer)) else position + 1
