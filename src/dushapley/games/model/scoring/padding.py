"""A fitted classifier that never saw some classes, shown to scorers as one that knows them all."""

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

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Labels, as the model gives them."""
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Probabilities over all classes."""
        return pad(self.model.predict_proba(X), self.model.classes_, self.classes)
