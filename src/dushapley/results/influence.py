r"""Standard errors of values that are means over test rows, from the values of single rows.

Let :math:`\phi_{ri}` be the value of owner i by test row r, so that its value is the mean over n
rows. Another test set of n rows would give another mean, with the covariance

.. math:: \Sigma = \frac{1}{n(n-1)} \sum_r (\phi_r - \bar\phi)(\phi_r - \bar\phi)^T.

Three things make a normal interval with this covariance too short; each is answered for values and
for all differences of two values (nobody's value, 0, being one of the two), by sums of powers of
:math:`x_r = \phi_{ri} - \phi_{rj} - (\bar\phi_i - \bar\phi_j)`, which are products of the
matrix of deviations with itself: with :math:`m_k = \sum_r x_r^k`,

- *Few rows decide.* :math:`m_2^2 / m_4` rows tell of the variance in effect (n of equal size, 1 if
  one row is all there is). A variance of n rows has itself a relative variance of
  :math:`(\kappa - 1)/n`, with :math:`\kappa = n m_4 / m_2^2`; one of f degrees of freedom has 2/f.
  So the interval is Student's with :math:`f = 2n/(\kappa - 1 - \gamma^2)` degrees.
- *Rows are skewed.* :math:`\gamma = \sqrt n\, m_3 / m_2^{3/2}` shifts the mean against its own
  standard error; `Spread.errors` widens for it, which is why f leaves it out.
- *Hardly any row tells.* Of a kind of row that was not seen among n there are at most 3/n with 95%
  certainty (the rule of three), and each may move the mean by as much as one row does: below
  `ENOUGH_EVENTS` rows in effect the interval reaches at least so far.

The last covariance keeps what was found for single values, and for a difference that needs more
than it says gives the two owners variance of their own (`INDEPENDENT` at most).
"""

from __future__ import annotations

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.calibration import ALIKE, ENOUGH_EVENTS, FEW, NORMAL, Spread
from dushapley.results.uncertainty import MOST_JOINT, with_errors

INDEPENDENT = 0.9
"""Part of an owner's variance that may be made its own, for differences that few rows tell of."""


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
    largest = float(abs(away).max())
    if largest <= ALIKE * float(abs(influence).max()):
        if not shift:
            return None
        away, largest = np.zeros_like(away), shift
    away[:, np.ptp(away, axis=0) <= ALIKE * largest] = 0.0
    if away.shape[1] > MOST_JOINT:
        return np.square(largest * _own_errors(away / largest, shift / largest))
    errors = largest * _difference_errors(away / largest, shift / largest)
    joint = with_errors(covariance_of(away) / len(away), errors[-1, :-1])
    own = np.diag(joint)
    lacking = errors[:-1, :-1] ** 2 - (np.add.outer(own, own) - 2 * joint)
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
    own, skew, tail = np.diag(second), np.diag(third), np.diag(both)
    sums = np.add.outer(own, own)
    two = np.maximum(sums - 2 * second, 0.0)
    three = np.subtract.outer(skew, skew) - 3 * (third - third.T)
    four = np.add.outer(tail, tail) - 4 * (fourth + fourth.T) + 6 * both
    alike = two <= ALIKE * sums.max()
    reach = np.ptp(x, axis=0) / len(x)
    reach = np.maximum(np.maximum.outer(reach, reach), shift)
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
    return np.maximum(spread.errors, unseen), rows


def _freedom(n: int, two: FloatArray, three: FloatArray, rows: FloatArray) -> FloatArray:
    """Degrees of freedom of variances: in a class of few test rows, as many as these.

    2n/(κ − 1 − γ²), with n/κ = `rows` those in effect: a variance of n rows is itself known to a
    relative variance of (κ − 1)/n, and one of f degrees to 2/f; the skewness γ is widened for by
    itself.
    """
    known = np.where(rows > 0, two, 1.0)
    uneven = 1 / np.where(rows > 0, rows, n) - 1 / n - (three / known) ** 2 / known
    return np.clip(2 / np.maximum(uneven, 2 / n), 1.0, n - 1.0)


def covariance_of(rows: FloatArray) -> FloatArray:
    """Covariance of columns, as a matrix even of one."""
    if rows.shape[1] > MOST_JOINT:
        return rows.var(axis=0, ddof=1)
    return np.atleast_2d(np.cov(rows, rowvar=False))
