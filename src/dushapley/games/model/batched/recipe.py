"""How a small model is trained: everything but the rows, and shared by every path that trains it.

The reference estimators train one pool from a recipe the obvious way, the tensor program trains
thousands of pools from the same recipe at once. What both must agree on is written here, once: the
initial weights and which rows a mini-batch holds. The optimizer that steps many pools' weights at
once is here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.errors import InvalidOption
from dushapley.games.model.batched.arithmetic import Arithmetic
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
        assert self.batch_size is not None
        rng = np.random.default_rng([self.seed, 1])
        r = rng.integers(2**32, size=self.steps * self.batch_size, dtype=np.int64)
        return (np.asarray(n_rows, dtype=np.int64)[..., None] * r) >> 32


class Steps:
    """An optimizer at work on many pools' weights, which it changes in place."""

    def __init__(
        self, recipe: Recipe, numbers: Arithmetic, weights: list[Any], n_features: int
    ) -> None:
        xp = numbers.xp
        self.fused = None
        if recipe.optimizer == "adam" and numbers.device != "cpu":
            # one pass over memory instead of nine; on the CPU its last bits depend on the place
            self.fused = xp.optim.Adam(
                weights, lr=recipe.learning_rate, betas=(BETA_1, BETA_2), eps=EPSILON, fused=True
            )
        self.recipe, self.xp = recipe, xp
        self.weights, self.n_features = weights, n_features
        self.first, self.second = (
            [xp.zeros_like(w) for w in weights] if self.fused is None else [] for _ in range(2)
        )
        self.taken = 0

    def take(self, slopes: list[Any]) -> None:
        """One step against the gradient; `slopes` are used up."""
        self.taken += 1
        if self.recipe.l2:
            free = self.n_features
            slopes[0][:, :, :free] += self.recipe.l2 * self.weights[0][:, :, :free]
            if len(slopes) > 1:
                slopes[1] += self.recipe.l2 * self.weights[1]
        if self.recipe.optimizer == "sgd":
            self._nesterov(slopes)
        elif self.fused is None:
            self._adam(slopes)
        else:
            for w, g in zip(self.weights, slopes, strict=True):
                w.grad = self.xp.nn.functional.hardshrink(g, FLAT)
            self.fused.step()

    def _nesterov(self, slopes: list[Any]) -> None:
        momentum, rate = self.recipe.momentum, self.recipe.learning_rate
        for w, g, m in zip(self.weights, slopes, self.first, strict=True):
            m *= momentum
            m += g
            g += momentum * m
            g *= rate
            w -= g

    def _adam(self, slopes: list[Any]) -> None:
        unbias = 1 / (1 - BETA_2**self.taken)
        rate = self.recipe.learning_rate / (1 - BETA_1**self.taken)
        for w, g, m, v in zip(self.weights, slopes, self.first, self.second, strict=True):
            g *= self.xp.abs(g) >= FLAT
            m *= BETA_1
            m += (1 - BETA_1) * g
            g *= g
            v *= BETA_2
            v += (1 - BETA_2) * g
            w -= rate * m / (self.xp.sqrt(unbias * v) + EPSILON)
