"""Every digest: what two things must share to count as the same, in any process."""

from __future__ import annotations

import hashlib
from datetime import date, time, timedelta
from decimal import Decimal

import numpy as np

from dushapley.arrays import Array
from dushapley.errors import InvalidOwners


def digest(*parts: object) -> str:
    """Content hash of strings, numbers and arrays; the same in every process.

    Each part is written with its type and length, so that no two lists of parts can run together.
    """
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            array = np.ascontiguousarray(part)
            text, body = f"array {array.dtype.str} {array.shape}", array.tobytes()
        elif isinstance(part, bytes):
            text, body = "bytes", part
        elif isinstance(part, (str, int, float, type(None))):
            text, body = type(part).__name__, repr(part).encode("utf-8", "surrogatepass")
        else:
            raise TypeError(f"cannot digest {type(part).__name__}")
        sha.update(f"{text} {len(body)}:".encode())
        sha.update(body)
    return sha.hexdigest()


def content_hash(X: Array, y: Array | None) -> str:
    """Hash of the rows in their order: equal data, equal hash, in any process.

    Numbers are hashed through their bytes, text and plain objects through their type and text;
    objects whose text does not tell all of them are refused.
    """
    sha = hashlib.sha256()
    for array in (X, y):
        if array is None:
            sha.update(b"none;")
            continue
        sha.update(f"{array.dtype.kind}{array.shape};".encode())
        if array.dtype.kind in "OUS":
            for item in array.ravel():
                text = _told(item)
                sha.update(f"{len(text)}:".encode() + text)
        else:
            sha.update(f"{array.dtype.str};".encode())
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


_PLAIN = (str, bytes, int, float, type(None), np.generic, date, time, timedelta, Decimal)


def _told(item: object) -> bytes:
    """All of one object as bytes."""
    if isinstance(item, np.ndarray) and not item.dtype.hasobject:
        return f"array {item.dtype.str} {item.shape} ".encode() + item.tobytes()
    if isinstance(item, _PLAIN) or type(item).__name__ in ("NAType", "NaTType"):
        return f"{type(item).__name__}:{item!r}".encode("utf-8", "surrogatepass")
    raise InvalidOwners(
        f"A cell holds {type(item).__name__}, whose content cannot be compared. Numbers, text, "
        "dates and arrays of numbers can."
    )
