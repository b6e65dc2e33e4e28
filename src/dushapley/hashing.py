"""Every digest: what two things must share to count as the same, in any process.

Never `hash()`, which differs between processes, and never pickle, whose bytes tell more than the
content. Versions of packages stand here too: results count as the same only under the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from importlib import import_module, metadata
from itertools import chain

import numpy as np

from dushapley.arrays import Array, Rows
from dushapley.errors import InvalidOwners


def each_row(matrix: Array) -> list[bytes]:
    """Bytes of every row."""
    width = matrix.shape[1] * matrix.itemsize
    names: list[bytes] = np.ascontiguousarray(matrix).view(f"V{width}").ravel().tolist()
    return names


def sha256(*chunks: str | bytes) -> bytes:
    """SHA-256 of texts and bytes as they stand, one after the other."""
    return _sha256(chunks)


def _sha256(chunks: Iterable[str | bytes]) -> bytes:
    sha = hashlib.sha256()
    for chunk in chunks:
        sha.update(chunk.encode() if isinstance(chunk, str) else chunk)
    return sha.digest()


def digest(*parts: object) -> str:
    """Content hash of strings, numbers and arrays; the same in every process.

    Each part is written with its type and length, so that no two lists of parts can run together.

    Examples
    --------
    >>> from dushapley.games import digest
    >>> digest("ab", "c") == digest("a", "bc")
    False
    """
    return _sha256(chain.from_iterable(map(_labelled, parts))).hex()


def _labelled(part: object) -> tuple[str, bytes]:
    if isinstance(part, np.ndarray):
        label, body = f"array {part.dtype.str} {part.shape}", part.tobytes()
    elif isinstance(part, bytes):
        label, body = "bytes", part
    elif isinstance(part, (str, int, float, type(None))):
        label, body = type(part).__name__, repr(part).encode("utf-8", "surrogatepass")
    else:
        raise TypeError(f"cannot digest {type(part).__name__}")
    return f"{label} {len(body)}:", body


def array_chunk(array: Array) -> bytes:
    """An array of numbers for `sha256`: its type, its shape and its bytes."""
    return f";{array.dtype.str} {array.shape}:".encode() + array.tobytes()


def whole_number(name: str, n_bytes: int) -> int:
    """A number of `n_bytes` bytes that depends on all of a name."""
    return int.from_bytes(sha256(name)[:n_bytes], "big")


def random_numbers(name: str, count: int) -> Array:
    """Random numbers of 32 bits from an extendable hash: the same in every version of numpy."""
    return np.frombuffer(hashlib.shake_128(name.encode()).digest(4 * count), dtype="<u4")


def content_hash(*blocks: Rows) -> str:
    """Hash of the rows in their order: equal data, equal hash, in any process.

    Numbers are hashed through their bytes, text and plain objects through their type and text;
    objects whose text does not tell all of them are refused. Of tables the names and types count
    as well, of sparse rows the cells that are stored.
    """
    return _sha256(chain.from_iterable(map(_cells, blocks))).hex()


def _cells(array: Rows | None) -> Iterator[str | bytes]:
    if array is None:
        yield "none;"
    elif hasattr(array, "indptr"):
        yield f"sparse {array.shape};"
        for part in (array.indptr.astype("<i8"), array.indices.astype("<i8"), array.data):
            yield array_chunk(part)
    elif hasattr(array, "iloc"):
        yield f"table {array.shape};"
        for name in array.columns:
            kind = array[name].dtype
            yield f"{len(str(name))}:{name};{kind!s};"
            if hasattr(kind, "categories"):
                yield f"{kind.ordered};"
                yield from _cells(kind.categories.to_numpy())
            yield from _cells(array[name].to_numpy())
    else:
        yield f"{array.dtype.kind}{array.shape};"
        yield from _array_cells(array)


def _array_cells(array: Array) -> Iterator[str | bytes]:
    if array.dtype.kind == "O" and array.ndim == 2:
        for start in range(0, len(array), ROWS_AT_A_TIME):
            columns = array[start : start + ROWS_AT_A_TIME].T.tolist()
            yield b"".join(chain.from_iterable(zip(*map(_column, columns), strict=True)))
    elif array.dtype.kind in "OUS":
        yield from _column(list(array.ravel()))
    else:
        yield f"{array.dtype.str};"
        yield array.tobytes()


def _column(items: Sequence[object]) -> list[bytes]:
    """Cells with their lengths before them; what comes again, words and days say, is made once."""
    kinds = set(map(type, items))
    if kinds == {float}:
        return [b"%d:float:%b" % (len(text) + 6, text.encode()) for text in map(repr, items)]
    if not all(map(_comes_again, kinds)) or any(getattr(i, "tzinfo", None) for i in items):
        return [b"%d:%b" % (len(cell), cell) for cell in map(_cell, items)]
    made = {(type(item), item): b"" for item in items}  # 1 and True are equal, but not the same
    for kind, item in made:
        cell = _cell(item)
        made[kind, item] = b"%d:%b" % (len(cell), cell)
    return [made[type(item), item] for item in items]


ROWS_AT_A_TIME = 1 << 16
_PLAIN = (str, bytes, int, float, type(None), np.generic, date, time, timedelta, Decimal)


def _comes_again(kind: type) -> bool:
    """Whether equal objects of this type have the same text (moments: without a time zone)."""
    return kind in (str, int, bool, type(None), date, datetime) or kind.__name__ == "Timestamp"


def _cell(item: object) -> bytes:
    """All of one object as bytes."""
    if isinstance(item, np.ndarray) and not item.dtype.hasobject:
        return f"array {item.dtype.str} {item.shape} ".encode() + item.tobytes()
    if isinstance(item, _PLAIN) or type(item).__name__ in ("NAType", "NaTType"):
        return f"{type(item).__name__}:{item!r}".encode("utf-8", "surrogatepass")
    raise InvalidOwners(
        f"A cell holds {type(item).__name__}, whose content cannot be compared. Numbers, text, "
        "dates and arrays of numbers can."
    )


MISSING = "missing"
"""Version of a package that is not installed."""


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those of these packages that are installed."""
    return {name: found for name in packages if (found := package_version(name)) != MISSING}


@cache
def package_version(name: str) -> str:
    """Version of a package by the name it is installed or imported under; "" if it has none,
    `MISSING` if it is not there.
    """
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("scikit-learn" if name == "sklearn" else name)
    try:
        return str(getattr(import_module(name), "__version__", ""))
    except ImportError:
        return MISSING
