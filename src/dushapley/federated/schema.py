"""What owners and coordinator agree on before anything is trained: columns, categories, scale.

Each owner tells the shape of its table (names and kinds of columns, categories, labels, and the
number, mean and spread of numbers); from these the coordinator makes one `Agreement`, by which
every owner turns its own rows into numbers, and the coordinator its test file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import AnyDict, AnyMapping, Array, FloatArray, Names
from dushapley.data.owners import Owners
from dushapley.data.tables import (
    check_columns,
    checked_targets,
    column_values,
    common_kinds,
    require_column,
)
from dushapley.errors import FederationFailed, InvalidOwners
from dushapley.hashing import digest
from dushapley.terminal import json_text

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 200
"""Categories of a column that are told apart."""
MOST_CLASSES = 1000
KINDS = {"number": "numbers", "text": "text"}
Schemas = Mapping[str, AnyMapping]
"""What each owner told of its table, by its name."""
FAR = 10.0
"""Standard deviations of all rows by which an owner's mean may be away without a note."""


@dataclass(frozen=True, eq=False)
class Table:
    """One owner's rows, column by column.

    Attributes
    ----------
    columns
        Numbers (float64, NaN where missing) or text (objects, None where missing) by name.
    target, y
        What is to be predicted: its name, and one entry per row.
    """

    columns: Mapping[str, Array]
    target: str
    y: Array

    @classmethod
    def of(cls, owners: Owners | Table) -> Table:
        """All rows of these owners as the table of one."""
        if isinstance(owners, Table):
            return owners
        shape = owners.X[0].shape[1:]
        if owners.reduced is not None or any(y is None for y in owners.y):
            raise InvalidOwners("An owner of a federation needs rows with targets; found none.")
        if owners.weights is not None:
            raise InvalidOwners("Rows have weights, which a federation does not know. Drop them.")
        if len(shape) != 1:
            raise InvalidOwners(f"Rows have the shape {shape}; a federation needs tables.")
        X = np.concatenate([np.asarray(block) for block in owners.X])
        y = np.concatenate([np.asarray(targets) for targets in owners.y])
        kinds = owners.columns or {f"x{k + 1}": "number" for k in range(X.shape[1])}
        pairs = zip(kinds.items(), X.T, strict=False)
        cells = {name: _cells(column, kind) for (name, kind), column in pairs}
        return cls(cells, owners.target or "y", y)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, target: str, whose: str = "The table") -> Table:
        """The rows of a table; `whose` is for messages."""
        check_columns(frame.columns, whose)
        require_column(frame, target, "target column", whose)
        if len(frame) == 0 or len(frame.columns) < 2:
            raise InvalidOwners(f"{whose} has no rows, or no column beside {target!r}.")
        kinds = common_kinds({whose: frame}, list(frame.columns))
        targets = frame[target]
        y = checked_targets(targets, kinds.pop(target), whose)
        if targets.dtype.kind in "iub":
            y = y.astype(np.int64)
        cells = {n: _cells(column_values(frame[n], kind), kind) for n, kind in kinds.items()}
        return cls(cells, target, y)

    def __len__(self) -> int:
        return len(self.y)

    def only(self, names: Names | None) -> Table:
        """The same without columns that are not among these."""
        if names is None:
            return self
        missing = [name for name in names if name not in self.columns and name != self.target]
        if missing:
            raise InvalidOwners(
                f"The policy allows the column {missing[0]!r}, which the table lacks. Mend it."
            )
        kept = {name: cells for name, cells in self.columns.items() if name in names}
        return Table(kept, self.target, self.y)

    def rows(self, which: Array) -> Table:
        """Some of the rows."""
        columns = {name: cells[which] for name, cells in self.columns.items()}
        return Table(columns, self.target, self.y[which])

    def schema(self, least_rows: int) -> AnyDict:
        """Its shape, as plain JSON; categories of fewer than `least_rows` rows are not named."""
        numbers = self.y.dtype.kind == "f" and len(np.unique(self.y)) > 2
        labels = [] if numbers else np.unique(self.y).tolist()
        if len(labels) > MOST_CLASSES:
            raise InvalidOwners(
                f"The target {self.target!r} has {len(labels):,} different labels; at most "
                f"{MOST_CLASSES:,} classes are known."
            )
        target = {
            "name": self.target,
            "kind": "numbers" if numbers else "classes",
            "labels": labels,
        }
        columns = {name: _told(cells, least_rows) for name, cells in self.columns.items()}
        return {"rows": len(self), "columns": columns, "target": target}


