"""Which packages decide what a model computes, and in which versions.

A ledger answers only under the versions it was paid under. They are those of everything that model,
score and encoder are made of, however deeply it is nested; of the packages that these are based on,
import (at any place, through any number of modules) or require; and of numpy, scipy, scikit-learn
and BLAS, which compute everywhere. A package without a version is known by its files. An upgrade of
anything else changes nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from dushapley.games.model.description import ELSEWHERE, is_own, own_imports
from dushapley.games.model.imports import content_of, is_shown, reached, spec_of
from dushapley.hashing import MISSING

EVERYWHERE = ("dushapley", "numpy", "scipy", "scikit-learn")
"""Packages that compute in every training and score."""
ALONE = {*EVERYWHERE, "skrub", "pandas"}
"""Packages whose arithmetic is their own or these others': what else they require draws, prints or
downloads.
"""
PLAIN = (str, bytes, int, float, complex, type(None), np.generic)
MOST_CELLS = 1000
"""Of larger arrays of objects only the types are looked at."""


def packages_of(*things: Any) -> dict[str, str]:
    """Name and version of every package that decides what these things compute.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> {"numpy", "scikit-learn", "scipy"} <= set(packages_of([("model", Ridge())]))
    True
    """
    modules = set(_modules(things))
    modules |= own_imports(modules)
    modules |= {name for module in modules for name in _imported(module)}
    tops = {name.partition(".")[0] for name in reached(modules)}
    installed = frozenset(top for top in tops - ELSEWHERE if _is_there(top))
    loaded = [getattr(sys.modules.get(top), "__spec__", None) for top in sorted(installed)]
    # what is not loaded yet may be replaced before it is
    found = _versions if all(loaded) else _versions.__wrapped__
    return dict(found(installed, tuple(sys.path), tuple(map(Same, loaded)))) | blas()


def _modules(things: Iterable[Any]) -> Iterator[str]:
    """Modules of all classes, with those they are based on, and of all functions in there."""
    waiting, seen = list(things), {}
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, PLAIN) or id(thing) in seen:
            continue
        seen[id(thing)] = thing  # kept, so that no other thing gets its id
        if isinstance(thing, ModuleType):
            yield thing.__name__
        elif isinstance(thing, (FunctionType, MethodType)):
            yield thing.__module__ or ""
        else:
            kinds = thing.__mro__ if isinstance(thing, type) else type(thing).__mro__
            yield from (kind.__module__ for kind in kinds)
        waiting += _parts(thing)


def _parts(thing: Any) -> list[Any]:
    """What a thing is made of."""
    if isinstance(thing, Mapping):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, (list, tuple, set, frozenset)):
        return list(thing)
    if isinstance(thing, np.ndarray):
        cells = thing.ravel().tolist() if thing.dtype.kind == "O" else []
        return cells if len(cells) <= MOST_CELLS else list(set(map(type, cells)))
    if isinstance(thing, MethodType):
        return [thing.__func__, thing.__self__]
    if isinstance(thing, partial):
        return [thing.func, thing.args, thing.keywords]
    if isinstance(thing, FunctionType):
        return _parts_of_function(thing)
    if isinstance(thing, type):  # methods of a class in a script may call anything
        script = thing.__module__ in ("__main__", "__mp_main__")
        return list(vars(thing).values()) if script else []
    if isinstance(thing, ModuleType):
        return []
    return [type(thing), _parameters(thing), getattr(thing, "__dict__", {})]


def _parameters(thing: Any) -> Any:
    """Parameters of a model, where it can name them."""
    with suppress(Exception):  # a broken get_params is for the training to report
        return thing.get_params(deep=False)
    return {}


def _parts_of_function(function: FunctionType) -> list[Any]:
    """What a function holds, and for one of a script also the names that it calls."""
    held = [function.__defaults__, function.__kwdefaults__, function.__dict__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            held.append(cell.cell_contents)
    if function.__module__ in ("__main__", "__mp_main__"):
        held += [function.__globals__.get(name) for name in _names(function.__code__)]
    return held


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _imported(name: str) -> Iterator[str]:
    """Modules that an installed module has taken names from; the user's own are read instead."""
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] in ELSEWHERE or is_own(name, module.__file__):
        return
    for thing in list(vars(module).values()):
        of = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", "")
        if isinstance(of, str):
            yield of


