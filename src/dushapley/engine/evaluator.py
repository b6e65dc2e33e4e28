"""Answering questions: each different pool is paid at most once, everything paid is kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache, cached_property
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.executors import Executor
from dushapley.engine.executors.base import one_blas_thread
from dushapley.engine.history import run_history
from dushapley.engine.ledger import Ledger, members_of, roster_of
from dushapley.engine.plan import Plan
from dushapley.engine.progress import Progress
from dushapley.engine.propagation import Transcript, by_source, error_bars, influence_error
from dushapley.engine.scores import Answers, Spool
from dushapley.engine.sheet import Begin, CoalitionSums, ScoreSheet, Sheet
from dushapley.errors import LedgerRefused, UtilityFailed
from dushapley.games.base import Game, Outcome
from dushapley.games.rows import blocks
from dushapley.hashing import sha256
from dushapley.protocol import Ask, Estimate
from dushapley.validation import refuse_non_finite

ANOTHER_SEED = sha256("everybody's pool and small ones, trained with another seed")
"""Under which the second training of pools is kept; no pool has this name."""


class Evaluator:
    """Answers questions of a game that costs nothing: just asks it."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.n_computed = 0
        self.influence: FloatArray | None = None

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        """Utilities of the pools asked for."""
        values = self.game(ask.queries, ask.draws)
        self.n_computed += len(values)
        bar.advance(len(values))
        return values

    def account(self, final: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """What was computed, and what else a valuation says of the answers."""
        counted = {"n_computed": self.n_computed, "n_distinct": None, "details": final.details}
        return counted | {"errors": self.errors(final, plan, begin)}

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """Standard errors by source of this estimate; none where nothing is trained or tested."""
        return {}

    def close(self) -> None:
        """Let go of what only this run needed."""


class ScoringEvaluator(Evaluator):
    """The same, of a game whose scores by test row cost nothing either: they are kept as well."""

    def __init__(self, game: Game, plan: Plan) -> None:
        super().__init__(game)
        self.enumerated = plan.enumerates(game.n_players)
        self.sheet: Sheet = CoalitionSums() if self.enumerated else ScoreSheet(plan.budget)
        self.known = True

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        queries, draws = self.game.check(ask.queries, ask.draws)
        values = [self._scored(*part) for part in blocks(queries, draws, self.game.block)]
        self.sheet.end(ask.queries)
        self.n_computed += len(queries)
        bar.advance(len(queries))
        return np.concatenate(values)

    def _scored(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        scored = self.game.scored(queries, draws) if self.known else None
        if scored is None:
            self.known = False
            return self.game.evaluate(queries, draws)
        self.sheet.add(queries, scored)
        return scored.values

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """Of sampling and test set; sums leave nothing to chance in training."""
        with blas_limit(self.game):
            self.influence = self.sheet.influence(estimate, begin) if self.known else None
            test_set = influence_error(self.influence, self.game.shift)
        return by_source(estimate, {"test set": test_set}, enumerated=self.enumerated)


class PaidEvaluator(Evaluator):
    """Answers questions that cost something: each different pool is looked up and paid once.

    Another run on the same ledger may pay for the same pools at the same time. Both get the same
    bits, and the ledger keeps them once.
    """

    def __init__(self, game: Game, executor: Executor, ledger: Ledger | None) -> None:
        super().__init__(game)
        self.executor = executor
        self.ledger = ledger
        self.store: Ledger | Spool = Spool() if ledger is None else ledger
        self.answers = Answers(self.store)
        self.transcript = Transcript()
        self.deterministic = game.deterministic
        self.tried: dict[bytes, Outcome] = {}

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        queries, draws = self.game.check(ask.queries, ask.draws)
        keys = self.game.keys(queries, draws)
        numbers = self.answers.numbers(keys)
        if self.deterministic is None and self.game.is_tried:
            self.deterministic = self._train_twice(keys[-1], queries[-1:])  # of the first question
        rows = {key: row for row, key in reversed(list(enumerate(keys)))}  # the first of each key
        unknown = self._look_up(dict.fromkeys(keys))
        for key in filter(self.tried.__contains__, unknown):
            self._keep([key], queries[[rows[key]]], [self.tried.pop(key)])
        unknown = self.answers.unknown(unknown)
        bar.advance(len(keys) - len(unknown))
        size = self.game.block
        parts = [unknown[start : start + size] for start in range(0, len(unknown), size)]
        picks = [[rows[key] for key in part] for part in parts]
        work = [(queries[pick], None if draws is None else draws[pick]) for pick in picks]
        for position, outcomes in self.executor.run(self.game, work):
            self._keep(parts[position], work[position][0], outcomes)
            bar.advance(len(outcomes))
        self.transcript.add(ask, numbers)
        return self.answers.at(numbers)

    def account(self, final: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """The same with failures, errors by source, and what was noted on the way."""
        with blas_limit(self.game):
            trail = run_history(self.game.sizes, self.transcript, self.answers.values, final)
        return {
            "n_computed": self.n_computed,
            "n_distinct": self.answers.n_known,
            "details": {**final.details, "trail": trail} | self._tried(),
            "errors": self.errors(final, plan, begin),
            "failures": dict(sorted(self.answers.causes.items())),  # workers finish in any order
        }

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        with blas_limit(self.game):
            errors, self.influence = error_bars(
                begin,
                self.transcript,
                self.answers,
                estimate,
                sizes=self.game.sizes,
                repeats=self.game.repeats,
                deterministic=bool(self.deterministic),
                judged=self.game.judged,
                shift=self.game.shift,
                enumerated=plan.enumerates(self.game.n_players),
            )
        return errors

    def close(self) -> None:
        if self.ledger is None:
            self.store.close()

    def _tried(self) -> dict[str, Any]:
        """What second trainings have shown, if there were any."""
        return {"same under another seed": bool(self.deterministic)} if self.game.is_tried else {}

    def _train_twice(self, key: bytes, everybody: Queries) -> bool:
        """Whether another seed trains the same models: everybody's, and those of small pools.

        False where unknown. Small pools come only after everybody's was the same, and until one is
        not; what they are worth waits in `tried` for whoever asks. Kept as an evaluation of its
        own, so that the answer is the same when a run is resumed.
        """
        stored = {} if self.ledger is None else self.ledger.read([ANOTHER_SEED])
        if ANOTHER_SEED in stored:
            return stored[ANOTHER_SEED].spread == 0
        ((_, outcomes),) = self.executor.run(self.game, [(everybody, None, True)])
        if self._look_up([key]):
            self._keep([key], everybody, outcomes[:1])
        second = outcomes[1:]  # none where it failed
        for pool in self.game.small_pools if second else ():
            if second[0].spread == 0:
                second = self._try_small(*self.game.check(pool[None], None)) or second
        if self.ledger is not None:
            self.ledger.write([(ANOTHER_SEED, outcome) for outcome in second])
        return any(outcome.spread == 0 for outcome in second)

    def _try_small(self, pool: Queries, draws: IntArray | None) -> list[Outcome]:
        """The second training of a small pool; none where it fails, which need not matter."""
        try:
            ((_, outcomes),) = self.executor.run(self.game, [(pool, draws, True)])
        except UtilityFailed:
            return []
        if outcomes[1:]:
            self.tried[self.game.keys(pool, draws)[0]] = outcomes[0]
        return outcomes[1:]

    @cached_property
    def roster(self) -> bytes:
        """Whose pools are kept."""
        return roster_of(self.game)

    def _look_up(self, keys: Iterable[bytes]) -> list[bytes]:
        """Learn what the ledger knows of pools not met before; those that it does not know."""
        unknown = self.answers.unknown(keys)
        stored = {} if self.ledger is None else self.ledger.read(unknown)
        for key, outcome in stored.items():
            recalled = self.game.recall(outcome)
            if recalled is outcome:
                self.answers.learn([(key, outcome)])
            elif recalled is not None:
                self.answers.replace(key, recalled)
        return self.answers.unknown(unknown)

    def _keep(self, keys: list[bytes], queries: Queries, outcomes: list[Outcome]) -> None:
        """Commit a paid block to the ledger, and remember what it came to."""
        values = np.array([outcome.value for outcome in outcomes], dtype=np.float64)
        refuse_non_finite(queries, values, self.game.names)
        paid = list(zip(keys, outcomes, strict=True))
        if self.ledger is None:
            self.store.write(paid)
        else:
            self.ledger.write(paid, members_of(self.roster, keys, queries))
        self.answers.learn(paid)
        self.n_computed += len(paid)


def refuse_ledger(game: Game, ledger: str | os.PathLike[str] | None) -> None:
    """Refuse to keep what costs nothing, or what could be mistaken for another game's."""
    if ledger is None:
        return
    if game.cheap:
        raise LedgerRefused(
            f"{type(game).__name__} costs nothing to evaluate, so there is nothing to keep. "
            "Leave ledger= out."
        )
    if game.context is None:
        raise LedgerRefused(
            "This game is made from a bare function, whose content cannot be compared, so a "
            "ledger could mix up two games. Give the game a fingerprint= that names its content."
        )


def blas_limit(game: Game) -> Any:
    """Results of BLAS depend on its threads, and workers have one each: so has the parent.

    Looking for BLAS libraries takes milliseconds. Games that cost nothing use numpy's alone, which
    is looked up once; others may have loaded more of them since.
    """
    return _numpy_blas().limit(limits=1) if game.cheap else one_blas_thread()


@cache
def _numpy_blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
