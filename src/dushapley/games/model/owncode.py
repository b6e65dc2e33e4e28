"""Code of one's own: which it is, and whether it has been edited.

Installed packages are known by their versions. A module beside a script has none: its source is
looked at instead, so that what was paid under other code is not taken for equal, and workers with
other code are refused.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dushapley.hashing import digest

ELSEWHERE = sys.stdlib_module_names | {"__main__", "__mp_main__", "cloudpickle", "dushapley"}
"""Modules that are nobody's own: everywhere, or of this library. (A script has no name.)"""


def is_own(name: str, file: object) -> bool:
    """Whether a module is a Python file that was not installed, and not of this library."""
    top = name.partition(".")[0]
    return (
        isinstance(file, str)
        and file.endswith(".py")
        and top not in ELSEWHERE
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
        and not _is_compiled(top)
    )


@cache
def _is_compiled(top: str) -> bool:
    """Whether a package has compiled parts: one under development, not a script's helper."""
    inside = [m for name, m in list(sys.modules.items()) if name.partition(".")[0] == top]
    files = [getattr(module, "__file__", None) for module in inside]
    return any(isinstance(f, str) and f.endswith(tuple(EXTENSION_SUFFIXES)) for f in files)


def own_code(names: Iterable[str]) -> dict[str, str]:
    """Digests of those of these modules that are one's own, and of all that they import of it.

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
        if name not in found and (source := _source(name)) is not None:
            found[name] = source.digest
            waiting += source.imports
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Source:
    """The source of a module of one's own: its digest, and what it imports, now or when called."""

    loaded_by: object
    digest: str
    imports: tuple[str, ...]


_SEEN: dict[str, Source] = {}
"""Sources of loaded modules as they were when first looked at: an edit after that is not loaded."""


def _source(name: str) -> Source | None:
    """The source of a module; None where it is not one's own."""
    module = sys.modules.get(name)
    spec = _found(name) if module is None else getattr(module, "__spec__", None)
    file = getattr(spec, "origin", None)
    if not is_own(name, file):
        return None
    if module is None:
        return _read(name, spec)
    if name not in _SEEN or _SEEN[name].loaded_by is not spec:  # loading again makes another spec
        _SEEN[name] = _read(name, spec)
    return _SEEN[name]


def _found(name: str) -> ModuleSpec | None:
    """Where a module would be loaded from; nothing is loaded to find out."""
    parent = name.rpartition(".")[0]
    if name.partition(".")[0] in ELSEWHERE or (parent and parent not in sys.modules):
        return None
    with suppress(ImportError, ValueError, AttributeError):
        return find_spec(name)
    return None


def _read(name: str, spec: Any) -> Source:
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    try:
        source = Path(spec.origin).read_bytes()
        tree = ast.parse(source)
        return Source(spec, digest(ast.dump(tree)), tuple(_imports(tree, package)))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return Source(spec, "unreadable", ())


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inside = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(inside if node.level else []), *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)  # if it is a module
