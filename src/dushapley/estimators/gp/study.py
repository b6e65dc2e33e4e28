"""What is known at a point of the run: answers, the process fitted to them, and its verdict."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.exact import below_empty
from dushapley.estimators.gp import check, design, kernel
from dushapley.estimators.gp.check import FitCheck, Forecasts
from dushapley.estimators.gp.fit import Observed, Posterior, fit
from dushapley.estimators.gp.functional import (
    Functional,
    covariance_with_answers,
    functional,
    linear_map,
    value_covariance,
)
from dushapley.protocol import Estimate, Problem

FINE, MEDIUM, COARSE = 2**16, 2**12, 2**11
"""Pools that carry the functional: for the final values; for choosing questions and values on the
way; for covariances, which are quadratic in it."""
ITERATIONS, LAST_ITERATIONS = 15, 40
"""Steps of the fit after each batch, from where the last fit ended, and after the last batch."""
GROWTH = 4
"""Each batch adds one pool for so many before it."""
CHECKED = 6
"""One pool in so many is asked at random, whatever the process thinks of it."""

ALL_ALIKE = (
    "All pools that were asked are worth the same, so everybody is given the same value. Errors "
    "of 0 say that nothing else was seen, not that nothing else can happen."
)


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
        self.medium = functional(n, MEDIUM, problem.rng)
        self.coarse = functional(n, COARSE, problem.rng)
        self.twin = self.coarse if 2**n <= COARSE else functional(n, COARSE, problem.rng)
        self.with_answers = np.empty((n, 0))
        self.checks = np.empty((0, n), dtype=np.bool_)

    @property
    def left(self) -> int:
        """Pools that may still be asked."""
        return self.problem.budget - (len(self.pools) - 1)

    def next_batch(self) -> BoolArray:
        """The pools to ask now: the pilot; then the most telling ones and a few at random."""
        n, rng = self.problem.n_players, self.problem.rng
        if self.posterior is None:
            held_out = max(1, n // 4)
            drawn = design.pilot(n, min(design.pilot_size(n) - 2, self.left - held_out), rng)
            return drawn if len(self.pools) == 1 else self._missing(drawn)
        seen = set(self.seen)
        count = self._batch_size()
        wanted = count if self.verdict.reason else -(-count // CHECKED)
        self.checks = design.spread_pools(n, wanted, 0.0, seen, rng)
        pools = design.candidates(n, seen, rng)
        chosen = design.most_telling(
            self.posterior, self.medium, self.with_answers, pools, count - len(self.checks)
        )
        return np.concatenate([self.checks, chosen])

    def recall(self, pools: BoolArray, answers: FloatArray) -> None:
        """Take in pools that were paid before the run began, in any number."""
        self.pools = np.concatenate([self.pools, pools])
        self.answers = np.concatenate([self.answers, answers])
        self.seen |= {pool.tobytes() for pool in pools}

    def _missing(self, pilot: BoolArray) -> BoolArray:
        """What the pilot lacks beside the pools known before: owners alone, and enough pools."""
        new = pilot[[pool.tobytes() not in self.seen for pool in pilot]]
        alone = int((new.sum(axis=1) == 1).sum())
        return new[: max(alone, len(pilot) + 1 - len(self.pools), 1)]

    def _batch_size(self) -> int:
        count = max(2, (len(self.pools) + 1) // GROWTH)
        return self.left if self.left < 1.5 * count else count

    def learn(self, pools: BoolArray, answers: FloatArray) -> None:
        """Take in a batch: judge the forecasts of it, then fit again."""
        start = None
        if self.posterior is not None:
            checks = len(self.checks)
            self.forecasts.append(check.forecast(self.posterior, pools, answers, checks))
            start = self.posterior.theta
        self.pools = np.concatenate([self.pools, pools])
        self.answers = np.concatenate([self.answers, answers])
        self.seen |= {pool.tobytes() for pool in pools}
        observed = Observed(self.pools, self.answers, self.log_sizes)
        steps = ITERATIONS if self.left else LAST_ITERATIONS
        self.posterior = Posterior(observed, fit(observed, start, steps))
        self.with_answers = covariance_with_answers(self.posterior, self._carrier())
        self.verdict: FitCheck = check.judge(self.forecasts, self.posterior)

    def _carrier(self) -> Functional:
        """Pools that carry the functional: more of them once no question is left to choose."""
        n = self.problem.n_players
        whole = 2**n <= MEDIUM
        return self.medium if self.left or whole else functional(n, FINE, self.problem.rng)

    def estimate(self) -> Estimate:
        """Values by the process, or stratified ones where it is not believed.

        Before the first forecasts nothing speaks for the error bars, so there are none.
        """
        estimate = self._by_strata() if self.verdict.reason else self._by_process()
        return estimate if self.forecasts else replace(estimate, std_errors=None, covariance=None)

    def _by_process(self) -> Estimate:
        assert self.posterior is not None
        weights = linear_map(self.posterior, self.with_answers)
        covariance = value_covariance(self.posterior, self.coarse, self.twin)
        covariance *= self.posterior.observed.scale**2 * self.verdict.widening
        sampled = np.eye(len(weights)) * self._carrier_variance(weights)
        return self._finish("gaussian process", weights, positive(covariance) + sampled)

    def _carrier_variance(self, weights: FloatArray) -> float:
        """Error variance of a value from carrying the functional on a sample of pools.

        Two samples of P and C pools differ by a variance of σ²/P + σ²/C, of which σ²/P is ours.
        """
        assert self.posterior is not None
        points = MEDIUM if self.left else FINE
        if 2**self.problem.n_players <= max(points, MEDIUM):
            return 0.0
        rough = linear_map(self.posterior, covariance_with_answers(self.posterior, self.coarse))
        gap = (weights - rough) @ (self.answers - self.problem.empty)
        return float((gap**2).mean()) * COARSE / (COARSE + points)

    def _by_strata(self) -> Estimate:
        weights, covariance = check.stratified(self.pools, self.answers)
        if check.all_alike(self.answers):
            return self._finish("constant", weights, covariance, ALL_ALIKE)
        note = (
            f"gp does not trust its Gaussian process here: {self.verdict.reason}. The values are "
            "stratified means of the pools paid for, which assume nothing of the utility; their "
            "intervals are wider. More budget, or stratified-svarm, is the way to narrow them."
        )
        return self._finish("stratified", weights, covariance, note)

    def _finish(
        self, model: str, weights: FloatArray, covariance: FloatArray, *notes: str
    ) -> Estimate:
        n, empty = self.problem.n_players, self.problem.empty
        values = weights @ (self.answers - empty)
        details = {"model": model, **asdict(self.verdict)}
        details |= below_empty(values, weights @ np.maximum(empty - self.answers, 0.0))
        del details["reason"]  # the notes tell it
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
