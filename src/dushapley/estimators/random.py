"""Random values: the floor under any ranking."""

from __future__ import annotations

from dushapley.estimators.method import Method, Options
from dushapley.protocol import Conversation, Estimate, Problem


def random(problem: Problem) -> Conversation:
    """Share out u(all) − u(∅) at random, uniformly over all ways to share it.

    Cost: 2 evaluations. Not an estimate of anything; a method that ranks no better than this one is
    worthless.
    """
    return Estimate(problem.total * problem.rng.dirichlet([1.0] * problem.n_players))
    yield  # a generator that asks nothing


def two(_n_players: int, _options: Options) -> int:
    """∅ and the grand coalition only."""
    return 2


METHOD = Method(
    name="random",
    summary="random shares of u(all) − u(∅): the floor under any ranking",
    run=random,
    foreseeable=True,
    least=two,
    default=two,
    keeps=frozenset({"efficiency"}),
    biased=True,
)
