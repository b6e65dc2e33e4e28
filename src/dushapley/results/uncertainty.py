"""How sure a valuation is: intervals, joint draws, orders and ranks. The one place that knows.

Errors here are those of all known sources together: sampling, training, test set
(`Valuation.total_errors`; `engine.error_bars` finds the last two). Errors of different owners are
correlated (they share pools and test rows, and the sum of the values is known), so two overlapping
intervals can still belong to a sure order. Errors are taken as jointly normal with the covariance
`Valuation.total_covariance`; where a method knows no covariance between owners, or these are too
many for one (`MOST_JOINT`), as independent.
Python, settlement, what-if, report and terminal all ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray, IntArray
from dushapley.errors import MethodNotApplicable
from dushapley.estimators.calibration import NORMAL
from dushapley.estimators.registry import REGISTRY
from dushapley.protocol import Estimate

if TYPE_CHECKING:
    from dushapley.results.valuation import Valuation

SAMPLING = "Values by gp, auto or permutation, at a large enough budget, would have sampling's."
MEASURES = {
    "sampling": SAMPLING,
    "bias": SAMPLING,
    "training": "Repeated trainings (repeats=3, --repeats 3) would measure training's.",
    "test set": "More test rows (of every class), or a score known row by row, would tell the "
    "test set's.",
}
"""What makes an unknown part of the error known."""
ADAPTIVE = (
    "It chooses its questions by the answers, so errors of training and test set cannot be carried "
    "through to its values: value the game with gp, permutation or exact to have them."
)
"""The same, of a method that has neither, whatever is measured."""

Errors = TypeVar("Errors", float, FloatArray)

NORMAL_95 = NORMAL
"""Half-width of the 95% interval of a normal error, in standard errors: 1.96 everywhere."""
MIDDLE_95 = (0.025, 0.975)
"""Quantiles between which 95% of draws lie."""
LEAST_DRAWS, INTERVAL_DRAWS, RANK_DRAWS = 500, 4000, 20_000
"""Joint draws of all values: a probability from 20,000 has a standard error up to 0.0036."""
MOST_NUMBERS = 2**22
"""Numbers in all draws together: from 200 owners on there are fewer draws, down to the least."""
ENOUGH_REPLICATES = 30
"""Below this many replicates a standard error is too uncertain to end a run."""
MOST_JOINT = 1000
"""Owners up to whom errors by source have a covariance: what a stored result may hold. Of more
there are variances only, for the squares of ten thousand would fill a machine.
"""


def half_width(std_errors: Errors) -> Errors:
    """Half-width of the 95% interval around a value: ± this much.

    Examples
    --------
    >>> half_width(0.5)
    0.98
    """
    return NORMAL_95 * std_errors


def is_within(whole: Estimate, precision: float) -> bool:
    """Whether each value is known to ± this part of their spread, by errors of all sources."""
    known = reliable_errors(whole)
    spread = float(np.ptp(whole.values))
    return known is not None and half_width(float(known.max())) <= precision * spread


def reliable_errors(whole: Estimate) -> FloatArray | None:
    """Standard errors that may end a run; None where they rest on too little, or none varied."""
    few = whole.replicates is not None and whole.replicates < ENOUGH_REPLICATES
    known = whole.std_errors
    return known if known is not None and known.any() and not few else None


def is_clear(difference: float, std_error: float) -> bool:
    """Whether a difference is at least its error; of one with an unknown error (NaN) it is not."""
    return abs(difference) >= half_width(std_error)


def root_mean_square(std_errors: ArrayLike) -> float:
    """Standard error of a typical owner."""
    return float(np.sqrt(np.mean(np.square(std_errors))))


def variances_of(joint: FloatArray) -> FloatArray:
    """The diagonal of a covariance; variances as they are."""
    return joint if joint.ndim == 1 else np.diag(joint)


def std_errors_of(joint: FloatArray) -> FloatArray:
    """Roots of variances; rounding may leave them a hair below zero."""
    return np.sqrt(np.maximum(variances_of(joint), 0.0))


def with_errors(covariance: FloatArray, std_errors: FloatArray) -> FloatArray:
    """The same correlations with these standard errors, which may be widened for few replicates."""
    own = std_errors_of(covariance)
    factor = np.divide(std_errors, own, out=np.zeros_like(own), where=own > 0)
    scaled = covariance * np.multiply.outer(factor, factor)
    np.fill_diagonal(scaled, std_errors**2)
    return scaled


def sampling_variances(valuation: Valuation) -> FloatArray:
    """Of each owner: 0 where all coalitions were asked, NaN where unknown."""
    errors = valuation.std_errors
    if errors is None:
        return np.full(len(valuation.owners), 0.0 if valuation.is_enumerated else np.nan)
    return errors**2


def source_errors(valuation: Valuation, name: str) -> FloatArray:
    """Standard errors of one source: none where there is no such source, NaN where unknown."""
    none = np.zeros(len(valuation.owners))
    error = valuation.errors.get(name, none)
    return none + np.nan if error is None else np.asarray(error, dtype=np.float64)


def known_to(amounts: ArrayLike, half_widths: ArrayLike) -> tuple[float, float] | None:
    """How well amounts are known, as parts of themselves: all together, and the smallest.

    Half-widths added up over the sum of the amounts, and half-width of the smallest over it; of
    amounts above 0. None where there is none.

    Examples
    --------
    >>> known_to([10, 2, 0], [1, 1, 1])
    (0.16666666666666666, 0.5)
    """
    worth, error = (np.asarray(part, dtype=np.float64) for part in (amounts, half_widths))
    paid = worth > 0
    if not paid.any():
        return None
    worth, error = worth[paid], error[paid]
    smallest = int(worth.argmin())
    return float(error.sum() / worth.sum()), float(error[smallest] / worth[smallest])


def certainty(parts: tuple[float, float]) -> str:
    """In words: ±21% (the smallest to ±60%).

    Examples
    --------
    >>> certainty((0.211, 0.6))
    '±21% (the smallest to ±60%)'
    """
    together, smallest = (f"±{100 * p:.0f}%" if p >= 0.095 else f"±{100 * p:.1g}%" for p in parts)
    return f"{together} (the smallest to {smallest})"


def plausible_values(valuation: Valuation, most: int = INTERVAL_DRAWS) -> FloatArray | None:
    """Draws of all values from the normal law of their errors, shape (draws, I).

    The same draws every time, `most` of them unless the owners are many. None where the errors are
    unknown.
    """
    from threadpoolctl import threadpool_limits

    total, joint = valuation.total_errors, valuation.total_covariance
    if total is None:
        return None
    n = len(total)
    draws = int(np.clip(MOST_NUMBERS // n, LEAST_DRAWS, most))
    noise = np.random.default_rng(0).standard_normal((draws, n))
    if joint is None:
        return valuation.values + noise * total
    with threadpool_limits(1):  # the last bit of a product depends on the number of threads
        scale, axes = np.linalg.eigh(joint)
        # the symmetric root is the same on every machine; signs of single axes are not
        drawn = noise @ ((axes * np.sqrt(np.maximum(scale, 0))) @ axes.T)
    return valuation.values + drawn


def probability_greater(valuation: Valuation) -> FloatArray:
    r"""P(value_i > value_j) for all pairs of owners, shape (I, I); one half on the diagonal.

    .. math:: P_{ij} = \Phi\Big(\frac{v_i - v_j}{\sqrt{Σ_{ii} + Σ_{jj} - 2Σ_{ij}}}\Big)

    with `values` v and Σ the covariance of the errors of all known sources (`total_covariance`;
    independent errors where that is unknown). Pairs without error are certain (one half if equal).

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: (z @ [1.0, 2, 3, 4, 5, 6]) ** 0.5, 6)
    >>> ds.probability_greater(ds.value(game, "gp", budget=20))[5, 0].round(3).item()
    1.0
    """
    from scipy.special import ndtr

    total, joint = valuation.total_errors, valuation.total_covariance
    if total is None:
        _refuse_uncertain(valuation)
        total = np.zeros(len(valuation.values))
    gap = np.subtract.outer(valuation.values, valuation.values)
    joint = np.diag(total**2) if joint is None else joint
    own = np.diag(joint)
    error = np.sqrt(np.maximum(np.add.outer(own, own) - 2 * joint, 0.0))
    scaled = np.divide(gap, error, out=np.zeros_like(gap), where=error > 0)
    return np.where(error > 0, ndtr(scaled), np.where(gap == 0, 0.5, gap > 0))


def rank_probabilities(valuation: Valuation) -> FloatArray:
    """P(owner i has rank r), shape (I, I), of which `Valuation.rank_probabilities` is the table."""
    ranks = _plausible_ranks(valuation)
    n = ranks.shape[1]
    cells = ranks + n * np.arange(n)
    return np.bincount(cells.ravel(), minlength=n * n).reshape(n, n) / len(ranks)


class RankRanges(NamedTuple):
    """Where each owner may stand, the best having rank 1.

    Attributes
    ----------
    low, high
        Ends of the 95% range of the rank.
    sure
        Probability of the rank by value, as `rank_probabilities` has it.
    """

    low: IntArray
    high: IntArray
    sure: FloatArray


def rank_ranges(valuation: Valuation) -> RankRanges | None:
    """The ranks that each owner may have, from the draws of `rank_probabilities`.

    None where the errors are unknown.
    """
    if valuation.total_errors is None:
        return None
    ranks = _plausible_ranks(valuation)
    low, high = np.quantile(ranks, MIDDLE_95, axis=0, method="nearest")
    return RankRanges(low + 1, high + 1, (ranks == np.argsort(valuation.order)).mean(axis=0))


def _plausible_ranks(valuation: Valuation) -> IntArray:
    """Place of each owner in each draw, the largest value having 0; ties by position."""
    drawn = plausible_values(valuation, RANK_DRAWS)
    if drawn is None:
        _refuse_uncertain(valuation)
        drawn = valuation.values[None]
    return np.argsort(np.argsort(-drawn, axis=1, kind="stable"), axis=1)


def _refuse_uncertain(valuation: Valuation) -> None:
    if valuation.unknown:
        raise MethodNotApplicable(
            f"The error of these values by {valuation.method} is {valuation.interval_meaning}, so "
            f"the order of two owners has no probability. {remedy(valuation)}"
        )


def remedy(valuation: Valuation) -> str:
    """What would make the unknown parts of the error known."""
    method = REGISTRY.get(valuation.method_run)
    adaptive = method is not None and method.is_adaptive
    sentences = MEASURES | dict.fromkeys(("training", "test set") if adaptive else (), ADAPTIVE)
    return " ".join(dict.fromkeys(sentences[name] for name in valuation.unknown))
