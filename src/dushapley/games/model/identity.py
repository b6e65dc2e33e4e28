"""Identity of a model: text and versions that are equal exactly when models compute the same.

A model is its class and its parameters, by content. The versions of the packages that its objects
come from count, of all that these packages require, and of numpy, scipy, scikit-learn and the
linear algebra beneath them. A module beside a script has no version: its source counts, and that of
every such module that it loads. What has no content to compare (a function of the script itself),
and what a package uses without stating that it requires it, is for `fingerprint=` to tell apart.

Never pickle and never `hash()`: an identity is the same in every process.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dis import get_instructions
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dushapley.hashing import digest

EVERYWHERE = ("dushapley", "numpy", "scipy", "scikit-learn")
"""Packages that compute in every training and score; what they require is their own affair."""
ELSEWHERE = sys.stdlib_module_names | {
    *EVERYWHERE,
    "sklearn",
    "cloudpickle",
    "__main__",
    "__mp_main__",
}
"""Modules that are neither the user's nor of another package. (A script has no name.)"""
NAMED = (type, FunctionType, BuiltinFunctionType, np.ufunc, ModuleType)
HELD = ("__dict__", "__func__", "__self__", "func", "args", "keywords")
"""Where objects without parameters, bound methods and partial functions hold others."""


class Indescribable(Exception):
    """A part of a model has no content that could be compared."""


def describe(thing: Any) -> str:
    """Describe a model by class path and parameters, recursively, arrays by their content.

    Examples
    --------
    >>> describe({"depth": 3, "names": ("a", None)})
    "dict( tuple( 'depth' 3 ) tuple( 'names' tuple( 'a' None ) ) )"
    """
    words = []
    for part in _parts(thing):
        if isinstance(part, Indescribable):
            raise part
        own = own_code([_module(part)]) if isinstance(part, NAMED) else {}
        words += [part] if isinstance(part, str) else [_module(part), _name(part), str(own)]
    return " ".join(words)


