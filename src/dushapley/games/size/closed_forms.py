r"""Answers of size games without a question: values, what is known of their error, what to say.

A size game is one part, a regressogram one part per bin; by linearity values and bounds add up.

DU-Shapley of a size game has a formula for a million owners. With m = I−1 others, μ their mean size
and :math:`g(n) = w(n + n_i) - w(n)`,

.. math:: \psi_i = \frac1I \sum_{k=0}^{m} g(k\mu).

Owners of equal size have equal values, so all work is per distinct size. Where rows differ in
precision, n is a vector: how many rows there are of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dushapley.arrays import EPSILON, FloatArray, slices
from dushapley.games.base import Wishes
from dushapley.games.size.bounds import Bracket, bracket
from dushapley.games.size.curves import LearningCurve, contradiction, finite_curve
from dushapley.games.size.exact import SHAPLEY, Rule, Utility, exact_values, gauss
from dushapley.protocol import Estimate, Guarantee

MOST_TERMS = 2**23
"""(Size, k) pairs that are summed one by one; above, the sum over k is by Gauss's rule."""
HEAD = 64
"""Terms at the beginning that are always summed one by one."""
NOTEWORTHY = 0.1
"""Part of a value that a possible error must reach to be pointed out."""


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
    method: str, sizes: FloatArray, parts: Sequence[Part], wishes: Wishes = None
) -> Estimate | None:
    """The answer of `method`, or None where there is no formula that keeps its word."""
    asked = dict(wishes or {})
    law = asked.pop("semivalue", SHAPLEY) if method == "exact" else SHAPLEY
    if asked or not parts:  # no bin for a test point to fall in: asking is as good
        return None
    if method == "exact":
        values, error = np.zeros(len(sizes)), 0.0
        for part in parts:
            exact = exact_values(part.sizes, part.curve, law)
            if exact is None:  # no lattice, or too much work
                return None
            values, error = values + part.weight * exact[0], error + part.weight * exact[1]
        return Estimate(
            values, details={"route": "law of the pooled size", "numerical_error": error}
        )
    if method == "du-second-order":
        bounds = total_bracket(parts)
        return None if bounds is None else certified(Estimate(bounds[0]), bounds, parts, 0.0)
    if method not in ("du", "du++"):
        return None
    values, error = total_du(parts)
    soon = sum(part.pairs for part in parts) <= 2**21  # a certificate along with the values
    bounds = total_bracket(parts) if soon else None
    notes: tuple[str, ...] = ()
    total, most = float(sizes.sum()), float(sizes.max())
    others = (total - most) / max(1, len(sizes) - 1)
    # very large is an owner with a third of all rows and three times the others' mean
    if len(sizes) > 2 and total > 0 and most >= max(1 / 3 * total, 3 * others):
        notes = (
            f"The largest owner holds {most / total:.0%} of all rows. DU-Shapley works poorly "
            "when some owners are very large: prefer exact or du-second-order here.",
        )
    estimate = Estimate(values, details={"numerical_error": error}, notes=notes)
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
    notes, proven = estimate.notes, certificate.is_guarantee
    large = certificate.bound > NOTEWORTHY * np.abs(estimate.values)
    if large.any():  # the error may be a good part of what somebody is paid
        limit = "is at most" if proven else "(checked numerically, not proven) is about at most"
        notes += (
            f"The error of these values {limit} {certificate.bound.max():.3g}; for {large.sum()} "
            f"of {len(large)} owners that allows more than {NOTEWORTHY:.0%} of their value. Sizes "
            "differ too much for this method: prefer exact, or du-second-order to du.",
        )
    if proven:
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


def du_values(
    sizes: FloatArray, curve: LearningCurve, scale: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """DU-Shapley of all owners, and its numerical error.

    Up to 2^23 terms are summed one by one. Beyond, k runs through doublings, each by Gauss's rule
    for sums (exact for polynomials of degree 31), whose error is checked against the rule with half
    the nodes. With `scale`, weights of the terms as multiples of 1/I, all terms are summed one by
    one. Rounding goes by the level of w.
    """
    n = len(sizes)
    distinct, member, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    rows = distinct * counts  # added up, for a difference loses the dwarfs
    below, above = np.cumsum(np.append(0.0, rows[:-1])), np.cumsum(np.append(0.0, rows[:0:-1]))
    others = below + above[::-1] + distinct * (counts - 1)
    if scale is not None or len(distinct) * n <= MOST_TERMS:
        weight = np.ones(n) if scale is None else scale
        sums = rough = weighted_sum(distinct, others, curve, np.arange(n) / max(n - 1, 1), weight)
    else:
        rules = ((k / (n - 1), weight) for k, weight in (sum_rule(n, 8), sum_rule(n, 16)))
        rough, sums = (weighted_sum(distinct, others, curve, *rule) for rule in rules)
    ends = finite_curve(curve, np.array([0.0, float(sizes.sum())]))
    rounding = 4 * EPSILON * float(np.abs(ends).max())
    return sums[member] / n, float(np.abs(sums - rough).max()) / n + rounding


def du_by_precision(sizes: FloatArray, gamma: FloatArray, utility: Utility) -> Estimate | None:
    """DU-Shapley where rows differ in precision; None: too many terms."""
    kinds, member = np.unique(np.stack([sizes, gamma], axis=1), axis=0, return_inverse=True)
    precisions, which = np.unique(gamma, return_inverse=True)
    n, all_rows = len(sizes), np.bincount(which, sizes)
    if n * len(kinds) * len(precisions) > 2**24:
        return None
    share = np.arange(n)[:, None] / (n - 1)
    worth = np.empty((len(kinds), 2, n))
    for j, (size, precision) in enumerate(kinds):
        own = size * (precisions == precision)
        pooled = share * np.maximum(all_rows - own, 0.0)
        worth[j] = utility(np.concatenate([pooled + own, pooled]), precisions).reshape(2, n)
    if not np.isfinite(worth).all():
        return None  # the pole of the paper's form, which those who pay refuse
    error = 1e-14 * float(np.abs(worth).max())
    values = np.mean(worth[:, 0] - worth[:, 1], axis=1)[member.ravel()]
    return Estimate(values, details={"route": "rows of each precision", "numerical_error": error})


def weighted_sum(
    own: FloatArray,
    others: FloatArray,
    curve: LearningCurve,
    shares: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Σ weight·g(share·others) for each distinct size: own rows, and those of all others."""
    sums = np.empty(len(own))
    at_once = max(1, 2**20 // len(shares))
    for some in slices(len(sums), at_once):
        pooled = shares * others[some, None]
        gain = finite_curve(curve, pooled + own[some, None]) - finite_curve(curve, pooled)
        sums[some] = gain @ weight
    return sums


def sum_rule(n: int, nodes: int) -> Rule:
    """Points and weights for a sum over k = 0..n−1: the head as it is, then doublings.

    Over L terms by Gauss's rule, from the recurrence of the discrete Legendre polynomials, whose
    weights are n²(L²−n²)/(4(4n²−1)).
    """
    head = min(HEAD, n)
    points, weights = [np.arange(float(head))], [np.ones(head)]
    edges = np.unique(np.minimum(HEAD * 2 ** np.arange(n.bit_length()), n))
    for start, end in pairwise(edges.tolist()):
        length = end - start
        j = np.arange(1, min(nodes, length))
        beta = j**2 * (length**2 - j**2) / (4 * (4 * j**2 - 1))
        x, weight = gauss(np.zeros(len(j) + 1), np.sqrt(beta))
        points.append(start + (x + (length - 1) / 2))
        weights.append(length * weight)
    return np.concatenate(points), np.concatenate(weights)
