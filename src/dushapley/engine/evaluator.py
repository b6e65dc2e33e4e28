"""Answering questions: each different pool is paid at most once, everything paid is kept."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, Queries
from dushapley.engine.asktell import AskTell
from dushapley.engine.executors import Executor
from dushapley.engine.executors.base import one_blas_thread
from dushapley.engine.history import run_history
from dushapley.engine.ledger import Ledger
from dushapley.engine.progress import Progress
from dushapley.errors import LedgerRefused
from dushapley.games.base import Game, Outcome
from dushapley.protocol import Ask, Estimate
from dushapley.results.propagation import Begin, Transcript, error_bars
from dushapley.validation import refuse_non_finite


class Evaluator:
    """Answers questions of a game that costs nothing: just asks it."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.n_computed = 0
        self.n_distinct: int | None = None
        self.failures: Counter[str] = Counter()

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        """Utilities of the pools asked for."""
        values = self.game(ask.queries, ask.draws)
        self.n_computed += len(values)
        bar.advance(len(values))
        return values

    def details(self, final: Estimate) -> dict[str, Any]:
        """Results of the method, and what was noted on the way."""
        return dict(final.details)

    def error_bars(self, talk: AskTell, begin: Begin) -> dict[str, Any]:
        """Errors by source beside the method's own: none are known of a game that costs nothing."""
        return {}


class PaidEvaluator(Evaluator):
    """Answers questions that cost something: each different pool is looked up and paid once.

    Another run on the same ledger may pay for the same pools at the same time. Both get the same
    bits, and the ledger keeps them once.
    """

    def __init__(self, game: Game, executor: Executor, ledger: Ledger | None) -> None:
        super().__init__(game)
        self.executor = executor
        self.ledger = ledger
        self.known: dict[bytes, Outcome] = {}
        self.number: dict[bytes, int] = {}
        self.transcript = Transcript()

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        queries, draws = self.game.check(ask.queries, ask.draws)
        keys = self.game.keys(queries, draws)
        rows = {key: row for row, key in reversed(list(enumerate(keys)))}  # the first of each key
        unknown = self._look_up(dict.fromkeys(keys))
        bar.advance(len(keys) - len(unknown))
        size = self.game.block
        blocks = [unknown[start : start + size] for start in range(0, len(unknown), size)]
        picks = [[rows[key] for key in block] for block in blocks]
        work = [(queries[pick], None if draws is None else draws[pick]) for pick in picks]
        for position, outcomes in self.executor.run(self.game, work):
            self._keep(blocks[position], work[position][0], outcomes)
            bar.advance(len(outcomes))
        self.transcript.add(ask, [self.number.setdefault(key, len(self.number)) for key in keys])
        return np.array([self.known[key].value for key in keys], dtype=np.float64)

    def details(self, final: Estimate) -> dict[str, Any]:
        values = np.array([self.known[key].value for key in self.number])
        with blas_limit(self.game):
            notes = run_history(self.game.sizes, self.transcript, values, final)
        return {**final.details, "trail": notes}

    def error_bars(self, talk: AskTell, begin: Begin) -> dict[str, Any]:
        assert talk.estimate is not None
        with blas_limit(self.game):
            return error_bars(
                begin,
                self.transcript,
                [self.known[key] for key in self.number],
                talk.estimate,
                repeats=self.game.repeats,
                deterministic=self.game.deterministic,
                enumerated=talk.plan.method.name == "exact" or self.game.n_players == 1,
            )

    def _look_up(self, keys: Iterable[bytes]) -> list[bytes]:
        """Learn what the ledger knows of pools not met before; those that it does not know."""
        unknown = [key for key in keys if key not in self.known]
        if self.ledger is None:
            return unknown
        for key, stored in self.ledger.read(unknown).items():
            outcome = self.game.recall(stored)
            if outcome is not None:
                self._know(key, outcome)
        return [key for key in unknown if key not in self.known]

    def _know(self, key: bytes, outcome: Outcome) -> None:
        self.known[key] = outcome
        self.n_distinct = len(self.known)
        if outcome.failure is not None:
            self.failures[outcome.failure] += 1

    def _keep(self, keys: list[bytes], queries: Queries, outcomes: list[Outcome]) -> None:
        """Commit a paid block to the ledger, and remember it."""
        values = np.array([outcome.value for outcome in outcomes], dtype=np.float64)
        refuse_non_finite(queries, values, self.game.names)
        paid = list(zip(keys, outcomes, strict=True))
        if self.ledger is not None:
            self.ledger.write(paid)
        for key, outcome in paid:
            self._know(key, outcome)
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
