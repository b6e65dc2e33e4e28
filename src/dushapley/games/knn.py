"""The K-nearest-neighbour classifier as a game, with exact values at the level of owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, FloatArray, IntArray, Queries
from dushapley.data.overlap import copied_rows, tested_rows
from dushapley.data.owners import Owners
from dushapley.errors import InvalidGame
from dushapley.games.base import Answers, Scores, grouped
from dushapley.games.nearest import (
    DEFAULT_K,
    NeighbourMarginals,
    check_test_set,
    knn_estimate,
    near_to_far,
)
from dushapley.games.policy import Training
from dushapley.games.rows import RowsGame
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.validation import check_whole


class KNNGame(RowsGame):
    r"""What a pool of rows is worth to a K-nearest-neighbour classifier.

    .. math:: u(S) = \frac1{|test|} \sum_t \frac1K\,
              \#\{\text{correct labels among the K rows of } S \text{ nearest to } t\}

    (fewer rows than K count as wrong answers, so u(∅) = 0). Ties in distance go by content of
    owners, then by row. Exact values need no evaluation: methods "exact" and "knn" answer by
    `dushapley.games.nearest.knn_values`.

    Parameters
    ----------
    owners
        Whose numeric rows and class labels are pooled.
    X_test, y_test
        Test points and their classes.
    k
        Number of neighbours.

    Examples
    --------
    >>> import dushapley as ds
    >>> owners = ds.Owners.from_arrays({"a": ([[0.0], [1.0]], [0, 1]), "b": ([[0.2]], [0])})
    >>> game = ds.KNNGame(owners, [[0.1]], [0], k=2)
    >>> game([[1, 0], [0, 1], [1, 1]]).tolist()
    [0.5, 0.5, 1.0]
    >>> ds.value(game, "knn").values.tolist()
    [0.5, 0.5]
    """

    X_test: FloatArray
    y_test: Array
    training = Training(deterministic=True, shift=0.0)

    def __init__(self, owners: Owners, X_test: Any, y_test: ArrayLike, k: int = DEFAULT_K) -> None:
        super().__init__(owners)
        if owners.weights is not None:
            raise InvalidGame("Neighbours are counted, so rows take no weights; leave them out.")
        self.X_test, self.y_test = check_test_set(owners, X_test, np.asarray(y_test))
        self.k = check_whole(k, "k")
        tested = tested_rows(owners, self.X_test, self.y_test)
        self.notes = (*owners.notes, *copied_rows(owners), *tested)
        labels = [str(label) for label in self.y_test.tolist()]
        self._identify(digest("knn game", self.k, self.X_test, *labels))
        self._near, self._whose, self._right = near_to_far(owners, self.X_test, self.y_test)

    def with_owners(self, owners: Owners) -> Self:
        """The same neighbours' vote over other owners' rows."""
        return type(self)(owners, self.X_test, self.y_test, self.k)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Utilities with their test points."""
        hits = np.empty((len(queries), len(self.y_test)))
        for row, taken in zip(hits, self.each(queries, draws), strict=True):
            inside = self.row_mask(*taken)[self._near]
            nearest = inside & (np.cumsum(inside, axis=1) <= self.k)
            row[:] = (nearest & self._right).sum(axis=1)
        values = hits.sum(axis=1) / (self.k * hits.shape[1])
        return Answers(values, Scores(grouped(hits.T / self.k).T))

    def marginals(self) -> NeighbourMarginals:
        return NeighbourMarginals(self._whose, self._right, self.k, self.n_players)

    def closed_form(self, method: str, wishes: Mapping[str, Any] | None = None) -> Estimate | None:
        if method not in ("exact", "knn") or wishes:
            return None
        estimate = knn_estimate(self.owners, self.X_test, self.y_test, self.k)
        return replace(estimate, details={"exact": True})
