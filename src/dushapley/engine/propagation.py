r"""How wrong a value may be, by source, from what a run has already paid for.

A value of a trained game can be wrong in three ways. *Sampling*: not all pools were asked; the
method estimates this itself. *Training*: another random seed would train another model; known
where every pool was trained several times. *Test set*: another test set of this size would score
every pool differently; known where scores are kept test row by test row.

Errors of utilities are carried through to values by the method's own arithmetic. Where an estimate
states its weights :math:`W` (values :math:`= W u`), by

.. math:: \Sigma_{test} = \frac{1}{n(n-1)} \sum_r (\phi_r - \bar\phi)(\phi_r - \bar\phi)^T,
          \quad \phi_r = W s_{\cdot r},
          \qquad \Sigma_{training} = \sum_S W_S W_S^T \sigma_S^2 / R

with :math:`s_{Sr}` the score of pool S on test row r (`scores`), :math:`\sigma_S` the spread of R
trainings (`spread`). Otherwise the same conversation is held again, with the same seed, on changed
utilities: the test set without one group of its rows (jackknife), or utilities moved by normal
noise of their standard error. No further question is asked of the game. A method that chooses its
questions by the answers would then ask others; its errors are reported only if it states weights.
Errors of different owners come from the same pools and test rows, so they are kept as a covariance:
shares of a pot depend on it.

The spread of a sampling method already holds part of the training noise, so for these the total
errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.engine.asktell import AskTell
from dushapley.estimators.exact import shapley_weights
from dushapley.games.base import Outcome
from dushapley.protocol import Ask, Estimate
from dushapley.results.uncertainty import std_errors_of, with_errors

GROUPS = 100
"""Groups of test rows left out in turn: a standard error from them is right to about 7%."""
NOISES = 100
"""Replays with noise on the utilities."""
AT_ONCE = 1024
"""Pools whose scores are put into one matrix."""


@dataclass
class Transcript:
    """What was asked, and which of the different outcomes answered it."""

    asks: list[Ask] = field(default_factory=list)
    answers: list[IntArray] = field(default_factory=list)

    def add(self, ask: Ask, answers: Sequence[int]) -> None:
        """Keep one question with the numbers of its outcomes."""
        self.asks.append(ask)
        self.answers.append(np.array(answers, dtype=np.int64))


Begin = Callable[[], AskTell]
"""Starts the same conversation anew."""


def error_bars(
    begin: Begin,
    transcript: Transcript,
    outcomes: Sequence[Outcome],
    estimate: Estimate,
    *,
    repeats: int,
    enumerated: bool,
    deterministic: bool = False,
) -> dict[str, Any]:
    """Standard errors by source, their total with its covariance, and the source that dominates.

    Parameters
    ----------
    begin
        Starts the same conversation anew.
    transcript, outcomes, estimate
        What was asked, what it came to, and what the method made of it.
    repeats
        Trainings per pool.
    enumerated
        Whether all coalitions were asked, so that there is no sampling error.
    deterministic
        Whether another seed trains the same models, so that there is no error of training.

    Returns
    -------
    dict
        Empty where no pool has scores by row or repeated trainings.
    """
    if all(outcome.scores is None and outcome.spread is None for outcome in outcomes):
        return {}
    weights = enumeration_weights(transcript) if enumerated else estimate.weights
    per_outcome = None if weights is None else outcome_weights(weights, transcript)
    carry = Carrier(begin, transcript, per_outcome)
    nothing = np.zeros((len(estimate.values),) * 2)
    measured = {
        "training": _training_error(carry, outcomes, repeats),
        "test set": _test_set_error(carry, outcomes),
    }
    carried = any(covariance is not None for covariance in measured.values())
    if deterministic:
        measured["training"] = nothing
    covariances = {"sampling": nothing if enumerated else _sampling_error(estimate), **measured}
    errors = {
        name: None if joint is None else std_errors_of(joint).tolist()
        for name, joint in covariances.items()
    }
    if not enumerated and estimate.std_errors is not None:
        errors["sampling"] = estimate.std_errors.tolist()  # to the last bit
    return errors | (_total(covariances) if carried else {"total": None, "dominant": None})


def _sampling_error(estimate: Estimate) -> FloatArray | None:
    """As the method knows it; owners are independent where it does not say otherwise."""
    if estimate.std_errors is None:
        return None
    if estimate.covariance is None:
        return np.diag(estimate.std_errors**2)
    return with_errors(estimate.covariance, estimate.std_errors)


def _total(covariances: Mapping[str, FloatArray | None]) -> dict[str, Any]:
    known = {name: joint for name, joint in covariances.items() if joint is not None}
    dominant = max(known, key=lambda name: float(np.trace(known[name])))
    if covariances["sampling"] is None:  # a total without it would promise too much
        return {"total": None, "dominant": dominant}
    joint = np.sum(list(known.values()), axis=0)
    total = std_errors_of(joint)
    return {"total": total.tolist(), "covariance": joint.tolist(), "dominant": dominant}


def enumeration_weights(transcript: Transcript) -> FloatArray:
    """Shapley weights of all coalitions, in the order they were asked."""
    queries = np.concatenate([np.asarray(ask.queries, dtype=np.bool_) for ask in transcript.asks])
    n = queries.shape[1]
    outside = np.append(shapley_weights(n), 0.0)
    size = queries.sum(axis=1)
    return np.where(queries, outside[size - 1, None], -outside[size, None]).T


def outcome_weights(weights: FloatArray, transcript: Transcript) -> FloatArray:
    """Weights of different outcomes: those of repeated questions add up."""
    asked = np.concatenate(transcript.answers)
    columns = np.zeros((asked.max() + 1, len(weights)))
    np.add.at(columns, asked, weights.T)
    return columns.T


@dataclass(frozen=True)
class Carrier:
    """Carries utilities through to values by the arithmetic of the method that ran."""

    begin: Begin
    transcript: Transcript
    weights: FloatArray | None

    def replay(self, utilities: FloatArray) -> FloatArray | None:
        """Values of the same conversation on other utilities; None if it went another way."""
        talk = self.begin()
        for ask, answers in zip(self.transcript.asks, self.transcript.answers, strict=True):
            asked = talk.ask()
            if asked is None or not np.array_equal(asked.queries, ask.queries):
                return None
            talk.tell(utilities[answers])
        return None if talk.estimate is None else talk.estimate.values

    def covariance(self, utilities: Iterable[FloatArray], ddof: int) -> FloatArray | None:
        """Covariance of the values on several utilities; None as soon as one goes another way."""
        replayed = []
        for values in map(self.replay, utilities):
            if values is None:
                return None
            replayed.append(values)
        return covariance_of(np.array(replayed), ddof)


def _test_set_error(carry: Carrier, outcomes: Sequence[Outcome]) -> FloatArray | None:
    rows = next((len(o.scores) for o in outcomes if o.scores is not None), 0)
    if rows < 2:
        return None
    if carry.weights is not None:
        influence = np.zeros((len(carry.weights), rows))
        for start in range(0, len(outcomes), AT_ONCE):
            some = outcomes[start : start + AT_ONCE]
            scores = np.stack([_rows_of(outcome, rows) for outcome in some])
            influence += carry.weights[:, start : start + AT_ONCE] @ scores
        return covariance_of(influence.T, ddof=1) / rows
    return _jackknife(carry, outcomes, rows)


def _jackknife(carry: Carrier, outcomes: Sequence[Outcome], rows: int) -> FloatArray | None:
    groups = min(rows, GROUPS)
    member = np.random.default_rng(0).permutation(rows) % groups
    size = np.bincount(member)
    values = np.array([outcome.value for outcome in outcomes])
    sums = np.stack([np.bincount(member, _rows_of(outcome, rows)) for outcome in outcomes])
    without = (values[:, None] * rows - sums) / (rows - size)
    covariance = carry.covariance(without.T, ddof=0)
    return None if covariance is None else covariance * (groups - 1)


def covariance_of(rows: FloatArray, ddof: int) -> FloatArray:
    """Covariance of columns, as a matrix even of one."""
    return np.atleast_2d(np.cov(rows, rowvar=False, ddof=ddof))


def _rows_of(outcome: Outcome, rows: int) -> FloatArray:
    """Scores row by row; a utility fixed beforehand is the same on every test set."""
    return np.full(rows, outcome.value) if outcome.scores is None else outcome.scores


def _training_error(carry: Carrier, outcomes: Sequence[Outcome], repeats: int) -> FloatArray | None:
    if all(outcome.spread is None for outcome in outcomes):
        return None
    noise = np.array([outcome.spread or 0.0 for outcome in outcomes]) / np.sqrt(repeats)
    if carry.weights is not None:
        scaled = carry.weights * noise
        return np.asarray(scaled @ scaled.T)
    values = np.array([outcome.value for outcome in outcomes])
    rng = np.random.default_rng(0)
    moved = (values + noise * rng.standard_normal(len(noise)) for _ in range(NOISES))
    return carry.covariance(moved, ddof=1)
