"""KNN-Shapley of single rows, summed over each owner's: what data valuation would pay."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from dushapley.arrays import Array, FloatArray
from dushapley.data.owners import Owners
from dushapley.games.knn import DEFAULT_K


def knn_point_sums(owners: Owners, X_test: Array, y_test: Array, k: int = DEFAULT_K) -> FloatArray:
    r"""Shapley values of rows in the K-nearest-neighbour game, added up by owner.

    For one test point, rows sorted from near to far and m_j = 1 where label j is right, the value
    of the last row is :math:`s_N = m_N/\max(K, N)` and, going nearer,

    .. math:: s_j = s_{j+1} + \frac{m_j - m_{j+1}}{K}\,\frac{\min(K, j)}{j}.

    Not the value of an owner: rows of one owner compete with each other (section 2.3). Jia et al.
    (2019), Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dushapley as ds
    >>> owners = ds.Owners.from_arrays({"a": ([[0.0], [1.0]], [0, 1]), "b": ([[0.2]], [0])})
    >>> knn_point_sums(owners, np.array([[0.1]]), np.array([0]), k=1).tolist()
    [0.5, 0.5]
    """
    X = np.concatenate(owners.X)
    y = np.concatenate([target for target in owners.y if target is not None])
    order = np.argsort(cdist(X_test, X), axis=1, kind="stable")
    match = (y[order] == np.asarray(y_test)[:, None]).astype(np.float64)
    n = len(X)
    place = np.arange(1, n)
    steps = (match[:, :-1] - match[:, 1:]) / k * np.minimum(k, place) / place
    sorted_values = np.empty_like(match)
    sorted_values[:, -1] = match[:, -1] / max(k, n)
    sorted_values[:, :-1] = sorted_values[:, -1:] + np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    values = np.zeros_like(match)
    np.put_along_axis(values, order, sorted_values, axis=1)
    ends = np.cumsum(owners.sizes.astype(np.int64))[:-1]
    return np.array([part.sum() for part in np.split(values.mean(axis=0), ends)])
