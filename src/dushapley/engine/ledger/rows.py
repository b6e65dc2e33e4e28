"""Evaluations as rows of a table, each sealed by a checksum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.scores import unpacked
from dushapley.games.base import Outcome
from dushapley.hashing import checksum

Row = tuple[bytes, str, str | None, str | None, str | None, bytes]
"""Key, value, failure, spread, number of scores, and seal, as they are stored."""
ScoresRow = tuple[bytes, bytes, bytes]
"""Key, packed scores and seal, as they are stored."""


def sealed(key: bytes, outcome: Outcome, context: str) -> Row:
    """An evaluation as it is stored: numbers as text that reads back to the last bit."""
    spread = None if outcome.spread is None else repr(float(outcome.spread))
    rows = None if outcome.scores is None else str(len(outcome.scores))
    content = key, repr(float(outcome.value)), outcome.failure, spread, rows
    return *content, checksum(context, *content)


def unsealed(row: Row, context: str) -> Outcome | None:
    """A stored evaluation, or None when it is not what was once stored."""
    _, value, failure, spread, _, _ = row
    if not is_sealed(row, context):
        return None
    return Outcome(float(value), failure, None, None if spread is None else float(spread))


def sealed_scores(key: bytes, body: bytes, context: str) -> ScoresRow:
    """Packed scores as they are stored."""
    return key, body, checksum(context, key, body)


def unsealed_scores(row: ScoresRow, context: str) -> FloatArray | None:
    """Stored scores, or None when they are not what was once stored."""
    return unpacked(row[1]) if is_sealed(row, context) else None


def is_sealed(row: Sequence[Any], context: str) -> bool:
    """Whether a row is what was once stored."""
    *content, seal = row
    if not all(isinstance(part, (str, bytes, type(None))) for part in content):
        return False  # damage can change the type of a number, too
    return checksum(context, *content) == seal


def tree_order(keys: Sequence[bytes]) -> list[int]:
    """Places of keys in the order of the tree; hashes are told apart by their first eight bytes."""
    if not keys or set(map(len, keys)) != {32}:
        return sorted(range(len(keys)), key=keys.__getitem__)
    first = np.frombuffer(b"".join(keys), dtype=">u8")[::4]
    order: list[int] = first.argsort(kind="stable").tolist()
    return order
