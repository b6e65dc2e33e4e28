"""Games of somebody's function: what counts when it fails, takes too long, or is left to chance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Literal

import numpy as np

from dushapley.arrays import BoolArray, IntArray, Queries
from dushapley.errors import InvalidGame, UtilityFailed
from dushapley.games.base import Game, Limits, Outcome
from dushapley.games.model import training
from dushapley.games.model.randomness import seeded_generators
from dushapley.hashing import whole_number
from dushapley.validation import check_choice, check_whole, pool_name


class PolicyGame(Game):
    """A game whose pools are answered one by one, by a function that may fail.

    Subclasses write `answer`, and call `_agree` when they are made.

    Attributes
    ----------
    on_failure
        "raise" `UtilityFailed`, or count a pool that fails as u(∅), "empty".
    """

    on_failure: str = "raise"

    def _agree(
        self,
        on_failure: Literal["raise", "empty"],
        timeout: float | None,
        memory: int | None,
        repeats: int,
    ) -> None:
        """Check what was agreed, and keep it."""
        check_choice(on_failure, "on_failure", ("raise", "empty"))
        self.on_failure = on_failure
        self.limits = Limits(timeout, memory, check_whole(repeats, "repeats"))
        training.refuse_impossible(self.limits)
        self.repeats = self.limits.trainings
        if self.repeats > 1:
            self.deterministic = False

    @property
    def is_plain(self) -> bool:
        """Whether nothing was agreed, so that pools may be asked as they come."""
        return self.on_failure == "raise" and not self.limits.any and self.repeats == 1

    @property
    def averaged(self) -> tuple[int, ...]:
        """What repeats add to the key of a pool: other numbers than a single answer."""
        return () if self.repeats == 1 else (self.repeats,)

    @abstractmethod
    def answer(self, query: BoolArray, draw: int | None) -> float:
        """The utility of one pool, asked once."""

    def outcomes(
        self, queries: Queries, draws: IntArray | None, probe: int | None = None
    ) -> Sequence[Outcome]:
        """Each pool by itself, under what was agreed."""
        ids = [None] * len(queries) if draws is None else draws.tolist()
        return [self._outcome(query, draw) for query, draw in zip(queries, ids, strict=True)]

    def _outcome(self, query: BoolArray, draw: int | None) -> Outcome:
        try:
            return self._average(query, draw)
        except InvalidGame:
            raise
        except (Exception, SystemExit) as error:
            known = self.limits.memory if isinstance(_cause(error), MemoryError) else None
            return self._failed(query, error if known is None else training.out_of_memory(known))

    def _average(self, query: BoolArray, draw: int | None) -> Outcome:
        key = self.keys(query[None], None if draw is None else np.array([draw]))[0].hex()
        answers = [self._once(query, draw, f"{repeat} {key}") for repeat in range(self.repeats)]
        return training.average([(answer, None) for answer in answers])

    def _once(self, query: BoolArray, draw: int | None, name: str) -> float:
        seeded = nullcontext() if self.repeats == 1 else seeded_generators(whole_number(name, 4))
        with seeded, training.time_limit(self.limits.timeout):
            return self.answer(query, draw)

    @cached_property
    def nobody(self) -> float:
        """u(∅), for which failures count."""
        try:
            return self._average(np.zeros(self.n_players, dtype=np.bool_), None).value
        except (Exception, SystemExit) as error:
            cause = training.failure_cause(_cause(error))
            raise UtilityFailed(
                f"The utility of nobody's data failed with {cause}, so that no failure can count "
                "as it. Give nobody's data a number, or pass on_failure='raise'."
            ) from error

    def failed(self, queries: Queries, error: Exception) -> Sequence[Outcome]:
        return [self._failed(query, error) for query in queries]

    def _failed(self, query: BoolArray, error: BaseException) -> Outcome:
        if self.on_failure == "empty":
            return Outcome(self.nobody, training.failure_cause(_cause(error)))
        if isinstance(error, UtilityFailed):
            raise error
        raise UtilityFailed(
            f"The utility of {pool_name(query, self.names)} failed with {type(error).__name__}: "
            f"{error}. Mend the function, or pass on_failure='empty' to count such pools as "
            "u(nobody)."
        ) from error

    def recall(self, outcome: Outcome) -> Outcome | None:
        """What a stored outcome is today: failures follow today's policy and limits."""
        if outcome.failure is None:
            return outcome
        if self.on_failure == "raise" or training.of_another_limit(outcome.failure, self.limits):
            return None
        return Outcome(self.nobody, outcome.failure)


def _cause(error: BaseException) -> BaseException:
    """What happened, without our own words around it."""
    inner = error.__cause__
    return inner if isinstance(error, UtilityFailed) and inner is not None else error
