"""How a game travels: in one array, which any worker can receive without knowing what is in it.

It is unpacked by our own code, in the first task that needs it. So versions are compared before
anything is unpacked, and a worker that lacks a module says so itself.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from types import FunctionType
from typing import Any
from uuid import uuid4

import numpy as np

from dushapley.errors import DUShapleyError, InvalidGame, WorkersDiffer
from dushapley.games.base import Game
from dushapley.games.model.identity import ELSEWHERE, is_own, own_code
from dushapley.hashing import MISSING, versions

ALIGNED = 64
"""Bytes: each array of a parcel begins at a multiple, as arithmetic prefers."""
BITS = {"dushapley", "numpy", "scipy", "sklearn"}
"""Packages that decide the bits of every training; those of the model are added."""


@dataclass(frozen=True)
class Shipment:
    """A game on its way to workers: sent once, known there by its token."""

    game: Game
    token: str = field(default_factory=lambda: uuid4().hex)

    @cached_property
    def parcel(self) -> Parcel:
        """The shipment, packed once however many workers it goes to."""
        return pack(self)


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
    code
        Digests of the user's own modules that the game is made of, for the sender only.
    """

    contents: np.ndarray[Any, Any]
    bounds: list[tuple[int, int]]
    packages: dict[str, str]
    code: dict[str, str] = field(default_factory=dict)

    @cached_property
    def shipment(self) -> Shipment:
        """The shipment, unless this process has other versions than the sender.

        Its arrays stay where they are, and are read-only in every place alike.
        """
        self._refuse_other_versions()
        contents = self.contents.data.toreadonly()
        described, *arrays = (contents[start:end] for start, end in self.bounds)
        shipment: Shipment = pickle.loads(described, buffers=arrays)  # noqa: S301 - our own run
        return shipment

    def _refuse_other_versions(self) -> None:
        here = _versions(name for name in self.packages if name != "Python")
        others = [
            f"{name} {installed} (driver: {wanted})"
            for name, wanted in self.packages.items()
            if (installed := here.get(name, MISSING)) != wanted
        ]
        if others:
            raise WorkersDiffer(
                f"A worker has {', '.join(others)}, so its results could differ in some bit. "
                "Install the same versions on all workers."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Parcel, (self.contents, self.bounds, self.packages)  # always packed


def unpacked(parcel: Parcel) -> Shipment:
    """What a worker makes of a parcel; whatever hinders it, said in the library's own words."""
    try:
        return parcel.shipment
    except DUShapleyError:
        raise
    except Exception as error:
        raise cannot_unpack(error) from error


def cannot_unpack(error: BaseException) -> WorkersDiffer:
    """What it means when workers do not know what the game is made of."""
    reason = " ".join(str(error).split())
    return WorkersDiffer(
        f"The workers could not unpack the game ({type(error).__name__}: {reason}). They, and a "
        "Dask scheduler too, need the packages that the driver has, and the module of a model of "
        "your own: install both there, and run again to go on."
    )


def pack(shipment: Shipment) -> Parcel:
    """Lay a shipment out in one array."""
    described, arrays, modules = _describe(shipment)
    parts = [memoryview(described), *(array.raw() for array in arrays)]
    starts = np.cumsum([0, *(-(-part.nbytes // ALIGNED) * ALIGNED for part in parts)]).tolist()
    contents = np.zeros(starts[-1], dtype=np.uint8)
    bounds = [(start, start + part.nbytes) for start, part in zip(starts, parts, strict=False)]
    for (start, end), part in zip(bounds, parts, strict=True):
        contents.data[start:end] = part
    packages = _versions(sorted(BITS | _installed(modules)))
    return Parcel(contents, bounds, packages, own_code(modules))


def _describe(shipment: Shipment) -> tuple[bytes, list[pickle.PickleBuffer], set[str]]:
    """The shipment without its arrays, its arrays, and the modules that workers must have."""
    import cloudpickle

    modules: set[str] = set()
    travelling = cloudpickle.list_registry_pickle_by_value()

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            kind = thing if isinstance(thing, (type, FunctionType)) else type(thing)
            if kind.__module__ and kind.__module__ not in travelling:
                modules.add(kind.__module__)
            return super().reducer_override(thing)

    arrays: list[pickle.PickleBuffer] = []
    try:
        with BytesIO() as file:
            Packer(file, protocol=5, buffer_callback=arrays.append).dump(shipment)
            return file.getvalue(), arrays, modules
    except Exception as error:
        raise InvalidGame(
            f"The game cannot travel to workers ({type(error).__name__}: {error}). Let the model "
            "or utility make locks, files and connections when it is called, or stay in one "
            "process: n_jobs=1, without timeout= and memory=."
        ) from error


def _installed(modules: set[str]) -> set[str]:
    """Packages that these modules belong to, except Python's and the user's own."""
    tops = {name.partition(".")[0] for name in modules} - ELSEWHERE
    specs = {top: getattr(sys.modules.get(top), "__spec__", None) for top in tops}
    return {top for top, spec in specs.items() if spec and not is_own(top, spec.origin)}


def _versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions here of Python and of these packages."""
    return {"Python": ".".join(map(str, sys.version_info[:2])), **versions(packages)}
