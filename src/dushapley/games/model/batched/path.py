"""The batched path: pools of a `ModelGame` trained together by the tensor program.

Taken by this library's own gradient models (`SoftmaxRegression`, `SmallMLP`) under any score that
is known test row by test row. Which path a game takes depends on rows, columns, classes and owners
alone, never on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Fractions, IntArray, Queries
from dushapley.games.base import Answers, Outcome, Scores, average, grouped
from dushapley.games.model.batched.arithmetic import COST, Arithmetic, arithmetic, on_others
from dushapley.games.model.batched.judging import Judge
from dushapley.games.model.batched.membership import Membership, memberships, whole_memberships
from dushapley.games.model.batched.program import Program, Trained
from dushapley.games.model.scoring.scorer import best_constant
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


class CountedScores(Scores):
    """Scores of pools whose right predictions are counted on the device, by group of test rows.

    Parameters
    ----------
    path
        The path that trained them.
    parts
        Trained pools, block by block.
    empty
        Which of them hold no rows, shape (m,).
    """

    def __init__(self, path: BatchedPath, parts: list[Trained], empty: BoolArray) -> None:
        self.path, self.parts, self.empty = path, parts, empty
        judge = path.judges[0]
        hits, self.sums = judge.counted(parts)
        self.values = path.numbers.to_numpy(hits).astype(np.float64) / judge.n_rows
        self.values[empty] = path.game.nobody.value

    def __len__(self) -> int:
        return len(self.values)

    @property
    def rows(self) -> int:
        """Groups of test rows."""
        return len(self.path.group_sizes)

    def matrix(self) -> FloatArray:
        """Scores by single test row, or by as many groups as are kept of one."""
        judge, nobody = self.path.judges[0], self.path.game.nobody
        right = np.concatenate([judge.correct(part) for part in self.parts]).astype(np.float64)
        rows = np.stack([grouped(row) for row in right])
        rows[self.empty] = nobody.value if nobody.scores is None else nobody.scores
        return rows

    def fold(self, weights: FloatArray, some: slice = slice(None)) -> FloatArray:
        numbers, path, empty = self.path.numbers, self.path, self.empty[some]
        held = np.where(empty, 0.0, weights) if empty.any() else weights
        there = numbers.array(held, numbers.xp.float64)
        hits = np.asarray(numbers.to_numpy(self.sums(there, some)))
        hits += np.outer(weights[:, empty].sum(axis=1), path.nobody_by_group)
        n_rows = path.group_sizes.sum()
        stretch = len(path.group_sizes) / n_rows
        own = np.outer(hits.sum(axis=1) / n_rows, 1 - stretch * path.group_sizes)
        return own + stretch * hits


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
        laid_out = ("judges", "programs", "group_sizes", "nobody_by_group")
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
    def counts_hits(self) -> bool:
        """Whether test rows are counted where they are judged: under accuracy on a GPU."""
        game = self.game
        plain = game.scoring == "accuracy" and game.training.repeats == 1 and not game.at_least
        return plain and self.numbers.device != "cpu"

    def answers(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Utilities with their test rows and the spread of repeats."""
        parts = blocks(queries, draws, self.block)
        if not self.counts_hits:
            return Answers.of([outcome for part in parts for outcome in self._judge(*part)])
        trained = [  # all of them are on their way before one is read
            program.train(len(part), self._members(part, ids)).on(self.numbers)
            for program, (part, ids) in zip(cycle(self.programs), parts, strict=False)
        ]
        scores = CountedScores(self, trained, self._nobody(queries))
        return Answers(scores.values, scores)

    @cached_property
    def group_sizes(self) -> FloatArray:
        """Test rows of each group."""
        judge = self.judges[0]
        return np.bincount(judge.group, minlength=judge.groups).astype(np.float64)

    @cached_property
    def nobody_by_group(self) -> FloatArray:
        """The same of nobody's model: a number fixed beforehand is the same on any test row."""
        game, judge = self.game, self.judges[0]
        if game.nobody.scores is None:
            return self.group_sizes * game.nobody.value
        rows = best_constant(game.scorer)[1]
        assert rows is not None
        return np.asarray(np.bincount(judge.group, rows, minlength=judge.groups), np.float64)

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
