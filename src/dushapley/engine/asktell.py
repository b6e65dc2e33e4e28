"""Asking and telling: a valuation whose models are trained by somebody else.

`AskTell` hands out the pools of a method's conversation one by one, as many as one has machines,
and takes what they are worth in any order. No pool is asked twice, unless it was out when the
conversation was saved. It is a file between two days: what was asked and told is stored as JSON,
and everything else follows from it.
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, Fractions, IntArray, Queries
from dushapley.engine.dialogue import ROUND, Dialogue, Transcript, foreseen
from dushapley.engine.error_bars import Carrier
from dushapley.engine.plan import Plan
from dushapley.errors import InvalidOption, ProtocolViolated
from dushapley.estimators.method import Method
from dushapley.games.base import Answers, Outcome
from dushapley.games.policy import Training
from dushapley.hashing import package_version, sha256
from dushapley.processes import one_blas_thread
from dushapley.protocol import Ask, Estimate
from dushapley.results.history import run_history
from dushapley.results.schema import (
    FINITE,
    choice,
    fields,
    listed,
    mapped,
    number,
    optional,
    plain,
    text,
    whole,
)
from dushapley.results.valuation import Valuation
from dushapley.validation import check_whole, is_number, is_partial, pool_name, read_json, refuse

FORMAT = "dushapley.asktell/1"


@dataclass(frozen=True, eq=False)
class Question:
    """A pool whose worth is to be found out.

    Attributes
    ----------
    number
        By which it is told; numbers count from 0 in the order of asking.
    pool
        Who is in it, shape (I,): booleans, or the share 0..1 of each owner's rows.
    owners
        Names of those who are, at least in part.
    draw
        Which random draw of rows it uses, where part of an owner's rows is taken.
    """

    number: int
    pool: Queries
    owners: tuple[str, ...]
    draw: int | None = None


class AskTell(Dialogue):
    """Drive an estimator by hand: ask for pools, tell what they are worth, read the valuation.

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
        Pools of a round, roughly, of methods that ask in rounds.
    known
        Pools that `gp` asks first since their worth is known already, shape (m, I); the budget
        counts them.

    Examples
    --------
    >>> import dushapley as ds
    >>> talk = ds.AskTell("permutation", n_players=3, budget=42)
    >>> while not talk.finished:
    ...     for question in talk.ask(4):  # as many as there are machines
    ...         talk.tell(question, len(question.owners) ** 2)  # train your models here
    >>> talk.valuation().values.round(1).tolist(), talk.n_told_pools
    ([3.1, 3.2, 2.7], 8)

    Without a number, `ask` is the whole round that the method wants to know next, and `tell` takes
    all its answers:

    >>> talk = ds.AskTell("permutation", n_players=3, budget=42)
    >>> while (ask := talk.ask()) is not None:
    ...     talk.tell(ask.queries.sum(axis=1) ** 2)
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
        batch: int = ROUND,
        known: BoolArray | None = None,
    ) -> None:
        super().__init__(
            method,
            n_players,
            sizes=sizes,
            names=names,
            fractions=fractions,
            options=options,
            budget=budget,
            seed=seed,
            batch=batch,
            known=known,
        )
        if known is not None and self.plan.method.name not in ("gp", "exact"):
            raise InvalidOption(
                f"known= was given with {self.plan.method.name}, whose values rest on its own "
                "questions alone. Use method='gp', which learns from any pool."
            )
        self.budget, self._options = budget, dict(options or {})
        self._method = method if isinstance(method, str) else self.plan.method.name
        self._foreseen = foreseen(self)
        self._questions: list[Question] = []
        self._asked = 0  # questions that were ever handed out, the first so many
        self._handed = 0  # those since `load`: others are handed out again
        self._rounds: deque[IntArray] = deque()  # numbers of rounds taken, and not all told
        self._transcript = Transcript(self.plan.budget)

    @property
    @one_blas_thread()  # bits depend on threads, and the engine has one: so it is all through here
    def estimate(self) -> Estimate | None:
        """The estimate so far, or the last one."""
        return super().estimate

    @property
    def n_told_pools(self) -> int:
        """Different pools whose worth is known."""
        return self._transcript.n_known

    @property
    def unanswered(self) -> list[Question]:
        """Questions that were handed out, and of which nothing was told: to try again, say."""
        return self._untold(0, self._asked)

    def _untold(self, start: int, end: int) -> list[Question]:
        """Those of some questions of which nothing was told."""
        numbers = self._transcript.unknown(np.arange(start, end))
        return [self._questions[number] for number in numbers.tolist()]

    @overload
    def ask(self) -> Ask | None: ...
    @overload
    def ask(self, most: int) -> list[Question]: ...
    @one_blas_thread()
    def ask(self, most: int | None = None) -> Ask | list[Question] | None:
        """Up to so many pools, none twice; without a number, the whole next round.

        After `load` the unanswered ones come first, since those who had them may be gone. Fewer
        come, or an empty list, where the next question depends on answers that are out: while it
        is not `finished`, an empty list means to wait until one of `unanswered` is told.
        """
        if most is None:
            return super().ask()
        check_whole(most, "most", least=0)
        while (
            len(ready := self._untold(self._handed, len(self._questions))) < most and self._take()
        ):
            pass
        handed = ready[:most]
        self._handed = max([self._handed, *(question.number + 1 for question in handed)])
        self._asked = max(self._asked, self._handed)
        return handed

    @one_blas_thread()
    def tell(
        self,
        question: Question | int | ArrayLike,
        value: float | None = None,
        *,
        noise: float | None = None,
        failure: str | None = None,
    ) -> None:
        """Tell what a pool is worth, in any order; or, without a question, answer a whole round.

        Parameters
        ----------
        question
            A question, or its number; or the answers to the round that `ask()` gave.
        value
            What the pool is worth.
        noise
            Standard error of the value from chance in training, if known.
        failure
            Instead of a value: why there is none. The pool then counts as u(∅), which the
            valuation says.
        """
        if value is None and failure is None and noise is None and np.ndim(question) == 1:  # type: ignore[arg-type]
            self._tell_round(question)  # type: ignore[arg-type]
            return
        known = question.number if isinstance(question, Question) else question
        if not isinstance(known, (int, np.integer)) or not 0 <= known < self._asked:
            raise ProtocolViolated(
                f"No question has the number {known!r}; {self._asked} were asked, from 0 on. Tell "
                "what `ask` gave, or its number."
            )
        stands = self._transcript.outcome(int(known))
        if stands is None:
            self._learn(self._questions[known], value, noise, failure)
            self._deliver()
        elif value is None or stands.value != value:
            raise ProtocolViolated(
                f"Question {known} was told before, as {stands.failure or stands.value}. An answer "
                "stands: tell each question once."
            )

    def _learn(
        self, question: Question, value: float | None, noise: float | None, failure: str | None
    ) -> None:
        """Check what was told of a pool, and remember it."""
        pool = pool_name(question.pool, self.names)
        sound = value is None or is_number(value, -FINITE, FINITE)
        refuse(
            ProtocolViolated,
            (
                (value is None) == (failure is None),
                f"Of {pool}, tell either a value or a failure=.",
            ),
            (
                failure is not None and question.number == 0,
                "Nobody's pool was told as a failure, but failures count as what it is worth. "
                "Tell its value: that of the best guess without any data.",
            ),
            (
                not sound,
                f"Of {pool} the value {value!r} was told; it must be a finite number. Tell a "
                "failure= where there is none.",
            ),
            (
                noise is not None and not is_number(noise, -1e-300, FINITE),
                f"Of {pool} the noise {noise!r} was told; it must be 0 or more.",
            ),
        )
        why = next(iter(str(failure).splitlines()), "")[:200] or "failure"
        outcome = Outcome(float("nan"), why) if value is None else Outcome(value, spread=noise)
        self._transcript.learn(np.array([question.number]), Answers.of([outcome]))

    def _take(self) -> bool:
        """Take the next round, and number its pools."""
        ask = next(self._foreseen, None)
        if ask is None and not self._rounds:  # the rest depends on answers, all of which are in
            ask = super().ask()
        if ask is None:
            return False
        partial = is_partial(ask.queries) & (self.fractions == "rows")
        draws = partial if ask.draws is None else ask.draws
        used = [int(draw) if part else None for draw, part in zip(draws, partial, strict=True)]
        rows = ask.queries.astype(np.float64)
        keys = [row.tobytes() + repr(draw).encode() for row, draw in zip(rows, used, strict=True)]
        numbers, new = self._transcript.number(keys)
        for place in new.tolist():
            members = tuple(compress(self.names, rows[place]))
            question = Question(int(numbers[place]), ask.queries[place], members, used[place])
            self._questions.append(question)
        self._rounds.append(numbers)
        self._deliver()
        return True

    def _deliver(self) -> None:
        """Answer rounds of the conversation, in their order, as far as all is told."""
        while self._rounds and not len(self._transcript.unknown(self._rounds[0])):
            numbers, ask = self._rounds.popleft(), super().ask()
            assert ask is not None
            self._transcript.add(ask, numbers)
            super().tell(self._transcript.at(numbers))

    def _tell_round(self, values: ArrayLike) -> None:
        while not self._rounds and self._take():
            pass
        ask = super().ask()
        super().tell(values)  # which refuses what is told too much
        assert ask is not None
        numbers = self._rounds.popleft()
        self._asked = max(self._asked, int(numbers.max()) + 1)
        self._transcript.learn(numbers, Answers(np.asarray(values, dtype=np.float64)))
        self._transcript.add(ask, numbers)
        self._deliver()

    @one_blas_thread()
    def valuation(self) -> Valuation:
        """The valuation, or that so far: `complete` says which.

        Raises
        ------
        ProtocolViolated
            Where there is no estimate yet.
        """
        estimate = self.estimate
        if estimate is None:
            raise ProtocolViolated(
                f"There is no estimate yet: {self.n_told} answers are in. Go on asking and telling."
            )
        carrier = Carrier(
            self.again,
            self.plan,
            self.sizes,
            Training(),
            self._transcript,
            estimate,
            lambda: iter(()),
        )
        errors, _ = carrier.errors()
        trail = run_history(
            self.sizes,
            self._transcript.asks,
            self._transcript.numbers,
            self._transcript.values,
            estimate,
        )
        return self.plan.valuation(
            estimate,
            owners=self.names,
            sizes=self.sizes,
            seed=self.seed,
            budget=self.budget,
            n_evaluations=max(self.n_told, self.n_told_pools),
            n_distinct=self.n_told_pools,
            n_computed=self.n_told_pools,
            n_trainings=max(self.n_told_pools - 1, 0),  # nobody's is none
            u_empty=self.empty,
            u_full=self.full,
            complete=self.finished,
            failures=dict(sorted(Counter(self._transcript.failures.values()).items())),
            errors=errors,
            details={**estimate.details, "trail": trail},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store what was asked and told as JSON; all of it or, if that fails, nothing."""
        outcomes = ((n, self._transcript.outcome(n)) for n in range(self._asked))
        told = [
            [n, None if o.failure else o.value, o.spread, o.failure]
            for n, o in outcomes
            if o is not None
        ]
        stored = {
            "format": FORMAT,
            "version": package_version("dushapley"),
            "method": self._method,
            "owners": list(self.names),
            "sizes": self.sizes.tolist(),
            "fractions": self.fractions,
            "options": self._options,
            "budget": self.budget,
            "seed": self.seed,
            "batch": self.batch,
            "known": None if self.known is None else self.known.astype(int).tolist(),
            "asked": self._asked,
            "questions": self._digest(),
            "told": told,
        }
        file = Path(path)
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        beside.write_text(json.dumps(stored, indent=1) + "\n")
        beside.replace(file)

    def _digest(self) -> str:
        """Which pools were handed out: another version of a method might ask others."""
        return sha256(*self._transcript.keys[: self._asked]).hex()

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, method: Method | None = None) -> Self:
        """Go on where `save` stopped; what was out then is asked again.

        Parameters
        ----------
        path
            What was saved.
        method
            Your own method, where it was one.
        """
        file = Path(path)  # may hold an answer to each of many questions
        stored: Any = read_json(file, "conversation", "by AskTell.save", ProtocolViolated, 100)
        if fault := STORED(stored, ""):
            raise ProtocolViolated(
                f"The conversation {file} cannot be used: {fault}. Use it as it was saved."
            )
        own = method is not None and method.name == stored["method"]
        talk = cls(
            method if method is not None and own else stored["method"],
            len(stored["owners"]),
            sizes=stored["sizes"],
            names=stored["owners"],
            fractions=stored["fractions"],
            options=stored["options"],
            budget=stored["budget"],
            seed=stored["seed"],
            batch=stored["batch"],
            known=None if stored["known"] is None else np.array(stored["known"], dtype=np.bool_),
        )
        talk._restore(stored, file)
        return talk

    @one_blas_thread()
    def _restore(self, stored: Mapping[str, Any], path: Path) -> None:
        self._asked = stored["asked"]
        told, numbered = {n: answer for n, *answer in stored["told"]}, 0
        while len(self._questions) < self._asked and self._take():
            for question in self._questions[numbered:]:
                if question.number in told:
                    self._learn(question, *told[question.number])
            numbered = len(self._questions)
            self._deliver()
        if numbered < self._asked or any(n >= self._asked for n in told):
            raise ProtocolViolated(f"{path} tells of more questions than the method asks.")
        if self._digest() != stored["questions"]:
            raise ProtocolViolated(
                f"{path} holds answers to other questions than {self._method} asks today: it was "
                f"saved by dushapley {stored['version']}, or changed since. Go on with that one."
            )


def _answer(thing: object, where: str) -> str | None:
    """The number of a question, and what is told of it: value, noise and failure."""
    return listed(plain, count=4)(thing, where) or whole()(thing[0], where)  # type: ignore[index]


STORED = fields(
    {
        "format": choice(FORMAT),
        "version": text(100),
        "method": text(200),
        "owners": listed(text(10_000)),
        "sizes": listed(number(least=0)),
        "fractions": choice("none", "rows", "exact"),
        "options": mapped(plain),
        "budget": optional(whole(2)),
        "seed": whole(most=2**128),
        "batch": whole(1),
        "known": optional(listed(listed(whole(0, 1)))),
        "asked": whole(),
        "questions": text(64),
        "told": listed(_answer, most=10**8),
    }
)
"""What a saved conversation holds."""
