"""Answering questions of games that cost nothing: they are just asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from sys import modules
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.executors.base import one_blas_thread
from dushapley.engine.plan import Plan
from dushapley.engine.progress import Progress
from dushapley.engine.propagation import by_source, influence_error
from dushapley.engine.sheet import Begin, CoalitionSums, ScoreSheet, Sheet
from dushapley.games.base import Game
from dushapley.games.rows import blocks
from dushapley.protocol import Ask, Estimate


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
        counted["n_trainings"] = self.n_computed - 1 if self.game.judged else 0  # nobody's is none
        return counted | {"errors": self.errors(final, plan, begin)}

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """Standard errors by source of this estimate; none where nothing is trained or tested."""
        return {}

    def settle(self) -> None:
        """Wait for what errors need beside the answers."""

    def finish(self) -> None:
        """There are no more questions."""

    def close(self) -> None:
        """Let go of what only this run needed."""


class ScoringEvaluator(Evaluator):
    """The same, of a game whose scores by test row cost nothing either: they are kept as well."""

    def __init__(self, game: Game, plan: Plan) -> None:
        super().__init__(game)
        self.enumerated = plan.enumerates(game.n_players)
        self.sheet: Sheet = (
            CoalitionSums(plan.semivalue) if self.enumerated else ScoreSheet(plan.budget)
        )
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


def blas_limit(game: Game, loads: Sequence[str] = ()) -> Any:
    """Results of BLAS depend on its threads, and workers have one each: so has the parent.

    A library that is loaded later is not limited, so what a method `loads` is loaded before.
    Looking for BLAS libraries takes milliseconds. Games that cost nothing use numpy's and SciPy's
    alone, which are looked up once; others may have loaded more of them since.
    """
    for name in loads:
        import_module(name)
    return (
        _known_blas("scipy.linalg" in modules).limit(limits=1) if game.cheap else one_blas_thread()
    )


@cache
def _known_blas(_with_scipy: bool) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
