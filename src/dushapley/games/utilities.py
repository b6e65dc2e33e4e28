"""Utilities of index sets as games: pyDVL's, or anybody's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.errors import InvalidGame
from dushapley.games.callables import CallableGame


def from_utility(
    utility: Callable[[Any], float],
    owners: int | Mapping[str, Sequence[int]],
    *,
    sample: Callable[[IntArray], Any] | None = None,
    fingerprint: str | None = None,
) -> CallableGame:
    """The game of a utility that is called on a set of indices, as pyDVL's are.

    A pool is worth u(union of its owners' indices): one call of the utility. Owners may be single
    data points, or own several.

    Parameters
    ----------
    utility
        Any callable that takes indices and gives a number. It must know what no index is worth.
    owners
        Indices by owner's name, none of them twice; or a number I, for owners who have one index
        each, 0 to I−1.
    sample
        What the utility is called with, made from the indices in ascending order. None: the
        indices; for a utility of pyDVL, its own `Sample` of them.
    fingerprint
        As in `dushapley.CallableGame`: names the utility, which a ledger needs.

    Examples
    --------
    >>> import dushapley as ds
    >>> rows = [3.0, 1.0, 2.0, 5.0]
    >>> game = ds.games.from_utility(
    ...     lambda indices: max((rows[i] for i in indices), default=0.0),
    ...     {"north": [0, 1], "south": [2], "west": [3]})
    >>> ds.value(game, "exact").values.round(3).tolist()
    [1.167, 0.667, 3.167]
    """
    held = holdings(owners)
    called_with = sample
    if sample is None and type(utility).__module__.partition(".")[0] == "pydvl":
        called_with = partial(import_module("pydvl.valuation.types").Sample, None)

    def worth(pools: BoolArray) -> FloatArray:
        return np.array([_worth(pool) for pool in pools], dtype=np.float64)

    def _worth(pool: BoolArray) -> float:
        members = [held[name] for name, present in zip(held, pool, strict=True) if present]
        indices = np.sort(np.concatenate(members)) if members else np.array([], dtype=np.int64)
        return float(utility(indices if called_with is None else called_with(indices)))

    sizes: ArrayLike = [len(indices) for indices in held.values()]
    return CallableGame(
        worth, len(held), sizes, names=tuple(held), fingerprint=fingerprint, block=1
    )


def holdings(owners: int | Mapping[str, Sequence[int]]) -> dict[str, IntArray]:
    """Indices by owner, each held by one of them."""
    if isinstance(owners, Mapping):
        held = {str(name): np.asarray(list(mine)) for name, mine in owners.items()}
    elif isinstance(owners, int) and not isinstance(owners, bool) and owners > 0:
        held = {f"index {i}": np.array([i]) for i in range(owners)}
    else:
        raise InvalidGame(
            f"The owners are {owners!r:.60}; a number of owners with an index each is needed, or "
            "indices by owner's name: {'north': [0, 1], 'south': [2]}."
        )
    empty = [name for name, mine in held.items() if mine.ndim != 1 or mine.dtype.kind not in "iu"]
    if empty or not held:
        raise InvalidGame(
            f"Owner {empty[0]!r} does not hold a list of whole numbers."
            if empty
            else "There are no owners: give indices by owner's name."
        )
    every, counts = np.unique(np.concatenate(list(held.values())), return_counts=True)
    if (counts > 1).any():
        raise InvalidGame(
            f"Index {every[counts > 1][0]} belongs to two owners. Give every index to one of them."
        )
    return held
