"""What must be said of a result: whether what was asked for was found, and how far to trust it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dushapley.arrays import BoolArray
from dushapley.engine.plan import Plan
from dushapley.estimators.semivalues import SHAPLEY
from dushapley.games.base import Game, is_scored
from dushapley.games.rows import DatasetGame
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.results.stopping import ENOUGH_REPLICATES, Standing, Stop, Values
from dushapley.results.uncertainty import ADAPTIVE, half_width, remedy
from dushapley.results.valuation import Valuation

DECIDES = 0.5
"""Part of the spread of the values that is made by pools worse than nobody's, from which on they
decide."""
WILD = (
    "Pools whose model is worse than none decide these values: without them owners would be told "
    'apart differently. If nobody would deploy such a model, pass at_least="empty" '
    "(--at-least empty), which counts those pools as nobody's data."
)
CHANCE = (
    "Another seed would train another model, or may. How much that moves the values, one training "
    "a pool cannot tell: repeated ones (ModelGame(..., repeats=3), --repeats 3) would measure it."
)
"""What must be said where training has an error of unknown size."""
UNPROBED = (
    "Whether another seed would train another model is not known: the budget leaves no room for "
    "probes (a tenth of it, fewer of them under limits; beside exact, what exceeds all "
    "coalitions). Raise it, or measure by "
    "repeated trainings (ModelGame(..., repeats=3), --repeats 3); in Python, ModelGame's parameter "
    "deterministic says so where training draws nothing at random."
)
PROBED = (
    "Training has a standard error of 0 because a second seed gave the very same models (pools "
    "probed: {}). That is evidence, not proof: no interval holds chance that shows in others only."
)
"""What must be said where training was found to be free of chance."""
UTILITY = {
    None: "Whether the utility draws at random is not known. If it does, DatasetGame(..., "
    "repeats=3) measures how far that moves the values; if not, deterministic=True says so.",
    False: "The utility draws at random: DatasetGame(..., repeats=3) measures how far that moves "
    "the values.",
}
"""The same of somebody's function, by what was said of it."""
MOST_GAP = 0.1
"""Part of the gain by which the values of an unbiased method may miss it without a note."""


def remarked(valuation: Valuation, game: Game, plan: Plan, known: BoolArray | None) -> Valuation:
    """A valuation with all that must be said of it.

    Parameters
    ----------
    valuation
        What was found.
    game, plan
        Of what, and how.
    known
        Pools that the run began with, if any.
    """
    if known is not None:
        valuation = _with_learned(valuation, known)
    said = (*_chance(valuation, game, plan), *_shortfall(valuation), *_wild(valuation, game))
    return replace(valuation, notes=(*valuation.notes, *said))


def _wild(valuation: Valuation, game: Game) -> tuple[str, ...]:
    """What must be said where pools worse than nobody's data decide the values."""
    share = valuation.details.get("below_empty", 0.0)
    if not is_scored(game) or share < DECIDES:
        return ()
    return (WILD,)


def _chance(valuation: Valuation, game: Game, plan: Plan) -> tuple[str, ...]:
    """What must be said of an error of training: why its size is unknown, or why it is 0."""
    probes = valuation.details.get("probes", {"same under another seed": False})
    if "training" not in valuation.unknown:
        same = probes["same under another seed"]
        return (PROBED.format(probes["trainings"]),) if same else ()
    if plan.method.is_adaptive:
        return (f"By {plan.method.name}: {ADAPTIVE[0].lower()}{ADAPTIVE[1:]}",)
    if game.training is not None and game.training.repeats > 1:
        return ()
    if isinstance(game, DatasetGame):
        return (UTILITY[game.stated],)
    return (UNPROBED if probes["same under another seed"] is None else CHANCE,)


def _with_learned(valuation: Valuation, pools: BoolArray) -> Valuation:
    """Record with which pools a run began."""
    bits = np.packbits(pools, axis=1)
    whole = digest("learned", bits)
    told = {"pools": len(pools), "digest": whole, "members": [row.tobytes().hex() for row in bits]}
    note = (
        f"gp began with {len(pools):,} pools that the ledger held of this game, whoever had paid "
        f"for them (digest {whole[:12]}); {valuation.n_evaluations - len(pools):,} more were asked."
    )
    return replace(
        valuation,
        notes=(*valuation.notes, note),
        details={**valuation.details, "learned": told},
    )


