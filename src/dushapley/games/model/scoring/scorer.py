"""Scores of a fitted model, test row by test row wherever that is possible.

The scores of `metrics` are known row by row, so that the error made by a finite test set is known
without another training. Of any other scorer only answers are known: it is asked again without
each group of test rows in turn (`jackknife`).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, Rows
from dushapley.errors import InvalidGame
from dushapley.games.model.scoring.jackknife import pseudo_values
from dushapley.games.model.scoring.metrics import (
    ROW_METRICS,
    SHORT,
    Response,
    RowMetric,
    Target,
    determination,
    log_likelihood,
)
from dushapley.validation import refuse


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
        self.black_box = None if self.metric else black_box(scoring)

    def _row_metric(self) -> RowMetric | None:
        y, _, known = self.target
        metric = ROW_METRICS.get(self.name or "")
        ranked = metric is not None and metric.response == "ranking"
        if metric is None or y.ndim != 1:
            return None
        areas = (self.name or "").startswith("roc_auc")
        two, counts = len(known) == 2, max(known.tolist(), default=None)
        refuse(
            InvalidGame,
            (
                metric.classes and self.classes is None,
                f"scoring={self.name!r} judges classes, but the model does not say that it is a "
                "classifier. Pass one (a class of your own names ClassifierMixin before "
                "BaseEstimator), or a score of numbers such as 'r2' or 'neg_mean_squared_error'.",
            ),
            (
                metric.positive and not (len(known) == 2 and 1 in known.tolist()),
                f"scoring={self.name!r} judges the class 1 of two, but the classes are "
                f"{', '.join(map(repr, known.tolist()[:6]))}. Choose '{self.name}_macro' or "
                f"'{self.name}_weighted'"
                f"{f', or make_scorer({self.name}_score, pos_label={counts!r})' * two}.",
            ),
            (
                ranked and len(known) != 2,
                f"roc_auc ranks two classes; found {len(known)}. Choose 'roc_auc_ovr', which takes "
                "each class against the rest.",
            ),
            (
                areas and (self.target.rows == 0).any(),
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

    @property
    def is_own(self) -> bool:
        """Whether it is the model's own score, which no other model has."""
        return self.black_box is own

    def __call__(self, model: Any) -> tuple[float, FloatArray | None]:
        """The score of a fitted model, and its rows where they are known."""
        if self.metric is not None:
            return self.judge(self._respond(model, self.metric.response))
        assert self.black_box is not None
        value = self.value(model)
        X, y = self.X, self.target.y
        return value, pseudo_values(self.black_box, self._padded(model), X, y, value)

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

    def judge(self, response: Array) -> tuple[float, FloatArray | None]:
        """The score of a response by a known metric, and its rows."""
        assert self.metric is not None
        rows = self.metric.rows(self.target, response)
        return float(rows.mean()), rows if self.known_by_row else None

    def _respond(self, model: Any, response: Response) -> Array:
        X = self.X.copy()  # models may write into it, and there is one test set for all
        if response == "labels":
            labels = np.asarray(model.predict(X))
            return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if response == "ranking" and hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(X))
        probabilities = np.asarray(self._padded(model).predict_proba(X))
        return probabilities[:, 1] if response == "ranking" else probabilities

    def _padded(self, model: Any) -> Any:
        """A model that lacks classes, as one that gives them probability zero."""
        seen = getattr(model, "classes_", None)
        several = self.target.y.ndim > 1  # each with classes of its own
        if self.classes is None or seen is None or several or np.array_equal(seen, self.classes):
            return model
        from dushapley.games.model.wrappers import Padded

        return Padded(model, self.classes)

    def refuse_unable(self, model: Any) -> None:
        """Refuse, before any training, a model that lacks what the score needs of it."""
        response = "labels" if self.metric is None else self.metric.response
        ranks = response == "ranking" and speaks(model, "decision_function")
        if response != "labels" and not ranks and not speaks(model, "predict_proba"):
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
        known = [*get_scorer_names(), *SHORT]
        near = difflib.get_close_matches(str(scoring).lower(), known, n=3, cutoff=0.4)
        raise InvalidGame(
            f"There is no score {scoring!r}."
            + (f" Did you mean {' or '.join(map(repr, near))}?" if near else "")
            + f" Choose among {', '.join(['accuracy', 'f1', 'r2', *SHORT])}, or another score that "
            "scikit-learn knows by name; in Python, a function of model, X and y will do as well."
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


def best_constant(scorer: Scorer) -> tuple[float, FloatArray | None]:
    """Score of the best constant prediction: what can be had without any owner's data.

    For classes: every label, and the class frequencies of the test set. For numbers: mean and
    median of the test targets. These are the best constants of all the usual scores.
    """
    tried = []
    for constant in constants(scorer):
        try:
            tried.append((scorer.value(constant), constant))
        except InvalidGame:
            raise
        except Exception as error:
            cure = "Pass empty= with a number, or 'zero'."
            if "pos_label" in str(error):
                cure = (
                    "Name the class that counts by make_scorer and its pos_label in Python, write "
                    "the labels as 0 and 1, or choose a score of all classes."
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


def constants(scorer: Scorer) -> list[Any]:
    """Models that always answer the same."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    y, classes = scorer.target.y, scorer.classes
    rows = np.zeros((len(y), 1))
    if classes is None:
        return [DummyRegressor(strategy=name).fit(rows, y) for name in ("mean", "median")]
    prior = DummyClassifier(strategy="prior").fit(rows, y)
    if y.ndim > 1:
        return [prior]
    return [prior, *(constant_label(label, classes) for label in classes)]


def constant_label(label: Any, classes: Array) -> Any:
    """What a pool of a single class trains: a classifier that always answers that class."""
    from sklearn.dummy import DummyClassifier

    # as a list: scikit-learn takes no bare truth value or decimal number for a class
    return DummyClassifier(strategy="constant", constant=[label]).fit(
        np.zeros((len(classes), 1)), classes
    )


def speaks(model: Any, name: str) -> bool:
    """Whether a model, once fitted, has a method.

    Stacked models have their final estimator's methods, and say so only once they are fitted where
    that is left to them.
    """
    if callable(getattr(model, name, None)):
        return True
    if not hasattr(type(model), name):
        return False
    if getattr(model, "final_estimator", model) is None:
        return True
    inner = _inner(model)
    return inner is not None and speaks(inner, name)


def _inner(model: Any) -> Any | None:
    """The model that answers for another: the last step of a pipeline, the one that is searched."""
    if hasattr(model, "named_steps"):
        return model.steps[-1][1]
    return getattr(model, "estimator", None)


def takes_columns(model: Any) -> bool:
    """Whether a single target may come as a column, shape (n, 1), and makes a difference.

    For networks it does; classifiers and scikit-learn's regressors take it as if it were flat.
    """
    from sklearn.base import is_classifier

    inner = model
    while (last := _inner(inner)) is not None:
        inner = last
    ours = type(inner).__module__.partition(".")[0] in ("sklearn", "dushapley")
    return not (isinstance(model, str) or is_classifier(model) or ours)


def own(model: Any, X: Rows, y: Array) -> float:
    """A fitted model's own score, as a scorer."""
    return float(model.score(X, y))


def own_score(model: Any) -> Any:
    """The model's own `score` as a scoring: by name where it is accuracy or r2, as most are.

    Examples
    --------
    >>> from sklearn.linear_model import PoissonRegressor, Ridge
    >>> own_score(Ridge()), own_score(PoissonRegressor()).__name__
    ('r2', 'own')
    """
    from sklearn.base import ClassifierMixin, RegressorMixin, is_regressor
    from sklearn.metrics import get_scorer_names

    score = getattr(type(model), "score", None)
    if score is None:
        return "r2" if is_regressor(model) else "accuracy"
    known = {ClassifierMixin.score: "accuracy", RegressorMixin.score: "r2"}
    if score in known or "sklearn.neighbors" in score.__module__:  # theirs may do without X
        return known.get(score, "accuracy")
    if hasattr(model, "named_steps"):
        return own_score(model.steps[-1][1])
    asked = getattr(model, "scoring", own)  # of a search, or of a model that searches
    if asked is None:
        return own_score(model.estimator) if hasattr(model, "estimator") else "accuracy"
    return asked if isinstance(asked, str) and asked in get_scorer_names() else own


def weight_option(model: Any, *, weighted: bool) -> str:
    """Under which name the model's `fit` takes the weight of each row; refused if under none.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_option(make_pipeline(StandardScaler(), Ridge()), weighted=True)
    'ridge__sample_weight'
    """
    name = _weight_option(model) if weighted else ""
    if name is None:
        raise InvalidGame(
            f"The owners' rows have weights, but {type(model).__name__} takes no sample_weight. "
            "Choose a model that does, or leave the weights out."
        )
    return name


def _weight_option(model: Any) -> str | None:
    parameters = inspect.signature(model.fit).parameters
    if "sample_weight" in parameters:
        return "sample_weight"
    if hasattr(model, "named_steps"):
        step, last = model.steps[-1]
        inner = _weight_option(last)
        return None if inner is None else f"{step}__{inner}"
    inside = [part for _, part in getattr(model, "estimators", [])]
    inside = inside or [getattr(model, "estimator", None)]
    names = {_weight_option(part) for part in inside if hasattr(part, "fit")}
    handed_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return names.pop() if handed_on and len(names) == 1 else None


def is_own_function(scoring: Any) -> bool:
    """Whether a score is a function of the user's, of which nobody knows whether it draws."""
    function = getattr(scoring, "_score_func", scoring)
    package = str(getattr(function, "__module__", "")).split(".")[0]
    return callable(function) and package not in ("sklearn", "dushapley")
