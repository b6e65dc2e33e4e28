"""What a model is, in words that are equal exactly when the models are.

Never pickle and never `hash()`: a description is the same in every process, and a model that
cannot be described says so instead of being mixed up with another.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from dushapley.games.model.owncode import own_code
from dushapley.hashing import digest, package_version


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


def package_of(model: Any) -> str:
    """Package and version that a model's class comes from."""
    top = type(model).__module__.split(".")[0]
    return f"{top} {package_version(top)}"
