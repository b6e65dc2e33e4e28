"""Games with a formula: the paper's three use-cases.

All take true fractions as arithmetic ("every other owner gives k/(I−1) of its rows"), cost
nothing, and serve as products (what-if by theory) and as oracles for the estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dushapley.errors import InvalidGame
from dushapley.games.base import Game
from dushapley.games.checks import check_names, check_sizes, digest
from dushapley.questions import FloatArray, IntArray, Queries

Curve = Callable[[FloatArray], ArrayLike]
"""A learning curve: maps numbers of rows to utilities, elementwise."""

FLOOR_TOLERANCE = 1e-12
"""Relative slack when a whole number is floored: A²/B misses it by a few rounding errors."""


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
        Maps an array of row counts to an array of utilities.
    fingerprint
        Names the content of `w`, which cannot be hashed.

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
        w: Curve,
        *,
        names: Sequence[str] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        if not callable(w):
            raise InvalidGame("w must be a function of the number of rows, vectorised.")
        self.sizes = check_sizes(sizes)
        self.n_players = len(self.sizes)
        self.names = check_names(names, self.n_players)
        self.w = w
        if fingerprint is not None:
            self.fingerprint = digest("size game", fingerprint, self.sizes, *self.names)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        return apply_curve(self.w, queries @ self.sizes)


class LinearRegressionGame(Game):
    r"""Use-case 3: pooled generalised least squares with owners of different precision.

    Owner i holds n_i rows with features of scale σ_i and label noise ε_i; `gamma` is
    :math:`\gamma_i = \sigma_i/\varepsilon_i`. The utility is minus the expected squared error of
    the pooled estimate on a test point.

    ``form="fixed-point"`` (default): :math:`u(S) = \max(\text{floor}, -t\,x)` where
    :math:`t = \mathrm{Tr}\,E[xx^\top]` is `trace` and x > 0 solves

    .. math:: \sum_{i \in S} \frac{n_i \gamma_i^2 x}{1 + (d+1)\gamma_i^2 x} = 1,

    defined when :math:`\sum n_i > d + 1`; with too little data the utility is `floor`. Exact for
    equal γ, where it is :math:`-t/(\gamma^2 (n - d - 1))`, and monotone: more data never hurts.

    ``form="paper"``: the paper's Proposition 1, raw:
    :math:`u(S) = t/(d + 1 - q(S))`, :math:`q = \lfloor(\sum\gamma n)^2/\sum\gamma^2 n\rfloor`. It
    has a pole at q = d+1, is positive below it, and is not the expected error once the γ differ
    (a precise owner can lower q). It is here to reproduce the paper, not to pay people.

    Parameters
    ----------
    sizes, gamma
        Rows and precision of each owner.
    d
        Number of features.
    form
        "fixed-point" or "paper".
    trace
        Trace of the test points' second moment; default d (standard normal features).
    floor
        Utility of too little data; default −trace. Only with the fixed point.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.LinearRegressionGame([30, 30], gamma=[1, 3], d=5)
    >>> game([[0, 0], [1, 1]]).round(4).tolist()
    [-5.0, -0.0199]
    """

    fractions = "exact"
    cheap = True

    def __init__(
        self,
        sizes: ArrayLike,
        gamma: ArrayLike,
        d: int,
        form: Literal["fixed-point", "paper"] = "fixed-point",
        trace: float | None = None,
        floor: float | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        self.sizes = check_sizes(sizes)
        self.n_players = len(self.sizes)
        self.names = check_names(names, self.n_players)
        self.gamma = np.broadcast_to(np.asarray(gamma, dtype=np.float64), self.sizes.shape).copy()
        self.d = d
        self.form = form
        self.trace = float(d if trace is None else trace)
        self.floor = -self.trace if floor is None else float(floor)
        self._check(floor)
        self.fingerprint = digest(
            "linear regression",
            form,
            d,
            self.trace,
            self.floor,
            self.sizes,
            self.gamma,
            *self.names,
        )

    def _check(self, floor: float | None) -> None:
        if self.form not in ("fixed-point", "paper"):
            raise InvalidGame(f"form is {self.form!r}; choose 'fixed-point' or 'paper'.")
        if self.form == "paper" and floor is not None:
            raise InvalidGame("form='paper' is the raw formula and takes no floor; leave it out.")
        if not isinstance(self.d, (int, np.integer)) or self.d < 1:
            raise InvalidGame(f"d is {self.d!r}; the number of features is a whole number from 1.")
        if not bool((np.isfinite(self.gamma) & (self.gamma > 0)).all()):
            raise InvalidGame("gamma must be finite and positive: feature scale over noise.")
        if not (np.isfinite(self.trace) and self.trace > 0 and np.isfinite(self.floor)):
            raise InvalidGame("trace must be positive and floor finite.")

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        rows = queries * self.sizes
        if self.form == "paper":
            return self.trace / (self.d + 1 - effective_rows(rows, self.gamma))
        return np.maximum(self.floor, -self.trace * expected_inverse(rows, self.gamma, self.d))


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

    def __init__(
        self,
        counts: ArrayLike,
        probabilities: ArrayLike,
        w: Curve,
        *,
        names: Sequence[str] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self.counts = np.array(counts, dtype=np.float64)
        self.probabilities = np.array(probabilities, dtype=np.float64)
        if self.counts.ndim != 2 or self.counts.shape[1:] != self.probabilities.shape:
            raise InvalidGame(
                f"counts has shape {self.counts.shape} and probabilities "
                f"{self.probabilities.shape}; needed are (I, B) and (B,)."
            )
        if not bool((np.isfinite(self.counts) & (self.counts >= 0)).all()):
            raise InvalidGame("counts must be finite and not negative: rows of each owner per bin.")
        if not (bool((self.probabilities >= 0).all()) and self.probabilities.sum() <= 1 + 1e-9):
            raise InvalidGame("probabilities must not be negative and add up to at most 1.")
        self.w = w
        self.sizes = check_sizes(self.counts.sum(axis=1))
        self.n_players = len(self.sizes)
        self.names = check_names(names, self.n_players)
        if fingerprint is not None:
            self.fingerprint = digest(
                "regressogram", fingerprint, self.counts, self.probabilities, *self.names
            )

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        return apply_curve(self.w, queries @ self.counts) @ self.probabilities


def mean_estimation(noise: ArrayLike, prior: ArrayLike) -> Curve:
    """Curve of estimating a bin's mean: w(n) = −s²/(n + s²/v).

    Parameters
    ----------
    noise, prior
        Noise variance s² of a label and prior variance v of a bin's mean (numbers, or one per
        bin). With no row the error is the prior variance; each row adds a precision of 1/s².
    """
    s2, v = np.asarray(noise, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    if not (bool((s2 > 0).all()) and bool((v > 0).all())):
        raise InvalidGame("noise and prior variances must be positive.")
    return lambda n: -s2 / (n + s2 / v)


def apply_curve(w: Curve, rows: FloatArray) -> FloatArray:
    """Evaluate a user's curve, and teach what vectorised means when it is not."""
    values = np.asarray(w(rows), dtype=np.float64)
    if values.shape != rows.shape:
        raise InvalidGame(
            f"w returned shape {values.shape} for an input of shape {rows.shape}; it must map an "
            "array of row counts to an array of the same shape."
        )
    return values


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
    x[solvable] = 1 / y
    return x
