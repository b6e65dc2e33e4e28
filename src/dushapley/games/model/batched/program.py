"""The tensor program: thousands of pools' small classifiers trained at once.

The loop over pools is the last axis that should cost anything. For every owner, the weights of the
pools that hold it are gathered into tiles, multiplied with the owner's rows in one matrix product,
turned into residuals, and multiplied back. So rows are read once for a tile of pools instead of
once for each pool, and absent owners are never touched.

A pool's weights come out the same to the last bit whatever other pools share its block: all matrix
products have constant shapes, each pool is a row of its own in them, everything else works element
by element, and sums over owners run in a fixed order.

Trained pools are scored on the device as well, tile by tile (`Judge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.games.model.batched.arithmetic import Arithmetic
from dushapley.games.model.batched.fused import Piece, Work, fused_step
from dushapley.games.model.batched.recipe import (
    Membership,
    Recipe,
    Steps,
    batch_rows,
    count_classes,
    softmax,
)

GROUPS = 128
"""Groups of test rows that are counted apart where no kernel adds up single rows."""


@dataclass(frozen=True)
class Trained:
    """Weights of a block of pools, on the device, and the classes each pool has seen."""

    weights: list[Any]
    present: BoolArray
    n_rows: IntArray

    @property
    def seen(self) -> BoolArray:
        """Classes that each pool may predict; one without rows any."""
        return self.present | (self.n_rows == 0)[:, None]

    @property
    def edges(self) -> FloatArray:
        """Scores from which on each pool of two classes says the second.

        A class that a pool has not seen loses whatever the score says.
        """
        low, high = self.seen.T
        return np.where(high, np.where(low, 0.0, -np.inf), np.inf)


def joined(blocks: Sequence[Trained], numbers: Arithmetic) -> Trained:
    """Several blocks as one, where this arithmetic computes."""
    xp, device = numbers.xp, numbers.device
    layers = zip(*(block.weights for block in blocks), strict=True)
    return Trained(
        [xp.concatenate([xp.asarray(w, device=device) for w in layer]) for layer in layers],
        np.concatenate([block.present for block in blocks]),
        np.concatenate([block.n_rows for block in blocks]),
    )


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
        self.labels, self.n_classes, self.order = labels, len(labels), order
        self.n_features = X[0].shape[1]
        self.sizes = np.array([len(rows) for rows in X])
        # two classes need one column of weights, the other being its negative
        self.sign_only = len(labels) == 2 and recipe.hidden == 0
        self.columns = 1 if self.sign_only else len(labels)
        # X'(P − Y) = X'P − X'Y, the second part known beforehand; where the sum is nearly nothing
        # it is rounding error, which Adam would blow up to full steps
        self.split = recipe.hidden == 0 and recipe.optimizer == "sgd"
        self.width = -(-(self.n_features + 1) // numbers.align) * numbers.align
        whole = self.split and recipe.batch_size is None
        self.fused = fused_step(numbers, self.columns, self.width) if whole else None
        if self.fused is not None:
            self.fused_rows = [
                self.fused.laid_out(self.padded(rows), self._targets(c))
                for rows, c in zip(X, codes, strict=True)
            ]
        elif recipe.batch_size is None:
            self.pieces = [list(self._cut(rows, c)) for rows, c in zip(X, codes, strict=True)]
        else:  # all rows one after the other, for mini-batches
            self.rows = self._prepared(np.concatenate([X[j] for j in self.order]))
            classes = np.concatenate([codes[j] for j in self.order])
            self.targets = numbers.array(self._targets(classes).T.copy())

    def _cut(self, X: Array, codes: IntArray) -> Iterator[Piece]:
        for start in range(0, len(X), self.numbers.piece):
            some = slice(start, start + self.numbers.piece)
            rows, targets = self._prepared(X[some]), self._targets(codes[some])
            filled = np.pad(targets, ((0, 0), (0, len(rows) - targets.shape[1])))
            across = rows.T.copy() if self.numbers.name == "numpy" else rows.T
            yield Piece(rows, across, self.numbers.array(filled), start=start)

    def _prepared(self, X: Array) -> Any:
        """Rows as matrix products read them."""
        return self.numbers.factor(self.numbers.array(self.padded(X, self.numbers.align)))

    def padded(self, X: Array, align: int = 1) -> FloatArray:
        """Rows with an intercept, padded with zeros; as many as a multiple of `align`."""
        filling = (0, -len(X) % align), (0, self.width - self.n_features - 1)
        return np.pad(np.hstack([X, np.ones((len(X), 1))]), filling)

    def _targets(self, codes: IntArray) -> FloatArray:
        if self.sign_only:
            return np.where(codes == 1, 1.0, -1.0)[None, :]
        return np.eye(self.n_classes)[codes].T

    def pools_within(self, memory: int) -> int:
        """How many pools may be trained at a time in so many bytes, at least."""
        size, batch = 8 if self.numbers.precision == "float64" else 4, self.recipe.batch_size or 0
        initial = self.recipe.initial_weights(self.width - 1, self.labels[: self.columns])
        marks = 0 if batch else (1 if self.fused else 2) * int(self.sizes.sum())
        pool = 6 * sum(w.size for w in initial) * size + marks + 24 * self.recipe.steps * batch
        # and one tile while it is multiplied
        rows = batch or min(int(self.sizes.max()), self.numbers.piece)
        wide = 4 * (self.recipe.hidden + self.columns) + 4 + (2 * self.width if batch else 0)
        return max(1, (memory - self.numbers.tile * rows * wide * size) // pool)

    def train(self, n_pools: int, members: list[Membership]) -> Trained:
        """Train a block of pools."""
        counts = count_classes(n_pools, members, self.codes, self.n_classes)
        present, n_rows = counts > 0, counts.sum(axis=1)
        with self.numbers.in_force():
            if self.recipe.batch_size is not None:
                rows = batch_rows(self.recipe, members, self.sizes, self.order, n_rows)
                return Trained(self.train_rows(rows, present, n_rows), present, n_rows)
            # one more than there are pools: tiles are filled up with the last
            weights = self._initial(n_pools + 1)
            seen = present | (n_rows == 0)[:, None]
            absent = self._absent(np.pad(seen, ((0, 1), (0, 0)), constant_values=True))
            each = (0.5 if self.sign_only else 1.0) / np.maximum(np.append(n_rows, 1), 1)
            share = self.numbers.array(each)[:, None, None]
            if self.fused is None:
                work, slopes_of = self._work(members, n_pools), self._slopes
            else:
                work, slopes_of = self.fused.work(members, self.fused_rows), self.fused.slopes
            pull = self._pull(n_pools + 1, work) if self.split else None
            steps = Steps(self.recipe, weights, self.numbers, self.n_features)
            for _ in range(self.recipe.steps):
                slopes = slopes_of(weights, work, absent, pull)
                for slope in slopes:
                    slope *= share
                steps.take(slopes)
            return Trained([w[:n_pools] for w in weights], present, n_rows)

    def _initial(self, n_pools: int) -> list[Any]:
        first, *others = self.recipe.initial_weights(self.n_features, self.labels[: self.columns])
        padded = np.pad(first, ((0, 0), (0, self.width - first.shape[1])))
        each = [self.numbers.array(w) for w in (padded, *others)]
        return [self.numbers.xp.tile(w, (n_pools, 1, 1)) for w in each]

    def _work(self, members: list[Membership], n_pools: int) -> list[Work]:
        """Products of tiles of pools with pieces of an owner."""
        return [
            Work(piece, self.numbers.index(pools), self._marks(piece, rows))
            for member in members
            for pools, rows in member.tiles(self.numbers.tile, n_pools)
            for piece in self.pieces[member.owner]
        ]

    def _marks(self, piece: Piece, rows: BoolArray | None) -> Any:
        """Which rows of the piece each pool of a tile holds; None where they hold all."""
        if rows is None:
            return None
        taken = rows[:, piece.start : piece.start + self.numbers.piece]
        padded = np.pad(taken, ((0, 0), (0, len(piece.X) - taken.shape[1])))
        return self.numbers.array(padded, self.numbers.xp.bool)[:, None, :]

    def _absent(self, present: BoolArray) -> Any:
        """What to add to the logits so that a class that a pool lacks takes no part."""
        if self.sign_only or bool(present.all()):
            return None
        return self.numbers.array(np.where(present, 0.0, -np.inf))[:, :, None]

    def _pull(self, n_pools: int, work: list[Work]) -> Any:
        """Σ targets · rows of each pool: the part of a linear model's slope that never changes."""
        total = self.numbers.zeros(n_pools, self.columns, self.width)
        for part in work:
            pull = part.pull
            if pull is None:
                targets = part.piece.targets[None]
                held = targets if part.marks is None else targets * part.marks
                pull = self._back(self.numbers.factor(held), part.piece.X)
            shape = (len(part.pools), *pull.shape[1:])
            self.numbers.add_rows(total, part.pools, self.numbers.xp.broadcast_to(pull, shape))
        return total

    def _slopes(self, weights: list[Any], work: list[Work], absent: Any, pull: Any) -> list[Any]:
        """Slope of the summed loss of every pool."""
        slopes = [self.numbers.xp.zeros_like(w) for w in weights]
        factors = [self.numbers.factor(w) for w in weights]
        for part in work:
            chosen = [w[part.pools] for w in factors]
            lack = None if absent is None else absent[part.pools]
            X, marks = part.piece.X, part.marks
            if self.recipe.hidden:
                real = X[:, self.n_features]  # 1, and 0 for rows that only fill up
                marks = real if marks is None else marks * real
            below = self.across(chosen[0], part.piece.XT)
            targets = None if self.split else part.piece.targets
            added = self._gradients(chosen, below, targets, marks, lack, X)
            for slope, more in zip(slopes, added, strict=True):
                self.numbers.add_rows(slope, part.pools, more)
        if pull is not None:
            slopes[0] -= pull
        return slopes

    def _gradients(
        self, weights: list[Any], below: Any, targets: Any, shares: Any, absent: Any, X: Any
    ) -> list[Any]:
        """Back-propagate what is missed; `below` (t, h or columns, n) is used up.

        `shares` of the rows; None: each counts once. Without `targets`, probabilities take their
        place.
        """
        if self.recipe.hidden == 0:
            missed = self._activate(below, absent)
            if targets is not None:
                missed -= targets
            if shares is not None:
                missed *= shares
            return [self._back(missed, X)]
        numbers = self.numbers
        hidden, scores = self.above(weights, below)
        missed = (self._activate(scores, absent) - numbers.factor(targets)) * shares
        back = (weights[1].swapaxes(1, 2) @ missed) * (hidden > 0)
        second = numbers.sums(missed, hidden.swapaxes(1, 2))
        third = missed.sum(axis=2, keepdims=True, dtype=numbers.dtype)
        return [self._back(back, X), second, third]

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
        """(t, k, n) residuals times rows, each pool's own or the same for all: (t, k, d)."""
        if X.ndim == 3:
            return self.numbers.sums(missed, X)
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
        numbers, size, done = self.numbers, self.recipe.batch_size or 1, []
        tile, share = numbers.batch_tile, (0.5 if self.sign_only else 1.0) / size
        seen = present | (n_rows == 0)[:, None]
        for start in range(0, len(rows), tile):
            some = slice(start, start + tile)
            fill = tile - len(rows[some])
            chosen = numbers.index(np.pad(rows[some], ((0, fill), (0, 0))) if fill else rows[some])
            absent = self._absent(np.pad(seen[some], ((0, fill), (0, 0)), constant_values=True))
            weights = self._initial(tile)
            steps = Steps(self.recipe, weights, numbers, self.n_features)
            for step in range(self.recipe.steps):
                batch = chosen[:, step * size : (step + 1) * size]
                X = numbers.take(self.rows, batch)  # each pool's own
                targets = numbers.take(self.targets, batch).swapaxes(1, 2)
                factors = [numbers.factor(w) for w in weights]
                below = factors[0] @ X.swapaxes(1, 2)
                steps.take(self._gradients(factors, below, targets, share, absent, X))
            done.append([w[: tile - fill] for w in weights])
        return [numbers.xp.concatenate(parts) for parts in zip(*done, strict=True)]


