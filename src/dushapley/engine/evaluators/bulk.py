r"""Answering questions by the hundred thousand: pools that a GPU trains faster than they are kept.

Scores of single test rows of a million pools fit nowhere. What error bars need of them is a sum,

.. math:: \phi_g = \sum_S W_S\,s_{Sg},

the values as each group g of test rows would have them, with weights W that are known when a pool
is asked: all coalitions have Shapley's, walks through orders tell theirs. So the sums are taken on
the device, round by round, and no pool is known any longer once it was counted: pools that come
again are trained again, which takes a microsecond, less than to look them up.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, Queries
from dushapley.engine.dialogue import Ahead
from dushapley.engine.evaluators.free import Evaluator, blas_limit
from dushapley.engine.history import MOST_POOLS, run_history
from dushapley.engine.ledger import Ledger, Members, roster_of
from dushapley.engine.plan import Plan
from dushapley.engine.progress import Progress
from dushapley.engine.propagation import Transcript, by_source, influence_error
from dushapley.engine.sheet import Begin
from dushapley.errors import ProtocolViolated
from dushapley.estimators.exact import shapley_weights
from dushapley.estimators.semivalues import SHAPLEY
from dushapley.games.base import Game
from dushapley.games.model.batched.path import BatchedPath, Counted
from dushapley.protocol import Ask, Estimate
from dushapley.validation import refuse_non_finite

LEAST_BULK, BULK_ROUND = 2**15, 2**12
"""Pools below which every one is kept with its test rows, and pools of a round of so many."""
HELPINGS, MOST_CELLS = 4, 2**26
"""Blocks of each device asked at a time, and pools times owners at most."""


class BulkEvaluator(Evaluator):
    """Trains whatever is asked, many rounds at a time, and keeps values only.

    Parameters
    ----------
    game, plan, ledger
        Whose pools, what is asked, and where values are kept.
    path
        The game's way to train pools in bulk.
    ahead
        Rounds of the conversation before their turn.
    """

    def __init__(
        self, game: Game, plan: Plan, ledger: Ledger | None, path: BatchedPath, ahead: Ahead
    ) -> None:
        super().__init__(game)
        self.ledger, self.path, self.ahead = ledger, path, ahead
        self.plan = plan
        self.enumerated = plan.enumerates(game.n_players)
        self.outside = np.append(shapley_weights(game.n_players), 0.0)
        self.ready: deque[tuple[Ask, FloatArray, FloatArray]] = deque()
        self.sums = np.zeros((game.n_players, len(path.group_sizes)))
        self.names: list[np.ndarray[Any, Any]] = []
        self.transcript, self.shown = Transcript(plan.budget), 0
        self.answers: list[FloatArray] = []
        self.nobody_hits, self.full_hits = path.nobody_by_group, path.nobody_by_group
        self.fresh = ledger is None or ledger.is_empty
        self.roster = b"" if ledger is None else roster_of(game)

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        if not self.ready:
            self._pay(bar)
        expected, values, sums = self.ready.popleft()
        if not np.array_equal(expected.queries, ask.queries):
            raise ProtocolViolated("The method asked other pools than were foreseen.")
        self.sums += sums
        if self.shown < MOST_POOLS:
            start = sum(map(len, self.answers))
            self.transcript.add(ask, range(start, start + len(values)))
            self.answers.append(values)
        self.shown += len(values)
        return values

    def _pay(self, bar: Progress) -> None:
        """Train as many rounds as the device can swallow, and count their test rows."""
        rounds: list[Ask] = []
        fill = HELPINGS * self.path.block * len(self.path.programs)
        room = min(fill, MOST_CELLS // self.game.n_players)
        while room > 0 and (ask := self.ahead.take()) is not None:
            rounds.append(ask)
            room -= len(ask.queries)
        queries, _ = self.game.check(np.concatenate([ask.queries for ask in rounds]), None)
        counted = self.path.counted(queries, None)
        refuse_non_finite(queries, counted.values, self.game.names)
        found = self._keep(queries, counted.values)
        bar.advance(found, found=True)
        bar.advance(len(queries) - found)
        self._share(rounds, counted)
        self.n_computed -= found

    def _share(self, rounds: list[Ask], counted: Counted) -> None:
        """Cut what was trained into the rounds that asked for it."""
        ends = np.cumsum([len(ask.queries) for ask in rounds]).tolist()
        first = self.n_computed == 0
        weighed = self._ends(counted) if first else np.zeros_like(self.sums)
        for ask, start, stop in zip(rounds, [0, *ends], ends, strict=False):
            some = slice(start, stop)
            if self.enumerated and not (first and start == 0):
                weighed = counted.by_coalition(np.array(ask.queries), self.outside, some)
            self.ready.append((ask, counted.values[some], weighed))
            weighed = np.zeros_like(self.sums)
        if not self.enumerated:  # whole numbers, whose sum is the same in any order
            later = rounds[1:] if first else rounds
            ask, values, _ = self.ready.pop()
            self.ready.append((ask, values, self._walked(later, counted, len(counted))))
        self.n_computed += len(counted)

    def _ends(self, counted: Counted) -> FloatArray:
        """Of nobody's and everybody's pool, which come first: what all coalitions make of them."""
        one = np.ones((1, 1))
        self.full_hits = counted.weighed(one, slice(1, 2))[0]
        if not self.enumerated:
            return np.zeros_like(self.sums)
        nobody = -self.outside[0] * self.nobody_hits
        return np.tile(nobody + self.outside[-2] * self.full_hits, (self.game.n_players, 1))

    def _walked(self, rounds: list[Ask], counted: Counted, stop: int) -> FloatArray:
        """Of rounds that tell their weights, the last of which ends there."""
        weigh = self.plan.method.weigh
        if not rounds:
            return np.zeros_like(self.sums)
        assert weigh is not None
        weights = [weigh(np.asarray(ask.queries, np.bool_)) for ask in rounds]
        inner = np.concatenate([part[:, :-2] for part in weights], axis=1)
        nobody, everybody = np.sum([part[:, -2:] for part in weights], axis=0).T
        ends = np.outer(nobody, self.nobody_hits) + np.outer(everybody, self.full_hits)
        return counted.weighed(inner, slice(stop - inner.shape[1], stop)) + ends

    def _keep(self, queries: Queries, values: FloatArray) -> int:
        """Commit what is new, all of it in one transaction; how many were in the ledger before.

        Values that were found stand. Their pools are trained all the same: test rows of a million
        pools are in no ledger, and a resumed run has the errors of an uninterrupted one.
        """
        if not self.enumerated:
            self.names.append(_names(queries))
        if self.ledger is None:
            return 0
        keys = self.game.keys(queries, None)
        if self.fresh and self.enumerated:  # no pool is asked twice
            self.ledger.write_values(keys, values, self._members(queries))
            return 0
        paid = np.full(len(keys), np.nan) if self.fresh else self.ledger.values(keys)
        known = ~np.isnan(paid)
        values[known] = paid[known]
        new = {keys[row]: row for row in np.flatnonzero(~known).tolist()}  # each once
        picks = list(new.values())
        self.ledger.write_values(list(new), values[picks], self._members(queries[picks]))
        self.fresh = False
        return int(known.sum())

    def _members(self, pools: Queries) -> Members | None:
        return (self.roster, pools.astype(np.bool_)) if len(pools) else None

    def account(self, final: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """The same with errors by source and the beginning of what was asked."""
        with blas_limit(self.game):
            values = np.concatenate([*self.answers, np.empty(0)])
            trail = run_history(self.game.sizes, self.transcript, values, final)
        names = () if self.enumerated else np.concatenate(self.names)[: self.shown]
        told = self.shown if self.enumerated else len(np.unique(names))
        return {
            "n_computed": self.n_computed,
            "n_distinct": told,
            "n_trainings": told - 1,
            "details": {**final.details, "trail": trail},
            "errors": self.errors(final, plan, begin),
        }

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """Of sampling and test set; another seed would train the same models."""
        sizes = self.path.group_sizes
        stretch = len(sizes) / sizes.sum()
        replicates = 1 if self.enumerated else estimate.replicates or 1
        own = 1 - stretch * sizes
        influence = own[:, None] * estimate.values + stretch * self.sums.T / replicates
        self.influence = influence
        with blas_limit(self.game):
            test_set = None if self.ready else influence_error(influence, self.game.shift)
        return by_source(estimate, {"test set": test_set}, enumerated=self.enumerated)


def _names(pools: Queries) -> np.ndarray[Any, Any]:
    """Pools in as few words as hold them."""
    bits = np.packbits(pools.astype(np.bool_), axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : bits.shape[1]] = bits
    return words.view(np.uint64 if words.shape[1] == 8 else f"V{words.shape[1]}").ravel()


def round_of(game: Game, budget: int, usual: int) -> int:
    """Pools of a round: more where many are asked of a game that a GPU trains, wherever it is."""
    path = getattr(game, "path", None)
    large = isinstance(path, BatchedPath) and path.in_bulk and budget >= LEAST_BULK
    return BULK_ROUND if large else usual


def in_bulk(game: Game, plan: Plan, *, here: bool) -> BatchedPath | None:
    """The game's way to train pools in bulk, where it has one and so much is asked."""
    path = getattr(game, "path", None)
    every = plan.method.name == "exact" and plan.options.get("semivalue", SHAPLEY) == SHAPLEY
    weighed = every or plan.method.weigh is not None
    if not isinstance(path, BatchedPath) or not path.in_bulk or not weighed or not here:
        return None
    plain = game.deterministic is True and not game.limits.any and path.game.at_least is None
    plain = plain and plan.budget >= LEAST_BULK
    return path if plain else None
