"""Named blocks of rows, checked once, at the door."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, FloatArray
from dushapley.data import splits
from dushapley.data.files import PathLike, SourceFile, opened
from dushapley.data.intake import Intake, take_in, take_in_table
from dushapley.data.overlap import row_hashes, warn_of_shared_rows
from dushapley.data.reading import Keys, Reading, TableKeys
from dushapley.data.tables import aligned, aligned_target, as_blocks
from dushapley.errors import InvalidOwners
from dushapley.hashing import content_hash
from dushapley.validation import refuse

if TYPE_CHECKING:
    import pandas as pd

    from dushapley.data.summaries import Kind, Statistics

_KINDS = {"numbers": "biuf", "text": "US", "objects": "O", "dates": "M", "durations": "m"}
_GROUPS = {kind: group for group, kinds in _KINDS.items() for kind in kinds}


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
        Feature blocks (first axis: rows) and target blocks; y entries are None without targets.
    hashes
        Content hash of each owner's rows: the identity that a ledger knows an owner by.
    columns, target
        Where the owners came as tables: features by name with what they hold ("number", "text",
        "date"), and the name of the target. A table with text or dates is kept as an array of
        objects, which `ModelGame` encodes.
    reduced
        The statistics, where owners handed them over instead of rows; X and y then hold no rows.
    notes
        What was odd in their tables and may be real, in sentences (`dushapley.check` tells all).
    """

    names: tuple[str, ...]
    X: tuple[Array, ...]
    y: tuple[Array | None, ...]
    hashes: tuple[str, ...]
    columns: Mapping[str, str] | None = None
    target: str | None = None
    reduced: tuple[Statistics, ...] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_arrays(cls, blocks: Mapping[str, ArrayLike | tuple[ArrayLike, ArrayLike]]) -> Owners:
        """Owners from ``{name: (X, y)}``, or ``{name: X}`` where there is no target.

        A tuple is always features and targets. The arrays are copied and made read-only, so that
        an owner stays what its hash says.

        Examples
        --------
        >>> import dushapley as ds
        >>> owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [0, 1]), "b": ([[3.0]], [1])})
        >>> owners.sizes.tolist()
        [2.0, 1.0]
        """
        if not isinstance(blocks, Mapping) or not blocks:
            raise InvalidOwners("No owners were given; pass {name: (X, y)}, one entry per owner.")
        names = tuple(str(name) for name in blocks)
        pairs = [_as_pair(name, block) for name, block in zip(names, blocks.values(), strict=True)]
        _check_blocks(names, list(blocks.values()), pairs)
        X = _of_one_type(names, [features for features, _ in pairs], "features")
        targets = [target for _, target in pairs if target is not None]
        y = _of_one_type(names, targets, "targets") if targets else (None,) * len(names)
        hashes = tuple(content_hash(a, b) for a, b in zip(X, y, strict=True))
        return cls(names=names, X=X, y=y, hashes=hashes)

    @classmethod
    def from_frame(
        cls,
        table: pd.DataFrame,
        *,
        owner: str,
        target: str,
        accept: Collection[str] = (),
        **read: Unpack[TableKeys],
    ) -> Owners:
        """Owners from one table with a column that says whose row it is.

        Parameters
        ----------
        table
            Rows of all owners.
        owner, target
            Names of the columns that hold the owner and what is to be predicted; all others are
            features.
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
        found = take_in_table(table, owner=owner, target=target, reading=Reading.from_keys(read))
        return cls.from_intake(found, target, accept)

    @classmethod
    def from_intake(cls, intake: Intake, target: str, accept: Collection[str] = ()) -> Owners:
        """Owners of tables that were read before, once nothing odd about them stops it."""
        from dushapley.data.check import accepted_tables, examine  # it knows all of this room

        findings = examine(intake, target, accept)
        findings.refuse_stops(in_python=True)
        owners = cls.from_tables(accepted_tables(intake, findings).tables, target=target)
        return replace(owners, notes=findings.not_told_by_games().sentences())

    @classmethod
    def from_tables(cls, tables: Mapping[str, pd.DataFrame], *, target: str) -> Owners:
        """Owners from one table each; columns may stand in any order, but must be the same."""
        columns, blocks = as_blocks(tables, target)
        owners = replace(cls.from_arrays(blocks), columns=columns, target=target)
        warn_of_shared_rows(owners)
        return owners

    @classmethod
    def from_files(
        cls,
        paths: PathLike | Iterable[PathLike | SourceFile],
        *,
        target: str,
        owner: str | None = None,
        accept: Collection[str] = (),
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
        **read
            How to read, where it is not to be detected: `dushapley.data.reading.Reading` lists the
            keys (sep, decimal, dates, drop, ...).
        """
        files, skipped = opened(paths)
        how = Reading.from_keys(read)
        found = take_in(files, target=target, owner=owner, reading=how)
        found = replace(found, findings=(*skipped, *found.findings))
        return cls.from_intake(found, target, accept)

    def hold_out(self, fraction: float, seed: int = 0) -> tuple[Owners, Array, Array]:
        """Keep back a random part of every owner's rows as a test set: (owners, X_test, y_test).

        Examples
        --------
        >>> import dushapley as ds
        >>> block = ([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])
        >>> kept, X_test, y_test = ds.Owners.from_arrays({"a": block, "b": block}).hold_out(0.25)
        >>> kept.sizes.tolist(), len(y_test)
        ([3.0, 3.0], 2)
        """
        return splits.hold_out(self, fraction, seed)

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
        from dushapley.data.summaries import joined

        return joined(files)

    def statistics(self, kind: Kind | None = None) -> tuple[Statistics, ...]:
        """Each owner's rows reduced to sums, to be saved and handed over.

        Parameters
        ----------
        kind
            "regression" or "classification"; None: by the targets, decimal numbers being
            regression and text or truth values classification.

        See `dushapley.data.summaries` for what they reveal.
        """
        from dushapley.data.summaries import reduced

        return reduced(self, kind)

    def labels(self) -> list[Array]:
        """Targets of each owner, or the labels that its statistics name."""
        if self.reduced is not None:
            return [s.arrays["classes"] for s in self.reduced if "classes" in s.arrays]
        return [y for y in self.y if y is not None]

    def align(self, table: pd.DataFrame, whose: str = "The test table") -> tuple[Array, Array]:
        """Features and targets of another table with these columns, a test set say."""
        if self.columns is None or self.target is None:
            raise InvalidOwners("These owners came as arrays; pass the test set as arrays too.")
        X = aligned(table, self.columns, whose)
        return X, aligned_target(table, self.target, self.y[0], whose)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> FloatArray:
        """Rows of each owner."""
        if self.reduced is not None:
            return np.array([s.n_rows for s in self.reduced], dtype=np.float64)
        return np.array([len(block) for block in self.X], dtype=np.float64)

    @cached_property
    def row_hashes(self) -> tuple[Array, ...]:
        """A hash of every row with its target, owner by owner: equal rows have equal ones."""
        return tuple(row_hashes(X, y) for X, y in zip(self.X, self.y, strict=True))

    def __repr__(self) -> str:
        counts = self.sizes.astype(int).tolist()
        rows = ", ".join(f"{n}: {c}" for n, c in zip(self.names[:6], counts, strict=False))
        more = ", ..." if len(self) > 6 else ""
        return f"Owners({len(self)} owners; rows {rows}{more})"


