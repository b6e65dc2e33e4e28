r"""Values and nothing else, by the block: each in a few bytes, sealed, found by a number.

A key of words :math:`w_1 \dots w_n` is found by the number :math:`h_n`, with
:math:`h_i = mix(h_{i-1} \oplus w_i)` and :math:`h_0` made of the context and the key's length; its
value v is sealed by :math:`mix(mix(h_n \oplus v))`. All of it is arithmetic on 64 bits, so that
numpy does a block at once. `mix` (Stafford's variant 13, as in splitmix64) maps numbers one to one:
whatever single word of a row is damaged, number and seal no longer fit. That is against damage;
against forgery nothing helps that a forger can compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.hashing import checksum

PlainRow = tuple[int, bytes]
"""Number, and body: key, value and seal, the latter of eight bytes each."""
Numbers = np.ndarray[Any, np.dtype[np.uint64]]
_TAIL = 16


def mix(numbers: Numbers) -> Numbers:
    """Other numbers of 64 bits, one to one, of which every bit depends on every bit."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def alike(texts: Sequence[bytes]) -> Iterator[tuple[IntArray, Array]]:
    """Places of texts of one length, and their bytes, one text a row; length by length."""
    lengths = sorted(set(map(len, texts)))
    for length in lengths:
        places = np.arange(len(texts))
        some = texts
        if len(lengths) > 1:
            places = np.flatnonzero([len(text) == length for text in texts])
            some = [texts[place] for place in places.tolist()]
        yield places, np.frombuffer(b"".join(some), dtype=np.uint8).reshape(len(some), length)


def _numbers(keys: Array, context: str) -> Numbers:
    """The number by which each key is found; keys are rows of bytes."""
    width = keys.shape[1]
    padded = np.zeros((len(keys), -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = keys
    start = int.from_bytes(checksum(context, str(width))[:8], "little")
    numbers = np.full(len(keys), start, dtype=np.uint64)
    for word in padded.view("<u8").T:
        numbers = mix(numbers ^ word)
    return numbers


def _seals(numbers: Numbers, values: FloatArray) -> Numbers:
    return mix(mix(numbers ^ values.view(np.uint64)))


def sealed_values(keys: Sequence[bytes], values: FloatArray, context: str) -> list[PlainRow]:
    """Values as they are stored, in the order of their numbers: neighbours are written together."""
    rows: list[PlainRow] = []
    for places, matrix in alike(keys):
        numbers, some = _numbers(matrix, context), values[places]
        tail = np.column_stack([some.view(np.uint64), _seals(numbers, some)]).astype("<u8")
        bodies = np.hstack([matrix, tail.view(np.uint8)])
        order = np.argsort(numbers.view(np.int64))
        rows += zip(numbers[order].view(np.int64).tolist(), each_row(bodies[order]), strict=True)
    return rows


class Wanted:
    """Keys that are looked up: the numbers to look for, and what is found of them.

    Parameters
    ----------
    keys
        In any order, some perhaps more than once.
    context
        Of the ledger.
    """

    def __init__(self, keys: Sequence[bytes], context: str) -> None:
        self.context, self.count = context, len(keys)
        self.parts = [(places, some, _numbers(some, context)) for places, some in alike(keys)]

    @property
    def numbers(self) -> list[int]:
        """The numbers by which they are found, in the order of a tree."""
        found = [numbers.view(np.int64) for _, _, numbers in self.parts]
        return np.sort(np.concatenate([*found, np.empty(0, dtype=np.int64)])).tolist()

    def values(self, bodies: Sequence[bytes]) -> FloatArray | None:
        """Their values, NaN where none is told; None if a body is not what was once stored."""
        values = np.full(self.count, np.nan)
        if not set(map(type, bodies)) <= {bytes}:
            return None
        for _, matrix in alike(bodies):
            part = opened(matrix, self.context)
            if not part.sound.all() or not self._take(part, values):
                return None
        return values

    def _take(self, part: Unsealed, values: FloatArray) -> bool:
        """Enter what is told of these keys; whether all of it stood under their numbers."""
        part = by_number(part)
        expected = np.zeros(len(part.numbers), dtype=np.bool_)
        for places, keys, numbers in self.parts:
            if keys.shape[1] == part.keys.shape[1]:
                at = np.searchsorted(part.numbers, numbers.view(np.int64))
                at = np.minimum(at, len(part.numbers) - 1)
                expected[at[part.numbers[at] == numbers.view(np.int64)]] = True
                known = (part.keys[at] == keys).all(axis=1)  # two keys may have one number
                values[places[known]] = part.values[at[known]]
        return bool(expected.all())


class Unsealed(NamedTuple):
    """Bodies with keys of one length: which of them are what was once stored."""

    numbers: IntArray
    keys: Array
    values: FloatArray
    sound: BoolArray


def opened(matrix: Array, context: str) -> Unsealed:
    """Bodies of one length, one a row; none is sound where there is no room for a key."""
    keys, tail = matrix[:, :-_TAIL], np.ascontiguousarray(matrix[:, -_TAIL:])
    if not keys.shape[1]:
        count = len(matrix)
        nothing = np.zeros(count, dtype=np.int64)
        return Unsealed(nothing, keys, np.full(count, np.nan), np.zeros(count, dtype=np.bool_))
    words = tail.view("<u8")
    numbers, values = _numbers(keys, context), np.ascontiguousarray(words[:, 0]).view("<f8")
    return Unsealed(numbers.view(np.int64), keys, values, words[:, 1] == _seals(numbers, values))


def by_number(part: Unsealed) -> Unsealed:
    """The same in the order of numbers, in which SQLite need not tell them."""
    if not (part.numbers[1:] < part.numbers[:-1]).any():
        return part
    order = np.argsort(part.numbers)
    numbers, keys, values, sound = part
    return Unsealed(numbers[order], keys[order], values[order], sound[order])


def unsealed_values(rows: Sequence[PlainRow], context: str) -> Iterator[Unsealed]:
    """Rows by the length of their keys; those that hold no bytes are left out."""
    whole = [row for row in rows if type(row[0]) is int and type(row[1]) is bytes]
    given = np.array([number for number, _ in whole], dtype=np.int64)
    for places, matrix in alike([body for _, body in whole]):
        part = opened(matrix, context)
        yield part._replace(sound=part.sound & (part.numbers == given[places]))


def key_of(row: PlainRow) -> bytes:
    """The key of a stored value."""
    return row[1][:-_TAIL]


def value_of(row: PlainRow) -> float:
    """The number that was stored."""
    return float(np.frombuffer(row[1], "<f8", 1, len(row[1]) - _TAIL)[0])


def each_row(matrix: Array) -> list[bytes]:
    """Bytes of every row."""
    width = matrix.shape[1] * matrix.itemsize
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"V{width}").ravel().tolist()
    return rows
