"""Running mean and covariance of independent replicates."""

from __future__ import annotations

import numpy as np

from dushapley.questions import Estimate, FloatArray

ENOUGH = 30
"""Replicates from which on a standard error needs no warning."""


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
        errors = np.sqrt(np.diag(covariance)) * student(self.count - 1)
        return Estimate(
            self.mean,
            std_errors=errors,
            covariance=covariance,
            replicates=self.count,
            notes=warnings_of(self.count, errors),
        )


def warnings_of(count: int, errors: FloatArray) -> tuple[str, ...]:
    """What to know of standard errors that rest on few or on equal replicates."""
    notes = []
    if count < ENOUGH:
        notes.append(
            f"The standard errors rest on {count} replicates only; where an owner's contribution "
            "is seldom but large, so few can miss it."
        )
    if not errors.all():
        notes.append(
            f"For {int((errors == 0).sum())} owners all {count} replicates agreed: a standard "
            "error of 0 says that nothing else was seen, not that nothing else can happen."
        )
    return tuple(notes)


def student(freedom: float | FloatArray) -> FloatArray:
    """How much wider Student's 95% interval is than the normal one, by its degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, 0.975) / 1.959963984540054)
