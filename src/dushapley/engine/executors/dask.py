"""A Dask cluster: of separate processes, of other machines, or one started for this run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from importlib.metadata import version
from logging import CRITICAL
from shutil import rmtree
from typing import Any

from dushapley.engine.executors.base import Executor, Futures, library, seconds_left
from dushapley.engine.executors.worker import (
    Group,
    Paid,
    Parcel,
    WorkerLost,
    cannot_unpack,
    pay,
)
from dushapley.errors import DUShapleyError, InvalidOption, WorkersDiffer, WorkersLost
from dushapley.processes import Child, ChildEnded, own_folder

ADDRESS = re.compile(r"(tcp|tls|wss?)://.+:[0-9]+|(inproc|ucx)://.+")
"""Of a scheduler. Of what is none, Dask would take a while to close its client."""
FAREWELL = 5.0
"""Seconds that workers may take to say who they are, and a cluster to close."""
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.allowed-failures": 0,  # what dies is ours to try again
    # else workers hand back every freed array at once, and models made of sums take several times
    # as long
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**26,
}
"""Of a cluster that is started for a run."""


class Dask(Executor):
    """Workers of a Dask cluster.

    The game goes to the scheduler once, and from worker to worker, once to each. Dask itself runs
    the tasks of a dead worker elsewhere, and brings the game again where its copies died.

    Parameters
    ----------
    n_jobs
        Worker processes to start where no cluster is named.
    address
        Address of a scheduler, or a `distributed.Client`; None takes the current client, or
        starts a cluster on this machine for the run.
    until
        When to give up, by `time.monotonic`.
    """

    def __init__(self, n_jobs: int, address: Any = None, until: float = float("inf")) -> None:
        super().__init__(until)
        self.dask = library("distributed", "dask")
        self.client = self._connect(n_jobs, address)
        self._places: dict[Any, str] = {}  # the worker that each future was meant for

    def _connect(self, n_jobs: int, address: Any) -> Any:
        if isinstance(address, self.dask.Client):
            if address.asynchronous:
                raise InvalidOption("The Dask client is asynchronous; pass a synchronous one.")
            return address
        if address is None:
            with suppress(ValueError):
                return self.dask.default_client()
        elif not isinstance(address, str) or not ADDRESS.fullmatch(address):
            raise InvalidOption(
                f"address is {address!r}; it needs to be a scheduler's with its port, like "
                "tcp://host:8786, or a distributed.Client."
            )
        with ExitStack() as started:  # closed if nobody can talk to it
            security = None if address else self.dask.Security.temporary()
            if security is not None:
                address = _started(n_jobs, security, started)
            try:
                client = self.dask.Client(
                    address, timeout=self.patience() / 2, security=security, set_as_default=False
                )
            except OSError as error:
                raise WorkersLost(
                    f"No Dask scheduler answers at {address!r} ({error}). Start one (`dask "
                    "scheduler`) and name its address, for example tcp://host:8786."
                ) from error
            started.callback(client.close)
            self.mine = started.pop_all()
        return client

    def count(self) -> int:
        """Threads of all workers; a cluster that stays silent is not waited for forever."""
        with self._connection():
            self._threads = dict(self.client.nthreads(callback_timeout=self.patience()))
        return sum(self._threads.values())

    def ship(self, parcel: Parcel) -> Any:
        """Send the game as a task, not as scattered data: Dask can run a task again elsewhere."""
        from dask import config

        self.workers()  # so that there is one to be asked
        self._refuse_without_us(parcel)
        size = parcel.bounds[-1][1] + 10**7
        settings = {"distributed.admin.large-graph-warning-threshold": size}
        with config.set(settings), self._connection():
            return self.client.submit(copy, parcel, pure=False)

    def submit(self, group: Group, alone: bool) -> Any:
        """Hand out to the least busy worker; left alone, Dask prefers those that hold the game."""
        busy = Counter(self._places.values())
        place = min(self._threads, key=lambda w: busy[w] / self._threads[w])
        with self._connection():
            future = self.client.submit(
                pay,
                self.handle,
                group,
                alone,
                pure=False,
                retries=0,
                workers=place,
                allow_other_workers=True,
            )
        self._places[future] = place
        return future

    def wait(self, futures: Futures, seconds: float) -> Futures:
        self._refuse_lost()
        with suppress(TimeoutError, CancelledError), self.client.as_current():
            self.dask.wait(futures, timeout=seconds, return_when="FIRST_COMPLETED")
        return [future for future in futures if future.done()]

    def result(self, future: Any) -> Paid:
        self._places.pop(future, None)
        if future.status == "cancelled":
            self._refuse_lost()
            raise WorkerLost("Dask cancelled the task")
        try:
            return future.result(timeout=self.patience())
        except self.dask.KilledWorker as error:
            raise WorkerLost(f"the Dask worker {error.last_worker.address} died") from error
        except (CancelledError, self.dask.comm.CommClosedError, TimeoutError) as error:
            seconds_left(self.until)
            self._refuse_lost()
            raise WorkerLost(f"Dask: {type(error).__name__}") from error
        except (DUShapleyError, ChildEnded):
            raise  # the model's own error, or what a worker said about itself
        except Exception as error:
            raise cannot_unpack(error) from error

    @contextmanager
    def _connection(self) -> Iterator[None]:
        """Name a connection that breaks before the client itself has noticed, or stays silent."""
        waited = self.patience()
        try:
            yield
        except TimeoutError as error:
            seconds_left(self.until)
            raise WorkersLost(
                f"The Dask scheduler has not answered for {waited:g} s. See what keeps it or its "
                "workers, start them again, and run again to go on."
            ) from error
        except (OSError, self.dask.client.ClosedClientError) as error:
            raise WorkersLost(
                f"The connection to the Dask scheduler is lost ({error}). Start it again, and run "
                "again to go on."
            ) from error

    def _refuse_without_us(self, parcel: Parcel) -> None:
        """Refuse workers that lack this library: they could not even receive a task to say so."""
        answers: dict[str, Any] = {}
        # `version` is Python's own: a worker that lacks this library has nothing else to run
        with suppress(OSError, TimeoutError):  # of workers that are just dying; others will come
            answers = self.client.run(
                version, "dushapley", on_error="return", callback_timeout=FAREWELL
            )
        lacking = [name for name, answer in answers.items() if isinstance(answer, ImportError)]
        if lacking:
            raise WorkersDiffer(
                f"The Dask worker {lacking[0]} lacks dushapley (driver: "
                f"{parcel.packages['dushapley']}). Install the same versions on all workers, and "
                "run again to go on."
            )

    def _refuse_lost(self) -> None:
        if self.client.status != "running":
            raise WorkersLost(
                f"The connection to the Dask scheduler is {self.client.status}. Start it again, "
                "and run again to go on."
            )

    def cancel(self, futures: Futures) -> None:
        self._places.clear()
        if futures and self.client.status == "running":
            with suppress(WorkersLost), self._connection():
                self.client.cancel(futures)


def _started(n_jobs: int, security: Any, kept: ExitStack) -> str:
    """Start worker processes on this machine, for one run, and return their scheduler's address.

    They live in a child process, so that no kill of this one leaves anything of theirs behind.
    They speak TLS under a key that is made for the run and never leaves these processes, and show
    no pages.
    """
    folder = own_folder()
    kept.callback(rmtree, folder, ignore_errors=True)
    host = Child()
    kept.callback(host.close)
    try:
        address: str = host.call(_open_cluster, n_jobs, security, str(folder))
    except Exception as error:
        raise WorkersLost(
            f"Dask could not start workers on this machine ({error}). Run again to go on, or start "
            "a cluster by hand (`dask scheduler`, `dask worker ADDRESS`) and name its address."
        ) from error
    kept.callback(_close, host)
    return address


_CLUSTERS: list[Any] = []
"""What runs in this child process."""


def _open_cluster(n_jobs: int, security: Any, folder: str) -> str:
    from dask import config
    from distributed import LocalCluster

    config.set(SETTINGS | {"temporary-directory": folder})
    cluster = LocalCluster(
        n_workers=None if n_jobs == -1 else n_jobs,
        threads_per_worker=1,
        security=security,
        dashboard_address="127.0.0.1:0",
        silence_logs=CRITICAL,  # what fails is told by the run; a worker that closes may complain
    )
    _CLUSTERS.append(cluster)
    return str(cluster.scheduler_address)


def _close_cluster() -> None:
    _CLUSTERS.pop().close()


def _close(host: Child) -> None:
    with suppress(Exception):  # what does not close is ended
        host.call(_close_cluster, seconds=FAREWELL)
