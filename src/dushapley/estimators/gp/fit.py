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
from scipy.linalg import blas, lapack, solve_triangular
from scipy.optimize import Bounds, minimize

from dushapley.arrays import FloatArray, Queries, slices
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.kernel import Hyper, View

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

    @cached_property
    def centre(self) -> float:
        """Mean of the answers."""
        return self.answers.mean()

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the answers; one where they are equal but for rounding."""
        spread = float(self.answers.std())
        return spread if spread > 1e-12 * np.abs(self.answers).max() else 1.0

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
        self.nugget = kernel.nugget(self.hyper, self.seen.owners)
        total = kernel.lower_covariance(self.hyper, self.seen)
        total[np.diag_indices_from(total)] += self.nugget
        upper, info = lapack.dpotrf(total.T, lower=0, clean=1, overwrite_a=1)  # in its place
        self.factor: FloatArray = upper.T
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
        prior = kernel.terms_diagonal(self.hyper, seen) + kernel.nugget(self.hyper, seen.owners)
        white = self.whiten(cross.T)
        return cross @ self.alpha, np.maximum(prior - (white**2).sum(axis=0), kernel.JITTER)

    @cached_property
    def alone(self) -> FloatArray:
        """Variance of each observed pool given all the others."""
        inverse = inverted(self.factor, np.zeros(self.factor.shape))
        return 1 / np.einsum("ij,ij->j", inverse, inverse)

    def leave_one_out(self) -> FloatArray:
        """Errors of predicting each observed pool from all the others."""
        return self.alpha * self.alone


def fit(
    observed: Observed, start: FloatArray | None, iterations: int, most: int = MOST_FITTED
) -> FloatArray:
    """Hyper-parameters of highest posterior density, from the prior mean or a previous fit."""
    mean, spread, low, high = kernel.prior(observed.pools.shape[1])
    if len(observed.answers) > most:
        rows = np.linspace(0, len(observed.answers) - 1, most).round().astype(np.int64)
        observed = Observed(observed.pools[rows], observed.answers[rows], observed.log_sizes)
    # to eight digits of their spread: a search ends elsewhere by the last bits
    observed = Observed(observed.pools, observed.targets.round(8), observed.log_sizes)
    likelihood = Likelihood(observed.pools, observed.targets, observed.log_sizes)

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            found = likelihood(theta)
        if found is None:
            return HOPELESS, np.zeros_like(theta)
        away = (theta - mean) / spread
        return found[0] + 0.5 * (away @ away), found[1] + away / spread

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
    return best.x


ROWS = 64
"""Rows of a block."""
LEAF = 96
"""Rows of a triangular matrix that is inverted in one piece."""
WORST_PIVOTS = 1e7
"""How far apart pivots of a Cholesky factor may be: beyond this a likelihood is rounding."""


class Likelihood:
    """Minus the log-likelihood of some pools' standardised answers, and its gradient."""

    def __init__(self, pools: Queries, targets: FloatArray, log_sizes: FloatArray) -> None:
        self.z = pools.astype(np.float64)
        self.targets = targets
        self.log_sizes = log_sizes
        owners = self.z.sum(axis=1)
        count = len(owners)
        self.log_owners = np.log(owners)
        self.shares = kernel.knot_shares(owners, kernel.n_knots(self.z.shape[1]))
        self.covariance = np.zeros((count, count))
        self.pull = np.zeros((count, count))
        self.blocks = [_Block(rows, owners) for rows in slices(count, ROWS)]

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray] | None:
        """Value and gradient; None where the covariance cannot be factored."""
        n = self.z.shape[1]
        h = kernel.natural(theta, n)
        weights = kernel.owner_weights(theta, self.log_sizes)
        seen = kernel.view(self.z, weights, kernel.strengths(theta, n))
        made = kernel.features(h, seen)
        nugget = kernel.nugget(h, seen.owners)
        for block in self.blocks:
            block.fill(self.covariance, h, seen, made)
        self.covariance[np.diag_indices_from(self.covariance)] += nugget
        # row by row and below the diagonal is column by column and above it
        upper, info = lapack.dpotrf(self.covariance.T, lower=0, clean=1, overwrite_a=1)
        pivots = np.diag(upper)
        if info or not pivots.max() < WORST_PIVOTS * pivots.min():  # a NaN too
            return None
        alpha, _ = lapack.dpotrs(upper, self.targets, lower=0)
        value = 0.5 * (self.targets @ alpha) + np.log(pivots).sum()
        self._pull(upper, alpha)
        gradient = self._gradient(h, seen, made, nugget, weights)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        return value, gradient

    def _pull(self, upper: FloatArray, alpha: FloatArray) -> None:
        """2G below the diagonal and G on it, so that sums over it are sums over all of G."""
        inverse = inverted(upper.T, np.zeros_like(self.pull))
        below, _ = lapack.dlauum(inverse.T, lower=0, overwrite_c=1)
        self.pull = below.T
        blas.dsyr(-1.0, alpha, lower=0, a=self.pull.T, overwrite_a=1)
        self.pull[np.diag_indices_from(self.pull)] *= 0.5

    def _gradient(
        self, h: Hyper, seen: View, made: FloatArray, nugget: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Gradient in `theta`; every sum below is one of G ∘ a term of the covariance."""
        n = len(weights)
        sums = _Sums(len(made), made.shape[1], n)
        for block in self.blocks:
            block.add(sums, self.pull, h, seen, made)
        size, count = seen.log_size, seen.log_count
        product = made * sums.made
        owners, blended = product[:, 2 : 2 + n], product[:, 2 + n :]
        own = owners.sum(axis=1)
        blend = blended.sum(axis=1)
        trend = np.sqrt(h.trend) * sums.made[:, 1]
        rides, mix = sums.rides, sums.mix
        bends = (size * rides[:, 0] - rides[:, 1]) / h.curve_length**2
        noise = np.diag(self.pull) * (nugget - kernel.JITTER)
        apart = seen.root_mix * (sums.root_mix - seen.root_mix * sums.overlap[:, None])
        by_mix = apart + 2 * blended
        decays = h.owners_decay * own + h.mix_decay * mix + h.blend_decay * blend
        by_size = 2 * (trend - bends - decays)
        # ∂log p_j/∂log w_k = [j = k] − p_k, and ∂ℓ/∂log w_k = p_k − w_k/Σw
        by_weight = by_mix.sum(axis=0) - by_mix.sum(axis=1) @ seen.mix
        by_weight = by_weight + by_size @ seen.mix - by_size.sum() * weights / weights.sum()
        by_hyper = Hyper(
            curve_length=2 * float(size @ bends),
            curve=sums.curve,
            trend=size @ trend,
            owners=own.sum(),
            owners_decay=-2 * h.owners_decay * (own @ count),
            mix=mix.sum(),
            mix_decay=-2 * h.mix_decay * float(mix @ count),
            mix_length=-sums.mix_length,
            shift=rides[:, 0].sum() - sums.curve,
            shift_length=-sums.shift_length,
            blend=blend.sum(),
            blend_decay=-2 * h.blend_decay * (blend @ count),
            size_power=by_weight @ self.log_sizes,
            noise=noise.sum(),
            noise_decay=-(noise @ self.log_owners),
            step=sums.step,
        )
        by_strength = (owners + blended).sum(axis=0)
        if n <= kernel.MOST_TOLD_APART:
            by_strength += apart.sum(axis=0)
        parts = [np.array(by_hyper[: kernel.COUNT]), noise @ self.shares, by_weight, by_strength]
        return np.concatenate(parts)


class _Sums:
    """Products of G ∘ a term with vectors, added up block by block."""

    def __init__(self, pools: int, features: int, n_players: int) -> None:
        self.curve = self.mix_length = self.shift_length = self.step = 0.0
        self.mix = np.zeros(pools)
        self.overlap = np.zeros(pools)
        self.rides = np.zeros((pools, 2))
        self.root_mix = np.zeros((pools, n_players))
        self.made = np.zeros((pools, features))


class _Block:
    """Some rows of the covariance up to the diagonal: its terms, kept for the gradient."""

    def __init__(self, rows: slice, owners: FloatArray) -> None:
        self.rows = rows
        self.columns = slice(rows.stop)
        self.same = (owners[rows, None] == owners[self.columns]).astype(np.float64)
        self.room = np.empty((5, *self.same.shape))

    def fill(self, into: FloatArray, h: Hyper, seen: View, made: FloatArray) -> None:
        """Covariances of these rows, nuggets left out."""
        rows, columns = self.rows, self.columns
        riding, mix, shift, overlap, spare = self.room
        np.matmul(seen.root_mix[rows], seen.root_mix[columns].T, out=overlap)
        half = seen.half
        overlap -= half[rows, None]
        overlap -= half[columns]
        fade = h.mix_decay * seen.log_count
        sizes = seen.log_size[rows, None], seen.log_size[columns]
        scaled = np.log(h.mix) - fade[rows]
        fades = scaled[:, None], fade[columns]
        kernel.curved_terms(h, overlap, sizes, fades, (riding, shift, mix))
        total = np.matmul(made[rows], made[columns].T, out=spare)
        total += mix
        total += h.step * self.same
        part = into[rows, columns]
        np.add(shift, h.curve, out=part)
        part *= riding
        part += total

    def add(self, sums: _Sums, pull: FloatArray, h: Hyper, seen: View, made: FloatArray) -> None:
        """What these rows add to the sums; uses up the terms.

        Halves go to the rows and to the columns, as below the diagonal everything counts twice.
        """
        rows, columns = self.rows, self.columns
        riding, mix, shift, overlap, spare = self.room
        here = pull[rows, columns]
        riding *= here
        sums.curve += h.curve * riding.sum()
        shift *= riding
        riding *= h.curve
        riding += shift
        mix *= here
        sums.step += h.step * np.vdot(here, self.same)
        line = np.stack([np.ones_like(seen.log_size), seen.log_size], axis=1)
        sums.rides[rows] += 0.5 * (riding @ line[columns])
        sums.rides[columns] += 0.5 * (riding.T @ line[rows])
        sums.mix[rows] += 0.5 * mix.sum(axis=1)
        sums.mix[columns] += 0.5 * mix.sum(axis=0)
        shift *= 1 / h.shift_length
        mix *= 1 / h.mix_length
        sums.shift_length += float(np.vdot(shift, overlap))
        sums.mix_length += float(np.vdot(mix, overlap))
        by_overlap = np.add(mix, shift, out=spare)
        sums.overlap[rows] += 0.5 * by_overlap.sum(axis=1)
        sums.overlap[columns] += 0.5 * by_overlap.sum(axis=0)
        sums.root_mix[rows] += 0.5 * (by_overlap @ seen.root_mix[columns])
        sums.root_mix[columns] += 0.5 * (by_overlap.T @ seen.root_mix[rows])
        sums.made[rows] += 0.5 * (here @ made[columns])
        sums.made[columns] += 0.5 * (here.T @ made[rows])


def inverted(lower: FloatArray, into: FloatArray) -> FloatArray:
    """Inverse of a lower triangular matrix, by halves: products are faster than substitution."""
    count = len(lower)
    if count <= LEAF:
        found, _ = lapack.dtrtri(np.ascontiguousarray(lower).T, lower=0)
        into[:] = found.T
        return into
    half = count // 2
    first = inverted(lower[:half, :half], into[:half, :half])
    second = inverted(lower[half:, half:], into[half:, half:])
    into[half:, :half] = second @ (lower[half:, :half] @ first)
    np.negative(into[half:, :half], out=into[half:, :half])
    return into
