"""Any function of a dataset as a game: the paper's generic utility."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import count, pairwise
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, Fractions, IntArray, Queries, Rows
from dushapley.data.overlap import copied_rows
from dushapley.data.owners import Owners
from dushapley.data.rows import joined, take
from dushapley.errors import InvalidGame, UtilityFailed
from dushapley.games.base import Game
from dushapley.games.callables import PolicyGame
from dushapley.games.policy import agreed
from dushapley.hashing import digest, random_numbers, sha256
from dushapley.protocol import Estimate
from dushapley.validation import check_choice, pool_name

NAMED = 2**11
"""Pools whose names are written at a time: a few megabytes of text."""


class RowsGame(Game):
    """What all games with rows share: which rows a pool holds, and what it is called.

    A fraction f of owner j takes round(f·n_j) of its rows, chosen without replacement by a
    hash of (draw id, content of j, rank of j among owners of equal content, count),
    so pools under one draw id hold the same rows of every owner who gives as many. Rows are
    concatenated in an order fixed by content: a value depends neither on the order of the owners
    nor on who is absent. A subclass with a test set calls it `X_test` and `y_test`; one made of
    packages names them with their versions in `packages`: a ledger answers under these only.

    Examples
    --------
    >>> import dushapley as ds
    >>> owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [1.0, 2.0]), "b": ([[3.0]], [3.0])})
    >>> ds.DatasetGame(owners, lambda X, y: float(len(X))).fractions  # one of them
    'rows'
    """

    fractions: Fractions = "rows"
    X_test: Rows | None = None
    y_test: Array | None = None
    packages: Mapping[str, str] = MappingProxyType({})
    _content: str | None = None

    def __init__(self, owners: Owners) -> None:
        refuse_other_things(owners, type(self).__name__)
        # tables are for models that ask for them, and too large to send along for nothing
        self.owners = owners if owners.frames is None else replace(owners, frames=None)
        self._set_owners(owners.sizes, owners.names)
        equal: defaultdict[str, count[int]] = defaultdict(count)
        self.ranks = [next(equal[h]) for h in owners.hashes]
        self.order, self.labels = content_order(owners), owners.labels()
        self._drawn = [f"{h} {rank}" for h, rank in zip(owners.hashes, self.ranks, strict=True)]
        # what each whole owner writes into the name of a pool
        self._lines = np.array([f"\n{owners.hashes[j]}".encode() for j in self.order])

    @property
    def context(self) -> str | None:
        """Content of the game but for its pools, and the versions that their bits depend on."""
        if self._content is None or not self.packages:
            return self._content
        return digest(self._content, *(f"{n} {v}" for n, v in sorted(self.packages.items())))

    def _identify(self, content: str | None, *policy: str | float) -> None:
        """Name the pools by what decides their values, the game also by its policy and owners."""
        self._content = content
        if content is not None:
            self.fingerprint = digest(content, *policy, *sorted(self.owners.hashes))

    def closed_form(self, method: str, wishes: Mapping[str, Any] | None = None) -> Estimate | None:
        """Values of the nearest-neighbour game on these rows, for "knn", if there is a test set."""
        held = self.owners.reduced is None  # sums have no neighbours
        if method != "knn" or wishes or not held or self.X_test is None or self.y_test is None:
            return None
        from dushapley.games.knn import DEFAULT_K, KNN_NOTE, knn_estimate

        estimate = knn_estimate(self.owners, self.X_test, self.y_test, DEFAULT_K)
        return replace(estimate, notes=(KNN_NOTE,))

    def with_owners(self, owners: Owners) -> Self:
        """The same game over other owners; pools of equal content keep their keys and values."""
        other = copy(self)
        RowsGame.__init__(other, owners)
        return other

    def prepared(self, X: Rows) -> Rows:
        """A newcomer's rows, as owners hold them, in the form that this game pools."""
        return X

    def counts(self, fractions: Queries) -> IntArray:
        """Rows taken of each owner."""
        return np.rint(fractions * self.sizes).astype(np.int64)

    def rows_of(self, owner: int, count: int, draw: int | None) -> IntArray | slice:
        """Which rows of one owner a pool holds when it takes `count` of them."""
        return drawn_rows(draw, self._drawn[owner], count, int(self.sizes[owner]))

    def masks_of(self, owner: int, counts: IntArray, draws: IntArray) -> BoolArray:
        """Mark the rows that `rows_of` takes for each count and draw, shape (draws, rows)."""
        size = int(self.sizes[owner])
        return drawn_masks(draws.tolist(), self._drawn[owner], counts, size)

    def pool(self, counts: IntArray, draw: int | None) -> tuple[Rows, Array | None]:
        """Rows and targets of one pool, in the order of content."""
        parts = self._parts(counts, draw) or [(0, slice(0))]  # no rows, of the right type
        X = joined([take(self.owners.X[j], rows) for j, rows in parts])
        labels = self.labels
        return X, np.concatenate([labels[j][rows] for j, rows in parts]) if labels else None

    def _parts(self, counts: IntArray, draw: int | None) -> list[tuple[int, IntArray | slice]]:
        """Owners of a pool and which of their rows it holds, in the order of content."""
        return [(j, self.rows_of(j, int(counts[j]), draw)) for j in self.order if counts[j] > 0]

    def weights(self, counts: IntArray, draw: int | None) -> FloatArray | None:
        """The weights of a pool's rows, where rows have weights."""
        held = self.owners.weights
        if held is None:
            return None
        parts = self._parts(counts, draw)
        return np.concatenate([held[j][rows] for j, rows in parts] or [np.empty(0)])

    def each(self, queries: Queries, draws: IntArray | None) -> Iterator[tuple[IntArray, Any]]:
        """Rows taken of each owner and draw id, pool by pool."""
        ids = [None] * len(queries) if draws is None else draws.tolist()
        return zip(self.counts(queries), ids, strict=True)

    def row_mask(self, counts: IntArray, draw: int | None) -> BoolArray:
        """Which of all rows, in the order of content, a pool holds."""
        ends = np.cumsum(self.sizes[self.order]).astype(np.int64)
        mask = np.zeros(ends[-1], dtype=np.bool_)
        for j, part in zip(self.order, np.split(mask, ends[:-1]), strict=True):
            if counts[j] > 0:
                part[self.rows_of(j, int(counts[j]), draw)] = True
        return mask

    def keys(self, queries: Queries, draws: IntArray | None) -> list[bytes]:
        if queries.dtype != np.bool_:
            return [self._key(counts.tolist(), draw) for counts, draw in self.each(queries, draws)]
        keys: list[bytes] = []
        for some, _ in blocks(queries, None, NAMED):
            held = (some | (self.sizes == 0))[:, self.order]  # no rows are all there are
            text = self._lines[np.nonzero(held)[1]].tobytes()
            ends = np.cumsum(held.sum(axis=1) * self._lines.itemsize).tolist()
            lines = pairwise([0, *ends])
            keys += [hashlib.sha256(text[start + 1 : end]).digest() for start, end in lines]
        for row in np.flatnonzero(~queries[:, self.sizes > 0].any(axis=1)).tolist():
            keys[row] = self._key([0] * self.n_players, None)
        return keys

    def _key(self, counts: list[int], draw: int | None) -> bytes:
        """The multiset of (content, rows taken, and which draw where only part is taken)."""
        parts = []
        for j in self.order:
            if counts[j] == self.sizes[j]:
                parts.append(self.owners.hashes[j])
            elif counts[j] > 0:
                # the bits tell how rows are drawn: other rows would have other values
                parts.append(f"{self._drawn[j]} {counts[j]} {draw} 32 bits")
        return sha256("\n".join(parts))


