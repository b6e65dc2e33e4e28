"""A Ray cluster."""

from __future__ import annotations

import os
from shutil import rmtree
from socket import create_connection
from typing import Any

from dushapley.engine.executors.base import Executor, Futures, library
from dushapley.engine.executors.worker import (
    Group,
    Paid,
    Parcel,
    WorkerLost,
    cannot_unpack,
    pay,
)
from dushapley.errors import DUShapleyError, InvalidOption, WorkersLost
from dushapley.processes import ChildEnded, own_folder, remove_abandoned_folders

LONGEST_NAME = 43
"""Letters that Ray leaves for the folder in the 107 that the name of a socket may have."""
ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Variable that Ray reads when it is imported: "0" keeps what it starts on the loopback address,
which is what it does by itself on other systems than Linux."""


class Ray(Executor):
    """Workers of a Ray cluster, one processor each.

    The game is put into Ray's object store, which sends it once to every machine. Ray tells when
    a worker has died, and does not try again: that is done here, with more care.

    Parameters
    ----------
    n_jobs
        Processors to take where no cluster is there and one is started for the run.
    address
        Address of a cluster, as `ray.init` takes it; None takes the one connected to, or starts
        one on this machine.
    until
        When to give up, by `time.monotonic`.
    """

    def __init__(self, n_jobs: int, address: Any = None, until: float = float("inf")) -> None:
        super().__init__(until)
        if address is None:
            os.environ.setdefault(ALONE, "0")
        self.ray = library("ray", "ray")
        if address is not None:
            self._connect(address)
        elif not self.ray.is_initialized():
            self._start(n_jobs)
        self._pay = self.ray.remote(num_cpus=1, max_retries=0, retry_exceptions=False)(pay)

    def _connect(self, address: Any) -> None:
        """See whether anybody is there at all, and connect; Ray itself tries for many minutes."""
        if self.ray.is_initialized():
            raise InvalidOption(
                f"address is {address!r}, but Ray is already connected. Leave the address out to "
                "use that connection, or call ray.shutdown() first."
            )
        self.mine.callback(self.ray.shutdown)
        host, _, port = str(address).removeprefix("ray://").rpartition(":")
        try:
            if host and port.isdigit():
                create_connection((host, int(port)), timeout=self.patience() / 2).close()
            self.ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise WorkersLost(
                f"No Ray cluster answers at {address!r} ({error}). Start one (`ray start --head`) "
                "and name its address, or leave the address out."
            ) from error

    def _start(self, n_jobs: int) -> None:
        """Start Ray on this machine, where nobody else can reach it, in a folder of its own."""
        if self.ray.util.get_node_ip_address() not in ("127.0.0.1", "::1"):
            raise InvalidOption(
                "Ray was imported before this run, and would listen beyond this machine. Set the "
                f"variable {ALONE}=0 before Ray is imported, or start Ray yourself (ray.init())."
            )
        folder = own_folder(LONGEST_NAME)
        self.mine.callback(remove_abandoned_folders)  # Ray's own processes end a while later
        self.mine.callback(rmtree, folder, ignore_errors=True)
        self.mine.callback(self.ray.shutdown)
        try:
            self.ray.init(
                num_cpus=None if n_jobs == -1 else n_jobs,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                _temp_dir=str(folder),
            )
        except Exception as error:  # Ray has no kind of its own for this
            self.close()
            raise WorkersLost(
                f"Ray could not start on this machine ({error}). Run again to go on, or start a "
                "cluster by hand (`ray start --head`) and name its address."
            ) from error

    def count(self) -> int:
        return int(self.ray.cluster_resources().get("CPU", 0))

    def ship(self, parcel: Parcel) -> Any:
        return self.ray.put(parcel)

    def submit(self, group: Group, alone: bool) -> Any:
        return self._pay.remote(self.handle, group, alone)

    def wait(self, futures: Futures, seconds: float) -> Any:
        return self.ray.wait(list(futures), num_returns=1, timeout=seconds)[0]

    def result(self, future: Any) -> Paid:
        gone = self.ray.exceptions
        try:
            return self.ray.get(future)
        except gone.RayTaskError as error:
            if isinstance(error.cause, DUShapleyError | ChildEnded):
                raise error.cause from None
            raise cannot_unpack(error.cause or error) from error
        except (
            gone.WorkerCrashedError,
            gone.OutOfMemoryError,
            gone.NodeDiedError,
            gone.LocalRayletDiedError,
            gone.ObjectLostError,
        ) as error:
            raise WorkerLost(f"Ray: {type(error).__name__}") from error

    def cancel(self, futures: Futures) -> None:
        for future in futures:
            self.ray.cancel(future, force=True)
