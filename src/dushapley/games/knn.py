"""K nearest neighbours as a game: exact values of owners, and marginals around pools."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import (
    Array,
    BoolArray,
    Draws,
    FloatArray,
    IntArray,
    Queries,
    Rows,
    as_floats,
    slices,
)
from dushapley.data.overlap import copied_rows, tested_rows
from dushapley.data.owners import Owners
from dushapley.data.rows import is_sparse
from dushapley.errors import InvalidGame, MethodNotApplicable
from dushapley.games.base import Answers, Scores, Wishes, grouped
from dushapley.games.many.marginals import Marginals
from dushapley.games.policy import Training
from dushapley.games.rows import RowsGame, content_order
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.validation import check_whole

DEFAULT_K = 5
POINTS = 16
"""Test points whose marginals are worked on together: few enough to stay in cache."""
KNN_NOTE = (
    f"Values of the {DEFAULT_K}-nearest-neighbour game on the same rows: another model's values, "
    "not an estimate of this game's."
)


class KNNGame(RowsGame):
    r"""What a pool of rows is worth to a K-nearest-neighbour classifier.

    .. math:: u(S) = \frac1{|test|} \sum_t \frac1K\,
              \#\{\text{correct labels among the K rows of } S \text{ nearest to } t\}

    (fewer rows than K count as wrong answers, so u(∅) = 0). Ties in distance go by content of
    owners, then by row. Exact values need no evaluation: methods "exact" and "knn" answer by
    `dushapley.games.knn.knn_values`.

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
        self._identify(digest("knn game", self.k, self.X_test, *map(str, self.y_test.tolist())))
        self._near, self._whose, self._right = near_to_far(owners, self.X_test, self.y_test)

    def with_owners(self, owners: Owners) -> Self:
        """The same neighbours' vote over other owners' rows."""
        return type(self)(owners, self.X_test, self.y_test, self.k)

    def evaluate(self, queries: Queries, draws: Draws) -> Answers:
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

    def closed_form(self, method: str, wishes: Wishes = None) -> Estimate | None:
        if method not in ("exact", "knn") or wishes:
            return None
        estimate = knn_estimate(self.owners, self.X_test, self.y_test, self.k)
        return replace(estimate, details={"exact": True})


def knn_values(owners: Owners, X_test: Array, y_test: Array, k: int = DEFAULT_K) -> FloatArray:
    r"""Shapley values of owners when a pool is worth what its K nearest neighbours get right.

    .. math:: u(S) = \frac1{|test|} \sum_{t} \frac1K\,
              \#\{\text{correct labels among the } \min(K, |S|) \text{ rows of } S
              \text{ nearest to } t\}

    For one test point u is a sum over rows p of games "p's owner o is in, and fewer than K rows
    of the pool are nearer than p". With c_m the rows of owner m nearer than p and cap = K−1−c_o,
    owners with c_m = 0 do not matter, those with c_m > cap block p alone, and the other n_a
    ("active") ones do so together. Let n count o, blockers and active owners, and d[r, t] the
    r-subsets of active owners with Σc = t. Then row p, if its label is right, gives

    - its owner: :math:`+\frac1K \sum_{r,\,t \le cap} d[r,t] / (n\binom{n-1}{r})`,
    - each blocker: :math:`-\frac1K \sum_{r,\,t \le cap} d[r,t] / (n\binom{n-1}{r+1})`,
    - active m: :math:`-\frac1K \sum_{r,\ cap - c_m < t \le cap} d_{-m}[r,t] / (n\binom{n-1}{r+1})`,

    with d₋ₘ the same count without m. Only each owner's K nearest rows can matter.

    All rows are walked through from near to far (`walked`). Cost: no evaluation; time of the order
    rows times K³ a test point, whatever the number of owners. Exact; ties in distance go by content
    of owners, then by row. The game of Jia et al. (2019, appendix E.3); the polynomial count is
    this library's.

    Parameters
    ----------
    owners, X_test, y_test, k
        As in `dushapley.KNNGame`.

    Examples
    --------
    >>> import numpy as np
    >>> import dushapley as ds
    >>> owners = ds.Owners.from_arrays({"a": ([[0.0], [1.0]], [0, 1]), "b": ([[0.2]], [0])})
    >>> ds.games.knn.knn_values(owners, np.array([[0.1]]), np.array([0]), k=2).tolist()
    [0.5, 0.5]
    """
    return knn_estimate(owners, X_test, y_test, k).values


