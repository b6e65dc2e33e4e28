"""How uniform is your collaboration? Theorem 1 as a number.

DU-Shapley rests on one observation: the (effective) size of a random coalition, as a part of
everybody's, is nearly uniform on [0, 1] when there are many owners and none is very large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray, IntArray
from dushapley.errors import InvalidOption
from dushapley.games.size.regression import effective_rows
from dushapley.validation import check_sizes

CLOSE, FAR = 0.05, 0.15
"""Distances below which a collaboration is called uniform, and above which it is not."""


@dataclass(frozen=True, eq=False)
class Uniformity:
    """The law of q(S)/q(all) beside the uniform law.

    Attributes
    ----------
    fractions
        Sorted draws of q(S)/q(all).
    distance
        Largest gap between their distribution function and the uniform one (Kolmogorov).
    noise
        What sampling alone adds to the distance, at most, 95 times in 100 (Dvoretzky, Kiefer,
        Wolfowitz and Massart).
    """

    fractions: FloatArray
    distance: float
    noise: float

    def __str__(self) -> str:
        verdict = "roughly uniform: look at du's certificate"
        if self.distance < CLOSE:
            verdict = "close to uniform: DU-Shapley's idea fits"
        elif self.distance > FAR:
            verdict = "far from uniform: prefer exact, du-second-order or a sampling method to du"
        return f"distance to uniform {self.distance:.3f} (± {self.noise:.3f}): {verdict}"


def uniformity(
    sizes: ArrayLike,
    gamma: ArrayLike | None = None,
    *,
    draws: int = 10_000,
    seed: int = 0,
    left_out: int | None = None,
) -> Uniformity:
    r"""Draw coalitions as the Shapley value does, and compare their sizes with the uniform law.

    :math:`q(S) = (\sum\gamma n)^2/\sum\gamma^2 n` (floored), the pooled size where all γ are equal;
    K uniform on 0..I, then S uniform among the coalitions of K owners. Equivalently every owner
    joins with one common probability t, uniform on [0, 1].

    Parameters
    ----------
    sizes, gamma
        Rows and (use-case 3) precision σ/ε of each owner.
    draws, seed
        How many coalitions (the paper: 10⁴), and their seed.
    left_out
        Leave one owner out, as the older version's figure does.

    Examples
    --------
    >>> import dushapley as ds
    >>> print(ds.guarantees.uniformity([10] * 200))
    distance to uniform 0.008 (± 0.014): close to uniform: DU-Shapley's idea fits
    """
    rows = check_sizes(sizes)
    if rows.sum() == 0:
        raise InvalidOption("All sizes are zero; there is nothing to compare with.")
    g = np.ones(len(rows)) if gamma is None else np.asarray(gamma, dtype=np.float64)
    if left_out is not None:
        rows, g = np.delete(rows, left_out), np.delete(g, left_out)
    rng = np.random.default_rng(seed)
    pairs, counts = np.unique(np.stack([rows, g]), axis=1, return_counts=True)
    at_once = max(1, 2**22 // len(counts))  # batches never depend on anything else
    batches = (min(at_once, draws - start) for start in range(0, draws, at_once))
    q = np.concatenate([_draw(rng, pairs, counts, size) for size in batches])
    ratio = np.sort(q / effective_rows(rows[None, :], g)[0])
    noise = float(np.sqrt(np.log(2 / 0.05) / (2 * draws)))
    return Uniformity(ratio, distance_to_uniform(ratio), noise)


def distance_to_uniform(shares: FloatArray) -> float:
    """Largest gap between the two distribution functions (Kolmogorov–Smirnov)."""
    from scipy.stats import ks_1samp, uniform

    return float(ks_1samp(shares, uniform.cdf, method="asymp").statistic)


def _draw(rng: np.random.Generator, pairs: FloatArray, counts: IntArray, size: int) -> FloatArray:
    """Effective sizes of random coalitions; owners who are equal are drawn together."""
    joined = rng.binomial(counts, rng.random(size)[:, None])
    return effective_rows(joined * pairs[0], pairs[1])
