"""Where paid work runs. It never changes a bit of a result, only when and where it is computed."""

from __future__ import annotations

from typing import Any

from dushapley.engine.executors.base import Executor, OutOfTime
from dushapley.errors import InvalidOption
from dushapley.validation import is_whole

__all__ = ["EXECUTORS", "Executor", "OutOfTime", "check_executor", "make_executor"]

EXECUTORS = ("local", "dask", "ray")


def check_executor(name: object, n_jobs: object, address: object) -> None:
    """Refuse what no executor could be made of, before anything is started."""
    if not is_whole(n_jobs, least=-1) or n_jobs == 0:
        raise InvalidOption(f"n_jobs is {n_jobs!r}; it is a number of workers, or -1 for all.")
    if name not in EXECUTORS:
        choices = ", ".join(map(repr, EXECUTORS))
        raise InvalidOption(f"executor is {name!r}; choose one of {choices}.")
    if name == "local" and address is not None:
        raise InvalidOption(
            f"address is {address!r}, but executor='local' is this machine. Leave it out, or "
            "choose executor='dask' or 'ray'."
        )


def make_executor(
    name: str, n_jobs: int, address: Any = None, until: float = float("inf")
) -> Executor:
    """The executor of this name.

    Parameters
    ----------
    name
        "local", "dask" or "ray".
    n_jobs
        Number of workers on this machine; a cluster that is already there has its own.
    address
        Of a cluster, or a connected client of it.
    until
        When to give up, by `time.monotonic`.
    """
    check_executor(name, n_jobs, address)
    if name == "dask":
        from dushapley.engine.executors.dask import Dask

        return Dask(n_jobs, address, until)
    if name == "ray":
        from dushapley.engine.executors.ray import Ray

        return Ray(n_jobs, address, until)
    from dushapley.engine.executors.local import Local

    return Local(n_jobs, until)
