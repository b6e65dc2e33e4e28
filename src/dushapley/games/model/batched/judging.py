"""What trained pools are worth: their predictions on the test rows, scored on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.games.model.batched.program import Program, Trained

GROUPS = 128
"""Groups of test rows that are counted apart where no kernel adds up single rows."""
Sums = Callable[[Any, slice], Any]
"""(weights (I, m) on the device, which pools) -> Σ weights · hits by group, shape (I, groups)."""


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
    """

    def __init__(self, program: Program, X: Array, codes: IntArray) -> None:
        coarse = program.numbers.precision in ("tf32", "float16")
        numbers = replace(program.numbers, precision="float32") if coarse else program.numbers
        self.program, self.numbers = program, numbers
        padded = program.padded(X)
        cuts = range(0, len(X), numbers.piece)
        self.pieces = [numbers.array(padded[a : a + numbers.piece].T.copy()) for a in cuts]
        self.answers = [numbers.index(codes[a : a + numbers.piece]) for a in cuts]
        self.n_rows = len(X)
        # two classes are counted and weighed by kernels that write out no scores
        self.fused = program.fused if program.sign_only else None
        if self.fused is not None:
            self.fused_test = self.fused.scored_rows(padded, codes)
        self.groups = len(X) if self.fused is not None else min(len(X), GROUPS)

    def correct(self, trained: Trained) -> Array:
        """Which test rows each pool predicts rightly, shape (pools, test rows)."""
        tile, n_pools = self.numbers.tile, len(trained.n_rows)
        found = np.empty((n_pools, self.n_rows), dtype=np.bool_)
        for start, right in zip(range(0, n_pools, tile), self._right(trained), strict=True):
            pools = found[start : start + tile]
            # what fills the tile up stays on the device: of few pools it is most of the tile
            parts = [self.numbers.to_numpy(r[: len(pools)]) for r in right]
            np.concatenate(parts, axis=1, out=pools)
        return found

    def accuracy(self, trained: Trained) -> FloatArray:
        """Share of the test rows that each pool predicts rightly, shape (pools,)."""
        return np.asarray(self.numbers.to_numpy(self.hits(trained)) / self.n_rows)

    def hits(self, trained: Trained) -> Any:
        """How many test rows each pool predicts rightly, still on the device."""
        if self.fused is not None:
            with self.numbers.in_force():
                edges = self.fused.edges(_seen(trained))
                return self.fused.hits(self.fused_test, trained.weights[0], edges)
        hits = [sum(r.sum(axis=1) for r in right) for right in self._right(trained)]
        return self.numbers.xp.concatenate(hits)[: len(trained.n_rows)]

    @cached_property
    def group(self) -> IntArray:
        """To which random group each test row belongs; each to its own where a kernel adds up."""
        if self.fused is not None:
            return np.arange(self.n_rows)
        place = np.empty(self.n_rows, dtype=np.int64)
        place[np.random.default_rng(0).permutation(self.n_rows)] = np.arange(self.n_rows)
        return place % self.groups

    def counted(self, parts: Sequence[Trained]) -> tuple[Any, Sums]:
        """Hits of each pool of some blocks, and how to add them up by group, on the device."""
        xp = self.numbers.xp
        if self.fused is None:
            by_group = xp.concatenate([self.hits_by_group(part) for part in parts])
            return by_group.sum(axis=1), lambda weights, some: weights @ _double(by_group[some], xp)
        hits = xp.concatenate([self.hits(part) for part in parts])
        weights = xp.concatenate([part.weights[0] for part in parts])
        edges = self.fused.edges(np.concatenate([_seen(part) for part in parts]))
        return hits, partial(self._weighed, weights, edges)

    def _weighed(self, weights: Any, edges: Any, shares: Any, some: slice) -> Any:
        assert self.fused is not None
        with self.numbers.in_force():
            sums = self.fused.influence(self.fused_test, weights[some], edges[some], shares)
        return sums[:, : self.n_rows]

    def hits_by_group(self, trained: Trained) -> Any:
        """How many test rows of each group each pool predicts rightly, on the device."""
        member = self.numbers.array(self.group[:, None] == np.arange(self.groups), self._float)
        tiles = [
            self.numbers.xp.concatenate(right, axis=1) * self._one @ member
            for right in self._right(trained)
        ]
        return self.numbers.xp.concatenate(tiles)[: len(trained.n_rows)]

    @property
    def _float(self) -> Any:
        return self.numbers.xp.float32

    @property
    def _one(self) -> Any:
        return self.numbers.array(np.ones(1), self._float)  # counts are whole, and exact

    def probabilities(self, trained: Trained) -> FloatArray:
        """Probability of each class, shape (pools, test rows, C), in float64."""
        parts = []
        for scores, present in self._tiles(trained):
            rows = np.concatenate([self.numbers.to_numpy(s) for s in scores], axis=2)
            logits = rows.astype(np.float64)
            if self.program.sign_only:
                logits = np.concatenate([-logits, logits], axis=1)
            logits = np.where(present[:, :, None], logits, -np.inf)
            grown = np.exp(logits - logits.max(axis=1, keepdims=True))
            parts.append((grown / grown.sum(axis=1, keepdims=True)).swapaxes(1, 2))
        return np.concatenate(parts)[: len(trained.n_rows)]

    def _right(self, trained: Trained) -> Iterator[list[Any]]:
        """Whether the predicted classes are the true ones, tile by tile and piece by piece."""
        for scores, present in self._tiles(trained):
            if self.program.sign_only:
                low, high = (self.numbers.array(np.where(p, 0.0, -np.inf)) for p in present.T)
                # a class that a pool has not seen loses whatever the score says
                guesses = [(s[:, 0] + high[:, None] > -s[:, 0] + low[:, None]) * 1 for s in scores]
            else:
                lack = self.numbers.array(np.where(present, 0.0, -np.inf))[:, :, None]
                guesses = [(s + lack).argmax(axis=1) for s in scores]
            yield [guess == answer for guess, answer in zip(guesses, self.answers, strict=True)]

    def _tiles(self, trained: Trained) -> Iterator[tuple[list[Any], Array]]:
        tile, n_pools = self.numbers.tile, len(trained.n_rows)
        present = _seen(trained)
        for start in range(0, n_pools, tile):
            count = min(tile, n_pools - start)
            seen = np.ones((tile, self.program.n_classes), dtype=np.bool_)
            seen[:count] = present[start : start + count]
            weights = [self._filled(w, start, count) for w in trained.weights]
            with self.numbers.in_force():
                scores = [self._scores(weights, XT) for XT in self.pieces]
            yield scores, seen

    def _filled(self, weights: Any, start: int, count: int) -> Any:
        """One tile's weights, filled up with zeros to its constant size."""
        if count == self.numbers.tile:
            return weights[start : start + count]
        whole = self.numbers.zeros(self.numbers.tile, *weights.shape[1:])
        whole[:count] = weights[start : start + count]
        return whole

    def _scores(self, weights: list[Any], XT: Any) -> Any:
        below = self.program.across(weights[0], XT)
        return below if len(weights) == 1 else self.program.above(weights, below)[1]


def _seen(trained: Trained) -> BoolArray:
    """Classes that each pool may predict; one without rows any."""
    return trained.present | (trained.n_rows == 0)[:, None]


def _double(values: Any, xp: Any) -> Any:
    return values.astype(xp.float64) if xp is np else values.to(xp.float64)
