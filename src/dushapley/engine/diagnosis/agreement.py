r"""How labels fit what others' rows predict, in a few numbers that are stored bit by bit.

Where a model says how sure it is, a row that is hard to predict explains its own disagreement: with
:math:`e_r` the chance of another label by the model itself and K classes, a part f of wrong labels
gives :math:`E[d_r] = e_r + f\,(1 - e_r K/(K-1))`, of which f is found by least squares. So rows of
another kind, which are harder, are not taken for wrong labels. Of numbers, a part f of wrong ones
makes the others rise by 1 − f as predictions rise by 1, wherever the rows lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.results.diagnosis import Interval
from dushapley.results.uncertainty import half_width

GRID = np.linspace(0, 1, 101)
"""Quantiles of misses that are kept of a model of numbers."""
USUAL = 0.9
"""Part of an owner's rows that is usually within the tolerance."""
LEAST_ROWS = 10
"""Rows below which nothing is said of labels."""


def of_classes(model: Any, X: Array, y: Array, classes: Array) -> list[float]:
    """Rows, disagreement, wrong labels and their error, and the best exchange of two labels.

    The last three: agreement once labels are exchanged one for another as it fits best, and the
    positions of the predicted and the written label that this exchanges most often.
    """
    said, sure = _labels(model, X, classes)
    written = np.searchsorted(classes, y)
    off = said != written
    expected = np.full(len(y), off.mean()) if sure is None else 1 - sure
    fewer = len(classes) / max(len(classes) - 1, 1)
    weight = np.maximum(1 - expected * fewer, 0.05)
    power = float((weight**2).sum())
    wrong = float((weight * (off - expected)).sum()) / power
    left = weight * (off - expected - wrong * weight)
    error = float(np.sqrt((left**2).sum() + 1e-12)) / power
    if sure is None:  # one chance for all rows: what it is usually is known by the other owners
        wrong, error = float(off.mean()), float(np.sqrt(off.mean() * (1 - off.mean()) / len(y)))
    return [len(y), float(off.mean()), wrong, max(error, 0.5 / len(y)), *_exchange(said, written)]


def _labels(model: Any, X: Array, classes: Array) -> tuple[Array, FloatArray | None]:
    """Positions of the predicted labels, and how sure the model is of each."""
    said = np.searchsorted(classes, model.predict(X))
    try:
        chances = np.asarray(model.predict_proba(X), dtype=np.float64).max(axis=1)
    except Exception:  # many models do not say
        return said, None
    return said, np.clip(chances, 0.0, 1.0) if np.isfinite(chances).all() else None


def _exchange(said: Array, written: Array) -> list[float]:
    """Agreement after the best exchange of labels, and which one is exchanged most often."""
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import coo_array

    size = int(max(said.max(), written.max())) + 1
    if size > 200 or bool((written == written[0]).all()):  # too many for a square, or one for all
        return [float((said == written).mean()), -1.0, -1.0]
    counts = coo_array((np.ones(len(said)), (said, written)), shape=(size, size)).toarray()
    rows, columns = linear_sum_assignment(-(counts + 0.5 * np.eye(size)))
    moved = np.where(rows == columns, 0, counts[rows, columns])
    most = int(moved.argmax())
    if moved[most] == 0:
        return [float(counts[rows, columns].sum() / len(said)), -1.0, -1.0]
    return [float(counts[rows, columns].sum() / len(said)), float(rows[most]), float(columns[most])]


def of_numbers(model: Any, X: Array, y: Array) -> list[float]:
    """Rows; slope of targets over predictions, its error, and correlation; quantiles of misses.

    Quantiles twice: as they are, and once the line through the middles (slope and offset, which
    stand before them) is taken back, in the others' units.
    """
    said = np.asarray(model.predict(X), dtype=np.float64).reshape(len(y), -1).mean(axis=1)
    target = np.asarray(y, dtype=np.float64).reshape(len(y), -1).mean(axis=1)
    slope, offset = _line(said, target)
    back = (target - offset) / slope if slope else target
    misses = [np.quantile(np.abs(one - said), GRID) for one in (target, back)]
    return [len(y), *_trend(said, target), slope, offset, *np.concatenate(misses).tolist()]


def _trend(said: FloatArray, target: FloatArray) -> tuple[float, float, float]:
    """By how much targets rise as predictions do, the error of that, and their correlation."""
    away, off = said - said.mean(), target - target.mean()
    power = float((away**2).sum())
    if power <= 0 or len(said) < 3:
        return 1.0, 1e6, 0.0  # a prediction that never moves tells nothing
    slope = float((away * off).sum()) / power
    left = (off - slope * away) / np.maximum(1 - 1 / len(said) - away**2 / power, 0.1)
    error = float(np.sqrt((away**2 * left**2).sum())) / power  # as of rows left out in turn
    together = np.sqrt(power * float((off**2).sum()))
    return slope, error, float((away * off).sum() / together) if together > 0 else 0.0


def _line(said: FloatArray, target: FloatArray) -> tuple[float, float]:
    """A straight line through the middles of thirds: few wrong targets do not turn it."""
    order = np.argsort(said, kind="stable")
    thirds = [rows for rows in np.array_split(order, 3) if len(rows)]
    ends = [[float(np.median(one[rows])) for one in (said, target)] for rows in thirds]
    (x0, y0), (x1, y1) = ends[0], ends[-1]
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 1.0
    return slope, float(np.median(target - slope * said))


def beyond(quantiles: FloatArray, tolerance: float) -> float:
    """Part of the rows that are missed by more than the tolerance."""
    return float(1 - np.interp(tolerance, quantiles, GRID))


def within(model: Any, X: Array, y: Array, tolerance: float | None, classes: Array | None) -> float:
    """Part of these rows whose label is predicted, or whose number is within the tolerance."""
    said = np.asarray(model.predict(X))
    if classes is not None or tolerance is None:
        return float((said == y).mean())
    miss = np.asarray(said, dtype=np.float64) - np.asarray(y, dtype=np.float64)
    return float((np.abs(miss.reshape(len(y), -1)).mean(axis=1) <= tolerance).mean())


def part(share: float, rows: float) -> Interval:
    """A part of so many rows, with Wilson's interval."""
    z = half_width(1.0)
    middle = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
    width = z * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
    low, high = max(0.0, middle - width), min(1.0, middle + width)
    return float(share), float(min(low, share)), float(max(high, share))
