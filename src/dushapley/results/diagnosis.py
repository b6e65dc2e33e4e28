"""Why an owner's data is worth what it is: what was measured, and the sentences that follow.

Plain data, stored in the settlement under its seal. `dushapley.engine.diagnosis` measures it; a
report only reads it, and trains nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dushapley.arrays import AnyDict, AnyMapping
from dushapley.errors import InvalidValuation
from dushapley.results.schema import Rule, choice, fields, listed, number, optional, text, whole

FORMAT = "dushapley.diagnosis/2"
OLDER = ("dushapley.diagnosis/1",)
"""Earlier ways to measure: read, and not to be measured again."""
Interval = tuple[float, float, float]
"""A measured number and the ends of its 95% interval."""
Range = tuple[float, float]
"""From the smallest to the largest among the other owners."""
CODES = {
    "units": "columns are written in other units",
    "target": "the target is written in other words or units",
    "labels": "labels disagree with what the others would predict",
    "rows": "its rows are of another kind than the others'",
    "common": "a label is more or less common than with the others",
    "shared": "it shares rows with others",
    "tested": "it holds rows of the test set",
    "small": "it has few rows",
    "unknown": "what cannot be told",
    "alike": "nothing sets it apart",
    "size": "how far its value follows from its number of rows",
    "pools": "whether it helps small pools or large ones",
}
"""Reasons by their codes, in the order in which they are given."""
ACCUSING = ("units", "target", "labels", "rows")
"""Reasons that say that something may be wrong with an owner's data, or foreign to the others'."""


@dataclass(frozen=True)
class Reason:
    """One sentence of why, and the code of what it says (see `CODES`)."""

    code: str
    text: str

    @property
    def accuses(self) -> bool:
        """Whether it says that something may be wrong with, or foreign in, the owner's data."""
        return self.code in ACCUSING


@dataclass(frozen=True)
class Column:
    """A column that an owner writes differently: its middle value here and among the others."""

    name: str
    here: float
    others: float


@dataclass(frozen=True)
class Shared:
    """Rows, targets included, that another owner holds as well, beside what chance would give."""

    owner: str
    rows: int
    chance: float


@dataclass(frozen=True)
class OwnerDiagnosis:
    """What was measured of one owner. None: it could not be, `reasons` says why.

    Attributes
    ----------
    owner
        Its name.
    reasons
        Sentences that follow, the weightiest first; at least one.
    disagreement
        Part of its rows on which a model of all others' rows predicts another label (of numbers:
        misses by more than is usual).
    wrong
        Part of its labels that look wrong, once rows that are hard to predict and labels that are
        common here are allowed for; of numbers, by how much less than predictions they rise. An
        estimate, held within 0 and 1.
    reach
        Part of the others' rows whose labels a model of its rows alone predicts.
    difference
        Area under the curve of a classifier told to tell its rows from the others', judged on rows
        that it did not see: 0.5 for rows alike, 1 for rows that never look alike.
    usual_disagreement, usual_wrong, usual_reach, usual_difference
        From the smallest to the largest of the same among the other owners, but for those who
        stand out and those of few rows.
    columns
        Columns that look written in other units.
    shared
        With whom it shares more rows than chance explains.
    tested
        How many rows of the test set it holds.
    by_size
        What its value would be if only the number of rows mattered.
    first_gain, last_gain
        What it adds to nobody's data, and to all others': whether small pools need it, or large.
    """

    owner: str
    reasons: tuple[Reason, ...]
    disagreement: Interval | None = None
    wrong: Interval | None = None
    reach: Interval | None = None
    difference: Interval | None = None
    usual_disagreement: Range | None = None
    usual_wrong: Range | None = None
    usual_reach: Range | None = None
    usual_difference: Range | None = None
    columns: tuple[Column, ...] = ()
    shared: tuple[Shared, ...] = ()
    tested: int | None = None
    by_size: float | None = None
    first_gain: float | None = None
    last_gain: float | None = None

    @property
    def accused(self) -> bool:
        """Whether some reason says that something may be wrong with its data."""
        return any(reason.accuses for reason in self.reasons)


