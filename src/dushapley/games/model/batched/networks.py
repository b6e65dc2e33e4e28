"""The path of networks: pools of a `ModelGame` of a `TorchModel`, hundreds at a time."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import Array, BoolArray, Fractions, IntArray, Queries
from dushapley.games.base import Answers, Outcome, average
from dushapley.games.model.batched.membership import (
    Membership,
    batch_rows,
    count_classes,
    memberships,
    places_of,
)
from dushapley.games.rows import blocks

if TYPE_CHECKING:
    from dushapley.games.model.batched.stacked import Stack
    from dushapley.games.model.game import ModelGame

TILES_AT_ONCE = 4
"""Tiles of networks in one block: enough to keep a GPU busy, few enough to save often."""


class Diverged(ArithmeticError):
    """A network whose answers are not finite."""


class NetworkPath:
    """Trains and scores the networks of one game in blocks.

    Parameters
    ----------
    game
        The game; its model is a `TorchModel`.
    """

    fractions: Fractions = "rows"
    cheap = False

    def __init__(self, game: ModelGame) -> None:
        self.game = game
        stack = self.stacks[0]
        alone = stack.obstacle is not None
        self.block = 1 if alone else TILES_AT_ONCE * stack.tile
        how = "one by one" if alone else f"tile {stack.tile}"
        self.name = f"networks, torch float32 on the {stack.device}, {how}"
        self.note = (
            f"Networks were trained one by one on the {stack.device}: {stack.obstacle}."
            if alone
            else f"Networks were trained {stack.tile} at a time by torch on the {stack.device}: "
            f"{stack.recipe.steps} steps of {game.model.optimizer} on {game.model.batch_size} rows."
        )

    def __getstate__(self) -> dict[str, Any]:
        """Workers lay out the rows for themselves instead of being sent them twice."""
        return {name: part for name, part in self.__dict__.items() if name != "stacks"}

    @cached_property
    def stacks(self) -> list[Stack]:
        """One stack per repeat, laid out on first use."""
        from dushapley.games.model.batched.stacked import Stack

        game = self.game
        X = np.concatenate([np.asarray(game.owners.X[j], dtype=np.float32) for j in game.order])
        y = np.concatenate([game.owners.labels()[j] for j in game.order])
        wanted = y if game.classes is None else np.searchsorted(np.asarray(game.classes), y)
        return [Stack(model, X, wanted) for model in game.templates]

    def answers(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Utilities with their test rows and the spread of repeats."""
        parts = blocks(queries, draws, self.block)
        return Answers.of([outcome for part, ids in parts for outcome in self._judge(part, ids)])

    def _judge(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        game, sizes = self.game, self.game.sizes.astype(np.int64)
        counts = game.counts(queries)
        members = memberships(counts, sizes, draws, game.rows_of, game.order)
        places, n_rows = places_of(sizes, game.order), counts.sum(axis=1)
        present = self._present(len(queries), members)
        scored: list[list[Any]] = [[] for _ in queries]
        for stack in self.stacks:
            rows = batch_rows(stack.recipe, members, places, n_rows)
            trained = stack.train(rows, present)
            for k, response in enumerate(trained.responses(game.X_test)):
                scored[k].append(self._scored(response))
        return [
            game.nobody if not n else self._outcome(query, scores)
            for query, n, scores in zip(queries, n_rows.tolist(), scored, strict=True)
        ]

    def _present(self, n_pools: int, members: list[Membership]) -> BoolArray | None:
        """Which classes each pool holds; the others take no part."""
        if self.game.classes is None:
            return None
        classes = np.asarray(self.game.classes)
        codes = [np.searchsorted(classes, y) for y in self.game.owners.labels()]
        counts = count_classes(n_pools, members, codes, len(classes))
        return (counts > 0) | (counts.sum(axis=1) == 0)[:, None]

    def _scored(self, response: Array) -> Any:
        scorer = self.game.scorer
        assert scorer.metric is not None
        if not np.isfinite(response).all():
            return Diverged("the network's answers are not finite: lower its learning rate")
        if scorer.metric.response == "ranking":
            response = response[:, 1]
        elif scorer.metric.response == "labels" and self.game.classes is not None:
            response = np.asarray(self.game.classes)[response.argmax(axis=1)]
        return scorer.judge(response)

    def _outcome(self, query: Array, scores: list[Any]) -> Outcome:
        failed = next((s for s in scores if isinstance(s, Diverged)), None)
        return average(scores) if failed is None else self.game.fail(query, failed)


def network_path(game: ModelGame) -> NetworkPath | None:
    """The path of networks, where the model is one and the score has rows."""
    if type(game.model).__name__ != "TorchModel" or game.owners.X[0].ndim != 2:
        return None
    from dushapley.games.model.batched.network import TorchModel

    if type(game.model) is not TorchModel or game.scorer.metric is None:
        return None
    if any(X.dtype.kind not in "fiub" for X in game.owners.X) or game.owners.reduced is not None:
        return None
    return NetworkPath(game)
