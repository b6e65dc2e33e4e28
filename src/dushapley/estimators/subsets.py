"""Drawing coalitions: uniform ones of given sizes, and different ones of one size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.random import Generator

from dushapley.arrays import BoolArray, FloatArray, IntArray, slices

AT_ONCE = 2**21
"""Random numbers drawn at a time."""
ENUMERATE_BELOW = 1024
"""Coalitions of one size that are few enough to be listed whatever is asked of them."""


def random_subsets(rng: Generator, sizes: IntArray, n_players: int) -> BoolArray:
    """A uniform coalition of each given size, independent of the others; shape (m, I)."""
    masks = np.empty((len(sizes), n_players), dtype=np.bool_)
    # numbers and orders take sixteen times the masks
    for some in slices(len(sizes), AT_ONCE // n_players):
        order = rng.random((len(sizes[some]), n_players)).argsort(axis=1)
        inside = np.arange(n_players) < sizes[some, None]
        np.put_along_axis(masks[some], order, inside, axis=1)
    return masks


def with_neighbours(masks: BoolArray) -> BoolArray:
    """Each coalition, followed by the I coalitions that differ from it in one owner."""
    n = masks.shape[1]
    changes = np.eye(n + 1, n, -1, dtype=np.bool_)
    return (masks[:, None] ^ changes).reshape(-1, n)


def own_parts(masks: BoolArray, answers: FloatArray) -> FloatArray:
    """What every owner adds to each coalition, by what those `with_neighbours` are worth."""
    worth = answers.reshape(len(masks), -1)
    return np.where(masks, 1, -1) * (worth[:, :1] - worth[:, 1:])


def all_subsets(n_players: int, size: int) -> BoolArray:
    """Every coalition of one size, in lexicographic order; shape (C(I, size), I)."""
    members = np.array(list(combinations(range(n_players), size)), dtype=np.int64)
    return subsets_of(members, n_players)


def subsets_of(members: IntArray, n_players: int) -> BoolArray:
    """Coalitions given by their members, one row of numbers each, as masks."""
    masks = np.zeros((len(members), n_players), dtype=np.bool_)
    np.put_along_axis(masks, members, True, axis=1)
    return masks


def distinct_subsets(rng: Generator, n_players: int, size: int, count: int) -> BoolArray:
    """`count` different coalitions of one size, uniform without replacement, in random order.

    Few coalitions are listed and shuffled; of many, repeated draws are rejected.
    """
    total = comb(n_players, size)
    if total <= max(ENUMERATE_BELOW, 4 * count):
        return all_subsets(n_players, size)[rng.permutation(total)[:count]]
    masks = np.zeros((0, n_players), dtype=np.bool_)
    while len(masks) < count:
        more = np.full(count - len(masks), size)
        masks = np.concatenate([masks, random_subsets(rng, more, n_players)])
        packed = np.packbits(masks, axis=1)
        names = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
        masks = masks[np.sort(np.unique(names, return_index=True)[1])]
    return masks


def spread_sizes(rng: Generator, chances: FloatArray, room: Sequence[int], count: int) -> IntArray:
    """How many of `count` draws fall on each size when a size holds only so many coalitions.

    Draws on a size that is used up are made again among the rest, as if it had been dropped.
    """
    capacity = np.array([min(r, count) for r in room], dtype=np.int64)
    drawn = np.zeros(len(capacity), dtype=np.int64)
    left = count
    while left > 0 and bool((drawn < capacity).any()):
        open_chances = np.where(drawn < capacity, chances, 0.0)
        drawn = drawn + rng.multinomial(left, open_chances / open_chances.sum())
        left = int(np.maximum(drawn - capacity, 0).sum())
        drawn = np.minimum(drawn, capacity)
    return drawn
