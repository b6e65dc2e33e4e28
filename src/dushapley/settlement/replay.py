"""What a stored run was asked for, so that it can be asked again, and what ended it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray
from dushapley.engine.plan import Plan, choose_plan
from dushapley.errors import InvalidSettlement
from dushapley.estimators.registry import AUTO
from dushapley.games import Game
from dushapley.results.stopping import Replay, Stop, looks_at_clock, read_rule
from dushapley.results.valuation import Valuation

MOST_EVALUATIONS = 200_000
"""Evaluations that are computed again without being agreed to."""
UNUSED = 10_000
"""Evaluations that a settlement may grant its method without saying that they were made."""


def asked(stored: Valuation) -> dict[str, Any]:
    """What the run was asked for."""
    return {
        "method": stored.method_asked,
        "options": None if stored.method_asked == AUTO else dict(stored.options),
        "budget": stored.budget,
        "precision": stored.precision,
        "seed": stored.seed,
        "stop": replayed(stored),
        "known": learned_pools(stored),
    }


def replayed(stored: Valuation) -> Stop | None:
    """The rule that ended the run; of one that looked at the clock, as far as it can be asked."""
    ended = stored.details.get("stop")
    if ended is None:
        return None
    if not isinstance(ended, Mapping) or not isinstance(ended.get("rule"), str):
        raise InvalidSettlement("What ended its run is not recorded as it was written.")
    rule = read_rule(ended["rule"])
    if rule is not None and not looks_at_clock(rule):
        return rule
    return Replay(ended["rule"], bool(ended.get("met")), stored.n_evaluations, rule)


def stop_told(stored: Valuation) -> tuple[bool | None, str] | None:
    """Whether the rule that ended the run was asked again, and what is to be said of it."""
    rule = replayed(stored)
    if rule is None:
        return None
    if not isinstance(rule, Replay):
        return True, f"the rule {rule!r} was asked again"
    if rule.rule is None:
        return None, f"{rule!r:.200} is not a rule of this version, so nobody could ask it again"
    return None, f"no clock can be asked again: {rule!r} ends the run after as many evaluations"


def learned_pools(stored: Valuation) -> BoolArray | None:
    """The pools that the run began with, if it learned from a ledger."""
    learned = stored.details.get("learned")
    if learned is None:
        return None
    n = len(stored.owners)
    try:
        rows = [np.frombuffer(bytes.fromhex(row), dtype=np.uint8) for row in learned["members"]]
        packed = np.array(rows, dtype=np.uint8).reshape(len(rows), -(-n // 8))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSettlement(
            f"The pools that its run began with cannot be read ({error}). Use the settlement as "
            "it was written."
        ) from error
    return np.unpackbits(packed, axis=1, count=n).astype(np.bool_)


def refuse_endless(stored: Valuation, game: Game, most: int | None = None) -> Plan:
    """Refuse more evaluations than were agreed to, before any is paid; what would run."""
    wanted = asked(stored)
    plan = choose_plan(game, wanted["method"], wanted["options"], stored.budget)
    stated = stored.n_evaluations
    allowed = min(MOST_EVALUATIONS, max(UNUSED, 2 * stated)) if most is None else most
    needed = plan.budget + (0 if wanted["known"] is None else len(wanted["known"]))
    if needed > allowed:
        raise InvalidSettlement(
            f"To compute this settlement again, up to {needed:,} evaluations may be needed; "
            f"it says that {stated:,} were made. Agree with most_evaluations={needed} "
            "(--yes) if that is what it is worth."
        )
    return plan