def _is_there(top: str) -> bool:
    """Whether there is such a package; nothing is loaded to find out."""
    return bool(top) and (top in sys.modules or spec_of(top) is not None)


@dataclass(frozen=True, eq=False)
class Same:
    """A loaded package, equal to itself only: loaded again, it may be another version."""

    spec: ModuleSpec | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.spec is other.spec

    def __hash__(self) -> int:
        return id(self.spec)


@cache
def _versions(
    tops: frozenset[str], path: tuple[str, ...], specs: tuple[Same, ...]
) -> tuple[tuple[str, str], ...]:
    """Versions of these packages, of those that compute everywhere, and of all they require.

    Remembered until something is loaded again, or from elsewhere.
    """
    del path, specs
    known = {f"{top} (files)": content_of(spec) for top in tops if (spec := _unversioned(top))}
    waiting = [*EVERYWHERE, *(name for top in tops for name in _distributions(top))]
    while waiting:
        name = waiting.pop()
        if _normal(name) in known:
            continue
        try:
            found = metadata.distribution(name)
        except (metadata.PackageNotFoundError, ValueError):
            known[_normal(name)] = MISSING
            continue
        known[_normal(name)] = found.version
        lines = [] if _normal(name) in ALONE else found.requires or []
        required = (_required(line) for line in lines if "extra ==" not in line)
        waiting += [other for other in required if not is_shown(other)]
    return tuple(sorted((name, version) for name, version in known.items() if version != MISSING))


def _unversioned(top: str) -> ModuleSpec | None:
    """A package of which no metadata lie beside it, by which its version would be known.

    Modules of the user's own are described by their source, wherever they are used.
    """
    spec = spec_of(top)
    if spec is None or is_own(top, spec.origin):
        return None
    roots = {Path(folder).parent.resolve() for folder in spec.submodule_search_locations or ()}
    roots = roots or {Path(str(spec.origin)).parent.resolve()}
    for name in _distributions(top):
        with suppress(metadata.PackageNotFoundError, ValueError):
            if Path(str(metadata.distribution(name).locate_file(""))).resolve() in roots:
                return None
    return spec


def _distributions(top: str) -> list[str]:
    """Under which names a package is installed that is imported under this one."""
    with suppress(metadata.PackageNotFoundError):
        return [metadata.distribution(top).metadata["Name"] or top]
    return ["scikit-learn"] if top == "sklearn" else _by_import(tuple(sys.path)).get(top, [top])


@cache
def _by_import(path: tuple[str, ...]) -> Mapping[str, list[str]]:
    del path  # remembered for each
    return metadata.packages_distributions()


def _required(line: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", line.strip(), maxsplit=1)[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def blas() -> dict[str, str]:
    """The linear algebra beneath numpy and scipy: names and versions, the same in every process.

    Those that other packages bring along for themselves (PyTorch) are theirs, and do not count.
    """
    import scipy.linalg  # noqa: F401 - both are loaded first, so that both are there to be seen
    from threadpoolctl import threadpool_info

    known: dict[str, str] = {}
    for library in threadpool_info():
        parts = str(library.get("filepath", "")).replace("\\", "/").split("/")
        bundled = {"site-packages", "dist-packages"} & set(parts)
        ours = not bundled or any(part.startswith(("numpy", "scipy")) for part in parts)
        if library.get("user_api") == "blas" and ours:
            name = f"BLAS {library.get('internal_api')}"
            versions = {str(library.get("version")), *known.get(name, "").split(", ")} - {""}
            known[name] = ", ".join(sorted(versions))
    return known
