"""What an additive model is: how rows become sums, and sums a score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.summaries import Kind, Statistics

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame


class Additive(ABC):
    """A model that is trained from sums: how rows become sums, and sums a score.

    Subclasses work on pooled vectors with pools along the last axis, shape (K, m). `kind` names
    the statistics they are trained from, `most` how many pools they take at a time.
    """

    kind: ClassVar[Kind]
    most: ClassVar[int] = 1024

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