def _cells(cells: Array, kind: str) -> Array:
    """A column as decimal numbers or text; dates are days."""
    if kind == "number":
        return cells.astype(np.float64)
    if kind == "date":
        times = np.array(cells, dtype="datetime64[us]")
        return np.where(np.isnat(times), np.nan, times.astype(np.float64) / 86_400e6)
    return np.array([None if c is None or c != c else str(c) for c in cells], dtype=object)


def _told(cells: Array, least_rows: int) -> AnyDict:
    """What is told of a column."""
    if cells.dtype.kind == "f":
        known = cells[~np.isnan(cells)]
        mean = float(known.mean()) if len(known) else 0.0
        square = float(((known - mean) ** 2).sum())
        return {"kind": "number", "count": len(known), "mean": mean, "square": square}
    names, counts = np.unique([c for c in cells if c is not None], return_counts=True)
    named = [str(n) for n, count in zip(names, counts, strict=True) if count >= least_rows]
    return {"kind": "text", "categories": named, "rare": len(names) - len(named)}


@dataclass(frozen=True)
class Agreement:
    """How every row of the federation becomes numbers.

    Attributes
    ----------
    columns
        Features in their order, each with its kind.
    categories
        Of each text column, one number (0 or 1) for each of these; others are all zeros.
    center, scale
        Of each column of numbers: its mean over all rows, at which missing numbers stand, and its
        standard deviation.
    target, classes
        What is predicted, and all its labels; None: it is a number.
    scaled
        Whether numbers are centred and divided by their scale (sums are taken of raw numbers).
    """

    columns: Mapping[str, str]
    categories: Mapping[str, Names]
    center: Mapping[str, float]
    scale: Mapping[str, float]
    target: str
    classes: Sequence[Any] | None
    scaled: bool

    @property
    def name(self) -> str:
        """A digest of all of it."""
        return digest("agreement", json_text(asdict(self)), *self.columns)

    @property
    def width(self) -> int:
        """Numbers that a row becomes."""
        return sum(len(self.categories.get(name, " ")) for name in self.columns)

    def encode(self, table: Table, whose: str) -> tuple[FloatArray, Array]:
        """Rows as numbers, and their targets; `whose` is for messages.

        Targets of classes are labels as they are agreed.
        """
        missing = [name for name in self.columns if name not in table.columns]
        if missing or table.target != self.target:
            raise InvalidOwners(
                f"{whose} lacks the column {missing[0] if missing else self.target!r}, which was "
                "agreed."
            )
        blocks = [self._encoded(name, table.columns[name], whose) for name in self.columns]
        X = np.concatenate(blocks, axis=1) if blocks else np.empty((len(table), 0))
        return np.ascontiguousarray(X), self._labels(table.y, whose)

    def _encoded(self, name: str, cells: Array, whose: str) -> FloatArray:
        if name in self.categories:
            known = np.array(self.categories[name], dtype=object)
            return (cells.astype(object)[:, None] == known).astype(np.float64)
        if cells.dtype.kind != "f":
            raise InvalidOwners(f"{whose} has text in the column {name!r}, agreed to be a number.")
        center = self.center[name]
        filled = np.where(np.isnan(cells), center, cells)
        if self.scaled:
            filled = (filled - center) / self.scale[name]
        return filled[:, None]

    def _labels(self, y: Array, whose: str) -> Array:
        if self.classes is None:
            return y.astype(np.float64)
        strange = sorted(set(np.unique(y).tolist()) - set(self.classes), key=str)
        if strange:
            raise InvalidOwners(
                f"{whose} has the label {strange[0]!r}, which nobody named when labels were agreed."
            )
        return y.astype(np.array(list(self.classes)).dtype)


def agree(
    schemas: Schemas,
    *,
    scaled: bool,
    columns: Names | None = None,
    labels: Sequence[Any] = (),
) -> tuple[Agreement, tuple[str, ...]]:
    """One agreement of all schemas, and notes; or one error that tells all that differs, by owner.

    Parameters
    ----------
    schemas
        What each owner told, by its name.
    scaled
        Whether numbers are to be scaled.
    columns
        Features to use; None: all, which every owner must then have.
    labels
        Further labels, those of a test file.
    """
    faults = "\n".join([*_column_faults(schemas, columns), *_target_faults(schemas, labels)])
    if faults:
        raise FederationFailed(
            f"The owners' tables do not fit together, so nothing was trained:\n{faults}\n"
            "Mend the files that are named, or name columns that all have (columns=)."
        )
    first = next(iter(schemas.values()))
    orders = {tuple(s["columns"]) for s in schemas.values()}
    # as the files have them, if all have one order: sums of other orders have other last bits
    names = [*orders.pop()] if len(orders) == 1 else sorted(first["columns"])
    names = [name for name in names if columns is None or name in columns]
    told = {name: [s["columns"][name] for s in schemas.values()] for name in names}
    kinds = {name: told[name][0]["kind"] for name in names}
    moments = {name: _moments(told[name]) for name in names if kinds[name] == "number"}
    texts = [name for name in names if kinds[name] == "text"]
    every = {label for s in schemas.values() for label in s["target"]["labels"]}
    target = first["target"]
    made = Agreement(
        columns=kinds,
        categories={n: sorted({c for one in told[n] for c in one["categories"]}) for n in texts},
        center={name: mean for name, (mean, _) in moments.items()},
        scale={name: scale for name, (_, scale) in moments.items()},
        target=target["name"],
        classes=None if target["kind"] == "numbers" else sorted(every.union(labels)),
        scaled=scaled,
    )
    return made, _notes(schemas, made)


