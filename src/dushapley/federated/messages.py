"""What owners and coordinator say to each other: JSON and plain arrays, in one strict form.

A message is a line of text, a length, a JSON object, and the bytes of arrays one after the other.
Reading one executes nothing, takes memory for no more than was sent, and refuses everything that
does not fit to the byte: what arrives was written by somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from dushapley.arrays import AnyMapping, Array
from dushapley.errors import FederationFailed
from dushapley.validation import is_whole, strict_json

MAGIC = b"dushapley.federated/1\n"
TYPES = {"<f8": np.dtype("<f8"), "<i8": np.dtype("<i8"), "|b1": np.dtype("|b1")}
"""Arrays that may travel: decimal numbers, whole numbers, truth values."""
Arrays = Mapping[str, Array]
"""Arrays by name."""
MOST_BYTES = 2**28
"""Bytes of a message."""
MOST_ARRAYS, MOST_AXES = 32, 4


@dataclass(frozen=True)
class Message:
    """A question or an answer.

    Attributes
    ----------
    kind
        What is asked or answered: "schema", "agree", "sums", "gradients", "steps", "scores"; or
        "refused" and "fault" instead of an answer.
    about
        Everything that is not an array, as JSON has it.
    arrays
        Arrays by name.
    """

    kind: str
    about: AnyMapping = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def encode(self) -> bytes:
        """The message as bytes, the same for the same message.

        Examples
        --------
        >>> import numpy as np
        >>> Message.decode(Message("sums", {"round": 1}, {"n": np.array([2.0])}).encode()).arrays
        {'n': array([2.])}
        """
        plain = {name: _plain(array) for name, array in self.arrays.items()}
        head = {
            "kind": self.kind,
            "about": dict(self.about),
            "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in plain.items()],
        }
        text = json.dumps(head, allow_nan=False).encode()
        parts = [MAGIC, len(text).to_bytes(8, "big"), text]
        return b"".join([*parts, *(array.tobytes() for array in plain.values())])

    @classmethod
    def decode(cls, content: bytes) -> Message:
        """Read a message, or say what is wrong with it."""
        start = len(MAGIC) + 8
        if len(content) > MOST_BYTES or not content.startswith(MAGIC) or len(content) < start:
            raise unreadable(f"{len(content):,} bytes that do not begin as one")
        length = int.from_bytes(content[len(MAGIC) : start], "big")
        if length > len(content) - start:
            raise unreadable("its text is longer than the message")
        try:
            head = strict_json(content[start : start + length])
            kind, about, listed = head["kind"], head["about"], head["arrays"]
        except Exception as error:  # whatever such text makes of the reader of JSON
            raise unreadable(f"{type(error).__name__}: {error}") from error
        if not isinstance(kind, str) or not isinstance(about, dict) or not isinstance(listed, list):
            raise unreadable("its text lacks kind, about or arrays")
        return cls(kind, about, _arrays(listed, memoryview(content)[start + length :]))


def _plain(array: Array) -> Array:
    """The same numbers in one of the types that travel."""
    kind = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}[array.dtype.kind]
    return np.ascontiguousarray(array, dtype=TYPES[kind]).reshape(array.shape)


def _arrays(listed: list[Any], content: memoryview) -> Arrays:
    """Arrays of the given types and shapes, which must fill the bytes exactly."""
    found: dict[str, Array] = {}
    place = 0
    for entry in listed[: MOST_ARRAYS + 1]:
        name, kind, shape = _listed(entry)
        size = prod(shape) * TYPES[kind].itemsize
        if name in found or place + size > len(content) or len(found) == MOST_ARRAYS:
            raise unreadable(f"array {name!r} stands in it twice, or is longer than the message")
        found[name] = np.frombuffer(content[place : place + size], TYPES[kind]).reshape(shape)
        place += size
    if place != len(content):
        raise unreadable(f"{len(content) - place:,} bytes are left over")
    return found


def _listed(entry: Any) -> tuple[str, str, list[int]]:
    """Name, type and shape of an array."""
    fits = isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], list)
    if fits and isinstance(entry[0], str) and isinstance(entry[1], str) and entry[1] in TYPES:
        name, kind, shape = entry
        if len(shape) <= MOST_AXES and all(is_whole(n, 0, MOST_BYTES) for n in shape):
            return name, kind, shape
    raise unreadable(f"an array is described as {entry!r:.80}")


def unreadable(found: str) -> FederationFailed:
    """The error for any other bytes."""
    return FederationFailed(
        f"A message of the federation cannot be read ({found}). Both sides need the same version "
        "of dushapley; compare `dushapley --version`."
    )


def check_array(arrays: Arrays, name: str, kind: str, shape: tuple[int, ...]) -> Array:
    """An array of a message that has this kind and shape and no missing or infinite numbers."""
    array = arrays.get(name)
    if array is None:
        raise FederationFailed(f"it lacks the array {name!r}")
    if array.dtype.kind != kind or array.shape != shape:
        raise FederationFailed(
            f"its array {name!r} has shape {array.shape} and type {array.dtype}; "
            f"{shape} of kind {kind!r} was asked for"
        )
    if kind == "f" and not bool(np.isfinite(array).all()):
        raise FederationFailed(
            f"its array {name!r} holds {int((~np.isfinite(array)).sum()):,} numbers that are "
            "missing or infinite"
        )
    return array
