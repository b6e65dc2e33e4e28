"""How a game travels: in one array, which any worker can receive without knowing what is in it.

It is unpacked by our own code, in the first task that needs it. So versions are compared before
anything is unpacked, and a worker that lacks a module says so itself.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from dushapley.errors import WorkersDiffer
from dushapley.executors.base import Shipment

ALIGNED = 64
"""Bytes: each array of a parcel begins at a multiple, as arithmetic on it likes."""


@dataclass(frozen=True, eq=False)
class Parcel:
    """A shipment in one array, however many small arrays it is made of.

    joblib writes large arrays to a file once, and hands small ones over with every task; Dask and
    Ray move large ones without a copy.

    Attributes
    ----------
    contents
        The shipment's description, then its arrays.
    bounds
        Where each of them begins and ends.
    packages
        Versions at the sender of what decides the bits of a training.
    """

    contents: np.ndarray[Any, Any]
    bounds: list[tuple[int, int]]
    packages: dict[str, str]

    @cached_property
    def shipment(self) -> Shipment:
        """The shipment, unpacked where it is first asked for; its arrays stay where they are."""
        contents = self.contents.data.toreadonly()  # alike everywhere, mapped file or not
        described, *arrays = (contents[start:end] for start, end in self.bounds)
        shipment: Shipment = pickle.loads(described, buffers=arrays)  # noqa: S301 - our own run
        return shipment

    def __reduce__(self) -> tuple[Any, ...]:
        return Parcel, (self.contents, self.bounds, self.packages)  # it travels packed, always

    def refuse_differing(self) -> None:
        """Refuse a worker whose packages are others than the sender's: bits would differ."""
        here = packages()
        others = [f"{n} {here[n]} (driver: {v})" for n, v in self.packages.items() if here[n] != v]
        if others:
            raise WorkersDiffer(
                f"A worker has {', '.join(others)}, so its results could differ in some bit. "
                "Install the same versions on all workers."
            )


def pack(shipment: Shipment) -> Parcel:
    """Lay a shipment out in one array."""
    import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    described = cloudpickle.dumps(shipment, protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(described), *(array.raw() for array in arrays)]
    starts = np.cumsum([0, *(-(-part.nbytes // ALIGNED) * ALIGNED for part in parts)]).tolist()
    contents = np.zeros(starts[-1], dtype=np.uint8)
    bounds = [(start, start + part.nbytes) for start, part in zip(starts, parts, strict=False)]
    for (start, end), part in zip(bounds, parts, strict=True):
        contents.data[start:end] = part
    return Parcel(contents, bounds, dict(packages()))


@cache
def packages() -> dict[str, str]:
    """Versions of what decides the bits of a training."""
    found = {}
    for name in ("dushapley", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found
