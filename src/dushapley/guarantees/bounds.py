"""Theorem 2 of the paper in all its forms, its corollary, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import AssumptionFails, InvalidOption
from dushapley.estimators.semivalues import SHAPLEY, is_semivalue, semivalue_weights
from dushapley.games.base import Game
from dushapley.games.size.bounds import ROUNDING, without_one
from dushapley.games.size.closed_forms import certificate_of, total_bracket, total_du, unbounded
from dushapley.games.size.curves import LearningCurve
from dushapley.games.size.games import PooledRowsGame, RegressogramGame, SizeGame
from dushapley.games.size.regression import LinearRegressionGame
from dushapley.guarantees.curvature import check_h1, kappa
from dushapley.guarantees.precision import precision_certificate
from dushapley.protocol import Guarantee

Form = Literal["stated", "lemma", "repaired"]

FALSE = (
    "false: the tail term has units of rows and the variance of rows², so that large sizes kill "
    "it; with w(n) = ln(1+n), others of 3162 and 3.16e6 rows and a huge owner the error is .9204 "
    "and the bound .8825"
)
DROPPED = "its proof drops a square and a factor 2 in Hoeffding's inequality"
NUMERICAL = "checked numerically, not proven: the curve declares no shape or no second derivative"
NAMES = {
    "stated": "Theorem 2 as stated",
    "lemma": "Theorem 2, its lemma's form",
    "repaired": "Theorem 2 repaired",
}
PAPER = "Garrido Lucero et al. (2024)"


@dataclass(frozen=True)
class OthersSizes:
    """Sizes of the other owners, one entry per owner left out.

    μ, σ², R = max|n_j − μ|, n_max, n_min: `mean`, `variance`, `radius`, `largest`, `smallest`.
    """

    mean: FloatArray
    variance: FloatArray
    radius: FloatArray
    largest: FloatArray
    smallest: FloatArray

    @classmethod
    def of(cls, sizes: FloatArray) -> OthersSizes:
        """Statistics of all owners but one, for each one; each distinct size is done once."""
        own, member = np.unique(sizes, return_inverse=True)
        others = without_one(sizes, own)
        mean, smallest, largest = others.mean(axis=1), others[:, 0], others[:, -1]
        radius = np.maximum(largest - mean, mean - smallest)
        rows = np.stack([mean, others.var(axis=1), radius, largest, smallest])
        return cls(*rows[:, member])

    @property
    def tail(self) -> FloatArray:
        """R²τ², τ = n_max/n_min: zero where all are equal, infinite where somebody has nothing."""
        with np.errstate(divide="ignore", invalid="ignore"):
            tau = self.largest / self.smallest
            return np.where(self.radius > 0, (self.radius * tau) ** 2, 0.0)


def theorem2(game: SizeGame, form: Form = "repaired") -> Guarantee:
    r"""Theorem 2: DU-Shapley's error in a size game, from κ and the sizes of the others.

    With m = I−1 others, μ, σ², R, τ = n_max/n_min as in `OthersSizes` and κ as in `kappa`,

    .. math:: |\varphi_i - \psi_i| \le \frac{\kappa}{m\mu^2}\,(c\,\sigma^2(1 + \ln m) + t)

    - ``form="stated"``: c = 1, t = R²τ²/(4 n_max), as printed. False, see `Guarantee.why_not`.
    - ``form="lemma"``: c = 9, t = 2R²τ²/n_max, what the printed proof arrives at. Its last step is
      wrong, so no guarantee either.
    - ``form="repaired"``: c = 9, t = 4R²τ², with Hoeffding's inequality as it is. A guarantee, and
      a wide one; see `certificate` for one that can be used.

    Raises
    ------
    AssumptionFails
        Where H1 does not hold (`check_h1`).

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], ds.games.rational(100))
    >>> print(ds.guarantees.theorem2(game))
    Theorem 2 repaired: ± at most 4.24
    """
    _refuse_unless(game, "theorem2", SizeGame)
    bound, proven = _theorem2_bound(game.sizes, game.curve, form, tail_factor=1.0)
    why_not = _why_not(form, proven)
    return Guarantee(
        name=NAMES[form],
        bound=bound,
        statement="|DU-Shapley − Shapley value| ≤ κ/(mμ²)·(cσ²(1+ln m) + t), owner by owner",
        assumptions=("u(S) = w(total size)", "H1, with κ between the smallest owner and all rows"),
        source=f"{PAPER}, Theorem 2" + ", proof repaired here" * (form == "repaired"),
        is_guarantee=not why_not,
        why_not=why_not,
    )


def _why_not(form: Form, proven: bool) -> str:
    """What keeps a form of the bound from being a guarantee; "" where nothing does."""
    return {"stated": FALSE, "lemma": DROPPED}.get(form, "" if proven else NUMERICAL)


def _theorem2_bound(
    sizes: FloatArray, curve: LearningCurve, form: Form, tail_factor: float
) -> tuple[FloatArray, bool]:
    """The right-hand side, and whether its κ is proven."""
    if form not in get_args(Form):
        raise InvalidOption(f"form is {form!r}; choose one of {', '.join(get_args(Form))}.")
    m, rows = len(sizes) - 1, float(sizes.sum())
    if m == 0 or rows == 0:
        return np.zeros(len(sizes)), True
    check_h1(curve, rows)
    bend = kappa(curve, rows, float(sizes[sizes > 0].min()))
    others = OthersSizes.of(sizes)
    spread = others.variance * (1 + np.log(m))
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = {
            "stated": spread + tail_factor * others.tail / (4 * others.largest),
            "lemma": 9 * spread + 2 * others.tail / others.largest,
            "repaired": 9 * spread + 4 * others.tail,
        }
        bound = bend.value / m * inner[form] / others.mean**2
    bound = np.where(others.radius > 0, bound, 0.0)
    bound = np.where(np.isnan(bound), np.inf, bound)  # 0·∞: a κ too small to be told from none
    ends = np.abs(curve(np.array([0.0, rows])))
    return bound + ROUNDING * float(ends.max()), bend.proven


def corollary(game: RegressogramGame, form: Form = "repaired") -> Guarantee:
    """Corollary of Theorem 2 for the regressogram: the same bound, bin by bin, added up.

    As printed its tail is twice Theorem 2's. An owner without a row in a bin makes τ, and so the
    bound, infinite there: true, and empty. The certificate has no such trouble.
    """
    _refuse_unless(game, "corollary", RegressogramGame)
    bound, proven = np.zeros(game.n_players), True
    for part in game.parts():
        added, sure = _theorem2_bound(part.sizes, part.curve, form, tail_factor=2.0)
        bound, proven = bound + part.weight * added, proven and sure
    why_not = _why_not(form, proven)
    return Guarantee(
        name=f"Corollary for the regressogram, {form}",
        bound=bound,
        statement="|DU-Shapley − Shapley value| ≤ Σ_b P(b)·(Theorem 2 in bin b)",
        assumptions=("u(S) = Σ_b P(b)·w_b(rows in b)", "H1 for the curve of every bin"),
        source=f"{PAPER}, Corollary 2",
        is_guarantee=not why_not,
        why_not=why_not,
    )


def older_bound(game: SizeGame, rho: float = 1.0) -> Guarantee:
    """The older version's bound, ρ|w(n_{-i})|/(mμ²)·(9σ²(1+ln m) + 2R²n_max), as stated.

    Its constant ρ is said to exist and not given, so this is a shape, not a guarantee.
    """
    m, others = game.n_players - 1, _others(game, "older_bound")
    level = abs(np.asarray(game.w(others.mean * m), dtype=np.float64))
    inner = 9 * others.variance * (1 + np.log(m)) + 2 * others.radius**2 * others.largest
    return Guarantee(
        name="older version's bound",
        bound=rho * level / (m * others.mean**2) * inner,
        statement="|DU-Shapley − Shapley value| ≤ ρ|w(n_{-i})|/(mμ²)·(9σ²(1+ln m) + 2R²n_max)",
        assumptions=("u(S) = w(total size)", "some constant ρ, not given; here the one passed"),
        source=f"{PAPER}, older version, Theorem 2",
        is_guarantee=False,
        why_not="as stated: its constant is not given, and its proof has the later lemma's gaps",
    )


def du_bias(game: SizeGame) -> float:
    r"""DU-Shapley's accumulated bias, DUbias(I), as the paper prints it (no guarantee).

    .. math:: \frac{\kappa}{m}\Big(\sum_i \frac{(9\sigma_{-i}^2(1+\ln m) + \zeta_{-i})^2}
              {\mu_{-i}^4}\Big)^{1/2}, \quad \zeta = R^2\tau^2/(4n_{\max})

    The ε that the paper asks of its rivals.
    """
    others = _others(game, "du_bias")
    m, sizes = game.n_players - 1, game.sizes
    bend = kappa(game.curve, float(sizes.sum()), float(sizes[sizes > 0].min()))
    inner = 9 * others.variance * (1 + np.log(m)) + others.tail / (4 * others.largest)
    return float(bend.value / m * np.linalg.norm(inner / others.mean**2))


def certificate(
    game: SizeGame | RegressogramGame | LinearRegressionGame,
    method: str = "du",
    *,
    semivalue: str = SHAPLEY,
) -> Guarantee:
    """What `du` (or `du-second-order`) errs by at most, computed rather than estimated.

    Terms with up to three others present or absent are exact, the rest is bracketed by the
    moments and range of the others' pooled size (see `dushapley.games.size.bounds`). A guarantee
    where the curves are declared completely monotone, else the same figures, checked numerically.
    In use-case 3 it is the distance from the exact values, where these are known.

    Under another `semivalue` ("banzhaf", "beta(a,b)") it bounds the error of ``du`` with that
    option: the same terms with that semivalue's weights p_k in the place of 1/I, so that the error
    is at most Σ_k p_k·(error of term k).

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], ds.games.rational(100))
    >>> ds.guarantees.certificate(game).bound.round(4).tolist()
    [0.0028, 0.0166, 0.0053]
    """
    if isinstance(game, LinearRegressionGame) and (method, semivalue) == ("du", SHAPLEY):
        return precision_certificate(game)
    _refuse_unless(game, "certificate", SizeGame, RegressogramGame)
    assert isinstance(game, PooledRowsGame)
    parts = game.parts()
    if not is_semivalue(semivalue):
        raise InvalidOption(f"semivalue is {semivalue!r}; choose shapley, banzhaf or beta(a,b).")
    n = game.n_players
    scale = None if semivalue == SHAPLEY else n * semivalue_weights(semivalue, n)
    bounds = total_bracket(parts, scale)
    if bounds is None or method not in ("du", "du++", "du-second-order"):
        raise AssumptionFails(
            f"There is no certificate of {method!r} for {n} owners here: it exists "
            "for du and du-second-order, up to 2^23 pairs of distinct size and owner."
        )
    if why := unbounded(parts):
        raise AssumptionFails(f"There is no certificate here: {why}. Prefer exact values.")
    if method == "du-second-order":
        return certificate_of(bounds[0], bounds, parts, 0.0)
    values, error = total_du(parts, scale)
    return certificate_of(values, bounds, parts, error)


def _refuse_unless(game: Game, what: str, *kinds: type) -> None:
    if not isinstance(game, kinds):
        names = " and ".join(kind.__name__ for kind in kinds)
        raise AssumptionFails(
            f"{what} is about {names}, found {type(game).__name__}. For trained models no bound on "
            "DU-Shapley's error is known."
        )


def _others(game: Game, what: str) -> OthersSizes:
    """Sizes of the others in a size game, whose bias takes two owners with rows."""
    _refuse_unless(game, what, SizeGame)
    if game.n_players < 2 or np.count_nonzero(game.sizes) < 2:
        raise AssumptionFails("DU-Shapley's bias is about two owners with rows, or more.")
    return OthersSizes.of(game.sizes)
