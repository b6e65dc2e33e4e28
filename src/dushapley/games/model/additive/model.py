"""What an additive model is: how rows become sums, and sums a score.

And what such models share: many small symmetric systems solved at once, each to the same bits
whatever the others are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.summaries import Kind, Statistics

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame

ELIMINATE_UP_TO = 24
"""Unknowns up to which eliminating all systems side by side beats solving one after the other."""


class Additive(ABC):
    """A model that is trained from sums: how rows become sums, and sums a score.

    Subclasses work on pooled vectors with pools along the last axis, shape (K, m). `kind` names
    the statistics they are trained from, `most` how many pools they take at a time.

    A pool's scores by test row are ``basis @ coefficients``: few coefficients a pool where rows
    need not be looked at again, or (`basis` None) the scores themselves.
    """

    kind: ClassVar[Kind]
    most: ClassVar[int] = 1024
    basis: FloatArray | None = None

    def __init__(self, game: ModelGame) -> None:
        self.game = game
        self.origin = np.asarray(game.X_test, dtype=np.float64).mean(axis=0)

    @abstractmethod
    def reduce(self, name: str, X: Array, y: Array) -> Statistics:
        """Rows of one owner as statistics."""

    @abstractmethod
    def vector(self, statistics: Statistics) -> FloatArray:
        """Statistics as a vector around the common origin, in which pools are sums."""

    @abstractmethod
    def scores(self, pooled: FloatArray) -> FloatArray:
        """Scores of pools that are not empty; NaN for those that a constant must answer for."""

    @abstractmethod
    def scored(self, pooled: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same, and coefficients of their scores by test row, shape (coefficients, m)."""


def solve(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m positive definite systems; shapes (p, p, m) and (p, k, m), pools along the last axis.

    Small systems are eliminated side by side, element by element over the pools; larger ones go to
    LAPACK one by one. Which it is depends on p alone.
    """
    p = len(systems)
    if p > ELIMINATE_UP_TO:
        solved: FloatArray = np.asarray(
            np.linalg.solve(np.moveaxis(systems, 2, 0), np.moveaxis(right, 2, 0)), np.float64
        )
        return np.moveaxis(solved, 0, 2)
    left, known = systems.copy(), right.copy()
    for k in range(p):
        ratio = left[k + 1 :, k] / left[k, k]
        left[k + 1 :, k + 1 :] -= ratio[:, None] * left[k, k + 1 :]
        known[k + 1 :] -= ratio[:, None] * known[k]
    for k in reversed(range(p)):
        known[k] -= (left[k, k + 1 :, None] * known[k + 1 :]).sum(axis=0)
        known[k] /= left[k, k]
    return known


def least_norm(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m semi-definite systems by their shortest solutions; shapes as in `solve`.

    Directions whose eigenvalue is below p·ε of the largest are rounding error and left out.
    """
    values, vectors = np.linalg.eigh(np.moveaxis(systems, 2, 0))
    cut = len(systems) * np.finfo(np.float64).eps * np.abs(values).max(axis=1, keepdims=True)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > cut)
    inside = np.swapaxes(vectors, 1, 2) @ np.moveaxis(right, 2, 0)
    return np.moveaxis(vectors @ (inverse[:, :, None] * inside), 0, 2)
