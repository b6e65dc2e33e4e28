r"""How labels fit what others' rows predict, in a few numbers that are stored bit by bit.

Where a model says how sure it is, a row that is hard to predict explains its own disagreement: with
:math:`e_r` the chance of another label by the model itself and K classes, a part f of wrong labels
gives :math:`E[d_r] = e_r + f\,(1 - e_r K/(K-1))`, of which f is found by least squares. So rows of
another kind, which are harder, are not taken for wrong labels. Nor is a label that is more common
here than among the others: chances are first weighed by how common each label is with this owner
over how common it was in training, which is Bayes' rule where rows of one label are alike. Of
numbers, a part f of wrong ones makes the others rise by 1 − f as predictions rise by 1, wherever
the rows lie; both are squeezed first, so that a few very large ones do not decide it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray
from dushapley.results.diagnosis import Interval
from dushapley.results.uncertainty import half_width

GRID = np.linspace(0, 1, 101)
"""Quantiles of misses that are kept of a model of numbers."""
USUAL = 0.9
"""Part of an owner's rows that is usually within the tolerance."""
LEAST_ROWS = 10
"""Rows below which nothing is said of labels."""
MOST_EXCHANGED = 200
"""Classes up to which an exchange of labels is looked for."""
UNKNOWN = 1e6
"""Error of what tells nothing."""


def of_classes(model: Any, X: Array, y: Array, classes: Array, trained: Array) -> list[float]:
    """Rows, disagreement, wrong labels and their error, and the best exchange of two labels.

    The last five: agreement once labels are exchanged one for another as it fits best, the
    positions of the predicted and the written label that this exchanges most often, and by how much
    the chances of what is written rise by it, with its error. `trained` are the labels of the rows
    that the model was trained on.
    """
    said = np.searchsorted(classes, model.predict(X))
    written = np.searchsorted(classes, y)
    counts = np.bincount(np.searchsorted(classes, trained), minlength=len(classes)) + 0.5
    usual = np.asarray(counts / counts.sum())  # how common each class is; none is impossible
    chances = _chances(model, X, classes)
    if chances is None:
        wrong, error = _by_class(said != written, written, usual)
        chances = np.eye(len(classes))[said]
    else:
        here = np.bincount(written, minlength=len(usual)) + usual
        weighed = chances * (here / here.sum() / usual) + 1e-12  # as common as it is written here
        weighed /= weighed.sum(axis=1, keepdims=True)
        wrong, error = _wrong(weighed, written)
    off = float((said != written).mean())
    return [len(y), off, wrong, max(error, 0.5 / len(y)), *_exchange(said, written, chances)]


def _chances(model: Any, X: Array, classes: Array) -> FloatArray | None:
    """Chance of each class for each row; None where the model does not say."""
    try:
        known = np.asarray(model.predict_proba(X), dtype=np.float64)
        places = np.searchsorted(classes, model.classes_)
    except Exception:  # many models do not say
        return None
    if known.shape != (len(known), len(places)) or not np.isfinite(known).all():
        return None
    chances = np.zeros((len(known), len(classes)))
    chances[:, places] = np.clip(known, 0.0, 1.0)
    return chances


def _wrong(chances: FloatArray, written: IntArray) -> tuple[float, float]:
    """Part of wrong labels by least squares, and its standard error."""
    expected, k = 1 - chances.max(axis=1), chances.shape[1]
    more = (chances.argmax(axis=1) != written) - expected
    weight = np.maximum(1 - expected * k / max(k - 1, 1), 0.05)
    power = float((weight**2).sum())
    wrong = float((weight * more).sum()) / power
    left = weight * (more - wrong * weight)
    return wrong, float(np.sqrt((left**2).sum() + 1e-12)) / power


def _by_class(off: Array, written: IntArray, usual: FloatArray) -> tuple[float, float]:
    """Disagreement if each label were as common as usual, and its error, of a model of no doubt."""
    here, places, counts = np.unique(written, return_inverse=True, return_counts=True)
    missed = np.bincount(places, weights=off)
    share = usual[here] / usual[here].sum()
    smooth = (missed + 0.5) / (counts + 1)
    variance = float((share**2 * smooth * (1 - smooth) / counts).sum())
    return float((share * (missed / counts)).sum()), float(np.sqrt(variance))


