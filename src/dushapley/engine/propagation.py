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
shares of a pot depend on it. Of more than `MOST_JOINT` owners they are variances, one an owner, and
wherever a covariance is spoken of below.

The spread of a sampling method already holds part of the training noise, so for these the total
errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.engine.scores import AT_ONCE, Answers
from dushapley.engine.sheet import GROUPS, Begin, coalition_weights, pseudo_values
from dushapley.estimators.calibration import (
    ALIKE,
    ENOUGH_EVENTS,
    FEW,
    NORMAL,
    Spread,
    pooled_freedom,
    pooled_variances,
    student,
)
from dushapley.estimators.semivalues import SHAPLEY
from dushapley.protocol import Ask, Estimate
from dushapley.results.uncertainty import MOST_JOINT, std_errors_of, variances_of, with_errors

NOISES = 100
"""Replays with noise on the utilities."""
INDEPENDENT = 0.9
"""Part of an owner's variance that may be made its own, for differences that few rows tell of."""
LOOKS = 64
"""Estimates on the way that are made only to be shown, at most."""
MOST_SUMS = 2**23
"""Sums of scores over groups that are held at a time."""


@dataclass
class Transcript:
    """What was asked, and which of the different answers it got.

    Estimates on the way that have to be made are made `LOOKS` times in a budget: pages show few.
    """

    budget: int = 0
    asks: list[Ask] = field(default_factory=list)
    answers: list[IntArray] = field(default_factory=list)
    n_answers: int = 0
    asked: int = 0
    _next: int = 0

    def add(self, ask: Ask, answers: Sequence[int] | IntArray) -> None:
        """Keep one question with the numbers of its answers."""
        self.n_answers = max(self.n_answers, int(np.max(answers)) + 1)
        self.asks.append(replace(ask, so_far=self._kept(ask)))
        self.answers.append(np.array(answers, dtype=np.int64))
        self.asked += len(answers)

    def _kept(self, ask: Ask) -> Estimate | None:
        if callable(ask.so_far):
            if self.asked < self._next:
                return None
            self._next = self.asked + self.budget // LOOKS
        estimate = ask.estimate()
        # thousands of covariances would be most of a run's memory
        return None if estimate is None else replace(estimate, covariance=None, weights=None)


def kept_covariance(estimate: Estimate) -> FloatArray | None:
    """That between owners as results keep it: not of very many, whose files nobody could read."""
    return None if len(estimate.values) > MOST_JOINT else estimate.covariance


def error_bars(
    begin: Begin,
    transcript: Transcript,
    answers: Answers,
    estimate: Estimate,
    *,
    sizes: FloatArray,
    repeats: int,
    enumerated: bool,
    semivalue: str = SHAPLEY,
    deterministic: bool = False,
    judged: bool = False,
    shift: float = 0.0,
) -> tuple[dict[str, Any], FloatArray | None]:
    """Standard errors by source, their total with its covariance, and the source that dominates.

    Parameters
    ----------
    begin
        Starts the same conversation anew.
    transcript, answers, estimate
        What was asked, what it came to, and what the method made of it.
    sizes
        Rows of each owner.
    repeats
        Trainings per pool.
    enumerated
        Whether all coalitions were asked, so that there is no sampling error.
    semivalue
        Which values all coalitions were asked for.
    deterministic
        Whether another seed trains the same models, so that there is no error of training.
    judged
        Whether utilities are scores of trained models, so that an error which nothing tells of is
        unknown, not absent.
    shift
        How far one test row may move a utility, where that is known.

    Returns
    -------
    errors
        Empty where nothing is trained and no pool has scores by row.
    influence
        Values by test row or group of them, shape (rows, I), where they are known.
    """
    rows = answers.rows(transcript.n_answers)
    if rows == 0 and np.isnan(answers.spreads).all() and not judged:
        return {}, None
    columns = (
        enumeration_weights(transcript, semivalue)
        if enumerated
        else _stated_weights(estimate, transcript.asked)
    )
    weights = None if columns is None else AnswerWeights(columns, transcript)
    carry = Carrier(begin, transcript, weights)
    influence = _influence(carry, answers, rows)
    measured = {
        "training": _training_error(carry, answers, repeats, sizes),
        "test set": influence_error(influence, shift),
    }
    if deterministic and measured["training"] is None:
        del measured["training"]
    return by_source(estimate, measured, enumerated=enumerated), influence


