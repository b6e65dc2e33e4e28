r"""Scores of fitted models on a test set, test row by test row wherever that is possible.

A score that is a mean over test rows is kept row by row. A smooth function of such means (R², root
mean squared error, F1, areas under curves) is written as a mean of value + influence: same score,
and the spread over rows tells what another test set would have said, to first order. Counts of few
rows are corrected: shares within a class by the class's own degrees of freedom, ratios of counts
by leaving each row out in turn (the jackknife's pseudo-values), which has a closed form.

Of any other scorer only answers are known: it is asked again without each group of test rows in
turn (`jackknife`).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Rows
from dushapley.errors import InvalidGame
from dushapley.games.model.scoring.jackknife import pseudo_values
from dushapley.validation import refuse

Score = tuple[float, FloatArray | None]
"""Score of a model, and its test rows where they are known."""


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
    return recall[present].mean() + weight * (right - recall[target.codes])


def few(rows: Array | int) -> FloatArray:
    """How much deviations from the mean of so many rows must grow to have the right variance."""
    return np.sqrt(rows / np.maximum(rows - 1, 1))


def log_likelihood(target: Target, probabilities: FloatArray) -> FloatArray:
    """Minus log loss, with probabilities a machine epsilon away from zero and one."""
    own = probabilities[np.arange(len(target.codes)), target.codes]
    epsilon = np.finfo(probabilities.dtype).eps
    return np.asarray(np.log(np.clip(own, epsilon, 1 - epsilon)), dtype=np.float64)


def brier(target: Target, probabilities: FloatArray) -> FloatArray:
    """Minus Brier score, halved for two classes as is the custom."""
    truth = target.codes[:, None] == np.arange(len(target.classes))
    squares = ((probabilities - truth) ** 2).sum(axis=1)
    return -squares * (0.5 if len(target.classes) == 2 else 1.0)


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
    return mean + (placed - mean) * len(ranking) / own * few(own)


def areas(target: Target, probabilities: FloatArray, *, weighted: bool) -> FloatArray:
    """Area under the ROC curve of each class against the rest, averaged."""
    each = np.stack(
        [area(target.codes == c, probabilities[:, c]) for c in range(len(target.classes))], axis=1
    )
    if not weighted:
        return each.mean(axis=1)
    share, area_of = target.rows / len(each), each.mean(axis=0)
    return each @ share + area_of[target.codes] - area_of @ share


def ratio(
    target: Target,
    labels: Array,
    *,
    hit: float,
    below: tuple[float, float, float],
    average: str,
) -> FloatArray:
    """A share of counts in each class, averaged: precision, recall, F1, Jaccard's.

    The score, and by leaving each row out its influence. A row that is rightly given its class adds
    `hit` above; `below` is what it adds there, what a row of the class that was missed adds, and
    what a row wrongly given it.
    """
    true, given = target.codes, np.searchsorted(target.classes, labels)
    n, right, weighted = len(true), true == given, average == "weighted"
    rows, named, rightly = (
        np.bincount(codes, minlength=len(target.classes)) for codes in (true, given, true[right])
    )
    counted = rows if weighted else rows + named > 0
    weight = np.asarray(target.classes == 1 if average == "binary" else counted, dtype=np.float64)
    both, missed, wrong = below
    above, scale = hit * rightly, weight.sum()
    under = both * rightly + missed * (rows - rightly) + wrong * (named - rightly)
    each = weight * share(above, under)
    # without the row: its own class, and the class it was wrongly given
    left = under[true] - np.where(right, both, missed)
    own = (weight[true] - weighted) * share(above[true] - hit * right, left)
    other = np.where(right, 0.0, weight[given] * share(above[given], under[given] - wrong))
    kept = each.sum() - each[true] - np.where(right, 0.0, each[given])
    without = (kept + own + other) / (scale - weighted)
    moved = (n - 1) * (without - without.mean())
    return each.sum() / scale - (moved - moved.mean())  # to the last digit


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
    return -median - (above - above.mean())


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
    return 1 - squares / variance + squares.mean() / variance * (around / variance - 1)


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

    response: Literal["labels", "probabilities", "ranking"]
    rows: Callable[[Target, Any], FloatArray]
    classes: bool = True
    summary: str = ""
    within: bool = False
    positive: bool = False


RATIOS = {
    "f1": (2.0, (2.0, 1.0, 1.0), "F1, the harmonic mean of precision and recall"),
    "precision": (1.0, (1.0, 0.0, 1.0), "Precision: how many rows given a class are of it"),
    "recall": (1.0, (1.0, 1.0, 0.0), "Recall: how many rows of a class are given it"),
    "jaccard": (1.0, (1.0, 1.0, 1.0), "Jaccard index: rightly given to given or due"),
}
AVERAGES = {
    "": ("binary", "of the class 1 of two"),
    "_macro": ("macro", "averaged over classes"),
    "_weighted": ("weighted", "averaged over classes by their test rows"),
}
ROW_METRICS = {
    "accuracy": RowMetric("labels", hits),
    "balanced_accuracy": RowMetric("labels", balanced_hits, within=True),
    "neg_log_loss": RowMetric("probabilities", log_likelihood),
    "neg_brier_score": RowMetric("probabilities", brier),
    "roc_auc": RowMetric("ranking", placements, within=True),
    "roc_auc_ovr": RowMetric(
        "probabilities",
        partial(areas, weighted=False),
        summary="Area under the ROC curve, each class against the rest.",
        within=True,
    ),
    "roc_auc_ovr_weighted": RowMetric(
        "probabilities",
        partial(areas, weighted=True),
        summary="Area under the ROC curve, each class against the rest, by their test rows.",
        within=True,
    ),
    **{
        name + ending: RowMetric(
            "labels",
            partial(ratio, hit=hit, below=below, average=average),
            summary=f"{words}, {how}.",
            within=average != "weighted",
            positive=average == "binary",
        )
        for name, (hit, below, words) in RATIOS.items()
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


class Scorer:
    """Scores fitted models on one test set.

    Attributes
    ----------
    least
        Test rows of a class below which nothing is said of the error of a score within classes.

    Parameters
    ----------
    scoring
        Name of a score in scikit-learn, or a scorer ``f(model, X, y) -> number``.
    X, y
        The test set.
    classes
        All labels of owners and test set, sorted; None for regression.
    """

    least = 5

    def __init__(self, scoring: Any, X: Rows, y: Array, classes: Array | None) -> None:
        self.X, self.classes = X, classes
        self.name = scoring if isinstance(scoring, str) else None
        known = y[:0].ravel() if classes is None else classes
        self.target = Target(y, np.searchsorted(known, y), known)
        self.metric = self._row_metric()
        self.black_box: Any = None if self.metric else black_box(scoring)

    def _row_metric(self) -> RowMetric | None:
        y, _, known = self.target
        metric = ROW_METRICS.get(self.name or "")
        ranked = metric is not None and metric.response == "ranking"
        if metric is None or y.ndim != 1:
            return None
        labels, two = known.tolist(), len(known) == 2
        last = max(labels, default=None)
        refuse(
            InvalidGame,
            (
                metric.classes and self.classes is None,
                f"scoring={self.name!r} judges classes, but the model does not say that it is a "
                "classifier. Pass one (a class of your own names ClassifierMixin before "
                "BaseEstimator), or a score of numbers such as 'r2' or 'neg_mean_squared_error'.",
            ),
            (
                metric.positive and not (two and 1 in labels),
                f"scoring={self.name!r} judges the class 1 of two, but the classes are "
                f"{', '.join(map(repr, labels[:6]))}. Choose '{self.name}_macro' or "
                f"'{self.name}_weighted'"
                f"{f', or make_scorer({self.name}_score, pos_label={last!r})' * two}.",
            ),
            (
                ranked and not two,
                f"roc_auc ranks two classes; found {len(known)}. Choose 'roc_auc_ovr', which takes "
                "each class against the rest.",
            ),
            (
                "roc_auc" in str(self.name) and (self.target.rows == 0).any(),
                f"{self.name} needs test rows of {'both classes' if ranked else 'every class'}; "
                f"found {int((self.target.rows > 0).sum())} of {len(known)} classes.",
            ),
            (
                not metric.classes and y.dtype.kind not in "fiub",
                f"scoring={self.name!r} needs numbers as targets; found text. Choose a score of "
                "classes, such as 'accuracy'.",
            ),
            (
                metric.rows is determination and bool((y == y[0]).all()),
                "r2 needs test targets that differ; found one value only.",
            ),
        )
        return metric

    @property
    def known_by_row(self) -> bool:
        """Whether the rows of a known metric tell its error: not of a class that has but a few."""
        assert self.metric is not None
        judged = self.target.classes == 1 if self.metric.positive else slice(None)
        return not (self.metric.within and bool((self.target.rows[judged] < self.least).any()))

    @property
    def shift(self) -> float:
        """How far one test row may move the score, where that is known; else 0."""
        metric = self.metric
        if metric is None or not metric.classes or metric.rows is log_likelihood:
            return 0.0
        if not metric.within:
            return 1 / len(self.target.y)
        rows = self.target.rows[self.target.classes == 1 if metric.positive else slice(None)]
        averaged = 1 if metric.response == "ranking" else len(rows)
        return float(1 / (averaged * rows[rows > 0].min())) if rows.any() else 0.0

    def __call__(self, model: Any) -> Score:
        """The score of a fitted model, and its rows where they are known."""
        if self.metric is None:
            value, y = self.value(model), self.target.y
            return value, pseudo_values(self.black_box, self._padded(model), self.X, y, value)
        X = self.X.copy()  # models may write into it, and there is one test set for all
        ranking = self.metric.response == "ranking"
        if self.metric.response == "labels":
            response = np.asarray(model.predict(X))
            column = response.ndim == 2 and response.shape[1] == 1
            response = response[:, 0] if column else response
        elif ranking and hasattr(model, "decision_function"):
            response = np.asarray(model.decision_function(X))
        else:
            probabilities = np.asarray(self._padded(model).predict_proba(X))
            response = probabilities[:, 1] if ranking else probabilities
        return self.judge(response)

    def value(self, model: Any) -> float:
        """The score alone."""
        if self.black_box is None:
            return self(model)[0]
        given = self.X.copy(), self.target.y.copy()  # scorers and models may write into them
        score = self.black_box(self._padded(model), *given)
        if np.ndim(score):
            raise InvalidGame(
                f"The scorer gave an array of shape {np.shape(score)}; it must give one number for "
                "a model: scoring=f(model, X, y) -> number."
            )
        return float(score)

    def judge(self, response: Array) -> Score:
        """The score of a response by a known metric, and its rows."""
        assert self.metric is not None
        rows = self.metric.rows(self.target, response)
        return float(rows.mean()), rows if self.known_by_row else None

    def _padded(self, model: Any) -> Any:
        """A model that lacks classes, as one that gives them probability zero."""
        seen = getattr(model, "classes_", None)
        several = self.target.y.ndim > 1  # each with classes of its own
        if self.classes is None or seen is None or several or np.array_equal(seen, self.classes):
            return model
        from dushapley.games.model.wrappers import Padded

        return Padded(model, self.classes)


def black_box(scoring: Any) -> Callable[[Any, Array, Array], float]:
    """A scorer of which only the answers are known."""
    if callable(scoring):
        refuse_metric(scoring)
        return scoring
    from sklearn.metrics import get_scorer, get_scorer_names

    try:
        return get_scorer(scoring)
    except (ValueError, TypeError) as error:
        known = [*get_scorer_names(), *SHORT]
        near = difflib.get_close_matches(str(scoring).lower(), known, n=3, cutoff=0.4)
        raise InvalidGame(
            f"There is no score {scoring!r}."
            + (f" Did you mean {' or '.join(map(repr, near))}?" if near else "")
            + f" Choose among {', '.join(['accuracy', 'f1', 'r2', *SHORT])}, or another score that "
            "scikit-learn knows by name; in Python, a function of model, X and y will do as well."
        ) from error


def refuse_metric(scoring: Callable[..., Any]) -> None:
    """Refuse a function of targets and predictions, an easy mistake to make."""
    try:
        shape = inspect.signature(scoring)
    except (TypeError, ValueError):  # some compiled functions do not tell
        return
    try:
        shape.bind("model", "X", "y")
    except TypeError as error:
        raise InvalidGame(
            f"scoring is a function of {shape}; it must take (model, X, y) and return a "
            "number. sklearn.metrics.make_scorer makes it from a function of targets and "
            "predictions."
        ) from error


def best_constant(scorer: Scorer) -> Score:
    """Score of the best constant prediction: what can be had without any owner's data.

    For classes: every label, and the class frequencies of the test set. For numbers: mean and
    median of the test targets. These are the best constants of all the usual scores.
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor

    y, classes, tried = scorer.target.y, scorer.classes, []
    rows = np.zeros((len(y), 1))
    if classes is None:
        constants = [DummyRegressor(strategy=name).fit(rows, y) for name in ("mean", "median")]
    else:
        labels = [constant_label(label, classes) for label in classes] if y.ndim == 1 else []
        constants = [DummyClassifier(strategy="prior").fit(rows, y), *labels]
    for constant in constants:
        try:
            tried.append((scorer.value(constant), constant))
        except InvalidGame:
            raise
        except Exception as error:
            cure = (
                "Name the class that counts by make_scorer and its pos_label in Python, write the "
                "labels as 0 and 1, or choose a score of all classes."
                if "pos_label" in str(error)
                else "Pass empty= with a number, or 'zero'."
            )
            raise InvalidGame(
                f"The score of a constant prediction cannot be had ({type(error).__name__}: "
                f"{error}), so u(nobody) is unknown. {cure}"
            ) from error
    best = max(tried, key=lambda pair: pair[0] if np.isfinite(pair[0]) else -np.inf)
    if not np.isfinite(best[0]):
        raise InvalidGame(
            f"Every constant prediction scores {best[0]}, so u(nobody) is unknown. "
            "Pass empty= with a number, or 'zero'."
        )
    return scorer(best[1])


def constant_label(label: Any, classes: Array) -> Any:
    """What a pool of a single class trains: a classifier that always answers that class."""
    from sklearn.dummy import DummyClassifier

    # as a list: scikit-learn takes no bare truth value or decimal number for a class
    return DummyClassifier(strategy="constant", constant=[label]).fit(
        np.zeros((len(classes), 1)), classes
    )


def own(model: Any, X: Rows, y: Array) -> float:
    """A fitted model's own score, as a scorer."""
    return float(model.score(X, y))


def is_own_function(scoring: Any) -> bool:
    """Whether a score is a function of the user's, of which nobody knows whether it draws."""
    function = getattr(scoring, "_score_func", scoring)
    package = str(getattr(function, "__module__", "")).split(".")[0]
    return callable(function) and package not in ("sklearn", "dushapley")
