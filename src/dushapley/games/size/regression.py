r"""Use-case 3: regression on rows of different precision, as owners who add noise have.

How large is :math:`E[(\sum_j \gamma_j^2 x_j x_j^\top)^{-1}]`, a multiple x of the identity, for
standard normal rows :math:`x_j` of d features? Known exactly where all γ are equal. Else a fixed
point comes near, and simulation as near as one pays for.

Owners who add noise to their labels have such rows. To clip labels to an interval of length Δ and
to add normal noise of standard deviation s protects every *label* by (ε, δ)-local differential
privacy, where δ is the least with

    δ = Φ(Δ/2s − εs/Δ) − e^ε Φ(−Δ/2s − εs/Δ)

(Balle and Wang 2018, exact for all ε). Features are shared as they are: nothing protects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Draws, FloatArray, Fractions, Queries
from dushapley.errors import InvalidGame, InvalidOption
from dushapley.games.base import Game, Wishes
from dushapley.games.size.closed_forms import Part, du_by_precision, solve
from dushapley.games.size.curves import LearningCurve
from dushapley.games.size.exact import exact_by_kinds
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.validation import check_choice, check_sizes, check_whole, refuse

Form = Literal["fixed-point", "paper", "simulated"]


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
    For unequal γ it is an approximation: docs/privacy.md says how good. It errs where a handful of
    very precise rows, too few to determine d coefficients, joins many poor ones.

    ``form="simulated"``: the expected error by simulation, the mean over `draws` data sets drawn
    from `seed`, as a reference. Whole owners only.

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
        "fixed-point", "paper" or "simulated".
    trace
        Trace of the test points' second moment; default d (standard normal features). Where an
        owner's features have covariance σ_i²Σ and test points second moment C, it is Tr(CΣ^−1).
    floor
        Utility of too little data; default −trace. Not in the paper's form.
    draws, seed
        Of ``form="simulated"``: data sets drawn, and from which seed.

    Notes
    -----
    Solved without a question: everything where all γ are equal, which is a `SizeGame`; `du` always;
    `exact` also where owners are of few kinds (equal in rows and γ; up to seven kinds), 1,000
    owners of four kinds in seconds. Where γ differ and sizes vary freely, no formula is known.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.LinearRegressionGame([30, 30], gamma=[1, 3], d=5)
    >>> game([[0, 0], [1, 1]]).round(4).tolist()
    [-5.0, -0.0199]
    """

    fractions: Fractions = "exact"
    cheap = True

    def __init__(
        self,
        sizes: ArrayLike,
        gamma: ArrayLike,
        d: int,
        form: Form = "fixed-point",
        trace: float | None = None,
        floor: float | None = None,
        *,
        draws: int = 400,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> None:
        self._set_owners(sizes, names)
        each = np.full(self.n_players, gamma) if np.ndim(gamma) == 0 else gamma
        self.gamma = check_sizes(each, self.n_players, "gamma")
        check_choice(form, "form", get_args(Form))
        self.d, self.form = int(check_whole(d, "d (the number of features)")), form
        self.trace = float(d if trace is None else trace)
        self.floor = -self.trace if floor is None else float(floor)
        refuse(
            InvalidGame,
            (
                form == "paper" and floor is not None,
                "form='paper' is the raw formula and takes no floor; leave it out.",
            ),
            # sizes are finite and not negative
            (not self.gamma.all(), "gamma must be finite and positive: feature scale over noise."),
            (
                not (np.isfinite(self.trace) and self.trace > 0 and np.isfinite(self.floor)),
                "trace must be positive and floor finite.",
            ),
            (
                form == "simulated" and (self.sizes % 1 != 0).any(),
                "form='simulated' draws rows: sizes must be whole numbers.",
            ),
        )
        if form == "simulated":
            self.fractions = "none"
            n_draws = check_whole(draws, "draws")
            self._moments = simulated_moments(self.sizes, self.gamma, self.d, n_draws, seed)
        content = (form, self.d, self.trace, self.floor, self.sizes, self.gamma, draws, seed)
        self.fingerprint = digest("linear regression", *content, *self.names)

    def evaluate(self, queries: Queries, draws: Draws) -> FloatArray:
        if self.form != "simulated":
            return self.of_rows(queries * self.sizes, self.gamma)
        pools = queries.astype(np.float64)
        inverse = np.array([simulated_inverse(self._moments, pool).mean() for pool in pools])
        inverse[pools @ self.sizes <= self.d + 1] = np.inf  # no mean exists
        return np.maximum(self.floor, -self.trace * inverse)

    def of_rows(self, rows: FloatArray, gamma: FloatArray) -> FloatArray:
        """Utility of pools of so many rows (m, G) of such precisions (G,), by the formula."""
        if self.form == "paper":
            with np.errstate(divide="ignore"):  # the pole is refused by whoever pays for it
                return self.trace / (self.d + 1 - effective_rows(rows, gamma))
        return np.maximum(self.floor, -self.trace * expected_inverse(rows, gamma, self.d))

    def closed_form(self, method: str, wishes: Wishes = None) -> Estimate | None:
        if self.form == "simulated":
            return None
        if len(np.unique(self.gamma)) == 1:
            one = self.gamma[:1]
            curve = LearningCurve(lambda n: self.of_rows(n.reshape(-1, 1), one).reshape(n.shape))
            return solve(method, self.sizes, [Part(self.sizes, curve)], wishes)
        if wishes or method not in ("exact", "du", "du++"):
            return None
        if method != "exact":
            return du_by_precision(self.sizes, self.gamma, self.of_rows)
        smooth = self.form != "paper"  # which rounds down
        return exact_by_kinds(self.sizes, self.gamma, self.of_rows, smooth)


def effective_rows(rows: FloatArray, gamma: FloatArray) -> FloatArray:
    """The paper's q = ⌊(Σγn)²/Σγ²n⌋ of pools of `rows`, shape (m, I); q(∅) = 0."""
    a, b = rows @ gamma, rows @ gamma**2
    ratio = np.divide(a * a, b, out=np.zeros_like(a), where=b > 0)
    return np.floor(ratio * (1 + 1e-12))  # A²/B misses whole numbers by a few rounding errors


def expected_inverse(rows: FloatArray, gamma: FloatArray, d: int) -> FloatArray:
    r"""Solve Σ n_iγ_i²x/(1+(d+1)γ_i²x) = 1 for each pool of `rows`; infinite where Σn ≤ d+1.

    In y = 1/x the left side, Σ n_iγ_i²/(y + (d+1)γ_i²), is convex and decreasing, so Newton's
    steps from any point left of the root rise to it without overshooting. The start
    Σn_iγ_i² − (d+1)·max γ_i² lies left of it, and is the root itself when all γ are equal.
    """
    solvable = rows.sum(axis=1) > d + 1
    n = rows[solvable]
    a, c = n * gamma**2, (d + 1) * gamma**2
    y = np.maximum(0.0, a.sum(axis=1) - np.where(n > 0, c, 0.0).max(axis=1, initial=0.0))
    for _ in range(200):
        shifted = y[:, None] + c
        terms = a / shifted
        step = (terms.sum(axis=1) - 1) / (terms / shifted).sum(axis=1)
        y = y + np.maximum(step, 0.0)
        if not (step > 1e-15 * y).any():
            break
    x = np.full(len(rows), np.inf)
    with np.errstate(divide="ignore"):  # so few rows that only rounding makes them enough
        x[solvable] = 1 / y
    return x


def simulated_moments(
    sizes: FloatArray, gamma: FloatArray, d: int, draws: int, seed: int
) -> FloatArray:
    """Second moments of random rows of every owner, shape (draws, I, d, d).

    An owner brings the same rows to every pool, so more data never hurts here either.
    """
    rng = np.random.default_rng(seed)
    moments = np.empty((draws, len(sizes), d, d))
    for draw, owner in np.ndindex(draws, len(sizes)):
        X = gamma[owner] * rng.standard_normal((int(sizes[owner]), d))
        moments[draw, owner] = X.T @ X
    return moments


def simulated_inverse(moments: FloatArray, pool: FloatArray) -> FloatArray:
    """Tr(M^-1)/d of a pool in every draw."""
    pooled = np.einsum("rjab,j->rab", moments, pool)
    with np.errstate(divide="ignore"):
        return (1 / np.linalg.eigvalsh(pooled)).mean(axis=1)


def leak(epsilon: float, noise: float, width: float) -> float:
    """The least δ at which normal noise of this standard deviation protects a label by ε."""
    from scipy.special import log_ndtr

    a, b = width / (2 * noise), epsilon * noise / width
    return float(np.exp(log_ndtr(a - b)) - np.exp(epsilon + log_ndtr(-a - b)))


def gamma_from_privacy(
    epsilon: float, delta: float, *, width: float, label_noise: float = 1.0, scale: float = 1.0
) -> float:
    """Precision γ of an owner whose labels are protected by (ε, δ), for `LinearRegressionGame`.

    Parameters
    ----------
    epsilon, delta
        What is promised for every single label.
    width
        Length Δ of the interval that labels are clipped to; clipping must be rare for γ to hold.
    label_noise
        Standard deviation of the noise that labels have without any protection.
    scale
        Scale σ of the features: γ = σ/√(label_noise² + s²).

    Examples
    --------
    >>> from dushapley.games import epsilon_from_gamma, gamma_from_privacy
    >>> gamma = gamma_from_privacy(2.0, 1e-5, width=6.0)
    >>> round(gamma, 4), round(epsilon_from_gamma(gamma, 1e-5, width=6.0), 4)
    (0.0833, 2.0)
    """
    from scipy.optimize import brentq

    _check(epsilon=epsilon, delta=delta, width=width, label_noise=label_noise, scale=scale)
    log_noise = brentq(lambda s: leak(epsilon, np.exp(s), 1.0) - delta, -12.0, 40.0, xtol=1e-13)
    return float(scale / np.hypot(label_noise, np.exp(log_noise) * width))


def epsilon_from_gamma(
    gamma: float, delta: float, *, width: float, label_noise: float = 1.0, scale: float = 1.0
) -> float:
    """The ε that a precision amounts to: infinite where no noise was added to the labels.

    Examples
    --------
    >>> from dushapley.games import epsilon_from_gamma, gamma_from_privacy
    >>> gamma = gamma_from_privacy(2.0, 1e-5, width=1.0)
    >>> round(epsilon_from_gamma(gamma, 1e-5, width=1.0), 6)
    2.0
    """
    from scipy.optimize import brentq

    _check(gamma=gamma, delta=delta, width=width, label_noise=label_noise, scale=scale)
    added = (scale / gamma) ** 2 - label_noise**2
    if added <= 2e-12 * label_noise**2:
        return float("inf")
    noise = float(np.sqrt(added))
    if leak(0.0, noise, width) <= delta:
        return 0.0
    most = width / noise * (width / (2 * noise) + np.sqrt(-2 * np.log(delta)))
    return float(brentq(lambda e: leak(e, noise, width) - delta, 0.0, most, xtol=1e-12))


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        needs = "between 0 and 1" if name == "delta" else "finite and positive"
        fine = 0 < number < (1 if name == "delta" else np.inf)
        refuse(InvalidOption, (not fine, f"{name} is {number!r}; it needs to be {needs}."))
