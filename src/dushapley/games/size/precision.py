r"""Rows of different precision: the paper's effective size, a fixed point, and simulation.

How large is :math:`E[(\sum_j \gamma_j^2 x_j x_j^\top)^{-1}]`, a multiple x of the identity, for
standard normal rows :math:`x_j` of d features? Known exactly where all γ are equal. Else a fixed
point comes near, and simulation as near as one pays for.
"""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray

FLOOR_TOLERANCE = 1e-12
"""Relative slack when a whole number is floored: A²/B misses it by a few rounding errors."""


def effective_rows(rows: FloatArray, gamma: FloatArray) -> FloatArray:
    """The paper's q = ⌊(Σγn)²/Σγ²n⌋ of pools of `rows`, shape (m, I); q(∅) = 0."""
    a, b = rows @ gamma, rows @ gamma**2
    ratio = np.divide(a * a, b, out=np.zeros_like(a), where=b > 0)
    return np.asarray(np.floor(ratio * (1 + FLOOR_TOLERANCE)))


def expected_inverse(rows: FloatArray, gamma: FloatArray, d: int) -> FloatArray:
    r"""Solve Σ n_iγ_i²x/(1+(d+1)γ_i²x) = 1 for each pool of `rows`; infinite where Σn ≤ d+1.

    In y = 1/x the left side, Σ n_iγ_i²/(y + (d+1)γ_i²), is convex and decreasing, so Newton's
    steps from any point left of the root rise to it without overshooting. The start
    Σn_iγ_i² − (d+1)·max γ_i² lies left of it, and is the root itself when all γ are equal.
    """
    solvable = rows.sum(axis=1) > d + 1
    n = rows[solvable]
    g2 = gamma**2
    a, c = n * g2, (d + 1) * g2
    y = np.maximum(0.0, a.sum(axis=1) - np.where(n > 0, c, 0.0).max(axis=1, initial=0.0))
    for _ in range(200):
        shifted = y[:, None] + c
        terms = a / shifted
        step = (terms.sum(axis=1) - 1) / (terms / shifted).sum(axis=1)
        y = y + np.maximum(step, 0.0)
        if not bool((step > 1e-15 * y).any()):
            break
    x = np.full(len(rows), np.inf)
    with np.errstate(divide="ignore"):  # so few rows that only rounding makes them enough
        x[solvable] = 1 / y
    return x


class SimulatedPools:
    """Random rows of every owner, drawn once: what pools of them estimate.

    An owner brings the same rows to every pool, so more data never hurts here either.

    Parameters
    ----------
    sizes, gamma, d
        Whole rows and precision of each owner; number of features.
    draws, seed
        How many data sets are drawn, and from which seed.
    """

    def __init__(self, sizes: FloatArray, gamma: FloatArray, d: int, draws: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.sizes, self.d = sizes, d
        self.moments = np.empty((draws, len(sizes), d, d))
        for draw in range(draws):
            for j, (n, scale) in enumerate(zip(sizes, gamma, strict=True)):
                X = scale * rng.standard_normal((int(n), d))
                self.moments[draw, j] = X.T @ X

    def inverse(self, pool: FloatArray) -> FloatArray:
        """Tr(M^-1)/d in every draw; infinite where rows are too few for a mean to exist."""
        if pool @ self.sizes <= self.d + 1:
            return np.full(len(self.moments), np.inf)
        pooled = np.einsum("rjab,j->rab", self.moments, pool)
        return np.asarray((1 / np.linalg.eigvalsh(pooled)).mean(axis=1))
