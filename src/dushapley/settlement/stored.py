"""A settlement as it was stored: read strictly, every field checked before anything is computed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dushapley.arrays import AnyMapping, FloatArray
from dushapley.data.files import RECORDED, PathLike
from dushapley.errors import InvalidSettlement
from dushapley.results.diagnosis import diagnosis_fault
from dushapley.results.schema import (
    Rule,
    choice,
    fields,
    first,
    listed,
    mapped,
    number,
    optional,
    plain,
    rule,
    text,
    whole,
)
from dushapley.settlement.money import RULES, is_cap, is_floor
from dushapley.validation import LARGEST, read_json

FORMAT = "dushapley.settlement/2"
BOUNDS = ("low", "high")
"""Ends of the interval of a payment: known for all owners, or for none."""
MOST_LINES = 100_000
"""Owners of one settlement: what is wider would take minutes to read."""
AMOUNT = rule(
    lambda thing: (
        isinstance(thing, str) and re.fullmatch(r"-?[0-9]{1,40}(\.[0-9]{1,18})?", thing) is not None
    ),
    "an amount like '100.00'",
)
_WAY = rule(
    lambda thing: thing is None or (isinstance(thing, (str, int)) and len(str(thing)) <= 200),
    "a few letters or a number",
)
_INPUT = fields(
    {"name": text(1000), "role": text(100), "sha256": text(64)},
    {"read": fields({}, dict.fromkeys(RECORDED, _WAY))},  # what is honoured when it is read again
)
RECORD: dict[str, Rule] = {
    "inputs": listed(_INPUT),
    "versions": mapped(text(100)),
    "command": text(),
    "job": mapped(plain),
    "findings": listed(mapped(plain)),
    "about": mapped(text(1000)),
    "growth": fields(
        {
            "more": number(least=0),
            "seed": whole(most=2**128),
            "evaluations": whole(),
            "trainings": whole(),
            "values": listed(number()),
            "std_errors": optional(listed(number(least=0))),
        }
    ),
}
"""What is known of the record; a caller may have added more."""
LINE = fields(
    {
        "owner": text(10_000),
        "payment": AMOUNT,
        "low": optional(AMOUNT),
        "high": optional(AMOUNT),
        "by_size": AMOUNT,
    }
)
SETTLEMENT = fields(
    {
        "format": choice(FORMAT),
        "pot": AMOUNT,
        "currency": text(12),
        "decimals": whole(0, 18),
        "negative": choice(*RULES),
        "floor": optional(rule(is_floor, "a part from 0 to 1")),
        "rule": text(1000),
        "interval": text(1000),
        "payments": listed(LINE, most=MOST_LINES),
        "valuation": rule(lambda thing: isinstance(thing, Mapping), "a valuation"),
        "record": fields({}, RECORD, plain),
        "seal": text(100),
    },
    {
        "cap": rule(is_cap, "a number from 0 to 1000, or 'none'"),
        "diagnosis": rule(lambda thing: isinstance(thing, Mapping), "a diagnosis"),
    },
)
KINDS = {
    "dushapley.valuation/1": "a valuation: it says what everybody's data is worth, and shares no "
    "money. Share a pot by it (`--pot`, dushapley.settle), and verify the settlement",
    "dushapley.statistics/1": "owners' sums",
    "dushapley.settlement/1": "one of an earlier version, which named games otherwise. Verify it "
    "with the version that wrote it, or settle again",
}
"""What else may have been meant, by its format."""


def read_stored(path: PathLike) -> Any:
    """The data of a settlement file; what is not one is told apart."""
    data = read_json(path, "settlement", "when the pot was shared", InvalidSettlement)
    refuse_unreadable(data, os.fspath(path))
    return data


def refuse_unreadable(data: object, name: str = "It") -> None:
    """Refuse data that is not a settlement, naming the first field that is not what it must be."""
    form = data.get("format") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or form != FORMAT:
        found = KINDS.get(form) if isinstance(form, str) else None
        shape = f"JSON, {'an object' if isinstance(data, Mapping) else 'but not an object'}"
        stated = f"with the format {form!r:.60}" if form is not None else 'without a "format"'
        raise InvalidSettlement(
            f"{name} is not a settlement of this version; it is {found or f'{shape} {stated}'}. It "
            f"must be the file that was written when a pot was shared, with the format {FORMAT!r}."
        )
    if fault := first(_faults(data)):
        raise InvalidSettlement(
            f"{name} cannot be read as a settlement: {fault}. Use the file as it was written, or "
            "settle again."
        )


def _faults(data: AnyMapping) -> Iterator[str | None]:
    """What is wrong, field by field and then between fields, as far as anybody asks."""
    yield SETTLEMENT(data, "")
    lines, record = data["payments"], data["record"]
    owners = data["valuation"].get("owners")  # if it is no list, the valuation's rules say so
    known = owners if isinstance(owners, (list, tuple)) else None
    if known is not None and len(known) != len(lines):
        yield "payments do not have one line for each owner"
    if "diagnosis" in data:
        yield diagnosis_fault(data["diagnosis"], known)
    if "cap" in data and data["negative"] != "charge":
        yield f"the rule {data['negative']!r} has no cap"
    grown = record.get("growth", {"values": lines, "std_errors": None})
    if any(len(grown[name] or lines) != len(lines) for name in ("values", "std_errors")):
        yield "record.growth does not have one number for each owner"
    if len({line[bound] is None for line in lines for bound in BOUNDS}) > 1:
        yield "some payments have an interval and others have none"


def refuse_extreme(name: str, array: FloatArray | None) -> None:
    """Refuse values whose squares are infinite: no interval of any payment follows from them."""
    largest = 0.0 if array is None else abs(array).max(initial=0.0)
    if largest > LARGEST:
        raise InvalidSettlement(
            f"{name} are as large as {largest:.3g}; payments need numbers up to {LARGEST:g}. "
            "Divide the utility by a constant, and value again."
        )
