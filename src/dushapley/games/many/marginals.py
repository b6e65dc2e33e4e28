"""Every owner's marginal around a pool at once, block by block of owners.

Around a pool C, an owner's marginal is u(C) − u(C∖i) if it is inside and u(C∪i) − u(C) if not. A
game that knows them all for little work hands out a `Marginals` object, which the method `centres`
asks. Work is cut into tasks of some pools and a block of owners, here or in workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, slices

BLOCK = 8192
"""Owners of a task: what a kill costs, times the pools of a round."""
AT_ONCE = 1024
"""Owners worked on together: enough to vectorise, few enough to stay in cache."""


class Marginals(ABC):
    """How a game tells marginals around pools.

    Attributes
    ----------
    name
        What is computed and how, with every number that can change a bit: part of a ledger's key.
    note
        The same in a sentence for people.
    block
        Owners of a task.
    additive
        Whether what a pool is known by (its state) is a sum over its owners. Then blocks of owners
        are asked for their parts of it, and tasks see the columns of their own owners only.
    counted
        Names of further numbers that stand behind the marginals of a task, one column each: what
        was trained, checked and found. They add up over tasks.
    power
        About how an owner's marginals differ between pools of s owners: by s^−power. Where every
        owner moves one model a little, 3/2.
    """

    name: str
    note: str
    block: int = BLOCK
    additive: bool = False
    counted: ClassVar[tuple[str, ...]] = ()
    power: ClassVar[float] = 1.5

    def parts(self, n_players: int) -> list[slice]:
        """Blocks of owners."""
        return slices(n_players, self.block)

    def states(self, pools: BoolArray, owners: slice) -> FloatArray:
        """These owners' part of what each pool is known by, shape (m, numbers)."""
        return np.zeros((len(pools), 0))

    @abstractmethod
    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        """Marginals of these owners around each pool, then the `counted` numbers of each pool."""

    def account(self, work: Mapping[str, float]) -> dict[str, Any]:
        """What a run says of the work, whose numbers these are: plain JSON types."""
        return {"by": self.note, **{name: int(number) for name, number in work.items()}}


class SumsMarginals(Marginals):
    r"""Marginals of a game whose pools are worth a function of sums over owners: exact.

    .. math:: u(S) = f\Bigl(\sum_{j \in S} x_j\Bigr), \qquad
              u(C \cup i) - u(C) = f(x_C + x_i) - f(x_C)

    with the sums x_C as the state, and behind them the number of members, by which nobody's pool is
    known.

    Parameters
    ----------
    vectors
        The x_j, shape (numbers, I).
    worth
        f of many sums, shape (numbers, m) to (m,).
    nobody
        u(∅).
    name
        What is computed.
    at_once
        Owners worked on together.
    """

    additive = True

    def __init__(
        self,
        vectors: FloatArray,
        worth: Callable[[FloatArray], FloatArray],
        nobody: float,
        name: str,
        at_once: int = AT_ONCE,
    ) -> None:
        self.vectors, self.function, self.nobody = vectors, worth, nobody
        self.at_once = at_once
        self.name = f"{name}, sums changed by one owner, blocks of {self.block}"
        self.note = (
            "Marginals around a pool were computed from its sums, changed by one owner each."
        )

    def of(self, owners: slice) -> FloatArray:
        """The x_j of these owners, shape (numbers, owners)."""
        return self.vectors[:, owners]

    def states(self, pools: BoolArray, owners: slice) -> FloatArray:
        sums = pools.astype(np.float64) @ self.of(owners).T
        return np.column_stack([sums, pools.sum(axis=1)])

    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        vectors = self.of(owners)
        found = np.empty((len(pools), vectors.shape[1]))
        for pool, state, row in zip(pools, states, found, strict=True):
            sums, members = state[:-1, None], state[-1]
            worth = float(self.worth(sums)[0]) if members else self.nobody
            for some in slices(len(row), self.at_once):
                sign = np.where(pool[some], -1.0, 1.0)
                alone = pool[some] & (members == 1)
                pooled = sums + np.where(alone, 0.0, sign) * vectors[:, some]
                changed = np.where(alone, self.nobody, self.worth(pooled))
                row[some] = sign * (changed - worth)
        return found

    def worth(self, pooled: FloatArray) -> FloatArray:
        """Utilities of sums, shape (numbers, m)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.function(pooled)
