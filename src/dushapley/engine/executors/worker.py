"""What a worker is given, and what it does with it, wherever it is.

A game travels in one array, which any worker can receive without knowing what is in it, and is
unpacked by our own code in the first task that needs it. So versions are compared before anything
is unpacked, and a worker that lacks a module says so itself.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from time import perf_counter
from types import FunctionType
from typing import Any

import numpy as np

from dushapley.arrays import IntArray, Queries
from dushapley.errors import DUShapleyError, InvalidGame, UtilityFailed, WorkersDiffer
from dushapley.games.base import Answers, Game
from dushapley.games.model.identity import ELSEWHERE, is_own
from dushapley.games.policy import Limits, Training
from dushapley.hashing import MISSING, versions
from dushapley.processes import Child, ChildEnded, limit_memory, one_blas_thread

Block = tuple[Queries, IntArray | None, int | None]
"""Pools paid for together, with their draws, and under which other seed (see `Game.reseeded`)."""
Numbered = tuple[int, Block]
Group = list[Numbered]
"""Blocks that travel together, by number."""
Results = list[tuple[int, Answers]]
Paid = tuple[float, Results]
"""Seconds that a group took, and its answers by number."""

ALIGNED = 64
"""Bytes: each array of a parcel begins at a multiple, as arithmetic prefers."""
BITS = {"dushapley", "numpy", "scipy", "sklearn"}
"""Packages that decide the bits of every training; those of the model are added."""


class WorkerLost(ChildEnded):
    """A worker died without a word, perhaps of something else than the blocks it was given."""


@dataclass(frozen=True, eq=False)
class Parcel:
    """A game in one array, however many small arrays it is made of.

    Dask and Ray move large arrays without a copy, and local workers map them from a file.

    Attributes
    ----------
    contents
        The game's description, then its arrays; or the path of a file that holds them.
    bounds
        Where each of them begins and ends.
    packages
        Versions at the sender of what decides the bits of a training, and of all that the game is
        made of.
    """

    contents: np.ndarray[Any, Any] | str
    bounds: list[tuple[int, int]]
    packages: dict[str, str]

    @cached_property
    def game(self) -> Game:
        """The game, unless this process has other versions than the sender, or lacks a module.

        Its arrays stay where they are, and are read-only in every place alike.
        """
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
        held = self.contents
        if isinstance(held, str):
            held = np.memmap(held, np.uint8, "r")
        contents = held.data.toreadonly()
        described, *arrays = (contents[start:end] for start, end in self.bounds)
        try:
            game: Game = pickle.loads(described, buffers=arrays)  # noqa: S301 - our own run
        except Exception as error:
            raise cannot_unpack(error) from error
        return game

    def __reduce__(self) -> tuple[Any, ...]:
        return Parcel, (self.contents, self.bounds, self.packages)  # always packed


def cannot_unpack(error: BaseException) -> WorkersDiffer:
    """What it means when workers do not know what the game is made of."""
    reason = " ".join(str(error).split())
    return WorkersDiffer(
        f"The workers could not unpack the game ({type(error).__name__}: {reason}). They, and a "
        "Dask scheduler too, need the packages that the driver has, and the module of a model of "
        "your own: install both there, and run again to go on."
    )


def pack(game: Game) -> Parcel:
    """Lay a game out in one array."""
    described, arrays, modules = _describe(game)
    parts = [memoryview(described), *(array.raw() for array in arrays)]
    starts = np.cumsum([0, *(-(-part.nbytes // ALIGNED) * ALIGNED for part in parts)]).tolist()
    contents = np.zeros(starts[-1], dtype=np.uint8)
    bounds = [(start, start + part.nbytes) for start, part in zip(starts, parts, strict=False)]
    for (start, end), part in zip(bounds, parts, strict=True):
        contents.data[start:end] = part
    return Parcel(contents, bounds, _versions(sorted(BITS | _installed(modules))))


def _describe(game: Game) -> tuple[bytes, list[pickle.PickleBuffer], set[str]]:
    """The game without its arrays, its arrays, and the modules that workers must have."""
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
            Packer(file, protocol=5, buffer_callback=arrays.append).dump(game)
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


def answers_of(game: Game, block: Block) -> Answers:
    """Answers to a block, by the game itself or under another seed."""
    queries, draws, seed = block
    asked = game if seed is None else game.reseeded(seed)
    return Answers.of(asked.evaluate(queries, draws))


def limits_of(game: Game) -> Limits:
    """Limits of a game's trainings."""
    return (game.training or Training()).limits


def pay(parcel: Parcel | None, group: Group, alone: bool = False) -> Paid:
    """Pay for a group of blocks; return its seconds, and its answers by number.

    None is the game that this child process holds. A block whose last worker died travels alone,
    and is paid in a process of its own. Errors go home as the library's own, without their causes,
    which may not be able to travel; so any other error that arrives is the cluster's.
    """
    try:
        if alone:
            with closing(Child()) as child:
                child.call(hold, parcel)
                paid: Paid = child.call(pay, None, group)
                return paid
        game, started = (parcel or _HELD[0]).game, perf_counter()
        with one_blas_thread():
            results = [(number, answers_of(game, block)) for number, block in group]
        return perf_counter() - started, results
    except (DUShapleyError, ChildEnded) as error:
        answer: Exception = error
    except (Exception, SystemExit) as error:  # a worker must outlive a model that calls exit()
        answer = UtilityFailed(f"The game raised {type(error).__name__}: {error}.")
    answer.__cause__ = answer.__context__ = None
    raise answer


_HELD: list[Parcel] = []
"""What this child process was given."""


def hold(parcel: Parcel) -> None:
    """Have this child process keep a game, of which it will be given blocks, within its memory."""
    _HELD[:] = [parcel]
    with one_blas_thread():
        memory = limits_of(parcel.game).memory
        if memory is not None:
            limit_memory(memory)
