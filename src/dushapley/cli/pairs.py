"""Every two owners, after the values: who is redundant with whom, who needs whom."""

from __future__ import annotations

from dataclasses import replace

import dushapley as ds
from dushapley.cli import options as o
from dushapley.engine.plan import Plan
from dushapley.engine.value import Run
from dushapley.errors import DUShapleyError, Stopped
from dushapley.settlement.interactions import Interactions, found_by, method_of_pairs
from dushapley.terminal import printable, say


def pairs_cost(plan: Plan, means: o.Means) -> int:
    """Evaluations that --pairs may need beyond those of the values.

    None where the ledger has them all: `exact` and `gp` asked the very pools that interactions are
    made of.
    """
    return 0 if _asked_them(plan) and not means.no_ledger else plan.budget


def _asked_them(plan: Plan) -> bool:
    return plan.method.name in ("exact", "gp")


def measured_pairs(run: Run, result: ds.Valuation) -> Interactions | None:
    """Interactions from the pools of a run; None, and said why, where they could not be made."""
    try:
        return _from_pools_of(run, result)
    except KeyboardInterrupt:
        say("Pairs were not measured: it was stopped. Run again to go on.")
    except (DUShapleyError, Stopped) as error:  # the values are paid for, and are handed over
        say(printable(f"Pairs could not be measured: {error}"))
    return None


def _from_pools_of(run: Run, result: ds.Valuation) -> Interactions:
    game, plan = run.game, run.plan
    again = _asked_them(plan) and plan.formula is None
    learned = 0 if run.known is None else len(run.known)
    asked = result.n_evaluations - learned if again else plan.budget
    budget = None if game.cheap else max(asked, 2 * game.n_players + 2)
    with Run(
        game, method_of_pairs(game, plan.method.name if again else "auto", budget), budget=budget,
        seed=run.seed, n_jobs=run.n_jobs, executor=run.executor, address=run.address,
        ledger=run.ledger, known=run.known,
    ) as pairs:  # fmt: skip
        found = found_by(pairs.pay())
    new = tuple(note for note in found.valuation.notes if note not in result.notes)
    return replace(found, valuation=replace(found.valuation, notes=new))
