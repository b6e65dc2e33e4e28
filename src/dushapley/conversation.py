"""Asking and telling: an estimator's conversation, whoever answers it.

`AskTell` is the rule book of a run. It asks ∅ and the grand coalition first, hands every question
of the estimator on, counts the budget, refuses answers that are no numbers, and keeps the estimate
so far. The engine drives it; so can anybody who trains models elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.errors import (
    BudgetTooSmall,
    InvalidGame,
    InvalidOption,
    MethodNotApplicable,
    ProtocolViolated,
)
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO, FALLBACK, coalition_methods, find
from dushapley.games.checks import (
    check_n_players,
    check_names,
    check_sizes,
    refuse_extreme,
    refuse_minute,
    refuse_non_finite,
)
from dushapley.questions import Ask, Conversation, Estimate, FloatArray, Fractions, Problem, Queries


@dataclass(frozen=True)
class Plan:
    """What will run: a method, its complete options and its budget, and why."""

    method: Method
    options: Mapping[str, Any]
    budget: int
    label: str
    reason: str = ""


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
    ) -> None:
        self.n_players = check_n_players(n_players)
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
        self.n_asked = 0
        self.empty = self.full = float("nan")
        self.finished = False
        self.estimate: Estimate | None = None
        ends = np.zeros((2, self.n_players), dtype=np.bool_)
        ends[1] = True
        self._pending: Ask | None = Ask(ends)
        self._count(ends)
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
                f"Told {answers.shape} values for {len(self._pending.queries)} pools; one each."
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
        )
        self._talk = self.plan.method.run(problem)
        self._advance(None)

    def _advance(self, answers: FloatArray | None) -> None:
        assert self._talk is not None
        try:
            ask = next(self._talk) if answers is None else self._talk.send(answers)
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


def make_plan(
    method: str | Method,
    n_players: int,
    fractions: Fractions,
    options: Mapping[str, Any] | None,
    budget: int | None,
) -> Plan:
    """Choose, check and price what will run; every refusal happens here, before any payment."""
    granted = check_budget(budget)
    if method == AUTO:
        return _auto_plan(n_players, options, granted)
    chosen = find(method)
    complete = chosen.complete(options)
    refuse_unless_applicable(chosen, complete, fractions)
    return Plan(chosen, complete, _price(chosen, complete, n_players, granted), chosen.name)


def _auto_plan(n_players: int, options: Mapping[str, Any] | None, budget: int | None) -> Plan:
    if options:
        raise InvalidOption("auto takes no options; name the method whose options these are.")
    granted = 6 * n_players if budget is None else budget
    everything = 2**n_players
    name = "exact" if everything <= granted else FALLBACK
    chosen = find(name)
    complete = chosen.complete(None)
    cost = everything if name == "exact" else _price(chosen, complete, n_players, granted)
    everyone = all_coalitions(n_players)
    if name == "exact":
        reason = f"auto: all {everyone} coalitions fit the budget of {granted:,}, so exact."
    else:
        reason = (
            f"auto: all {everyone} coalitions exceed the budget of {granted:,}, so {name}, "
            "which learns from the pools it asks and is the most accurate method at such budgets."
        )
    return Plan(chosen, complete, cost, f"{AUTO} → {name}", reason)


def _price(method: Method, options: Mapping[str, Any], n_players: int, budget: int | None) -> int:
    if n_players == 1:
        least = default = 2  # ∅ and the only owner: every method has the same answer
    else:
        least, default = method.least(n_players, options), method.default(n_players, options)
    granted = max(default, least) if budget is None else budget
    if granted < least:
        raise BudgetTooSmall(
            f"{method.name} was given a budget of {granted:,} evaluations; for {n_players} owners "
            f"it needs at least {least if least < 2**40 else '2^40'}. Raise the budget or choose "
            "a cheaper method."
        )
    return granted


def refuse_unless_applicable(
    method: Method, options: Mapping[str, Any], fractions: Fractions
) -> None:
    """Refuse a method whose questions this game cannot answer."""
    need = method.need(options)
    if need == "fractions" and fractions == "none":
        raise MethodNotApplicable(
            f"{method.name} asks for pools that hold part of an owner's rows, but this game knows "
            f"whole owners only. Methods that work here: {', '.join(coalition_methods())}."
        )
    if need == "rows":  # a game that has them answers by its closed form and never comes here
        raise MethodNotApplicable(
            f"{method.name} needs the owners' rows and a test set with class labels, which this "
            "game does not offer. Make a KNNGame(owners, X_test, y_test) from them, or choose "
            f"among: {', '.join(coalition_methods())}."
        )
    if need == "formula":
        raise MethodNotApplicable(
            f"{method.name} asks no questions: it is computed from a game's own formula, and this "
            "game has none for it. It needs the owners' sizes and a curve of the pooled size "
            "(SizeGame, RegressogramGame); for any other game use du."
        )


def all_coalitions(n_players: int) -> str:
    """The number of all coalitions, in words that stay short."""
    power = f"2^{n_players}"
    return power if n_players > 40 else f"{power} = {2**n_players:,}"


def check_fractions(fractions: object, sizes: FloatArray) -> Fractions:
    """What can be answered; rows can be drawn only from whole numbers of them."""
    if fractions == "rows" and not bool((sizes == np.floor(sizes)).all()):
        raise InvalidGame("Rows are drawn only from whole numbers of them; found other sizes.")
    if fractions in ("exact", "rows", "none"):
        return fractions
    raise InvalidGame(f"fractions is {fractions!r}; choose 'exact', 'rows' or 'none'.")


def check_budget(budget: object) -> int | None:
    if budget is None:
        return None
    if isinstance(budget, bool) or not isinstance(budget, (int, np.integer)):
        raise InvalidOption(f"budget is {budget!r}; it is a whole number of evaluations.")
    if budget < 2:
        raise BudgetTooSmall(
            f"budget is {budget!r}; at least 2 are needed: nobody and everybody are always asked."
        )
    return int(budget)


def check_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InvalidOption(f"seed is {seed!r}; it is a whole number, not negative.")
    return int(seed)
