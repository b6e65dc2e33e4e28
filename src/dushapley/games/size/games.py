"""Games of pooled rows with a formula: the paper's first two use-cases.

All take true fractions as arithmetic ("every other owner gives k/(I−1) of its rows"), cost
nothing, and serve as products (what-if by theory) and as oracles for the estimators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.data.owners import Owners
from dushapley.errors import InvalidGame
from dushapley.games.base import Game
from dushapley.games.many.marginals import SumsMarginals
from dushapley.games.size import binning, curves
from dushapley.games.size.closed_forms import Part, solve
from dushapley.games.size.du import definition_values
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.validation import refuse


class SizeGame(Game):
    r"""Use-case 2, homogeneous owners: only the number of pooled rows counts.

    .. math:: u(S) = w\Big(\sum_{i \in S} n_i\Big)

    with `sizes` :math:`n_i` and a vectorised curve `w`. Nothing is rounded or floored: a fraction
    f of owner i brings exactly f·n_i rows.

    Parameters
    ----------
    sizes
        Rows of each owner; zero is legal.
    w
        Maps an array of row counts to an array of utilities; any function, or a `LearningCurve`
        such as `dushapley.games.rational`.
    second_derivative, shape
        What is known of a plain function `w`, see `LearningCurve`. Bounds on DU-Shapley's error
        are guarantees where they rest on such declarations, numerical checks where they do not. A
        declaration that differences of `w` contradict is refused.
    fingerprint
        Names the content of `w`, which cannot be hashed.

    Notes
    -----
    Solved without a question: `exact` up to 20,000 owners whose sizes lie on a common lattice of
    at most 2^23 steps (whole rows, say), `du` for millions, `du-second-order`.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([10, 30], w=lambda n: n / (n + 10))
    >>> game([[0, 0], [1, 0], [0.5, 1]]).tolist()
    [0.0, 0.5, 0.7777777777777778]
    """

    fractions = "exact"
    cheap = True

    def __init__(
        self,
        sizes: ArrayLike,
        w: curves.Curve,
        *,
        second_derivative: curves.Curve | None = None,
        shape: curves.Shape | None = None,
        names: Sequence[str] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self._set_owners(sizes, names)
        self.w = w
        self.curve = curves.as_curve(w, second_derivative, shape)
        curves.check_shape(self.curve, self.sizes.sum(keepdims=True))
        content = fingerprint if fingerprint is not None else self.curve.name
        if content is not None:
            self.fingerprint = digest("size game", content, self.sizes, "\n".join(self.names))

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        return curves.apply_curve(self.w, queries @ self.sizes)

    def marginals(self) -> SumsMarginals:
        nobody = float(curves.apply_curve(self.w, np.zeros(1))[0])
        return SumsMarginals(self.sizes[None], self._worth, nobody, "size game")

    def _worth(self, rows: FloatArray) -> FloatArray:
        return curves.apply_curve(self.w, rows[0])

    def closed_form(self, method: str, wishes: Mapping[str, Any] | None = None) -> Estimate | None:
        return solve(method, self.sizes, [Part(self.sizes, self.curve)], wishes)


class RegressogramGame(Game):
    r"""Use-case 1, non-parametric regression by bins: a weighted sum of size games.

    .. math:: u(S) = \sum_b P(x \in b)\; w_b\Big(\sum_{i \in S} n_{i,b}\Big)

    Parameters
    ----------
    counts
        Shape (I, B): rows of owner i in bin b.
    probabilities
        Shape (B,): chance of a test point in each bin; not negative, adding to at most 1.
    w
        Maps an (m, B) array of pooled counts to an (m, B) array of utilities, column by column.
        `mean_estimation` gives the paper's.

    Notes
    -----
    Solved without a question, bin by bin, as `SizeGame` is. `from_owners` bins real rows.

    Examples
    --------
    >>> import dushapley as ds
    >>> w = ds.games.mean_estimation(noise=1.0, prior=1.0)
    >>> game = ds.RegressogramGame([[3, 0], [0, 1]], [0.5, 0.5], w)
    >>> game([[0, 0], [1, 1]]).tolist()
    [-1.0, -0.375]
    """

    fractions = "exact"
    cheap = True
    excess_risk: binning.ExcessRisk | None = None

    def __init__(
        self,
        counts: ArrayLike,
        probabilities: ArrayLike,
        w: curves.Curve,
        *,
        names: Sequence[str] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self.counts = np.array(counts, dtype=np.float64)
        self.probabilities = np.array(probabilities, dtype=np.float64)
        chances = self.probabilities
        refuse(
            InvalidGame,
            (
                self.counts.ndim != 2 or self.counts.shape[1:] != chances.shape,
                f"counts has shape {self.counts.shape} and probabilities {chances.shape}; they "
                "need to be (I, B) and (B,).",
            ),
            (
                not bool((np.isfinite(self.counts) & (self.counts >= 0)).all()),
                "counts must be finite and not negative: rows of each owner per bin.",
            ),
            (
                not (bool((chances >= 0).all()) and chances.sum() <= 1 + 1e-9),
                "probabilities must not be negative and add up to at most 1.",
            ),
        )
        self.w = w
        self.curve = curves.as_curve(w, None, None)
        curves.check_shape(self.curve, self.counts.sum(axis=0))
        self._set_owners(self.counts.sum(axis=1), names)
        content = fingerprint if fingerprint is not None else self.curve.name
        if content is not None:
            self.fingerprint = digest(
                "regressogram", content, self.counts, self.probabilities, *self.names
            )

    @classmethod
    def from_owners(
        cls,
        owners: Owners,
        *,
        beta: float = 1.0,
        per_axis: int | None = None,
        probabilities: ArrayLike | None = None,
        noise: float | None = None,
        prior: float | None = None,
    ) -> RegressogramGame:
        """Bin real rows into B ≈ n^{d/(d+2β)} cubes; `excess_risk` holds both halves of the risk.

        Parameters
        ----------
        owners
            Numeric features and a numeric target.
        beta
            Smoothness of the regression function (1: Lipschitz).
        per_axis
            Slices along each feature, instead of n^{1/(d+2β)}.
        probabilities
            Chance of a test point in each cube (first feature fastest); default: where the rows
            are.
        noise, prior
            Variance of the labels' noise (default: from nearest neighbours) and of the bins' means
            (default: from the bins), see `mean_estimation`.

        Examples
        --------
        >>> import dushapley as ds, numpy as np
        >>> x = np.linspace(0, 1, 400)[:, None]
        >>> y = np.sin(6 * x[:, 0])
        >>> owners = ds.Owners.from_arrays({"left": (x[:99], y[:99]), "right": (x[99:], y[99:])})
        >>> game = ds.RegressogramGame.from_owners(owners, noise=0.01)
        >>> game.excess_risk.bins, round(game.excess_risk.approximation, 2)
        (7, 0.02)
        """
        X, y = binning.as_regression(owners)
        rows, labels = np.concatenate(X), np.concatenate(y)
        cubes = binning.Cubes.over(rows, beta, per_axis)
        bins = cubes.locate(rows)
        s2 = binning.nearest_noise(rows, labels) if noise is None else float(noise)
        within, between = binning.within_and_between(labels, bins, s2)
        v = max(between, 1e-9 * float(labels.var() + s2)) if prior is None else float(prior)
        if probabilities is None:  # where the rows are
            probabilities = np.bincount(bins, minlength=cubes.number) / len(bins)
        counts = [np.bincount(cubes.locate(block), minlength=cubes.number) for block in X]
        game = cls(counts, probabilities, curves.mean_estimation(s2, v), names=owners.names)
        learnt = -float(game(np.ones((1, len(owners)), dtype=np.bool_))[0])
        game.excess_risk = binning.ExcessRisk(
            learnt, max(0.0, within - s2), s2, v, cubes.number, cubes.per_axis
        )
        return game

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        return curves.apply_curve(self.w, queries @ self.counts) @ self.probabilities

    def marginals(self) -> SumsMarginals:
        nobody = float(self._worth(np.zeros((self.counts.shape[1], 1)))[0])
        return SumsMarginals(self.counts.T.astype(np.float64), self._worth, nobody, "bins")

    def _worth(self, counts: FloatArray) -> FloatArray:
        return curves.apply_curve(self.w, counts.T) @ self.probabilities

    def parts(self) -> list[Part]:
        """One size game per bin that a test point can fall in."""
        bins = np.flatnonzero(self.probabilities > 0)
        return [
            Part(self.counts[:, b], self._curve_of(int(b)), float(self.probabilities[b]))
            for b in bins
        ]

    def _curve_of(self, b: int) -> curves.LearningCurve:
        """The curve of one bin: the column b of w."""
        if self.curve.elementwise:
            return self.curve
        width = len(self.probabilities)

        def column(function: curves.Curve) -> curves.Curve:
            def of_rows(n: FloatArray) -> FloatArray:
                table = np.zeros((n.size, width))
                table[:, b] = n.ravel()
                return curves.apply_curve(function, table)[:, b].reshape(n.shape)

            return of_rows

        second = self.curve.second_derivative
        return curves.LearningCurve(
            column(self.w), None if second is None else column(second), self.curve.shape
        )

    def closed_form(self, method: str, wishes: Mapping[str, Any] | None = None) -> Estimate | None:
        return solve(method, self.sizes, self.parts(), wishes)

    def definition_1(self) -> FloatArray:
        """DU-Shapley as Definition 1 has it, in expectation over its draws.

        The paper says that its closed form (what `du` computes) coincides with the definition
        here. It does not: of rows drawn from the others, how many lie in a bin is random
        (hypergeometric), and the closed form puts the mean in its place.

        Examples
        --------
        >>> import dushapley as ds
        >>> w = ds.games.mean_estimation(noise=1.0, prior=1.0)
        >>> game = ds.RegressogramGame([[2, 0], [0, 2], [1, 1], [2, 1]], [0.5, 0.5], w)
        >>> ds.value(game, "du").values.round(3).tolist()
        [0.142, 0.166, 0.19, 0.242]
        >>> game.definition_1().round(3).tolist()
        [0.155, 0.182, 0.208, 0.258]
        """
        whole = bool((self.counts % 1 == 0).all())
        refuse(InvalidGame, (not whole, "Rows are drawn one by one: counts must be whole."))
        return np.sum(
            [p.weight * definition_values(self.sizes, p.sizes, p.curve) for p in self.parts()],
            axis=0,
        )
