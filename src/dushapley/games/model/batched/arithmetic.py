"""Where and in which numbers the tensor program computes: NumPy on the CPU, torch on CPU or GPU.

Both are one array namespace to the program (`xp`); what differs between them is here.
Shapes of matrix products decide their last bits, so the shapes (`tile`, `piece`) belong to the
arithmetic and to the key of a result, while the number of pools in a block does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, cast

import numpy as np

from dushapley.errors import InvalidOption
from dushapley.validation import check_choice

BACKENDS = ("numpy", "torch", "torch:float16", "torch:float32", "torch:float64")
"""Arithmetic by name: "numpy" is float64, "torch" TF32 on a GPU and float32 on a CPU."""
COST = {
    "float16": "On scaled columns float16 moved values by 0.2% of their spread, as TF32 does, at "
    "twice its speed; backend='torch:float64' is exact.",
    "tf32": "On scaled columns TF32 moved values by 0.2% of their spread; backend='torch:float32' "
    "does not, and takes five times as long.",
    "float32": "On scaled columns float32 moved values by less than 0.001% of their spread, on "
    "columns far from unit scale by more; backend='torch:float64' is exact.",
}
"""What coarse numbers cost in accuracy, as benchmarks/gpu_batched.py measured it on adult."""
Precision = Literal["float64", "float32", "tf32", "float16"]
"""Numbers that matrix products read; sums and weights are float32 in all but the first."""

_ON_CPU = {"tile": 16, "piece": 4096, "batch_tile": 16, "align": 1}
_KINDS: dict[str, tuple[tuple[Precision, ...], dict[str, int]]] = {
    "numpy": (("float64", "float32"), _ON_CPU),
    # its tanh and exp round the last few elements of an array differently: let there be none over
    "torch on the CPU": (("float32", "float64", "float16"), {**_ON_CPU, "align": 16}),
    # residuals of a tile and an owner of some thousand rows should just fit the cache of a GPU
    "torch on the GPU": (
        ("tf32", "float64", "float32", "float16"),
        {"tile": 8192, "piece": 8192, "batch_tile": 2048, "align": 8},
    ),
}
"""Precisions that each kind of arithmetic knows, the default first, and the shapes it works in."""


@dataclass(frozen=True)
class Arithmetic:
    """A kind of arithmetic; make one with `arithmetic`.

    Attributes
    ----------
    name
        "numpy" or "torch".
    precision
        What matrix products read: see `Precision`.
    device
        "cpu" or "cuda"; "cuda:1" for the second GPU.
    tile
        Pools in one matrix product, always exactly this many.
    piece
        Rows of an owner in one matrix product, at most.
    batch_tile
        Pools that step through their mini-batches together, always exactly this many.
    align
        Rows and columns are padded with zeros to a multiple of this.
    """

    name: str
    precision: Precision
    device: str
    tile: int
    piece: int
    batch_tile: int
    align: int

    @property
    def xp(self) -> Any:
        """The array namespace."""
        return np if self.name == "numpy" else import_module("torch")

    @property
    def dtype(self) -> Any:
        """Of weights, sums and optimizer state."""
        return self.xp.float64 if self.precision == "float64" else self.xp.float32

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Numbers from NumPy, on the device."""
        xp, dtype = self.xp, dtype or self.dtype
        if self.device == "cpu":
            return xp.asarray(values, dtype=dtype, device=self.device)
        # by a stream of its own, so that nothing waits for what the device is busy with
        stream, busy = _uploads(self.device), xp.cuda.current_stream(self.device)
        with xp.cuda.stream(stream):
            there = xp.asarray(values, dtype=dtype).to(self.device)
        busy.wait_stream(stream)
        there.record_stream(busy)
        return there

    def index(self, values: Any) -> Any:
        """Whole numbers from NumPy, on the device; widened there, so that fewer bytes travel."""
        xp = self.xp
        return xp.asarray(xp.asarray(values, device=self.device), dtype=xp.int64)

    def zeros(self, *shape: int) -> Any:
        return self.xp.zeros(shape, dtype=self.dtype, device=self.device)

    def factor(self, values: Any) -> Any:
        """Numbers of this device as a matrix product reads them."""
        return values.to(self.xp.float16) if self.precision == "float16" else values

    def sums(self, a: Any, b: Any) -> Any:
        """Matrix product of factors whose result keeps the precision of sums."""
        if self.precision != "float16":
            return a @ b
        if self.device == "cpu":  # slow, and only for tests
            return a.float() @ b.float()
        product = self.xp.mm if a.ndim == 2 else self.xp.bmm
        return product(a, b, out_dtype=self.dtype)

    def take(self, table: Any, rows: Any) -> Any:
        """The chosen rows of a matrix, in the shape of `rows`; whole rows move fastest."""
        if self.name == "numpy":
            return table[rows]
        return table.index_select(0, rows.reshape(-1)).reshape(*rows.shape, -1)

    def add_rows(self, total: Any, rows: Any, part: Any) -> None:
        """Add `part` to the chosen rows of `total`, all different but for the one that fills up."""
        if self.name == "numpy":
            total[rows] += part
        else:
            total.index_add_(0, rows, part)

    def to_numpy(self, values: Any) -> Any:
        return values if self.name == "numpy" else values.cpu().numpy()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Settings of the library that this arithmetic needs, put back afterwards."""
        if self.name == "numpy":
            with np.errstate(over="ignore", under="ignore"):
                yield
            return
        torch = self.xp
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.precision == "tf32" else "highest")
        # kernels run on the GPU that torch calls current: let it be this, if it has a number
        here = torch.cuda.device(self.device) if ":" in self.device else nullcontext()
        try:
            with torch.no_grad(), here:
                yield
        finally:
            torch.set_float32_matmul_precision(before)


def on_others(numbers: Arithmetic) -> list[Arithmetic]:
    """The same arithmetic on every other GPU of this machine."""
    count = numbers.xp.cuda.device_count() if numbers.device == "cuda" else 1
    return [replace(numbers, device=f"cuda:{k}") for k in range(1, count)]


@cache
def _uploads(device: str) -> Any:
    """The stream by which numbers travel to a GPU."""
    return import_module("torch").cuda.Stream(device)


def arithmetic(
    name: str = "numpy", precision: Precision | None = None, device: str | None = None
) -> Arithmetic:
    """The arithmetic of this name (see `BACKENDS`), torch on the GPU where there is one.

    Defaults: float64 of numpy, float32 of torch, on CUDA tf32. Torch is an extra; asking for it
    without it raises.
    """
    check_choice(name, "backend", BACKENDS, InvalidOption)
    name, _, numbers = name.partition(":")
    if name == "torch" and find_spec("torch") is None:
        raise InvalidOption(
            "backend='torch' needs torch, which is not installed. Install dushapley[torch], or "
            "use backend='numpy'."
        )
    on_gpu = name == "torch" and import_module("torch").cuda.is_available()
    device = device or ("cuda" if on_gpu else "cpu")
    where = name if name == "numpy" else f"torch on the {'CPU' if device == 'cpu' else 'GPU'}"
    able, shape = _KINDS[where]
    precision = precision or cast(Precision, numbers) or able[0]
    if precision not in able:
        raise InvalidOption(f"precision is {precision!r}; {where} takes {', '.join(able)}.")
    return Arithmetic(name, precision, device, **shape)