def content_order(owners: Owners) -> list[int]:
    """Owners in the order of their content; equal ones in the order given."""
    return sorted(range(len(owners)), key=lambda j: (owners.hashes[j], j))


def drawn_rows(draw: int | None, name: str, count: int, size: int) -> IntArray | slice:
    """Which `count` of an owner's `size` rows a draw takes; `name` is its content and rank.

    Whoever knows the name draws the same rows, an owner who keeps its rows as well.
    """
    if count == size:
        return slice(None)
    if draw is None:
        raise InvalidGame("Part of an owner's rows was asked for without a draw id.")
    return np.flatnonzero(drawn_masks([draw], name, np.array([count]), size))


def drawn_masks(draws: Sequence[int], name: str, counts: IntArray, size: int) -> BoolArray:
    """Mark the rows that each draw takes: those of the smallest random numbers."""
    asked = zip(draws, counts.tolist(), strict=True)
    chance = np.stack([random_numbers(f"{draw} {name} {count}", size) for draw, count in asked])
    last = np.sort(chance, axis=1)[np.arange(len(counts)), counts - 1]
    masks: BoolArray = (chance <= last[:, None]) & (counts > 0)[:, None]
    for k in np.flatnonzero(masks.sum(axis=1) > counts).tolist():  # the first of equal numbers
        equal = np.flatnonzero(chance[k] == last[k])
        masks[k, equal[counts[k] - masks[k].sum() :]] = False
    return masks