def by_source(
    estimate: Estimate, measured: Mapping[str, FloatArray | None], *, enumerated: bool
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
    errors = {
        name: None if joint is None else std_errors_of(joint).tolist()
        for name, joint in covariances.items()
    }
    if not enumerated and estimate.std_errors is not None:
        errors["sampling"] = estimate.std_errors.tolist()  # to the last bit
    carried = any(joint is not None for joint in measured.values())
    return errors | _total(covariances) | ({} if carried else {"dominant": None})


def formula_errors(formula: Estimate, *, biased: bool) -> dict[str, Any]:
    """Of a formula's values, which only the test set makes uncertain; empty without one.

    There is no total where the formula is of another game: nothing tells how far that is away.
    """
    if formula.by_row is None:
        return {}
    measured = {"test set": influence_error(formula.by_row)}
    errors = by_source(formula, measured, enumerated=True)
    if not biased:
        return errors
    known = {name: part for name, part in errors.items() if name != "covariance"}
    return known | {"total": None, "unknown": [*errors["unknown"], "bias"]}


def _sampling_error(estimate: Estimate) -> FloatArray | None:
    """As the method knows it; owners are independent where it does not say otherwise."""
    if estimate.std_errors is None:
        return None
    if len(estimate.values) > MOST_JOINT:
        return estimate.std_errors**2
    if estimate.covariance is None:
        return np.diag(estimate.std_errors**2)
    return with_errors(estimate.covariance, estimate.std_errors)


def _total(covariances: Mapping[str, FloatArray | None]) -> dict[str, Any]:
    """Of all sources; None where one is unknown, since the rest would promise too much."""
    known = {name: joint for name, joint in covariances.items() if joint is not None}
    unknown = [name for name in covariances if name not in known]
    sizes = {name: float(variances_of(joint).sum()) for name, joint in known.items()}
    dominant = max(sizes, key=lambda name: sizes[name]) if sizes else None
    if unknown:
        return {"total": None, "dominant": dominant, "unknown": unknown}
    joint = np.sum(list(known.values()), axis=0)
    total = std_errors_of(joint)
    between = {} if joint.ndim == 1 else {"covariance": joint.tolist()}
    return {"total": total.tolist(), **between, "dominant": dominant, "unknown": unknown}


Columns = Callable[[IntArray], FloatArray]
"""Weights of questions by their position, shape (I, m): made when needed, there may be millions."""


def enumeration_weights(transcript: Transcript, semivalue: str = SHAPLEY) -> Columns:
    """Weights of all coalitions, in the order they were asked."""
    queries = np.concatenate([np.asarray(ask.queries, dtype=np.bool_) for ask in transcript.asks])
    return lambda positions: coalition_weights(queries[positions], semivalue)


def _stated_weights(estimate: Estimate, asked: int) -> Columns | None:
    """Those of an estimate; none for answers that a stopped run had heard and not used yet."""
    if estimate.weights is None:
        return None
    unused = max(0, asked - estimate.weights.shape[1])
    weights = np.pad(estimate.weights, ((0, 0), (0, unused)))
    return lambda positions: weights[:, positions]


class AnswerWeights:
    """Weights of different answers: those of repeated questions add up."""

    def __init__(self, columns: Columns, transcript: Transcript) -> None:
        answers = np.concatenate(transcript.answers)
        self.columns = columns
        self.positions = np.argsort(answers, kind="stable")
        self.answers = answers[self.positions]

    def block(self, start: int, stop: int) -> FloatArray:
        """Weights of the answers with these numbers, shape (I, stop − start)."""
        low, high = np.searchsorted(self.answers, [start, stop])
        columns = self.columns(self.positions[low:high]).T
        sums = np.zeros((stop - start, columns.shape[1]))
        np.add.at(sums, self.answers[low:high] - start, columns)
        return sums.T


@dataclass(frozen=True)
class Carrier:
    """Carries utilities through to values by the arithmetic of the method that ran."""

    begin: Begin
    transcript: Transcript
    weights: AnswerWeights | None

    def replay(self, utilities: FloatArray) -> FloatArray | None:
        """Values of the same conversation on other utilities; None if it cannot be had."""
        if not np.isfinite(utilities).all():
            return None
        talk = self.begin()
        if talk is None:
            return None
        for ask, answers in zip(self.transcript.asks, self.transcript.answers, strict=True):
            asked = talk.ask()
            if asked is None or not np.array_equal(asked.queries, ask.queries):
                return None
            talk.tell(utilities[answers])
        return None if talk.estimate is None else talk.estimate.values

    def replays(self, utilities: Iterable[FloatArray]) -> FloatArray | None:
        """Values on several utilities; None as soon as one conversation goes another way."""
        replayed = []
        for values in map(self.replay, utilities):
            if values is None:
                return None
            replayed.append(values)
        return np.array(replayed)


def _influence(carry: Carrier, answers: Answers, rows: int) -> FloatArray | None:
    if rows < 2:
        return None
    if carry.weights is None:
        return _jackknife(carry, answers, rows)
    influence: FloatArray | float = 0.0
    for start, scores in answers.blocks(carry.transcript.n_answers):
        influence += carry.weights.block(start, start + len(scores)) @ scores
    return np.transpose(influence)


def _jackknife(carry: Carrier, answers: Answers, rows: int) -> FloatArray | None:
    groups = min(rows, GROUPS)
    member = np.random.default_rng(0).permutation(rows) % groups
    left_out = carry.replays(_without_groups(carry, answers, member))
    return None if left_out is None else pseudo_values(left_out)


def influence_error(influence: FloatArray | None, shift: float = 0.0) -> FloatArray | None:
    """Covariance of the means of values by test row, shape (rows, I); None where one is unknown.

    Calibrated as standard errors of sampling are, values and differences between them alike: by
    Student's t, by the skewness where few rows decide, and by the rule of three where hardly any
    does (see `estimators.calibration`), where `shift` is how far one row may move a utility. Where
    that is not known and every row says the same of everybody, nothing tells what the next one
    would say: that is unknown, not 0.
    """
    if influence is None or len(influence) < 2 or not np.isfinite(influence).all():
        return None
    away = influence - influence.mean(axis=0)
    largest = float(np.abs(away).max())
    if largest <= ALIKE * float(np.abs(influence).max()):
        if not shift:
            return None
        away, largest = np.zeros_like(away), shift
    away[:, np.ptp(away, axis=0) <= ALIKE * largest] = 0.0
    if away.shape[1] > MOST_JOINT:
        return np.square(largest * _own_errors(away / largest, shift / largest))
    errors = largest * _difference_errors(away / largest, shift / largest)
    joint = with_errors(covariance_of(away, ddof=1) / len(away), errors[-1, :-1])
    own = np.diag(joint)
    lacking = errors[:-1, :-1] ** 2 - (own[:, None] + own - 2 * joint)
    np.fill_diagonal(lacking, 0.0)
    apart = np.maximum(lacking, 0.0).max(axis=1) / 2
    # less correlated by so much, and no less sure of themselves unless they must be
    alone = apart / (1 - np.minimum(apart / own, INDEPENDENT))
    return with_errors(joint + np.diag(alone), np.sqrt(np.maximum(own, apart)))


def _difference_errors(away: FloatArray, shift: float) -> FloatArray:
    """Calibrated errors of differences of owners, the last being nobody: shape (I + 1, I + 1).

    Between owners only where few rows tell them apart; 0 elsewhere, their covariance says it all.
    """
    x = np.column_stack([away, np.zeros(len(away))])
    square, cube = x * x, x * x * x
    second, third, fourth = x.T @ x, square.T @ x, cube.T @ x
    both = square.T @ square
    sums = [np.diag(m)[:, None] + sign * np.diag(m) for m, sign in ((second, 1), (third, -1))]
    two = np.maximum(sums[0] - 2 * second, 0.0)
    three = sums[1] - 3 * (third - third.T)
    four = np.diag(both)[:, None] + np.diag(both) - 4 * (fourth + fourth.T) + 6 * both
    alike = two <= ALIKE * sums[0].max()
    reach = np.ptp(x, axis=0) / len(x)
    reach = np.maximum(np.maximum(reach[:, None], reach), shift)
    errors, rows = _calibrated(len(x), two, three, four, alike, reach)
    errors[:-1, :-1][rows[:-1, :-1] >= FEW] = 0.0
    return errors


def _own_errors(away: FloatArray, shift: float) -> FloatArray:
    """The same of each owner beside nobody alone, shape (I,): for owners whose pairs are many."""
    square = away * away
    two, three, four = (part.sum(axis=0) for part in (square, square * away, square * square))
    alike, reach = two <= 2 * ALIKE * two.max(), np.ptp(away, axis=0) / len(away)
    return _calibrated(len(away), two, three, four, alike, np.maximum(reach, shift))[0]


def _calibrated(
    n: int,
    two: FloatArray,
    three: FloatArray,
    four: FloatArray,
    alike: BoolArray,
    reach: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Errors from sums of powers over n test rows, and how many rows tell of each in effect."""
    two[alike] = three[alike] = 0.0
    rows = np.divide(two**2, four, out=np.zeros_like(two), where=~alike & (four > 0))
    spread = Spread(two / n / (n - 1), three / n**3, _freedom(n, two, three, rows))
    reach[reach <= ALIKE * reach.max()] = reach.max()
    unseen = np.where(rows < ENOUGH_EVENTS, 3 * reach / NORMAL, 0.0)
    return np.asarray(np.maximum(spread.errors, unseen)), rows


def _freedom(n: int, two: FloatArray, three: FloatArray, rows: FloatArray) -> FloatArray:
    """Degrees of freedom of variances: in a class of few test rows, as many as these.

    2n/(κ − 1 − γ²), with n/κ = `rows` those in effect: a variance of n rows is itself known to a
    relative variance of (κ − 1)/n, and one of f degrees to 2/f; the skewness γ is widened for by
    itself.
    """
    known = np.where(rows > 0, two, 1.0)
    uneven = 1 / np.where(rows > 0, rows, n) - 1 / n - (three / known) ** 2 / known
    return np.asarray(np.clip(2 / np.maximum(uneven, 2 / n), 1.0, n - 1.0))


def _without_groups(carry: Carrier, answers: Answers, member: IntArray) -> Iterator[FloatArray]:
    """Utilities without each group of test rows; scores are read as often as memory asks for."""
    rows, size, n = len(member), np.bincount(member), carry.transcript.n_answers
    values = answers.values[:n]
    for some in np.array_split(np.arange(len(size)), -(-len(size) * n // MOST_SUMS)):
        sums = np.empty((len(some), n))
        is_member = (member == some[:, None]).astype(np.float64)
        for start, scores in answers.blocks(n):
            sums[:, start : start + len(scores)] = is_member @ scores.T
        yield from (values * rows - sums) / (rows - size[some, None])


def covariance_of(rows: FloatArray, ddof: int) -> FloatArray:
    """Covariance of columns, as a matrix even of one."""
    if rows.shape[1] > MOST_JOINT:
        return np.asarray(rows.var(axis=0, ddof=ddof))
    return np.atleast_2d(np.cov(rows, rowvar=False, ddof=ddof))


def _training_error(
    carry: Carrier, answers: Answers, repeats: int, sizes: FloatArray
) -> FloatArray | None:
    n = carry.transcript.n_answers
    spreads = answers.spreads[:n]
    if np.isnan(spreads).all():
        return None
    noise = _noise(spreads, pool_rows(carry.transcript, sizes), repeats)
    if carry.weights is None:
        values, rng = answers.values[:n], np.random.default_rng(0)
        moved = (values + noise * rng.standard_normal(n) for _ in range(NOISES))
        replayed = carry.replays(moved)
        return None if replayed is None else covariance_of(replayed, ddof=1)
    covariance: FloatArray | float = 0.0
    for start in range(0, n, AT_ONCE):
        stop = min(start + AT_ONCE, n)
        scaled = carry.weights.block(start, stop) * noise[start:stop]
        many = len(scaled) > MOST_JOINT
        covariance += np.square(scaled).sum(axis=1) if many else scaled @ scaled.T
    return np.asarray(covariance)


def _noise(spreads: FloatArray, rows: FloatArray, repeats: int) -> FloatArray:
    """Standard error of each pool's mean of repeats; 0 where nothing was trained.

    Widened by Student's t where few pools and few repeats tell of it.
    """
    variances, trained = np.nan_to_num(spreads) ** 2, ~np.isnan(spreads)
    own, freedom = variances[trained], max(repeats - 1, 1)
    variances[trained] = pooled_variances(own, freedom, rows[trained])
    return np.asarray(np.sqrt(variances / repeats) * student(pooled_freedom(own, freedom)))


def pool_rows(transcript: Transcript, sizes: FloatArray) -> FloatArray:
    """Rows of the pool behind each different answer."""
    numbers = np.concatenate(transcript.answers)
    rows = np.zeros(numbers.max() + 1)
    rows[numbers] = np.concatenate([ask.queries @ sizes for ask in transcript.asks])
    return rows
