"""Second-order DU-Shapley: DU-Shapley with its bias taken out, where a game has the formula."""

from __future__ import annotations

from dushapley.errors import MethodNotApplicable
from dushapley.estimators.method import Method
from dushapley.estimators.random import two
from dushapley.protocol import Conversation, Problem


def du_second_order(problem: Problem) -> Conversation:
    r"""DU-Shapley corrected for the spread of the sizes it averages over.

    DU-Shapley takes :math:`g(k\mu)` for :math:`E[g(Y_k)]`, where :math:`g(n) = w(n+n_i) - w(n)` and
    :math:`Y_k` is the size of k random others. Here k ≤ 3 and k ≥ I−4 are exact, and between them
    g is averaged over two points with the mean, variance and third moment of :math:`Y_k`: the
    leading bias, ½g''(kμ)·Var, and the next term are gone, with no derivative needed.

    Cost: no evaluation; it is computed by games that know sizes and curve (`SizeGame`,
    `RegressogramGame`) and refused elsewhere. Guarantee: for a curve declared completely monotone
    it is a lower bound of the Shapley value, and the valuation carries the upper one.
    """
    raise MethodNotApplicable(
        f"du-second-order asks no questions: for these {problem.n_players} owners it needs a "
        "game's own formula."
    )
    yield  # a generator by type: games answer for it


METHOD = Method(
    name="du-second-order",
    summary="DU-Shapley less its bias, by sizes and curve of a game; no standard errors",
    run=du_second_order,
    least=two,
    default=two,
    biased=True,
    needs="formula",
    cite="garrido2024",
)
