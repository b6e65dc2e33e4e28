"""What a model is, in words that are equal exactly when the models are.

Never pickle and never `hash()`: a description is the same in every process, and a model that
cannot be described says so instead of being mixed up with another.

Installed packages are known by their versions. A module beside a script has none: its source is
hashed instead, so that what was paid under other code is not taken for the same.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from dushapley.hashing import digest

ELSEWHERE = sys.stdlib_module_names | {"__main__", "__mp_main__", "cloudpickle", "dushapley"}
"""Modules that are not the user's: Python's, or of this library. (A script has no name.)"""


class Indescribable(Exception):
    """A part of a model has no content that could be compared."""


def describe(thing: Any) -> str:
    """Class path and parameters of a model, recursively, arrays by their content.

    Examples
    --------
    >>> describe({"depth": 3, "names": ("a", None)})
    "{'depth': 3, 'names': ('a', None)}"
    """
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes)):
        return repr(thing)
    if isinstance(thing, np.generic):
        return f"{thing.dtype.str} {thing.item()!r}"
    if isinstance(thing, np.ndarray) and thing.dtype.kind == "O":
        return f"array {thing.shape} {describe(thing.ravel().tolist())}"
    if isinstance(thing, np.ndarray):
        return f"array {digest(thing)}"
    if isinstance(thing, (list, tuple)):
        inside = ", ".join(map(describe, thing))
        return f"[{inside}]" if isinstance(thing, list) else f"({inside})"
    if isinstance(thing, (set, frozenset)):
        return f"{{{', '.join(sorted(map(describe, thing)))}}}"
    if isinstance(thing, Mapping):
        return f"{{{', '.join(f'{describe(k)}: {describe(v)}' for k, v in thing.items())}}}"
    if isinstance(thing, (type, FunctionType, BuiltinFunctionType, np.ufunc)):
        return _describe_name(thing)
    return _describe_object(thing)


def _describe_name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", thing.__name__)
    module = getattr(thing, "__module__", None) or ""
    if "<" in name or module == "__main__":
        raise Indescribable(
            f"{name} is a function or class of this script, whose content cannot be compared"
        )
    code = own_code([module])  # installed modules are known by their versions
    return f"{module}.{name} {digest(*map(str, code.items())) if code else ''}".rstrip()


def _describe_object(thing: Any) -> str:
    if isinstance(thing, (np.random.Generator, np.random.RandomState)):
        raise Indescribable("a random generator changes with every use")
    parameters = getattr(thing, "get_params", None)
    if not callable(parameters):
        raise Indescribable(f"a {type(thing).__name__} has no parameters to compare")
    return f"{_describe_name(type(thing))}({describe(parameters(deep=False))})"


def is_own(name: str, file: object) -> bool:
    """Whether a module is a Python file that was not installed, and not of this library."""
    return (
        isinstance(file, str)
        and file.endswith(".py")
        and name.partition(".")[0] not in ELSEWHERE
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
    )


def own_code(names: Iterable[str]) -> dict[str, str]:
    """Digests of those of these modules that are the user's own, and of what they import of it.

    Comments and layout do not count, and what a run leaves behind in a module does not either.

    Examples
    --------
    >>> own_code(["dushapley.games", "json", "numpy"])
    {}
    """
    return {name: digest for name, (digest, _) in _own_sources(names).items()}


def own_imports(names: Iterable[str]) -> set[str]:
    """All that those of these modules import that are the user's own, and what is their own of it.

    Examples
    --------
    >>> own_imports(["dushapley.games", "json", "numpy"])
    set()
    """
    return {name for _, imports in _own_sources(names).values() for name in imports}


def _own_sources(names: Iterable[str]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in sources and (spec := _own_spec(name)) is not None:
            sources[name] = _source(name, spec)
            waiting += sources[name][1]
    return dict(sorted(sources.items()))


def _own_spec(name: str) -> ModuleSpec | None:
    """Where a module of the user's was loaded from, or would be; nothing is loaded to find out."""
    top, parent = name.partition(".")[0], name.rpartition(".")[0]
    if top in ELSEWHERE or (parent and parent not in sys.modules):
        return None
    spec = None
    with suppress(ImportError, ValueError, AttributeError):
        spec = find_spec(name)
    return spec if spec is not None and is_own(name, spec.origin) else None


Source = tuple[str, list[str]]
"""Digest of a module's source, and what it imports, now or when called."""

_SEEN: dict[str, tuple[ModuleSpec, Source]] = {}
"""Sources as they were when first looked at: an edit after that counts once it is loaded."""
_PARSER = Lock()
"""Python 3.11 counts the depth of all its threads' syntax trees together, and trips over it."""


def _source(name: str, spec: ModuleSpec) -> Source:
    if name not in _SEEN or _SEEN[name][0] is not spec:  # loading again makes another spec
        _SEEN[name] = spec, _read(name, spec)
    return _SEEN[name][1]


def _read(name: str, spec: ModuleSpec) -> Source:
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    try:
        tree = _parsed(Path(str(spec.origin)).read_bytes())
        return digest(ast.dump(tree)), list(_imports(tree, package))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return "unreadable", []


def _parsed(source: bytes) -> ast.AST:
    """Parse beside other threads; those that print tracebacks parse too, and do not wait for us."""
    with _PARSER:
        for _ in range(20):
            with suppress(SystemError):
                return ast.parse(source)
        return ast.parse(source)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inside = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(inside if node.level else []), *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)  # if it is a module
