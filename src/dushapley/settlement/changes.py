"""What may happen to a collaboration: an owner leaves, joins, merges, copies, brings more rows.

Every change is a game over the same data seen differently, or with one more owner; model, test set
and encoder stay the base run's.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import AnyDict
from dushapley.data.formats.objects import as_rows
from dushapley.data.overlap import row_hashes
from dushapley.data.rows import count, is_table
from dushapley.data.tables import aligned
from dushapley.errors import InvalidChange, SharedRows
from dushapley.games import DerivedGame, FoldsGame, Game, RowsGame
from dushapley.hashing import content_hash
from dushapley.validation import is_whole, place_of, refuse

SMALLEST_SCALE = 0.25
"""To ask for more rows everybody is shrunk; below this the small collaboration says little."""


class Change(Protocol):
    """Something that may happen to a collaboration."""

    def games(self, game: Game) -> tuple[Game, Game]:
        """The game before and after."""

    def told(self) -> str:
        """The question in words."""


@dataclass(frozen=True)
class Leave:
    """An owner leaves. Every pool of the others is one that the base game knows.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"])
    >>> ds.what_if(game, ds.Leave("west"), method="exact").after.values.tolist()
    [4.0, 3.0]
    """

    owner: str

    def games(self, game: Game) -> tuple[Game, Game]:
        names = list(game.names)
        i = place_of(self.owner, game.names, InvalidChange)
        del names[i]
        if not names:
            raise InvalidChange("The only owner cannot leave; nobody would be left to value.")
        return game, DerivedGame(game, np.delete(np.eye(game.n_players), i, axis=0), names)

    def told(self) -> str:
        return f"{self.owner!r} leaves"


@dataclass(frozen=True)
class Join:
    """A newcomer joins with its own rows; the encoder and the test set stay as they are.

    Examples
    --------
    >>> import dushapley as ds
    >>> from sklearn.linear_model import Ridge
    >>> owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [1.0, 2.0]), "b": ([[3.0]], [3.1])})
    >>> game = ds.ModelGame(owners, Ridge(), [[4.0], [5.0]], [4.0, 5.0])
    >>> ds.what_if(game, ds.Join("c", [[6.0], [7.0]], [6.0, 7.0]), method="exact").after.owners
    ('a', 'b', 'c')
    """

    owner: str
    X: ArrayLike
    y: ArrayLike | None = None

    def games(self, game: Game) -> tuple[Game, Game]:
        rows = refuse_without_rows(game, "A newcomer")
        owners = rows.owners
        X = as_rows(self.owner, self.X)
        y = None if self.y is None else np.asarray(self.y)
        n = count(X)
        refuse(
            InvalidChange,
            (
                self.owner in game.names,
                f"There is an owner {self.owner!r} already; give the newcomer another name.",
            ),
            (
                n == 0 or (y is not None and n != len(y)),
                f"The newcomer brings {n} rows; each needs a target.",
            ),
            (
                owners.weights is not None,
                "The owners' rows have weights, which a newcomer cannot bring. Make a new game.",
            ),
        )
        columns = owners.columns
        plain = aligned(X, columns, "The newcomer") if is_table(X) and columns else X
        pooled = rows.prepared(X if is_table(owners.X[0]) else plain)
        joined = _with(rows, self.owner, content_hash(plain, y), X=pooled, y=y)
        if (shared := _tested_rows(joined)) > 0:
            note = (
                f"{shared:,} rows of the test set, targets included, are in the data of "
                f"{self.owner!r} as well: scores on them flatter it."
            )
            joined.notes = (*joined.notes, note)
            warnings.warn(note, SharedRows, stacklevel=2)
        return game, joined

    def told(self) -> str:
        return f"{self.owner!r} joins"


@dataclass(frozen=True)
class Merge:
    """Two owners act as one. Every pool is one that the base game knows.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"])
    >>> ds.what_if(game, ds.Merge("south", "west"), method="exact").after.values.tolist()
    [4.0, 5.0]
    """

    first: str
    second: str

    def games(self, game: Game) -> tuple[Game, Game]:
        a, b = (place_of(name, game.names, InvalidChange) for name in (self.first, self.second))
        if a == b:
            raise InvalidChange(f"{self.first!r} cannot merge with itself; name two owners.")
        matrix = np.eye(game.n_players)
        matrix[a, b] = 1.0
        names = list(game.names)
        names[a] = self.name
        del names[b]
        return game, DerivedGame(game, np.delete(matrix, b, axis=0), names)

    @property
    def name(self) -> str:
        """The name of the two together."""
        return f"{self.first} + {self.second}"

    def told(self) -> str:
        return f"{self.first!r} and {self.second!r} merge"


@dataclass(frozen=True)
class Copy:
    """An owner adds a copy of another's rows to its own, to see whether copying pays.

    Where only the copier is in a pool, the pool holds what the two held together before, which
    the base game knows; where both are in, the copied rows stand in it twice.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"])
    >>> ds.Copy("west", source="north")
    Copy(owner='west', source='north')
    """

    owner: str
    source: str

    def games(self, game: Game) -> tuple[Game, Game]:
        rows = refuse_without_rows(game, "A copy of rows")
        a, b = (place_of(name, game.names, InvalidChange) for name in (self.owner, self.source))
        if a == b:
            raise InvalidChange(f"{self.owner!r} cannot copy itself; name two owners.")
        owners = rows.owners
        shadows = (f"copy {k}" for k in range(len(owners) + 1))
        shadow = next(name for name in shadows if name not in game.names)
        blocks = {"X": owners.X, "y": owners.y, "weights": owners.weights}
        copied = {name: held[b] for name, held in blocks.items() if held is not None}
        larger = _with(rows, shadow, owners.hashes[b], **copied)
        matrix = np.eye(game.n_players, game.n_players + 1)
        matrix[a, -1] = 1.0
        return game, DerivedGame(larger, matrix, game.names)

    def told(self) -> str:
        return f"{self.owner!r} copies the rows of {self.source!r}"


@dataclass(frozen=True)
class MoreRows:
    """An owner brings more rows of its kind, or fewer.

    Fewer is measured directly: a fixed draw of its rows. More cannot be, for nobody has the rows;
    so both worlds are shrunk until they fit what there is: with f = n/(n + more), before: everybody
    brings the part f of its rows; after: the owner brings all n of its own. The comparison is
    exact but for the smaller scale, which the result states.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], w=lambda n: n / (n + 100))
    >>> found = ds.what_if(game, ds.MoreRows("owner 1", 100), method="exact")
    >>> bool(found.after.values[0] > found.before.values[0])
    True
    """

    owner: str
    rows: int

    def games(self, game: Game) -> tuple[Game, Game]:
        if game.fractions == "none":
            raise InvalidChange(
                f"{type(game).__name__} knows whole owners only: it was given sums or utilities, "
                "so no part of an owner's rows can be drawn. Use a game with rows, or ask about "
                "whole owners (Leave, Merge)."
            )
        i = place_of(self.owner, game.names, InvalidChange)
        size = game.sizes[i]
        parts = self.scale(game) * np.eye(game.n_players)
        before = game if self.rows < 0 else DerivedGame(game, parts, game.names)
        parts[i, i] = min(1.0, (size + self.rows) / size)
        return before, DerivedGame(game, parts, game.names)

    def scale(self, game: Game) -> float:
        """Part of everybody's rows at which more rows are measured; 1 for fewer."""
        if not is_whole(self.rows):
            raise InvalidChange(f"rows is {self.rows!r}; pass a whole number of rows.")
        size = float(game.sizes[place_of(self.owner, game.names, InvalidChange)])
        if self.rows == 0 or size + self.rows <= 0:
            raise InvalidChange(
                f"{self.owner!r} has {size:.0f} rows; {self.rows:+d} leaves nothing to compare."
            )
        scale = size / (size + max(self.rows, 0))
        if scale < SMALLEST_SCALE:
            most = int(size / SMALLEST_SCALE - size)
            raise InvalidChange(
                f"{self.owner!r} has {size:.0f} rows; {self.rows} more can only be measured by "
                f"shrinking everybody to {scale:.0%}, which says little. Ask for at most {most} "
                "more."
            )
        return scale

    def told(self) -> str:
        kind = "more" if self.rows > 0 else "fewer"
        return f"{self.owner!r} brings {abs(self.rows):,} {kind} rows"


