"""Named blocks of rows, checked once, at the door."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.errors import InvalidOwners
from dushapley.questions import FloatArray

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Owners:
    """Several owners' datasets, ready to be pooled.

    Make one with `from_arrays`. Attributes hold one entry per owner, in the order given.

    Attributes
    ----------
    names
        Names, all different.
    X, y
        Feature blocks (first axis: rows) and target blocks; y entries are None without targets.
    hashes
        Content hash of each owner's rows: the identity that a ledger knows an owner by.
    """

    names: tuple[str, ...]
    X: tuple[Array, ...]
    y: tuple[Array | None, ...]
    hashes: tuple[str, ...]

    @classmethod
    def from_arrays(cls, blocks: Mapping[str, ArrayLike | Sequence[ArrayLike]]) -> Owners:
        """Owners from ``{name: (X, y)}``, or ``{name: X}`` where there is no target.

        Examples
        --------
        >>> import dushapley as ds
        >>> owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [0, 1]), "b": ([[3.0]], [1])})
        >>> owners.sizes.tolist()
        [2.0, 1.0]
        """
        if not blocks:
            raise InvalidOwners("No owners were given; pass {name: (X, y)}, one entry per owner.")
        names = tuple(str(name) for name in blocks)
        pairs = [_as_pair(name, block) for name, block in zip(names, blocks.values(), strict=True)]
        X = tuple(pair[0] for pair in pairs)
        y = tuple(pair[1] for pair in pairs)
        _check_blocks(names, X, y)
        hashes = tuple(content_hash(a, b) for a, b in pairs)
        return cls(names=names, X=X, y=y, hashes=hashes)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> FloatArray:
        """Rows of each owner."""
        return np.array([len(block) for block in self.X], dtype=np.float64)

    def __repr__(self) -> str:
        rows = ", ".join(f"{n}: {len(x)}" for n, x in zip(self.names[:6], self.X, strict=False))
        more = ", ..." if len(self) > 6 else ""
        return f"Owners({len(self)} owners; rows {rows}{more})"


def _as_pair(name: str, block: Any) -> tuple[Array, Array | None]:
    X, y = block if isinstance(block, tuple) and len(block) == 2 else (block, None)
    features, target = np.asarray(X), None if y is None else np.asarray(y)
    if features.ndim == 0:
        raise InvalidOwners(f"Owner {name!r}: found a single value, needed an array of rows.")
    if len(features) == 0:
        raise InvalidOwners(f"Owner {name!r} has no rows; leave it out or give it data.")
    if target is not None and (target.ndim == 0 or len(target) != len(features)):
        raise InvalidOwners(
            f"Owner {name!r} has {len(features)} rows but "
            f"{target.shape[0] if target.ndim else 'no'} targets; one per row is needed."
        )
    return features, target


def _check_blocks(
    names: tuple[str, ...], X: tuple[Array, ...], y: tuple[Array | None, ...]
) -> None:
    if len(set(names)) != len(names):
        raise InvalidOwners("Two owners have the same name; give each its own.")
    for name, features, target in zip(names, X, y, strict=True):
        if features.shape[1:] != X[0].shape[1:]:
            raise InvalidOwners(
                f"Owner {name!r} has rows of shape {features.shape[1:]}, but {names[0]!r} has "
                f"{X[0].shape[1:]}; all owners need the same columns."
            )
        if (target is None) != (y[0] is None):
            raise InvalidOwners(f"Owner {name!r} and {names[0]!r} differ in having a target.")


def content_hash(X: Array, y: Array | None) -> str:
    """Hash of the rows in their order: equal data, equal hash, in any process.

    Strings and mixed objects are hashed through their text, numbers through their bytes.
    """
    sha = hashlib.sha256()
    for array in (X, y):
        if array is None:
            sha.update(b"none;")
            continue
        sha.update(f"{array.dtype.kind}{array.shape};".encode())
        if array.dtype.kind in "OUS":
            for item in array.ravel():
                text = f"{type(item).__name__}:{item!r}".encode("utf-8", "surrogatepass")
                sha.update(f"{len(text)}:".encode() + text)
        else:
            sha.update(f"{array.dtype.str};".encode())
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
