r"""How wrong a value may be, by source, from what a run has already paid for.

A value of a trained game can be wrong in three ways. *Sampling*: not all pools were asked; the
method estimates this itself. *Training*: another random seed would train another model; known
where every pool was trained several times. *Test set*: another test set of this size would score
every pool differently; known where scores are kept test row by test row.

Errors of utilities are carried through to values by the method's own arithmetic. Values that are
:math:`v = W u` have, with :math:`s_{Sr}` the score of pool S on test row r and :math:`\sigma_S` the
spread of its R trainings,

.. math:: \phi_r = W s_{\cdot r} \ \text{(see } \texttt{results.influence}), \qquad
          \Sigma_{training} = \sum_S W_S W_S^T \sigma_S^2 / R.

W is known before any answer (`Method.weights`: sums over rounds, to be divided by the replicates),
or stated by the estimate. Otherwise the same conversation is held again, with the same seed, on
changed utilities: the test set without one group of its rows (jackknife), or utilities moved by
normal noise of their standard error. No further question is asked of the game. A method that
chooses its questions by the answers would then ask others; its errors are unknown unless it states
weights. Errors of different owners come from the same pools and test rows, so they are kept as a
covariance: shares of a pot depend on it. Of more than `MOST_JOINT` owners they are variances, one
an owner, and wherever a covariance is spoken of below.

The spread of a sampling method already holds part of the training noise, so for these the total
errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.engine.dialogue import Dialogue, Transcript
from dushapley.engine.plan import Plan
from dushapley.estimators.calibration import pooled_freedom, pooled_variances, student
from dushapley.estimators.exact import coalition_weights
from dushapley.games.base import Scores
from dushapley.games.policy import Training
from dushapley.protocol import Estimate
from dushapley.results.influence import covariance_of, influence_error
from dushapley.results.uncertainty import MOST_JOINT, std_errors_of, variances_of, with_errors

GROUPS = 100
"""Groups of test rows left out in turn: a standard error from them is right to about 7%."""
NOISES = 100
"""Replays with noise on the utilities."""

Begin = Callable[[], Dialogue | None]
"""Starts the same conversation anew; None where there is no time for that."""
Weigh = Callable[[BoolArray], FloatArray]
"""Weights of the pools of a round, and of nobody and everybody, shape (I, m + 2)."""


def known_weights(plan: Plan, n_players: int) -> Weigh | None:
    """How the pools of a run weigh, where that is known before any answer.

    One owner's value is the difference of the two pools there are, whatever the method.
    """
    if n_players == 1:
        return None
    weights = coalition_weights if plan.enumerates(n_players) else plan.method.weights
    return None if weights is None else lambda pools: weights(pools, plan.options)


@dataclass(frozen=True)
class Carrier:
    """Carries utilities through to values by the arithmetic of the method that ran.

    Parameters
    ----------
    begin
        Starts the same conversation anew.
    plan, sizes
        What ran, and the rows of each owner.
    training
        How utilities came about.
    transcript, estimate
        What was asked, what it came to, and what the method made of it.
    scores
        Scores of all pools in the order of their numbers, block by block, each with the number it
        begins with; called whenever they are needed.
    folded
        Values by test row, where scores were folded as they came.
    """

    begin: Begin
    plan: Plan
    sizes: FloatArray
    training: Training
    transcript: Transcript
    estimate: Estimate
    scores: Callable[[], Iterator[tuple[int, Scores]]]
    folded: FloatArray | None = None

    def errors(self) -> tuple[dict[str, Any], FloatArray | None]:
        """Standard errors by source, and values by test row or group of them, where known."""
        influence = self.influence() if self.folded is None else self.folded
        unmeasured = influence is None and np.isnan(self.transcript.spreads).all()
        if unmeasured and self.training.shift is None:
            return {}, None
        measured = {"test set": influence_error(influence, self.training.shift or 0.0)}
        training = self.training_error()
        if training is not None or not self.training.deterministic:
            measured["training"] = training
        enumerated = self.plan.enumerates(len(self.sizes))
        return by_source(self.estimate, measured, enumerated=enumerated), influence

    def weights(self) -> FloatArray | None:
        """Weights of the different pools, shape (I, pools): those of repeated questions add up."""
        n, stated = len(self.sizes), self.estimate.weights
        weigh = known_weights(self.plan, n)
        sums = np.zeros((self.transcript.n_answers, n))
        if weigh is not None:
            rounds = zip(self.transcript.asks, self.transcript.numbers, strict=True)
            (_, ends), *others = rounds
            for ask, numbers in others:
                columns = weigh(np.asarray(ask.queries, dtype=np.bool_)).T
                places = np.append(numbers, ends)
                np.add.at(sums, places, columns / (self.estimate.replicates or 1))
        elif stated is not None:
            asked = np.concatenate(self.transcript.numbers)[: stated.shape[1]]
            np.add.at(sums, asked, stated.T)  # none of answers that were not used yet
        else:
            return None
        return sums.T

    def influence(self) -> FloatArray | None:
        """Values by test row, shape (rows, I); None where they are not known."""
        blocks = self.scores()
        first = next(blocks, None)
        if first is None or first[1].rows < 2:
            return None
        weights = self.weights()
        if weights is None:
            return self._jackknife(first[1].rows)
        sums = sum(
            scores.fold(weights[:, start : start + len(scores)])
            for start, scores in chain([first], blocks)
        )
        return np.transpose(sums)

    def _jackknife(self, rows: int) -> FloatArray | None:
        """Values without each group of test rows, as values plus influence of the group."""
        groups = min(rows, GROUPS)
        member = np.arange(rows)  # in their order, as rows stand where weights are known
        if groups < rows:
            member = np.random.default_rng(0).permutation(rows) % groups
        inside = (member == np.arange(groups)[:, None]).astype(np.float64)
        sums = np.hstack([inside @ scores.matrix().T for _, scores in self.scores()])
        without = (sums.sum(axis=0) - sums) / (rows - inside.sum(axis=1, keepdims=True))
        left_out = self._replays(without)
        if left_out is None:
            return None
        mean = left_out.mean(axis=0)
        return np.asarray(mean - (groups - 1) * (left_out - mean))

    def _replays(self, utilities: Iterable[FloatArray]) -> FloatArray | None:
        """Values of the same conversation on other utilities; None where it goes another way."""
        replayed = []
        for changed in utilities:
            talk = self.begin() if np.isfinite(changed).all() else None
            if talk is None:
                return None
            for ask, numbers in zip(self.transcript.asks, self.transcript.numbers, strict=True):
                asked = talk.ask()
                if asked is None or not np.array_equal(asked.queries, ask.queries):
                    return None
                talk.tell(changed[numbers])
            if talk.estimate is None:
                return None
            replayed.append(talk.estimate.values)
        return np.array(replayed)

    def training_error(self) -> FloatArray | None:
        """Covariance of values by chance in training; None where its size is not known."""
        spreads = self.transcript.spreads
        if np.isnan(spreads).all():
            return None
        # widened by Student's t where few pools and few repeats tell of it
        trained, repeats = ~np.isnan(spreads), self.training.repeats
        variances, own, freedom = np.nan_to_num(spreads) ** 2, spreads[trained] ** 2, repeats - 1
        rows = self.transcript.rows(self.sizes)[trained]
        variances[trained] = pooled_variances(own, max(freedom, 1), rows)
        few = student(pooled_freedom(own, max(freedom, 1)))
        noise = np.sqrt(variances / repeats) * few
        weights = self.weights()
        if weights is None:
            values, rng = self.transcript.values, np.random.default_rng(0)
            moved = (values + noise * rng.standard_normal(len(values)) for _ in range(NOISES))
            replayed = self._replays(moved)
            return None if replayed is None else covariance_of(replayed)
        scaled = weights * noise
        many = len(scaled) > MOST_JOINT
        return np.asarray(np.square(scaled).sum(axis=1) if many else scaled @ scaled.T)


def by_source(
    estimate: Estimate,
    measured: Mapping[str, FloatArray | None],
    *,
    enumerated: bool,
    biased: bool = False,
) -> dict[str, Any]:
    """Standard errors by source and their total, from covariances.

    `measured` has those of training and test set: None where one is unknown, and none at all where
    nothing is left to chance.
    """
    n = len(estimate.values)
    nothing = np.zeros((n, n) if n <= MOST_JOINT else n)
    covariances = {
        "sampling": nothing if enumerated else _sampling_error(estimate),
        "training": measured.get("training", nothing),
        "test set": measured.get("test set", nothing),
    }
    known = {name: joint for name, joint in covariances.items() if joint is not None}
    errors = {name: std_errors_of(joint).tolist() for name, joint in known.items()}
    if not enumerated and estimate.std_errors is not None:
        errors["sampling"] = estimate.std_errors.tolist()  # to the last bit
    sizes = {name: float(variances_of(joint).sum()) for name, joint in known.items()}
    carried = any(joint is not None for joint in measured.values())
    unknown = [name for name in covariances if name not in known] + ["bias"] * biased
    total: dict[str, Any] = {"total": None}  # where one is unknown, the rest would promise too much
    if not unknown:
        joint = np.sum(list(known.values()), axis=0)
        total = {"total": std_errors_of(joint).tolist()}
        total |= {} if joint.ndim == 1 else {"covariance": joint.tolist()}
    return {
        **dict.fromkeys(covariances),
        **errors,
        **total,
        "dominant": max(sizes, key=lambda name: sizes[name]) if carried else None,
        "unknown": unknown,
    }


def formula_errors(formula: Estimate, *, biased: bool) -> dict[str, Any]:
    """Of a formula's values, which only the test set makes uncertain; empty without one.

    There is no total where the formula is of another game: nothing tells how far that is away.
    """
    if formula.scores is None:
        return {}
    error = influence_error(formula.scores)
    return by_source(formula, {"test set": error}, enumerated=True, biased=biased)


def _sampling_error(estimate: Estimate) -> FloatArray | None:
    """As the method knows it; owners are independent where it does not say otherwise."""
    if estimate.std_errors is None:
        return None
    if estimate.covariance is None or len(estimate.values) > MOST_JOINT:
        own = estimate.std_errors**2
        return own if len(own) > MOST_JOINT else np.diag(own)
    return with_errors(estimate.covariance, estimate.std_errors)