def refuse_other_things(owners: Any, game: str) -> None:
    """Refuse what is not `Owners`: a mapping of arrays, say, is not checked yet."""
    if not isinstance(owners, Owners):
        raise InvalidGame(
            f"{game} was given {type(owners).__name__} as its owners; pass Owners. Make them with "
            "ds.Owners.from_arrays({name: (X, y)}), from_frame or from_files."
        )


def blocks(
    queries: Queries, draws: IntArray | None, size: int
) -> list[tuple[Queries, IntArray | None]]:
    """Pools and their draws, so many at a time."""
    cuts = [slice(start, start + size) for start in range(0, len(queries), size)]
    return [(queries[cut], None if draws is None else draws[cut]) for cut in cuts]


class DatasetGame(PolicyGame, RowsGame):
    """A game given by any utility of a dataset: ``utility(X, y) -> float``.

    The paper's u (section 2.1), asked for pools of whole owners or of drawn rows.

    Parameters
    ----------
    owners
        Whose rows are pooled.
    utility
        Maps pooled rows and targets (None without targets) to a number; it is also asked for the
        empty dataset, an array of no rows. Where rows have weights, these are its third argument.
    fingerprint
        Names the content of `utility`; needed for a ledger.
    on_failure, timeout, memory, repeats
        As in `dushapley.ModelGame`. Under repeats Python's, numpy's and torch's generators are set
        before each call, from the pool's content and the repeat.
    deterministic
        True if the utility of a pool is always the same number, so that training has no error;
        False if it draws at random; None if that is not known.

    Examples
    --------
    The toy of section 2.3: both x1 and x2 are needed, and two copies of x2 are no better than one.

    >>> import dushapley as ds
    >>> owners = ds.Owners.from_arrays({"D1": [[1]], "D2": [[2]], "D3": [[2], [2]]})
    >>> game = ds.DatasetGame(owners, lambda X, y: float({1, 2} <= set(X.ravel().tolist())))
    >>> ds.value(game, "exact").values.round(4).tolist()
    [0.6667, 0.1667, 0.1667]
    """

    block = 1

    def __init__(
        self,
        owners: Owners,
        utility: Callable[..., float],
        *,
        fingerprint: str | None = None,
        on_failure: Literal["raise", "empty"] = "raise",
        timeout: float | None = None,
        memory: int | None = None,
        repeats: int = 1,
        deterministic: bool | None = None,
    ) -> None:
        super().__init__(owners)
        if not callable(utility):
            raise InvalidGame(
                f"Found {type(utility).__name__} as the utility; pass a function utility(X, y) -> "
                "number."
            )
        check_choice(deterministic, "deterministic", (True, False, None))
        self.stated = deterministic
        # it may well train and test, and does not say how
        said = bool(deterministic) and repeats == 1
        self.training = agreed(on_failure, timeout, memory, repeats, deterministic=said, shift=0.0)
        self.utility = utility
        self.notes = (*owners.notes, *copied_rows(owners))
        content = ("dataset game", fingerprint, *self.averaged)
        self._identify(None if fingerprint is None else digest(*content))

    def with_owners(self, owners: Owners) -> Self:
        """The same utility over other owners."""
        other = super().with_owners(owners)
        other._identify(self._content)
        return other

    def answer(self, query: Array, draw: int | None) -> float:
        (counts,) = self.counts(query[None])
        weights = self.weights(counts, draw)
        pool = (*self.pool(counts, draw), *(() if weights is None else (weights,)))
        try:
            return float(self.utility(*pool))
        except (Exception, SystemExit) as error:
            raise UtilityFailed(
                f"The utility of {pool_name(query, self.names)} raised "
                f"{type(error).__name__}: {error}. It is asked for every pool, the empty one too; "
                "give each of them a number, or pass on_failure='empty'."
            ) from error
