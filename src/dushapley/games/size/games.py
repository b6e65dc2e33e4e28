"""Games of pooled rows with a formula: the paper's first two use-cases.

All take true fractions as arithmetic ("every other owner gives k/(I−1) of its rows"), cost
nothing, and serve as products (what-if by theory) and as oracles for the estimators.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Draws, FloatArray, IntArray, Queries, as_floats
from dushapley.data.owners import Owners
from dushapley.errors import InvalidGame, InvalidOwners
from dushapley.games.base import Game, Wishes
from dushapley.games.many.marginals import SumsMarginals
from dushapley.games.size import curves
from dushapley.games.size.closed_forms import Part, solve
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.validation import refuse


class PooledRowsGame(Game):
    """A game whose pools are worth a curve of how many rows they hold, in all or bin by bin.

    Attributes
    ----------
    counts
        Rows of each owner in each bin, shape (I, B).
    w, curve
        The curve as given, and with what is known of it.
    """

    fractions = "exact"
    cheap = True
    counts: FloatArray

    def _set_curve(
        self, curve: curves.LearningCurve, fingerprint: str | None, kind: str, *content: object
    ) -> None:
        """Check a curve against all rows there are, and name the game by all its content."""
        rows = self.counts.sum(axis=0)
        if curve.shape is not None and (found := curves.contradiction(curve, curve.shape, rows)):
            raise InvalidGame(
                f"w is declared {curve.shape}, but its {found} have the wrong sign. A bound would "
                "rest on that: declare what the curve is, or nothing (shape=None)."
            )
        self.curve = curve
        name = curve.name if fingerprint is None else fingerprint
        if name is not None:
            self.fingerprint = digest(kind, name, *content)

    @abstractmethod
    def worth(self, rows: FloatArray) -> FloatArray:
        """Compute utilities of m pools from their rows in each bin, shape (B, m)."""

    @abstractmethod
    def parts(self) -> list[Part]:
        """List the size games that this game is the sum of."""

    def evaluate(self, queries: Queries, draws: Draws) -> FloatArray:
        return self.worth((queries @ self.counts).T)

    def marginals(self) -> SumsMarginals:
        nobody = float(self.worth(np.zeros((self.counts.shape[1], 1)))[0])
        return SumsMarginals(self.counts.T, self.worth, nobody, type(self).__name__)

    def closed_form(self, method: str, wishes: Wishes = None) -> Estimate | None:
        return solve(method, self.sizes, self.parts(), wishes)


class SizeGame(PooledRowsGame):
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
        self.w, self.counts = w, self.sizes[:, None]
        curve, names = curves.as_curve(w, second_derivative, shape), "\n".join(self.names)
        self._set_curve(curve, fingerprint, "size game", self.sizes, names)

    def worth(self, rows: FloatArray) -> FloatArray:
        return curves.apply_curve(self.w, rows[0])

    def parts(self) -> list[Part]:
        return [Part(self.sizes, self.curve)]


class RegressogramGame(PooledRowsGame):
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

    excess_risk: ExcessRisk | None = None

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
        self.probabilities = chances = np.array(probabilities, dtype=np.float64)
        refuse(
            InvalidGame,
            (
                self.counts.ndim != 2 or self.counts.shape[1:] != chances.shape,
                f"counts has shape {self.counts.shape} and probabilities {chances.shape}; they "
                "need to be (I, B) and (B,).",
            ),
            (
                not (np.isfinite(self.counts) & (self.counts >= 0)).all(),
                "counts must be finite and not negative: rows of each owner per bin.",
            ),
            (
                not (chances >= 0).all() or chances.sum() > 1 + 1e-9,
                "probabilities must not be negative and add up to at most 1.",
            ),
        )
        self._set_owners(self.counts.sum(axis=1), names)
        self.w, content = w, (self.counts, chances, *self.names)
        self._set_curve(curves.as_curve(w, None, None), fingerprint, "regressogram", *content)

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
        rows, labels = as_regression(owners)
        n, d = rows.shape
        slices = per_axis or max(1, round(n ** (1 / (d + 2 * beta))))
        bins, n_bins = cubes(rows, slices), slices**d
        s2 = nearest_noise(rows, labels) if noise is None else float(noise)
        _, member, held = np.unique(bins, return_inverse=True, return_counts=True)
        mean = np.bincount(member, labels) / held  # of the labels in each bin
        within = float(((labels - mean[member]) ** 2).sum()) / max(1, n - len(held))
        between = float(np.average((mean - labels.mean()) ** 2 - s2 / held, weights=held))
        v = max(between, 1e-9 * float(labels.var() + s2)) if prior is None else float(prior)
        if probabilities is None:  # where the rows are
            probabilities = np.bincount(bins, minlength=n_bins) / n
        owner = np.repeat(np.arange(len(owners)), [len(block) for block in owners.X])
        counts = np.bincount(owner * n_bins + bins, minlength=len(owners) * n_bins)
        table, curve = counts.reshape(-1, n_bins), curves.mean_estimation(s2, v)
        game = cls(table, probabilities, curve, names=owners.names)
        learnt = -float(game(np.ones((1, len(owners))))[0])
        game.excess_risk = ExcessRisk(learnt, max(0.0, within - s2), s2, v, n_bins, slices)
        return game

    def worth(self, rows: FloatArray) -> FloatArray:
        return curves.apply_curve(self.w, rows.T) @ self.probabilities

    def parts(self) -> list[Part]:
        """One size game per bin that a test point can fall in."""
        bins = np.flatnonzero(self.probabilities > 0).tolist()
        return [
            Part(self.counts[:, b], self._curve_of(b), float(self.probabilities[b])) for b in bins
        ]

    def _curve_of(self, b: int) -> curves.LearningCurve:
        """The curve of one bin: the column b of w."""
        if self.curve.elementwise:
            return self.curve
        column = partial(in_column, b, len(self.probabilities))
        second = self.curve.second_derivative
        return curves.LearningCurve(
            partial(column, self.w), second and partial(column, second), self.curve.shape
        )


def in_column(b: int, n_columns: int, function: curves.Curve, n: FloatArray) -> FloatArray:
    """Ask a function of a table for what it makes of column b."""
    table = np.repeat(n.reshape(-1, 1), n_columns, axis=1)
    return curves.apply_curve(function, table)[:, b].reshape(n.shape)


@dataclass(frozen=True)
class ExcessRisk:
    """Both halves of a regressogram's excess risk, E(f̂ − f*)² = E(f̂ − f̄)² + E(f̄ − f*)².

    Attributes
    ----------
    estimation
        Error of estimating the bins' means from everybody's rows: minus the game's u(all).
    approximation
        Error of being constant within bins: variance of the labels within bins, less the noise.
        The same for every coalition, so nobody's value depends on it.
    noise, prior
        Variances of a label's noise and of the bins' means, given or estimated.
    bins, per_axis
        Number of bins, and of slices along each feature.
    """

    estimation: float
    approximation: float
    noise: float
    prior: float
    bins: int
    per_axis: int


def as_regression(owners: Owners) -> tuple[FloatArray, FloatArray]:
    """Join numeric features and labels of all owners, or say what is wrong with them."""
    refuse(
        InvalidOwners,
        (owners.y[0] is None, "The owners have no target; a regressogram learns one. Pass (X, y)."),
    )
    try:
        X = np.concatenate([as_floats(x).reshape(len(x), -1) for x in owners.X])
        y = np.concatenate([as_floats(block).ravel() for block in owners.labels()])
    except (TypeError, ValueError) as error:
        raise InvalidOwners(f"A regressogram needs numbers throughout ({error}).") from error
    refuse(
        InvalidOwners,
        (
            not (np.isfinite(X).all() and np.isfinite(y).all()),
            "A regressogram needs finite numbers; fill or drop missing values.",
        ),
    )
    return X, y


def cubes(X: FloatArray, per_axis: int) -> IntArray:
    """Number the bin of every row: a grid of equal cubes, the first feature fastest."""
    d = X.shape[1]
    refuse(
        InvalidOwners,
        (
            per_axis**d > 10**6,
            f"{per_axis} slices along each of {d} features make {per_axis**d:,} bins; a "
            "regressogram is for a few features. Choose fewer columns or per_axis=.",
        ),
    )
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    step = np.floor((X - low) / np.where(width > 0, width, 1.0) * per_axis).astype(np.int64)
    return np.minimum(step, per_axis - 1) @ per_axis ** np.arange(d)


def nearest_noise(X: FloatArray, y: FloatArray) -> float:
    """Noise variance from nearest neighbours: half the mean squared difference of their labels."""
    from scipy.spatial import cKDTree

    scaled = X / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    neighbours = np.asarray(cKDTree(scaled).query(scaled, k=2)[1])
    return float(np.mean((y - y[neighbours[:, 1]]) ** 2) / 2)
