"""How sure we are, in sentences: what was checked, what was found, and whether to worry."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import AnyDict, IntArray
from dushapley.report.wording import percent, plural
from dushapley.results.uncertainty import (
    certainty,
    half_width,
    known_to,
    remedy,
    root_mean_square,
)
from dushapley.results.valuation import Valuation
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import error_text

SOURCES = {
    "sampling": "not all pools were tried",
    "training": "another random seed would train another model",
    "test set": "another test set of this size would score differently",
}
WITHOUT = {"sampling": "all pools were tried", "training": "another seed trains the same model"}
"""Why a source has no error."""
REMEDIES = {
    "sampling": "Most of that is sampling: a larger budget would narrow it.",
    "training": "Most of that is chance in training: more repeats would narrow it.",
    "test set": "Most of that is the test set: more test rows would narrow it.",
}
FINE = 0.1
"""Error as a part of the values below which they count as well known."""
GIANT = 0.4
"""An owner with more than this part of all rows is called very large."""
STRIKING, NEIGHBOURS = 3.0, 15
"""Standard deviations that count as another quality, from the mean of so many nearest pools."""


def checks(valuation: Valuation, settlement: Settlement | None = None) -> list[AnyDict]:
    """Each check: its name, whether it is good, worth a look or unknown, and a sentence."""
    found = [_errors(valuation, settlement), _efficiency(valuation)]
    if not valuation.complete:
        found.insert(0, _check("Finished", "look", "The run was stopped early; values will move."))
    for more in (_stable, _pooling, _forecasts, _failures):
        found += more(valuation)
    return found


def sources(valuation: Valuation) -> list[AnyDict]:
    """Standard errors by where they come from, where the run could tell them apart."""
    if not valuation.errors:
        return []
    rows = []
    for name, meaning in SOURCES.items():
        errors = valuation.errors.get(name)
        text = "unknown"
        if errors is not None:
            typical = half_width(root_mean_square(errors))
            text = f"±{error_text(typical)}"
            if typical == 0:
                text, meaning = "none", WITHOUT.get(name, meaning)
        rows.append(
            {
                "name": name,
                "text": text,
                "meaning": meaning,
                "dominant": valuation.errors.get("dominant") == name,
            }
        )
    return rows


def _check(name: str, state: str, text: str) -> AnyDict:
    return {"name": name, "state": state, "text": text}


def _errors(valuation: Valuation, settlement: Settlement | None) -> AnyDict:
    """How well values, or payments, are known, in parts of themselves: not of their spread.

    One owner of very bad data stretches the spread, and leaves the others no better known.
    """
    if valuation.unknown:
        return _check(
            "Error",
            "unknown",
            f"The error of these values is {valuation.interval_meaning}. {remedy(valuation)}",
        )
    if valuation.total_errors is None:
        return _check("Error", "good", "All coalitions count: no error of sampling is left.")
    if not valuation.total_errors.any():
        return _check("Error", "good", "No error was found.")
    if settlement is not None and settlement.low is None:
        return _check(
            "Error",
            "look",
            "Any payment is plausible: it is not sure that there is a gain to share.",
        )
    parts = known_to(valuation.values, half_width(valuation.total_errors))
    if parts is None:
        return _check("Error", "unknown", "No value is positive: there is nothing to compare to.")
    text = f"Values are known to {certainty(parts)}, 95%."
    if settlement is not None and settlement.certainty:
        text = f"Payments{settlement.certainty.removeprefix('payments')}, 95%."
    if valuation.biased:
        text += " This leaves out a bias that the method has and cannot see."
    fine, dominant = parts[0] < FINE, valuation.errors.get("dominant")
    if dominant and not fine:
        text += f" {REMEDIES[dominant]}"
    return _check("Error", "good" if fine and not valuation.biased else "look", text)


def _efficiency(valuation: Valuation) -> AnyDict:
    total, gap = valuation.u_full - valuation.u_empty, valuation.efficiency_gap
    if abs(total) <= valuation.rounding:
        return _check(
            "Adds up", "look", "Everybody’s data bring no gain: there is nothing to share."
        )
    relative = abs(gap / total)
    if relative < 1e-9:
        return _check("Adds up", "good", "The values add up to the gain exactly.")
    more = "more" if gap > 0 else "less"
    text = f"The values add up to {percent(relative)} {more} than the gain there is to share."
    return _check("Adds up", "good" if relative < 0.02 else "look", text)


def _stable(valuation: Valuation) -> list[AnyDict]:
    """Whether the last half of the questions still moved the values."""
    history = (valuation.details.get("trail") or {}).get("history")
    if history is None or len(history["asked"]) < 4:
        return []
    asked = np.array(history["asked"])
    half = int(np.argmin(abs(asked - asked[-1] / 2)))
    values = np.array(history["values"], dtype=np.float64)
    spread = float(np.ptp(valuation.values)) or 1.0
    moved = root_mean_square(values[-1] - values[half]) / spread
    text = f"The second half of the questions moved the values by {percent(moved)} of their spread."
    return [_check("Settled", "good" if moved < 0.05 else "look", text)]


def _pooling(valuation: Valuation) -> list[AnyDict]:
    """Whether the answers agree with DU-Shapley, to which all rows are rows of one pool."""
    if valuation.method_run not in ("du", "du++"):
        return []
    largest = valuation.sizes.max() / max(valuation.sizes.sum(), 1e-300)
    text = f"One owner holds {percent(largest, 0)} of all rows; DU-Shapley is poor at that."
    sizes = [_check("Sizes", "look", text)] if largest > GIANT else []
    odd = unlike_the_pool(valuation)
    if odd is None:
        return [*sizes, _check("Pooling", "unknown", "Quality differences could not be checked.")]
    if len(odd):
        data = plural(len(odd), "owner’s data are", "owners’ data are")
        text = (
            f"{data} worth clearly more or less than as many pooled rows. DU-Shapley’s pooling "
            "hides such differences among the others: do not rely on it here, use gp or exact."
        )
        return [*sizes, _check("Pooling", "look", text)]
    text = "No owner’s data differ clearly from as many pooled rows, as DU-Shapley assumes."
    return [*sizes, _check("Pooling", "good", text)]


def unlike_the_pool(valuation: Valuation) -> IntArray | None:
    """Owners whose data alone are worth clearly more or less than as many pooled rows.

    What so many pooled rows are worth is the mean of the `NEIGHBOURS` pools nearest in rows;
    clearly: `STRIKING` standard deviations of these from it, and 5% of the gain.
    """
    trail = valuation.details.get("trail")
    if trail is None or None in trail["alone"]:
        return None
    alone, curve = np.array(trail["alone"]), trail["curve"]
    rows, worth = np.array(curve["rows"]), np.array(curve["values"])
    mixed = ~np.isin(worth, alone)  # an owner must not be compared with itself
    rows, worth = rows[mixed], worth[mixed]
    if len(rows) < 2 * NEIGHBOURS:
        return None
    distance = abs(rows[None, :] - valuation.sizes[:, None])
    nearest = np.argsort(distance, axis=1, kind="stable")
    near = worth[nearest[:, :NEIGHBOURS]]
    enough = 0.05 * abs(valuation.u_full - valuation.u_empty)
    clear = np.maximum(STRIKING * near.std(axis=1, ddof=1), enough)
    return np.flatnonzero(abs(alone - near.mean(axis=1)) > clear)


def _forecasts(valuation: Valuation) -> list[AnyDict]:
    """The independent check of `gp`: pools predicted before they were seen."""
    unexplained = valuation.details.get("unexplained")
    if valuation.method_run != "gp" or not isinstance(unexplained, float):
        return []
    model, state = valuation.details.get("model"), "good"
    if model == "constant":
        return [
            _check(
                "Forecasts",
                "look",
                "All pools that were trained are worth the same: there was nothing to foresee.",
            )
        ]
    foreseen = percent(max(0.0, 1 - unexplained))
    text = f"Pools forecast before they were trained: {foreseen} of their variation was foreseen."
    if model == "gaussian process, corrected by samples":
        state = "look"
        text += (
            " At some sizes it went wrong: random pools correct it there, and intervals are wider."
        )
    return [_check("Forecasts", state, text)]


def _failures(valuation: Valuation) -> list[AnyDict]:
    failed = sum(valuation.failures.values())
    text = f"{plural(failed, 'training', 'trainings')} failed and counted as nobody’s data."
    return [_check("Failures", "look", text)] if failed else []
