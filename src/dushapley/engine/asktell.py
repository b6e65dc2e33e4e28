"""Asking and telling: an estimator's conversation, no matter who answers.

`AskTell` is the rule book of a run. It asks ∅ and the grand coalition first, hands every question
of the estimator on, counts the budget, refuses answers that are not numbers, and keeps the estimate
so far. The engine drives it; so can anybody who trains models elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, Fractions, Queries
from dushapley.engine.plan import Plan, make_plan
from dushapley.errors import InvalidGame, InvalidOption, ProtocolViolated
from dushapley.estimators.method import Method
from dushapley.protocol import Ask, Conversation, Estimate, Problem
from dushapley.validation import (
    check_fractions,
    check_names,
    check_seed,
    check_sizes,
    check_whole,
    refuse_extreme,
    refuse_minute,
    refuse_non_finite,
)


class AskTell:
    """Drive an estimator by hand: ask for pools, tell what they are worth, read the estimate.

    Parameters
    ----------
    method
        Name of a method, see `dushapley.methods`; a `Method` of your own; or a plan made before.
    n_players
        Number of owners.
    sizes, names
        Rows and names of the owners, if known; sizes are needed to draw rows.
    fractions
        What you can answer: "none" (whole owners), "rows" (drawn parts of them, by draw id) or
        "exact" (fractions as arithmetic).
    options, budget, seed
        As in `dushapley.value`.
    batch
        How many pools to be asked at a time, roughly, by methods that ask in rounds.
    known
        Pools that `gp` asks first since their worth is known already, shape (m, I); the budget
        counts them.

    Examples
    --------
    >>> import dushapley as ds
    >>> talk = ds.AskTell("permutation", n_players=3, budget=42)
    >>> while (ask := talk.ask()) is not None:
    ...     talk.tell(ask.queries.sum(axis=1) ** 2)  # train your models here
    >>> talk.estimate.values.round(1).tolist()
    [3.1, 3.2, 2.7]
    """

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
        batch: int = 64,
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
        self.known = known
        self.n_asked = 0
        self.empty = self.full = float("nan")
        self.finished = False
        self.estimate: Estimate | None = None
        self._pending: Ask | None = Ask(ends(self.n_players))
        self._count(self._pending.queries)
        self._talk: Conversation | None = None

    def ask(self) -> Ask | None:
        """The question to answer next, or None when there are no more."""
        return self._pending

    def tell(self, values: ArrayLike) -> None:
        """Answer the pending question, one number per pool."""
        if self._pending is None:
            raise ProtocolViolated("Nothing was asked; the conversation is over.")
        answers = np.asarray(values, dtype=np.float64) + 0.0  # no negative zeros: SQLite has none
        if answers.shape != (len(self._pending.queries),):
            raise ProtocolViolated(
                f"The answers have shape {answers.shape}; {len(self._pending.queries)} pools were "
                "asked for. Tell one number for each of them."
            )
        refuse_non_finite(self._pending.queries, answers, self.names)
        if self.plan.method.name != "exact":  # which adds, and squares nothing
            refuse_extreme(self._pending.queries, answers, self.names)
        if self._talk is None:
            self.empty, self.full = float(answers[0]), float(answers[1])
            if self.plan.method.name != "exact":
                refuse_minute(self.empty, self.full)
            self._begin()
        else:
            self._advance(answers)

    def stop(self) -> None:
        """End the conversation with the estimate so far; an open question is taken back."""
        if self._pending is not None:
            self.n_asked -= len(self._pending.queries)
        self._pending = None
        if self._talk is not None:
            self._talk.close()

    def _begin(self) -> None:
        if self.n_players == 1:  # efficiency leaves nothing to estimate
            self._finish(Estimate(np.array([self.full - self.empty])))
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
        assert self._talk is not None
        try:
            ask = self._talk.send(answers)  # type: ignore[arg-type]  # None starts it
            while len(ask.queries) == 0:
                ask = self._talk.send(np.empty(0))
        except StopIteration as stop:
            self._finish(stop.value)
            return
        self._count(ask.queries)
        ask.queries.setflags(write=False)  # the estimator still needs them as they are
        if ask.so_far is not None:
            self.estimate = ask.so_far
        self._pending = ask

    def _finish(self, estimate: Estimate) -> None:
        self.estimate, self.finished, self._pending = estimate, True, None

    def _count(self, queries: Queries) -> None:
        if queries.shape[1:] != (self.n_players,):
            raise ProtocolViolated(f"{self.plan.method.name} asked for shape {queries.shape}.")
        self.n_asked += len(queries)
        if self.n_asked > self.plan.budget:
            raise ProtocolViolated(
                f"{self.plan.method.name} asked {self.n_asked} pools, more than its budget of "
                f"{self.plan.budget}: a mistake in the method, not in your game."
            )


def ends(n_players: int) -> BoolArray:
    """The empty and the grand coalition, which every run asks first."""
    return np.repeat([[False], [True]], n_players, axis=1)
