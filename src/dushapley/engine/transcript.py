"""What a run asked, in order, and what the different pools came to.

A pool has two names here: its key, which is its content (`Game.keys`), and its number, by which
it was first asked. Numbers index everything that is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.base import Answers, Outcome
from dushapley.protocol import Ask, Estimate

LOOKS = 64
"""Estimates on the way that are made only to be shown, at most."""


class Transcript:
    """Questions by number, and the values of their pools.

    Parameters
    ----------
    budget
        How many pools may be asked. Estimates on the way that have to be made are made `LOOKS`
        times in it: pages show few.

    Attributes
    ----------
    asks, numbers
        Rounds as they were answered, and the numbers of their pools.
    keys
        Keys by number.
    failures
        Why a training failed, by number.
    """

    def __init__(self, budget: int = 0) -> None:
        self.budget = budget
        self.asks: list[Ask] = []
        self.numbers: list[IntArray] = []
        self.keys: list[bytes] = []
        self.failures: dict[int, str] = {}
        self.asked = 0
        self._by_key: dict[bytes, int] = {}
        self._values = self._spreads = np.empty(0)  # with room to grow
        self._next_look = 0

    def number(self, keys: Sequence[bytes]) -> tuple[IntArray, IntArray]:
        """Numbers of these pools, and the places of those that were never asked before."""
        by_key, first = self._by_key, len(self._by_key)
        numbers = np.array([by_key.setdefault(k, len(by_key)) for k in keys], dtype=np.int64)
        before = np.maximum.accumulate(np.append(first - 1, numbers))[:-1]
        new = np.flatnonzero(numbers > before)  # new numbers come in their order
        self.keys += [keys[place] for place in new.tolist()]
        self._make_room(len(by_key))
        return numbers, new

    def number_of(self, key: bytes) -> IntArray | None:
        """The number of one pool, as an array; None where it was not asked."""
        number = self._by_key.get(key)
        return None if number is None else np.array([number])

    def _make_room(self, count: int) -> None:
        more = max(2 * count, 2**10) - len(self._values)
        if count > len(self._values):
            self._values = np.append(self._values, np.full(more, np.nan))
            self._spreads = np.append(self._spreads, np.full(more, np.nan))

    def learn(self, numbers: IntArray, answers: Answers) -> None:
        """Remember what pools came to, without their scores."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        self._values[numbers] = answers.values
        if answers.spread is not None:
            self._spreads[numbers] = answers.spread
        for place, cause in answers.failures.items():
            self.failures[int(numbers[place])] = cause

    def outcome(self, number: int) -> Outcome | None:
        """What one pool came to; None where it is still open."""
        if len(self.unknown(np.array([number]))):
            return None
        spread = float(self._spreads[number])
        known = None if np.isnan(spread) else spread
        return Outcome(float(self._values[number]), self.failures.get(number), spread=known)

    def unknown(self, numbers: IntArray) -> IntArray:
        """Those of these numbers whose pools are still open."""
        without = numbers[np.isnan(self._values[numbers])]
        return np.setdiff1d(without, list(self.failures)) if self.failures else without

    @property
    def n_known(self) -> int:
        """Different pools that are answered."""
        return int(np.count_nonzero(~np.isnan(self._values))) + len(self.failures)

    def add(self, ask: Ask, numbers: IntArray) -> None:
        """Keep one question with the numbers of its answers."""
        self.asks.append(replace(ask, so_far=self._kept(ask)))
        self.numbers.append(numbers)
        self.asked += len(numbers)

    def _kept(self, ask: Ask) -> Estimate | None:
        if callable(ask.so_far):
            if self.asked < self._next_look:
                return None
            self._next_look = self.asked + self.budget // LOOKS
        estimate = ask.estimate()
        # thousands of covariances would be most of a run's memory
        return None if estimate is None else replace(estimate, covariance=None, weights=None)

    @property
    def n_answers(self) -> int:
        """Different pools among those of the questions kept."""
        return 1 + max((int(numbers.max()) for numbers in self.numbers), default=-1)

    def at(self, numbers: IntArray | slice) -> FloatArray:
        """Values of pools, those that failed being worth what nobody is."""
        values = self._values[numbers]
        failed = np.isnan(values)
        return np.where(failed, self._values[0], values) if failed.any() else values

    @property
    def values(self) -> FloatArray:
        """Values by number, of the pools of the questions kept."""
        return self.at(slice(self.n_answers))

    @property
    def spreads(self) -> FloatArray:
        """Standard deviations between repeated trainings, by number; NaN where unknown."""
        return self._spreads[: self.n_answers].copy()

    def rows(self, sizes: FloatArray) -> FloatArray:
        """Rows of each pool, by number."""
        rows = np.zeros(self.n_answers)
        for ask, numbers in zip(self.asks, self.numbers, strict=True):
            rows[numbers] = ask.queries @ sizes
        return rows