def knn_estimate(owners: Owners, X_test: Rows, y_test: Array, k: int = DEFAULT_K) -> Estimate:
    """The same with the values by test point, whose mean they are."""
    X_test, y_test = check_test_set(owners, X_test, y_test)
    k, by_point = check_whole(k, "k"), []
    # test points times rows, owners or counts are worked on together
    at_once = max(1, 2**22 // max(int(sum(owners.sizes)), len(owners), k * k))
    for some in slices(len(X_test), at_once):
        _, whose, right = near_to_far(owners, X_test[some], y_test[some])
        kept = own_ranks(whose) < k  # nobody's farther rows can matter
        near, is_right = (part[kept].reshape(len(whose), -1) for part in (whose, right))
        by_point.append(walked(near, is_right, len(owners), k))
    scores = np.concatenate(by_point)
    return Estimate(scores.mean(axis=0), scores=scores)


def near_to_far(owners: Owners, X_test: FloatArray, y_test: Array) -> tuple[Array, Array, Array]:
    """Every row from near to far for each test point: its number, its owner, and if it is right.

    Rows are numbered in the order of content.
    """
    from scipy.spatial.distance import cdist

    order = content_order(owners)
    rows = [as_numbers(owners.X[j]) for j in order]
    labels = np.concatenate([np.asarray(owners.y[j]) for j in order])
    whose = np.repeat(np.array(order, dtype=np.int32), [len(X) for X in rows])
    distances = cdist(X_test, np.concatenate(rows), "sqeuclidean")
    near = np.argsort(distances, axis=1, kind="stable")
    return near, whose[near], labels[near] == y_test[:, None]


def own_ranks(whose: Array) -> Array:
    """How many nearer rows each row's owner has, in the order of the rows."""
    order = np.argsort(whose, axis=1, kind="stable")
    together = np.sort(whose[0])
    rank = np.arange(len(together)) - np.searchsorted(together, together)
    own = np.empty_like(whose)
    np.put_along_axis(own, order, rank[None].astype(whose.dtype), axis=1)
    return own


def walked(whose: Array, right: Array, n_players: int, k: int) -> FloatArray:
    r"""Values of owners by test point, from one walk through its rows, from near to far.

    What a right row takes from another owner depends on nothing but how many nearer rows that owner
    has, c. So the subsets d[r, t] are carried along, one factor being exchanged as an owner's c
    grows, and what owners with c rows lose is summed by c: an owner settles when its c changes.
    Counts are whole numbers, exact up to 2⁵³, and divided by those of all subsets.

    Parameters
    ----------
    whose, right
        Owner of each row and whether its label is right, shape (test points, rows): at most K rows
        of each owner.
    n_players, k
        Owners and neighbours.
    """
    points, c, t = np.arange(len(whose)), np.arange(1, k), np.arange(k)
    weights = np.zeros((n_players + 1, k + 1))  # by n and r; 0 where there is no such coalition
    for n, r in np.ndindex(weights.shape):
        weights[n, r] = 1 / (n * comb(n - 1, r)) if r < n else 0.0
    values, settled = np.zeros((2, len(points), n_players))
    nearer = np.zeros(values.shape, dtype=np.int64)
    present = np.zeros(len(points), dtype=np.int64)  # owners with nearer rows
    lost, subsets = np.zeros((len(points), k + 1)), np.zeros((len(points), k, k))
    subsets[:, 0, 0] = 1
    for owner, is_right in zip(whose.T, right.T, strict=True):
        here = points, owner
        own = nearer[here]
        values[here] -= lost[points, own] - settled[here]
        others, cap = without(subsets, own[:, None])[:, 0], k - 1 - own[:, None]
        weight = weights[1 + present - (own > 0)]
        gives, takes = weight[:, :-1], weight[:, 1:]
        fits = (t <= cap) & is_right[:, None]
        values[here] += np.einsum("prt,pt,pr->p", others, fits, gives)
        blocked = np.einsum("prt,pt,pr->p", others, fits, takes)[:, None]
        pushed = fits[:, None] & (t > (cap - c)[:, :, None])
        fewer = without(others, np.broadcast_to(c, (len(own), k - 1)))
        active = np.einsum("pcrt,pct,pr->pc", fewer, pushed, takes)
        lost[:, 1:-1] += np.where(c <= cap, active, blocked)
        lost[:, -1:] += blocked
        subsets = others
        subsets[:, 1:] += moved(others[:, :-1], own[:, None] + 1)
        present += own == 0
        nearer[here] = own + 1
        settled[here] = lost[points, own + 1]
    return (values - np.take_along_axis(lost, nearer, axis=1) + settled) / k


def without(subsets: FloatArray, c: IntArray) -> FloatArray:
    """Subsets (points, K, K) without an owner of c nearer rows, for each c of (points, C)."""
    found = np.repeat(subsets[:, None], c.shape[1], axis=1)
    for r in range(1, subsets.shape[1]):  # undo the step that let this owner in
        found[:, :, r] -= moved(found[:, :, r - 1], c)
    return found


def moved(counts: FloatArray, c: IntArray) -> FloatArray:
    """Counts by their sum t moved up by c; none where c is 0."""
    place = np.arange(counts.shape[-1]) - c[..., None]
    found = np.take_along_axis(counts, np.maximum(place, 0), axis=-1)
    return np.where((place >= 0) & (c[..., None] > 0), found, 0.0)


class NeighbourMarginals(Marginals):
    r"""Marginals of a `KNNGame` around a pool, for all owners at once.

    For a test point let the pool's rows stand from near to far, H(m) the right labels among the
    first m. An owner outside whose rows stand with r rows of the pool before them, and j of its
    own, brings those into the K nearest that have j + r < K; they push as many of the pool's out.
    If an owner inside leaves, its rows with fewer than K others before them go, and as many move
    up. So each marginal is a count of few rows:

    .. math:: \Delta_i = \tfrac1K \Bigl[\sum_{\text{its } a \text{ rows}} right
              - \bigl(H(K) - H(K-a)\bigr)\Bigr], \qquad
              \Delta_i = \tfrac1K \Bigl[\sum_{\text{its } b \text{ rows}} right
              - \bigl(H(K+b) - H(K)\bigr)\Bigr]

    for owners outside and inside.

    Parameters
    ----------
    whose, right
        Owner of each row and whether its label is right, shape (test points, rows).
    k
        Number of neighbours.
    """

    power = 1.0  # a row counts in full wherever it is near enough, in about one pool of s

    def __init__(self, whose: Array, right: Array, k: int, n_players: int) -> None:
        self.whose, self.right, self.k, self.block = whose, right, k, n_players
        self.own = own_ranks(whose)
        self.farthest = k + int(self.own.max(initial=-1)) + 1  # as far as anybody's leaving reaches
        self.name = f"neighbours, K = {k}"
        self.note = "Marginals around a pool are counts of neighbours that come or go: exact."

    def gains(self, pools: BoolArray, states: FloatArray, owners: slice) -> FloatArray:
        found = np.zeros(pools.shape)
        for some in slices(len(self.whose), POINTS):
            whose, right, own = self.whose[some], self.right[some], self.own[some]
            for pool, row in zip(pools, found, strict=True):
                inside = pool[whose]
                before = np.cumsum(inside, axis=1, dtype=np.int32)
                others = np.where(inside, before - 1 - own, before + own)
                point, place = np.nonzero(others < self.k)
                cell = point * len(pool) + whose[point, place]
                moved = np.bincount(cell, minlength=row.size * len(whose)).reshape(-1, len(pool))
                hits = np.bincount(cell, right[point, place], moved.size).reshape(moved.shape)
                first = right[inside].reshape(len(whose), -1)[:, : self.farthest]
                table = np.cumsum(np.insert(first, 0, 0, axis=1), axis=1)
                last = table.shape[1] - 1
                end = np.minimum(self.k + np.where(pool, moved, -moved), last)
                lost = np.take_along_axis(table, end, axis=1) - table[:, [min(self.k, last)]]
                row += (hits - np.abs(lost)).sum(axis=0)
        return found / (self.k * len(self.whose))


def as_numbers(X: Rows) -> FloatArray:
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf":
        found = f"columns of type {X.dtype}" if isinstance(X, np.ndarray) else type(X).__name__
        raise MethodNotApplicable(
            f"Nearest neighbours measure distances between rows of numbers; found {found}. Encode "
            "the columns as numbers first, and pass arrays: X.toarray() of sparse rows."
        )
    return as_floats(X.reshape(len(X), -1))


def check_test_set(owners: Owners, X_test: Rows, y_test: Array) -> tuple[FloatArray, Array]:
    """Test points as numbers with class labels, or what is wrong with them."""
    X = as_numbers(X_test if is_sparse(X_test) else np.asarray(X_test))
    y = np.asarray(y_test)
    columns = as_numbers(owners.X[0]).shape[1]
    if X.shape[1] != columns or y.shape != (len(X),) or len(X) == 0:
        raise InvalidGame(
            f"The test set has shapes {X.shape} and {y.shape}; it needs at least one row of "
            f"{columns} columns, as the owners have, and one label per row."
        )
    for target in (*owners.y, y):
        if target is None or (target.dtype.kind == "f" and (target != target.round()).any()):
            raise MethodNotApplicable(
                "Nearest neighbours compare class labels, but a target is missing or holds "
                "fractions, as in regression. Give every row a class."
            )
    return X, y
