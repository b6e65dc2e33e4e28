"""Running mean, covariance and skewness of independent replicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dushapley.arrays import FloatArray, Queries
from dushapley.estimators.calibration import Extremes, Spread, sum_of_cubes
from dushapley.protocol import Ask, Conversation, Estimate, Problem

Gains = Callable[[FloatArray], FloatArray]
"""Maps the answers of some replicates' pools to what each owner adds, one row per replicate."""

ENOUGH = 30
"""Replicates from which a standard error needs no warning."""


class Sums(NamedTuple):
    """How many samples, their mean, and the sums of (sample − mean) squared and cubed."""

    number: FloatArray
    mean: FloatArray
    second: FloatArray
    third: FloatArray

    def spread(self, weight: FloatArray | float = 1.0) -> Spread:
        """Of the weighted mean. Meaningful from two samples on."""
        count = np.maximum(self.number, 1)
        freedom = np.maximum(self.number - 1, 1)
        variance = weight**2 * self.second / (freedom * count)
        return Spread(variance, weight**3 * self.third / count**3, freedom)


def merged(one: Sums, other: Sums) -> Sums:
    """Of two batches together (Chan, Golub and LeVeque; third moments: Pébay 2008).

    Combining batches by their means keeps small variances of large numbers, which sums of powers
    lose.
    """
    total = one.number + other.number
    share = other.number / np.maximum(total, 1)
    shift = other.mean - one.mean
    across = one.number * share
    third = shift**2 * across * (1 - 2 * share) + 3 * (
        (1 - share) * other.second - share * one.second
    )
    return Sums(
        total,
        one.mean + shift * share,
        one.second + other.second + shift**2 * across,
        one.third + other.third + shift * third,
    )


class Moments:
    """Mean, scatter and skewness of vectors that arrive in batches."""

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.sums = Sums(*np.zeros((4, dimension)))
        self.scatter = np.zeros((dimension, dimension))
        self.extremes = Extremes(dimension)

    def add(self, sample: FloatArray, draws: FloatArray | None = None) -> None:
        """Take in replicates, shape (r, dimension), and the draws that they are means of."""
        if len(sample) == 0:
            return
        mean = sample.mean(axis=0)
        centred = sample - mean
        shift = mean - self.sums.mean
        scatter = centred.T @ centred
        third = sum_of_cubes(centred)
        number = np.full(len(mean), float(len(sample)))
        across = self.count * len(sample) / (self.count + len(sample))
        self.scatter += scatter + np.outer(shift, shift) * across
        self.sums = merged(self.sums, Sums(number, mean, np.diag(scatter), third))
        self.extremes.add(sample if draws is None else draws)
        self.count += len(sample)

    def estimate(self) -> Estimate | None:
        """Mean of the replicates with its standard errors (from two replicates on).

        The standard errors are calibrated (see `spread`), so that the normal 95% interval holds
        also with few or skewed replicates; the covariance is not.
        """
        if self.count == 0:
            return None
        if self.count == 1:
            return Estimate(self.sums.mean, replicates=1)
        spread = replace(self.sums.spread(), extremes=self.extremes)
        covariance = self.scatter / (self.count * (self.count - 1))
        notes = warnings_of(self.count, spread.errors)
        return spread.around(self.sums.mean, covariance, self.count, notes)


def replicated(
    problem: Problem, cost: int, draw: Callable[[int], tuple[Queries, Gains]]
) -> Conversation:
    """Average as many independent replicates of `cost` pools each as the budget buys.

    Parameters
    ----------
    problem
        What is to be estimated.
    cost
        Pools that one replicate asks for.
    draw
        Draws so many replicates: their pools, and what maps the answers to one row of gains each.
    """
    moments = Moments(problem.n_players)
    affordable = problem.budget // cost
    while moments.count < affordable:
        at_once = max(1, problem.round_after(cost * moments.count) // cost)
        pools, gains = draw(min(at_once, affordable - moments.count))
        answers = yield Ask(pools, moments.estimate)
        moments.add(gains(answers))
    return final(moments.estimate())


def final(estimate: Estimate | None) -> Estimate:
    """The last estimate of a method whose least budget buys one."""
    assert estimate is not None
    return estimate


def warnings_of(count: int, errors: FloatArray) -> tuple[str, ...]:
    """What to know about standard errors that rest on few or on equal replicates."""
    notes = []
    if count < ENOUGH:
        notes.append(
            f"The standard errors rest on {count} replicates only; where an owner's contribution "
            "is rare but large, so few can miss it."
        )
    if not errors.any():
        notes.append(
            f"For all owners all {count} replicates agreed: a standard error of 0 says that "
            "nothing else was seen, not that nothing else can happen."
        )
    return tuple(notes)
