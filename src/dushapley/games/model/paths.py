"""Where faster ways of training join in.

A fast path answers the pools of a `ModelGame` by other arithmetic than fitting the model pool by
pool: sums of sufficient statistics, many small models in one batch, an accelerator. It is found
by asking each maker in `MAKERS` in turn; the first that takes the game has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dushapley.arrays import Fractions, IntArray, Queries
from dushapley.games.base import Answers
from dushapley.games.model.additive.path import additive_path
from dushapley.games.model.batched.path import gradient_path

if TYPE_CHECKING:
    from dushapley.games.model.game import ModelGame


class FastPath(Protocol):
    """Another way of answering the questions to one `ModelGame`.

    Attributes
    ----------
    name
        What it computes and how, with every number that can change a bit (precision, block
        shape): it is part of the ledger's key.
    note
        The same in a sentence for people.
    block
        How many pools it is given at a time.
    fractions, cheap
        As in `dushapley.games.Game`. Of owners with rows, fractions are "rows": a fast path draws
        the rows that the model itself would be fitted on.
    """

    name: str
    note: str
    block: int
    fractions: Fractions
    cheap: bool

    def answers(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Answers to checked pools; those it does not take go to `game.outcome`, one by one."""
        ...


MAKERS: list[Callable[[ModelGame], FastPath | None]] = [additive_path, gradient_path]
"""Makers of fast paths, in the order they are asked."""


def fast_path(game: ModelGame) -> FastPath | None:
    """The first fast path that takes this game, or None: then each pool is fitted by itself.

    All of them are arithmetic on arrays of rows that weigh the same.
    """
    if game.owners.weights is not None or not isinstance(game.X_test, np.ndarray):
        return None
    return next(filter(None, (maker(game) for maker in MAKERS)), None)
