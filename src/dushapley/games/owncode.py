"""Code of one's own: which it is, and whether it has been edited.

Installed packages are known by their versions. A module beside a script has none: its code is
looked at instead, as it is loaded, so that what was paid under other code is not taken for equal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from dushapley.games.checks import digest

ELSEWHERE = sys.stdlib_module_names | {"__main__", "__mp_main__", "cloudpickle", "dushapley"}
"""Modules that are nobody's own: everywhere, or of this library. (A script has no name.)"""


def is_own(module: Any) -> bool:
    """Whether a module is a Python file that was not installed, and not of this library."""
    name, file = getattr(module, "__name__", None), getattr(module, "__file__", None)
    if not isinstance(name, str) or not isinstance(file, str) or not file.endswith(".py"):
        return False
    top = name.partition(".")[0]
    return (
        sys.modules.get(name) is module
        and top not in ELSEWHERE
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
        and not _is_compiled(top)
    )


def _is_compiled(top: str) -> bool:
    """Whether a package has compiled parts: one under development, not a script's helper."""
    inside = [m for name, m in list(sys.modules.items()) if name.partition(".")[0] == top]
    files = [getattr(module, "__file__", None) for module in inside]
    return any(isinstance(f, str) and f.endswith(tuple(EXTENSION_SUFFIXES)) for f in files)


def code_digest(thing: Any) -> str:
    """Digest of the code behind a class or function; "" where it is not one's own.

    Methods, base classes, functions and constants (names in capitals) that they use are followed
    as far as they are one's own. Comments and line numbers do not count; Python's version does,
    because it decides what code is compiled to.

    Examples
    --------
    >>> code_digest(sorted), code_digest(code_digest)
    ('', '')
    """
    if not _is_own_code(thing):
        return ""
    return digest(*_parts(thing, set()))


def _is_own_code(thing: Any) -> bool:
    return is_own(sys.modules.get(getattr(thing, "__module__", None) or ""))


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    """All that decides what a thing does, in a fixed order."""
    thing = _unwrapped(thing)
    if id(thing) in seen:
        return
    if isinstance(thing, property):
        for accessor in (thing.fget, thing.fset, thing.fdel):
            yield from _parts(accessor, seen)
    elif isinstance(thing, type) and _is_own_code(thing):
        seen.add(id(thing))
        yield f"class {thing.__qualname__}"
        for base in thing.__bases__:
            yield f"of {base.__module__}.{base.__qualname__}"
            yield from _parts(base, seen)
        for name, value in sorted(vars(thing).items()):
            if isinstance(_unwrapped(value), FunctionType) or not name.startswith("__"):
                yield name
                yield from _parts(value, seen)
    elif isinstance(thing, FunctionType) and _is_own_code(thing):
        seen.add(id(thing))
        yield from _compiled(thing.__code__)
        for value in (thing.__defaults__, *sorted((thing.__kwdefaults__ or {}).items())):
            yield from _parts(value, seen)
        for cell in thing.__closure__ or ():
            with suppress(ValueError):  # a cell may still be empty
                yield from _parts(cell.cell_contents, seen)
        yield from _used(thing, seen)
    elif _is_constant(thing):
        yield repr(thing)


def _used(function: FunctionType, seen: set[int]) -> Iterator[str]:
    """What a function uses of its module, and of other modules of one's own."""
    names = sorted(set(_names(function.__code__)))
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [value for value in known if isinstance(value, ModuleType) and is_own(value)]
    for place in [function.__globals__, *(vars(module) for module in modules)]:
        for name in names:
            value = _unwrapped(place.get(name))
            if isinstance(value, (FunctionType, type)) or (name.isupper() and _is_constant(value)):
                yield name
                yield from _parts(value, seen)


def _unwrapped(thing: Any) -> Any:
    """The function inside a static or class method, or a cache."""
    while not isinstance(thing, (FunctionType, type)) and hasattr(thing, "__wrapped__"):
        thing = thing.__wrapped__
    return thing


def _is_constant(thing: Any) -> bool:
    if isinstance(thing, tuple):
        return all(map(_is_constant, thing))
    return thing is None or isinstance(thing, (bool, int, float, complex, str, bytes))


def _compiled(code: CodeType) -> Iterator[str]:
    """What Python compiled, without the places where it stood."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _compiled(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
