"""Real rows into cubes: what `RegressogramGame.from_owners` needs to know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.data.owners import Owners
from dushapley.errors import InvalidOwners


@dataclass(frozen=True)
class ExcessRisk:
    """Both halves of a regressogram's excess risk, E(f̂ − f*)² = E(f̂ − f̄)² + E(f̄ − f*)².

    Attributes
    ----------
    estimation
        Error of estimating the bins' means from everybody's rows: minus the game's u(all).
    approximation
        Error of being constant within bins: variance of the labels within bins, less the noise.
        The same for every coalition, so nobody's value depends on it.
    noise, prior
        Variances of a label's noise and of the bins' means, given or estimated.
    bins, per_axis
        Number of bins, and of slices along each feature.
    """

    estimation: float
    approximation: float
    noise: float
    prior: float
    bins: int
    per_axis: int


@dataclass(frozen=True)
class Cubes:
    """A grid of equal cubes over the range of all features."""

    low: FloatArray
    high: FloatArray
    per_axis: int

    @classmethod
    def over(cls, X: FloatArray, beta: float, per_axis: int | None) -> Cubes:
        """B ≈ n^{d/(d+2β)} bins: n^{1/(d+2β)} slices along each of d features."""
        n, d = X.shape
        slices = per_axis or max(1, round(n ** (1 / (d + 2 * beta))))
        if float(slices) ** d > 10**6:
            raise InvalidOwners(
                f"{slices} slices along each of {d} features make {slices**d:,} bins; a "
                "regressogram is for a few features. Choose fewer columns or per_axis=."
            )
        return cls(X.min(axis=0), X.max(axis=0), slices)

    @property
    def number(self) -> int:
        """How many cubes there are."""
        return int(self.per_axis ** len(self.low))

    def locate(self, X: FloatArray) -> IntArray:
        """The cube of every row; rows beyond the range belong to the nearest cube."""
        width = np.where(self.high > self.low, self.high - self.low, 1.0)
        step = np.floor((X - self.low) / width * self.per_axis).astype(np.int64)
        place = self.per_axis ** np.arange(len(self.low))
        return np.asarray(np.clip(step, 0, self.per_axis - 1) @ place)


def as_regression(owners: Owners) -> tuple[list[FloatArray], list[FloatArray]]:
    """Numeric features and labels of every owner, or what is wrong with them."""
    if owners.y[0] is None:
        raise InvalidOwners("The owners have no target; a regressogram learns one. Pass (X, y).")
    try:
        X = [np.asarray(block, dtype=np.float64).reshape(len(block), -1) for block in owners.X]
        y = [np.asarray(block, dtype=np.float64).ravel() for block in owners.y]
    except (TypeError, ValueError) as error:
        raise InvalidOwners(f"A regressogram needs numbers throughout ({error}).") from error
    if not all(np.isfinite(block).all() for block in (*X, *y)):
        raise InvalidOwners("A regressogram needs finite numbers; fill or drop missing values.")
    return X, y


def nearest_noise(X: FloatArray, y: FloatArray) -> float:
    """Noise variance from nearest neighbours: half the mean squared difference of their labels."""
    from scipy.spatial import cKDTree

    scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    neighbours = np.asarray(cKDTree(X / scale).query(X / scale, k=2)[1])
    return float(np.mean((y - y[neighbours[:, 1]]) ** 2) / 2)


def within_and_between(y: FloatArray, bins: IntArray, noise: float) -> tuple[float, float]:
    """Variance of labels within bins, and of the bins' true means, weighted by rows."""
    _, member, counts = np.unique(bins, return_inverse=True, return_counts=True)
    mean = np.bincount(member, y) / counts
    squares = float(((y - mean[member]) ** 2).sum())
    freedom = max(1, len(y) - len(counts))
    between = float(np.average((mean - y.mean()) ** 2 - noise / counts, weights=counts))
    return squares / freedom, between
