"""Group testing: differences of values from one set of random coalitions."""

from __future__ import annotations

from functools import partial

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.calibration import Gains, replicated
from dushapley.estimators.method import Method, Option, two_squares
from dushapley.estimators.subsets import random_subsets
from dushapley.protocol import Conversation, Problem


def group_testing(problem: Problem) -> Conversation:
    r"""Coalitions of random sizes, weighed so that differences of values come out.

    With N players, sizes drawn by :math:`q(s) = \frac1Z(\frac1s + \frac1{N-s})`, s = 1..N−1, and
    :math:`Z = 2\sum_{s<N} 1/s`,

    .. math:: \varphi_i - \varphi_j = Z\, E[(u(S) - u(∅))(\beta_i - \beta_j)]

    where :math:`\beta_i` tells whether i is in S.

    ``form="improved"`` (Wang and Jia 2023): a dummy player 0, worth nothing, joins the owners, so
    N = I+1 and :math:`\varphi_i = \varphi_i - \varphi_0` needs no reconciling; values do not add
    up exactly. ``form="original"`` (Jia et al. 2019): N = I, and the values are the least-squares
    solution of all differences that adds up to u(all) − u(∅), in closed form: no linear programme.

    Cost: as many evaluations as coalitions drawn, T, and 2. Unbiased in both forms, with a large
    variance: most of what is asked cancels. Standard errors from the spread of coalitions.
    """
    n = problem.n_players
    dummy = problem.options["form"] == "improved"
    players = n + int(dummy)
    chances, scale = size_chances(players)

    def draw(count: int) -> tuple[BoolArray, Gains]:
        sizes = 1 + problem.rng.choice(len(chances), size=count, p=chances)
        masks = random_subsets(problem.rng, sizes, players)
        return masks[:, :n], partial(gains, masks.astype(np.float64))

    def gains(inside: FloatArray, answers: FloatArray) -> FloatArray:
        baseline = inside[:, n:] if dummy else inside.mean(axis=1, keepdims=True)
        worth = answers - problem.empty
        shares = scale * worth[:, None] * (inside[:, :n] - baseline)
        return shares if dummy else shares + problem.total / n

    return (yield from replicated(problem, 1, draw))


def size_chances(n_players: int) -> tuple[FloatArray, float]:
    """Chance of each size 1..N−1, and the normaliser Z."""
    sizes = np.arange(1, n_players)
    weights = 1 / sizes + 1 / (n_players - sizes)
    scale = weights.sum()
    return weights / scale, scale


FORM = Option(
    "improved",
    "'improved' by a dummy player, or 'original' (reconciled differences)",
    choices=("improved", "original"),
)
METHOD = Method(
    name="group-testing",
    summary="differences of values from one set of random coalitions (unbiased, large variance)",
    run=group_testing,
    foreseeable=True,
    least=lambda _n, _options: 3,  # ∅, everybody, and one coalition
    default=two_squares,
    keeps=lambda options: frozenset({"efficiency"} if options["form"] == "original" else ()),
    options={"form": FORM},
    cite="wang2023",
)