def _shortfall(valuation: Valuation) -> tuple[str, ...]:
    """What must be said of an unbiased method whose values do not add up, not even roughly."""
    due, gap = valuation.u_full - valuation.u_empty, valuation.efficiency_gap
    if valuation.options.get("semivalue", SHAPLEY) != SHAPLEY:  # which need not add up
        return ()
    if valuation.biased or abs(gap) <= max(MOST_GAP * abs(due), valuation.rounding):
        return ()
    return (
        f"The values add up to {valuation.values.sum():.3g} where {due:.3g} is due: the budget of "
        f"{valuation.n_evaluations:,} evaluations is too small for {valuation.method_run} to share "
        "out the gain. Raise it, or choose a method that adds up (gp, permutation).",
    )


def judged(
    valuation: Valuation, estimate: Estimate | None, rule: Stop | None, seconds: float
) -> Valuation:
    """Say so when what the run was to find was not found, and what would help.

    Parameters
    ----------
    valuation, estimate
        What was found, and what the method made of it.
    rule
        When the run was to end, if not by its budget.
    seconds
        How long it took.
    """
    if rule is None or estimate is None:
        return valuation
    total = valuation.total_errors
    certain = total is None and not valuation.unknown
    now = Standing(
        estimate.values,
        estimate.std_errors,
        total,
        valuation.total_covariance,
        rest=0.0,
        unknown=bool(valuation.unknown),
        replicates=estimate.replicates,
        evaluations=valuation.n_evaluations,
        seconds=seconds,
        fresh=True,
    )
    met = certain or rule.is_met(now)
    if valuation.precision is None:
        told = {"stop": {"rule": repr(rule), "met": met}}
        valuation = replace(valuation, details={**valuation.details, **told})
    if met:
        return valuation
    return replace(valuation, notes=(*valuation.notes, _unmet(valuation, estimate, rule)))


def _unmet(valuation: Valuation, estimate: Estimate, rule: Stop) -> str:
    """Why the run ended without what it was to find."""
    asked = (
        f"The wanted precision of {rule.precision:g} "
        if isinstance(rule, Values)
        else f"The rule {rule!r} "
    )
    if valuation.unknown:
        unknown = f"cannot be judged: the error is {valuation.interval_meaning}. "
        return f"{asked}{unknown}{remedy(valuation)}"
    if isinstance(rule, Values):
        return asked + _shortage(valuation, rule.precision, estimate)
    evaluations = f"{valuation.n_evaluations:,} evaluations"
    return f"{asked}was not met within {evaluations}; raise the budget, or ask for less."


def _shortage(valuation: Valuation, wish: float, estimate: Estimate) -> str:
    """Why a precision was not reached: for lack of evaluations, or by what they cannot remove."""
    spread = float(np.ptp(valuation.values)) or 1.0
    fixed = np.zeros(1)
    for name in ("training", "test set"):
        fixed = fixed + np.square(valuation.errors.get(name) or [0.0])
    rest, total = (
        half_width(float(np.max(errors))) / spread
        for errors in (np.sqrt(fixed), valuation.total_errors)
        if errors is not None
    )
    evaluations = f"{valuation.n_evaluations:,} evaluations"
    if total <= wish:  # so what is missing is trust in it
        few = f"{estimate.replicates} replicates" if estimate.replicates else evaluations
        return (
            f"is met by ±{total:.2g}, but that rests on {few}, too few to be relied on "
            f"({ENOUGH_REPLICATES} replicates are); raise the budget."
        )
    if rest <= wish:
        return f"was not reached within {evaluations} (±{total:.2g} was); raise the budget."
    larger = max(("training", "test set"), key=lambda s: max(valuation.errors.get(s) or [0.0]))
    help_ = "more test rows would" if larger == "test set" else "more repeats would"
    return (
        f"is out of reach: training and test set alone leave ±{rest:.2g} of the spread of the "
        f"values, which more evaluations cannot remove; {help_}. The run ended after {evaluations} "
        f"with ±{total:.2g}."
    )
