"""Who is worth more than whom, and how sure is that? From a valuation's joint errors.

Errors of different owners are correlated (they share the same pools, and the sum of the values is
known), so two overlapping intervals can still belong to a sure order. With the covariance of the
errors, taken as normal, the question has an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray
from dushapley.errors import MethodNotApplicable

if TYPE_CHECKING:
    from dushapley.results.valuation import Valuation

Errors = TypeVar("Errors", float, FloatArray)

NORMAL_95 = 1.96
"""Half-width of the 95% interval of a normal error, in standard errors."""
DRAWS = 20_000
"""Joint draws behind rank probabilities: their error is at most 0.0036."""


def half_width(std_errors: Errors) -> Errors:
    """Half-width of the 95% interval around a value: ± this much.

    Examples
    --------
    >>> half_width(0.5)
    0.98
    """
    return NORMAL_95 * std_errors


def root_mean_square(std_errors: ArrayLike) -> float:
    """Standard error of a typical owner."""
    return float(np.sqrt(np.mean(np.square(std_errors))))


def std_errors_of(covariance: FloatArray) -> FloatArray:
    """Roots of the diagonal; rounding may leave it a hair below zero."""
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))


def with_errors(covariance: FloatArray, std_errors: FloatArray) -> FloatArray:
    """The same correlations with these standard errors, which may be widened for few replicates."""
    own = std_errors_of(covariance)
    factor = np.divide(std_errors, own, out=np.zeros_like(own), where=own > 0)
    scaled = covariance * np.multiply.outer(factor, factor)
    np.fill_diagonal(scaled, std_errors**2)
    return np.asarray(scaled)


def probability_greater(valuation: Valuation) -> FloatArray:
    r"""P(value_i > value_j) for all pairs of owners, shape (I, I); one half on the diagonal.

    .. math:: P_{ij} = \Phi\Big(\frac{v_i - v_j}{\sqrt{Σ_{ii} + Σ_{jj} - 2Σ_{ij}}}\Big)

    with `values` v and `covariance` Σ; what calibrated standard errors hold beyond it (for few or
    skewed samples) is added as an error of each owner's own. Pairs without error are certain (one
    half if equal).

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: (z @ [1.0, 2, 3, 4, 5, 6]) ** 0.5, 6)
    >>> ds.probability_greater(ds.value(game, "gp", budget=20))[5, 0].round(3).item()
    1.0
    """
    from scipy.special import ndtr

    covariance = _covariance(valuation)
    gap = valuation.values[:, None] - valuation.values[None, :]
    own = np.diag(covariance)
    error = np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0.0))
    certain = np.where(gap == 0, 0.5, (gap > 0).astype(np.float64))
    scaled = np.divide(gap, error, out=np.zeros_like(gap), where=error > 0)
    return np.asarray(np.where(error > 0, ndtr(scaled), certain))


def rank_probabilities(valuation: Valuation, seed: int = 0) -> FloatArray:
    """P(owner i has rank r), shape (I, I): column 0 is the probability of being worth most.

    By 20,000 joint draws from the normal law of the values; ties go to the owner named first.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: (z @ [1.0, 2, 3, 4, 5, 6]) ** 0.5, 6)
    >>> ds.rank_probabilities(ds.value(game, "gp", budget=20)).argmax(axis=0).tolist()
    [5, 4, 3, 2, 1, 0]
    """
    values, vectors = np.linalg.eigh(_covariance(valuation))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    n = len(valuation.values)
    normal = np.random.default_rng(seed).standard_normal((DRAWS, n))
    order = np.argsort(-(valuation.values + normal @ root.T), axis=1, kind="stable")
    counts = np.zeros((n, n))
    for rank in range(n):
        counts[:, rank] = np.bincount(order[:, rank], minlength=n)
    return counts / DRAWS


def _covariance(valuation: Valuation) -> FloatArray:
    if valuation.covariance is not None:
        plain = np.diag(valuation.covariance)
        stated = plain if valuation.std_errors is None else valuation.std_errors**2
        return np.asarray(valuation.covariance + np.diag(np.maximum(stated - plain, 0.0)))
    if valuation.std_errors is None and not valuation.biased:
        n = len(valuation.values)
        if valuation.method_run == "exact" or valuation.n_evaluations == 2**n:
            return np.zeros((n, n))
    raise MethodNotApplicable(
        f"A valuation by {valuation.method} has no covariance of its errors, so the order of two "
        "owners has no probability. Value the game with gp, auto or permutation instead."
    )
