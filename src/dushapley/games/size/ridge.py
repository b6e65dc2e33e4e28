"""Ridge regression on pooled rows as a game: the older version's appendix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.errors import InvalidGame
from dushapley.games.base import Game
from dushapley.hashing import digest
from dushapley.validation import check_sizes


class RidgeGame(Game):
    r"""Minus the expected squared error of weighted ridge regression on the owners' own features.

    Owner i holds :math:`n_i` rows :math:`X_i` (`designs`), labels :math:`Y_i = X_i\theta + \eta_i`
    with noise variance :math:`\varepsilon_i^2` (`noise`). A pool with weights :math:`\alpha_i`
    that add up to 1, by default :math:`n_i/n`, learns :math:`\hat\theta = (\lambda I + A)^{-1}
    \sum_i (\alpha_i/n_i) X_i^\top Y_i`,
    :math:`A = \sum_i (\alpha_i/n_i) X_i^\top X_i` (the Moore–Penrose inverse at λ = 0). On a test
    point with second moment C (`test_moment`) it errs, in expectation over the noise, by

    .. math:: \mathrm{Tr}\,C\big[(I - A A_\lambda^{-1})\theta\theta^\top(I - A_\lambda^{-1}A)
              + A_\lambda^{-1} \big(\sum_i \tfrac{\alpha_i^2\varepsilon_i^2}{n_i^2} X_i^\top X_i
              \big) A_\lambda^{-1}\big], \quad A_\lambda = \lambda I + A.

    As λ → ∞, and with no rows at all, that is :math:`\theta^\top C\theta`: predicting 0. A part of
    an owner's rows is taken to have its second moment, so fractions are arithmetic.

    The estimator minimises :math:`\lambda\|\theta\|^2 + \sum_i (\alpha_i/n_i)\|Y_i -
    X_i\theta\|^2`; the appendix prints ½λ there, and drops a 2 in the gradient.

    Parameters
    ----------
    designs
        One (n_i, d) matrix of features per owner.
    theta
        The true coefficients.
    noise
        Variance of the label noise, one number or one per owner.
    lam
        λ ≥ 0.
    test_moment
        C; default the identity.
    alpha
        Weight of every owner's mean loss, positive; those of a pool are divided by their sum, so
        that only proportions count. Default: its rows. A part of an owner's rows has that part of
        its weight.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.games.RidgeGame([[[1.0]], [[1.0], [2.0]]], theta=[2.0], noise=1.0, lam=0.5)
    >>> game([[0, 0], [1, 1]]).round(4).tolist()
    [-4.0, -0.2667]
    """

    fractions = "exact"
    cheap = True

    def __init__(
        self,
        designs: Sequence[ArrayLike],
        theta: ArrayLike,
        noise: ArrayLike,
        lam: float,
        test_moment: ArrayLike | None = None,
        *,
        alpha: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        blocks = [np.asarray(block, dtype=np.float64) for block in designs]
        self.theta = np.asarray(theta, dtype=np.float64)
        d = len(self.theta) if self.theta.ndim == 1 else -1
        if d < 1 or not blocks or any(b.ndim != 2 or b.shape[1] != d or not len(b) for b in blocks):
            raise InvalidGame("designs must be (n_i, d) matrices of at least a row, theta (d,).")
        self.lam = float(lam)
        self._set_owners([len(block) for block in blocks], names)
        self.noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), (len(blocks),)).copy()
        self.test_moment = np.eye(d) if test_moment is None else np.array(test_moment, dtype=float)
        self.moments = np.stack([block.T @ block / len(block) for block in blocks])
        self.alpha = self.sizes if alpha is None else check_sizes(alpha, len(blocks), "alpha")
        if not (self.lam >= 0 and bool((self.noise >= 0).all())):
            raise InvalidGame("lam and noise must not be negative.")
        if not self.alpha.all():
            raise InvalidGame("alpha must be positive: whoever counts for nothing is left out.")
        weights = () if alpha is None else (self.alpha,)
        self.fingerprint = digest(
            "ridge", self.moments, self.theta, self.noise, self.lam, self.test_moment, self.sizes,
            *weights, *self.names,
        )  # fmt: skip

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        rows, weight = queries * self.sizes, queries * self.alpha
        total = weight.sum(axis=1, keepdims=True)
        alpha = np.divide(weight, total, out=np.zeros_like(rows), where=total > 0)
        pooled = np.tensordot(alpha, self.moments, axes=1)
        # α_i²/n_i² X_i'X_i = α_i²/n_i A_i, of the rows that are in the pool
        spread = np.divide(alpha**2, rows, out=np.zeros_like(alpha), where=rows > 0)
        noise = np.tensordot(spread * self.noise, self.moments, axes=1)
        inverse = shrunk_inverse(pooled, self.lam)
        bias = self.theta - np.einsum("mij,mjk,k->mi", inverse, pooled, self.theta)
        variance = np.einsum("mij,mjk,mkl,li->m", inverse, noise, inverse, self.test_moment)
        return np.asarray(-np.einsum("mi,ij,mj->m", bias, self.test_moment, bias) - variance)


def shrunk_inverse(moments: FloatArray, lam: float) -> FloatArray:
    """(λI + A)^−1 of a stack of symmetric matrices; the Moore–Penrose inverse where λ is 0."""
    if lam == 0:
        return np.asarray(np.linalg.pinv(moments, hermitian=True), dtype=np.float64)
    return np.asarray(np.linalg.inv(moments + lam * np.eye(moments.shape[-1])), dtype=np.float64)


def ridge_minimiser(
    designs: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    lam: float,
    alpha: ArrayLike | None = None,
) -> FloatArray:
    """The pooled estimate of `RidgeGame` from actual labels, weights α_i = n_i/n or as given.

    Examples
    --------
    >>> from dushapley.games import ridge_minimiser
    >>> ridge_minimiser([[[1.0], [1.0]], [[1.0]]], [[1.0, 2.0], [3.0]], lam=0.0).round(6).tolist()
    [2.0]
    """
    X = [np.asarray(block, dtype=np.float64) for block in designs]
    y = [np.asarray(block, dtype=np.float64) for block in labels]
    each = np.array([len(block) for block in X] if alpha is None else alpha, dtype=np.float64)
    each = each / each.sum() / [len(block) for block in X]
    moment = sum(a * x.T @ x for a, x in zip(each, X, strict=True))
    product = sum(a * x.T @ t for a, x, t in zip(each, X, y, strict=True))
    return np.asarray(shrunk_inverse(np.asarray(moment)[None], lam)[0] @ product)
