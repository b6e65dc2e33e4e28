"""Types of arrays, by what they hold."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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

Fractions = Literal["exact", "rows", "none"]
"""What a game makes of a true fraction: exact arithmetic, a draw of rows, or a refusal."""
