"""How a small model is trained, and on which rows: shared by every path that trains it.

The reference estimators train one pool from a recipe the obvious way, the tensor program trains
thousands of pools from the same recipe at once. What both must agree on is written here, once: the
initial weights, which rows a mini-batch holds, and the softmax. The optimizer that steps many
pools' weights at once is here too.

Which pools hold which owners' rows is a list of memberships: pools that hold an owner are gathered
into tiles of constant size, so that rows of absent owners cost nothing and every matrix product has
the same shape whoever else is in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.errors import InvalidOption
from dushapley.games.model.batched.arithmetic import Arithmetic, arithmetic
from dushapley.hashing import whole_number
from dushapley.validation import check_choice, check_whole

Optimizer = Literal["sgd", "adam"]
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants, as everybody uses them."""
FLAT = 1e-6
"""Slopes below this count as zero for Adam, which would make full steps of their rounding errors
(of an intercept whose classes are balanced, say)."""


@dataclass(frozen=True)
class Recipe:
    """A fixed number of gradient steps on the mean cross-entropy of a small classifier.

    Parameters
    ----------
    hidden
        Width of the hidden layer of rectified units; 0 is plain softmax regression.
    steps
        Number of gradient steps, always all of them.
    learning_rate, optimizer, momentum
        "sgd" with Nesterov's momentum (0: plain descent), or "adam", which has its own.
    batch_size
        Rows in a mini-batch; None takes all rows in every step.
    l2
        Weight of half the squared weights (intercepts are free) beside the mean loss.
    seed
        Draws initial weights (where they are not zero) and mini-batches.
    """

    hidden: int = 0
    steps: int = 20
    learning_rate: float = 0.5
    optimizer: Optimizer = "sgd"
    momentum: float = 0.9
    batch_size: int | None = None
    l2: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("hidden", 0), ("steps", 1), ("batch_size", 1), ("seed", 0)):
            if name != "batch_size" or self.batch_size is not None:
                check_whole(getattr(self, name), name, least, InvalidOption)
        check_choice(self.optimizer, "optimizer", ("sgd", "adam"), InvalidOption)
        positive = np.isfinite(self.learning_rate) and self.learning_rate > 0
        if not (positive and 0 <= self.momentum < 1 and np.isfinite(self.l2) and self.l2 >= 0):
            raise InvalidOption(
                f"Found learning_rate={self.learning_rate!r}, momentum={self.momentum!r}, "
                f"l2={self.l2!r}; training needs a positive rate, 0 ≤ momentum < 1 and l2 ≥ 0."
            )

    @property
    def words(self) -> str:
        """The recipe in words."""
        model = f"{self.hidden} rectified units" if self.hidden else "softmax regression"
        rows = "all rows" if self.batch_size is None else f"{self.batch_size} rows"
        how = self.optimizer + (f" (momentum {self.momentum:g})" if self.optimizer == "sgd" else "")
        return f"{model}, {self.steps} steps of {how} on {rows} at rate {self.learning_rate:.3g}"

    def initial_weights(self, n_features: int, labels: Sequence[Any]) -> list[FloatArray]:
        """First weights: [(C, d+1)] of zeros, or [(h, d+1), (C, h), (C, 1)] drawn by the seed.

        The last column of the first layer is its intercept. Rectified units begin with normal
        weights of variance 2/d, the output layer with 1/h, intercepts with zero. The output
        weights of a class depend on its label, not on which other classes there are.
        """
        if self.hidden == 0:
            return [np.zeros((len(labels), n_features + 1))]
        rng = np.random.default_rng([self.seed, 0])
        first = np.zeros((self.hidden, n_features + 1))
        first[:, :-1] = rng.normal(0, np.sqrt(2 / n_features), (self.hidden, n_features))
        seeds = [[self.seed, 2, whole_number(str(label), 8)] for label in labels]
        spread = np.sqrt(1 / self.hidden)
        second = [np.random.default_rng(seed).normal(0, spread, self.hidden) for seed in seeds]
        return [first, np.array(second), np.zeros((len(labels), 1))]

    def batch_positions(self, n_rows: IntArray | int) -> IntArray:
        """Rows of every mini-batch, shape (..., steps · batch_size), each below `n_rows`.

        One sequence of random 32-bit numbers r serves all pools: step by step a pool of n rows
        takes its rows ⌊r·n/2³²⌋, with replacement. So pools of like size see like rows, which
        takes noise out of the differences that values are made of.
        """
        rng = np.random.default_rng([self.seed, 1])
        r = rng.integers(2**32, size=self.steps * (self.batch_size or 1), dtype=np.int64)
        return (np.asarray(n_rows, dtype=np.int64)[..., None] * r) >> 32


