"""The tensor program: thousands of pools' small classifiers trained at once.

The loop over pools is the last axis that should cost anything. For every owner, the weights of the
pools that hold it are gathered into tiles, multiplied with the owner's rows in one matrix product,
turned into residuals, and multiplied back. So rows are read once for a tile of pools instead of
once for each pool, and absent owners are never touched.

A pool's weights come out the same to the last bit whatever other pools share its block: all matrix
products have constant shapes, each pool is a row of its own in them, everything else works element
by element, and sums over owners run in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.games.model.batched.arithmetic import Arithmetic
from dushapley.games.model.batched.fused import fused_step
from dushapley.games.model.batched.membership import (
    Membership,
    batch_rows,
    count_classes,
    places_of,
)
from dushapley.games.model.batched.recipe import Recipe, Steps


@dataclass(frozen=True)
class Piece:
    """Some rows of one owner on the device.

    `X` (n, d), `XT` its transpose, both as matrix products read them; `targets` (columns, n): ±1
    for two classes, one-hot for more; `start`, `stop`: where the rows stand in the owner's block.
    """

    X: Any
    XT: Any
    targets: Any
    start: int
    stop: int


@dataclass(frozen=True)
class Trained:
    """Weights of a block of pools, on the device, and the classes each pool has seen."""

    weights: list[Any]
    present: BoolArray
    n_rows: IntArray

    def on(self, numbers: Arithmetic) -> Trained:
        """The same where this arithmetic computes."""
        if numbers.name == "numpy":
            return self
        return Trained([w.to(numbers.device) for w in self.weights], self.present, self.n_rows)


class Program:
    """Trains many pools of the same owners from one recipe.

    Parameters
    ----------
    recipe
        How to train.
    X
        Feature rows of each owner.
    codes
        Class of each row, 0..C−1, owner by owner.
    labels
        The C classes by name, sorted.
    numbers
        Where and in which numbers to compute.
    order
        Order in which owners are summed; fix it by content.
    """

    def __init__(
        self,
        recipe: Recipe,
        X: Sequence[Array],
        codes: Sequence[IntArray],
        labels: Sequence[Any],
        numbers: Arithmetic,
        order: Sequence[int],
    ) -> None:
        self.recipe, self.numbers, self.codes = recipe, numbers, codes
        self.labels, self.n_classes = labels, len(labels)
        self.order = list(order)
        self.n_features = X[0].shape[1]
        self.sizes = np.array([len(rows) for rows in X])
        # two classes need one column of weights, the other being its negative
        self.sign_only = len(labels) == 2 and recipe.hidden == 0
        self.columns = 1 if self.sign_only else len(labels)
        # X'(P − Y) = X'P − X'Y, the second part known beforehand; where the sum is nearly nothing
        # it is rounding error, which Adam would blow up to full steps
        self.split = recipe.hidden == 0 and recipe.optimizer == "sgd"
        self.width = _round_up(self.n_features + 1, numbers.align)
        whole = self.split and recipe.batch_size is None
        self.fused = fused_step(numbers, self.columns, self.width) if whole else None
        if self.fused is not None:
            self.fused_rows = [
                self.fused.laid_out(self.padded(rows), self._targets(c))
                for rows, c in zip(X, codes, strict=True)
            ]
        elif recipe.batch_size is None:
            self.pieces = [self._cut(rows, c) for rows, c in zip(X, codes, strict=True)]
        else:
            self._lay_out(X)

    def _lay_out(self, X: Sequence[Array]) -> None:
        """All rows one after the other, in the order of owners, for mini-batches."""
        self.rows = self._prepared(np.concatenate([X[j] for j in self.order]))
        joined = np.concatenate([self.codes[j] for j in self.order])
        self.targets = self.numbers.array(self._targets(joined).T.copy())
        self.places = places_of(self.sizes, self.order)

    def _cut(self, X: Array, codes: IntArray) -> list[Piece]:
        cut = []
        for start in range(0, len(X), self.numbers.piece):
            stop = min(len(X), start + self.numbers.piece)
            rows = self._prepared(X[start:stop])
            filling = (0, 0), (0, len(rows) - (stop - start))
            targets = np.pad(self._targets(codes[start:stop]), filling)
            across = rows.T.copy() if self.numbers.name == "numpy" else rows.T
            cut.append(Piece(rows, across, self.numbers.array(targets), start, stop))
        return cut

    def _prepared(self, X: Array) -> Any:
        """Rows as matrix products read them."""
        return self.numbers.factor(self.numbers.array(self.padded(X, self.numbers.align)))

    def padded(self, X: Array, align: int = 1) -> FloatArray:
        """Rows with an intercept, padded with zeros; as many as a multiple of `align`."""
        padded = np.zeros((_round_up(len(X), align), self.width))
        padded[: len(X), : self.n_features] = X
        padded[: len(X), self.n_features] = 1
        return padded

    def _targets(self, codes: IntArray) -> FloatArray:
        if self.sign_only:
            return np.where(codes == 1, 1.0, -1.0)[None, :]
        return np.eye(self.n_classes)[codes].T

    @property
    def bytes_per_pool(self) -> int:
        """Memory that each further pool of a block takes, at most."""
        initial = self.recipe.initial_weights(self.width - 1, self.labels[: self.columns])
        state = 6 * sum(w.size for w in initial) * self.numbers.item_bytes
        if self.recipe.batch_size is None:
            return int(state + (1 if self.fused else 2) * self.sizes.sum())
        return int(state + 24 * self.recipe.steps * self.recipe.batch_size)

    @property
    def bytes_of_tile(self) -> int:
        """Memory that one tile takes while it is multiplied."""
        rows = self.recipe.batch_size or min(int(self.sizes.max()), self.numbers.piece)
        across = 4 * (self.recipe.hidden + self.columns)
        wide = 2 * self.width if self.recipe.batch_size else 0
        return self.numbers.tile * rows * (across + wide + 4) * self.numbers.item_bytes

    def train(self, n_pools: int, members: list[Membership]) -> Trained:
        """Train a block of pools; a pool without rows keeps its initial weights."""
        with self.numbers.in_force():
            counts = count_classes(n_pools, members, self.codes, self.n_classes)
            present, n_rows = counts > 0, counts.sum(axis=1)
            if self.fused is not None:
                weights = self._fused(n_pools, members, present, n_rows)
            elif self.recipe.batch_size is None:
                weights = self._full_batch(n_pools, members, present, n_rows)
            else:
                rows = batch_rows(self.recipe, members, self.places, n_rows)
                weights = self.train_rows(rows, present, n_rows)
            return Trained(weights, present, n_rows)

    def _initial(self, n_pools: int) -> list[Any]:
        if self.recipe.hidden == 0:
            return [self.numbers.zeros(n_pools, self.columns, self.width)]
        drawn = self.recipe.initial_weights(self.n_features, self.labels[: self.columns])
        first = np.zeros((len(drawn[0]), self.width))
        first[:, : drawn[0].shape[1]] = drawn[0]
        return [
            self.numbers.array(np.repeat(w[None], n_pools, axis=0)) for w in (first, *drawn[1:])
        ]

    def _full_batch(
        self, n_pools: int, members: list[Membership], present: BoolArray, n_rows: IntArray
    ) -> list[Any]:
        # one more than there are pools: tiles are filled up with the last
        weights = self._initial(n_pools + 1)
        absent = self._absent(np.pad(present, ((0, 1), (0, 0)), constant_values=True))
        share = self.numbers.array(1 / np.maximum(np.append(n_rows, 1), 1))[:, None, None]
        work = [
            (self.pieces[member.owner], self.numbers.index(pools), self._marks(member.owner, rows))
            for member in members
            for pools, rows in member.tiles(self.numbers.tile, n_pools)
        ]
        pull = self._pull(n_pools + 1, work) if self.split else None
        steps = Steps(self.recipe, self.numbers, weights, self.n_features)
        for _ in range(self.recipe.steps):
            slopes = self._slopes(weights, work, absent)
            if pull is not None:
                slopes[0] -= pull
            for slope in slopes:
                slope *= share / 2 if self.sign_only else share
            steps.take(slopes)
        return [w[:n_pools] for w in weights]

    def _fused(
        self, n_pools: int, members: list[Membership], present: BoolArray, n_rows: IntArray
    ) -> list[Any]:
        """The same steps, each owner's slopes by one kernel (see `fused`)."""
        assert self.fused is not None
        weights = self._initial(n_pools)
        lack = self._absent(present | (n_rows == 0)[:, None])
        absent = self.numbers.zeros(n_pools, self.columns, 1) if lack is None else lack
        share = self.numbers.array(1 / np.maximum(n_rows, 1))[:, None, None]
        share = share / 2 if self.sign_only else share
        work = self.fused.work(members, self.fused_rows)
        pull = self.numbers.zeros(n_pools, self.columns, self.width)
        for part in work:
            pull.index_add_(0, part.pools, part.pull.expand(len(part.pools), -1, -1))
        steps = Steps(self.recipe, self.numbers, weights, self.n_features)
        for _ in range(self.recipe.steps):
            slopes = self.numbers.xp.negative(pull)
            self.fused.add_slopes(weights[0], work, absent, slopes)
            slopes *= share
            steps.take([slopes])
        return weights

    def _marks(self, owner: int, rows: BoolArray | None) -> list[Any] | None:
        """For each piece of the owner, which of its rows each pool of a tile holds."""
        if rows is None:
            return None
        return [
            self.numbers.array(
                np.pad(rows[:, p.start : p.stop], ((0, 0), (0, len(p.X) - (p.stop - p.start)))),
                dtype=self.numbers.xp.bool if self.numbers.name == "torch" else np.bool_,
            )[:, None, :]
            for p in self.pieces[owner]
        ]

    def _absent(self, present: BoolArray) -> Any:
        """What to add to the logits so that a class that a pool lacks takes no part."""
        if self.sign_only or bool(present.all()):
            return None
        return self.numbers.array(np.where(present, 0.0, -np.inf))[:, :, None]

    def _pull(self, n_pools: int, work: list[Any]) -> Any:
        """Σ targets · rows of each pool: the part of a linear model's slope that never changes."""
        total = self.numbers.zeros(n_pools, self.columns, self.width)
        for pieces, pools, marks in work:
            for i, piece in enumerate(pieces):
                targets = piece.targets[None] if marks is None else piece.targets[None] * marks[i]
                part = self._back(self.numbers.factor(targets), piece.X)
                part = self.numbers.xp.broadcast_to(part, (len(pools), *part.shape[1:]))
                self.numbers.add_rows(total, pools, part)
        return total

    def _slopes(self, weights: list[Any], work: list[Any], absent: Any) -> list[Any]:
        """Slope of the summed loss (without `pull`, where the model is linear) of every pool."""
        slopes = [self.numbers.xp.zeros_like(w) for w in weights]
        factors = [self.numbers.factor(w) for w in weights]
        for pieces, pools, marks in work:
            chosen = [w[pools] for w in factors]
            hidden = None if absent is None else absent[pools]
            for i, piece in enumerate(pieces):
                mark = None if marks is None else marks[i]
                parts = self._piece_slopes(chosen, piece, mark, hidden)
                for slope, part in zip(slopes, parts, strict=True):
                    self.numbers.add_rows(slope, pools, part)
        return slopes

    def _piece_slopes(self, weights: list[Any], piece: Piece, mark: Any, absent: Any) -> list[Any]:
        if self.recipe.hidden == 0:
            missed = self._activate(self.across(weights[0], piece.XT), absent)
            if not self.split:
                missed -= piece.targets
            if mark is not None:
                missed *= mark
            return [self._back(missed, piece.X)]
        real = piece.X[:, self.n_features]  # 1, and 0 for rows that only fill up
        marked = real if mark is None else mark * real
        below = self.across(weights[0], piece.XT)
        return self._network_slopes(weights, below, piece.targets, marked, absent, piece.X)

    def _network_slopes(
        self, weights: list[Any], below: Any, targets: Any, real: Any, absent: Any, X: Any
    ) -> list[Any]:
        """Back-propagation through the hidden layer; `below` (t, h, n) becomes its activation."""
        numbers = self.numbers
        hidden, scores = self.above(weights, below)
        missed = (self._activate(scores, absent) - numbers.factor(targets)) * real
        back = (weights[1].swapaxes(1, 2) @ missed) * (hidden > 0)
        second = numbers.sums(missed, hidden.swapaxes(1, 2))
        first = self._back(back, X) if X.ndim == 2 else numbers.sums(back, X)
        return [first, second, missed.sum(axis=2, keepdims=True, dtype=numbers.dtype)]

    def above(self, weights: list[Any], below: Any) -> tuple[Any, Any]:
        """Activation of the hidden layer, and the logits that it leads to."""
        xp = self.numbers.xp
        hidden = xp.maximum(below, xp.zeros_like(below[:1, :1, :1]))
        return hidden, weights[1] @ hidden + weights[2]

    def across(self, weights: Any, XT: Any) -> Any:
        """(t, k, d) weights times the same rows for all pools: (t, k, n)."""
        t, k, d = weights.shape
        return (weights.reshape(t * k, d) @ XT).reshape(t, k, -1)

    def _back(self, missed: Any, X: Any) -> Any:
        """(t, k, n) residuals times the same rows for all pools: (t, k, d)."""
        t, k, n = missed.shape
        return self.numbers.sums(missed.reshape(t * k, n), X).reshape(t, k, -1)

    def _activate(self, scores: Any, absent: Any) -> Any:
        """Logits (t, columns, n) to probabilities, in place; for two classes to 2p − 1."""
        xp = self.numbers.xp
        if self.sign_only:
            return xp.tanh(scores, out=scores)
        if absent is not None:
            scores += absent
        scores -= xp.amax(scores, axis=1, keepdims=True)
        xp.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def train_rows(self, rows: IntArray, present: BoolArray, n_rows: IntArray) -> list[Any]:
        """Train pools given by the rows of their mini-batches, shape (pools, steps · batch_size).

        Tile by tile, all steps of a tile before the next one is begun.
        """
        tile, n_pools = self.numbers.batch_tile, len(rows)
        done = []
        seen = present | (n_rows == 0)[:, None]
        for start in range(0, n_pools, tile):
            some = slice(start, start + tile)
            fill = tile - len(rows[some])
            chosen = np.pad(rows[some], ((0, fill), (0, 0))) if fill else rows[some]
            there = np.pad(seen[some], ((0, fill), (0, 0)), constant_values=True)
            weights = self._run_batches(chosen, self._absent(there))
            done.append([w[: tile - fill] for w in weights])
        trained = [self.numbers.xp.concatenate(parts) for parts in zip(*done, strict=True)]
        untouched = np.flatnonzero(n_rows == 0)
        if len(untouched):
            for w, first in zip(trained, self._initial(1), strict=True):
                w[self.numbers.index(untouched)] = first
        return trained

    def _run_batches(self, rows: IntArray, absent: Any) -> list[Any]:
        """All steps of one tile: every pool multiplies its own mini-batch of rows."""
        weights = self._initial(len(rows))
        steps = Steps(self.recipe, self.numbers, weights, self.n_features)
        size = self.recipe.batch_size
        assert size is not None
        on_device = self.numbers.index(rows)
        for step in range(self.recipe.steps):
            batch = on_device[:, step * size : (step + 1) * size]
            X = self.numbers.take(self.rows, batch)
            targets = self.numbers.take(self.targets, batch)
            steps.take(self._batch_slopes(weights, X, targets, absent))
        return weights

    def _batch_slopes(self, weights: list[Any], X: Any, targets: Any, absent: Any) -> list[Any]:
        factors = [self.numbers.factor(w) for w in weights]
        scores = factors[0] @ X.swapaxes(1, 2)
        wanted = targets.swapaxes(1, 2)
        share = 1 / X.shape[1]
        if self.recipe.hidden == 0:
            missed = self._activate(scores, absent)
            missed -= wanted
            missed *= share / 2 if self.sign_only else share
            return [self.numbers.sums(missed, X)]
        return self._network_slopes(factors, scores, wanted, share, absent, X)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
