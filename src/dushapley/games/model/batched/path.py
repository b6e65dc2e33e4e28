"""The batched path: pools of a `ModelGame` trained together by the tensor program.

Taken by this library's own gradient models (`SoftmaxRegression`, `SmallMLP`) under any score that
is known test row by test row. Which path a game takes depends on rows, columns, classes and owners
alone, never on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Fractions, IntArray, Queries
from dushapley.games.base import Outcome
from dushapley.games.model.batched.arithmetic import COST, Arithmetic, arithmetic, on_others
from dushapley.games.model.batched.judging import Judge, Sums
from dushapley.games.model.batched.membership import Membership, memberships, whole_memberships
from dushapley.games.model.batched.program import Program, Trained
from dushapley.games.model.scoring.scorer import best_constant
from dushapley.games.model.training import average
from dushapley.games.rows import blocks

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

ROWS_PER_OWNER = 8
"""Owners smaller than this on average share too little work for training together to pay."""
MOST_WEIGHTS = 2**18
"""Weights of one model beyond which a tile of them leaves every cache."""
MEMORY = {"cpu": 2**30, "cuda": 2**34}
"""Bytes that the training of one block may take beside the rows themselves."""
MOST_POOLS = {"cpu": 256, "cuda": 2**18}
"""Pools of a block where memory allows more."""


@dataclass(frozen=True)
class Counted:
    """Pools trained in bulk: utilities, and how to add up their hits by group of test rows."""

    values: FloatArray
    sums: Sums
    numbers: Arithmetic

    def __len__(self) -> int:
        return len(self.values)

    def weighed(self, weights: FloatArray, some: slice) -> FloatArray:
        """Σ weights · hits over some of the pools, shape (I, groups); weights (I, m)."""
        there = self.numbers.array(weights, self.numbers.xp.float64)
        return np.asarray(self.numbers.to_numpy(self.sums(there, some)))

    def by_coalition(self, pools: BoolArray, outside: FloatArray, some: slice) -> FloatArray:
        """The same by the Shapley weights of coalitions, which are made on the device."""
        xp = self.numbers.xp
        inside = self.numbers.array(pools, xp.bool)
        size, chance = inside.sum(axis=1), self.numbers.array(outside, xp.float64)
        weights = xp.where(inside, chance[size - 1][:, None], -chance[size][:, None])
        return np.asarray(self.numbers.to_numpy(self.sums(weights.T, some)))


class BatchedPath:
    """Trains and scores the pools of one game in blocks.

    Parameters
    ----------
    game
        The game; its model is one of this library's gradient models.
    memory
        Bytes that one block may take; None: 1 GiB on a CPU, 16 GiB on a GPU. It decides how many
        pools are trained at a time and changes no bit.
    """

    fractions: Fractions = "rows"
    cheap = False

    def __init__(self, game: ModelGame, memory: int | None = None) -> None:
        self.game = game
        self.numbers: Arithmetic = arithmetic(game.backend)
        self.memory = MEMORY[self.numbers.device] if memory is None else memory
        precision, device = self.numbers.precision, self.numbers.device
        shape = f"tile {self.numbers.tile}, piece {self.numbers.piece}"
        self.name = (
            f"many pools together, {self.numbers.name} {precision} on the {device}, {shape}, "
            f"mini-batch tile {self.numbers.batch_tile}, align {self.numbers.align}"
        )
        self.note = (
            f"Pools were trained together by {self.numbers.name} in {precision} on the {device}: "
            f"{game.model.recipe().words}."
        )
        if precision in COST and self.numbers.name == "torch":
            self.note += f" {COST[precision]}"
        program = self.judges[0].program
        if program.fused is not None:
            self.name += f", {program.fused.name}"
        room = (self.memory - program.bytes_of_tile) // program.bytes_per_pool
        self.block = int(np.clip(room, 1, MOST_POOLS[device]))

    def __getstate__(self) -> dict[str, Any]:
        """Workers lay out the rows for themselves instead of being sent them twice."""
        laid_out = ("judges", "programs")
        return {name: part for name, part in self.__dict__.items() if name not in laid_out}

    @cached_property
    def judges(self) -> list[Judge]:
        """One trained-and-judged program per repeat, laid out on first use."""
        game, classes = self.game, np.asarray(self.game.classes)
        judges = []
        for model in game.templates:
            test = model.scaled(game.X_test), np.searchsorted(classes, game.y_test)
            judges.append(Judge(self._program(model, self.numbers), *test))
        return judges

    def _program(self, model: Any, numbers: Arithmetic) -> Program:
        game, classes = self.game, np.asarray(self.game.classes)
        codes = [np.searchsorted(classes, y) for y in game.owners.labels()]
        rows = [model.scaled(X) for X in game.owners.X]
        return Program(model.recipe(), rows, codes, list(classes), numbers, game.order)

    @cached_property
    def programs(self) -> list[Program]:
        """The program of this game on every GPU there is; they take turns with blocks."""
        first, model = self.judges[0].program, self.game.templates[0]
        return [first, *(self._program(model, numbers) for numbers in on_others(self.numbers))]

    @property
    def in_bulk(self) -> bool:
        """Whether pools are trained faster than anybody could keep their test rows: on a GPU."""
        game = self.game
        plain = game.scoring == "accuracy" and game.repeats == 1 and bool((game.sizes > 0).all())
        return plain and self.numbers.device != "cpu"

    def counted(self, queries: Queries, draws: IntArray | None) -> Counted:
        """Utilities of pools, and test rows that they predict rightly by group, on the device."""
        judge, game = self.judges[0], self.game
        parts = [  # all of them are on their way before one is read
            program.train(len(part), self._members(part, ids)).on(self.numbers)
            for program, (part, ids) in zip(
                cycle(self.programs), blocks(queries, draws, self.block), strict=False
            )
        ]
        hits, sums = judge.counted(parts)
        values = self.numbers.to_numpy(hits).astype(np.float64) / judge.n_rows
        values[~queries.any(axis=1)] = game.nobody.value
        return Counted(values, sums, self.numbers)

    @property
    def group_sizes(self) -> FloatArray:
        """Test rows of each group."""
        judge = self.judges[0]
        return np.bincount(judge.group, minlength=judge.groups).astype(np.float64)

    @property
    def nobody_by_group(self) -> FloatArray:
        """The same of nobody's model: a number fixed beforehand is the same on any test row."""
        game, judge = self.game, self.judges[0]
        if game.nobody.scores is None:
            return self.group_sizes * game.nobody.value
        rows = best_constant(game.scorer)[1]
        assert rows is not None
        return np.asarray(np.bincount(judge.group, rows, minlength=judge.groups), np.float64)

    def values(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        """Utilities of pools, block by block, keeping nothing else."""
        if self.game.scoring != "accuracy":
            return np.array([outcome.value for outcome in self.outcomes(queries, draws)])
        utilities = [np.empty(0)]
        for part, ids in blocks(queries, draws, self.block):
            mean = np.mean([j.accuracy(t) for j, t in self._train(part, ids)], axis=0)
            utilities.append(np.where(self._nobody(part), self.game.nobody.value, mean))
        return np.concatenate(utilities)

    def outcomes(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        """Utilities with their test rows and the spread of repeats."""
        parts = blocks(queries, draws, self.block)
        return [outcome for part, ids in parts for outcome in self._judge(part, ids)]

    def _nobody(self, queries: Queries) -> Any:
        return ~self.game.counts(queries).any(axis=1)

    def _members(self, queries: Queries, draws: IntArray | None) -> list[Membership]:
        game = self.game
        if queries.dtype == np.bool_:
            whole = queries.astype(np.bool_, copy=False)
            return whole_memberships(whole, game.sizes, game.order)
        sizes = game.sizes.astype(np.int64)
        return memberships(game.counts(queries), sizes, draws, game.rows_of, game.order)

    def _train(self, queries: Queries, draws: IntArray | None) -> list[tuple[Judge, Trained]]:
        members = self._members(queries, draws)
        return [(judge, judge.program.train(len(queries), members)) for judge in self.judges]

    def _judge(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        scored = [self._scored(judge, trained) for judge, trained in self._train(queries, draws)]
        return [
            self.game.nobody if empty else average([pools[k] for pools in scored])
            for k, empty in enumerate(self._nobody(queries).tolist())
        ]

    def _scored(self, judge: Judge, trained: Trained) -> Sequence[tuple[float, FloatArray | None]]:
        """Score of every pool, and its test rows where they are known."""
        scorer = self.game.scorer
        assert scorer.metric is not None
        if self.game.scoring == "accuracy":
            return [(float(r.mean()), r) for r in judge.correct(trained).astype(np.float64)]
        chances: Any = judge.probabilities(trained)
        if scorer.metric.response == "ranking":
            chances = chances[:, :, 1]
        elif scorer.metric.response == "labels":
            seen = np.where(trained.present[:, None], chances, -1.0)
            chances = scorer.target.classes[seen.argmax(axis=2)]
        return [scorer.judge(response) for response in chances]


def batched_path(game: ModelGame) -> BatchedPath | None:
    """The batched path of a game, where model, score and shape have one."""
    from dushapley.games.model.batched.reference import SmallMLP, SoftmaxRegression

    model, owners, classes = game.model, game.owners, game.classes
    if type(model) not in (SoftmaxRegression, SmallMLP) or game.scorer.metric is None:
        return None
    if owners.reduced is not None or owners.X[0].ndim != 2:
        return None
    if any(X.dtype.kind not in "fiub" for X in owners.X):
        return None
    if classes is None or len(classes) < 2 or model.classes is not None:
        return None
    # a fixed rule: owners of some size, and a model that is not huge
    weights = (owners.X[0].shape[1] + 1) * getattr(model, "hidden", len(classes))
    shared = game.sizes.sum() >= ROWS_PER_OWNER * game.n_players and weights <= MOST_WEIGHTS
    return BatchedPath(game) if shared else None
