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
from dushapley.games.size.du import DUValues, du_values
from dushapley.games.size.exact import exact_values, lattice, utilities
from dushapley.protocol import Estimate, Guarantee

SOON = 2**21
"""(Size, k) pairs up to which DU-Shapley's certificate is computed along with its values."""
NOTEWORTHY = 0.1
"""Part of a value that a possible error must reach to be pointed out."""
GIANT, TIMES = 1 / 3, 3
"""Very large is an owner with this part of all rows and so many times the others' mean."""
STATEMENT = (
    "|value − Shapley value| ≤ bound, owner by owner: terms with up to three others present or "
    "absent are exact, the rest is bracketed by three moments and the range of the others' pooled "
    "size"
)
ASSUMPTIONS = (
    "the utility is a sum of curves of pooled sizes",
    "each curve is completely monotone, as declared: its derivatives alternate in sign",
    "arithmetic in double precision, for which room is left",
)
SOURCE = "dushapley.games.size.bounds; compare Theorem 2 of Garrido Lucero et al. (2024)"


@dataclass(frozen=True)
class Part:
    """One size game: rows of every owner, the curve of their sum, and its weight."""

    sizes: FloatArray
    curve: LearningCurve
    weight: float = 1.0


def solve(
    method: str,
    sizes: FloatArray,
    parts: Sequence[Part],
    wishes: Mapping[str, Any] | None = None,
) -> Estimate | None:
    """The answer of `method`, or None where there is no formula that keeps its word."""
    if method == "exact" and wishes and wishes.keys() == {"semivalue"}:
        from dushapley.games.size.semivalues import solve_semivalue

        return solve_semivalue(wishes["semivalue"], sizes, parts)
    if wishes:
        return None
    solvers = {
        "exact": solve_exact,
        "du": solve_du,
        "du++": solve_du,
        "du-second-order": solve_second_order,
    }
    if not parts or method not in solvers:  # no bin for a test point to fall in: asking is as good
        return None
    return solvers[method](sizes, parts)


def solve_exact(sizes: FloatArray, parts: Sequence[Part]) -> Estimate | None:
    """Exact values part by part; None where some part has no lattice or too much work."""
    values, error = np.zeros(len(sizes)), 0.0
    for part in parts:
        grid = lattice(part.sizes)
        exact = None if grid is None else exact_values(grid, utilities(grid, part.curve))
        if exact is None:
            return None
        values += part.weight * exact[0]
        error += part.weight * exact[1]
    details = {"route": "law of the pooled size", "numerical_error": error}
    return Estimate(values, details=details)


def solve_du(sizes: FloatArray, parts: Sequence[Part]) -> Estimate:
    """DU-Shapley with a certificate where one is soon had."""
    total = total_du(parts)
    details = {"sum_over_k": total.how, "numerical_error": total.error}
    work = sum(len(np.unique(part.sizes)) * len(sizes) for part in parts)
    estimate = Estimate(total.values, details=details, notes=size_notes(sizes))
    return certified(estimate, total_bracket(parts) if work <= SOON else None, parts, total.error)


def total_du(parts: Sequence[Part], scale: FloatArray | None = None) -> DUValues:
    """DU-Shapley of the whole game: that of its parts, added up."""
    weighted = [(part.weight, du_values(part.sizes, part.curve, scale)) for part in parts]
    return DUValues(
        np.sum([weight * du.values for weight, du in weighted], axis=0),
        sum(weight * du.error for weight, du in weighted),
        "; ".join(sorted({du.how for _, du in weighted})),
    )


def solve_second_order(_sizes: FloatArray, parts: Sequence[Part]) -> Estimate | None:
    """Second-order DU-Shapley; None where there are too many terms."""
    bounds = total_bracket(parts)
    return None if bounds is None else certified(Estimate(bounds.lower), bounds, parts, 0.0)


def total_bracket(parts: Sequence[Part], scale: FloatArray | None = None) -> Bracket | None:
    """Bounds on the Shapley values of the whole game: those of its parts, added up."""
    brackets = [bracket(part.sizes, part.curve, scale) for part in parts]
    sure = [bounds for bounds in brackets if bounds is not None]
    if len(sure) < len(brackets):
        return None
    weight = np.array([part.weight for part in parts])
    return Bracket(
        weight @ np.array([bounds.lower for bounds in sure]),
        weight @ np.array([bounds.upper for bounds in sure]),
        float(weight @ np.array([bounds.room for bounds in sure])),
    )


def certificate_of(
    values: FloatArray, bounds: Bracket, parts: Sequence[Part], error: float
) -> Guarantee:
    """Largest distance of each value from anything between the bounds, and what it rests on."""
    far = np.maximum(np.abs(bounds.lower - values), np.abs(bounds.upper - values))
    proven = all(part.curve.shape == "completely monotone" for part in parts)
    return Guarantee(
        name="certificate",
        bound=far + bounds.room + error,
        statement=STATEMENT,
        assumptions=ASSUMPTIONS,
        source=SOURCE,
        is_guarantee=proven,
        why_not="" if proven else "checked numerically, not proven: the curve declares no shape",
    )


def certified(
    estimate: Estimate, bounds: Bracket | None, parts: Sequence[Part], error: float
) -> Estimate:
    """Attach the bound: as a guarantee where shapes are declared, else as a numerical check."""
    why = "too many owners and sizes" if bounds is None else unbounded(parts)
    if bounds is None or why:
        return replace(
            estimate, details={**estimate.details, "error_bound": f"not computed: {why}"}
        )
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
            found = contradiction(part.curve, "completely monotone", rows)
            if found is not None:
                order, low, high = found
                return (
                    f"w is not completely monotone, by its differences of order {order} between "
                    f"{low:g} and {high:g} rows"
                )
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
    numerically = "(checked numerically, not proven) is about at most"
    limit = "is at most" if certificate.is_guarantee else numerically
    return (
        f"The error of these values {limit} {certificate.bound.max():.3g}; for {large.sum()} of "
        f"{len(values)} owners that allows more than {NOTEWORTHY:.0%} of their value. Sizes differ "
        "too much for this method: prefer exact, or du-second-order to du.",
    )
