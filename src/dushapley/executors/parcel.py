"""How a game travels: in one array, which any worker can receive without knowing what is in it.

It is unpacked by our own code, in the first task that needs it. So versions are compared before
anything is unpacked, and a worker that lacks a module says so itself.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from threading import Lock
from types import FunctionType
from typing import Any

import numpy as np

from dushapley.errors import InvalidGame, WorkersDiffer
from dushapley.executors.base import Shipment
from dushapley.games.owncode import ELSEWHERE, is_own

ALIGNED = 64
"""Bytes: each array of a parcel begins at a multiple, as arithmetic on it likes."""
BITS = {"dushapley", "numpy", "scipy", "sklearn"}
"""Packages that decide the bits of every training; those of the model come to them."""


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
        Versions at the sender of what decides the bits of a training, and of all that the game is
        made of.
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
        here = versions(name for name in self.packages if name != "Python")
        others = [f"{n} {here[n]} (driver: {v})" for n, v in self.packages.items() if here[n] != v]
        if others:
            raise WorkersDiffer(
                f"A worker has {', '.join(others)}, so its results could differ in some bit. "
                "Install the same versions on all workers."
            )


def pack(shipment: Shipment) -> Parcel:
    """Lay a shipment out in one array.

    The code of one's own modules travels along, as it is now; that of installed packages stays
    behind, and their versions are compared.
    """
    try:
        with _own_code_travels():
            described, arrays, modules = _describe(shipment)
    except Exception:  # something beside that code cannot travel: then workers import it themselves
        described, arrays, modules = _describe_plainly(shipment)
    parts = [memoryview(described), *(array.raw() for array in arrays)]
    starts = np.cumsum([0, *(-(-part.nbytes // ALIGNED) * ALIGNED for part in parts)]).tolist()
    contents = np.zeros(starts[-1], dtype=np.uint8)
    bounds = [(start, start + part.nbytes) for start, part in zip(starts, parts, strict=False)]
    for (start, end), part in zip(bounds, parts, strict=True):
        contents.data[start:end] = part
    return Parcel(contents, bounds, versions(sorted(BITS | _installed(modules))))


def _describe(shipment: Shipment) -> tuple[bytes, list[pickle.PickleBuffer], set[str]]:
    """The shipment without its arrays, its arrays, and the modules it is made of."""
    import cloudpickle

    modules: set[str] = set()

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            kind = thing if isinstance(thing, (type, FunctionType)) else type(thing)
            modules.add(kind.__module__ or "")
            return super().reducer_override(thing)

    arrays: list[pickle.PickleBuffer] = []
    with BytesIO() as file:
        Packer(file, protocol=5, buffer_callback=arrays.append).dump(shipment)
        return file.getvalue(), arrays, modules


def _describe_plainly(shipment: Shipment) -> tuple[bytes, list[pickle.PickleBuffer], set[str]]:
    try:
        return _describe(shipment)
    except Exception as error:
        raise InvalidGame(
            f"The game cannot travel to workers ({type(error).__name__}: {error}). Let the model "
            "or utility make locks, files and connections when it is called, or stay in one "
            "process: n_jobs=1, without timeout= and memory=."
        ) from error


_BY_VALUE = Lock()


@contextmanager
def _own_code_travels() -> Iterator[None]:
    """Have cloudpickle carry the code of modules that were not installed.

    Workers may lack it, or have loaded it before it was edited.
    """
    import cloudpickle

    with _BY_VALUE:  # the list is the process's
        own = [module for module in list(sys.modules.values()) if is_own(module)]
        for module in own:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in own:
                cloudpickle.unregister_pickle_by_value(module)


def _installed(modules: set[str]) -> set[str]:
    """Packages that these modules belong to, but for Python's own and those that travel."""
    loaded = (sys.modules[name] for name in modules if name in sys.modules)
    return {m.__name__.partition(".")[0] for m in loaded if not is_own(m)} - ELSEWHERE


def versions(names: Iterable[str]) -> dict[str, str]:
    """Versions here of Python and of these packages."""
    return {"Python": ".".join(map(str, sys.version_info[:2]))} | {n: _version(n) for n in names}


@cache
def _version(name: str) -> str:
    try:
        return version("scikit-learn" if name == "sklearn" else name)
    except PackageNotFoundError:
        pass
    try:
        return str(getattr(import_module(name), "__version__", ""))
    except ImportError:
        return "missing"
