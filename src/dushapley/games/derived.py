"""Games over the same data seen differently: owners left out, merged, thinned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Draws, Queries
from dushapley.errors import InvalidGame
from dushapley.games.base import Answers, Game
from dushapley.hashing import digest
from dushapley.validation import is_partial

OWN = {"n_players", "sizes", "names", "fingerprint"}
"""Attributes of a game that belong to a derived game itself; all others are its base's."""


class DerivedGame(Game):
    r"""A game whose pools are pools of another: u'(q) = u(q·M).

    Row a of the matrix M says what part of each owner of the base game player a brings: a one
    alone keeps an owner as it is, two ones merge two owners, a fraction thins one, and an owner
    in no row has left. Pools keep the keys and the context that they have in the base game, so
    whatever was paid there is found; nothing is trained differently.

    Parameters
    ----------
    base
        The game that is asked.
    matrix
        Shape (players, owners of the base), entries 0..1, columns adding up to at most 1.
    names
        Names of the players.

    Examples
    --------
    >>> import dushapley as ds
    >>> base = ds.SizeGame([1, 2, 4], w=lambda n: n)
    >>> merged = DerivedGame(base, [[1, 1, 0], [0, 0, 1]], ["1 and 2", "3"])
    >>> merged([[1, 0], [1, 1]]).tolist()
    [3.0, 7.0]
    """

    def __init__(self, base: Game, matrix: ArrayLike, names: Sequence[str]) -> None:
        self.base = base
        self.matrix = np.array(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[1] != base.n_players:
            raise InvalidGame(
                f"The matrix has shape {self.matrix.shape}; it must have one column for each of "
                f"the {base.n_players} owners of the base game."
            )
        if (self.matrix < 0).any() or (self.matrix.sum(axis=0) > 1).any():
            raise InvalidGame("Parts of an owner are between 0 and 1, and add up to at most 1.")
        sizes = self.matrix @ base.sizes
        if base.fractions == "rows":  # parts of an owner are rounded to whole rows
            counts = np.rint(self.matrix * base.sizes)
            self.matrix = counts / np.maximum(base.sizes, 1)
            sizes = counts.sum(axis=1)
        self._set_owners(sizes, names)
        for name in Game.__annotations__.keys() - OWN:
            setattr(self, name, getattr(base, name))
        if base.fingerprint is not None:
            self.fingerprint = digest("derived", base.fingerprint, self.matrix, *self.names)

    @property
    def context(self) -> str | None:
        return self.base.context

    def pools(self, queries: Queries, draws: Draws) -> tuple[Queries, Draws]:
        """The same pools as the base game knows them."""
        mapped = np.minimum(queries @ self.matrix, 1.0)
        if not is_partial(mapped).any():
            return self.base.check(mapped == 1, draws)
        same = np.zeros(len(mapped), dtype=np.int64)  # a thinned owner keeps its rows in all pools
        return self.base.check(mapped, same if draws is None else draws)

    def evaluate(self, queries: Queries, draws: Draws) -> Answers:
        return Answers.of(self.base.evaluate(*self.pools(queries, draws)))

    def keys(self, queries: Queries, draws: Draws) -> list[bytes]:
        """Keys of the base game."""
        return self.base.keys(*self.pools(queries, draws))

    def reseeded(self, seed: int) -> Game:
        """The same view of the base game under another seed."""
        return DerivedGame(self.base.reseeded(seed), self.matrix, self.names)