def refuse_without_rows(game: Game, what: str) -> RowsGame:
    """Only games that hold rows, and a test set apart from them, can take more."""
    # under cross-validation the owners' rows are the test set: another owner, another test
    fixed = (RowsGame.with_owners, FoldsGame.with_owners)
    if not isinstance(game, RowsGame) or type(game).with_owners in fixed:
        raise InvalidChange(
            f"{what} cannot be pooled in this game. It needs a game of owners' rows with a test "
            "set of its own: a test file or rows held out, not cross-validation."
        )
    if game.owners.reduced is not None:
        raise InvalidChange(
            f"{what} cannot be pooled in this game: its owners handed over sums instead of rows. "
            "Ask about whole owners (Leave, Merge)."
        )
    return game


def _tested_rows(game: RowsGame) -> int:
    """Rows of the test set that the last owner holds."""
    test = getattr(game, "X_test", None), getattr(game, "y_test", None)
    if test[0] is None:
        return 0
    return len(np.intersect1d(row_hashes(*test), game.owners.row_hashes[-1]))


def _with(game: RowsGame, name: str, content: str, **block: Any) -> RowsGame:
    added = {"names": name, "hashes": content, **block}
    longer: AnyDict = {key: (*getattr(game.owners, key), part) for key, part in added.items()}
    return game.with_owners(replace(game.owners, **longer))
