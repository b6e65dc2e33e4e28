"""Test sets taken from the owners' own rows, the same part of everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import Array, IntArray, Rows
from dushapley.data.rows import joined, take, without
from dushapley.errors import InvalidOwners
from dushapley.validation import is_number, is_whole

if TYPE_CHECKING:
    from dushapley.data.owners import Owners

LEAST_LEFT = 10
"""Training rows that must remain where more than half of an owner's rows are held out."""


def hold_out(owners: Owners, fraction: float, seed: int) -> tuple[Owners, Rows, Array]:
    """A random part of every owner's rows, at least one, as a test set."""
    if not is_number(fraction, above=0) or fraction >= 1:
        raise InvalidOwners(f"A fraction of {fraction!r} cannot be held out; pass, say, 0.2.")
    if int(owners.sizes.min()) < 2:
        small = min(range(len(owners)), key=lambda j: owners.sizes[j])
        raise InvalidOwners(
            f"Owner {owners.names[small]!r} has a single row, which cannot be in training and "
            "test set both. Give a test set of its own, or more rows."
        )
    sizes = owners.sizes.astype(int).tolist()
    picked = [int(np.clip(round(fraction * n), 1, n - 1)) for n in sizes]
    for name, n, count in zip(owners.names, sizes, picked, strict=True):
        # up to a half, few rows are the owner's own doing
        if fraction > 0.5 and n - count < LEAST_LEFT:
            raise InvalidOwners(
                f"Holding out {fraction:g} leaves owner {name!r} {n - count} of its {n} "
                f"rows to train on; it takes {LEAST_LEFT}, or at least half. Hold out less, say "
                "0.2, or give a test set of its own."
            )
    pairs = zip(shuffles(owners, seed), picked, strict=True)
    return split(owners, [np.sort(rows[:count]) for rows, count in pairs])


def folds(owners: Owners, number: int, seed: int) -> list[tuple[Owners, Rows, Array]]:
    """Every row in the test set of exactly one of several splits."""
    fewest = int(owners.sizes.min())
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
    return [rng.permutation(int(n)) for rng, n in zip(generators, owners.sizes, strict=True)]


def split(owners: Owners, tests: list[IntArray]) -> tuple[Owners, Rows, Array]:
    """Owners without their test rows, and the test rows of all: tables where owners have tables."""
    if owners.y[0] is None:
        raise InvalidOwners("The owners have no targets, so no test set can be made of their rows.")
    order = sorted(range(len(owners)), key=lambda j: owners.hashes[j])
    training = owners.map_rows(lambda j, block: without(block, tests[j]))
    tested = owners.map_rows(lambda j, block: take(block, tests[j]))
    rows = tested.X if tested.frames is None else tested.frames
    targets = [y for y in tested.y if y is not None]
    return training, joined([rows[j] for j in order]), joined([targets[j] for j in order])
