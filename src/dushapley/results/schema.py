"""What stored results may hold: every field by type, range and length, checked before it is used.

A stored file is somebody else's text. A rule says of a thing what is wrong with it, in words, or
nothing; whoever reads a file raises its own error with them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from dushapley.arrays import AnyMapping
from dushapley.validation import MOST_COUNT, MOST_SEED, is_number, is_unicode, is_whole

Rule = Callable[[object, str], str | None]
"""(thing, where it stands) -> what is wrong with it, or None."""
MOST_OWNERS, MOST_TEXT = 1_000_000, 100_000
SOURCES = ("sampling", "training", "test set")
"""Where errors of values come from."""
FINITE = sys.float_info.max


def rule(is_right: Callable[[Any], bool], needed: str) -> Rule:
    """A rule by a condition, and what it asks for in words."""
    return lambda thing, where: None if is_right(thing) else wrong(thing, where, needed)


def wrong(thing: object, where: str, needed: str) -> str:
    """What stands there, and what should."""
    short = isinstance(thing, (str, int, float, type(None)))
    found = f"{thing!r:.60}" if short else f"a {type(thing).__name__}"
    return f"{where} is {found}, which must be {needed}"


def text(most: int = MOST_TEXT) -> Rule:
    """Text of whole characters, of at most this length."""
    return rule(
        lambda thing: isinstance(thing, str) and len(thing) <= most and is_unicode(thing),
        f"text of at most {most:,} characters",
    )


def number(largest: float = FINITE, least: float = -inf) -> Rule:
    """A finite number within these bounds."""
    low = max(least, -largest)
    return rule(
        lambda thing: is_number(thing, most=largest) and thing >= low,
        f"a number from {low:g} to {largest:g}",
    )


def whole(least: int = 0, most: int = MOST_COUNT) -> Rule:
    """A whole number within these bounds."""
    return rule(
        lambda thing: is_whole(thing, least, most), f"a whole number from {least} to {most:.4g}"
    )


def choice(*able: object) -> Rule:
    """One of these."""
    return rule(
        lambda thing: isinstance(thing, (str, bool, type(None))) and thing in able,
        f"one of {', '.join(map(repr, able))}",
    )


def optional(inner: Rule) -> Rule:
    """None, or what the other rule asks for."""
    return lambda thing, where: None if thing is None else inner(thing, where)


def listed(inner: Rule, count: int | None = None, most: int = MOST_OWNERS) -> Rule:
    """A list of so many things, each by a rule."""

    def fault(thing: object, where: str) -> str | None:
        counts = range(most + 1) if count is None else (count,)
        if not isinstance(thing, (list, tuple)) or len(thing) not in counts:
            length = f"at most {most:,}" if count is None else str(count)
            return wrong(thing, where, f"a list of {length} entries")
        return first(inner(item, f"{where}[{i}]") for i, item in enumerate(thing))

    return fault


def mapped(inner: Rule) -> Rule:
    """Things by name, each by the same rule."""
    return fields({}, rest=inner)


def fields(
    rules: Mapping[str, Rule], may: Mapping[str, Rule] | None = None, rest: Rule | None = None
) -> Rule:
    """These things by name, each by its own rule.

    Those of `may` can be lacking; without a rule for the `rest`, there must be no others.
    """
    known = {**rules, **(may or {})}
    needed = f"a mapping with {', '.join(rules)}" if rules else "a mapping from names"

    def fault(thing: object, where: str) -> str | None:
        if not isinstance(thing, Mapping) or not all(isinstance(key, str) for key in thing):
            return wrong(thing, where, needed)
        missing, unknown = sorted(rules.keys() - thing.keys()), sorted(thing.keys() - known.keys())
        if missing or (unknown and not rest):
            which = f"lacks {missing}" if missing else f"has unknown {unknown}"
            return f"{where or 'it'} {which:.300}"
        inside = ((known.get(key, rest), key, item) for key, item in thing.items())
        return first(
            check(item, f"{where}.{key:.40}".lstrip(".")) for check, key, item in inside if check
        )

    return fault


def plain(thing: object, where: str) -> str | None:
    """Whatever JSON can hold, its numbers finite."""
    if isinstance(thing, Mapping):
        return mapped(plain)(thing, where)
    if isinstance(thing, (list, tuple)):
        return listed(plain)(thing, where)
    if thing is None or isinstance(thing, (bool, str)):
        return None if not isinstance(thing, str) else text()(thing, where)
    return number()(thing, where)


def first(faults: Any) -> str | None:
    """The first fault of all, if there is one."""
    return next((fault for fault in faults if fault is not None), None)


def valuation_fault(data: AnyMapping, needed: Iterable[str]) -> str | None:
    """What is wrong with a stored valuation, of which these fields must be there; None: nothing."""
    owners = data.get("owners")
    n = len(owners) if isinstance(owners, (list, tuple)) else 0
    values, errors = listed(number(), n), listed(number(least=0), n)
    squares = listed(listed(number(), n), n)
    rules: dict[str, Rule] = {
        "format": text(100),
        "owners": listed(text(10_000)),
        "sizes": listed(number(least=0), n),
        "values": values,
        "std_errors": optional(errors),
        "covariance": optional(squares),
        "method": text(200),
        "n_evaluations": whole(),
        "n_distinct": optional(whole()),
        "n_computed": whole(),
        "n_trainings": whole(),
        "u_empty": number(),
        "u_full": number(),
        "seed": whole(most=MOST_SEED),
        "budget": optional(whole(2)),
        "precision": optional(number(1, 0)),
        "options": mapped(plain),
        "biased": choice(True, False),
        "complete": choice(True, False),
        "fingerprint": optional(text(1000)),
        "guarantee": optional(mapped(plain)),
        "failures": mapped(whole()),
        "errors": _errors(optional(errors), optional(squares)),
        "notes": listed(text()),
        "details": mapped(plain),
        "version": text(100),
    }
    if fault := fields({name: rules[name] for name in needed}, rules)(data, ""):
        return fault
    if not owners or len(set(owners)) < n:
        return "owners must be at least one, and all different"
    more = data["n_computed"] > data["n_evaluations"]
    return "n_computed is more than n_evaluations" if more else None


def _errors(errors: Rule, squares: Rule) -> Rule:
    """Errors by source: one for each owner, or for each two; the rest are words about them."""
    known = dict.fromkeys((*SOURCES, "total"), errors) | {"covariance": squares}
    named = fields({"dominant": optional(text(100))}, known, plain)
    return lambda thing, where: None if thing == {} else named(thing, where)