class Steps:
    """An optimizer at work on weights, of one pool or of many, which it changes in place.

    Parameters
    ----------
    recipe
        How to step.
    weights
        Layer by layer; the columns of the first layer come last.
    numbers
        Where they are; None: in NumPy.
    n_features
        Columns of the first layer that the penalty pulls at, the next one being its intercept.
    """

    def __init__(
        self,
        recipe: Recipe,
        weights: list[Any],
        numbers: Arithmetic | None = None,
        n_features: int = -1,
    ) -> None:
        numbers = numbers or arithmetic()
        self.recipe, self.xp, self.weights = recipe, numbers.xp, weights
        self.n_features, self.taken, self.fused = n_features, 0, None
        if recipe.optimizer == "adam" and numbers.device != "cpu":
            # one pass over memory instead of nine; on the CPU its last bits depend on the place
            betas, rate = (BETA_1, BETA_2), recipe.learning_rate
            self.fused = self.xp.optim.Adam(weights, lr=rate, betas=betas, eps=EPSILON, fused=True)
        else:
            self.first = [self.xp.zeros_like(w) for w in weights]
            self.second = [self.xp.zeros_like(w) for w in weights]

    def take(self, slopes: list[Any]) -> None:
        """One step against the gradient; `slopes` are used up."""
        self.taken += 1
        if self.recipe.l2:
            free = self.n_features
            slopes[0][..., :free] += self.recipe.l2 * self.weights[0][..., :free]
            if len(slopes) > 1:
                slopes[1] += self.recipe.l2 * self.weights[1]
        if self.fused is not None:
            for w, g in zip(self.weights, slopes, strict=True):
                w.grad = self.xp.nn.functional.hardshrink(g, FLAT)
            self.fused.step()
            return
        rate, momentum = self.recipe.learning_rate, self.recipe.momentum
        for w, g, m, v in zip(self.weights, slopes, self.first, self.second, strict=True):
            if self.recipe.optimizer == "sgd":  # Nesterov's
                m *= momentum
                m += g
                g += momentum * m
                g *= rate
                w -= g
            else:
                g *= self.xp.abs(g) >= FLAT
                m *= BETA_1
                m += (1 - BETA_1) * g
                g *= g
                v *= BETA_2
                v += (1 - BETA_2) * g
                unbias = 1 / (1 - BETA_2**self.taken)
                w -= rate / (1 - BETA_1**self.taken) * m / (self.xp.sqrt(unbias * v) + EPSILON)


@dataclass(frozen=True)
class Membership:
    """Pools of a block that hold rows of one owner.

    Attributes
    ----------
    owner
        Which owner.
    pools
        Positions of the pools in the block.
    rows
        Shape (pools, rows of the owner): which rows each pool took; None where all took all.
    """

    owner: int
    pools: IntArray
    rows: BoolArray | None = None

    def tiles(self, size: int, n_pools: int) -> Iterator[tuple[IntArray, BoolArray | None]]:
        """Tiles of exactly `size` pools; the last is filled up with a pool that does not exist."""
        for start in range(0, len(self.pools), size):
            chosen = self.pools[start : start + size]
            missing = size - len(chosen)
            filled = np.pad(chosen, (0, missing), constant_values=n_pools)
            taken = None if self.rows is None else self.rows[start : start + size]
            yield filled, taken if taken is None else np.pad(taken, ((0, missing), (0, 0)))


def memberships(
    counts: IntArray | BoolArray,
    sizes: IntArray,
    draws: IntArray | None,
    rows_of: Callable[[int, int, int | None], IntArray | slice],
    order: list[int],
) -> list[Membership]:
    """Memberships of a block of pools, in the given order of owners.

    Parameters
    ----------
    counts
        Shape (pools, I): rows that each pool takes of each owner.
    sizes
        Rows that each owner has.
    draws
        Draw id of each pool; needed where part of an owner's rows is taken.
    rows_of
        (owner, count, draw) -> which of the owner's rows a pool takes.
    order
        Order of owners; sums follow it.
    """
    members = []
    for j, taken in zip(order, np.ascontiguousarray(counts.T[order]), strict=True):
        whole = np.flatnonzero((taken == sizes[j]) & (taken > 0))
        if len(whole):
            members.append(Membership(j, whole))
        if np.count_nonzero(taken) > len(whole):
            partial = np.flatnonzero((taken < sizes[j]) & (taken > 0))
            rows = np.zeros((len(partial), int(sizes[j])), dtype=np.bool_)
            for mark, pool in zip(rows, partial.tolist(), strict=True):
                draw = None if draws is None else int(draws[pool])
                mark[rows_of(j, int(counts[pool, j]), draw)] = True
            members.append(Membership(j, partial, rows))
    return members


def batch_rows(
    recipe: Recipe,
    members: Sequence[Membership],
    sizes: IntArray,
    order: Sequence[int],
    n_rows: IntArray,
) -> IntArray:
    """Rows of every mini-batch of every pool, shape (pools, steps · batch_size).

    Numbered as they stand when those of all owners are laid one after the other in this order.
    """
    ends = np.cumsum(sizes[list(order)])
    places = dict(zip(order, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    parts: list[list[IntArray]] = [[] for _ in n_rows]
    for member in members:
        rows = places[member.owner]
        for position, pool in enumerate(member.pools.tolist()):
            parts[pool].append(rows if member.rows is None else rows[member.rows[position]])
    positions = recipe.batch_positions(n_rows)
    for pool, part in enumerate(parts):
        if part:
            positions[pool] = np.concatenate(part)[positions[pool]]
    return positions


def count_classes(
    n_pools: int, members: Sequence[Membership], codes: Sequence[IntArray], n_classes: int
) -> IntArray:
    """Rows of each class in each pool, shape (pools, C)."""
    own = np.array([np.bincount(c, minlength=n_classes) for c in codes])
    exact = np.float32 if own.sum() < 2**24 else np.float64  # sums of whole numbers
    held = np.zeros((len(codes), n_pools), dtype=exact)
    parts = np.zeros((n_pools, n_classes), dtype=np.int64)
    for member in members:
        if member.rows is None:
            held[member.owner, member.pools] = 1
        else:
            classes = np.eye(n_classes, dtype=np.int64)[codes[member.owner]]
            parts[member.pools] += member.rows @ classes
    return (held.T @ own.astype(exact)).astype(np.int64) + parts


def softmax(scores: FloatArray, present: Array | bool = True) -> FloatArray:
    """Probabilities along the second axis over the classes that are present; others get zero."""
    masked = np.where(present, scores, -np.inf)
    grown = np.exp(masked - masked.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)
