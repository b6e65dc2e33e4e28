"""Exact Shapley values of the K-nearest-neighbour game over owners of many rows."""

from __future__ import annotations

from math import comb

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Rows
from dushapley.data.owners import Owners
from dushapley.data.rows import is_sparse
from dushapley.errors import InvalidGame, MethodNotApplicable
from dushapley.games.many.neighbours import walked_values
from dushapley.protocol import Estimate
from dushapley.validation import is_whole

DEFAULT_K = 5
AT_ONCE = 32
"""Test points worked on together: enough to vectorise, few enough to stay in cache."""
MANY, CELLS = 100, 2**21
"""Owners from which one walk through the rows is sooner done, and its points times owners."""
KNN_NOTE = (
    f"Values of the {DEFAULT_K}-nearest-neighbour game on the same rows: another model's values, "
    "not an estimate of this game's."
)


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

    Cost: no evaluation; time of the order I²K³ a test point, or rows times K³ for more than a
    hundred owners (`dushapley.games.many.neighbours.Walk`). Exact; ties in distance go by content
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
    >>> ds.games.nearest.knn_values(owners, np.array([[0.1]]), np.array([0]), k=2).tolist()
    [0.5, 0.5]
    """
    return knn_estimate(owners, X_test, y_test, k).values


def knn_estimate(owners: Owners, X_test: Rows, y_test: Array, k: int = DEFAULT_K) -> Estimate:
    """The same with the values by test point, whose mean they are."""
    X_test, y_test = check_test_set(owners, X_test, y_test)
    k = check_k(k)
    values, by_point = np.zeros(len(owners)), []
    many = len(owners) > MANY
    at_once = max(1, CELLS // len(owners)) if many else AT_ONCE
    weights = joining_weights(len(owners), k)
    for start in range(0, len(X_test), at_once):
        some = slice(start, start + at_once)
        owner, match = nearest_rows(owners, X_test[some], y_test[some], k)
        if many:
            by_point.append(walked_values(owner, match, len(owners), k, weights) / k)
            values += k * by_point[-1].sum(axis=0)
            continue
        added, points = rows_to_values(owner, match, len(owners), k)
        values += added
        by_point.append(points / k)
    return Estimate(values / (k * len(X_test)), scores=np.concatenate(by_point))


def nearest_rows(
    owners: Owners, X_test: FloatArray, y_test: Array, k: int
) -> tuple[IntArray, Array]:
    """Each owner's k nearest rows, all together from near to far: whose they are, and if right."""
    from scipy.spatial.distance import cdist

    distances, match, owner = [], [], []
    for j in content_order(owners):
        block = cdist(X_test, as_numbers(owners.X[j]), "sqeuclidean")
        near = np.argsort(block, axis=1, kind="stable")[:, :k]
        distances.append(np.take_along_axis(block, near, axis=1))
        match.append(np.asarray(owners.y[j])[near] == y_test[:, None])
        owner.append(np.full(near.shape, j))
    order = np.argsort(np.concatenate(distances, axis=1), axis=1, kind="stable")
    together = (np.concatenate(part, axis=1) for part in (owner, match))
    whose, right = (np.take_along_axis(part, order, axis=1) for part in together)
    return whose, right


def rows_to_values(
    owner: IntArray, match: Array, n_players: int, k: int
) -> tuple[FloatArray, FloatArray]:
    """Add up, over all rows with the right label, what they give to and take from every owner.

    For all test points together, shape (I,), and for each of them, shape (points, I).
    """
    one_hot = owner[:, :, None] == np.arange(n_players)
    nearer = np.cumsum(one_hot, axis=1) - one_hot
    nearer, whose = nearer[match], owner[match]
    rows = np.arange(len(whose))
    cap = k - 1 - nearer[rows, whose]
    nearer[rows, whose] = 0
    blocks = nearer > cap[:, None]
    active = np.where(blocks, 0, nearer)
    n = 1 + (nearer > 0).sum(axis=1)
    counts = count_subsets(active, k)
    weights = joining_weights(n_players, k)
    fits = np.arange(k) <= cap[:, None]
    alone = np.einsum("prt,pt,pr->p", counts, fits, weights[n, :-1])
    blocked = np.einsum("prt,pt,pr->p", counts, fits, weights[n, 1:])
    values = np.bincount(whose, alone, minlength=n_players) - blocked @ blocks
    single = -blocked[:, None] * blocks
    single[rows, whose] += alone
    for m in range(n_players):
        pushed = crowded_out(counts, active[:, m], cap, weights[n, 1:])
        values[m] -= pushed[0]
        single[:, m] -= pushed[1]
    by_point = np.zeros((len(owner), n_players))
    np.add.at(by_point, np.nonzero(match)[0], single)
    return np.asarray(values), by_point


def count_subsets(active: IntArray, k: int) -> FloatArray:
    """d[p, r, t]: r-subsets of row p's active owners whose nearer rows add up to t < k."""
    counts = np.zeros((len(active), k, k))
    counts[:, 0, 0] = 1
    for m in range(active.shape[1]):
        for c in range(1, k):
            rows = np.flatnonzero(active[:, m] == c)
            counts[rows, 1:, c:] += counts[rows, :-1, :-c]
    return counts


def crowded_out(
    counts: FloatArray, own: IntArray, cap: IntArray, weights: FloatArray
) -> tuple[float, FloatArray]:
    """How often one active owner pushes rows out of the K nearest: in all, and row by row."""
    k = counts.shape[1]
    total, single = 0.0, np.zeros(len(own))
    for c in range(1, k):
        rows = np.flatnonzero(own == c)
        without = counts[rows]
        for r in range(1, k):  # undo the step that let this owner in
            without[:, r, c:] -= without[:, r - 1, :-c]
        t, top = np.arange(k), cap[rows, None]
        pushed = (t <= top) & (t > top - c)
        total += float(np.einsum("prt,pt,pr->", without, pushed, weights[rows]))
        single[rows] = np.einsum("prt,pt,pr->p", without, pushed, weights[rows])
    return total, single


def joining_weights(n_players: int, k: int) -> FloatArray:
    """1/(n·C(n−1, r)) for n = 0..I and r = 0..k; 0 where there is no such coalition."""
    return np.array(
        [
            [1 / (n * comb(n - 1, r)) if r < n else 0.0 for r in range(k + 1)]
            for n in range(n_players + 1)
        ]
    )


def content_order(owners: Owners) -> list[int]:
    """Owners in the order of their content; equal ones in the order given."""
    return sorted(range(len(owners)), key=lambda j: (owners.hashes[j], j))


def as_numbers(X: Rows) -> FloatArray:
    if not isinstance(X, np.ndarray):
        raise MethodNotApplicable(
            f"Nearest neighbours measure distances between rows of numbers; found "
            f"{type(X).__name__}. Pass arrays: X.toarray() of sparse rows, encoded tables."
        )
    if X.dtype.kind not in "biuf":
        raise MethodNotApplicable(
            f"Nearest neighbours need numbers to measure distances, found columns of type "
            f"{X.dtype}. Encode the columns as numbers first."
        )
    return np.asarray(X.reshape(len(X), -1), dtype=np.float64)


def check_k(k: object) -> int:
    if not is_whole(k, least=1):
        raise InvalidGame(f"k is {k!r}; the number of neighbours is a whole number from 1.")
    return int(k)


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
        if target is None or (target.dtype.kind == "f" and bool((target != target.round()).any())):
            raise MethodNotApplicable(
                "Nearest neighbours compare class labels, but a target is missing or holds "
                "fractions, as in regression. Give every row a class."
            )
    return X, y
