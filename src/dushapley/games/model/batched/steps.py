"""Optimizers that step many pools' weights at once."""

from __future__ import annotations

from typing import Any

from dushapley.games.model.batched.arithmetic import Arithmetic
from dushapley.games.model.batched.recipe import BETA_1, BETA_2, EPSILON, FLAT, Recipe


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
        self.recipe = recipe
        self.xp = xp
        self.weights = weights
        self.n_features = n_features
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
