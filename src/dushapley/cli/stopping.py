"""Rules for stopping, as they are typed: ``payments 0.1 and ranking 0.95 top 3 or seconds 600``."""

from __future__ import annotations

import re

from dushapley.errors import InvalidOption
from dushapley.results.stopping import Payments, Ranking, Seconds, Stop, Values
from dushapley.validation import suggestion

RULES = {"values": Values, "payments": Payments, "ranking": Ranking, "seconds": Seconds}
EXAMPLE = "'payments 0.1 and ranking 0.95 top 3 or seconds 600'"
_ONE = re.compile(r"(\w+)[\s=]+([\d.eE+-]+)(?:,?\s+top[\s=]+(\d+))?")


def stop_rule(text: str | None, precision: float | None = None) -> Stop | None:
    """The rule that this text says; `and` binds closer than `or`.

    Examples
    --------
    >>> stop_rule("values 0.05 and ranking 0.9 top 2 or seconds 60")
    ((Values(0.05) & Ranking(0.9, top=2)) | Seconds(60))
    """
    if text is None:
        return None
    if precision is not None:
        raise InvalidOption(
            f"Found --precision {precision:g} and --stop {text!r}. Put the precision into the "
            f"rule: --stop 'values {precision:g} and ...'."
        )
    either: Stop | None = None
    for part in re.split(r"\s+or\s+|\|", text.strip()):
        both: Stop | None = None
        for one in re.split(r"\s+and\s+|&", part.strip()):
            rule = _rule(one.strip(), text)
            both = rule if both is None else both & rule
        assert both is not None
        either = both if either is None else either | both
    return either


def _rule(one: str, text: str) -> Stop:
    found = _ONE.fullmatch(one)
    name = (found[1] if found else one.split(" ")[0].split("=")[0]).lower()
    hint = "" if name in RULES else suggestion(name, tuple(RULES))
    refusal = InvalidOption(
        f"--stop {text!r} has {one!r} where a rule was needed.{hint} Rules are values, payments, "
        f"ranking (top N) and seconds, each with its number, joined by and / or: {EXAMPLE}."
    )
    if found is None or name not in RULES or (found[3] and name != "ranking"):
        raise refusal
    try:
        number = float(found[2])
    except ValueError:
        raise refusal from None
    return Ranking(number, int(found[3])) if found[3] else RULES[name](number)
