"""Use-case 3: linear regression on rows of different precision, as owners who add noise have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray, Fractions, IntArray, Queries
from dushapley.errors import InvalidGame
from dushapley.games.base import Game
from dushapley.games.size.closed_forms import Part, solve
from dushapley.games.size.curves import LearningCurve
from dushapley.games.size.kinds import du_by_precision, exact_by_kinds
from dushapley.games.size.precision import SimulatedPools, effective_rows, expected_inverse
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
        each = np.broadcast_to(gamma, self.sizes.shape) if np.ndim(gamma) == 0 else gamma
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
                form == "simulated" and bool((self.sizes % 1 != 0).any()),
                "form='simulated' draws rows: sizes must be whole numbers.",
            ),
        )
        content: tuple[object, ...] = (form, self.d, self.trace, self.floor, self.sizes, self.gamma)
        if form == "simulated":
            self.fractions = "none"
            self._pools = SimulatedPools(
                self.sizes, self.gamma, self.d, check_whole(draws, "draws"), seed
            )
            content = (*content, draws, seed)
        self.fingerprint = digest("linear regression", *content, *self.names)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        if self.form == "simulated":
            pools = queries.astype(np.float64)
            inverse = np.array([self._pools.inverse(pool).mean() for pool in pools])
            return np.maximum(self.floor, -self.trace * inverse)
        return self.of_rows(queries * self.sizes, self.gamma)

    def of_rows(self, rows: FloatArray, gamma: FloatArray) -> FloatArray:
        """Utility of pools of so many rows (m, G) of such precisions (G,), by the formula."""
        if self.form == "paper":
            with np.errstate(divide="ignore"):  # the pole is refused by whoever pays for it
                return self.trace / (self.d + 1 - effective_rows(rows, gamma))
        return np.maximum(self.floor, -self.trace * expected_inverse(rows, gamma, self.d))

    def closed_form(self, method: str, wishes: Mapping[str, Any] | None = None) -> Estimate | None:
        if self.form == "simulated":
            return None
        if len(np.unique(self.gamma)) == 1:
            return solve(method, self.sizes, [Part(self.sizes, self._curve())], wishes)
        if method in ("du", "du++") and not wishes:
            return du_by_precision(self)
        return exact_by_kinds(self) if method == "exact" and not wishes else None

    def _curve(self) -> LearningCurve:
        """Utility of so many rows where all owners are equally precise."""
        gamma = self.gamma[:1]
        return LearningCurve(lambda n: self.of_rows(n.reshape(-1, 1), gamma).reshape(n.shape))