def _parts(thing: Any, above: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Values as text; classes, functions and modules as they are; errors where there is neither."""
    parameters = getattr(thing, "get_params", None)
    match thing:
        case None | bool() | int() | float() | complex() | str() | bytes():
            yield repr(thing)
        case np.ndarray() | np.generic() if not thing.dtype.hasobject:
            yield f"array {digest(np.asarray(thing))}"
        case np.ndarray():
            yield from _parts((thing.shape, thing.tolist()), above)
        case set() | frozenset():
            yield from _parts(sorted(thing, key=repr), above)
        case Mapping() | list() | tuple():
            yield f"{type(thing).__name__}("
            for part in thing.items() if isinstance(thing, Mapping) else thing:
                yield from _parts(part, above)
            yield ")"
        case _ if isinstance(thing, NAMED):
            yield thing
            if "<" in _name(thing) or _module(thing) == "__main__":
                yield Indescribable(
                    f"{_name(thing)} is a function or class of this script, whose content cannot "
                    "be compared"
                )
        case _ if callable(parameters):
            yield from _parts(type(thing), above)
            yield from _parts(parameters(deep=False), above)
        case _ if not any(thing is other for other in above):
            yield Indescribable(f"a {type(thing).__name__} has no parameters to compare")
            yield type(thing)
            yield from _parts([getattr(thing, name, None) for name in HELD], (*above, thing))


def _module(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or thing.__name__)


def _name(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", thing.__name__))


def packages_of(*things: Any) -> dict[str, str]:
    """Name and version of every package that decides what these things compute.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> {"numpy", "scikit-learn", "scipy"} <= set(packages_of([("model", Ridge())]))
    True
    """
    named = [part for part in _parts(things) if isinstance(part, NAMED)]
    kinds = [kind for part in named for kind in getattr(part, "__mro__", [part])]
    tops = {_module(kind).partition(".")[0] for kind in kinds} - ELSEWHERE
    loaded = frozenset((top, sys.modules.get(top)) for top in tops)
    return dict(sorted((_versions(loaded) | blas()).items()))


@cache
def _versions(loaded: frozenset[tuple[str, ModuleType | None]]) -> dict[str, str]:
    """Versions of these packages, of those that compute everywhere, and of all they require.

    Remembered until one is loaded again: until then, what runs is what was installed before. A
    package that no metadata lie beside has no version, and is known by its files.
    """
    known: dict[str, str] = {}
    waiting = [*EVERYWHERE]
    for top, spec in ((top, _spec(top)) for top, _ in loaded):
        if spec is None or is_own(top, spec.origin):
            continue
        root = Path(next(iter(spec.submodule_search_locations or [str(spec.origin)])))
        beside = any(metadata.distributions(name=top, path=[str(root.parent)]))
        names = [top] if beside else metadata.packages_distributions().get(top, [])
        waiting += names
        if not names:
            files = sorted(f for f in (root, *root.rglob("*.*")) if f.suffix != ".pyc")
            known[f"{top} (files)"] = digest(*map(Path.read_bytes, filter(Path.is_file, files)))
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        with suppress(metadata.PackageNotFoundError):
            found = metadata.distribution(name)
            lines = [] if name in (*known, *EVERYWHERE) else found.requires or []
            stated = (line for line in lines if "extra ==" not in line)
            waiting += [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in stated]
            known[name] = found.version
    return known


@cache
def blas() -> dict[str, str]:
    """Name the linear algebra beneath numpy and scipy, the same in every process.

    What other packages bring along for themselves (PyTorch) is theirs, and does not count.
    """
    import scipy.linalg  # noqa: F401 - loaded first, so that its own is there to be seen
    from threadpoolctl import threadpool_info

    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    theirs = re.compile(r"(site|dist)-packages.(?!numpy|scipy)")
    ours = [library for library in loaded if not theirs.search(library["filepath"])]
    names = {f"{library['internal_api']} {library['version']}" for library in ours}
    return {"BLAS": ", ".join(sorted(names))}


def is_own(name: str, file: object) -> bool:
    """Whether a module is a Python file that was not installed, and not of this library."""
    return (
        isinstance(file, str)
        and file.endswith(".py")
        and name.partition(".")[0] not in ELSEWHERE
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
    )


def own_code(names: Iterable[str]) -> dict[str, str]:
    """Digests of those of these modules that are the user's own, and of all such that these load.

    Comments and layout do not count, and what a run leaves behind in a module does not either.

    Examples
    --------
    >>> own_code(["dushapley.games", "json", "numpy"])
    {}
    """
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        spec = None if name in found else _spec(name)
        if spec is not None and is_own(name, spec.origin):
            if name not in _SEEN or _SEEN[name][0] is not spec:  # loading again makes another spec
                _SEEN[name] = spec, *_read(name, spec)
            _, found[name], others = _SEEN[name]
            waiting += others
    return dict(sorted(found.items()))


_SEEN: dict[str, tuple[ModuleSpec, str, list[str]]] = {}
"""Sources as they were when first looked at: an edit after that counts once it is loaded."""


def _spec(name: str) -> ModuleSpec | None:
    """Where a module was loaded from, or would be; nothing is loaded to find out."""
    package = name.rpartition(".")[0]
    with suppress(ImportError, ValueError, AttributeError):
        return find_spec(name) if not package or package in sys.modules else None
    return None


def _read(name: str, spec: ModuleSpec) -> tuple[str, list[str]]:
    """Digest of a module's source, and the modules that it may load, now or when called."""
    try:
        tree = ast.parse(Path(str(spec.origin)).read_bytes())
        names = set(_loaded_by(compile(tree, name, "exec")))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return "unreadable", []
    steps = name.split(".")
    packages = [".".join(steps[:k]) for k in range(1, len(steps) + 1)]
    inside = [f"{package}.{module}" for package in packages for module in names]
    return digest(ast.dump(tree)), [*names, *inside]


def _loaded_by(code: CodeType) -> Iterator[str]:
    base = ""
    for step in get_instructions(code):
        if step.opname == "IMPORT_NAME":
            base = str(step.argval)
            yield base
        elif step.opname == "IMPORT_FROM":
            yield f"{base}.{step.argval}".lstrip(".")
        elif isinstance(step.argval, CodeType):
            yield from _loaded_by(step.argval)
