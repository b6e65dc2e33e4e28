"""Pools that wait to be paid, and how many are handed out at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from dushapley.arrays import IntArray, Queries
from dushapley.engine.executors import Executor
from dushapley.engine.executors.base import Block
from dushapley.games.base import Game

HELPINGS, LEAST_FILL = 16, 64
"""Blocks handed out at a time for each worker, and pools at least: of so many fast ones, a pause
between two handfuls is short."""
MOST_CELLS = 2**25
"""Pools times owners handed out at a time, for the sake of memory."""

Part = tuple[list[bytes], Queries, IntArray | None]
"""Pools of one round: keys, pools and draws."""


class Waiting:
    """Pools that wait to be paid, cut into blocks of constant size."""

    def __init__(self, block: int) -> None:
        self.block, self.count = block, 0
        self.parts: deque[Part] = deque()
        self.gone = 0  # pools of the first part that were cut off

    def __len__(self) -> int:
        return self.count

    @property
    def is_full(self) -> bool:
        """Whether there are enough for a block."""
        return self.count >= self.block

    def add(self, keys: list[bytes], queries: Queries, draws: IntArray | None) -> None:
        """Queue these pools behind the others."""
        if keys:
            self.parts.append((keys, queries, draws))
            self.count += len(keys)

    def cut(self) -> tuple[list[bytes], Block]:
        """The first pools, as many as a block holds or as there are."""
        taken: list[Part] = []
        room = min(self.block, self.count)
        self.count -= room
        while room:
            part = _some(self.parts[0], slice(self.gone, self.gone + room))
            taken.append(part)
            room -= len(part[0])
            self.gone += len(part[0])
            if self.gone == len(self.parts[0][0]):
                self.parts.popleft()
                self.gone = 0
        return joined(taken)


def _some(part: Part, which: slice) -> Part:
    keys, queries, draws = part
    return keys[which], queries[which], None if draws is None else draws[which]


def joined(parts: list[Part]) -> tuple[list[bytes], Block]:
    """Parts of several rounds as one block."""
    if len(parts) == 1:
        return parts[0][0], parts[0][1:]
    keys = [key for part in parts for key in part[0]]
    draws = None
    if any(part[2] is not None for part in parts):  # whole owners need none
        draws = np.concatenate(
            [np.zeros(len(k), dtype=np.int64) if d is None else d for k, _, d in parts]
        )
    return keys, (np.concatenate([part[1] for part in parts]), draws)


def has_several(executor: Executor) -> bool:
    """Whether several blocks can be at work at once; an executor that does not say may well."""
    count: Callable[[], int] = getattr(executor, "workers", lambda: 2)
    return bool(getattr(executor, "streams", False)) or count() > 1


def appetite(game: Game, executor: Executor) -> int:
    """Pools worth handing out at a time: some blocks for each worker, as memory allows."""
    count: Callable[[], int] = getattr(executor, "workers", lambda: 1)
    fill = min(HELPINGS * count() * game.block, MOST_CELLS // game.n_players)
    return max(game.block, fill, LEAST_FILL)
