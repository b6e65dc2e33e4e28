r"""How well hyper-parameters explain the answers, and which way to move them.

Minus the log-likelihood of targets y with covariance K (`kernel`, nugget included) is
:math:`\tfrac12 y^\top\alpha + \tfrac12\log|K|` with :math:`\alpha = K^{-1}y`. Its gradient is
analytic: with :math:`G = \frac12(K^{-1} - \alpha\alpha^\top)`, the derivative in any quantity t is
:math:`\sum G \circ \partial K/\partial t`, and derivatives in the owners' weights follow by the
chain rule through ℓ and the mixtures.

A fit asks for hundreds of these, so they are made where memory is fast: by blocks of rows, below
the diagonal only, in buffers that are kept from one to the next. Terms that are products of
features (constant, trend, owners, blend) need no matrix of their own, since
:math:`\sum_j G_{ij} f_i^\top f_j = f_i^\top (GF)_i`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from dushapley.arrays import FloatArray, Queries
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.kernel import Hyper, View

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
        self.targets, self.log_sizes = targets, log_sizes
        owners = self.z.sum(axis=1)
        count = len(owners)
        self.log_owners = np.log(owners)
        self.shares = kernel.knot_shares(owners, kernel.n_knots(self.z.shape[1]))
        self.covariance = np.zeros((count, count))
        self.pull = np.zeros((count, count))
        self.blocks = [
            _Block(start, min(start + ROWS, count), owners) for start in range(0, count, ROWS)
        ]

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray] | None:
        """Value and gradient; None where the covariance cannot be factored."""
        n = self.z.shape[1]
        h = kernel.natural(theta, n)
        weights = kernel.owner_weights(theta, self.log_sizes)
        seen = kernel.view(self.z, weights, kernel.strengths(theta, n))
        made, nugget = kernel.features(h, seen), kernel.nugget(h, self.z)
        for block in self.blocks:
            block.fill(self.covariance, h, seen, made)
        self.covariance[np.diag_indices_from(self.covariance)] += nugget
        # row by row and below the diagonal is column by column and above it
        upper, info = lapack.dpotrf(self.covariance.T, lower=0, clean=1, overwrite_a=1)
        pivots = np.diag(upper)
        if info or not pivots.max() < WORST_PIVOTS * pivots.min():  # a NaN too
            return None
        alpha, _ = lapack.dpotrs(upper, self.targets, lower=0)
        value = 0.5 * float(self.targets @ alpha) + float(np.log(pivots).sum())
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
        own, blend = owners.sum(axis=1), blended.sum(axis=1)
        trend = np.sqrt(h.trend) * sums.made[:, 1]
        rides, mix = sums.rides, sums.mix
        bends = (size * rides[:, 0] - rides[:, 1]) / h.curve_length**2
        noise = np.diag(self.pull) * (nugget - kernel.JITTER)
        apart = seen.root_mix * (sums.root_mix - seen.root_mix * sums.overlap[:, None])
        by_mix = apart + 2 * blended
        decays = h.owners_decay * own + h.mix_decay * mix + h.blend_decay * blend
        by_weight = _through_weights(by_mix, 2 * (trend - bends - decays), seen.mix, weights)
        by_hyper = Hyper(
            curve_length=2 * float(size @ bends),
            curve=sums.curve,
            trend=float(size @ trend),
            owners=float(own.sum()),
            owners_decay=-2 * h.owners_decay * float(own @ count),
            mix=float(mix.sum()),
            mix_decay=-2 * h.mix_decay * float(mix @ count),
            mix_length=-sums.mix_length,
            shift=float(rides[:, 0].sum()) - sums.curve,
            shift_length=-sums.shift_length,
            blend=float(blend.sum()),
            blend_decay=-2 * h.blend_decay * float(blend @ count),
            size_power=float(by_weight @ self.log_sizes),
            noise=float(noise.sum()),
            noise_decay=-float(noise @ self.log_owners),
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

    def __init__(self, start: int, stop: int, owners: FloatArray) -> None:
        self.rows, self.columns = slice(start, stop), slice(0, stop)
        shape = (stop - start, stop)
        self.same = (owners[self.rows, None] == owners[None, self.columns]).astype(np.float64)
        self.riding, self.mix, self.shift, self.overlap, self.spare = (
            np.empty(shape) for _ in range(5)
        )

    def fill(self, into: FloatArray, h: Hyper, seen: View, made: FloatArray) -> None:
        """Covariances of these rows, nuggets left out."""
        rows, columns = self.rows, self.columns
        riding, mix, shift, overlap = self.riding, self.mix, self.shift, self.overlap
        np.subtract(seen.log_size[rows, None], seen.log_size[columns], out=riding)
        riding *= riding
        riding *= -0.5 / h.curve_length**2
        np.exp(riding, out=riding)
        np.matmul(seen.root_mix[rows], seen.root_mix[columns].T, out=overlap)
        half = seen.half
        overlap -= half[rows, None]
        overlap -= half[columns]
        np.multiply(overlap, 1 / h.shift_length, out=shift)
        np.exp(shift, out=shift)
        shift *= h.shift
        fade = h.mix_decay * seen.log_count
        np.multiply(overlap, 1 / h.mix_length, out=mix)
        mix -= (fade[rows] - np.log(h.mix))[:, None]
        mix -= fade[columns]
        np.exp(mix, out=mix)
        total = np.matmul(made[rows], made[columns].T, out=self.spare)
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
        riding, mix, shift, overlap, spare = (
            self.riding, self.mix, self.shift, self.overlap, self.spare,
        )  # fmt: skip
        here = pull[rows, columns]
        riding *= here
        sums.curve += h.curve * float(riding.sum())
        shift *= riding
        riding *= h.curve
        riding += shift
        mix *= here
        sums.step += h.step * float(np.vdot(here, self.same))
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


def _through_weights(
    by_mix: FloatArray, by_size: FloatArray, mix: FloatArray, weights: FloatArray
) -> FloatArray:
    """Gradient in log w from those in log p (pools, I) and ℓ (pools,).

    ∂log p_j/∂log w_k = [j = k] − p_k, and ∂ℓ/∂log w_k = p_k − w_k/Σw.
    """
    own = by_mix.sum(axis=0) - by_mix.sum(axis=1) @ mix
    return np.asarray(own + by_size @ mix - by_size.sum() * weights / weights.sum())
