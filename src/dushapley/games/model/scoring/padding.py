"""Fitted classifiers shown to scorers as they need them: knowing all classes, under their names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from dushapley.games.model.scoring.scorer import pad


class Padded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gives the classes a model never saw the probability zero."""

    def __init__(self, model: Any, classes: np.ndarray[Any, Any]) -> None:
        self.model = model
        self.classes = classes

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """All classes, seen or not."""
        return self.classes

    def score(self, X: Any, y: Any) -> float:
        """The model's own score."""
        return float(self.model.score(X, y))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Labels, as the model gives them."""
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Probabilities over all classes."""
        return pad(self.model.predict_proba(X), self.model.classes_, self.classes)


class Decoded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gives back the labels for which a model was trained on their codes 0, 1, 2, ..."""

    def __init__(self, model: Any, classes: np.ndarray[Any, Any]) -> None:
        self.model = model
        self.classes = classes

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The labels that the model saw."""
        return self.classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Labels."""
        return self.classes[np.asarray(self.model.predict(X)).astype(np.int64)]

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Probabilities of the labels that the model saw."""
        return np.asarray(self.model.predict_proba(X))
