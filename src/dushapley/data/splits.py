"""Test sets taken from the owners' own rows, the same part of everybody's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import Array, IntArray
from dushapley.errors import InvalidOwners
from dushapley.hashing import content_hash
from dushapley.validation import is_number, is_whole

if TYPE_CHECKING:
    from dushapley.data.owners import Owners

LEAST_LEFT = 10
"""Training rows that must remain where more than half of an owner's rows are held out."""


def hold_out(owners: Owners, fraction: float, seed: int) -> tuple[Owners, Array, Array]:
    """A random part of every owner's rows, at least one, as a test set."""
    if not is_number(fraction, above=0) or fraction >= 1:
        raise InvalidOwners(f"A fraction of {fraction!r} cannot be held out; pass, say, 0.2.")
    if min(len(X) for X in owners.X) < 2:
        small = min(range(len(owners)), key=lambda j: len(owners.X[j]))
        raise InvalidOwners(
            f"Owner {owners.names[small]!r} has a single row, which cannot be in training and "
            "test set both. Give a test set of its own, or more rows."
        )
    picked = [int(np.clip(round(fraction * len(X)), 1, len(X) - 1)) for X in owners.X]
    for name, X, count in zip(owners.names, owners.X, picked, strict=True):
        # up to a half, few rows are the owner's own doing
        if fraction > 0.5 and len(X) - count < LEAST_LEFT:
            raise InvalidOwners(
                f"Holding out {fraction:g} leaves owner {name!r} {len(X) - count} of its {len(X)} "
                f"rows to train on; it takes {LEAST_LEFT}, or at least half. Hold out less, say "
                "0.2, or give a test set of its own."
            )
    pairs = zip(shuffles(owners, seed), picked, strict=True)
    return split(owners, [np.sort(rows[:count]) for rows, count in pairs])


def folds(owners: Owners, number: int, seed: int) -> list[tuple[Owners, Array, Array]]:
    """Every row in the test set of exactly one of several splits."""
    fewest = min(len(X) for X in owners.X)
    if not is_whole(number, least=2, most=fewest):
        raise InvalidOwners(
            f"The number of folds is {number!r}: there must be at least 2, and no more than "
            f"the smallest owner has rows ({fewest})."
        )
    shuffled = shuffles(owners, seed)
    return [split(owners, [np.sort(rows[k::number]) for rows in shuffled]) for k in range(number)]


def shuffles(owners: Owners, seed: int) -> list[IntArray]:
    """A random order of every owner's rows that depends on its own content only."""
    generators = [np.random.default_rng([seed, int(h[:16], 16)]) for h in owners.hashes]
    return [rng.permutation(len(X)) for rng, X in zip(generators, owners.X, strict=True)]


def split(owners: Owners, tests: list[IntArray]) -> tuple[Owners, Array, Array]:
    """Owners without their test rows, and the test rows of all."""
    if owners.y[0] is None:
        raise InvalidOwners("The owners have no targets, so no test set can be made of their rows.")
    targets = [y for y in owners.y if y is not None]
    X = tuple(np.delete(X, rows, axis=0) for X, rows in zip(owners.X, tests, strict=True))
    y = tuple(np.delete(y, rows, axis=0) for y, rows in zip(targets, tests, strict=True))
    training = replace(owners, X=X, y=y, hashes=tuple(map(content_hash, X, y)))
    order = sorted(range(len(owners)), key=lambda j: owners.hashes[j])
    X_test = np.concatenate([owners.X[j][tests[j]] for j in order])
    return training, X_test, np.concatenate([targets[j][tests[j]] for j in order])
