"""Owen's multilinear extension: every owner joins with the same chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray, slices
from dushapley.estimators.calibration import (
    Extremes,
    Gains,
    Spread,
    final,
    replicated,
    sum_of_cubes,
)
from dushapley.estimators.method import Method, Option, refuse_large_plan, two_squares
from dushapley.estimators.subsets import own_parts, with_neighbours
from dushapley.protocol import Ask, Conversation, Estimate, Problem


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
    n = problem.n_players
    refuse_large_plan(problem, 32 / (n + 1))  # order and chance of every coalition
    parts = problem.budget // (n + 1)
    order = problem.rng.permutation(parts)
    chances = (order + problem.rng.random(parts)) / parts
    drawn = Drawn(chances, order, np.empty((0, n)), np.empty((0, n), dtype=np.bool_))
    for part in slices(parts, problem.batch // (n + 1)):
        some = chances[part, None]
        masks = problem.rng.random((len(some), n)) < some
        answers = yield Ask(with_neighbours(masks), partial(shared_estimate, problem, drawn))
        gains = np.concatenate([drawn.gains, own_parts(masks, answers)])
        masks = np.concatenate([drawn.masks, masks])
        drawn = replace(drawn, gains=gains, masks=masks)
    return final(shared_estimate(problem, drawn))


@dataclass(frozen=True)
class Drawn:
    """What was drawn and answered so far.

    Attributes
    ----------
    chances, order
        Chance of joining and part of 0..1 of every coalition, also of those still to be asked.
    gains, masks
        What each owner adds to each coalition asked, and who is in it; shape (t, I).
    """

    chances: FloatArray
    order: IntArray
    gains: FloatArray
    masks: BoolArray

    def neighbours(self, gains: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Covariance of the mean of these gains, and its third cumulant, by owner.

        Neighbouring parts have nearly the same mean, so half the squared difference of neighbours
        is the variance within a part, without what differs between parts and is covered evenly. A
        gain less the mean of its two neighbours has 1 − 2/8 of the third cumulant of a gain.
        """
        count = len(gains)
        steps = np.diff(gains[np.argsort(self.order[:count])], axis=0)
        bends = np.diff(steps, axis=0) / -2
        third = sum_of_cubes(bends) / (0.75 * max(len(bends), 1) * count**2)
        return steps.T @ steps / (2 * len(steps) * count), third


def shared_estimate(problem: Problem, drawn: Drawn) -> Estimate | None:
    """Mean over the parts answered so far, and its errors.

    The variance of n differences of neighbours has about 2n/3 degrees of freedom.
    """
    count = len(drawn.gains)
    if count == 0:
        return None
    gains = smooth = drawn.gains
    by_design = np.zeros(problem.n_players)
    if problem.options["form"] == "shared-efficient":
        missing = problem.total - gains.sum(axis=1, keepdims=True)
        gains = gains + missing / problem.n_players
        by_design, smooth = own_membership(drawn, gains)
    mean = gains.mean(axis=0)
    if count == 1:
        return Estimate(mean, replicates=1)
    seen, third = drawn.neighbours(smooth)
    variance = np.stack([np.diag(seen), by_design])
    freedom = np.array([[(2 * count - 1) / 3], [np.inf]])
    parts = Spread(variance, np.stack([third, 0 * third]), freedom)
    extremes = Extremes(problem.n_players, shared=True)
    extremes.add(drawn.gains)
    spread = replace(parts.together(axis=0), extremes=extremes)
    covariance = seen if smooth is gains else drawn.neighbours(gains)[0]
    return spread.around(mean, covariance, count)


def own_membership(drawn: Drawn, gains: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Variance of efficient gains from an owner's being in or out itself; and gains without it.

    Made to add up, the gain of owner i is :math:`(1-\frac1I)\Delta_i(A) - R_i + const`, where A
    are the others in the coalition and :math:`R_i = \frac1I\sum_{j \ne i} \Delta_j`. Whether i is
    in (b = 1, with chance q) is independent of A and moves :math:`R_i` by a jump δ, estimated from
    all coalitions with as many others. As (b − q)δ has mean 0 and variance q(1−q)δ² by design, this
    part of the variance need not be seen to be known: coalitions of i alone are rare, yet move
    the estimate most.
    """
    count, n = gains.shape
    chance = drawn.chances[:count, None]
    rest = (drawn.gains.sum(axis=1, keepdims=True) - drawn.gains) / n
    others = drawn.masks.sum(axis=1, keepdims=True) - drawn.masks
    place = others + n * np.arange(n)
    inside = mean_by_others(rest, place, drawn.masks)
    outside = mean_by_others(rest, place, ~drawn.masks)
    jump = np.nan_to_num(inside - outside)[place]
    known = (chance * (1 - chance) * jump**2).sum(axis=0) / count**2
    return known, gains + (drawn.masks - chance) * jump


def mean_by_others(rest: FloatArray, place: IntArray, which: BoolArray) -> FloatArray:
    """Mean by owner and number of others, all owners' together counting as one observation more.

    Flat, owner after owner; not a number where nobody was seen with so many others.
    """
    n = rest.shape[1]
    cells = place[which]
    number = np.bincount(cells, minlength=n * n).reshape(n, n)
    total = np.bincount(cells, rest[which], minlength=n * n).reshape(n, n)
    of_all = number.sum(axis=0)
    mean = total.sum(axis=0) / np.where(of_all > 0, of_all, np.nan)
    return ((total + mean) / (number + 1)).ravel()


def per_owner(problem: Problem) -> Conversation:
    """Own draws for every owner."""
    n = problem.n_players
    own = np.eye(n, dtype=np.bool_)

    def draw(rounds: int) -> tuple[BoolArray, Gains]:
        chances = problem.rng.random((rounds, n, 1))
        others = problem.rng.random((rounds, n, n)) < chances
        pools = np.stack([others | own, others & ~own])
        return pools.reshape(-1, n), lambda answers: np.subtract(*answers.reshape(2, -1, n))

    return (yield from replicated(problem, 2 * n, draw))


FORM = Option(
    "shared",
    "'shared' coalitions for all owners, 'shared-efficient' (then made to add up), or 'per-owner' "
    "(the paper's)",
    choices=("shared", "shared-efficient", "per-owner"),
)
METHOD = Method(
    name="owen",
    summary="owners join with one chance, integrated over the chance (unbiased)",
    run=owen,
    foreseeable=True,
    # one coalition with its neighbours, or one pair for each owner
    least=lambda n, options: (2 * n if options["form"] == "per-owner" else n + 1) + 2,
    default=two_squares,
    keeps=lambda options: frozenset(
        {"efficiency" if options["form"] == "shared-efficient" else "null player"}
    ),
    options={"form": FORM},
    cite="okhrati2021",
)
