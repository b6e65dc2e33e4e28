"""The fused step: slopes of linear classifiers on a GPU, one kernel an owner (see `kernels`).

Taken by softmax regression trained on all rows by gradient descent, in TF32 or float16, where a
row of weights fits a tile. Everything else, and every CPU, goes by the tensor program, which stays
the reference.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.games.model.batched.arithmetic import Arithmetic
from dushapley.games.model.batched.recipe import Membership

ALIGNED = 4
"""Lists of pools begin at multiples of 16 bytes, or Triton would build each kernel twice."""


@dataclass(frozen=True)
class Cut:
    """How a kernel is cut: rows of a tile (pools × classes), rows of a block of data, launch."""

    tile: int
    block: int
    warps: int
    stages: int


CUTS = {
    "float16": (Cut(64, 64, 4, 3), Cut(64, 64, 4, 2)),
    "tf32": (Cut(128, 64, 8, 2), Cut(64, 32, 4, 2)),
    "scoring": (Cut(128, 64, 8, 2), Cut(64, 32, 4, 2)),
    "weighing": (Cut(64, 64, 4, 2), Cut(32, 32, 4, 1)),
}
"""The fastest of those tried on an H200; part of the key of a result, like every shape. The second
where there are more than 128 numbers in a row, of which less fits the chip."""
SPAN, OWNERS = 2**13, 32
"""Pools that one instance adds up for a test row, and owners for which it does."""


@dataclass(frozen=True)
class Piece:
    """Rows of one owner on the device, with zeros below the last.

    `X` (n, d), `XT` its transpose, both as products read them; `targets` (columns, n): ±1 for two
    classes, one-hot for more; `pull` Σ targets · rows, where it is known beforehand; `start`: where
    they begin among the owner's rows.
    """

    X: Any
    XT: Any
    targets: Any
    pull: Any = None
    start: int = 0


@dataclass(frozen=True)
class Work:
    """Pools that hold rows of one owner and, unless they hold all of them, which."""

    piece: Piece
    pools: Any
    marks: Any
    pull: Any = None


class FusedStep:
    """Slopes and scores of linear classifiers by kernels.

    Parameters
    ----------
    numbers
        The arithmetic: TF32 or float16.
    columns, width
        Columns of weights (1 for two classes), and numbers in each.

    Attributes
    ----------
    depth
        Numbers in a row, filled up to a power of two.
    name
        For the key of a result: shapes decide last bits.
    """

    def __init__(self, numbers: Arithmetic, columns: int, width: int) -> None:
        from dushapley.games.model.batched import kernels

        self.kernels = kernels
        self.numbers, self.columns, self.width = numbers, columns, width
        self.depth = max(16, 1 << (width - 1).bit_length())
        self.tf32 = numbers.precision == "tf32"
        self.cuts = {name: cuts[self.depth > 128] for name, cuts in CUTS.items()}
        self.cut = self.cuts[numbers.precision]
        self.name = f"fused {self.cut.tile}×{self.cut.block}"

    def laid_out(self, padded: FloatArray, targets: FloatArray) -> Piece:
        """One owner's rows (n, width) and targets (columns, n), filled up to whole blocks."""
        X = self.factor(self.numbers.array(self._filled(padded, self.cut.block)))
        filled = np.pad(targets, ((0, 0), (0, len(X) - targets.shape[1])))
        wanted = self.numbers.array(filled)
        across = X.T.contiguous() if self.tf32 else X
        return Piece(X, across, wanted, self._pull(wanted[None], X))

    def _pull(self, targets: Any, X: Any) -> Any:
        """Σ targets · rows of each pool: the part of its slope that never changes."""
        t, k, n = targets.shape
        rows = X[:, : self.width].to(self.numbers.dtype)
        return (targets.reshape(t * k, n) @ rows).reshape(t, k, self.width)

    def _filled(self, padded: FloatArray, block: int) -> FloatArray:
        filling = (0, -len(padded) % block), (0, self.depth - self.width)
        return np.pad(padded, filling)

    def factor(self, values: Any) -> Any:
        """Numbers as the kernels read them, rounded to the nearest."""
        if not self.tf32:
            return self.numbers.factor(values)
        xp = self.numbers.xp
        bits = values.contiguous().view(xp.int32)
        return ((bits + 0x1000) & -0x2000).view(xp.float32)

    def work(self, members: Sequence[Membership], rows: Sequence[Piece]) -> list[Work]:
        """List what the kernels do, owner by owner; all lists of pools travel together."""
        padded = [np.pad(m.pools, (0, -len(m.pools) % ALIGNED)) for m in members]
        joined = np.concatenate([*padded, np.empty(0)]).astype(np.int32)
        there, work = self._whole(joined).split(list(map(len, padded))), []
        for member, listed in zip(members, there, strict=True):
            piece, pools = rows[member.owner], listed[: len(member.pools)]
            marks, pull = None, piece.pull
            if member.rows is not None:
                short = len(piece.X) - member.rows.shape[1]
                marks = self._whole(np.pad(member.rows, ((0, 0), (0, short))).astype(np.uint8))
                pull = self._pull(piece.targets * marks[:, None, :], piece.X)
            work.append(Work(piece, pools, marks, pull))
        return work

    def _whole(self, values: Any) -> Any:
        """Whole numbers on the device, as they are."""
        return self.numbers.array(values, getattr(self.numbers.xp, values.dtype.name))

    def slopes(self, weights: list[Any], work: list[Work], absent: Any, pull: Any) -> list[Any]:
        """Slope of the summed loss of every pool; owners are added in the order of `work`."""
        slopes, factors = self.numbers.xp.negative(pull), self.factor(weights[0])
        lack = self.numbers.zeros(*pull.shape[:2], 1) if absent is None else absent
        classes = 1 << (self.columns - 1).bit_length()
        tile = max(1, self.cut.tile // classes)
        for part in work:
            rows, n_pools, marked = part.piece, len(part.pools), part.marks is not None
            self.kernels.slopes_of_owner[(-(-n_pools // tile),)](
                rows.X,
                rows.XT,
                factors,
                slopes,
                part.pools,
                part.marks if marked else part.pools,
                lack,
                n_pools,
                len(rows.X),
                self.width,
                self.columns,
                CP=classes,
                MARKED=marked,
                TF32=self.tf32,
                FAST=self.numbers.device != "cpu",  # else Triton interprets
                **self._cut(self.cut, tile),
            )
        return [slopes]

    def scored_rows(self, padded: FloatArray, codes: IntArray) -> tuple[Any, Any]:
        """Test rows and their classes; those that only fill up have a class that none guesses."""
        rows = self.numbers.array(self._filled(padded, CUTS["scoring"][0].block))
        filled = np.pad(codes, (0, len(rows) - len(codes)), constant_values=-1)
        return rows, self._whole(filled.astype(np.int32))

    def hits(self, test: tuple[Any, Any], weights: Any, edges: Any) -> Any:
        """How many test rows each pool of two classes predicts rightly, on the device."""
        xp, (rows, codes) = self.numbers.xp, test
        hits = xp.zeros(len(weights), dtype=xp.int32, device=self.numbers.device)
        cut = self.cuts["scoring"]
        self.kernels.hits_of_two[(-(-len(weights) // cut.tile),)](
            rows,
            codes,
            weights.contiguous(),
            edges,
            hits,
            len(weights),
            len(rows),
            self.width,
            **self._cut(cut, cut.tile),
        )
        return hits

    def influence(self, test: tuple[Any, Any], weights: Any, edges: Any, shares: Any) -> Any:
        """Σ shares · (rightly predicted) over pools, shape (owners, test rows), in float64.

        `shares` (owners, pools). Each part of `SPAN` pools is added up in their order, and parts
        are, so that pools that are asked together give the same bits wherever they were trained.
        """
        xp, (rows, codes), (n_owners, n) = self.numbers.xp, test, shares.shape
        parts, owners = -(-n // SPAN), -(-n_owners // OWNERS)
        sums = xp.zeros((parts, len(rows), n_owners), dtype=xp.float32, device=self.numbers.device)
        cut = self.cuts["weighing"]
        self.kernels.influence_of_two[(len(rows) // cut.block, parts, owners)](
            rows,
            codes,
            weights.contiguous(),
            edges.clone(),  # aligned, or Triton would build the kernel twice
            shares.to(xp.float32).contiguous(),
            sums,
            n,
            len(rows),
            self.width,
            n_owners,
            SPAN,
            BO=OWNERS,
            **self._cut(cut, cut.tile),
        )
        return sums.sum(axis=0, dtype=xp.float64).T

    def _cut(self, cut: Cut, tile: int) -> dict[str, int]:
        launch = {"num_warps": cut.warps, "num_stages": cut.stages}
        return {"D": self.depth, "BP": tile, "BR": cut.block, **launch}


def fused_step(numbers: Arithmetic, columns: int, width: int) -> FusedStep | None:
    """The fused step where there is a kernel for it: a GPU, coarse numbers, rows that fit."""
    able = numbers.device != "cpu" or os.environ.get("TRITON_INTERPRET") == "1"
    # of so many numbers in a row of weights, intercept included, and columns of them beside each
    # other a tile still fits the chip
    fits = numbers.precision in CUTS and width <= 256 and columns <= 16
    return FusedStep(numbers, columns, width) if able and fits and find_spec("triton") else None
