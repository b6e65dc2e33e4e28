"""What a bound says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A bound on |value − Shapley value|, owner by owner, with its small print.

    Attributes
    ----------
    name
        Which bound.
    bound
        One number per owner; infinite where the bound says nothing.
    statement
        The inequality in words or symbols.
    assumptions
        What must hold for it.
    source
        Where it comes from.
    is_guarantee
        False: as stated, and not to be relied on; `why_not` says why.
    why_not
        A counterexample, or what was only checked numerically.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], ds.games.rational(100))
    >>> print(ds.guarantees.certificate(game))
    certificate: ± at most 0.0166
    >>> print(ds.guarantees.theorem2(game, form="stated"))
    Theorem 2 as stated: ± 0.0912, not a guarantee
    """

    name: str
    bound: FloatArray
    statement: str
    assumptions: tuple[str, ...]
    source: str
    is_guarantee: bool
    why_not: str = ""

    def __post_init__(self) -> None:
        bound = np.array(self.bound, dtype=np.float64)
        bound.setflags(write=False)
        object.__setattr__(self, "bound", bound)

    def __str__(self) -> str:
        largest = f"{float(self.bound.max()):.3g}"
        if self.is_guarantee:
            return f"{self.name}: ± at most {largest}"
        return f"{self.name}: ± {largest}, not a guarantee"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, as `Valuation.guarantee` holds them; infinite bounds become None."""
        return {
            "name": self.name,
            "is_guarantee": self.is_guarantee,
            "statement": self.statement,
            "assumptions": list(self.assumptions),
            "source": self.source,
            "why_not": self.why_not,
            "bound": [b if np.isfinite(b) else None for b in self.bound.tolist()],
        }
