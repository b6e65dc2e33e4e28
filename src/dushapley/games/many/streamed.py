"""Owners by the million, streamed from Parquet: regressions from sums, no row kept."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, IntArray, Queries
from dushapley.data.owners import Owners
from dushapley.data.summaries import regression_statistics
from dushapley.errors import InvalidGame, InvalidOwners
from dushapley.games.base import Game, Training
from dushapley.games.many.marginals import BLOCK, SumsMarginals
from dushapley.games.model.additive.path import AdditivePath
from dushapley.games.model.additive.regression import LinearModel
from dushapley.games.model.game import ModelGame
from dushapley.hashing import digest

NOT_COMPARED = (
    "Owners' rows are streamed, and were not compared with the test set: a row that somebody holds "
    "of it would flatter whoever does."
)
KEPT = 2**31
"""Bytes of sums that a process keeps; beyond, blocks are read again."""


class Partitions:
    """Rows of many owners in Parquet files, of which every block of owners is read by itself.

    Parameters
    ----------
    paths
        Files, whose rows should stand owner by owner: a block is read from the row groups that its
        owners are in, wherever they are.
    owner, target
        Columns that say whose a row is, and what is to be predicted; all others are features.
    """

    def __init__(self, paths: tuple[Path, ...], owner: str, target: str) -> None:
        self.paths, self.owner, self.target = paths, owner, target
        names: dict[Any, int] = {}
        first: list[int] = []
        last: list[int] = []
        rows: Counter[int] = Counter()
        groups = [(path, k) for path in paths for k in range(_opened(path).num_row_groups)]
        for number, (path, k) in enumerate(groups):
            column = _opened(path).read_row_group(k, columns=[owner])[owner]
            counts = column.value_counts().to_pylist()
            for entry in counts:
                j = names.setdefault(entry["values"], len(names))
                if j == len(first):
                    first.append(number)
                    last.append(number)
                last[j] = number
                rows[j] += entry["counts"]
        if None in names or not names:
            raise InvalidOwners(
                f"The column {owner!r} has rows without an owner, or there are no rows. Give every "
                "row an owner."
            )
        self.groups, self.keys = groups, names
        self.first, self.last = np.array(first), np.array(last)
        self.sizes = np.array([rows[j] for j in range(len(names))], dtype=np.float64)

    @property
    def names(self) -> tuple[str, ...]:
        """Owners in the order of their first rows."""
        return tuple(map(str, self.keys))

    @property
    def columns(self) -> list[str]:
        """Features, in the order of the first file."""
        return [c for c in _opened(self.paths[0]).schema_arrow.names if c not in self._own]

    @property
    def _own(self) -> tuple[str, str]:
        return self.owner, self.target

    def rows(self, owners: slice) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows of these owners, row group by row group: whose, and all columns, the target last.

        Columns are of shape (d + 1, rows), as they stand in the file: each is copied once.
        """
        names, start, stop = [*self.columns, self.target], owners.start, owners.stop
        lowest, highest = self.first[owners].min(), self.last[owners].max()
        for path, k in self.groups[lowest : highest + 1]:
            table = _opened(path).read_row_group(k)
            keys = table[self.owner].combine_chunks().dictionary_encode()
            numbers = np.array([self.keys[key] for key in keys.dictionary.to_pylist()])
            whose = numbers[keys.indices.to_numpy()]
            inside = (whose >= start) & (whose < stop)
            if inside.any():
                these = slice(None) if inside.all() else inside
                columns = [table[name].to_numpy()[these] for name in names]
                yield whose[these] - start, np.stack(columns, dtype=np.float64)


def _opened(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path, memory_map=True)


class StreamedGame(Game):
    r"""A regression from sums over owners who are too many to hold: u(S) as in `ModelGame`.

    Every owner is reduced to the sums of zz', z = (1, x, y), block by block of owners, straight
    from Parquet files; rows are never kept. A worker reads the blocks that it is given, so data
    stay where the files are. Pools, scores and values are those of `ModelGame` on the same rows.

    Parameters
    ----------
    source
        A Parquet file, a folder of them, or several; rows should stand owner by owner.
    model
        Ridge regression or least squares of scikit-learn, behind a `StandardScaler` or not.
    X_test, y_test
        The test set.
    owner, target
        Columns that say whose a row is, and what is to be predicted; all others are features.
    scoring, empty, at_least
        As in `dushapley.ModelGame`.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, pandas as pd, dushapley as ds
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0); x = rng.normal(size=3000)
    >>> table = pd.DataFrame({"who": np.repeat(np.arange(300), 10), "x": x})
    >>> table["y"] = 2 * x + rng.normal(size=3000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "rows.parquet"
    ...     table.to_parquet(file)
    ...     game = ds.StreamedGame(file, Ridge(), [[1.0], [-1.0]], [2.0, -2.0], owner="who",
    ...                            target="y", scoring="r2", at_least="empty")
    ...     v = ds.value(game, "centres")
    >>> v.n_evaluations, round(float(v.values.sum()), 3)
    (19868, 1.0)
    """

    cheap = True
    training = Training(deterministic=True, shift=0.0)

    def __init__(
        self,
        source: Any,
        model: Any,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        owner: str,
        target: str,
        scoring: str | None = None,
        empty: Any = "constant",
        at_least: Literal["empty"] | None = None,
    ) -> None:
        paths = _files(source)
        _refuse_other_columns(paths, owner, target)
        self.rows = Partitions(paths, owner, target)
        self._set_owners(self.rows.sizes, self.rows.names)
        self.at_least = at_least
        _, (*features, y) = next(self.rows.rows(slice(0, 1)))
        sums = regression_statistics(self.names[0], np.column_stack(features), y)
        one = ModelGame(
            Owners.from_statistics([sums]),
            model,
            np.asarray(X_test, dtype=np.float64),
            np.asarray(y_test, dtype=np.float64),
            scoring=scoring,
            empty=empty,
            at_least=at_least,
        )
        if not isinstance(one.path, AdditivePath) or not isinstance(one.path.model, LinearModel):
            raise InvalidGame(
                f"{type(model).__name__} scored by {one.scoring!r} cannot be trained from sums of "
                "a regression, and rows of so many owners are not kept. Use Ridge or "
                "LinearRegression, or ModelGame where the rows fit in memory."
            )
        self.path = one.path
        self.nobody, self.scoring = one.nobody, one.scoring
        self.notes = (one.path.note, NOT_COMPARED)
        content = [_content(path) for path in paths]
        self.fingerprint = digest("streamed", str(one.fingerprint), owner, target, *content)
        self._marginals = StreamedMarginals(self.rows, self.path)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        pooled = np.sum(
            [
                self._marginals.states(queries[:, owners], owners)
                for a in range(0, self.n_players, BLOCK)
                for owners in [slice(a, min(a + BLOCK, self.n_players))]
            ],
            axis=0,
        )
        there = pooled[:, -1] > 0
        found = np.full(len(queries), self.nobody.value)
        found[there] = self.path.worth(pooled[there, :-1].T)
        return found

    def marginals(self) -> SumsMarginals:
        return self._marginals


