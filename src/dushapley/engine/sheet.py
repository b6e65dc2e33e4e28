r"""Scores by test row of games that cost nothing, in little memory, for the error of the test set.

Such games are asked for millions of pools. Where all coalitions are asked, their weights are known
beforehand, and the influence of each test row is added up as the answers come,

.. math:: \phi_r = \sum_S W_S\,s_{Sr} = \sum_k B_{rk} \sum_S W_S\,c_{Sk},

with :math:`c_S` the `coefficients` of pool S and B the `basis` (`dushapley.games.base.Scored`), so
that single rows are looked at once, at the end. Otherwise scores of groups of test rows are put on
a sheet (beyond 64 MB on disk), and carried through to values when the method has ended: by the
weights it states, or by holding the same conversation again without one group after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import Protocol

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.dialogue import Dialogue
from dushapley.estimators.exact import shapley_weights
from dushapley.estimators.semivalues import SHAPLEY, single_weights
from dushapley.games.base import Scored
from dushapley.games.model.training import MOST_SCORES, grouped
from dushapley.hashing import array_chunk, checksum
from dushapley.protocol import Estimate

GROUPS = 100
"""Groups of test rows left out in turn: a standard error from them is right to about 7%."""
MOST_NUMBERS = 2**23
"""Numbers of a sheet that are held in memory: 64 MB."""

Begin = Callable[[], Dialogue | None]
"""Starts the same conversation anew; None where there is no time for that."""


class Sheet(Protocol):
    """Takes in answers, and says in the end what each test row had to do with each value."""

    def add(self, queries: Queries, scored: Scored) -> None:
        """Take in the answers to some pools of a question."""

    def end(self, queries: Queries) -> None:
        """A question of these pools has been answered."""

    def influence(self, estimate: Estimate, begin: Begin) -> FloatArray | None:
        """Value plus influence of each group of test rows, shape (groups, I); None if unknown."""


class CoalitionSums:
    """For all coalitions: their weights are known, so that only sums are kept."""

    def __init__(self, semivalue: str = SHAPLEY) -> None:
        self.semivalue = semivalue
        self.sums: FloatArray | float = 0.0
        self.last: Scored | None = None

    def add(self, queries: Queries, scored: Scored) -> None:
        self.sums = self.sums + coalition_weights(queries, self.semivalue) @ scored.coefficients
        self.last = scored

    def end(self, queries: Queries) -> None:
        pass

    def influence(self, estimate: Estimate, begin: Begin) -> FloatArray | None:
        return None if self.last is None else self.last.by_row(np.asarray(self.sums)).T


def coalition_weights(queries: Queries, semivalue: str = SHAPLEY) -> FloatArray:
    """Weights of coalitions, shape (I, m): values are the sum of weights by utilities."""
    pools = queries.astype(np.bool_)
    n = pools.shape[1]
    single = shapley_weights(n) if semivalue == SHAPLEY else single_weights(semivalue, n)
    outside = np.append(single, 0.0)
    size = pools.sum(axis=1)
    return np.where(pools, outside[size - 1, None], -outside[size, None]).T


class ScoreSheet:
    """Scores of every pool asked, by groups of test rows.

    Parameters
    ----------
    budget
        How many pools may be asked.
    """

    def __init__(self, budget: int) -> None:
        self.budget, self.count = budget, 0
        self.groups = int(np.clip(MOST_NUMBERS // budget, GROUPS, MOST_SCORES))
        self.parts: list[FloatArray] = []
        self.asked: list[tuple[int, bytes]] = []

    def add(self, queries: Queries, scored: Scored) -> None:
        rows = self._rows(scored)
        while rows.shape[1]:
            if self.count == self._width():
                self.parts.append(self._made(len(rows)))
            free = self.parts[-1][:, self.count - self._width() :]
            taken = min(free.shape[1], rows.shape[1])
            free[:, :taken] = rows[:, :taken]
            self.count += taken
            rows = rows[:, taken:]

    def _rows(self, scored: Scored) -> FloatArray:
        if scored.basis is None:
            return grouped(scored.coefficients.T, self.groups)
        return grouped(scored.basis, self.groups) @ scored.coefficients.T

    def _width(self) -> int:
        """Pools for which there is room."""
        return sum(part.shape[1] for part in self.parts)

    def _made(self, rows: int) -> FloatArray:
        """Room for more pools: in memory at first, then on disk, as much again each time.

        A budget may be far more than is ever asked, so that no room is made for all of it.
        """
        known = self._width()
        shape = rows, min(self.budget - known, max(known, MOST_NUMBERS // rows))
        if not known:
            return np.empty(shape)
        with TemporaryFile() as file:  # which is gone with the last use of its content
            return np.memmap(file, dtype=np.float64, shape=shape)

    def _filled(self) -> Iterator[tuple[int, FloatArray]]:
        """Scores of all pools asked, in parts, each with the pool it begins with."""
        start = 0
        for part in self.parts:
            yield start, part[:, : self.count - start]
            start += part.shape[1]

    def end(self, queries: Queries) -> None:
        self.asked.append((len(queries), mark(queries)))

    def influence(self, estimate: Estimate, begin: Begin) -> FloatArray | None:
        if not self.parts or len(self.parts[0]) < 2:
            return None
        if (w := estimate.weights) is not None:  # of a stopped run, maybe not of all answers
            found = [np.zeros((len(self.parts[0]), len(w)))]
            for start, part in self._filled():
                own = w[:, start : start + part.shape[1]]
                found.append(part[:, : own.shape[1]] @ own.T)
            return np.asarray(sum(found))
        left_out = []
        for utilities in self._without_groups():
            values = self._replay(utilities, begin)
            if values is None:
                return None
            left_out.append(values)
        return pseudo_values(np.array(left_out))

    def _without_groups(self) -> Iterator[FloatArray]:
        """Utilities of all pools without one group of test rows after the other."""
        rows = len(self.parts[0])
        groups = min(rows, GROUPS)
        member = np.random.default_rng(0).permutation(rows) % groups
        everything = self._sums(slice(None))
        for group in range(groups):
            own = np.flatnonzero(member == group)
            yield (everything - self._sums(own)) / (rows - len(own))

    def _sums(self, rows: IntArray | slice) -> FloatArray:
        """Scores of some groups of test rows together, by pool."""
        return np.concatenate([part[rows].sum(axis=0) for _, part in self._filled()])

    def _replay(self, utilities: FloatArray, begin: Begin) -> FloatArray | None:
        """Values of the same conversation on these utilities; None if it went another way."""
        talk, start = begin(), 0
        for count, seen in self.asked:
            ask = None if talk is None else talk.ask()
            if talk is None or ask is None or mark(ask.queries) != seen:
                return None
            talk.tell(utilities[start : start + count])
            start += count
        return None if talk is None or talk.estimate is None else talk.estimate.values


def mark(queries: Queries) -> bytes:
    """A question in a few bytes, by which it is known again."""
    return checksum(array_chunk(queries))


def pseudo_values(left_out: FloatArray) -> FloatArray:
    """Values without each group, as values plus influence of the group; shape (groups, I)."""
    mean = left_out.mean(axis=0)
    return np.asarray(mean - (len(left_out) - 1) * (left_out - mean))
