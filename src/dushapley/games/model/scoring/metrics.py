r"""Scores of predictions as means over test rows: exactly, or by the influence of each row.

A score that is a mean over test rows is kept row by row. A smooth function of such means (R², root
mean squared error, F1, areas under curves) is written as a mean of value + influence: same score,
and the spread over rows tells what another test set would have said, to first order. Counts of few
rows are corrected: shares within a class by the class's own degrees of freedom, ratios of counts
by leaving each row out in turn (the jackknife's pseudo-values), which has a closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray

Response = Literal["labels", "probabilities", "ranking"]
Average = Literal["binary", "macro", "weighted"]


class Target(NamedTuple):
    """Test targets: as they are, and for classes also as codes into all classes."""

    y: Array
    codes: Array
    classes: Array

    @property
    def rows(self) -> IntArray:
        """Test rows of each class."""
        return np.bincount(self.codes, minlength=len(self.classes))


def hits(target: Target, labels: Array) -> FloatArray:
    """Accuracy: the part of the test rows that is labelled right."""
    return np.asarray(labels == target.y, dtype=np.float64)


def balanced_hits(target: Target, labels: Array) -> FloatArray:
    """Balanced accuracy: the mean recall of the classes in the test set."""
    right, rows = hits(target, labels), target.rows
    recall = np.bincount(target.codes, right, minlength=len(rows)) / np.maximum(rows, 1)
    present = rows > 0
    weight = len(right) / (present.sum() * rows[target.codes]) * few(rows)[target.codes]
    return np.asarray(recall[present].mean() + weight * (right - recall[target.codes]))


def few(rows: Array | int) -> FloatArray:
    """How much deviations from the mean of so many rows must grow to have the right variance."""
    return np.asarray(np.sqrt(rows / np.maximum(rows - 1, 1)))


def log_likelihood(target: Target, probabilities: FloatArray) -> FloatArray:
    """Minus log loss, with probabilities a machine epsilon away from zero and one."""
    own = probabilities[np.arange(len(target.codes)), target.codes]
    epsilon = np.finfo(probabilities.dtype).eps
    return np.asarray(np.log(np.clip(own, epsilon, 1 - epsilon)), dtype=np.float64)


def brier(target: Target, probabilities: FloatArray) -> FloatArray:
    """Minus Brier score, halved for two classes as is the custom."""
    truth = target.codes[:, None] == np.arange(len(target.classes))
    squares = ((probabilities - truth) ** 2).sum(axis=1)
    return np.asarray(-squares * (0.5 if len(target.classes) == 2 else 1.0))


def placements(target: Target, ranking: FloatArray) -> FloatArray:
    """Area under the ROC curve: how often a row of one class outranks a row of the other."""
    return area(target.codes == 1, ranking)


def area(positive: Array, ranking: FloatArray) -> FloatArray:
    """The area of one class against the rest, by each row's placement among the other side's.

    Their variance within both sides is that of DeLong et al. (1988).
    """
    from scipy.stats import rankdata

    up, down = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(ranking)
    within = np.empty(len(ranking))
    for side in (positive, ~positive):
        within[side] = rankdata(ranking[side])
    beaten = (ranks - within) / np.where(positive, down, up)
    placed = np.where(positive, beaten, 1 - beaten)
    mean, own = placed[positive].mean(), np.where(positive, up, down)
    return np.asarray(mean + (placed - mean) * len(ranking) / own * few(own))


def areas(target: Target, probabilities: FloatArray, *, weighted: bool) -> FloatArray:
    """Area under the ROC curve of each class against the rest, averaged."""
    each = np.stack(
        [area(target.codes == c, probabilities[:, c]) for c in range(len(target.classes))], axis=1
    )
    if not weighted:
        return np.asarray(each.mean(axis=1))
    share, area_of = target.rows / len(each), each.mean(axis=0)
    return np.asarray(each @ share + area_of[target.codes] - area_of @ share)


@dataclass(frozen=True)
class Ratio:
    """A share of counts in each class: precision, recall, F1, Jaccard's.

    Attributes
    ----------
    hit
        What a row that is rightly given its class adds above.
    below
        What it adds below, what a row of the class that was missed adds there, and what a row
        wrongly given it.
    """

    hit: float
    below: tuple[float, float, float]

    def __call__(self, target: Target, labels: Array, *, average: Average) -> FloatArray:
        """Average ratio over classes: the score, and by leaving each row out its influence."""
        true, given = target.codes, np.searchsorted(target.classes, labels)
        n, right = len(true), true == given
        counts = [np.bincount(c, minlength=len(target.classes)) for c in (true, given, true[right])]
        weight, scale = self._weights(target, counts, average)
        above = self.hit * counts[2]
        both, missed, wrong = self.below
        under = (
            both * counts[2] + missed * (counts[0] - counts[2]) + wrong * (counts[1] - counts[2])
        )
        each = weight * share(above, under)
        lighter = weight[true] - (average == "weighted")
        # without the row: its own class, and the class it was wrongly given
        own = lighter * share(
            above[true] - self.hit * right, under[true] - np.where(right, both, missed)
        )
        other = np.where(right, 0.0, weight[given] * share(above[given], under[given] - wrong))
        kept = each.sum() - each[true] - np.where(right, 0.0, each[given])
        without = (kept + own + other) / (scale - (average == "weighted"))
        moved = (n - 1) * (without - without.mean())
        return np.asarray(each.sum() / scale - (moved - moved.mean()))  # to the last digit

    def _weights(
        self, target: Target, counts: list[IntArray], average: Average
    ) -> tuple[FloatArray, float]:
        """Weight of each class, and what they add up to."""
        if average == "binary":
            positive = (target.classes == 1).astype(np.float64)
            return positive, 1.0
        rows, given = counts[0], counts[1]
        weight = rows if average == "weighted" else (rows + given) > 0
        return weight.astype(np.float64), float(weight.sum())


def share(above: Array, below: Array) -> FloatArray:
    """A ratio of counts; 0 where there is nothing below."""
    return np.divide(above, below, out=np.zeros(len(above)), where=np.asarray(below) > 0)


def minus_squares(target: Target, predicted: Array) -> FloatArray:
    """Minus mean squared error."""
    return np.asarray(-((target.y - predicted) ** 2), dtype=np.float64)


def minus_distances(target: Target, predicted: Array) -> FloatArray:
    """Minus mean absolute error."""
    return np.asarray(-np.abs(target.y - predicted), dtype=np.float64)


def minus_median(target: Target, predicted: Array) -> FloatArray:
    """Minus median absolute error.

    A row above the median m moves it up by 1/(2nf), f the density at m; 1/f is the slope of the
    quantiles over the 95% interval of m (Woodruff 1952).
    """
    errors = np.abs(target.y - predicted)
    ends = np.clip(0.5 + np.array([-1, 1]) * 0.98 / np.sqrt(len(errors)), 0.0, 1.0)
    low, high = np.quantile(errors, ends)
    median = np.median(errors)
    above = np.sign(errors - median) * (high - low) / (ends[1] - ends[0]) / 2
    return np.asarray(-median - (above - above.mean()))


def minus_root(target: Target, predicted: Array) -> FloatArray:
    """Minus root mean squared error."""
    squares = -minus_squares(target, predicted)
    root = np.sqrt(squares.mean())
    return -root - (squares - root**2) / (2 * root) if root > 0 else -squares


def determination(target: Target, predicted: Array) -> FloatArray:
    """R²: one minus mean squared error over variance.

    By influence of both its parts: 1 − e²/V + (MSE/V)·((y − ȳ)²/V − 1).
    """
    squares, y = -minus_squares(target, predicted), np.asarray(target.y, dtype=np.float64)
    around = (y - y.mean()) ** 2
    variance = around.mean()
    return np.asarray(1 - squares / variance + squares.mean() / variance * (around / variance - 1))


@dataclass(frozen=True)
class RowMetric:
    """A score known row by row.

    Attributes
    ----------
    response
        What it needs of a model.
    rows
        How rows are scored; their mean is the score.
    classes
        Whether it judges classes, or numbers.
    summary
        One line for `dushapley.scores`.
    within
        Whether it compares rows within classes, so that each class needs a few of them for its
        error.
    positive
        Whether it judges the class 1 of two.
    """

    response: Response
    rows: Callable[[Target, Any], FloatArray]
    classes: bool
    summary: str = ""
    within: bool = False
    positive: bool = False


RATIOS: dict[str, tuple[Ratio, str]] = {
    "f1": (Ratio(2.0, (2.0, 1.0, 1.0)), "F1, the harmonic mean of precision and recall"),
    "precision": (Ratio(1.0, (1.0, 0.0, 1.0)), "Precision: how many rows given a class are of it"),
    "recall": (Ratio(1.0, (1.0, 1.0, 0.0)), "Recall: how many rows of a class are given it"),
    "jaccard": (Ratio(1.0, (1.0, 1.0, 1.0)), "Jaccard index: rightly given to given or due"),
}
AVERAGES: dict[str, tuple[Average, str]] = {
    "": ("binary", "of the class 1 of two"),
    "_macro": ("macro", "averaged over classes"),
    "_weighted": ("weighted", "averaged over classes by their test rows"),
}
ROW_METRICS: dict[str, RowMetric] = {
    "accuracy": RowMetric("labels", hits, classes=True),
    "balanced_accuracy": RowMetric("labels", balanced_hits, classes=True, within=True),
    "neg_log_loss": RowMetric("probabilities", log_likelihood, classes=True),
    "neg_brier_score": RowMetric("probabilities", brier, classes=True),
    "roc_auc": RowMetric("ranking", placements, classes=True, within=True),
    "roc_auc_ovr": RowMetric(
        "probabilities",
        partial(areas, weighted=False),
        classes=True,
        summary="Area under the ROC curve, each class against the rest.",
        within=True,
    ),
    "roc_auc_ovr_weighted": RowMetric(
        "probabilities",
        partial(areas, weighted=True),
        classes=True,
        summary="Area under the ROC curve, each class against the rest, by their test rows.",
        within=True,
    ),
    **{
        name + ending: RowMetric(
            "labels",
            partial(ratio, average=average),
            classes=True,
            summary=f"{words}, {how}.",
            within=average != "weighted",
            positive=average == "binary",
        )
        for name, (ratio, words) in RATIOS.items()
        for ending, (average, how) in AVERAGES.items()
    },
    "neg_mean_squared_error": RowMetric("labels", minus_squares, classes=False),
    "neg_mean_absolute_error": RowMetric("labels", minus_distances, classes=False),
    "neg_median_absolute_error": RowMetric("labels", minus_median, classes=False),
    "neg_root_mean_squared_error": RowMetric("labels", minus_root, classes=False),
    "r2": RowMetric("labels", determination, classes=False),
}

SHORT = {
    "auc": "roc_auc",
    "brier": "neg_brier_score",
    "log_loss": "neg_log_loss",
    "mae": "neg_mean_absolute_error",
    "mse": "neg_mean_squared_error",
    "rmse": "neg_root_mean_squared_error",
}
"""Short names of scores; those of errors stand for minus the error, since higher is better."""


def full_name(scoring: Any) -> Any:
    """A score by its full name, where it has a short one; in any case of letters."""
    plain = scoring.lower().replace("-", "_") if isinstance(scoring, str) else ""
    return SHORT.get(plain, scoring)
