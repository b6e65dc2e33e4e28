"""Use-case 3, owners of different precision: the bound of the paper's footnote, and a certificate.

The paper says in a footnote that Theorem 2 can be shown "with the same arguments" where precisions
differ. Here it is, for the fixed-point utility; the proof is in docs/guarantees.md.
"""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import AssumptionFails
from dushapley.games.size.regression import LinearRegressionGame
from dushapley.protocol import Guarantee

SOURCE = "Garrido Lucero et al. (2024), footnote to section 3.3; stated and proven here"


def footnote_bound(game: LinearRegressionGame) -> Guarantee:
    r"""DU-Shapley's error in use-case 3, from the sizes and precisions of the others.

    With c = d+1, Γ = max γ²/min γ², n_min the fewest rows of another, x = 1/(min γ²·(n_min − c)),

    .. math:: |\varphi_i - \psi_i| \le \frac{\kappa}{I\mu^2}\,(9\sigma^2(1 + \ln m) +
              4R^2\tau^2), \quad \kappa = 4\,t\,x\,\Gamma^2 (1 + c\Gamma/(n_{\min} - c))^2,

    where t is the game's trace, μ the others' mean size, τ = n_max/n_min, and owner j brings the
    vector V_j of its rows by precision: σ is the sum of the standard deviations of its entries over
    the others, R the largest sum of absolute deviations of a V_j from their mean.

    Raises
    ------
    AssumptionFails
        Unless every owner alone has enough rows for an estimate that is better than `floor`.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.LinearRegressionGame([900, 1000, 1100, 950], [1, 1, 1.1, 1.1], d=3)
    >>> print(ds.guarantees.footnote_bound(game))
    Theorem 2 for unequal precisions: ± at most 0.143
    """
    _check(game)
    rows = game.sizes[:, None] * (game.gamma[:, None] == np.unique(game.gamma))
    bounds = np.zeros(game.n_players)
    if game.n_players > 2:
        _, first, member = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        each = np.array([_bound(game, rows, owner) for owner in first.tolist()])
        bounds = each[member.ravel()]
    return Guarantee(
        name="Theorem 2 for unequal precisions",
        bound=bounds,
        statement="|DU-Shapley − Shapley value| ≤ κ/(Iμ²)·(9σ²(1+ln m) + 4R²τ²), owner by owner",
        assumptions=(
            "u(S) is the fixed point of use-case 3",
            "every owner alone has enough rows for an estimate better than the floor",
        ),
        source=SOURCE,
        is_guarantee=True,
        why_not="",
    )


def precision_certificate(game: LinearRegressionGame) -> Guarantee:
    """What `du` errs by where exact values are known: its distance from them, owner by owner."""
    exact, du = game.closed_form("exact"), game.closed_form("du")
    if exact is None or du is None:
        raise AssumptionFails(
            "There is no certificate here: exact values are known where all owners are equally "
            "precise, or of few kinds (equal in rows and precision). footnote_bound holds for all."
        )
    room = sum(found.details["numerical_error"] for found in (exact, du))
    proven = not exact.details.get("error_checked_only", False)
    return Guarantee(
        name="certificate",
        bound=abs(du.values - exact.values) + room,
        statement="|value − Shapley value| ≤ bound, owner by owner: exact values are computed",
        assumptions=("arithmetic in double precision, for which room is left",),
        source="dushapley.games.size.exact",
        is_guarantee=proven,
        why_not="" if proven else "the exact values' own error is checked by a second rule",
    )


def _check(game: LinearRegressionGame) -> None:
    """Refuse games whose smallest owners reach the pole or the floor."""
    if not isinstance(game, LinearRegressionGame) or game.form != "fixed-point":
        raise AssumptionFails("footnote_bound is about LinearRegressionGame, form='fixed-point'.")
    enough, smallest = game.d + 1.0, game.sizes.min()
    if game.floor < 0:
        enough += game.trace / (-game.floor * float(game.gamma.min()) ** 2)
    if game.floor >= 0 or smallest <= enough:
        raise AssumptionFails(
            f"The smallest owner holds {smallest:g} rows; the bound needs more than "
            f"{enough:g} of every owner (and a negative floor), below which the utility has a kink "
            "and no second derivative. Leave out smaller owners, or prefer exact values."
        )


def _bound(game: LinearRegressionGame, rows: FloatArray, owner: int) -> float:
    """The right-hand side for one owner."""
    others = np.delete(rows, owner, axis=0)
    sizes, m = others.sum(axis=1), len(others)
    sigma = float(others.std(axis=0).sum())
    radius = float(abs(others - others.mean(axis=0)).sum(axis=1).max())
    smallest, c = float(sizes.min()), game.d + 1.0
    lowest = float(game.gamma.min()) ** 2
    ratio = float(game.gamma.max()) ** 2 / lowest
    kappa = 4 * game.trace / (lowest * (smallest - c)) * ratio**2
    kappa *= (1 + c * ratio / (smallest - c)) ** 2
    inner = 9 * sigma**2 * (1 + np.log(m)) + 4 * (radius * sizes.max() / smallest) ** 2
    return float(kappa / (m + 1) * inner / sizes.mean() ** 2)
