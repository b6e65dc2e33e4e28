"""Scores of a fitted model, test row by test row wherever that is possible.

A score that is a mean over test rows is kept row by row, so that the error made by a finite test
set is known without another training. Scores that are smooth functions of such means (R², root
mean squared error, balanced accuracy, area under the curve) are written as a mean of their
influence values: same score, and the right spread to first order.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.errors import InvalidGame
from dushapley.validation import refuse

Response = Literal["labels", "probabilities", "ranking"]


class Target(NamedTuple):
    """Test targets: as they are, and for classes also as codes into all classes."""

    y: Array
    codes: Array
    classes: Array


def hits(target: Target, labels: Array) -> FloatArray:
    """Accuracy: the part of the test rows that is labelled right."""
    return np.asarray(labels == target.y, dtype=np.float64)


def balanced_hits(target: Target, labels: Array) -> FloatArray:
    """Balanced accuracy: the mean recall of the classes in the test set."""
    right = hits(target, labels)
    rows = np.bincount(target.codes, minlength=len(target.classes))
    recall = np.bincount(target.codes, right, minlength=len(rows)) / np.maximum(rows, 1)
    present = rows > 0
    weight = len(right) / (present.sum() * rows[target.codes])
    return np.asarray(recall[present].mean() + weight * (right - recall[target.codes]))


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
    from scipy.stats import rankdata

    positive = target.codes == 1
    up, down = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(ranking)
    within = np.empty(len(ranking))
    for side in (positive, ~positive):
        within[side] = rankdata(ranking[side])
    beaten = (ranks - within) / np.where(positive, down, up)
    placed = np.where(positive, beaten, 1 - beaten)
    area = placed[positive].mean()
    return np.asarray(area + (placed - area) * len(ranking) / np.where(positive, up, down))


def minus_squares(target: Target, predicted: Array) -> FloatArray:
    """Minus mean squared error."""
    return np.asarray(-((target.y - predicted) ** 2), dtype=np.float64)


def minus_distances(target: Target, predicted: Array) -> FloatArray:
    """Minus mean absolute error."""
    return np.asarray(-np.abs(target.y - predicted), dtype=np.float64)


def minus_root(target: Target, predicted: Array) -> FloatArray:
    """Minus root mean squared error."""
    squares = -minus_squares(target, predicted)
    root = np.sqrt(squares.mean())
    return -root - (squares - root**2) / (2 * root) if root > 0 else -squares


def determination(target: Target, predicted: Array) -> FloatArray:
    """R²: one minus mean squared error over variance.

    By influence of both its parts: 1 − e²/V + (MSE/V)·((y − ȳ)²/V − 1).
    """
    squares = -minus_squares(target, predicted)
    around = (target.y - target.y.mean()) ** 2
    variance = around.mean()
    return np.asarray(1 - squares / variance + squares.mean() / variance * (around / variance - 1))


@dataclass(frozen=True)
class RowMetric:
    """A score known row by row: what it needs of a model, and how rows are scored."""

    response: Response
    rows: Callable[[Target, Any], FloatArray]
    classes: bool


ROW_METRICS: dict[str, RowMetric] = {
    "accuracy": RowMetric("labels", hits, classes=True),
    "balanced_accuracy": RowMetric("labels", balanced_hits, classes=True),
    "neg_log_loss": RowMetric("probabilities", log_likelihood, classes=True),
    "neg_brier_score": RowMetric("probabilities", brier, classes=True),
    "roc_auc": RowMetric("ranking", placements, classes=True),
    "neg_mean_squared_error": RowMetric("labels", minus_squares, classes=False),
    "neg_mean_absolute_error": RowMetric("labels", minus_distances, classes=False),
    "neg_root_mean_squared_error": RowMetric("labels", minus_root, classes=False),
    "r2": RowMetric("labels", determination, classes=False),
}


class Scorer:
    """Scores fitted models on one test set.

    Parameters
    ----------
    scoring
        Name of a score in scikit-learn, or a scorer ``f(model, X, y) -> number``.
    X, y
        The test set.
    classes
        All labels of owners and test set, sorted; None for regression.
    """

    def __init__(self, scoring: Any, X: Array, y: Array, classes: Array | None) -> None:
        self.X, self.classes = X, classes
        self.name = scoring if isinstance(scoring, str) else None
        known = y[:0] if classes is None else classes
        self.target = Target(y, np.searchsorted(known, y), known)
        self.metric = self._row_metric()
        self.black_box = None if self.metric else black_box(scoring)

    def _row_metric(self) -> RowMetric | None:
        y, codes, known = self.target
        metric = ROW_METRICS.get(self.name or "")
        ranked = metric is not None and metric.response == "ranking"
        if metric is None or y.ndim != 1 or (ranked and len(known) not in (0, 2)):
            return None
        refuse(
            InvalidGame,
            (
                metric.classes and self.classes is None,
                f"scoring={self.name!r} judges classes, but the model does not say that it is a "
                "classifier. Pass one (a class of your own names ClassifierMixin before "
                "BaseEstimator), or a score of numbers such as 'r2' or 'neg_mean_squared_error'.",
            ),
            (
                ranked and len(np.unique(codes)) != 2,
                "roc_auc needs test rows of both classes; found one class only.",
            ),
            (
                not metric.classes and y.dtype.kind not in "fiub",
                f"scoring={self.name!r} needs numbers as targets; found text.",
            ),
            (
                metric.rows is determination and bool((y == y[0]).all()),
                "r2 needs test targets that differ; found one value only.",
            ),
        )
        return metric

    def __call__(self, model: Any) -> tuple[float, FloatArray | None]:
        """The score of a fitted model, and its rows where they are known."""
        if self.metric is None:
            assert self.black_box is not None
            given = self.X.copy(), self.target.y.copy()  # scorers and models may write into them
            return float(self.black_box(self._padded(model), *given)), None
        rows = self.metric.rows(self.target, self._respond(model, self.metric.response))
        return float(rows.mean()), rows

    def _respond(self, model: Any, response: Response) -> Array:
        X = self.X.copy()  # models may write into it, and there is one test set for all
        if response == "labels":
            return np.asarray(model.predict(X))
        if response == "ranking" and hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(X))
        probabilities = pad(model.predict_proba(X), model.classes_, self.target.classes)
        return probabilities[:, 1] if response == "ranking" else probabilities

    def _padded(self, model: Any) -> Any:
        """A model that lacks classes, as one that gives them probability zero."""
        seen = getattr(model, "classes_", None)
        if self.classes is None or seen is None or np.array_equal(seen, self.classes):
            return model
        from dushapley.games.model.padding import Padded

        return Padded(model, self.classes)

    def refuse_unable(self, model: Any) -> None:
        """Refuse, before any training, a model that lacks what the score needs of it."""
        response = "labels" if self.metric is None else self.metric.response
        ranks = response == "ranking" and hasattr(model, "decision_function")
        if response != "labels" and not ranks and not hasattr(model, "predict_proba"):
            raise InvalidGame(
                f"scoring={self.name!r} needs predicted probabilities, but "
                f"{type(model).__name__} has no predict_proba. Choose a model that has, or "
                "another score such as 'accuracy'."
            )


def black_box(scoring: Any) -> Callable[[Any, Array, Array], float]:
    """A scorer of which only the answers are known."""
    if callable(scoring):
        return _refuse_metric(scoring)
    from sklearn.metrics import get_scorer, get_scorer_names

    try:
        return get_scorer(scoring)
    except (ValueError, TypeError) as error:
        near = difflib.get_close_matches(str(scoring), get_scorer_names(), n=3, cutoff=0.4)
        raise InvalidGame(
            f"There is no score {scoring!r}."
            + (f" Did you mean {' or '.join(map(repr, near))}?" if near else "")
            + " Pass a name that sklearn.metrics.get_scorer_names() lists, or a function "
            "f(model, X, y) -> number."
        ) from error


def _refuse_metric(scoring: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a function of targets and predictions, an easy mistake to make."""
    try:
        shape = inspect.signature(scoring)
    except (TypeError, ValueError):  # some compiled functions do not tell
        return scoring
    try:
        shape.bind("model", "X", "y")
    except TypeError as error:
        raise InvalidGame(
            f"scoring is a function of {shape}; it must take (model, X, y) and return a "
            "number. sklearn.metrics.make_scorer makes it from a function of targets and "
            "predictions."
        ) from error
    return scoring