def _as_pair(name: str, block: Any) -> tuple[Array, Array | None]:
    if isinstance(block, tuple) and len(block) != 2:
        raise InvalidOwners(f"Owner {name!r}: found a tuple of {len(block)}; (X, y) is needed.")
    X, y = block if isinstance(block, tuple) else (block, None)
    features, target = _as_array(name, X), None if y is None else _as_array(name, y)
    if features.ndim == 0:
        raise InvalidOwners(f"Owner {name!r}: found a single value; an array of rows is needed.")
    if len(features) == 0:
        raise InvalidOwners(f"Owner {name!r} has no rows; leave it out or give it data.")
    if target is not None and (target.ndim == 0 or len(target) != len(features)):
        raise InvalidOwners(
            f"Owner {name!r} has {len(features)} rows but "
            f"targets for {target.shape[0] if target.ndim else 'none'}; one per row is needed."
        )
    return features, target


def _as_array(name: str, values: Any) -> Array:
    try:
        array = np.array(values)
    except ValueError as error:
        raise InvalidOwners(
            f"Owner {name!r}: rows of different lengths ({error}). Pass an array of rows, or a "
            "tuple (X, y) of features and targets."
        ) from error
    if array.dtype.kind not in "biufOUSmM":
        raise InvalidOwners(
            f"Owner {name!r} holds {array.dtype}; numbers, text, dates or plain objects are needed."
        )
    return array


def _check_blocks(
    names: Sequence[str], blocks: Sequence[Any], pairs: Sequence[tuple[Array, Array | None]]
) -> None:
    """Refuse owners that cannot be pooled: names alike, or rows that differ in shape.

    Tables must name the same columns in the same order: pooled rows have no names any more.
    """
    if len(set(names)) != len(names):
        raise InvalidOwners("Two owners have the same name; give each its own.")
    tables = [block[0] if isinstance(block, tuple) else block for block in blocks]
    columns = [list(getattr(table, "columns", [])) for table in tables]
    rows = [features.shape[1:] for features, _ in pairs]
    targets = [None if target is None else target.shape[1:] for _, target in pairs]
    for name, own, row, target in zip(names, columns, rows, targets, strict=True):
        refuse(
            InvalidOwners,
            (
                own != columns[0],
                f"Owner {name!r} has the columns {own}, {names[0]!r} has {columns[0]}; the same "
                "ones in the same order are needed. Owners.from_tables puts them in order.",
            ),
            (
                row != rows[0],
                f"Owner {name!r} has rows of shape {row}, but {names[0]!r} has {rows[0]}; all "
                "owners need the same columns.",
            ),
            (
                (target is None) != (targets[0] is None),
                f"Owner {name!r} and {names[0]!r} differ in having a target.",
            ),
            (
                target != targets[0],
                f"Owner {name!r} has targets of shape {target}, {names[0]!r} of {targets[0]}; all "
                "owners need the same.",
            ),
        )


def _of_one_type(names: Sequence[str], blocks: Sequence[Array], what: str) -> tuple[Array, ...]:
    """Blocks of one common type, read-only; a pool's type must not depend on who is in it."""
    for name, block in zip(names, blocks, strict=True):
        if _GROUPS[block.dtype.kind] != _GROUPS[blocks[0].dtype.kind]:
            raise InvalidOwners(
                f"The {what} of owner {name!r} are {block.dtype}, those of {names[0]!r} are "
                f"{blocks[0].dtype}; all owners need the same type."
            )
    common = np.result_type(*blocks)
    cast = tuple(block.astype(common, copy=False) for block in blocks)
    for block in cast:
        block.setflags(write=False)
    return cast
