"""What may be missing where the tests run: packages of extras, a browser, data, Flower."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from typing import Any

import pytest


@cache
def importable(name: str) -> bool:
    """Whether a package can be imported, which nothing but the attempt can tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import_module(name)
        except ImportError:
            return False
    return True


def needs(*names: str) -> Any:
    """Skip, by name, where a package cannot be imported; the last of them otherwise."""
    __tracebackhide__ = True
    for name in names:
        if not importable(name):
            skip_unless_required(name, f"needs the package {name}")
    return import_module(names[-1])


def skip_unless_required(what: str, reason: str) -> None:
    """Skip aloud, or fail where the environment says that `what` must be there."""
    __tracebackhide__ = True
    if what in os.environ.get("DUSHAPLEY_REQUIRE", "").split(","):
        pytest.fail(f"DUSHAPLEY_REQUIRE asks for {what}: {reason}")
    pytest.skip(reason, allow_module_level=True)
