"""Owen's multilinear extension: every owner joins with the same chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dushapley.estimators.method import Keeps, Method, Option, two_squares
from dushapley.estimators.moments import Moments, student
from dushapley.estimators.permutations import finished
from dushapley.questions import Ask, BoolArray, Conversation, Estimate, FloatArray, Problem

TINY = np.finfo(np.float64).tiny


def owen(problem: Problem) -> Conversation:
    r"""Integrate what an owner adds to coalitions that everybody joins with chance q.

    .. math:: \varphi_i = \int_0^1 E[u(S_q \cup i) - u(S_q \setminus i)]\,dq

    with :math:`S_q` holding every owner independently with chance q.

    ``form="shared"``: one coalition S serves all owners, by u(S) and the I coalitions that differ
    from it in one owner: T coalitions cost T(I+1)+2 evaluations. The chance of the t-th is uniform
    on the t-th of T equal parts of 0..1 (in random order), so each integral is unbiased and
    evenly covered. Standard errors from differences between neighbouring parts.
    ``form="shared-efficient"``: the same, then what is missing to u(all) − u(∅) is given to all
    owners alike, which never increases the squared error. ``form="per-owner"``: the paper's
    appendix B.3, own draws of q and S for each owner, 2TI+2 evaluations.

    Unbiased in all forms. Null owners get exactly 0, except in the efficient form. Okhrati and
    Lipani (2021).
    """
    if problem.options["form"] == "per-owner":
        return (yield from per_owner(problem))
    return (yield from shared(problem))


def shared(problem: Problem) -> Conversation:
    """One coalition and its I neighbours serve all owners."""
    n = problem.n_players
    parts = problem.budget // (n + 1)
    order = problem.rng.permutation(parts)
    chances = (order + problem.rng.random(parts)) / parts
    at_once = max(1, problem.batch // (n + 1))
    gains = np.empty((0, n))
    for start in range(0, parts, at_once):
        some = chances[start : start + at_once]
        masks = problem.rng.random((len(some), n)) < some[:, None]
        answers = yield Ask(with_neighbours(masks), shared_estimate(problem, gains, order))
        table = answers.reshape(len(masks), n + 1)
        gains = np.concatenate([gains, np.where(masks, 1, -1) * (table[:, :1] - table[:, 1:])])
    estimate = shared_estimate(problem, gains, order)
    assert estimate is not None
    return estimate


def with_neighbours(masks: BoolArray) -> BoolArray:
    """Each coalition, followed by the I coalitions that differ from it in one owner."""
    m, n = masks.shape
    flips = np.concatenate([np.zeros((1, n), dtype=np.bool_), np.eye(n, dtype=np.bool_)])
    return np.asarray(masks[:, None, :] ^ flips).reshape(m * (n + 1), n)


def shared_estimate(
    problem: Problem, gains: FloatArray, order: np.ndarray[Any, Any]
) -> Estimate | None:
    """Mean over the parts answered so far, and its errors.

    Neighbouring parts have nearly the same mean, so half the squared difference of neighbours is
    the variance within a part, without what differs between parts and is covered evenly. Where a
    few parts hold most of the variance, the estimate of it is uncertain; its effective degrees of
    freedom, T/(κ−2) for T differences of kurtosis κ (3 for normal ones), widen the errors.
    """
    if len(gains) == 0:
        return None
    if problem.options["form"] == "shared-efficient":
        missing = problem.total - gains.sum(axis=1, keepdims=True)
        gains = gains + missing / problem.n_players
    mean = gains.mean(axis=0)
    if len(gains) == 1:
        return Estimate(mean, replicates=1)
    steps = np.diff(gains[np.argsort(order[: len(gains)])], axis=0)
    covariance = steps.T @ steps / (2 * len(steps) * len(gains))
    kurtosis = (steps**4).mean(axis=0) / np.maximum((steps**2).mean(axis=0) ** 2, TINY)
    freedom = np.maximum(len(steps) / np.maximum(kurtosis - 2, 1), 1)
    errors = np.sqrt(np.diag(covariance)) * student(freedom)
    return Estimate(mean, errors, covariance, replicates=len(gains))


def per_owner(problem: Problem) -> Conversation:
    """Own draws for every owner."""
    n = problem.n_players
    rounds = problem.budget // (2 * n)
    at_once = max(1, problem.batch // (2 * n))
    own = np.eye(n, dtype=np.bool_)
    moments = Moments(n)
    while moments.count < rounds:
        some = min(at_once, rounds - moments.count)
        chances = problem.rng.random((some, n, 1))
        others = problem.rng.random((some, n, n)) < chances
        pools = np.stack([others | own, others & ~own])
        answers = yield Ask(pools.reshape(-1, n), moments.estimate())
        with_owner, without = answers.reshape(2, some, n)
        moments.add(with_owner - without)
    return finished(moments)


def least(n_players: int, options: Mapping[str, Any]) -> int:
    """One coalition with its neighbours, or one pair for each owner."""
    return (2 * n_players if options["form"] == "per-owner" else n_players + 1) + 2


def keeps(options: Mapping[str, Any]) -> frozenset[Keeps]:
    """What the form obeys exactly."""
    if options["form"] == "shared-efficient":
        return frozenset({"efficiency"})
    return frozenset({"null player"})


METHOD = Method(
    name="owen",
    summary="owners join with one chance, integrated over the chance (unbiased)",
    run=owen,
    least=least,
    default=two_squares,
    keeps=keeps,
    options={
        "form": Option(
            "shared",
            "'shared' coalitions for all owners, 'shared-efficient' (then made to add up), or "
            "'per-owner' (the paper's)",
            choices=("shared", "shared-efficient", "per-owner"),
        )
    },
    cite="okhrati2021",
)
