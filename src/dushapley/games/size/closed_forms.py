"""Answers of size games without a question: values, what is known of their error, what to say.

A size game is one part, a regressogram one part per bin; by linearity values and bounds add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.games.size.bounds import Bracket, bracket
from dushapley.games.size.curves import LearningCurve, contradiction
from dushapley.games.size.du import MOST_TERMS, du_values
from dushapley.games.size.exact import SHAPLEY, Law, exact_values
from dushapley.protocol import Estimate, Guarantee

SOON = 2**21
"""(Size, k) pairs up to which DU-Shapley's certificate is computed along with its values."""
NOTEWORTHY = 0.1
"""Part of a value that a possible error must reach to be pointed out."""
GIANT, TIMES = 1 / 3, 3
"""Very large is an owner with this part of all rows and so many times the others' mean."""


@dataclass(frozen=True)
class Part:
    """One size game: rows of every owner, the curve of their sum, and its weight."""

    sizes: FloatArray
    curve: LearningCurve
    weight: float = 1.0

    @property
    def pairs(self) -> int:
        """How many pairs of a distinct size and a number of others there are."""
        return len(np.unique(self.sizes)) * len(self.sizes)


def solve(
    method: str,
    sizes: FloatArray,
    parts: Sequence[Part],
    wishes: Mapping[str, Any] | None = None,
) -> Estimate | None:
    """The answer of `method`, or None where there is no formula that keeps its word."""
    asked = dict(wishes or {})
    law = asked.pop("semivalue", SHAPLEY) if method == "exact" else SHAPLEY
    if asked or not parts:  # no bin for a test point to fall in: asking is as good
        return None
    if method == "exact":
        return solve_exact(parts, law)
    if method == "du-second-order":
        bounds = total_bracket(parts)
        return None if bounds is None else certified(Estimate(bounds[0]), bounds, parts, 0.0)
    return solve_du(sizes, parts) if method in ("du", "du++") else None


def solve_exact(parts: Sequence[Part], law: Law) -> Estimate | None:
    """Exact values part by part; None where some part has no lattice or too much work."""
    values, error = np.zeros(len(parts[0].sizes)), 0.0
    for part in parts:
        exact = exact_values(part.sizes, part.curve, law)
        if exact is None:
            return None
        values, error = values + part.weight * exact[0], error + part.weight * exact[1]
    details = {"route": "law of the pooled size", "numerical_error": error}
    return Estimate(values, details=details)


def solve_du(sizes: FloatArray, parts: Sequence[Part]) -> Estimate:
    """DU-Shapley with a certificate where one is soon had."""
    values, error = total_du(parts)
    in_full = all(part.pairs <= MOST_TERMS for part in parts)
    how = "summed term by term" if in_full else "by Gauss's rule, its error checked numerically"
    details = {"sum_over_k": how, "numerical_error": error}
    bounds = total_bracket(parts) if sum(part.pairs for part in parts) <= SOON else None
    estimate = Estimate(values, details=details, notes=size_notes(sizes))
    return certified(estimate, bounds, parts, error)


def total_du(parts: Sequence[Part], scale: FloatArray | None = None) -> tuple[FloatArray, float]:
    """DU-Shapley of the whole game: that of its parts, added up."""
    found = [(part.weight, *du_values(part.sizes, part.curve, scale)) for part in parts]
    values = np.sum([weight * values for weight, values, _ in found], axis=0)
    return values, sum(weight * error for weight, _, error in found)


def total_bracket(parts: Sequence[Part], scale: FloatArray | None = None) -> Bracket | None:
    """Bounds on the Shapley values of the whole game; None where the terms are too many."""
    if max(part.pairs for part in parts) > MOST_TERMS:
        return None
    found = [(part.weight, *bracket(part.sizes, part.curve, scale)) for part in parts]
    lower = np.sum([weight * lower for weight, lower, _, _ in found], axis=0)
    upper = np.sum([weight * upper for weight, _, upper, _ in found], axis=0)
    return lower, upper, sum(weight * room for weight, _, _, room in found)


def certificate_of(
    values: FloatArray, bounds: Bracket, parts: Sequence[Part], error: float
) -> Guarantee:
    """Largest distance of each value from anything between the bounds, and what it rests on."""
    lower, upper, room = bounds
    proven = all(part.curve.shape == "completely monotone" for part in parts)
    return Guarantee(
        name="certificate",
        bound=np.maximum(np.abs(lower - values), np.abs(upper - values)) + room + error,
        statement="|value − Shapley value| ≤ bound, owner by owner: terms with up to three others "
        "present or absent are exact, the rest is bracketed by three moments and the range of the "
        "others' pooled size",
        assumptions=(
            "the utility is a sum of curves of pooled sizes",
            "each curve is completely monotone, as declared: its derivatives alternate in sign",
            "arithmetic in double precision, for which room is left",
        ),
        source="dushapley.games.size.bounds; compare Theorem 2 of Garrido Lucero et al. (2024)",
        is_guarantee=proven,
        why_not="" if proven else "checked numerically, not proven: the curve declares no shape",
    )


def certified(
    estimate: Estimate, bounds: Bracket | None, parts: Sequence[Part], error: float
) -> Estimate:
    """Attach the bound: as a guarantee where shapes are declared, else as a numerical check."""
    why = "too many owners and sizes" if bounds is None else unbounded(parts)
    if bounds is None or why:
        details = {**estimate.details, "error_bound": f"not computed: {why}"}
        return replace(estimate, details=details)
    certificate = certificate_of(estimate.values, bounds, parts, error)
    notes = (*estimate.notes, *error_notes(estimate.values, certificate))
    if certificate.is_guarantee:
        return replace(estimate, notes=notes, guarantee=certificate.to_dict())
    details = {**estimate.details, "error_checked_numerically": certificate.bound.tolist()}
    return replace(estimate, notes=notes, details=details)


def unbounded(parts: Sequence[Part]) -> str:
    """Why the bracket says nothing of these curves; empty where nothing speaks against it."""
    for part in parts:
        if part.curve.shape != "completely monotone":
            rows = part.sizes.sum(keepdims=True)
            if found := contradiction(part.curve, "completely monotone", rows):
                return f"w is not completely monotone, by its {found}"
    return ""


def size_notes(sizes: FloatArray) -> tuple[str, ...]:
    """DU-Shapley's own limitation, where the sizes show it."""
    total, most = float(sizes.sum()), float(sizes.max())
    others = (total - most) / max(1, len(sizes) - 1)
    if len(sizes) < 3 or total == 0 or most < max(GIANT * total, TIMES * others):
        return ()
    return (
        f"The largest owner holds {most / total:.0%} of all rows. DU-Shapley works poorly "
        "when some owners are very large: prefer exact or du-second-order here.",
    )


def error_notes(values: FloatArray, certificate: Guarantee) -> tuple[str, ...]:
    """Say so where the error may be a good part of what somebody is paid."""
    large = certificate.bound > NOTEWORTHY * np.abs(values)
    if not large.any():
        return ()
    proven = certificate.is_guarantee
    limit = "is at most" if proven else "(checked numerically, not proven) is about at most"
    return (
        f"The error of these values {limit} {certificate.bound.max():.3g}; for {large.sum()} of "
        f"{len(values)} owners that allows more than {NOTEWORTHY:.0%} of their value. Sizes differ "
        "too much for this method: prefer exact, or du-second-order to du.",
    )
