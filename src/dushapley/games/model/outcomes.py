"""Outcomes of trainings: repeats averaged, test rows in groups, failures in one line."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.games.base import Outcome

MOST_SCORES = 2048
"""Entries kept of a score that is known test row by test row: at most 16 KB a training."""


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
        spread=float(values.std(ddof=1)) if len(values) > 1 else None,
    )


def grouped(rows: FloatArray) -> FloatArray:
    """Scores of test rows, or of at most `MOST_SCORES` random groups of them.

    A group's entry is m + (n_g·G/n)(m_g − m), m the mean, m_g and n_g mean and rows of the group:
    same mean as the rows, and the mean's standard error is still that of independent entries.
    """
    if len(rows) <= MOST_SCORES:
        return rows
    group = np.random.default_rng(0).permutation(len(rows)) % MOST_SCORES
    mean = rows.mean()
    sums = np.bincount(group, rows - mean, minlength=MOST_SCORES)
    return np.asarray(mean + sums * (MOST_SCORES / len(rows)))


def failure_cause(error: BaseException) -> str:
    """A failure in one line that is equal for equal causes."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
