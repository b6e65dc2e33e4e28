"""Where paid work runs. It never changes a bit of a result, only when and where it is computed."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from dushapley.engine.executors.base import Executor
from dushapley.errors import InvalidOption
from dushapley.games.policy import Limits
from dushapley.validation import is_whole

EXECUTORS: dict[str, Any] = {
    name: f"dushapley.engine.executors.{name}.{name.title()}" for name in ("local", "dask", "ray")
}
"""Makers of executors, called with (n_jobs, address, until); a dotted path is loaded when used."""


def check_executor(name: object, n_jobs: object, address: object) -> None:
    """Refuse what no executor could be made of, before anything is started."""
    if not is_whole(n_jobs, least=-1) or n_jobs == 0:
        raise InvalidOption(f"n_jobs is {n_jobs!r}; it must be a number of workers, or -1 for all.")
    if not isinstance(name, str) or name not in EXECUTORS:
        choices = ", ".join(map(repr, EXECUTORS))
        raise InvalidOption(f"executor is {name!r}; choose one of {choices}.")
    if name == "local" and address is not None:
        raise InvalidOption(
            f"address is {address!r}, but executor='local' is this machine. Leave it out, or "
            "choose executor='dask' or executor='ray'."
        )


def check_limits(name: str, limits: Limits) -> None:
    """Refuse limits of trainings that a cluster would not keep."""
    if name != "local" and limits.any:
        raise InvalidOption(
            f"timeout= or memory= is set, but executor={name!r} keeps neither: limits are the "
            "cluster's there. Leave them out and limit its workers where they are started, or "
            "choose executor='local'."
        )


def make_executor(
    name: str, n_jobs: int, address: Any = None, until: float = float("inf")
) -> Executor:
    """The executor of this name.

    Parameters
    ----------
    name
        One of `EXECUTORS`.
    n_jobs
        Number of workers on this machine; a cluster that is already there has its own.
    address
        Of a cluster, or a connected client of it.
    until
        When to give up, by `time.monotonic`.
    """
    check_executor(name, n_jobs, address)
    maker = EXECUTORS[name]
    make = resolve_name(maker) if isinstance(maker, str) else maker
    executor: Executor = make(n_jobs, address, until)
    return executor
