"""Types that many signatures name: arrays by what they hold, and what is known by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = np.ndarray[Any, Any]
"""Rows of anything: numbers, text, dates, objects."""
Rows = Any
"""A block of rows as models take it: an array, a pandas table or scipy's compressed sparse rows
(see `dushapley.data.rows`)."""
FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Queries = NDArray[np.bool_] | NDArray[np.float64]
"""Pools: booleans (owner in or out) or fractions 0..1 of each owner's rows, shape (m, I)."""
EPSILON = float(np.finfo(np.float64).eps)
"""Relative error of one rounding."""
Draws = IntArray | None
"""Which random draw of rows each pool uses, shape (m,); None where all rows are taken or none."""

Fractions = Literal["exact", "rows", "none"]
"""What a game makes of a true fraction: exact arithmetic, a draw of rows, or a refusal."""

AnyDict = dict[str, Any]
"""Things of any kind by name, say of a JSON object that is put together."""
AnyMapping = Mapping[str, Any]
"""The same where it is only read."""
Names = Sequence[str]


def slices(length: int, most: int) -> list[slice]:
    """Parts of a length in their order, each at most so long, but not empty."""
    step = max(1, most)
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def as_floats(numbers: ArrayLike) -> FloatArray:
    """Numbers as an array of floats; one that is made of them already is not copied."""
    return np.asarray(numbers, dtype=np.float64)