class StreamedMarginals(SumsMarginals):
    """Marginals from sums that are made of Parquet files, block by block, when they are needed."""

    def __init__(self, rows: Partitions, path: AdditivePath) -> None:
        nobody = path.game.nobody.value
        super().__init__(np.empty((0, 0)), path.worth, nobody, path.name, path.block)
        assert isinstance(path.model, LinearModel)
        self.rows, self.around = rows, path.model.around
        self.kept: dict[tuple[int, int], FloatArray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kept": {}}  # workers read their own

    def states(self, pools: BoolArray | FloatArray, owners: slice) -> FloatArray:
        width = len(self.around) + 1
        sums = pools.astype(np.float64) @ self._packed(owners).T
        whole = np.zeros((len(pools), width, width))
        first, second = np.triu_indices(width)
        whole[:, first, second] = whole[:, second, first] = sums
        return np.column_stack([whole.reshape(len(pools), -1), pools.sum(axis=1)])

    def of(self, owners: slice) -> FloatArray:
        """The matrices of these owners, one a column."""
        packed, width = self._packed(owners), len(self.around) + 1
        whole = np.empty((width, width, packed.shape[1]))
        first, second = np.triu_indices(width)
        whole[first, second] = whole[second, first] = packed
        return whole.reshape(-1, packed.shape[1])

    def _packed(self, owners: slice) -> FloatArray:
        """Sums of zz', z = (1, x − o, y − o_y), upper triangles, shape (pairs, owners)."""
        place = owners.start, owners.stop
        if place not in self.kept:
            found = self._read(owners)
            if sum(block.nbytes for block in self.kept.values()) + found.nbytes > KEPT:
                return found
            self.kept[place] = found
        return self.kept[place]

    def _read(self, owners: slice) -> FloatArray:
        first, second = np.triu_indices(len(self.around) + 1)
        sums = np.zeros((len(first), owners.stop - owners.start))
        for whose, columns in self.rows.rows(owners):
            if (whose[1:] < whose[:-1]).any():
                order = np.argsort(whose, kind="stable")
                whose, columns = whose[order], columns[:, order]
            columns -= self.around[:, None]
            if not np.isfinite(columns).all():
                raise InvalidOwners(
                    "A row has a missing or infinite number; sums need finite ones. Fill or drop "
                    "such rows first."
                )
            starts = np.flatnonzero(np.append(True, whose[1:] != whose[:-1]))
            Z, there = [np.ones(len(whose)), *columns], whose[starts]
            for pair, (a, b) in enumerate(zip(first, second, strict=True)):
                sums[pair, there] += np.add.reduceat(Z[a] * Z[b], starts)
        return sums


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(source: Any) -> tuple[Path, ...]:
    """Parquet files of a path, a folder, or several."""
    given = [source] if isinstance(source, (str, Path)) else list(getattr(source, "files", source))
    paths = [Path(path) for path in given]
    found = [f for p in paths for f in (sorted(p.rglob("*.parquet")) if p.is_dir() else [p])]
    missing = [path for path in found if not path.is_file()]
    if missing or not found:
        place = ", ".join(map(str, missing or paths)) or "no path"
        raise InvalidOwners(
            f"Found no Parquet file at {place}; pass a file, or a folder that holds some."
        )
    return tuple(found)


def _refuse_other_columns(paths: tuple[Path, ...], owner: str, target: str) -> None:
    """Refuse files that lack a column, have others, or hold text where numbers are needed."""
    import pyarrow as pa

    first = _opened(paths[0]).schema_arrow
    for path in paths:
        schema = _opened(path).schema_arrow
        lacking = {owner, target, *first.names} - set(schema.names)
        if lacking:
            raise InvalidOwners(
                f"{path.name} lacks the column {sorted(lacking)[0]!r}; it has "
                f"{', '.join(schema.names)}. Name the columns with owner= and target=."
            )
        for field in schema:
            numeric = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
            if field.name != owner and not numeric:
                raise InvalidOwners(
                    f"The column {field.name!r} of {path.name} is {field.type}; sums need numbers. "
                    "Encode it first, or leave it out."
                )
