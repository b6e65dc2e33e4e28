"""Truncated Monte Carlo: walks that stop once nothing is left to gain (Data Shapley)."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.estimators.calibration import Moments, final
from dushapley.estimators.method import Method, Option, two_squares
from dushapley.estimators.permutation import one_walk, random_orders
from dushapley.protocol import Ask, Conversation, Estimate, Problem


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
    moments = Moments(problem.n_players)
    left, steps = problem.budget, problem.n_players - 1
    while left >= steps:
        walks = min(max(1, problem.batch), left // steps)
        gains, asked = yield from truncated_walks(problem, walks, moments.estimate())
        moments.add(gains)
        left -= asked
    return final(moments.estimate())


def truncated_walks(
    problem: Problem, walks: int, so_far: Estimate | None
) -> Generator[Ask, FloatArray, tuple[FloatArray, int]]:
    """Walk several orders in step; what every owner adds, and how many pools were asked."""
    n = problem.n_players
    orders = random_orders(problem.rng, walks, n)
    path = np.full((walks, n + 1), problem.empty)
    inside = np.zeros((walks, n), dtype=np.bool_)
    going = np.arange(walks)
    slack = problem.options["tolerance"] * abs(problem.total)
    asked = 0
    for step in range(1, n):
        inside[going, orders[going, step - 1]] = True
        answers = yield Ask(inside[going], so_far)
        asked += len(going)
        path[going, step:] = answers[:, None]
        going = going[~(np.abs(problem.full - answers) < slack)]
        if len(going) == 0:
            break
    path[going, n] = problem.full
    gains = np.empty((walks, n))
    np.put_along_axis(gains, orders, np.diff(path, axis=1), axis=1)
    return gains, asked


METHOD = Method(
    name="tmc",
    summary="random orders, left once nothing is left to gain (Data Shapley, biased)",
    run=tmc,
    least=one_walk,
    default=two_squares,
    keeps=frozenset({"null player"}),
    biased=True,
    foreseeable="never",
    options={
        "tolerance": Option(
            0.01,
            "part of u(all) − u(∅) below which a walk stops, from 0 to 1",
            valid=lambda tolerance: 0 <= tolerance <= 1,
        )
    },
    cite="ghorbani2019",
)