class Judge:
    """Scores blocks of trained pools on fixed test rows, tile by tile.

    Products here are never of lower precision than float32: they cost little, and a score counts
    on which side of a boundary a row falls.

    Parameters
    ----------
    program
        The program whose pools are to be scored.
    X, codes
        Test rows and their classes 0..C−1; −1 for a class that no owner has.

    Attributes
    ----------
    group, group_sizes
        To which random group each test row belongs, each to its own where a kernel adds up; and
        test rows of each group.
    """

    def __init__(self, program: Program, X: Array, codes: IntArray) -> None:
        coarse = program.numbers.precision in ("tf32", "float16")
        numbers = replace(program.numbers, precision="float32") if coarse else program.numbers
        self.program, self.numbers, self.n_rows = program, numbers, len(X)
        padded = program.padded(X)
        starts = range(0, len(X), numbers.piece)
        self.pieces = [numbers.array(padded[k : k + numbers.piece].T.copy()) for k in starts]
        self.answers = numbers.index(codes)
        # two classes are counted and weighed by kernels that write out no scores
        self.fused = program.fused if program.sign_only else None
        self.group = np.argsort(np.random.default_rng(0).permutation(len(X))) % GROUPS
        if self.fused is not None:
            self.group = np.arange(len(X))
            self.fused_test = self.fused.scored_rows(padded, codes)
        self.group_sizes = np.bincount(self.group).astype(np.float64)

    def correct(self, trained: Trained) -> Array:
        """Which test rows each pool predicts rightly, shape (pools, test rows)."""
        return np.concatenate([self.numbers.to_numpy(right) for right in self._right(trained)])

    def accuracy(self, trained: Trained) -> FloatArray:
        """Share of the test rows that each pool predicts rightly, shape (pools,)."""
        return self.numbers.to_numpy(self.hits(trained)) / self.n_rows

    def hits(self, trained: Trained) -> Any:
        """How many test rows each pool predicts rightly, still on the device."""
        if self.fused is None:
            return self.numbers.xp.concatenate([r.sum(axis=1) for r in self._right(trained)])
        with self.numbers.in_force():
            return self.fused.hits(self.fused_test, *self.counted(trained))

    def counted(self, trained: Trained) -> list[Any]:
        """List what hits are added up from, on the device, with an entry for each pool.

        Weights and edges where a kernel adds up, or else the hits in each group of test rows.
        """
        if self.fused is not None:
            return [trained.weights[0], self.numbers.array(trained.edges)]
        xp = self.numbers.xp
        groups = np.arange(len(self.group_sizes))
        member = self.numbers.array(self.group[:, None] == groups, xp.float32)
        right = [xp.asarray(r, dtype=xp.float32) @ member for r in self._right(trained)]
        return [xp.concatenate(right)]

    def weighed(self, counted: list[Any], weights: Any) -> Any:
        """Σ weights · hits by group, for weights (I, pools) on the device: shape (I, groups)."""
        if self.fused is None:
            return weights @ self.numbers.xp.asarray(counted[0], dtype=self.numbers.xp.float64)
        pools, edges = counted
        with self.numbers.in_force():
            sums = self.fused.influence(self.fused_test, pools, edges, weights)
        return sums[:, : self.n_rows]

    def probabilities(self, trained: Trained) -> FloatArray:
        """Probability of each class, shape (pools, test rows, C), in float64."""
        parts, seen = [], trained.seen[:, :, None]
        for pools, scores in self._scores(trained):
            rows = [self.numbers.to_numpy(s) for s in scores]
            logits = np.concatenate(rows, axis=2).astype(np.float64)
            if self.program.sign_only:
                logits = np.concatenate([-logits, logits], axis=1)
            parts.append(softmax(logits, seen[pools]).swapaxes(1, 2))
        return np.concatenate(parts)

    def _right(self, trained: Trained) -> Iterator[Any]:
        """Whether the predicted classes are the true ones, tile by tile, on the device."""
        # a class that a pool has not seen loses whatever the score says
        lack = np.where(trained.seen, 0.0, -np.inf)[:, :, None]
        bounds = trained.edges[:, None] if self.program.sign_only else lack
        for pools, scores in self._scores(trained):
            bound = self.numbers.array(bounds[pools])
            if self.program.sign_only:
                guesses = [s[:, 0] > bound for s in scores]
            else:
                guesses = [(s + bound).argmax(axis=1) for s in scores]
            yield self.numbers.xp.concatenate(guesses, axis=1) == self.answers

    def _scores(self, trained: Trained) -> Iterator[tuple[slice, list[Any]]]:
        """Logits (pools, columns, test rows), tile by tile and piece by piece."""
        tile, n_pools = self.numbers.tile, len(trained.n_rows)
        for start in range(0, n_pools, tile):
            pools = slice(start, min(start + tile, n_pools))
            # filled up with the last pool, which stays on the device: of few it is most of the tile
            filled = self.numbers.index(np.minimum(np.arange(start, start + tile), n_pools - 1))
            weights = [w[filled] for w in trained.weights]
            with self.numbers.in_force():
                logits = [self.program.across(weights[0], XT) for XT in self.pieces]
                if len(weights) > 1:
                    logits = [self.program.above(weights, below)[1] for below in logits]
            yield pools, [scores[: pools.stop - start] for scores in logits]