@dataclass(frozen=True)
class Matrix:
    """Trained on one owner's rows, tested on another's: how often labels are predicted.

    Attributes
    ----------
    tested_on
        Names of the columns: all owners, and "test set" where there is one.
    agreement
        One row for each owner whose rows a model was trained on; None where it could not be.
    """

    tested_on: tuple[str, ...]
    agreement: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Alternative:
    """Values under another model or score.

    Attributes
    ----------
    model, scoring
        Their names.
    u_empty, u_full
        What nobody's and everybody's data score.
    values
        One per owner.
    """

    model: str
    scoring: str
    u_empty: float
    u_full: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class Diagnosis:
    """Why everybody's data is worth what it is.

    Attributes
    ----------
    task
        "classification" or "regression"; None where owners handed over sums, or nothing trains.
    target
        Name of the column that is predicted, where it has one.
    trainings
        How many it took at most, counted apart from the budget of the values.
    owners
        One diagnosis per owner, in the order of the valuation.
    matrix
        Trained on one owner, tested on another; None where it was not measured.
    alternatives
        Values under each model and score that was named, the one that pays first; empty where only
        one was.
    notes
        What else is to be known: a model that would do better, what could not be measured.
    format
        How it was measured, and is stored.
    """

    task: str | None
    target: str | None
    trainings: int
    owners: tuple[OwnerDiagnosis, ...]
    matrix: Matrix | None = None
    alternatives: tuple[Alternative, ...] = ()
    notes: tuple[str, ...] = ()
    format: str = FORMAT

    def of(self, owner: str) -> OwnerDiagnosis:
        """The diagnosis of one owner."""
        return next(one for one in self.owners if one.owner == owner)

    def to_dict(self) -> AnyDict:
        """Plain JSON types."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, data: AnyMapping) -> Diagnosis:
        """Read back what `to_dict` wrote."""
        if fault := diagnosis_fault(data):
            raise InvalidValuation(f"The stored diagnosis cannot be read: {fault}.")
        plain = _frozen(data)
        matrix = plain["matrix"]
        made = {
            "owners": tuple(map(_owner, plain["owners"])),
            "matrix": None if matrix is None else Matrix(**matrix),
            "alternatives": tuple(Alternative(**one) for one in plain["alternatives"]),
        }
        return cls(**plain | made)


def _owner(data: AnyDict) -> OwnerDiagnosis:
    made = {
        "reasons": tuple(Reason(**one) for one in data["reasons"]),
        "columns": tuple(Column(**one) for one in data["columns"]),
        "shared": tuple(Shared(**one) for one in data["shared"]),
    }
    return OwnerDiagnosis(**data | made)


def _frozen(item: Any) -> Any:
    """Lists as tuples."""
    if isinstance(item, Mapping):
        return {name: _frozen(part) for name, part in item.items()}
    return tuple(map(_frozen, item)) if isinstance(item, (list, tuple)) else item


_NUMBER, _NAME = number(), text(10_000)
_INTERVAL, _RANGE = optional(listed(_NUMBER, 3)), optional(listed(_NUMBER, 2))
_REASON = fields({"code": choice(*CODES), "text": text(10_000)})
_MEASURED = ("disagreement", "wrong", "reach", "difference")
_OWNER: dict[str, Rule] = {
    "owner": _NAME,
    "reasons": listed(_REASON, most=100),
    **dict.fromkeys(_MEASURED, _INTERVAL),
    **{f"usual_{name}": _RANGE for name in _MEASURED},
    "columns": listed(fields({"name": _NAME, "here": _NUMBER, "others": _NUMBER})),
    "shared": listed(fields({"owner": _NAME, "rows": whole(), "chance": _NUMBER})),
    "tested": optional(whole()),
    **dict.fromkeys(("by_size", "first_gain", "last_gain"), optional(_NUMBER)),
}
_CELLS = listed(listed(optional(_NUMBER)))
_ALTERNATIVE = fields(
    {
        "model": _NAME,
        "scoring": _NAME,
        "u_empty": _NUMBER,
        "u_full": _NUMBER,
        "values": listed(_NUMBER),
    }
)
_DIAGNOSIS = fields(
    {
        "format": choice(FORMAT, *OLDER),
        "task": choice("classification", "regression", None),
        "target": optional(_NAME),
        "trainings": whole(),
        "owners": listed(fields(_OWNER)),
        "matrix": optional(fields({"tested_on": listed(_NAME), "agreement": _CELLS})),
        "alternatives": listed(_ALTERNATIVE, most=1000),
        "notes": listed(text()),
    }
)


def diagnosis_fault(data: object, owners: Sequence[str] | None = None) -> str | None:
    """What is wrong with a stored diagnosis (of these owners); None: nothing."""
    fault = _DIAGNOSIS(data, "diagnosis")
    if fault or not isinstance(data, Mapping):
        return fault
    names = [one["owner"] for one in data["owners"]]
    n = len(names)
    if owners is not None and names != list(owners):
        return "diagnosis.owners are not the owners of the valuation"
    if len(set(names)) < n or not all(one["reasons"] for one in data["owners"]):
        return "diagnosis.owners must all be different, each with a reason"
    matrix = data["matrix"] or {"tested_on": (), "agreement": ()}
    rows, width = matrix["agreement"], len(matrix["tested_on"])
    wrong = any(len(row) != width for row in rows) or len(rows) not in (0, n)
    if wrong or any(len(one["values"]) != n for one in data["alternatives"]):
        return "diagnosis has lists whose lengths do not fit the owners"
    return None
