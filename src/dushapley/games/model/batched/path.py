"""Faster paths of gradient models: pools of a `ModelGame` trained together.

Two of them: this library's own models (`SoftmaxRegression`, `SmallMLP`) by the tensor program, and
networks of one's own (`TorchModel`) as stacked copies; under any score that is known test row by
test row. Which path a game takes depends on rows, columns, classes and owners alone, never on
timing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import FloatArray, Fractions, IntArray, Queries
from dushapley.games.base import Answers, Scores, average, grouped
from dushapley.games.model.batched.arithmetic import COST, Arithmetic, arithmetic, on_others
from dushapley.games.model.batched.program import Judge, Program, Trained, joined
from dushapley.games.model.batched.recipe import (
    Membership,
    batch_rows,
    count_classes,
    memberships,
)
from dushapley.games.model.scoring.scorer import Score, best_constant
from dushapley.games.rows import blocks

if TYPE_CHECKING:
    from dushapley.games.model.batched.stacked import Stack
    from dushapley.games.model.game import ModelGame

MEMORY = {"cpu": 2**30, "cuda": 2**34}
"""Bytes that the training of one block may take beside the rows themselves."""


class Diverged(ArithmeticError):
    """A model whose answers are not finite."""


class GradientPath(ABC):
    """Trains and scores the pools of one game in blocks.

    Parameters
    ----------
    game
        The game; its model is trained by gradient steps.
    """

    fractions: Fractions = "rows"
    cheap = False
    devices = 1
    block: int

    def __init__(self, game: ModelGame) -> None:
        self.game = game
        self.classes = np.empty(0) if game.classes is None else game.classes

    def __getstate__(self) -> dict[str, Any]:
        """Workers lay out the rows for themselves instead of being sent them twice."""
        laid_out = ("codes", "judges", "programs", "nobody_by_group", "stacks")
        return {name: part for name, part in vars(self).items() if name not in laid_out}

    @cached_property
    def codes(self) -> list[IntArray]:
        """Class of each row by its place among all, owner by owner; 0 where there are none."""
        return [np.searchsorted(self.classes, y) for y in self.game.owners.labels()]

    def answers(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Utilities with their test rows and the spread of repeats."""
        game, found = self.game, []
        for part, ids in blocks(queries, draws, max(1, self.block // self.devices)):
            members = self._members(part, ids)
            repeats = [list(scores) for scores in self._scored(len(part), members)]
            for query, counts, *scores in zip(part, game.counts(part), *repeats, strict=True):
                try:
                    found.append(average(scores) if counts.any() else game.nobody)
                except ArithmeticError:
                    cause = "the model's answers are not finite: lower its learning rate"
                    found.append(game.fail(query, Diverged(cause)))
        return Answers.of(found)

    @abstractmethod
    def _scored(self, n_pools: int, members: list[Membership]) -> Iterable[Iterable[Score]]:
        """Train all pools, and score them: repeat by repeat, pool by pool."""

    def _members(self, queries: Queries, draws: IntArray | None) -> list[Membership]:
        game = self.game
        sizes = game.sizes.astype(np.int64)
        if queries.dtype != np.bool_:
            return memberships(game.counts(queries), sizes, draws, game.rows_of, game.order)
        # whole owners: as if each had a single row
        whole, one = np.logical_and(queries, sizes > 0), np.minimum(sizes, 1)
        return memberships(whole, one, None, game.rows_of, game.order)

    def _score(self, response: FloatArray) -> Score:
        """Score probabilities (rows, C), or numbers (rows,)."""
        scorer = self.game.scorer
        assert scorer.metric is not None
        if scorer.metric.response == "ranking":
            response = response[:, 1]
        elif scorer.metric.response == "labels" and self.game.classes is not None:
            response = self.classes[response.argmax(axis=1)]
        return scorer.judge(response)


class BatchedPath(GradientPath):
    """Trains softmax regressions and small networks by the tensor program.

    Parameters
    ----------
    game
        The game; its model is one of this library's gradient models.
    """

    def __init__(self, game: ModelGame) -> None:
        super().__init__(game)
        numbers = self.numbers = arithmetic(game.backend)
        self.devices = 1 + len(on_others(numbers))
        program, words = self.judges[0].program, game.model.recipe().words
        kind = f"{numbers.precision} on the {numbers.device}"
        self.name = (
            f"many pools together, {numbers.name} {kind}, tile {numbers.tile}, piece "
            f"{numbers.piece}, mini-batch tile {numbers.batch_tile}, align {numbers.align}"
        )
        if program.fused is not None:
            self.name += f", {program.fused.name}"
        self.note = f"Pools were trained together by {numbers.name} in {kind}: {words}."
        if numbers.precision in COST:
            self.note += f" {COST[numbers.precision]}"
        room = program.pools_within(MEMORY[numbers.device])
        self.block = min(room, 256 if numbers.device == "cpu" else 2**18) * self.devices

    @cached_property
    def judges(self) -> list[Judge]:
        """One trained-and-judged program per repeat, laid out on first use."""
        game = self.game
        codes = np.searchsorted(self.classes, game.y_test)
        return [
            Judge(self._program(model, self.numbers), model.scaled(game.X_test), codes)
            for model in game.templates
        ]

    @cached_property
    def programs(self) -> list[Program]:
        """The program of this game on every GPU there is; they take turns with blocks."""
        first, model = self.judges[0].program, self.game.templates[0]
        return [first, *(self._program(model, numbers) for numbers in on_others(self.numbers))]

    def _program(self, model: Any, numbers: Arithmetic) -> Program:
        rows = [model.scaled(X) for X in self.game.owners.X]
        labels, order = list(self.classes), self.game.order
        return Program(model.recipe(), rows, self.codes, labels, numbers, order)

    @property
    def counts_hits(self) -> bool:
        """Whether test rows are counted where they are judged: under accuracy on a GPU."""
        game, on_device = self.game, self.numbers.device != "cpu"
        plain = len(game.templates) == 1 and not game.at_least
        return on_device and plain and game.scoring == "accuracy"

    def answers(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Utilities with their test rows, which stay on the device where they are counted."""
        if not self.counts_hits:
            return super().answers(queries, draws)
        parts = blocks(queries, draws, max(1, self.block // self.devices))
        turns = zip(cycle(self.programs), parts, strict=False)
        trained = [  # all of them are on their way before one is read
            program.train(len(part), self._members(part, ids)) for program, (part, ids) in turns
        ]
        scores = CountedScores(self, joined(trained, self.numbers))
        return Answers(scores.values, scores)

    @cached_property
    def nobody_by_group(self) -> FloatArray:
        """Hits of the empty pool: a number fixed beforehand is the same on any test row."""
        game, judge = self.game, self.judges[0]
        rows = None if game.nobody.scores is None else best_constant(game.scorer)[1]
        if rows is None:
            return judge.group_sizes * game.nobody.value
        return np.asarray(np.bincount(judge.group, rows), np.float64)

    def _scored(self, n_pools: int, members: list[Membership]) -> Iterator[Iterable[Score]]:
        for judge in self.judges:
            trained = judge.program.train(n_pools, members)
            if self.game.scoring == "accuracy":
                right = judge.correct(trained).astype(np.float64)
                yield [(float(rows.mean()), rows) for rows in right]
            else:
                yield map(self._score, judge.probabilities(trained))


class CountedScores(Scores):
    """Scores of pools whose right predictions are counted on the device, by group of test rows.

    Parameters
    ----------
    path
        The path that trained them.
    trained
        The pools.
    """

    def __init__(self, path: BatchedPath, trained: Trained) -> None:
        self.path, self.judge, self.trained = path, path.judges[0], trained
        self.empty = trained.n_rows == 0
        self.counted = self.judge.counted(trained)
        hits = self.judge.hits(trained) if self.judge.fused else self.counted[0].sum(axis=1)
        self.values = path.numbers.to_numpy(hits).astype(np.float64) / self.judge.n_rows
        self.values[self.empty] = path.game.nobody.value

    def __len__(self) -> int:
        return len(self.values)

    @property
    def rows(self) -> int:
        """Groups of test rows."""
        return len(self.judge.group_sizes)

    def matrix(self) -> FloatArray:
        """Scores by single test row, or by as many groups as are kept of one."""
        nobody = self.path.game.nobody
        right = self.judge.correct(self.trained).astype(np.float64)
        rows = np.stack([grouped(row) for row in right])
        rows[self.empty] = nobody.value if nobody.scores is None else nobody.scores
        return rows

    def fold(self, weights: FloatArray, some: slice = slice(None)) -> FloatArray:
        numbers, sizes, empty = self.path.numbers, self.judge.group_sizes, self.empty[some]
        held = np.where(empty, 0.0, weights) if empty.any() else weights
        there = numbers.array(held, numbers.xp.float64)
        found = self.judge.weighed([part[some] for part in self.counted], there)
        hits = numbers.to_numpy(found)
        hits += np.outer(weights[:, empty].sum(axis=1), self.path.nobody_by_group)
        stretch = len(sizes) / sizes.sum()
        own = np.outer(hits.sum(axis=1) / sizes.sum(), 1 - stretch * sizes)
        return own + stretch * hits


class NetworkPath(GradientPath):
    """Trains copies of one network, hundreds at a time.

    Parameters
    ----------
    game
        The game; its model is a `TorchModel`.
    """

    def __init__(self, game: ModelGame) -> None:
        super().__init__(game)
        stack, model = self.stacks[0], game.model
        device, alone = stack.numbers.device, stack.obstacle is not None
        # four tiles are enough to keep a GPU busy, and few enough to save often
        self.block = 1 if alone else 4 * stack.tile
        how = "one by one" if alone else f"tile {stack.tile}"
        self.name = f"networks, torch float32 on the {device}, {how}"
        self.note = (
            f"Networks were trained one by one on the {device}: {stack.obstacle}."
            if alone
            else f"Networks were trained {stack.tile} at a time by torch on the {device}: "
            f"{model.steps} steps of {model.optimizer} on {model.batch_size} rows."
        )

    @cached_property
    def stacks(self) -> list[Stack]:
        """One stack per repeat, laid out on first use."""
        from dushapley.games.model.batched.stacked import Stack

        game = self.game
        wanted = game.owners.labels() if game.classes is None else self.codes
        X = np.concatenate([np.asarray(game.owners.X[j], dtype=np.float32) for j in game.order])
        y = np.concatenate([wanted[j] for j in game.order])
        return [Stack(model, X, y) for model in game.templates]

    def _scored(self, n_pools: int, members: list[Membership]) -> Iterator[Iterable[Score]]:
        game = self.game
        counts = count_classes(n_pools, members, self.codes, max(1, len(self.classes)))
        n_rows = counts.sum(axis=1)
        present = (counts > 0) | (n_rows == 0)[:, None]
        sizes = game.sizes.astype(np.int64)
        for stack in self.stacks:
            rows = batch_rows(stack.recipe, members, sizes, game.order, n_rows)
            yield map(self._score, stack.responses(stack.train(rows, present), game.X_test))

    def _score(self, response: FloatArray) -> Score:
        return super()._score(response) if np.isfinite(response).all() else (np.nan, None)


def gradient_path(game: ModelGame) -> BatchedPath | NetworkPath | None:
    """The path of a gradient model, where model, score and shape have one."""
    from dushapley.games.model.batched.reference import SmallMLP, SoftmaxRegression, TorchModel

    kind, owners, classes = type(game.model), game.owners, game.classes
    known = kind in (SmallMLP, SoftmaxRegression, TorchModel) and owners.reduced is None
    odd = any(X.ndim != 2 or X.dtype.kind not in "fiub" for X in owners.X)
    if not known or odd or game.scorer.metric is None:
        return None
    if kind is TorchModel:
        return NetworkPath(game)
    if classes is None or len(classes) < 2 or game.model.classes is not None:
        return None
    # training together pays: owners of fewer rows on average share too little work, and a tile of
    # more weights leaves every cache
    weights = (owners.X[0].shape[1] + 1) * getattr(game.model, "hidden", len(classes))
    pays = game.sizes.sum() >= 8 * game.n_players and weights <= 2**18
    return BatchedPath(game) if pays else None
