"""Running mean and covariance of independent replicates."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from dushapley.questions import Estimate, FloatArray


class Moments:
    """Mean and scatter of vectors that arrive in batches (Chan, Golub and LeVeque's update).

    Combining batches by their means keeps small variances of large numbers, which sums of squares
    lose.
    """

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.mean = np.zeros(dimension)
        self.scatter = np.zeros((dimension, dimension))

    def add(self, sample: FloatArray) -> None:
        """Take in replicates, shape (r, dimension)."""
        if len(sample) == 0:
            return
        total = self.count + len(sample)
        mean = sample.mean(axis=0)
        centred = sample - mean
        shift = mean - self.mean
        self.scatter += centred.T @ centred
        self.scatter += np.outer(shift, shift) * (self.count * len(sample) / total)
        self.mean = self.mean + shift * (len(sample) / total)
        self.count = total

    def estimate(self) -> Estimate | None:
        """Mean of the replicates with its standard errors (from two replicates on).

        The standard errors are widened by `student`, so that ±1.96 of them is a 95% interval also
        with few replicates; the covariance is not.
        """
        if self.count == 0:
            return None
        if self.count == 1:
            return Estimate(self.mean, replicates=1)
        covariance = self.scatter / (self.count * (self.count - 1))
        return Estimate(
            self.mean,
            std_errors=np.sqrt(np.diag(covariance)) * student(self.count - 1),
            covariance=covariance,
            replicates=self.count,
        )


def student(freedom: int) -> float:
    """How much wider Student's 95% interval is than the normal one, by its degrees of freedom."""
    return float(stdtrit(freedom, 0.975)) / 1.959963984540054
