"""Games of somebody's function: what counts when it fails, takes too long, or is left to chance."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from typing import Literal

import numpy as np

from dushapley.arrays import BoolArray, IntArray, Queries
from dushapley.errors import InvalidGame, UtilityFailed
from dushapley.games.base import Answers, Game, Limits, Outcome, Training
from dushapley.games.model import training
from dushapley.games.model.randomness import seeded_generators
from dushapley.hashing import whole_number
from dushapley.validation import check_choice, check_whole


class PolicyGame(Game):
    """A game whose pools are answered one by one, by a function that may fail.

    Subclasses write `answer`, and call `_agree` when they are made.
    """

    training: Training

    def _agree(
        self,
        on_failure: Literal["raise", "empty"],
        timeout: float | None,
        memory: int | None,
        repeats: int,
        *,
        deterministic: bool = True,
        shift: float | None = None,
    ) -> None:
        """Check what was agreed, and keep it."""
        check_choice(on_failure, "on_failure", ("raise", "empty"))
        limits = Limits(timeout, memory, check_whole(repeats, "repeats"))
        training.refuse_impossible(limits)
        chance = deterministic and limits.trainings == 1
        self.training = Training(limits, limits.trainings, chance, on_failure, shift)

    @property
    def is_plain(self) -> bool:
        """Whether nothing was agreed, so that pools may be asked as they come."""
        agreed = self.training
        return agreed.on_failure == "raise" and not agreed.limits.any and agreed.repeats == 1

    @property
    def averaged(self) -> tuple[int, ...]:
        """What repeats add to the key of a pool: other numbers than a single answer."""
        return () if self.training.repeats == 1 else (self.training.repeats,)

    @abstractmethod
    def answer(self, query: BoolArray, draw: int | None) -> float:
        """The utility of one pool, asked once."""

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Each pool by itself; without any policy a number is a number, even if it is not one."""
        ids = [None] * len(queries) if draws is None else draws.tolist()
        pools = list(zip(queries, ids, strict=True))
        if self.is_plain:
            return Answers(np.array([self.answer(query, draw) for query, draw in pools]))
        return Answers.of([self._outcome(query, draw) for query, draw in pools])

    def _outcome(self, query: BoolArray, draw: int | None) -> Outcome:
        try:
            return self._average(query, draw)
        except InvalidGame:
            raise
        except (Exception, SystemExit) as error:
            inner, memory = _cause(error), self.training.limits.memory
            if isinstance(inner, MemoryError) and memory is not None:
                error = inner = training.out_of_memory(memory)
            raising = self.training.on_failure == "raise"
            return self.failed(query[None], error if raising else inner)[0]

    def _average(self, query: BoolArray, draw: int | None) -> Outcome:
        key = self.keys(query[None], None if draw is None else np.array([draw]))[0].hex()
        names = [f"{repeat} {key}" for repeat in range(self.training.repeats)]
        return training.average([(self._once(query, draw, name), None) for name in names])

    def _once(self, query: BoolArray, draw: int | None, name: str) -> float:
        alone = self.training.repeats == 1
        seeded = nullcontext() if alone else seeded_generators(whole_number(name, 4))
        with seeded, training.time_limit(self.training.limits.timeout):
            return self.answer(query, draw)


def _cause(error: BaseException) -> BaseException:
    """What happened, without our own words around it."""
    inner = error.__cause__
    return inner if isinstance(error, UtilityFailed) and inner is not None else error
