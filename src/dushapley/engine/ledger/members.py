"""Whose pools a ledger holds: a key does not tell who was in a pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Queries
from dushapley.engine.ledger.file import Ledger, MembersRow
from dushapley.games.base import Game
from dushapley.hashing import sha256
from dushapley.validation import is_partial

MOST_LEARNED = 2**12
"""Pools that a run begins with at most; of more, those whose keys come first: a random choice."""


def roster_of(game: Game) -> bytes:
    """Names whose owners a game has, and in which order: what their pools of one are called."""
    alone = np.eye(game.n_players, dtype=np.bool_)
    return sha256(*game.keys(*game.check(alone, None)))


def members_of(roster: bytes, keys: Sequence[bytes], queries: Queries) -> list[MembersRow]:
    """Who is in the pools of these keys; those that hold part of an owner's rows are left out."""
    whole = ~is_partial(queries)
    packed_bits = np.packbits(queries == 1, axis=1)
    return [
        (roster, key, row.tobytes())
        for key, row, kept in zip(keys, packed_bits, whole, strict=True)
        if kept
    ]


def paid_pools(game: Game, ledger: Ledger, run: bytes) -> BoolArray:
    """Every pool that a ledger holds of this game, but nobody's and everybody's; shape (m, I).

    They are fixed when the `run` of this name first begins, so that it can be resumed. Members
    without a value count as not known; they are asked by their content, like any pool, so that
    wrong ones could only cost evaluations.
    """
    named = [row for row, _ in _paid_members(game, ledger)]
    body = ledger.begin(sha256(roster_of(game), run), b"".join(named))
    pools = _unpacked_members(body, game.n_players)
    some = pools.any(axis=1) & ~pools.all(axis=1)
    return pools[some]


def paid_answers(game: Game, ledger: Ledger) -> tuple[BoolArray, FloatArray]:
    """Every pool that a ledger holds of this game, nobody's left out, and what it is worth."""
    found = _paid_members(game, ledger)
    pools = _unpacked_members(b"".join(row for row, _ in found), game.n_players)
    some = pools.any(axis=1)
    return pools[some], np.array([value for _, value in found])[some]


def _paid_members(game: Game, ledger: Ledger) -> list[tuple[bytes, float]]:
    """Packed members of pools whose worth a ledger holds, and that worth."""
    roster = roster_of(game)
    width = -(-game.n_players // 8)
    stored = ledger.members(roster)
    sound = {key: row for key, row in stored if isinstance(row, bytes) and len(row) == width}
    for block in ledger.blocks(roster):
        pools = _unpacked_members(block, game.n_players)
        packed_bits = np.packbits(pools, axis=1)
        sound |= {k: r.tobytes() for k, r in zip(game.keys(pools, None), packed_bits, strict=True)}
    first = sorted(sound)[:MOST_LEARNED]
    paid = ledger.read(first)
    known = [(sound[key], game.recall(paid[key])) for key in first if key in paid]
    return [(row, outcome.value) for row, outcome in known if outcome is not None]


def _unpacked_members(body: bytes, n_players: int) -> BoolArray:
    width = -(-n_players // 8)
    rows = np.frombuffer(body[: len(body) // width * width], dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(rows, axis=1, count=n_players).astype(np.bool_)
