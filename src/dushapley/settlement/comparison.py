"""Where what is stored and what is computed again part ways, and how that is told.

Numbers may differ by what another machine's arithmetic explains, and no more: by a billionth of
themselves, or of the scale of whatever they are differences of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isclose
from typing import Any

from dushapley.results.valuation import Valuation

TOLERANCE = 1e-9
"""Relative difference that another machine's arithmetic may explain."""
Place = tuple[str | int, ...]
"""Names and positions that lead to an entry."""
Slack = Callable[[Place], float]
"""Absolute difference that rounding explains, by place."""
GAINS = ("first_gain", "last_gain", "by_size")
"""What of a diagnosis is a difference of utilities."""
OWN_SCALE = ("columns", "shared")
"""What of a diagnosis has a scale of its own; all else are parts and chances, from 0 to 1."""
WORDS: dict[Place, str] = {
    ("payments", 0): "the payment of {}",
    ("payments", 0, "payment"): "the payment of {}",
    ("payments", 0, "low"): "the lower end of the payment of {}",
    ("payments", 0, "high"): "the upper end of the payment of {}",
    ("payments", 0, "by_size"): "the payment by size of {}",
    ("payments", 0, "owner"): "the name beside the payment of {}",
    ("values", 0): "the value of {}",
    ("std_errors", 0): "the standard error of {}",
    ("sizes", 0): "the number of rows of {}",
    ("covariance", 0, 0): "the covariance of {} and {}",
    ("errors", "covariance", 0, 0): "the covariance of {} and {}",
    ("errors", "sampling", 0): "the error by sampling of {}",
    ("errors", "training", 0): "the error by training of {}",
    ("errors", "test set", 0): "the error by the test set of {}",
    ("u_full",): "the score of everybody's data (u_full)",
    ("u_empty",): "the score of nobody's data (u_empty)",
    ("n_evaluations",): "the number of evaluations",
    ("n_distinct",): "the number of different evaluations",
    ("interval",): "what the intervals are said to hold",
    ("details", "stopped_at"): "the number of evaluations at which the run ended",
    ("owners", 0, "first_gain"): "what {} adds to nobody's data",
    ("owners", 0, "last_gain"): "what {} adds to all others' data",
    ("owners", 0, "by_size"): "what the rows of {} alone would be worth",
    ("growth", "values", 0): "what more rows of {} would add",
    ("growth", "std_errors", 0): "the error of what more rows of {} would add",
}
"""Places in words; 0 stands for any owner's position, {} for its name."""
NUMBER = re.compile(r"-?[0-9.,]+")


def first_difference(
    one: Any,
    other: Any,
    where: Place = (),
    tolerance: float = 0.0,
    slack: Slack | None = None,
    owners: Sequence[str] = (),
) -> str | None:
    """Where two plain structures differ first, in words; None if they are the same.

    Examples
    --------
    >>> first_difference({"values": [1.0, 2.5]}, {"values": [1.0, 2.0]}, owners=["north", "south"])
    "the value of 'south' is 2.5, computed again 2.0"
    """
    found = _differing(one, other, where, tolerance, slack or (lambda _: 0.0))
    if found is None:
        return None
    place, stored, again = found
    return f"{place_in_words(place, owners)} is {_told(stored)}, computed again {_told(again)}"


def _differing(
    one: Any, other: Any, where: Place, tolerance: float, slack: Slack
) -> tuple[Place, Any, Any] | None:
    parts: list[tuple[Any, Any, str | int]]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        parts = [(one.get(k), other.get(k), str(k)) for k in sorted({*one, *other}, key=str)]
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            return where, one, other
        parts = [(a, b, i) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        numbers = all(isinstance(thing, (float, Decimal)) for thing in (one, other))
        near = numbers and isclose(one, other, rel_tol=tolerance, abs_tol=slack(where))
        return None if one == other or near else (where, one, other)
    found = (_differing(a, b, (*where, step), tolerance, slack) for a, b, step in parts)
    return next(filter(None, found), None)


def place_in_words(where: Place, owners: Sequence[str] = ()) -> str:
    """A place as whoever reads a verdict would call it: by owners' names, not by positions.

    Examples
    --------
    >>> place_in_words(("payments", 1, "low"), ["north", "south"])
    "the lower end of the payment of 'south'"
    >>> place_in_words(("details", "trail", 3))
    'details, trail, entry 4'
    """
    where = where[1:] if where[:1] == ("valuation",) and len(where) > 1 else where
    steps = [step for step in where if isinstance(step, int)]
    known = WORDS.get(tuple(0 if isinstance(step, int) else step for step in where))
    if known is not None and all(step < len(owners) for step in steps):
        return known.format(*(repr(owners[step]) for step in steps))
    if where[:1] == ("owners",) and len(where) > 2 and steps[0] < len(owners):
        return f"{_steps(where[2:])} of {owners[steps[0]]!r}"
    return _steps(where) or "it"


def _steps(where: Place) -> str:
    named = (f"entry {s + 1}" if isinstance(s, int) else s.replace("_", " ") for s in where)
    return ", ".join(named)[:500]


def _told(thing: Any) -> str:
    """Plain data in words, however large it is."""
    if thing is None:
        return "missing"
    if isinstance(thing, (Mapping, list, tuple)):
        return f"{len(thing):,} entries" if len(thing) != 1 else "1 entry"
    if isinstance(thing, bool):
        return "true" if thing else "false"
    is_amount = isinstance(thing, (str, Decimal)) and NUMBER.fullmatch(str(thing))
    return str(thing) if is_amount else f"{thing!r:.300}"


def scale_of(valuation: Valuation) -> float:
    """How large differences of utilities are: one near 0 is rounded like the largest of them."""
    return float(abs(valuation.values).max(initial=abs(valuation.u_full - valuation.u_empty)))


def rounding_of(again: Valuation, *, reasons: bool = False) -> Slack:
    """What rounding may do to a number of a valuation, or of its reasons, at the scale of values.

    Values, errors and gains are differences of utilities; all other reasons are parts, of scale 1,
    or have a scale of their own. Everything else is compared with itself alone.
    """
    scale = scale_of(again)

    def slack(where: Place) -> float:
        if where[:1] == ("covariance",) or where[:2] == ("errors", "covariance"):
            return TOLERANCE * scale**2
        if where[:1] in (("values",), ("std_errors",), ("errors",)) or {*GAINS} & {*where}:
            return TOLERANCE * scale
        return TOLERANCE if reasons and not {*OWN_SCALE} & {*where} else 0.0

    return slack