def _moments(told: Sequence[AnyMapping]) -> tuple[float, float]:
    """Mean and standard deviation over all owners; 1 where all numbers are equal.

    Sums run over sorted numbers, so that the order of owners changes no bit.
    """
    n = sum(one["count"] for one in told)
    mean = sum(sorted(one["count"] * one["mean"] for one in told)) / max(n, 1)
    around = (one["square"] + one["count"] * (one["mean"] - mean) ** 2 for one in told)
    return mean, float(np.sqrt(sum(sorted(around)) / max(n, 1))) or 1.0


def _column_faults(schemas: Schemas, columns: Names | None) -> list[str]:
    """Columns that somebody lacks, or holds otherwise than most."""
    faults = []
    every = sorted({name for s in schemas.values() for name in s["columns"]})
    for name in every if columns is None else columns:
        here = f"  column {name!r}:"
        held = {o: s["columns"][name] for o, s in schemas.items() if name in s["columns"]}
        lacking = [owner for owner in schemas if owner not in held]
        if lacking:
            others = "others" if len(held) > 1 else "other"
            have = f"{len(held)} {others} have it" if held else "nobody has it"
            faults.append(f"{here} {_listed(lacking)} lacks it; {have}")
        many = sum(len(told.get("categories", ())) for told in held.values())
        if many > MOST_CATEGORIES * len(schemas):
            faults.append(f"{here} {many:,} categories; at most {MOST_CATEGORIES} an owner")
        kinds = [told["kind"] for told in held.values()]
        usual = max(sorted(set(kinds)), key=kinds.count, default="")
        odd = [owner for owner, told in held.items() if told["kind"] != usual]
        if odd:
            found, expected = KINDS[held[odd[0]]["kind"]], KINDS[usual]
            faults.append(f"{here} {_listed(odd)} has {found}, the others {expected}")
    return faults


def _target_faults(schemas: Schemas, labels: Sequence[Any]) -> list[str]:
    """Targets of other names or kinds, and labels that differ in their spelling only."""
    targets = {owner: s["target"] for owner, s in schemas.items()}
    shapes = {owner: (t["name"], t["kind"]) for owner, t in targets.items()}
    given = list(shapes.values())
    usual = max(given, key=given.count)
    name, kind = usual
    faults = [
        f"  target: {owner} has {its_name!r} of {its_kind}, the others {name!r} of {kind}"
        for owner, (its_name, its_kind) in shapes.items()
        if (its_name, its_kind) != usual
    ]
    spelt: dict[str, tuple[Any, str]] = {}
    sources = [(owner, t["labels"]) for owner, t in targets.items()]
    sources.append(("the test file", labels))
    text = {owner: isinstance(known[0], str) for owner, known in sources if len(known)}
    wordy = [owner for owner, is_text in text.items() if is_text]
    if 0 < len(wordy) < len(text):
        faults.append(f"  label: {_listed(wordy)} writes text, the others numbers")
    for owner, known in sources:
        for label in known:
            plain = str(label).strip().casefold()
            before, whose = spelt.setdefault(plain, (label, owner))
            if (before, type(before)) != (label, type(label)):
                faults.append(f"  label: {owner} writes {label!r}, {whose} {before!r}")
    return faults


def _notes(schemas: Schemas, made: Agreement) -> tuple[str, ...]:
    """What differs and may be real: means far away, and labels that few have."""
    notes = []
    for name, center in made.center.items():
        for owner, schema in schemas.items():
            told = schema["columns"][name]
            away = abs(told["mean"] - center) / made.scale[name]
            if away > FAR and told["count"]:
                notes.append(
                    f"The mean of {name!r} of {owner} is {away:.0f} standard deviations away from "
                    "that of all: the same unit?"
                )
    for label in made.classes or ():
        have = [owner for owner, s in schemas.items() if label in s["target"]["labels"]]
        if len(have) == 1 and len(schemas) > 2:
            notes.append(f"Only {have[0]} has the label {label!r}.")
    return tuple(notes)


def _listed(names: Names) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
