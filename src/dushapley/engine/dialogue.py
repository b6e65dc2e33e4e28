"""A method's conversation, no matter who answers: its rounds of questions, in order and ahead.

`Dialogue` is the rule book of a run. It asks ∅ and the grand coalition first, hands every round of
the estimator on, counts the budget, refuses answers that are not numbers, and keeps the estimate so
far. `foreseen` takes rounds before their turn has come, of methods whose questions depend on no
answer: from a second conversation on made-up answers. Answers go in by the order of questions, so
no bit depends on who was first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, Fractions, IntArray
from dushapley.engine.plan import Plan, make_plan
from dushapley.errors import (
    BudgetTooSmall,
    InvalidGame,
    InvalidOption,
    ProtocolViolated,
)
from dushapley.estimators.method import Method
from dushapley.games.base import Answers, Outcome
from dushapley.protocol import Ask, Conversation, Estimate, Problem, ends
from dushapley.validation import (
    check_fractions,
    check_names,
    check_seed,
    check_sizes,
    check_whole,
    pools_between,
    refuse_extreme,
    refuse_minute,
    refuse_non_finite,
)

ROUND = 64
"""Pools of a round, roughly, of methods that ask in rounds; sums are taken round by round."""


LOOKS = 64
"""Estimates on the way that are made only to be shown, at most."""


class Dialogue:
    """A method's rounds of questions: each is told in order, one number per pool.

    What the engine and `AskTell` have in common; the parameters are those of `AskTell`.

    Examples
    --------
    >>> talk = Dialogue("permutation", n_players=3, budget=42)
    >>> while (ask := talk.ask()) is not None:
    ...     talk.tell(ask.queries.sum(axis=1) ** 2)
    >>> talk.estimate.values.round(1).tolist()
    [3.1, 3.2, 2.7]
    """

    each = 1
    """Evaluations that a pool counts as."""

    def __init__(
        self,
        method: str | Method | Plan,
        n_players: int,
        *,
        sizes: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        fractions: Fractions = "none",
        options: Mapping[str, Any] | None = None,
        budget: int | None = None,
        seed: int = 0,
        batch: int = ROUND,
        known: BoolArray | None = None,
    ) -> None:
        self.n_players = check_whole(n_players, "n_players")
        self.names = check_names(names, self.n_players)
        self.sizes = check_sizes(sizes, self.n_players)
        if fractions == "rows" and sizes is None:
            raise InvalidGame("Drawing rows needs sizes=: how many rows each owner has.")
        self.fractions: Fractions = check_fractions(fractions, self.sizes)
        self.plan = (
            method
            if isinstance(method, Plan)
            else make_plan(method, self.n_players, fractions, options, budget)
        )
        self.seed = check_seed(seed)
        self.batch = batch
        self.known = None if known is None else pools_between(known, self.n_players)
        self._check_budget()
        self.n_asked = self.n_told = 0
        self.empty = self.full = float("nan")
        self.finished = False
        self._so_far: Ask | Estimate | None = None
        self._talk: Conversation | None = None
        self._round: Ask | None = None  # and not yet answered
        self._open(Ask(ends(self.n_players)))

    def _check_budget(self) -> None:
        """Refuse a budget that known pools use up, so that the method cannot ask its own."""
        count = 0 if self.known is None else len(self.known)
        method, granted = self.plan.method, self.plan.budget
        least = method.least(self.n_players, self.plan.options) + count
        needed = min(least, 2**self.n_players)
        if count and granted < needed:
            raise BudgetTooSmall(
                f"The budget of {granted:,} evaluations counts the {count:,} known pools, and "
                f"{method.name} needs at least {needed - count:,} beside them. Pass a budget of "
                f"{needed:,} or more, or fewer known pools."
            )

    def again(self) -> Dialogue:
        """The same conversation from its beginning."""
        return Dialogue(
            self.plan,
            self.n_players,
            sizes=self.sizes,
            names=self.names,
            fractions=self.fractions,
            seed=self.seed,
            batch=self.batch,
            known=self.known,
        )

    @property
    def estimate(self) -> Estimate | None:
        """The estimate so far, or the last one."""
        if isinstance(self._so_far, Ask):
            self._so_far = self._so_far.estimate()
        return self._so_far

    def ask(self) -> Ask | None:
        """The round to tell next, or None when there are no more."""
        return self._round

    def tell(self, values: ArrayLike) -> None:
        """Answer the open round, one number per pool."""
        if self._round is None:
            raise ProtocolViolated("Nothing was asked; the conversation is over.")
        queries = self._round.queries
        answers = np.asarray(values, dtype=np.float64) + 0.0  # no negative zeros: SQLite has none
        if answers.shape != (len(queries),):
            raise ProtocolViolated(
                f"The answers have shape {answers.shape}; {len(queries)} pools were "
                "asked for. Tell one number for each of them."
            )
        refuse_non_finite(queries, answers, self.names)
        if self.plan.method.name != "exact":  # which adds, and squares nothing
            refuse_extreme(queries, answers, self.names)
            if self._talk is None:
                refuse_minute(float(answers[0]), float(answers[1]))
        self.hear(answers)

    def hear(self, answers: FloatArray) -> None:
        """Take in answers to the open round that are known to be sound."""
        self._round, self.n_told = None, self.n_asked
        if self._talk is None:
            self.empty, self.full = float(answers[0]), float(answers[1])
            self._begin()
        else:
            self._advance(answers)

    def stop(self) -> None:
        """End the conversation with the estimate so far; an open round is taken back."""
        _ = self.estimate  # made before the method is left
        self._round, self.n_asked = None, self.n_told
        if self._talk is not None:
            self._talk.close()

    def _begin(self) -> None:
        if self.n_players == 1:  # efficiency leaves nothing to estimate
            only = np.array([self.full - self.empty])
            estimate = Estimate(only, weights=np.array([[-1.0, 1.0]]))
            self._so_far, self.finished = estimate, True
            return
        problem = Problem(
            n_players=self.n_players,
            sizes=self.sizes,
            fractions=self.fractions,
            budget=self.plan.budget - 2,
            empty=self.empty,
            full=self.full,
            options=self.plan.options,
            rng=np.random.default_rng(self.seed),
            batch=self.batch,
            known=self.known,
        )
        self._talk = self.plan.method.run(problem)
        try:
            self._advance(None)
        except (MemoryError, OverflowError) as error:
            raise InvalidOption(
                f"{self.plan.method.name} plans all of its budget of {self.plan.budget:,} "
                "evaluations before it asks the first, and that does not fit in memory. Lower the "
                "budget, or choose a method that goes on as long as it may (permutation, svarm)."
            ) from error

    def _advance(self, answers: FloatArray | None) -> None:
        """Let the method speak until it asks for something; None starts it."""
        assert self._talk is not None
        while self._round is None and not self.finished:
            try:
                self._open(self._talk.send(answers))  # type: ignore[arg-type]
            except StopIteration as stop:
                self._so_far, self.finished = stop.value, True
            answers = np.empty(0)

    def _open(self, ask: Ask) -> None:
        if ask.so_far is not None:
            self._so_far = ask
        if not len(ask.queries):
            return
        if ask.queries.shape[1:] != (self.n_players,):
            raise ProtocolViolated(f"{self.plan.method.name} asked for shape {ask.queries.shape}.")
        self.n_asked += len(ask.queries) * self.each
        if self.n_asked > self.plan.budget:
            raise ProtocolViolated(
                f"{self.plan.method.name} asked {self.n_asked} pools, more than its budget of "
                f"{self.plan.budget}: a mistake in the method, not in your game."
            )
        ask.queries.setflags(write=False)  # the estimator still needs them as they are
        self._round = ask


def foreseen(talk: Dialogue, *, all_: bool = True) -> Iterator[Ask]:
    """Rounds of a method whose questions depend on no answer, before their turn.

    They are those of the same conversation held on made-up answers. Of a method of which that is
    true of its first round only, and where not `all_` are wanted, these are nobody's and
    everybody's pools and that round.
    """
    kind = talk.plan.method.foreseeable
    copy = talk.again() if kind in (True, "first") else None
    rounds = 2 if kind == "first" or not all_ else -1
    while copy is not None and rounds != 0 and (ask := copy.ask()) is not None:
        yield ask
        copy.hear(np.linspace(0, 1, len(ask.queries)))
        rounds -= 1


class Transcript:
    """What a run asked, in order, and what the different pools came to.

    A pool has two names here: its key, which is its content (`Game.keys`), and its number, by which
    it was first asked. Numbers index everything that is known of it.

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
    by_key
        Numbers by key.
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
        self.by_key: dict[bytes, int] = {}
        self._values = self._spreads = np.empty(0)  # with room to grow
        self._next_look = 0

    def number(self, keys: Sequence[bytes]) -> tuple[IntArray, IntArray]:
        """Numbers of these pools, and the places of those that were never asked before."""
        by_key, first = self.by_key, len(self.by_key)
        numbers = np.array([by_key.setdefault(k, len(by_key)) for k in keys], dtype=np.int64)
        before = np.maximum.accumulate(np.append(first - 1, numbers))[:-1]
        new = np.flatnonzero(numbers > before)  # new numbers come in their order
        self.keys += [keys[place] for place in new.tolist()]
        self._make_room(len(by_key))
        return numbers, new

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
        without = np.isnan(self._values[list(self.failures)])  # others failed in some fold
        return int(np.count_nonzero(~np.isnan(self._values)) + np.count_nonzero(without))

    def add(self, ask: Ask, numbers: IntArray) -> None:
        """Keep one question with the numbers of its answers."""
        so_far = ask.so_far
        if callable(so_far):
            due = self.asked >= self._next_look
            self._next_look = self.asked + self.budget // LOOKS if due else self._next_look
            so_far = ask.estimate() if due else None
        if so_far is not None:  # thousands of covariances would be most of a run's memory
            so_far = replace(so_far, covariance=None, weights=None)
        self.asks.append(replace(ask, so_far=so_far))
        self.numbers.append(numbers)
        self.asked += len(numbers)

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
