"""What is known at a point of the run: answers, the process fitted to them, and its verdict."""

from __future__ import annotations

import numpy as np

from dushapley.estimators.gp import check, design, kernel
from dushapley.estimators.gp.check import Forecasts, Verdict
from dushapley.estimators.gp.fit import Observed, Posterior, fit
from dushapley.estimators.gp.functional import (
    Functional,
    functional,
    linear_map,
    value_covariance,
)
from dushapley.questions import BoolArray, Estimate, FloatArray, Problem

FINE, MEDIUM, COARSE = 2**16, 2**12, 2**10
"""Pools that carry the functional: for the values, for their covariance, for choosing questions."""
ITERATIONS, LAST_ITERATIONS = 40, 80
"""Steps of the fit after each batch, from where the last fit ended, and after the last batch."""
GROWTH = 4
"""Each batch is this part of all pools before it, one over."""


class Study:
    """Answers so far and what follows from them."""

    def __init__(self, problem: Problem) -> None:
        n = problem.n_players
        self.problem = problem
        self.log_sizes = kernel.log_relative_sizes(problem.sizes)
        self.pools = np.ones((1, n), dtype=np.bool_)
        self.answers = np.array([problem.full])
        self.seen = {self.pools[0].tobytes()}
        self.forecasts: list[Forecasts] = []
        self.posterior: Posterior | None = None
        self.coarse, self.medium, self.other = (
            functional(n, points, problem.rng) for points in (COARSE, MEDIUM, MEDIUM)
        )
        self.fine = functional(n, FINE, problem.rng)

    @property
    def left(self) -> int:
        """Pools that may still be asked."""
        return self.problem.budget - (len(self.pools) - 1)

    def next_batch(self) -> BoolArray:
        """The pools to ask now: the pilot, then the most telling ones, or random ones."""
        n, rng = self.problem.n_players, self.problem.rng
        if self.posterior is None:
            return design.pilot(n, min(design.pilot_size(n) - 2, self.left), rng)
        count = self._batch_size()
        if self.verdict.reason:
            return design.spread_pools(n, count, set(self.seen), rng)
        pools = design.candidates(n, self.seen, rng)
        return design.most_telling(self.posterior, self.coarse, pools, count)

    def _batch_size(self) -> int:
        count = max(1, (len(self.pools) + 1) // GROWTH)
        return self.left if self.left < 1.5 * count else count

    def learn(self, pools: BoolArray, answers: FloatArray) -> None:
        """Take in a batch: judge the forecasts of it, then fit again."""
        start = None
        if self.posterior is not None:
            self.forecasts.append(check.forecast(self.posterior, pools, answers))
            start = self.posterior.theta
        self.pools = np.concatenate([self.pools, pools])
        self.answers = np.concatenate([self.answers, answers])
        self.seen |= {pool.tobytes() for pool in pools}
        observed = Observed(self.pools, self.answers, self.log_sizes)
        steps = ITERATIONS if self.left else LAST_ITERATIONS
        self.posterior = Posterior(observed, fit(observed, start, steps))
        self.verdict: Verdict = check.judge(self.forecasts, self.problem.n_players)

    def estimate(self) -> Estimate:
        """Values by the process, or stratified ones where it is not believed."""
        return self._by_process() if not self.verdict.reason else self._by_strata()

    def _by_process(self) -> Estimate:
        assert self.posterior is not None
        weights = linear_map(self.posterior, self.fine)
        covariance = value_covariance(self.posterior, self.medium, self._independent())
        covariance *= self.posterior.observed.scale**2 * self.verdict.widening
        return self._finish(weights, positive(covariance), ())

    def _independent(self) -> Functional:
        complete = 2**self.problem.n_players <= MEDIUM
        return self.medium if complete else self.other

    def _by_strata(self) -> Estimate:
        weights, covariance = check.stratified(self.pools, self.answers)
        note = (
            f"gp does not trust its Gaussian process here: {self.verdict.reason}. The values are "
            "stratified means of the pools paid for, which assume nothing of the utility; their "
            "intervals are wider. More budget, or stratified-svarm, is the way to narrow them."
        )
        return self._finish(weights, covariance, (note,))

    def _finish(
        self, weights: FloatArray, covariance: FloatArray, notes: tuple[str, ...]
    ) -> Estimate:
        n, empty = self.problem.n_players, self.problem.empty
        values = weights @ (self.answers - empty)
        details = {
            "model": "stratified" if self.verdict.reason else "gaussian process",
            "forecasts": self.verdict.forecasts,
            "unexplained": self.verdict.unexplained,
            "surprise": self.verdict.surprise,
            "widening": self.verdict.widening,
        }
        return Estimate(
            values,
            std_errors=np.sqrt(np.diag(covariance)),
            covariance=covariance,
            notes=notes,
            details=details,
            weights=np.concatenate([np.full((n, 1), -1 / n), weights], axis=1),
        )


def positive(covariance: FloatArray) -> FloatArray:
    """The nearest covariance: sampled ones can miss by a little, and errors are never negative."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
