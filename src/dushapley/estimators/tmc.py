"""Truncated Monte Carlo: walks that stop once nothing is left to gain (Data Shapley)."""

from __future__ import annotations

import numpy as np

from dushapley.estimators.calibration import Moments, final
from dushapley.estimators.method import Method, Option, two_squares
from dushapley.estimators.permutation import gains_along, one_walk, random_orders
from dushapley.protocol import Ask, Conversation, Problem


def tmc(problem: Problem) -> Conversation:
    r"""Random orders, each left as soon as its coalition is worth nearly as much as everybody.

    A walk through the order π stops after owner k once
    :math:`|u(\text{all}) - u(\pi_1..\pi_k)| < \tau\,|u(\text{all}) - u(∅)|` with τ the option
    `tolerance`; who comes later is credited with 0 in this walk. So a budget buys more walks than
    `permutation` gets.

    Cost: at most I−1 evaluations a walk, and 2. Biased by the truncation: late owners get
    nothing, and up to a part τ of u(all) − u(∅) is not shared out. Standard errors from the spread
    of walks, of sampling error only. With ``tolerance=0`` nothing is truncated and the method is
    `permutation`. Ghorbani and Zou (2019), Algorithm 1.
    """
    n = problem.n_players
    slack = problem.options["tolerance"] * abs(problem.total)
    moments = Moments(n)
    left = problem.budget
    while left >= n - 1:
        so_far = moments.estimate()
        going = np.arange(min(max(1, problem.batch), left // (n - 1)))
        orders = random_orders(problem.rng, len(going), n)
        path = np.full((len(going), n + 1), problem.empty)
        inside = np.zeros(orders.shape, dtype=np.bool_)
        for step in range(1, n):  # several walks in step
            inside[going, orders[going, step - 1]] = True
            answers = yield Ask(inside[going], so_far)
            left -= len(going)
            path[going, step:] = answers[:, None]
            going = going[~(np.abs(problem.full - answers) < slack)]
            if len(going) == 0:
                break
        path[going, n] = problem.full
        moments.add(gains_along(orders, path))
    return final(moments.estimate())


TOLERANCE = Option(
    0.01,
    "part of u(all) − u(∅) below which a walk stops, from 0 to 1",
    valid=lambda tolerance: 0 <= tolerance <= 1,
)
METHOD = Method(
    name="tmc",
    summary="random orders, left once nothing is left to gain (Data Shapley, biased)",
    run=tmc,
    least=one_walk,
    default=two_squares,
    keeps=frozenset({"null player"}),
    biased=True,
    foreseeable="never",
    options={"tolerance": TOLERANCE},
    cite="ghorbani2019",
)
