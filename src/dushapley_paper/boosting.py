"""Gradient-boosted trees trained for thousands of pools at once.

All pools share the rows, so they share the bins; a pool is a row of zeros and ones saying which
rows it holds. The sums that choose a split are then one matrix product for all pools: residuals
(pools × rows) times the table of what falls into a bin or below it (rows × features·bins). This
makes the exact values of twenty owners of boosted trees affordable on a GPU, which a loop over
trainings does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Queries
from dushapley.data.owners import Owners
from dushapley.games.rows import RowsGame, blocks
from dushapley_paper.classifiers import numbers_for

TIE = 1 - 1e-5
"""Gains above this part of the best one are equal to it: float32 cannot tell them apart."""


@dataclass(frozen=True)
class Boosting:
    """How trees are grown.

    Parameters
    ----------
    rounds, rate
        Number of trees, and what part of each is added.
    depth
        Levels of splits in a tree.
    bins
        Quantile bins of every feature, shared by all pools.
    least
        Rows that each side of a split must hold.
    """

    rounds: int = 20
    rate: float = 0.1
    depth: int = 3
    bins: int = 32
    least: int = 5


class BoostedTreesGame(RowsGame):
    """u(S) = minus the mean squared test error of boosted trees grown on the rows of pool S.

    The empty pool is worth what the best constant prediction of the test targets is: minus their
    variance.

    Parameters
    ----------
    owners
        Whose rows are pooled; targets are numbers.
    X_test, y_test
        The test set.
    boosting
        How trees are grown.
    device
        None: NumPy, float32. Otherwise torch on this device ("cpu", "cuda").

    Notes
    -----
    Pools are trained `block` at a time, always filled up to that number: matrix products then have
    one shape, and a value does not depend on the company. Cost: about 2·rows·features·bins·160
    operations a training at the default depth.
    """

    cheap = False

    def __init__(
        self,
        owners: Owners,
        X_test: Array,
        y_test: Array,
        boosting: Boosting | None = None,
        device: str | None = None,
        block: int = 256,
    ) -> None:
        super().__init__(owners)
        self.boosting = boosting or Boosting()
        self.block = block
        self.numbers = numbers_for(device, "float32")
        self.xp = self.numbers.xp
        self.take = np.take_along_axis if self.xp is np else self.xp.take_along_dim
        X = np.concatenate([owners.X[j] for j in self.order])
        targets = np.concatenate([self.labels[j] for j in self.order])
        edges = quantile_edges(X, self.boosting.bins)
        codes = codes_of(X, edges)
        self.test_codes = self.numbers.index(codes_of(X_test, edges).T)
        self.codes, self.y = self.numbers.index(codes.T), self.numbers.array(targets)
        self.true_targets = self.numbers.array(y_test)
        self.at_most = self.numbers.array(up_to_bin(codes, self.boosting.bins))
        owner_of = np.repeat(self.order, self.sizes[self.order].astype(np.int64))
        self.membership = self.numbers.array(owner_of == np.arange(self.n_players)[:, None])
        self.empty = -float(np.var(y_test))

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        parts = blocks(queries, draws, self.block)
        return np.concatenate([self._block(pools, ids) for pools, ids in parts])

    def _block(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        counts = self.counts(queries)
        padded = np.zeros((self.block, self.n_players), dtype=np.float32)
        padded[: len(queries)] = counts == self.sizes
        held = self.numbers.array(padded) @ self.membership
        partial = np.flatnonzero(((counts > 0) & (counts < self.sizes)).any(axis=1))
        if len(partial):
            assert draws is not None
            masks = [self.row_mask(counts[p], int(draws[p])) for p in partial.tolist()]
            held[partial] = self.numbers.array(np.stack(masks))
        scores = self.numbers.to_numpy(train(self, held))[: len(queries)].astype(np.float64)
        return np.where(counts.any(axis=1), scores, self.empty)


def train(game: BoostedTreesGame, held: Any) -> Any:
    """Scores of a block of pools; `held` (pools, rows) says who holds what."""
    xp, boosting = game.xp, game.boosting
    total = xp.clip(held.sum(1), 1, None)
    start = ((held * game.y).sum(1) / total)[:, None]
    missed = held * (game.y - start)
    predicted = start + 0 * game.true_targets
    counts = held @ game.at_most
    for _ in range(boosting.rounds):
        node, test_node, leaves = grow(game, held, missed, counts)
        missed = missed - held * game.take(leaves, node, 1)
        predicted = predicted + game.take(leaves, test_node, 1)
    return -((predicted - game.true_targets) ** 2).mean(1)


def grow(game: BoostedTreesGame, held: Any, missed: Any, rows: Any) -> tuple[Any, Any, Any]:
    """One tree per pool: leaf of every training row and test row, and the value of every leaf.

    `rows`: how many rows each pool holds up to each bin, the same for all its trees.
    """
    xp, boosting = game.xp, game.boosting
    node = xp.zeros_like(held, dtype=xp.int64)
    test_node = node[:, :1] + 0 * game.test_codes[0]
    sums = [missed @ game.at_most]
    counts = [rows]
    for level in range(boosting.depth):
        chosen = [best_split(game, s, c) for s, c in zip(sums, counts, strict=True)]
        feature = xp.stack([f for f, _ in chosen], 1)
        threshold = xp.stack([t for _, t in chosen], 1)
        node = descend(game, node, game.codes, feature, threshold)
        test_node = descend(game, test_node, game.test_codes, feature, threshold)
        if level + 1 < boosting.depth:
            sums = children(game, missed, node, sums)
            counts = children(game, held, node, counts)
    return node, test_node, leaf_values(game, held, missed, node)


def children(game: BoostedTreesGame, values: Any, node: Any, parents: list[Any]) -> list[Any]:
    """Sums up to each bin in both children of every node: one is added up, the other the rest."""
    found = []
    for k, parent in enumerate(parents):
        left = (values * (node == 2 * k)) @ game.at_most
        found += [left, parent - left]
    return found


def best_split(game: BoostedTreesGame, sums: Any, counts: Any) -> tuple[Any, Any]:
    """Feature and last bin on the left side that leave the smallest squared error, per pool.

    Among splits equal but for rounding the first is taken, whatever the arithmetic. Where none
    leaves `least` rows on both sides, all bins go left.
    """
    xp, bins, least = game.xp, game.boosting.bins, game.boosting.least
    shape = (len(sums), -1, bins)
    left, rows = sums.reshape(shape), counts.reshape(shape)
    right, others = left[:, :, -1:] - left, rows[:, :, -1:] - rows
    allowed = (rows >= least - 0.5) & (others >= least - 0.5)
    gain = left**2 / xp.clip(rows, 1, None) + right**2 / xp.clip(others, 1, None)
    gain = xp.where(allowed, gain, -1.0).reshape(len(sums), -1)
    top = xp.amax(gain, 1)
    best = ((gain >= (top * TIE)[:, None]) * 1).argmax(1)
    return best // bins, xp.where(top < 0, bins + 0 * best, best % bins)


def descend(game: BoostedTreesGame, node: Any, codes: Any, feature: Any, threshold: Any) -> Any:
    """Send every row from its node to the left (2k) or right (2k+1) child."""
    own = game.take(codes, game.take(feature, node, 1), 0)
    return 2 * node + (own > game.take(threshold, node, 1))


def leaf_values(game: BoostedTreesGame, held: Any, missed: Any, node: Any) -> Any:
    """What each leaf adds: the rate times the mean residual of its rows."""
    xp, values = game.xp, []
    for leaf in range(2**game.boosting.depth):
        inside = held * (node == leaf)
        values.append((missed * inside).sum(1) / xp.clip(inside.sum(1), 1, None))
    return game.boosting.rate * xp.stack(values, 1)


def quantile_edges(X: Array, bins: int) -> FloatArray:
    """Inner edges of equally filled bins, shape (features, bins − 1)."""
    return np.quantile(X, np.arange(1, bins) / bins, axis=0).T


def codes_of(X: Array, edges: FloatArray) -> IntArray:
    """Bin of every entry, 0..bins−1."""
    columns = zip(np.asarray(X).T, edges, strict=True)
    return np.stack([np.searchsorted(e, x, side="left") for x, e in columns], axis=1)


def up_to_bin(codes: IntArray, bins: int) -> Array:
    """Shape (rows, features·bins): one where an entry falls into the bin or below it."""
    return (codes[:, :, None] <= np.arange(bins)).reshape(len(codes), -1).astype(np.float32)
