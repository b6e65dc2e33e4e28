"""Leave-one-out, in the form everybody knows and in the paper's."""

from __future__ import annotations

import numpy as np

from dushapley.estimators.du import pools
from dushapley.estimators.method import Method, Option, Options
from dushapley.protocol import Ask, Conversation, Estimate, Problem


def loo(problem: Problem) -> Conversation:
    r"""What is lost when an owner leaves.

    ``form="all"``: :math:`u(I) - u(I \setminus i)`; I+2 evaluations. ``form="random"`` (the
    paper's baseline): :math:`u(D \cup D_i) - u(D)` for one random D of :math:`k\mu_{-i}` rows of
    the others, k uniform on 0..I−1 (the paper does not state the size); 2I+2 evaluations.

    Not an estimate of the Shapley value: biased at any budget, no standard errors.
    """
    n = problem.n_players
    if problem.options["form"] == "all":
        without = yield Ask(~np.eye(n, dtype=np.bool_))
        return Estimate(problem.full - without)
    rng = problem.rng
    others = np.concatenate(
        [pools(problem, i, rng.integers(n, size=1) / (n - 1)) for i in range(n)]
    )
    both = np.concatenate([np.maximum(others, np.eye(n)), others])
    draws = rng.integers(2**62, size=n)
    answers = yield Ask(both, draws=np.tile(draws, 2))
    return Estimate(answers[:n] - answers[n:])


def cost(n_players: int, options: Options) -> int:
    """I+2 evaluations, or 2I+2 in the paper's form."""
    return (n_players if options["form"] == "all" else 2 * n_players) + 2


FORM = Option(
    "all",
    "'all' takes the owner from everybody, 'random' from one random pool (the paper's)",
    choices=("all", "random"),
)
METHOD = Method(
    name="loo",
    summary="leave-one-out: what is lost when an owner leaves (not a Shapley value)",
    run=loo,
    foreseeable=True,
    least=cost,
    default=cost,
    biased=True,
    needs=lambda options: "coalitions" if options["form"] == "all" else "fractions",
    options={"form": FORM},
    cite="garrido2024",
)
