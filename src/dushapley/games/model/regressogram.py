"""The simplest non-parametric regression as a scikit-learn model: a mean per bin."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dushapley.arrays import Array, FloatArray


class Regressogram(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict the mean target of the bin that a row falls into.

    Bins are fixed beforehand, so that they are the same for every pool: bin b holds rows with
    ``edges[b-1] <= x < edges[b]`` in one column, the first and last being open. A bin without rows
    predicts the mean of all rows.

    Parameters
    ----------
    edges
        Increasing cut points; k of them make k+1 bins.
    column
        Which feature is cut.

    Examples
    --------
    >>> from dushapley.games import Regressogram
    >>> Regressogram([0.0]).fit([[-1.0], [1.0], [2.0]], [5.0, 1.0, 3.0]).predict([[9.0]]).tolist()
    [2.0]
    """

    def __init__(self, edges: ArrayLike, column: int = 0) -> None:
        self.edges = edges
        self.column = column

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Average the targets of every bin."""
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        codes = self._codes(rows)
        counts = np.bincount(codes, minlength=len(np.asarray(self.edges)) + 1)
        sums = np.bincount(codes, target, minlength=len(counts))
        self.means_ = np.where(counts > 0, sums / np.maximum(counts, 1), target.mean())
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """The mean of each row's bin."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return self.means_[self._codes(rows)]

    def _codes(self, rows: Array) -> Array:
        return np.searchsorted(np.asarray(self.edges), rows[:, self.column], side="right")
