"""Named blocks of rows, checked once, at the door."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, FloatArray, IntArray, Rows
from dushapley.data.files import PathLike, SourceFile, opened
from dushapley.data.formats.objects import (
    as_table,
    by_group,
    check_parts,
    common_columns,
    named_parts,
    of_one_type,
)
from dushapley.data.intake import Intake, take_in, take_in_table
from dushapley.data.overlap import copied_rows, row_hashes
from dushapley.data.reading import Keys, Reading, TableKeys
from dushapley.data.rows import count, is_table, joined, take, without
from dushapley.data.tables import (
    aligned,
    aligned_frame,
    aligned_target,
    as_blocks,
    common_frames,
    features_of,
)
from dushapley.errors import InvalidCall, InvalidOwners, SharedRows
from dushapley.hashing import content_hash
from dushapley.terminal import html_table, printable
from dushapley.validation import is_number, is_whole

if TYPE_CHECKING:
    import pandas as pd

    from dushapley.data.summaries import Kind, Statistics

LEAST_LEFT = 10
"""Training rows that must remain where more than half of an owner's rows are held out."""
MOST_SHOWN = 200
"""Owners in a notebook's table."""


@dataclass(frozen=True, eq=False)
class Owners:
    """Several owners' datasets, ready to be pooled.

    Make one with `from_arrays`, `from_frame`, `from_tables` or `from_files`. Attributes hold one
    entry per owner, in the order given.

    Attributes
    ----------
    names
        Names, all different.
    X, y
        Feature blocks (arrays, first axis: rows; or scipy's compressed sparse rows) and target
        blocks; y entries are None without targets.
    hashes
        Content hash of each owner's rows: the identity that a ledger knows an owner by.
    columns, target
        Where the owners came as tables: features by name with what they hold ("number", "text",
        "date"), and the name of the target. A table with text or dates is kept as an array of
        objects, which `ModelGame` encodes.
    frames
        The same features as the tables that they came as, with types and categories: what a model
        is handed that selects or encodes columns itself.
    weights
        The weight of every row, where rows have one: models that take `sample_weight` get it.
    reduced
        The statistics, where owners handed them over instead of rows; X and y then hold no rows.
    notes
        What was odd in their tables and may be real, in sentences (`dushapley.check` tells all).
    """

    names: tuple[str, ...]
    X: tuple[Rows, ...] = ()
    y: tuple[Array | None, ...] = ()
    hashes: tuple[str, ...] = ()
    columns: Mapping[str, str] | None = None
    target: str | None = None
    reduced: tuple[Statistics, ...] | None = None
    notes: tuple[str, ...] = ()
    frames: tuple[pd.DataFrame, ...] | None = None
    weights: tuple[FloatArray, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.X) != len(self.names):
            raise InvalidCall(
                "Owners are not made by Owners(...). Use Owners.from_arrays({name: (X, y)}), "
                "from_frame, from_tables or from_files, which check and name what they are given."
            )

    @classmethod
    def from_arrays(
        cls,
        blocks: Any,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Owners:
        """Owners from ``{name: (X, y)}``, or from ``X, y, groups=`` as scikit-learn has them.

        Everything is copied and made read-only, so that an owner stays what its hash says.

        Parameters
        ----------
        blocks
            ``{name: (X, y)}``; ``{name: X}`` where there is no target; ``{name: (X, y, weights)}``
            where rows have weights. Instead of a tuple, an owner may have a torch `Dataset` or a
            list of samples (x, y); instead of a mapping there may be a list of pairs, (name, data)
            or (X, y). X is anything that numpy makes an array of, sparse rows of scipy, which stay
            sparse, or a table of pandas, polars or pyarrow. With `groups`: the X of everybody.
        y, groups, sample_weight
            Targets, names of owners and weights, row by row, where `blocks` is everybody's X.

        Examples
        --------
        >>> import dushapley as ds
        >>> owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [0, 1]), "b": ([[3.0]], [1])})
        >>> owners.sizes.tolist()
        [2.0, 1.0]
        >>> ds.Owners.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], groups=list("aab")).sizes
        array([2., 1.])
        """
        if groups is None and (y is not None or sample_weight is not None):
            raise InvalidOwners(
                "Found targets or weights apart from the rows; pass groups= as well, which says "
                "whose row each is, or {name: (X, y)}, one entry per owner."
            )
        parts = (
            named_parts(blocks) if groups is None else by_group(blocks, y, groups, sample_weight)
        )
        names, given = tuple(parts), list(parts.values())
        check_parts(names, given)
        columns = common_columns(names, given)
        X = of_one_type(
            names,
            [p.X if columns is None else features_of(p.X, columns) for p in given],
            "features",
        )
        targets = [part.y for part in given if part.y is not None]
        return cls(
            names=names,
            X=X,
            y=of_one_type(names, targets, "targets") if targets else (None,) * len(names),
            columns=columns,
            frames=None if columns is None else common_frames([part.X for part in given], columns),
            weights=tuple(part.weights for part in given if part.weights is not None) or None,
        )._hashed()

    def _hashed(self) -> Owners:
        """The same owners, known by the rows that they have now."""
        parts = [self.X, self.y] if self.weights is None else [self.X, self.y, self.weights]
        return replace(self, hashes=tuple(content_hash(*own) for own in zip(*parts, strict=True)))

    def map_rows(self, change: Callable[[int, Rows], Rows]) -> Owners:
        """Owners of other rows: of each block what `change` makes of owner's number and block."""

        def changed(blocks: Sequence[Any] | None) -> Any:
            if blocks is None:
                return None
            return tuple(None if b is None else change(j, b) for j, b in enumerate(blocks))

        blocks = {name: changed(getattr(self, name)) for name in ("X", "y", "frames", "weights")}
        return replace(self, **blocks)._hashed()

    @classmethod
    def from_frame(
        cls,
        table: Any,
        *,
        owner: str,
        target: str,
        weight: str | None = None,
        accept: Collection[str] = (),
        **read: Unpack[TableKeys],
    ) -> Owners:
        """Owners from one table with a column that says whose row it is.

        Parameters
        ----------
        table
            Rows of all owners: a table of pandas, polars or pyarrow.
        owner, target
            Names of the columns that hold the owner and what is to be predicted; all others are
            features.
        weight
            Name of the column that holds the weight of each row, if there is one.
        accept
            Codes of findings that shall not stop the reading, like "stray-text".
        **read
            Keys of `dushapley.data.reading.Reading` that make sense for a table. Its columns are
            taken in the types they have, unless `decimal`, `thousands`, `percent`, `dates` or
            `missing` says that text is to be read as numbers or dates.

        Examples
        --------
        >>> import pandas as pd, dushapley as ds
        >>> table = pd.DataFrame({"site": ["n", "n", "s"], "age": [3, 5, 8], "ill": [0, 1, 1]})
        >>> owners = ds.Owners.from_frame(table, owner="site", target="ill")
        >>> owners.names, owners.columns
        (('n', 's'), {'age': 'number'})
        """
        given = as_table(table)
        if not is_table(given):
            raise InvalidOwners(
                f"Found {type(table).__name__}; a table of pandas, polars or pyarrow is needed"
                + (" (.collect() makes one of it). " if hasattr(table, "collect") else ". ")
                + "Owners.from_arrays takes {name: (X, y)}."
            )
        found = take_in_table(given, owner=owner, target=target, reading=Reading.from_keys(read))
        return cls.from_intake(found, target, accept, weight=weight)

    @classmethod
    def from_intake(
        cls,
        intake: Intake,
        target: str,
        accept: Collection[str] = (),
        *,
        weight: str | None = None,
        alone: bool = False,
    ) -> Owners:
        """Owners of tables that were read before, once nothing odd about them stops it."""
        from dushapley.data.check import accepted_tables, examine  # it knows all of this room

        findings = examine(intake, target, accept)
        findings.refuse_stops(in_python=True)
        owners = cls.from_tables(
            accepted_tables(intake, findings).tables, target=target, weight=weight, alone=alone
        )
        return replace(owners, notes=findings.not_told_by_games().sentences())

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str, Any],
        *,
        target: str,
        weight: str | None = None,
        alone: bool = False,
    ) -> Owners:
        """Owners from one table each; columns may stand in any order, but must be the same.

        A single owner is refused unless it is `alone` on purpose, at home with its own rows.
        """
        given = {name: as_table(table) for name, table in tables.items()}
        owners = replace(cls.from_arrays(as_blocks(given, target, weight, alone)), target=target)
        for note in copied_rows(owners):
            warnings.warn(note, SharedRows, stacklevel=3)
        return owners

    @classmethod
    def from_files(
        cls,
        paths: PathLike | Iterable[PathLike | SourceFile],
        *,
        target: str,
        owner: str | None = None,
        accept: Collection[str] = (),
        alone: bool = False,
        **read: Unpack[Keys],
    ) -> Owners:
        """Owners from files: text of any dialect, Parquet, Excel, OpenDocument, JSON lines, SQLite.

        Parameters
        ----------
        paths
            Files, or a folder of them; or files opened before (`dushapley.data.files.sources`).
        target
            Name of the column that is to be predicted.
        owner
            Name of the column that says whose row it is. None: one file per owner, who is called
            by the file's name.
        accept
            Codes of findings that shall not stop the reading, like "file-skipped".
        alone
            Whether a single owner is meant: one that is at home, and hands over sums.
        **read
            How to read, where it is not to be detected: `dushapley.data.reading.Reading` lists the
            keys (sep, decimal, dates, drop, ...).
        """
        files, skipped = opened(paths)
        found = take_in(files, target=target, owner=owner, reading=Reading.from_keys(read))
        found = replace(found, findings=(*skipped, *found.findings))
        return cls.from_intake(found, target, accept, alone=alone)

    def hold_out(self, fraction: float, seed: int = 0) -> tuple[Owners, Rows, Array]:
        """Keep back a random part of every owner's rows as a test set: (owners, X_test, y_test).

        X_test is a table where the owners came as tables.

        Examples
        --------
        >>> import dushapley as ds
        >>> block = ([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])
        >>> kept, X_test, y_test = ds.Owners.from_arrays({"a": block, "b": block}).hold_out(0.25)
        >>> kept.sizes.tolist(), len(y_test)
        ([3.0, 3.0], 2)
        """
        if not is_number(fraction, above=0) or fraction >= 1:
            raise InvalidOwners(f"A fraction of {fraction!r} cannot be held out; pass, say, 0.2.")
        if int(self.sizes.min()) < 2:
            raise InvalidOwners(
                f"Owner {self.names[self.sizes.argmin()]!r} has a single row, which cannot be in "
                "training and test set both. Give a test set of its own, or more rows."
            )
        sizes = self.sizes.astype(int).tolist()
        picked = [int(np.clip(round(fraction * n), 1, n - 1)) for n in sizes]
        for name, n, held in zip(self.names, sizes, picked, strict=True):
            # up to a half, few rows are the owner's own doing
            if fraction > 0.5 and n - held < LEAST_LEFT:
                raise InvalidOwners(
                    f"Holding out {fraction:g} leaves owner {name!r} {n - held} of its {n} rows "
                    f"to train on; it takes {LEAST_LEFT}, or at least half. Hold out less, say "
                    "0.2, or give a test set of its own."
                )
        pairs = zip(shuffles(self, seed), picked, strict=True)
        return split(self, [np.sort(rows[:held]) for rows, held in pairs])

    @classmethod
    def from_statistics(cls, files: Sequence[PathLike | SourceFile | Statistics]) -> Owners:
        """Owners who handed over statistics instead of rows: enough for additive models.

        Examples
        --------
        >>> import dushapley as ds
        >>> owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [0.5, 1.5])})
        >>> ds.Owners.from_statistics(owners.statistics()).sizes.tolist()
        [2.0]
        """
        from dushapley.data.summaries import owners_of

        return owners_of(files)

    def statistics(self, kind: Kind | None = None) -> tuple[Statistics, ...]:
        """Each owner's rows reduced to sums, to be saved and handed over.

        `dushapley.data.summaries` tells what they reveal.

        Parameters
        ----------
        kind
            "regression" or "classification"; None: by the targets, decimal numbers being
            regression and text or truth values classification.
        """
        from dushapley.data.summaries import reduced

        return reduced(self, kind)

    def labels(self) -> list[Array]:
        """Targets of each owner, or the labels that its statistics name."""
        if self.reduced is not None:
            return [s.arrays["classes"] for s in self.reduced if "classes" in s.arrays]
        return [y for y in self.y if y is not None]

    def align(
        self, table: Any, whose: str = "The test table", *, as_frame: bool = False
    ) -> tuple[Rows, Array]:
        """Features and targets of another table with these columns, a test set say.

        As an array, or `as_frame` where these owners have tables.
        """
        if self.columns is None or self.target is None:
            raise InvalidOwners("These owners came as arrays; pass the test set as arrays too.")
        given = as_table(table)
        tables = self.frames is not None or is_table(self.X[0])
        fit = aligned_frame if as_frame and tables else aligned
        X = fit(given, self.columns, whose)
        return X, aligned_target(given, self.target, self.y[0], whose)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> FloatArray:
        """Rows of each owner."""
        if self.reduced is not None:
            return np.array([s.n_rows for s in self.reduced], dtype=np.float64)
        return np.array([count(block) for block in self.X], dtype=np.float64)

    @cached_property
    def row_hashes(self) -> tuple[Array, ...]:
        """A hash of every row with its target, owner by owner: equal rows have equal ones."""
        return tuple(row_hashes(X, y) for X, y in zip(self.X, self.y, strict=True))

    def __repr__(self) -> str:
        counts = self.sizes.astype(int).tolist()
        rows = ", ".join(f"{n}: {c}" for n, c in zip(self.names[:6], counts, strict=False))
        more = ", ..." if len(self) > 6 else ""
        return f"Owners({len(self)} owners; rows {rows}{more})"

    def _repr_html_(self) -> str:
        """A table for notebooks: who has how many rows."""
        counts = self.sizes.astype(int).tolist()
        cells = [[printable(n), f"{c:,}"] for n, c in zip(self.names, counts, strict=True)]
        told = f"{len(self):,} owners, {sum(counts):,} rows"
        more = f"<p>… {len(self) - MOST_SHOWN:,} more</p>" if len(self) > MOST_SHOWN else ""
        table = html_table(("owner", "rows"), cells[:MOST_SHOWN], counts[:MOST_SHOWN])
        return f"<p>{told}</p>{table}{more}"


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
