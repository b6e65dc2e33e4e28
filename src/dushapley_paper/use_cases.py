"""What the paper and its older version say of the use-cases, and no method needs.

Ridge regression on pooled rows as a game (the older version's appendix), and DU-Shapley of a
regressogram as Definition 1 has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.errors import InvalidGame
from dushapley.games.base import Game
from dushapley.games.size.curves import finite_curve
from dushapley.games.size.games import RegressogramGame
from dushapley.hashing import digest
from dushapley.validation import check_sizes, refuse


def definition_1(game: RegressogramGame) -> FloatArray:
    """DU-Shapley as Definition 1 has it, in expectation over its draws.

    The paper says that its closed form (what `du` computes) coincides with the definition here. It
    does not: of rows drawn from the others, how many lie in a bin is random (hypergeometric), and
    the closed form puts the mean in its place.

    Examples
    --------
    >>> import dushapley as ds
    >>> w = ds.games.mean_estimation(noise=1.0, prior=1.0)
    >>> game = ds.RegressogramGame([[2, 0], [0, 2], [1, 1], [2, 1]], [0.5, 0.5], w)
    >>> ds.value(game, "du").values.round(3).tolist()
    [0.142, 0.166, 0.19, 0.242]
    >>> definition_1(game).round(3).tolist()
    [0.155, 0.182, 0.208, 0.258]
    """
    from scipy.stats import hypergeom

    whole = not (game.counts % 1).any()
    refuse(InvalidGame, (not whole, "Rows are drawn one by one: counts must be whole."))
    n, values = game.n_players, np.zeros(game.n_players)
    share = np.arange(n)[:, None] / max(n - 1, 1)
    for part in game.parts():
        for i, (size, own) in enumerate(zip(game.sizes, part.sizes, strict=True)):
            rows, inside = game.sizes.sum() - size, part.sizes.sum() - own
            count = np.arange(inside + 1)
            chance = hypergeom.pmf(count, rows, inside, np.round(share * rows))
            gain = finite_curve(part.curve, count + own) - finite_curve(part.curve, count)
            values[i] += part.weight * float((chance @ gain).mean())
    return values


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
    >>> game = RidgeGame([[[1.0]], [[1.0], [2.0]]], theta=[2.0], noise=1.0, lam=0.5)
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
        refuse(
            InvalidGame,
            (
                not (self.lam >= 0 and bool((self.noise >= 0).all())),
                "lam and noise must not be negative.",
            ),
            (
                not self.alpha.all(),
                "alpha must be positive: an owner who counts for nothing is left out.",
            ),
        )
        self.fingerprint = digest(
            "ridge", self.moments, self.theta, self.noise, self.lam, self.test_moment, self.sizes,
            *(() if alpha is None else (self.alpha,)), *self.names,
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
    """(λI + A)^−1 of symmetric matrices, one or a stack; the Moore–Penrose inverse where λ is 0."""
    shrunk = moments + lam * np.eye(moments.shape[-1])
    return np.asarray(np.linalg.pinv(shrunk, hermitian=True), dtype=np.float64)


def ridge_minimiser(
    designs: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    lam: float,
    alpha: ArrayLike | None = None,
) -> FloatArray:
    """The pooled estimate of `RidgeGame` from actual labels, weights α_i = n_i/n or as given.

    Examples
    --------
    >>> ridge_minimiser([[[1.0], [1.0]], [[1.0]]], [[1.0, 2.0], [3.0]], lam=0.0).round(6).tolist()
    [2.0]
    """
    X = [np.asarray(block, dtype=np.float64) for block in designs]
    y = np.concatenate([np.asarray(block, dtype=np.float64) for block in labels])
    n = np.array([len(block) for block in X])
    each = n if alpha is None else np.asarray(alpha, dtype=np.float64)
    weighted = np.concatenate(X) * np.repeat(each / each.sum() / n, n)[:, None]
    return shrunk_inverse(weighted.T @ np.concatenate(X), lam) @ (weighted.T @ y)
