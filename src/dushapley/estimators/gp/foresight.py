r"""How precise would values be at a larger budget? From a pilot's answers, before paying more.

The covariance of the values given answers does not depend on what the answers are: once
hyper-parameters are fitted to the pools paid for, pools that would be chosen next can be taken as
if they had been answered, and the error bars that would follow are known. They are expectations:
later fits move hyper-parameters, and sizes at which the process turns out wrong are not foreseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.calibration import NORMAL
from dushapley.estimators.gp import check
from dushapley.estimators.gp.fit import Observed, Posterior
from dushapley.estimators.gp.functional import covariance_with_answers, value_covariance
from dushapley.estimators.gp.study import CANDIDATES, Study, candidates, most_telling
from dushapley.protocol import Problem

LEAST_PER_OWNER = 2
"""Pools per owner that a pilot needs."""


def foreseen(
    problem: Problem, pools: BoolArray, answers: FloatArray, budgets: Sequence[int]
) -> list[float] | None:
    """Half-width of the widest 95% interval over the spread of the values, by budget.

    Budgets count evaluations, those of the pilot, nobody's and everybody's included. None where
    the pilot is too small, or all its answers are equal.
    """
    n = problem.n_players
    if len(pools) < LEAST_PER_OWNER * n or check.all_alike(answers):
        return None
    study = Study(replace(problem, budget=max([*budgets, len(pools) + 2])))
    study.asked_random = np.zeros(len(pools), dtype=np.bool_)
    study.learn(pools, answers)
    spread = float(np.ptp(study.estimate().values))
    if not spread:
        return None
    posterior, found = study.posterior, {}
    scale = posterior.observed.scale
    for budget in sorted(set(budgets)):
        while budget - 1 > len(posterior.observed.pools) < 2**n - 1:
            posterior = _grown(study, posterior, budget - 1 - len(posterior.observed.pools))
        paid = len(posterior.observed.pools)
        variance = 0.0
        if paid < 2**n - 1:
            widening = check.WIDENING[0] + check.WIDENING[1] * n / (paid + 1)
            covariance = value_covariance(posterior, study.coarse, study.twin)
            variance = max(np.diag(covariance).max(), 0.0) * widening
        found[budget] = scale * float(NORMAL * np.sqrt(variance)) / spread
    return [found[budget] for budget in budgets]


def _grown(study: Study, posterior: Posterior, more: int) -> Posterior:
    """The process with the most telling pools of a batch answered as it expects."""
    observed = posterior.observed
    pools = observed.pools == 1
    count = min(more, max(2, len(pools) // 2))
    seen = {pool.tobytes() for pool in pools}
    some = candidates(pools.shape[1], seen, study.problem.rng, max(CANDIDATES, count + count // 2))
    own = covariance_with_answers(posterior, study.medium)
    chosen = most_telling(posterior, study.medium, own, some, count)
    expected, _ = posterior.predict(chosen)
    answers = np.append(observed.answers, observed.centre + observed.scale * expected)
    grown = Observed(np.concatenate([pools, chosen]), answers, observed.log_sizes)
    return Posterior(grown, posterior.theta)
