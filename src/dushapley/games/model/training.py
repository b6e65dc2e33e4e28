"""One training after another: fresh models, generators seeded, a time limit.

And what comes of them: repeats averaged, test rows in groups, failures in one line.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Rows
from dushapley.errors import InvalidGame
from dushapley.games.base import Limits, Outcome, failure_cause
from dushapley.games.model.randomness import derived_seeds, seeded_generators
from dushapley.validation import is_number, is_whole, refuse

LONGEST = 1e8
"""Seconds that an alarm can wait, and then some: three years."""
LEAST = 1e-4
"""Part of the variance of repeats that is theirs at least, however lucky the test rows are."""
MOST_SCORES = 2048
"""Entries kept of a score that is known test row by test row: at most 16 KB a training."""


class TimedOut(Exception):
    """A training took longer than it may."""


class OutOfMemory(Exception):
    """A training took more memory than it may."""


def out_of_memory(size: int) -> OutOfMemory:
    """The failure of a training that was given so many bytes."""
    return OutOfMemory(f"more than {size / 1e6:g} MB")


def timed_out(seconds: float) -> TimedOut:
    """The failure of a training that was given so many seconds."""
    return TimedOut(f"no result within {seconds:g} s")


@dataclass(frozen=True)
class Fresh:
    """Makes fresh, unfitted copies of a model, in a fifth of the time of scikit-learn's clone.

    Attributes
    ----------
    template
        The unfitted model.
    open_seeds
        Parameters that are set anew in every copy, from the seed of its training.
    """

    template: Any
    open_seeds: tuple[str, ...] = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load what trainings need when a worker is given the game, not in the first one's time."""
        import sklearn.base  # noqa: F401

        vars(self).update(state)

    def __call__(self, seed: int) -> Any:
        seeds = derived_seeds(self.open_seeds, seed)
        copy = deepcopy(self.template)
        return copy.set_params(**seeds) if seeds else copy


@dataclass(frozen=True)
class Trained:
    """One training: its score, with the rows where they are known, and what the model says."""

    score: tuple[float, FloatArray | None]
    said: list[Array]


def train(
    make: Fresh,
    rows: tuple[Rows, Array],
    score: Callable[[Any], tuple[float, FloatArray | None]],
    *,
    seed: int,
    seconds: float | None,
    listen: Callable[[Any], list[Array]] = lambda _: [],
    options: Mapping[str, Any] | None = None,
) -> Trained:
    """Fit and score a fresh model.

    One that loads torch only while it is trained could not be seeded: it is trained again.
    """
    while True:
        loaded = "torch" in sys.modules
        with seeded_generators(seed), time_limit(seconds):
            model = fitted(lambda: make(seed), *rows, options or {})
            trained = Trained(score(model), listen(model))
        if loaded or "torch" not in sys.modules:
            return trained


def fitted(make: Callable[[], Any], X: Rows, y: Array, options: Mapping[str, Any]) -> Any:
    """A model fitted to rows; where it takes no labels but 0, 1, 2, ..., to codes of them.

    XGBoost refuses text, and pools that lack a class between two others; scikit-learn refuses
    numbers among objects.
    """
    model = make()
    try:
        return model.fit(X, y, **options)
    except (ValueError, TypeError):
        from sklearn.base import is_classifier  # only here: loading it would count as training

        from dushapley.games.model.wrappers import Decoded

        if y.ndim > 1 or not is_classifier(model):
            raise
        classes, codes = np.unique(y, return_inverse=True)
        if y.dtype.kind != "O" and np.array_equal(classes, np.arange(len(classes))):
            raise
        with suppress(Exception):
            return Decoded(make().fit(X, codes, **options), classes)
        raise


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimedOut` inside the block once its time is up.

    Works by an alarm signal: the training is interrupted when it next returns to Python, so a
    single call into compiled code is not cut short.
    """
    if seconds is None:
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        raise timed_out(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def refuse_impossible(limits: Limits) -> None:
    """Refuse limits that make no sense, or that this thread and system cannot keep."""
    timed, sized = limits.timeout is not None, limits.memory is not None
    alarm = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    refuse(
        InvalidGame,
        (
            timed and not is_number(limits.timeout, above=0, most=LONGEST),
            f"timeout is {limits.timeout!r}; it must be a positive number of seconds (at most "
            f"{LONGEST:g}), or None for no limit.",
        ),
        (
            timed and not alarm,
            "timeout= works by an alarm signal, which exists only on Unix and in the main thread. "
            "Leave it out here, or run in workers (n_jobs=2).",
        ),
        (
            sized and not is_whole(limits.memory, least=1),
            f"memory is {limits.memory!r}; it must be a positive whole number of bytes, or None.",
        ),
        (
            sized and (sys.platform != "linux" or find_spec("resource") is None),
            "memory= needs Linux, which can refuse memory to a process. Leave it out here.",
        ),
    )


def of_another_limit(failure: str, limits: Limits) -> bool:
    """Whether a stored failure is of a limit that is no longer today's."""
    late = limits.timeout and failure_cause(timed_out(limits.timeout))
    large = limits.memory and failure_cause(out_of_memory(limits.memory))
    limited = failure.startswith((TimedOut.__name__, OutOfMemory.__name__))
    return limited and failure not in (late, large)


def average(scored: list[tuple[float, FloatArray | None]]) -> Outcome:
    """Mean of repeated trainings, their rows and their spread."""
    values = np.array([value for value, _ in scored])
    rows = [row for _, row in scored if row is not None]
    mean = float(values.mean()) if len(values) > 1 else scored[0][0]
    if not np.isfinite(mean):
        raise ArithmeticError(f"the score is {mean}")
    return Outcome(
        mean,
        scores=grouped(np.mean(rows, axis=0) if len(rows) > 1 else rows[0]) if rows else None,
        spread=_spread(values, rows) if len(values) > 1 else None,
    )


def _spread(values: FloatArray, rows: list[FloatArray]) -> float:
    """Standard deviation of repeats; of equal ones it is 0, not what rounding makes of it.

    Without what repeats differ in by the luck of these test rows (the interaction of an analysis
    of variance), which the error of the test set counts already.
    """
    if not (values != values[0]).any():
        return 0.0
    variance = float(values.var(ddof=1))
    if len(rows) == len(values) and rows[0].ndim == 1 and len(rows[0]) > 1:
        away = np.array(rows) - np.mean(rows, axis=0)
        away -= away.mean(axis=1, keepdims=True)
        n = away.shape[1]
        luck = float((away**2).sum()) / ((len(values) - 1) * (n - 1) * n)
        variance = max(variance - luck, LEAST * variance)
    return float(np.sqrt(variance))


def grouped(rows: FloatArray, most: int = MOST_SCORES) -> FloatArray:
    """Scores of test rows, or of at most `most` random groups of them; columns are kept apart.

    A group's entry is m + (n_g·G/n)(m_g − m), m the mean, m_g and n_g mean and rows of the group:
    same mean as the rows, and the mean's standard error is still that of independent entries.
    """
    if len(rows) <= most:
        return rows
    order, starts = _groups(len(rows), most)
    mean = rows.mean(axis=0)
    sums = np.add.reduceat((rows - mean)[order], starts, axis=0)
    return np.asarray(mean + sums * (most / len(rows)))


@lru_cache(maxsize=8)
def _groups(rows: int, groups: int) -> tuple[IntArray, IntArray]:
    """Rows in the order of their random groups, the same for all pools, and where groups begin."""
    group = np.random.default_rng(0).permutation(rows) % groups
    order = np.argsort(group, kind="stable")
    return order, np.searchsorted(group[order], np.arange(groups))
