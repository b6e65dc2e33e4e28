"""Columns in which a pool has no value at all."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dushapley.arrays import Array
from dushapley.data.rows import is_sparse, is_table


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
    import pandas as pd

    if is_sparse(X) or X.ndim != 2:
        return np.zeros(X.shape[1:], dtype=np.bool_)
    return np.asarray(np.asarray(pd.isna(X)).all(axis=0))
