"""What must be said of a result: whether what was asked for was found, and how far to trust it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.method import Method
from dushapley.estimators.semivalues import SHAPLEY
from dushapley.games.base import Game, is_scored
from dushapley.games.rows import DatasetGame
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.results.uncertainty import (
    ADAPTIVE,
    ENOUGH_REPLICATES,
    half_width,
    is_within,
    remedy,
)
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


def remarked(
    valuation: Valuation, game: Game, method: Method, known: BoolArray | None
) -> Valuation:
    """A valuation with all that must be said of it.

    Parameters
    ----------
    valuation
        What was found.
    game, method
        Of what, and how.
    known
        Pools that the run began with, if any.
    """
    if known is not None:
        valuation = _with_learned(valuation, known)
    wild = is_scored(game) and valuation.details.get("below_empty", 0.0) >= DECIDES
    said = (*_chance(valuation, game, method), *_shortfall(valuation), *((WILD,) if wild else ()))
    return replace(valuation, notes=(*valuation.notes, *said))


def _chance(valuation: Valuation, game: Game, method: Method) -> tuple[str, ...]:
    """What must be said of an error of training: why its size is unknown, or why it is 0."""
    probes = valuation.details.get("probes", {"same under another seed": False})
    if "training" not in valuation.unknown:
        same = probes["same under another seed"]
        return (PROBED.format(probes["trainings"]),) if same else ()
    if method.is_adaptive:
        return (f"By {method.name}: {ADAPTIVE[0].lower()}{ADAPTIVE[1:]}",)
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
    valuation: Valuation, estimate: Estimate, precision: float | None, *, ended: bool
) -> Valuation:
    """Say so when what the run was to find was not found, and what would help.

    Parameters
    ----------
    valuation, estimate
        What was found, and what the method made of it.
    precision
        What was to end the run before its budget; None where something else was.
    ended
        Whether that ended it.
    """
    details = valuation.details
    if precision is None:
        details = {**details, "stopped_at": valuation.n_evaluations}
    said = _missed(valuation, estimate, precision, ended=ended)
    return replace(valuation, notes=(*valuation.notes, *said), details=details)


def _missed(
    valuation: Valuation, estimate: Estimate, wish: float | None, *, ended: bool
) -> tuple[str, ...]:
    """Why what the run was to find was not found, if it was not."""
    asked = (
        "The test that was to end the run" if wish is None else f"The wanted precision of {wish:g}"
    )
    total = valuation.total_errors
    if valuation.unknown:
        meaning = valuation.interval_meaning
        return (f"{asked} cannot be judged: the error is {meaning}. {remedy(valuation)}",)
    if total is None:
        return ()
    if wish is None:
        if ended or valuation.is_enumerated:  # there is nothing left to ask
            return ()
        spent = f"its budget of {valuation.n_evaluations:,} evaluations did"
        return (f"{asked} did not; {spent}. Raise it, or ask for less.",)
    if is_within(replace(estimate, std_errors=total), wish):
        return ()
    return (f"{asked} {_shortage(valuation, wish, estimate, total)}",)


def _shortage(
    valuation: Valuation, wish: float, estimate: Estimate, total_errors: FloatArray
) -> str:
    """Whether evaluations were lacking, or the rest is what they cannot remove."""
    spread = float(np.ptp(valuation.values)) or 1.0
    fixed = np.zeros(1)
    for name in ("training", "test set"):
        fixed = fixed + np.square(valuation.errors.get(name) or [0.0])
    rest, total = (
        half_width(float(np.max(errors))) / spread for errors in (np.sqrt(fixed), total_errors)
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
