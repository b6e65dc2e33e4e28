"""Owners by the million, streamed from Parquet: regressions from sums, no row kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Draws, FloatArray, IntArray, Queries, as_floats
from dushapley.data.owners import Owners
from dushapley.data.summaries import regression_statistics
from dushapley.errors import InvalidGame, InvalidOwners
from dushapley.games.base import Game
from dushapley.games.many.marginals import SumsMarginals
from dushapley.games.model.additive.path import AdditivePath
from dushapley.games.model.additive.regression import LinearModel
from dushapley.games.model.game import ModelGame
from dushapley.games.policy import Training
from dushapley.hashing import digest

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


class Partitions:
    """Rows of many owners in Parquet files, of which every block of owners is read by itself.

    Parameters
    ----------
    rows
        A dataset of Arrow, whose rows should stand owner by owner: a block is read from the row
        groups that its owners are in, wherever they are.
    owner, target
        Columns that say whose a row is, and what is to be predicted; all others are features.

    Attributes
    ----------
    numbers
        Numbers of the owners by name, in the order of their first rows.
    columns
        Features, then the target.
    """

    def __init__(self, rows: Dataset, owner: str, target: str) -> None:
        self.owner, spans = owner, dict[Any, list[int]]()
        self.columns = [*(n for n in rows.schema.names if n not in (owner, target)), target]
        files = rows.get_fragments()
        self.groups = [group for file in files for group in file.split_by_row_group()]
        for number, group in enumerate(self.groups):
            for entry in group.to_table(columns=[owner])[owner].value_counts().to_pylist():
                span = spans.setdefault(entry["values"], [number, number, 0])
                span[1] = number
                span[2] += entry["counts"]
        if None in spans or not spans:
            raise InvalidOwners(
                f"The column {owner!r} has rows without an owner, or there are no rows. Give every "
                "row an owner."
            )
        self.numbers = {name: number for number, name in enumerate(spans)}
        self.first, self.last, self.sizes = np.array(list(spans.values())).T

    def read(self, owners: slice) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows of these owners, row group by row group: whose, and all columns, the target last.

        Columns are of shape (d + 1, rows), as they stand in the file: each is copied once.
        """
        lowest, highest = self.first[owners].min(), self.last[owners].max()
        for group in self.groups[lowest : highest + 1]:
            table = group.to_table(columns=[self.owner, *self.columns])
            keys = table[self.owner].combine_chunks().dictionary_encode()
            numbers = np.array([self.numbers[key] for key in keys.dictionary.to_pylist()])
            whose = numbers[keys.indices.to_numpy()] - owners.start
            inside = (whose >= 0) & (whose < owners.stop - owners.start)
            if inside.any():
                these = slice(None) if inside.all() else inside
                columns = [table[name].to_numpy()[these] for name in self.columns]
                yield whose[these], np.stack(columns, dtype=np.float64)


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
        files = _dataset(source, owner, target)
        rows = Partitions(files, owner, target)
        self._set_owners(rows.sizes, [str(name) for name in rows.numbers])
        _, (*features, y) = next(rows.read(slice(0, 1)))
        sums = regression_statistics(self.names[0], np.column_stack(features), y)
        one = ModelGame(
            Owners.from_statistics([sums]),
            model,
            as_floats(X_test),
            as_floats(y_test),
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
        self.notes = (
            one.path.note,
            "Owners' rows are streamed, and were not compared with the test set: a row that "
            "somebody holds of it would flatter whoever does.",
        )
        content = [_content(path) for path in files.files]
        self.fingerprint = digest("streamed", str(one.fingerprint), owner, target, *content)
        self._marginals = StreamedMarginals(rows, one.path, one.path.model.around)

    def evaluate(self, queries: Queries, draws: Draws) -> FloatArray:
        known, pools = self._marginals, queries.astype(np.bool_, copy=False)
        parts = known.parts(self.n_players)
        pooled = np.sum([known.states(pools[:, part], part) for part in parts], axis=0)
        there = pooled[:, -1] > 0
        found = np.full(len(pools), known.nobody)
        found[there] = known.worth(pooled[there, :-1].T)
        return found

    def marginals(self) -> SumsMarginals:
        return self._marginals


class StreamedMarginals(SumsMarginals):
    """Marginals from sums that are made of Parquet files, block by block, when they are needed.

    They are those of zz', z = (1, x − o, y − o_y), of which the upper triangles are kept.
    """

    def __init__(self, rows: Partitions, path: AdditivePath, origin: FloatArray) -> None:
        nobody = path.game.nobody.value
        super().__init__(np.empty((0, 0)), path.worth, nobody, path.name, path.block)
        self.rows, self.origin = rows, origin
        self.pairs = np.triu_indices(len(origin) + 1)
        self.kept: dict[tuple[int, int], FloatArray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kept": {}}  # workers read their own

    def worth(self, pooled: FloatArray) -> FloatArray:
        (first, second), width = self.pairs, len(self.origin) + 1
        whole = np.empty((width, width, pooled.shape[1]))
        whole[first, second] = whole[second, first] = pooled
        return super().worth(whole.reshape(-1, pooled.shape[1]))

    def of(self, owners: slice) -> FloatArray:
        place = owners.start, owners.stop
        if place in self.kept:
            return self.kept[place]
        sums = np.zeros((len(self.pairs[0]), owners.stop - owners.start))
        for whose, columns in self.rows.read(owners):
            order = np.argsort(whose, kind="stable")
            whose, columns = whose[order], columns[:, order] - self.origin[:, None]
            if not np.isfinite(columns).all():
                raise InvalidOwners(
                    "A row has a missing or infinite number; sums need finite ones. Fill or drop "
                    "such rows first."
                )
            starts = np.flatnonzero(np.append(True, whose[1:] != whose[:-1]))
            Z, there = [np.ones(len(whose)), *columns], whose[starts]
            for pair, (a, b) in enumerate(zip(*self.pairs, strict=True)):
                sums[pair, there] += np.add.reduceat(Z[a] * Z[b], starts)
        self.kept[place] = sums
        return sums


def _content(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _dataset(source: Any, owner: str, target: str) -> Dataset:
    """The rows of Parquet files: one, those of a folder, or several.

    Refuse files that lack a column, or hold text where numbers are needed.
    """
    from pyarrow import dataset, types

    paths = [Path(path) for path in ([source] if isinstance(source, str | Path) else source)]
    files = [f for p in paths for f in (sorted(p.rglob("*.parquet")) if p.is_dir() else [p])]
    if not files or not all(file.is_file() for file in files):
        raise InvalidOwners(
            f"Found no Parquet file at {', '.join(map(str, paths)) or 'no path'}; pass a file, or "
            "a folder that holds some."
        )
    found = dataset.dataset(list(map(str, files)))
    for name in (owner, target):
        if name not in found.schema.names:
            raise InvalidOwners(
                f"{files[0].name} lacks the column {name!r}; it has "
                f"{', '.join(found.schema.names)}. Name the columns with owner= and target=."
            )
    for field in found.schema:
        number = types.is_floating(field.type) or types.is_integer(field.type)
        if field.name != owner and not number:
            raise InvalidOwners(
                f"The column {field.name!r} of {files[0].name} is {field.type}; sums need numbers. "
                "Encode it first, or leave it out."
            )
    return found
