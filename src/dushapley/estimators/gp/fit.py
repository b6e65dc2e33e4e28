r"""Fitting the process to the pools that were paid for, and what it then believes of others.

The hyper-parameters are those of highest posterior density (MAP): with targets y (standardised),
covariance K of the observed pools, nugget included, and :math:`\alpha = K^{-1}y`, minimise

.. math:: \tfrac12 y^\top\alpha + \tfrac12\log|K| + \tfrac12 \sum_t ((\theta_t-\mu_t)/\sigma_t)^2

by L-BFGS-B (`likelihood` has the gradient).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import Bounds, minimize

from dushapley.arrays import FloatArray, Queries
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.kernel import View
from dushapley.estimators.gp.likelihood import Likelihood, inverted

MOST_FITTED = 400
"""Pools that hyper-parameters are fitted to; of more, as many evenly spaced in the order asked."""
FITTED_ON_THE_WAY = 256
"""The same while there are questions to choose."""
HOPELESS = 1e12
"""Cost of hyper-parameters whose covariance cannot be factored."""


@dataclass(frozen=True)
class Observed:
    """Non-empty pools and what they are worth, in the order asked."""

    pools: Queries
    answers: FloatArray
    log_sizes: FloatArray

    def some(self, most: int) -> Observed:
        """At most so many of them, evenly spaced in the order asked."""
        count = len(self.answers)
        if count <= most:
            return self
        rows = np.linspace(0, count - 1, most).round().astype(np.int64)
        return Observed(self.pools[rows], self.answers[rows], self.log_sizes)

    def rounded(self) -> Observed:
        """The same to eight digits of their spread: a search ends elsewhere by the last bits."""
        return Observed(self.pools, self.targets.round(8), self.log_sizes)

    @cached_property
    def centre(self) -> float:
        """Mean of the answers."""
        return float(self.answers.mean())

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the answers; one where they are equal but for rounding."""
        spread = float(self.answers.std())
        return spread if spread > 1e-12 * float(np.abs(self.answers).max()) else 1.0

    @cached_property
    def targets(self) -> FloatArray:
        """The answers, standardised."""
        return (self.answers - self.centre) / self.scale


class Posterior:
    """The process after the answers, for given hyper-parameters.

    Means and covariances are in standardised units; `observed` knows the way back.
    """

    def __init__(self, observed: Observed, theta: FloatArray) -> None:
        self.observed = observed
        self.theta = theta
        n = len(observed.log_sizes)
        self.hyper = kernel.natural(theta, n)
        self.weights = kernel.owner_weights(theta, observed.log_sizes)
        self.strength = kernel.strengths(theta, n)
        self.seen = self.view(observed.pools)
        self.nugget = kernel.nugget(self.hyper, self.seen.z)
        self.factor, info = cholesky(kernel.lower_covariance(self.hyper, self.seen), self.nugget)
        if info:
            raise np.linalg.LinAlgError("the covariance of the observed pools is singular")

    def view(self, pools: Queries) -> View:
        """Pools as the kernel sees them."""
        return kernel.view(pools, self.weights, self.strength)

    def whiten(self, cross: FloatArray) -> FloatArray:
        """L⁻¹ times covariances with the observed pools, shape (observed, anything)."""
        return solve_triangular(self.factor, cross, lower=True, check_finite=False)

    def unwhiten(self, white: FloatArray) -> FloatArray:
        """L⁻ᵀ times something whitened."""
        return solve_triangular(self.factor, white, lower=True, trans="T", check_finite=False)

    @cached_property
    def alpha(self) -> FloatArray:
        """K⁻¹ times the targets."""
        return self.unwhiten(self.whiten(self.observed.targets))

    def cross(self, pools: View) -> FloatArray:
        """Covariance of pools with the observed ones, shape (pools, observed)."""
        return kernel.covariance(self.hyper, pools, self.seen)

    def predict(self, pools: Queries) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the utilities of unseen pools, nugget included."""
        seen = self.view(pools)
        cross = self.cross(seen)
        prior = kernel.terms_diagonal(self.hyper, seen) + kernel.nugget(self.hyper, seen.z)
        white = self.whiten(cross.T)
        return cross @ self.alpha, np.maximum(prior - (white**2).sum(axis=0), kernel.JITTER)

    @cached_property
    def alone(self) -> FloatArray:
        """Variance of each observed pool given all the others."""
        inverse = inverted(self.factor, np.zeros(self.factor.shape))
        return np.asarray(1 / np.einsum("ij,ij->j", inverse, inverse))

    def leave_one_out(self) -> FloatArray:
        """Errors of predicting each observed pool from all the others."""
        return np.asarray(self.alpha * self.alone)


def cholesky(total: FloatArray, nugget: FloatArray) -> tuple[FloatArray, int]:
    """Lower factor of a covariance with nuggets added, in its place, and LAPACK's complaint."""
    total[np.diag_indices_from(total)] += nugget
    upper, info = lapack.dpotrf(total.T, lower=0, clean=1, overwrite_a=1)
    return upper.T, int(info)


def fit(
    observed: Observed, start: FloatArray | None, iterations: int, most: int = MOST_FITTED
) -> FloatArray:
    """Hyper-parameters of highest posterior density, from the prior mean or a previous fit."""
    mean, spread, low, high = kernel.prior(observed.pools.shape[1])
    observed = observed.some(most).rounded()
    likelihood = Likelihood(observed.pools, observed.targets, observed.log_sizes)

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            found = likelihood(theta)
        if found is None:
            return HOPELESS, np.zeros_like(theta)
        away = (theta - mean) / spread
        return found[0] + 0.5 * float(away @ away), found[1] + away / spread

    if start is None or cost(start)[0] >= HOPELESS:
        start = mean
    best = minimize(
        cost,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(low, high),
        options={"maxiter": iterations, "maxcor": 20},
    )
    return np.asarray(best.x)
