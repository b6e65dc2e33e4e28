"""Estimators around others: classes that a model never saw, labels as codes, empty columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from dushapley.arrays import Array, FloatArray
from dushapley.data.rows import is_sparse, is_table


class Padded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gives the classes a model never saw the probability zero."""

    def __init__(self, model: Any, classes: Array) -> None:
        self.model = model
        self.classes = classes

    @property
    def classes_(self) -> Array:
        """All classes, seen or not."""
        return self.classes

    def score(self, X: Any, y: Any) -> float:
        """The model's own score."""
        return float(self.model.score(X, y))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Array:
        """Labels, as the model gives them."""
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities over all classes."""
        known = np.asarray(self.model.predict_proba(X))
        if known.shape[1] == len(self.classes):  # also of networks, which are told how many
            return known
        full = np.zeros((len(known), len(self.classes)), dtype=known.dtype)
        full[:, np.searchsorted(self.classes, self.model.classes_)] = known
        return full


class Decoded(Padded):
    """Gives back the labels for which a model was trained on their codes 0, 1, 2, ..."""

    score = ClassifierMixin.score

    def predict(self, X: Any) -> Array:
        """Labels."""
        return self.classes[np.asarray(self.model.predict(X)).astype(np.int64)]


class EmptyAsZero(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Set columns that held nothing in training to 0, in test rows as well: they tell nothing.

    scikit-learn's histogram boosting takes single holes, but no column of holes only. Its imputer
    fills such a column in training, but leaves to the test rows what no model has seen.

    Examples
    --------
    >>> rows = np.array([[1.0, np.nan], [np.nan, np.nan]])
    >>> EmptyAsZero().fit(rows).transform(rows).tolist()
    [[1.0, 0.0], [nan, 0.0]]
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns."""
        self.empty_ = empty_columns(X)
        return self

    def transform(self, X: Any) -> Any:
        """The same rows with 0 in these columns."""
        if not self.empty_.any():
            return X
        if is_table(X):
            return X.assign(**dict.fromkeys(X.columns[self.empty_], 0.0))
        return np.where(self.empty_, 0.0, X)


def empty_columns(X: Any) -> Array:
    """Columns whose cells are all missing."""
    if is_sparse(X) or X.ndim != 2:
        return np.zeros(X.shape[1:], dtype=np.bool_)
    return np.asarray(np.asarray(pd.isna(X)).all(axis=0))