def _exchange(said: IntArray, written: IntArray, chances: FloatArray) -> list[float]:
    """Agreement after the best exchange of labels, the one made most often, and what it gains."""
    from scipy.optimize import linear_sum_assignment

    size, nothing = chances.shape[1], [-1.0, -1.0, 0.0, UNKNOWN]
    if size > MOST_EXCHANGED or bool((written == written[0]).all()):  # or one for all
        return [float((said == written).mean()), *nothing]
    counts = np.bincount(said * size + written, minlength=size**2).reshape(size, size)
    rows, columns = linear_sum_assignment(-(counts + 0.5 * np.eye(size)))
    chosen = counts[rows, columns]
    moved = np.where(rows == columns, 0, chosen)
    most, agreement = int(moved.argmax()), float(chosen.sum() / len(said))
    if moved[most] == 0:
        return [agreement, *nothing]
    meant = np.empty(size, dtype=np.int64)
    meant[columns] = rows
    gains = _fit(chances, meant[written]) - _fit(chances, written)
    error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else UNKNOWN
    return [agreement, float(rows[most]), float(columns[most]), float(gains.mean()), error]


def _fit(chances: FloatArray, labels: IntArray) -> FloatArray:
    """How much likelier each row's label is than one drawn from all: whatever is common here."""
    shares = np.bincount(labels, minlength=chances.shape[1]) / len(labels)
    return np.asarray(chances[np.arange(len(labels)), labels] - chances @ shares)


def of_numbers(model: Any, X: Array, y: Array, trained: Array) -> list[float]:
    """Rows; slope of targets over predictions, its error, and correlation; quantiles of misses.

    Quantiles twice: as they are, and once the line through the middles (slope and offset, which
    stand before them) is taken back, in the others' units. The slope is of squeezed numbers, by the
    middle and spread of the targets that the model was trained on.
    """
    said, target, usual = map(_one_a_row, (model.predict(X), y, trained))
    slope, offset = _line(said, target)
    back = (target - offset) / slope if slope else target
    misses = [np.quantile(np.abs(one - said), GRID) for one in (target, back)]
    low, middle, high = np.quantile(usual, [0.25, 0.5, 0.75])
    spread = float(high - low) or float(usual.std()) or 1.0
    squeezed = (np.arcsinh((one - middle) / spread) for one in (said, target))
    return [len(y), *_trend(*squeezed), slope, offset, *np.concatenate(misses).tolist()]


def _one_a_row(numbers: Any) -> FloatArray:
    """One number a row: the mean, where there are several."""
    table = np.asarray(numbers, dtype=np.float64).reshape(len(numbers), -1)
    return np.asarray(table.mean(axis=1))


def _trend(said: FloatArray, target: FloatArray) -> tuple[float, float, float]:
    """By how much targets rise as predictions do, the error of that, and their correlation."""
    away, off = said - said.mean(), target - target.mean()
    power = float((away**2).sum())
    if power <= 0 or len(said) < 3:
        return 1.0, UNKNOWN, 0.0  # a prediction that never moves tells nothing
    together = float((away * off).sum())
    slope = together / power
    freedom = np.maximum(1 - 1 / len(said) - away**2 / power, 0.1)
    left = (off - slope * away) / freedom
    error = float(np.sqrt((away**2 * left**2).sum())) / power  # as of rows left out in turn
    most = np.sqrt(power * float((off**2).sum()))
    return slope, error, float(together / most) if most > 0 else 0.0


def _line(said: FloatArray, target: FloatArray) -> tuple[float, float]:
    """A straight line through the middles of thirds: few wrong targets do not turn it."""
    thirds = [part for part in np.array_split(np.argsort(said, kind="stable"), 3) if len(part)]
    ends = [[float(np.median(one[rows])) for one in (said, target)] for rows in thirds]
    (x0, y0), (x1, y1) = ends[0], ends[-1]
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 1.0
    return slope, float(np.median(target - slope * said))


def within(model: Any, X: Array, y: Array, tolerance: float | None, classes: Array | None) -> float:
    """Part of these rows whose label is predicted, or whose number is within the tolerance."""
    said = np.asarray(model.predict(X))
    if classes is not None or tolerance is None:
        return float((said == y).mean())
    miss = np.asarray(said, dtype=np.float64) - np.asarray(y, dtype=np.float64)
    return float((_one_a_row(np.abs(miss)) <= tolerance).mean())


def part(share: float, rows: float) -> Interval | None:
    """A part of so many rows, with Wilson's interval; None where it is not known."""
    if not np.isfinite(share):
        return None
    z = half_width(1.0)
    shrink = 1 + z**2 / rows
    middle = (share + z**2 / (2 * rows)) / shrink
    variance = share * (1 - share) / rows + z**2 / (4 * rows**2)
    width = z * np.sqrt(variance) / shrink
    low, high = max(0.0, middle - width), min(1.0, middle + width)
    return float(share), float(min(low, share)), float(max(high, share))


def mean_part(shares: FloatArray, rows: FloatArray) -> tuple[float, float]:
    """Mean of parts of so many rows each, and its error: √(Σ p(1 − p)/n) over their number."""
    smooth = (shares * rows + 1) / (rows + 2)  # so that a part of 0 or 1 is not without error
    variance = (smooth * (1 - smooth) / rows).sum()
    return float(shares.mean()), float(np.sqrt(variance) / len(shares))
