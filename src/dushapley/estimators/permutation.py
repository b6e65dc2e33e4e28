"""Permutation sampling: owners join one by one in a random order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.estimators.calibration import Gains, replicated
from dushapley.estimators.method import Method, Options, two_squares
from dushapley.protocol import Conversation, Problem


def permutation(problem: Problem) -> Conversation:
    r"""Average the marginal contributions along random orders of joining.

    .. math:: \hat\varphi_i = \frac1M \sum_{m=1}^{M} [u(P_i^{\pi_m} \cup i) - u(P_i^{\pi_m})]

    where :math:`P_i^\pi` are the owners before i in the order π. A walk through one order serves
    all owners and costs I−1 evaluations, since ∅ and the grand coalition are known.

    Cost: M(I−1)+2 evaluations. Unbiased; every walk shares out exactly u(all) − u(∅). Standard
    errors from the spread of walks.
    """

    def draw(walks: int) -> tuple[BoolArray, Gains]:
        orders = random_orders(problem.rng, walks, problem.n_players)
        return prefixes(orders), partial(marginals, problem, orders)

    return (yield from replicated(problem, problem.n_players - 1, draw))


def antithetic(problem: Problem) -> Conversation:
    r"""Walk every random order forwards and backwards.

    .. math:: \hat\varphi_i = \frac1M \sum_{m=1}^{M}
              \tfrac12 [\Delta_i(\pi_m) + \Delta_i(\bar\pi_m)]

    with :math:`\Delta_i(\pi)` what owner i adds in the order π and :math:`\bar\pi` the reversed
    order. Who came early comes late, so what depends on the position cancels in part: pairs are
    exact for games of main effects and pairwise interactions.

    Cost: 2M(I−1)+2 evaluations. Unbiased; shares out exactly u(all) − u(∅). Standard errors from
    the spread of pairs. Mitchell et al. (2022), section 4.
    """

    def draw(pairs: int) -> tuple[BoolArray, Gains]:
        orders = both_ways(random_orders(problem.rng, pairs, problem.n_players))
        return prefixes(orders), partial(paired_marginals, problem, orders)

    return (yield from replicated(problem, 2 * (problem.n_players - 1), draw))


def both_ways(orders: IntArray) -> IntArray:
    """All orders, then all of them reversed."""
    return np.concatenate([orders, orders[:, ::-1]])


def paired_marginals(problem: Problem, orders: IntArray, answers: FloatArray) -> FloatArray:
    """Mean of the contributions along every order and its reverse, shape (pairs, I)."""
    forwards, backwards = np.split(marginals(problem, orders, answers), 2)
    return (forwards + backwards) / 2


def random_orders(rng: Generator, count: int, n_players: int) -> IntArray:
    """Uniform orders of joining, one a row: entry k is the owner who joins k-th."""
    orders = np.tile(np.arange(n_players), (count, 1))
    return rng.permuted(orders, axis=1, out=orders)


def prefixes(orders: IntArray) -> BoolArray:
    """The proper non-empty coalitions along each order, shape ((I−1)·walks, I).

    All coalitions of one owner come first, then all of two: long stretches are compared at once.
    """
    walks, n = orders.shape
    places = np.arange(n, dtype=np.min_scalar_type(n))  # the smaller the numbers, the faster
    position = np.empty((walks, n), dtype=places.dtype)
    np.put_along_axis(position, orders, places[None, :], axis=1)
    return (position < places[1:, None, None]).reshape(-1, n)


def marginals(problem: Problem, orders: IntArray, answers: FloatArray) -> FloatArray:
    """Marginal contribution of every owner in every walk, shape (walks, I)."""
    walks, n = orders.shape
    path = np.empty((walks, n + 1))
    path[:, 0] = problem.empty
    path[:, -1] = problem.full
    path[:, 1:-1] = answers.reshape(n - 1, walks).T
    return gains_along(orders, path)


def gains_along(orders: IntArray, path: FloatArray) -> FloatArray:
    """What every owner adds, by what each walk's coalitions are worth, nobody's the first."""
    gains = np.empty(orders.shape)
    np.put_along_axis(gains, orders, np.diff(path, axis=1), axis=1)
    return gains


def walk_weights(pools: BoolArray, _options: Options) -> FloatArray:
    """Weights of prefixes and of both ends: +1 for who joined last, −1 for who joins next."""
    n = pools.shape[1]
    steps = pools.reshape(n - 1, -1, n).astype(np.int8)
    whole = np.concatenate([np.zeros_like(steps[:1]), steps, np.ones_like(steps[:1])])
    joined = np.diff(whole, axis=0)
    inner = (joined[:-1] - joined[1:]).reshape(-1, n).T
    ends = -joined[0].sum(axis=0), joined[-1].sum(axis=0)
    return np.column_stack([inner, *ends]).astype(np.float64)


def one_walk(n_players: int, _options: Options) -> int:
    """Budget of a single walk."""
    return n_players + 1


METHOD = Method(
    name="permutation",
    summary="owners join in random orders; the average of what each adds (Monte Carlo, unbiased)",
    run=permutation,
    foreseeable=True,
    weights=walk_weights,
    least=one_walk,
    default=two_squares,
    keeps=frozenset({"efficiency", "null player"}),
    cite="castro2009",
)

ANTITHETIC = replace(
    METHOD,
    name="antithetic",
    summary="random orders walked forwards and backwards (unbiased)",
    run=antithetic,
    weights=None,
    least=lambda n, _options: 2 * n,  # one order walked both ways
    cite="mitchell2022",
)
