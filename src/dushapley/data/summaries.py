"""What an owner may hand over instead of rows: sums that additive models can be trained from.

A model is additive here when training needs only sums over rows. Each owner is then reduced, once,
to a few arrays (`Statistics`), a pool is a weighted sum of them, and whoever computes values never
sees a row.

What such a file reveals: the number of rows, the mean of every column, all variances and pairwise
correlations (for classification class by class: counts, means and variances; correlations within
classes). Of a single row it reveals everything, and of fewer rows than columns nearly so: the rows
can be pinned down up to a rotation. It is not anonymisation and adds no noise; owners of few rows
should know this before they hand it over.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.files import PathLike, SourceFile
from dushapley.data.outputs import write_whole
from dushapley.data.owners import Owners
from dushapley.data.rows import is_sparse
from dushapley.errors import InvalidOwners
from dushapley.hashing import array_chunk, sha256
from dushapley.validation import refuse

Kind = Literal["regression", "classification", "bins"]

FORMAT = "dushapley.statistics/1"
ARRAYS: dict[str, dict[str, str]] = {
    "regression": {"mean": "z", "scatter": "zz"},
    "classification": {
        "classes": "c", "counts": "c", "means": "cd", "squares": "cd", "scatter": "dd",
    },
    "bins": {"edges": "e", "column": "", "counts": "b", "means": "b", "squares": "b"},
}  # fmt: skip
"""Arrays that each kind of statistics consists of, with their axes: d features, z of them with the
target, c classes, b bins between e edges."""
KINDS = {"classes": "iufbU", "column": "iu"}
"""Kinds of arrays that hold something other than decimal numbers."""
MOST_BYTES, MOST_ROWS = 2**28, 2**53
"""Bytes of a file, unpacked (5,000 columns take 200 MB), and rows that floats can count."""
SLACK = 1e-6
"""Relative error that rounding may leave in a matrix of sums."""

MOST_SCATTER = 8 * 10**9
"""Bytes of all owners' co-moments together."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """One owner's rows, reduced to sums.

    Attributes
    ----------
    name
        The owner.
    kind
        "regression": `mean` and `scatter` Σ(z−z̄)(z−z̄)' of z = (features, target).
        "classification": `classes`, their `counts`, `means` and `squares` Σ(x−x̄)², and the
        `scatter` Σ(x−x̄)(x−x̄)' around the class means, added over classes.
        "bins": `counts`, `means` and `squares` of the target in the bins that `edges` cut one
        `column` into.
    n_rows, n_features
        Shape of the rows.
    arrays
        The arrays of the kind.
    columns
        Names of the features and, last, of the target; empty where they had none.
    """

    name: str
    kind: Kind
    n_rows: int
    n_features: int
    arrays: Mapping[str, Array]
    columns: tuple[str, ...] = field(default=())

    @property
    def content(self) -> str:
        """Content hash: equal statistics, equal hash."""
        arrays = (array_chunk(self.arrays[name]) for name in ARRAYS[self.kind])
        return sha256(f"{self.kind} {self.n_rows} {self.n_features}", *arrays).hex()

    def save(self, path: PathLike) -> Path:
        """Write a small .npz file of plain arrays; read it back with `load`."""
        about = [FORMAT, self.kind, self.name, str(self.n_rows), str(self.n_features)]
        columns = np.array(self.columns, dtype=str)
        content = BytesIO()
        np.savez(content, allow_pickle=False, about=np.array(about), columns=columns, **self.arrays)
        return write_whole(path, content.getvalue())

    @classmethod
    def load(cls, file: PathLike | SourceFile) -> Statistics:
        """Read a file that `save` wrote; anything else is refused. Nothing in it is executed."""
        source = file if isinstance(file, SourceFile) else SourceFile.read(file)
        content = source.take()
        try:
            stored = _arrays(content)
            _, kind, name, rows, features = stored.pop("about").tolist()
            columns = tuple(map(str, stored.pop("columns").tolist()))
            statistics = cls(str(name), kind, int(rows), int(features), stored, columns)
        except Exception as error:  # whatever such bytes make of the readers of archives
            raise InvalidOwners(
                f"{source.path} is not a file of owner statistics ({type(error).__name__}: "
                f"{error}). It must be a file written by Statistics.save or `dushapley statistics`."
            ) from error
        statistics.check()
        return statistics

    def check(self) -> None:
        """Refuse arrays that cannot be statistics of any rows."""
        fault = self._fault()
        if fault:
            raise InvalidOwners(
                f"Statistics of {self.name!r}: {fault}. Write the file again from the rows."
            )

    def _fault(self) -> str:
        """What no rows could have given; "" where there is nothing."""
        arrays, rows, nothing = self.arrays, self.n_rows, np.empty(0)
        classes, edges = arrays.get("classes", nothing), arrays.get("edges", nothing)
        d, c, e = self.n_features, classes.size, edges.size
        axes = {"d": d, "z": d + 1, "c": c, "e": e, "b": e + 1}
        for name, letters in ARRAYS[self.kind].items():
            array, kinds = arrays[name], KINDS.get(name, "f")
            shape = tuple(axes[letter] for letter in letters)
            if array.shape != shape or array.dtype.kind not in kinds:
                return (
                    f"{name} has shape {array.shape} and type {array.dtype}; it needs shape "
                    f"{shape} and a type of {' or '.join(map(repr, kinds))}"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return f"{name} holds numbers that are missing or infinite; all must be finite"
        if not 1 <= rows <= MOST_ROWS:
            return f"they are of {rows} rows"
        counts = arrays.get("counts", np.array([float(rows)]))
        if (counts < (self.kind == "classification")).any() or counts.sum() != rows:
            return f"counts add up to {counts.sum():g} of {rows} rows, or some are too small"
        if (arrays.get("squares", counts) < 0).any():
            return "squares are negative"
        if len(np.unique(classes)) < c:
            return "a class stands in it twice"
        scatter = arrays.get("scatter", np.zeros((1, 1)))
        scale = np.sqrt(np.maximum(scatter.diagonal(), 0))
        possible = np.abs(scatter) <= np.outer(scale, scale) * (1 + SLACK)
        if not possible.all() or not np.allclose(scatter, scatter.T, rtol=SLACK, atol=0):
            return "scatter is not a matrix of squares and products"
        return ""


def _arrays(content: bytes) -> dict[str, Array]:
    """Read the arrays of such a file, none of them executed, all together within bounds."""
    with np.load(BytesIO(content), allow_pickle=False) as archive:
        unpacked = sum(member.file_size for member in archive.zip.infolist())
        if unpacked > MOST_BYTES:
            raise ValueError(f"{unpacked:,} bytes unpacked; at most {MOST_BYTES:,} are read")
        stored = {key: archive[key] for key in archive.files}
    form, kind = stored["about"][:2].tolist()
    if form != FORMAT or set(stored) != {"about", "columns", *ARRAYS[kind]}:
        raise ValueError(f"format {form!r}, arrays {sorted(stored)}")
    return stored


def regression_statistics(name: str, X: Array, y: Array) -> Statistics:
    """Means and co-moments of features and target, centred so that no digits are lost."""
    z = np.column_stack([X, y]).astype(np.float64)
    mean = z.mean(axis=0)
    around = z - mean
    arrays = {"mean": mean, "scatter": around.T @ around}
    return Statistics(name, "regression", len(z), z.shape[1] - 1, arrays)


def classification_statistics(name: str, X: Array, y: Array) -> Statistics:
    """Counts, means, squares and the common scatter of the classes that the owner has."""
    rows = np.asarray(X, dtype=np.float64)
    classes, codes = np.unique(y, return_inverse=True)
    if classes.dtype.kind == "O":
        classes = classes.astype(str)
    counts = np.bincount(codes).astype(np.float64)
    member = (codes == np.arange(len(classes))[:, None]).astype(np.float64)
    means = member @ rows / counts[:, None]
    around = rows - means[codes]
    arrays = {
        "classes": classes,
        "counts": counts,
        "means": means,
        "squares": member @ around**2,
        "scatter": around.T @ around,
    }
    return Statistics(name, "classification", len(rows), rows.shape[1], arrays)


def bin_statistics(name: str, X: Array, y: Array, edges: FloatArray, column: int) -> Statistics:
    """Counts, means and squares of the target in the bins of one column."""
    rows = np.asarray(X, dtype=np.float64)
    target = np.asarray(y, dtype=np.float64)
    codes = np.searchsorted(edges, rows[:, column], side="right")
    counts = np.bincount(codes, minlength=len(edges) + 1).astype(np.float64)
    means = np.bincount(codes, target, minlength=len(counts)) / np.maximum(counts, 1)
    squares = np.bincount(codes, (target - means[codes]) ** 2, minlength=len(counts))
    arrays = {
        "edges": np.asarray(edges, dtype=np.float64),
        "column": np.array(column),
        "counts": counts,
        "means": means,
        "squares": squares,
    }
    return Statistics(name, "bins", len(rows), rows.shape[1], arrays)


def reduced(owners: Owners, kind: Kind | None) -> tuple[Statistics, ...]:
    """Statistics of all owners; `Owners.statistics` says more."""
    if owners.reduced is not None:
        return owners.reduced
    makers = {"regression": regression_statistics, "classification": classification_statistics}
    make = makers.get(_kind(owners) if kind is None else kind)
    if make is None:
        raise InvalidOwners(f"kind is {kind!r}; choose 'regression' or 'classification'.")
    shape = owners.X[0].shape
    needed = 8 * (shape[1] + 1) ** 2 * len(owners) if len(shape) == 2 else 0
    if needed > MOST_SCATTER:
        raise InvalidOwners(
            f"Statistics of {shape[1]:,} columns take {needed:,} bytes for {len(owners)} owners; "
            f"at most {MOST_SCATTER:,} are computed. Leave out columns, or let models be trained "
            "on the rows."
        )
    columns = () if owners.columns is None else (*owners.columns, str(owners.target))
    statistics = []
    for name, X, y in zip(owners.names, owners.X, owners.y, strict=True):
        if y is None or is_sparse(X) or X.dtype.kind not in "fiub" or X.ndim != 2:
            raise InvalidOwners(
                f"Owner {name!r} has no targets, or columns that are not numbers; statistics need "
                "both, in arrays that are not sparse. Turn text and dates into numbers first, in "
                "the same way for all owners."
            )
        made = make(name, X, y)
        made.check()
        statistics.append(replace(made, columns=columns))
    return tuple(statistics)


def _kind(owners: Owners) -> Kind:
    kinds = {y.dtype.kind for y in owners.y if y is not None}
    if kinds <= {"f"}:
        return "regression"
    if kinds <= set("OUSb"):
        return "classification"
    raise InvalidOwners(
        "The targets are whole numbers, which may be amounts or classes. Say which: "
        "statistics('regression') or statistics('classification')."
    )


def owners_of(files: Sequence[PathLike | SourceFile | Statistics]) -> Owners:
    """Owners of the given statistics; `Owners.from_statistics` says more."""
    for file in files:
        if not isinstance(file, Statistics | SourceFile | str | os.PathLike):
            raise InvalidOwners(
                f"Found a {type(file).__name__} among the statistics; pass files of statistics, or "
                "what Owners.statistics() made. For rows use Owners.from_arrays."
            )
    parts = tuple(f if isinstance(f, Statistics) else Statistics.load(f) for f in files)
    if not parts:
        raise InvalidOwners("No statistics were given; pass one file per owner.")
    first = parts[0]
    one, d, columns = first.name, first.n_features, list(first.columns)
    for part in parts:
        other, own = part.name, list(part.columns)
        refuse(
            InvalidOwners,
            (
                (part.kind, part.n_features) != (first.kind, d),
                f"Statistics of {one!r} are of {first.kind} with {d} features, those of "
                f"{other!r} of {part.kind} with {part.n_features}; all owners need the same. "
                "Write them again with the same columns and kind.",
            ),
            (
                own != columns,
                f"Statistics of {one!r} have the columns {columns}, those of {other!r} {own}; all "
                "owners need the same, in one order.",
            ),
        )
    names = tuple(part.name for part in parts)
    if len(set(names)) != len(names):
        raise InvalidOwners("Two statistics files are of owners with the same name.")
    # no targets, but of the type that the owners' had
    targets = [part.arrays.get("classes", np.empty(0))[:0] for part in parts]
    owners = Owners(
        names=names,
        X=(np.empty((0, d)),) * len(parts),
        y=tuple(y.astype(object) if y.dtype.kind == "U" else y for y in targets),
        hashes=tuple(part.content for part in parts),
        reduced=parts,
    )
    if not columns:
        return owners
    *features, target = columns
    return replace(owners, columns=dict.fromkeys(features, "number"), target=target)
