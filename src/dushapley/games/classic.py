"""Textbook games whose Shapley values are known without enumeration: examples and oracles."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, Draws, FloatArray, Queries, as_floats
from dushapley.errors import InvalidGame
from dushapley.games.base import Game, Wishes
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.validation import check_sizes


class ClassicGame(Game):
    """A game of whole players with a formula for its Shapley values, `shapley_values`.

    Examples
    --------
    >>> from dushapley.games import glove
    >>> game = glove(1, 2)
    >>> game.closed_form("exact") is not None, game.n_players
    (True, 3)
    """

    cheap = True

    def __init__(
        self, rule: Callable[[BoolArray], ArrayLike], shapley_values: ArrayLike, fingerprint: str
    ) -> None:
        self.rule = rule
        self.shapley_values = as_floats(shapley_values)
        self._set_owners(None, n_players=len(self.shapley_values))
        self.fingerprint = fingerprint

    def evaluate(self, queries: Queries, draws: Draws) -> FloatArray:
        return as_floats(self.rule(queries.astype(np.bool_, copy=False)))

    def closed_form(self, method: str, wishes: Wishes = None) -> Estimate | None:
        known = method == "exact" and not wishes
        return Estimate(self.shapley_values.copy()) if known else None


def glove(left: int, right: int) -> ClassicGame:
    """Glove market: `left` owners of a left glove, `right` of a right one; pairs are worth 1.

    A left owner completes a pair when fewer left than right gloves are there before it, so its
    value is Σ_{a<b} C(L−1,a)·C(R,b) / (I·C(I−1,a+b)).

    Examples
    --------
    >>> from dushapley.games import classic
    >>> classic.glove(1, 2).shapley_values.round(4).tolist()
    [0.6667, 0.1667, 0.1667]
    """
    if left < 1 or right < 1:
        raise InvalidGame("The glove market needs at least one owner of each kind.")
    total = left + right

    def share(own: int, other: int) -> float:
        return sum(
            comb(own - 1, a) * comb(other, b) / (total * comb(total - 1, a + b))
            for a in range(own)
            for b in range(a + 1, other + 1)
        )

    values = [share(left, right)] * left + [share(right, left)] * right
    return ClassicGame(
        lambda z: np.minimum(z[:, :left].sum(axis=1), z[:, left:].sum(axis=1)),
        values,
        digest("glove", left, right),
    )


def airport(costs: ArrayLike) -> ClassicGame:
    """Airport game: a runway for a set of planes costs what its largest plane needs.

    Each stretch of runway is shared equally by the planes that need it.

    Examples
    --------
    >>> from dushapley.games import classic
    >>> classic.airport([1, 2, 4]).shapley_values.round(4).tolist()
    [0.3333, 0.8333, 2.8333]
    """
    c = check_sizes(costs)
    order = np.argsort(c, kind="stable")
    stretches = np.diff(c[order], prepend=0.0) / np.arange(len(c), 0, -1)
    values = np.empty(len(c))
    values[order] = np.cumsum(stretches)
    return ClassicGame(lambda z: np.max(z * c, axis=1, initial=0.0), values, digest("airport", c))


def voting(weights: ArrayLike, quota: int) -> ClassicGame:
    """Weighted majority: a coalition wins (1) when its whole-number weights reach `quota`.

    A voter's value is the chance to be pivotal (Shapley–Shubik), by counting, for each size and
    each weight, the coalitions of the others that fall short by no more than the voter's weight.

    Examples
    --------
    >>> from dushapley.games import classic
    >>> classic.voting([50, 49, 1], quota=51).shapley_values.round(4).tolist()
    [0.6667, 0.1667, 0.1667]
    """
    w = check_sizes(weights)
    if (w != np.floor(w)).any() or quota < 1:
        raise InvalidGame("Voting weights must be whole numbers and the quota at least 1.")
    n, whole, values = len(w), w.astype(int).tolist(), []
    for i, own in enumerate(whole):
        count = np.zeros((n, quota), dtype=object)  # of others' coalitions by size and weight
        count[0, 0] = 1
        for weight in whole[:i] + whole[i + 1 :]:
            shifted = np.zeros_like(count)
            if weight < quota:
                shifted[1:, weight:] = count[:-1, : quota - weight]
            count = count + shifted
        short = count[:, max(0, quota - own) :].sum(axis=1)
        values.append(sum(short[k] / (n * comb(n - 1, k)) for k in range(n)))
    return ClassicGame(lambda z: z @ w >= quota, values, digest("voting", w, quota))
