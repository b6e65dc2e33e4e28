r"""Fitting the process to the pools that were paid for, and what it then believes of others.

The hyper-parameters are those of highest posterior density (MAP): with targets y (standardised),
covariance K of the observed pools, nugget included, and :math:`\alpha = K^{-1}y`, minimise

.. math:: \tfrac12 y^\top\alpha + \tfrac12\log|K| + \tfrac12 \sum_t ((\theta_t-\mu_t)/\sigma_t)^2

by L-BFGS-B. The gradient is analytic: with :math:`G = \frac12(K^{-1} - \alpha\alpha^\top)`, the
derivative in any quantity t is :math:`\sum G \circ \partial K/\partial t`, and derivatives in the
owners' weights follow by the chain rule through ℓ and the mixtures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import Bounds, minimize

from dushapley.arrays import FloatArray, Queries
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.kernel import Hyper, Terms, View

MOST_FITTED = 400
"""Pools that hyper-parameters are fitted to; of more, as many evenly spaced in the order asked."""
WORST_PIVOTS = 1e7
"""How far apart pivots of a Cholesky factor may be: beyond this a likelihood is rounding."""
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
        _, self.nugget, self.factor, info = factored(self.hyper, self.seen)
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
        inverse, _ = lapack.dpotri(self.factor, lower=1)
        return np.asarray(1 / np.diag(inverse))

    def leave_one_out(self) -> FloatArray:
        """Errors of predicting each observed pool from all the others."""
        return np.asarray(self.alpha * self.alone)


def factored(hyper: Hyper, seen: View) -> tuple[Terms, FloatArray, FloatArray, int]:
    """Terms and nuggets of the covariance of pools, its Cholesky factor, and LAPACK's complaint."""
    terms = kernel.terms(hyper, seen, seen)
    nugget = kernel.nugget(hyper, seen.z)
    total = terms.total()
    total[np.diag_indices_from(total)] += nugget
    factor, info = lapack.dpotrf(total, lower=1, clean=1, overwrite_a=1)
    return terms, nugget, factor, int(info)


def fit(observed: Observed, start: FloatArray | None, iterations: int) -> FloatArray:
    """Hyper-parameters of highest posterior density, from the prior mean or a previous fit."""
    mean, spread, low, high = kernel.prior(observed.pools.shape[1])
    observed = observed.some(MOST_FITTED).rounded()
    z = observed.pools.astype(np.float64)

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            found = likelihood(theta, z, observed)
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


def likelihood(
    theta: FloatArray, z: FloatArray, observed: Observed
) -> tuple[float, FloatArray] | None:
    """Minus the log-likelihood and its gradient; None where the covariance cannot be factored."""
    n = z.shape[1]
    h = kernel.natural(theta, n)
    weights = kernel.owner_weights(theta, observed.log_sizes)
    seen = kernel.view(z, weights, kernel.strengths(theta, n))
    terms, nugget, factor, info = factored(h, seen)
    pivots = np.diag(factor)
    if info or not pivots.max() < WORST_PIVOTS * pivots.min():  # a NaN too
        return None
    alpha, _ = lapack.dpotrs(factor, observed.targets, lower=1)
    value = 0.5 * float(observed.targets @ alpha) + float(np.log(np.diag(factor)).sum())
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    pull = inverse + inverse.T
    pull[np.diag_indices_from(pull)] *= 0.5
    pull -= np.multiply.outer(alpha, alpha)
    pull *= 0.5
    gradient = _gradient(h, seen, terms, pull, nugget, weights, observed.log_sizes)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return None
    return value, gradient


def _gradient(
    h: Hyper,
    seen: View,
    terms: Terms,
    pull: FloatArray,
    nugget: FloatArray,
    weights: FloatArray,
    log_sizes: FloatArray,
) -> FloatArray:
    """Gradient of the likelihood in `theta`; `pull` is G, and every product below G ∘ a term."""
    curve, mix, shift = pull * terms.curve, pull * terms.mix, pull * terms.shift
    owners, blend = (pull * terms.owners).sum(axis=1), (pull * terms.blend).sum(axis=1)
    by_curve, mix_rows, shift_rows = curve.sum(), mix.sum(axis=1), shift.sum(axis=1)
    size, count = seen.log_size, seen.log_count
    trend = h.trend * (pull @ size)

    curve += shift  # all that rides on R
    rides = curve.sum(axis=1)
    bends = (size * rides - curve @ size) / h.curve_length**2
    mix *= 1 / h.mix_length
    shift *= 1 / h.shift_length
    mix_length, shift_length = np.vdot(mix, terms.overlap), np.vdot(shift, terms.overlap)
    mix += shift  # the derivative in the overlap C
    noise = np.diag(pull) * (nugget - kernel.JITTER)

    alone = seen.strength * np.exp(-h.owners_decay * count)[:, None] * seen.z
    fade = seen.strength * np.exp(-h.blend_decay * count)[:, None] * seen.mix
    blended = h.blend * fade * (pull @ fade)
    by_mix = seen.root_mix * (mix @ seen.root_mix) + 2 * blended
    by_strength = (h.owners * alone * (pull @ alone) + blended).sum(axis=0)
    decays = h.owners_decay * owners + h.mix_decay * mix_rows + h.blend_decay * blend
    by_weight = _through_weights(by_mix, 2 * (trend - bends - decays), seen.mix, weights)
    by_hyper = Hyper(
        curve_length=2 * float(size @ bends),
        curve=float(by_curve),
        trend=float(size @ trend),
        owners=float(owners.sum()),
        owners_decay=-2 * h.owners_decay * float(owners @ count),
        mix=float(mix_rows.sum()),
        mix_decay=-2 * h.mix_decay * float(mix_rows @ count),
        mix_length=-float(mix_length),
        shift=float(shift_rows.sum()),
        shift_length=-float(shift_length),
        blend=float(blend.sum()),
        blend_decay=-2 * h.blend_decay * float(blend @ count),
        size_power=float(by_weight @ log_sizes),
        noise=float(noise.sum()),
        noise_decay=-float(noise @ np.log(seen.owners)),
        step=float(np.vdot(pull, terms.step)),
    )
    by_knot = noise @ kernel.knot_shares(seen.owners, len(h.knots))
    return np.concatenate([np.array(by_hyper[: kernel.COUNT]), by_knot, by_weight, by_strength])


def _through_weights(
    by_mix: FloatArray, by_size: FloatArray, mix: FloatArray, weights: FloatArray
) -> FloatArray:
    """Gradient in log w from those in log p (pools, I) and ℓ (pools,).

    ∂log p_j/∂log w_k = [j = k] − p_k, and ∂ℓ/∂log w_k = p_k − w_k/Σw.
    """
    own = by_mix.sum(axis=0) - by_mix.sum(axis=1) @ mix
    return np.asarray(own + by_size @ mix - by_size.sum() * weights / weights.sum())