def pad(probabilities: Any, seen: Array, classes: Array) -> FloatArray:
    """Probabilities over all classes; those the model never saw are zero."""
    known = np.asarray(probabilities)
    if len(seen) == len(classes):
        return known
    full = np.zeros((len(known), len(classes)), dtype=known.dtype)
    full[:, np.searchsorted(classes, seen)] = known
    return full


def best_constant(scorer: Scorer) -> tuple[float, FloatArray | None]:
    """Score of the best constant prediction: what can be had without any owner's data.

    For classes: every label, and the class frequencies of the test set. For numbers: mean and
    median of the test targets. These are the best constants of all the usual scores.
    """
    tried = []
    for constant in constants(scorer):
        try:
            tried.append(scorer(constant))
        except Exception as error:
            raise InvalidGame(
                f"The score of a constant prediction cannot be had ({type(error).__name__}: "
                f"{error}), so u(nobody) is unknown. Pass empty= with a number, or 'zero'."
            ) from error
    best = max(tried, key=lambda pair: pair[0] if np.isfinite(pair[0]) else -np.inf)
    if not np.isfinite(best[0]):
        raise InvalidGame(
            f"Every constant prediction scores {best[0]}, so u(nobody) is unknown. "
            "Pass empty= with a number, or 'zero'."
        )
    return best


def constants(scorer: Scorer) -> list[Any]:
    """Models that always answer the same."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    y, classes = scorer.target.y, scorer.classes
    rows = np.zeros((len(y), 1))
    if classes is None:
        return [DummyRegressor(strategy=name).fit(rows, y) for name in ("mean", "median")]
    prior = DummyClassifier(strategy="prior").fit(rows, y)
    return [prior, *(constant_label(label, classes) for label in classes)]


def constant_label(label: Any, classes: Array) -> Any:
    """What a pool of a single class trains: a classifier that always answers that class."""
    from sklearn.dummy import DummyClassifier

    # as a list: scikit-learn takes no bare truth value or decimal number for a class
    return DummyClassifier(strategy="constant", constant=[label]).fit(
        np.zeros((len(classes), 1)), classes
    )
