"""A Dask cluster: of separate processes, of other machines, or one started for this run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from typing import Any

from dushapley.engine.executors.base import FAREWELL, Group, Results, WorkerLost, seconds_left
from dushapley.engine.executors.interrupts import deaf_to_interrupts
from dushapley.engine.executors.isolation import dismiss
from dushapley.engine.executors.remote import Remote, library, pay_there
from dushapley.engine.executors.transport import Parcel, cannot_unpack
from dushapley.engine.executors.workspace import name_semaphores, workspace
from dushapley.errors import DUShapleyError, InvalidOption, WorkersDiffer, WorkersLost


class Dask(Remote):
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
        self._mine = ExitStack()  # closes what this run started
        self.client = self._connect(n_jobs, address)
        self._game: Any = None
        self._threads: dict[str, int] = {}
        self._places: dict[Any, str] = {}  # which worker each handle was meant for
        self._busy: Counter[str] = Counter()  # and how many each was given

    def _connect(self, n_jobs: int, address: Any) -> Any:
        if isinstance(address, self.dask.Client):
            if address.asynchronous:
                raise InvalidOption("The Dask client is asynchronous; pass a synchronous one.")
            return address
        if address is None:
            with suppress(ValueError):
                return self.dask.default_client()
            address = self._cluster(n_jobs)
            self._mine.callback(address.close)
        else:
            _refuse_unreadable(address)
        try:
            with self._mine.pop_all() as started:  # which is closed if nobody can talk to it
                wait = self.patience() / 2
                client = self.dask.Client(address, timeout=wait, set_as_default=False)
                self._mine = started.pop_all()
        except OSError as error:
            raise WorkersLost(
                f"No Dask scheduler answers at {address!r} ({error}). Start one (`dask scheduler`) "
                "and name its address, for example tcp://host:8786."
            ) from error
        self._mine.callback(client.close)
        return client

    def _cluster(self, n_jobs: int) -> Any:
        """Worker processes on this machine, for one run, and for nobody else on it.

        They speak TLS under a key that is made for the run and never leaves these processes, and
        show no pages. What they put on disk goes into the run's own folder.
        """
        from dask import config

        name_semaphores()
        settings: dict[str, Any] = {
            "temporary-directory": str(workspace(on_disk=True)),
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            "distributed.scheduler.allowed-failures": 0,  # what dies is ours to try again
        }
        try:
            with deaf_to_interrupts(), config.set(settings):
                return self.dask.LocalCluster(
                    n_workers=None if n_jobs == -1 else n_jobs,
                    threads_per_worker=1,
                    security=self._security(),
                    dashboard_address="127.0.0.1:0",
                )
        except RuntimeError as error:
            raise WorkersLost(
                f"Dask could not start workers on this machine ({error}). Each of them imports "
                "your script again: put what it does under `if __name__ == '__main__':`."
            ) from error

    def _security(self) -> Any:
        try:
            return self.dask.Security.temporary()
        except ImportError as error:
            raise InvalidOption(
                "A Dask cluster on this machine needs the package cryptography, so that no other "
                "user of it can join: pip install 'dushapley[dask]'."
            ) from error

    def workers(self) -> int:
        self._threads = dict(self._answer(self.client.nthreads))
        if not self._threads:
            try:
                with self._connection():
                    self.client.wait_for_workers(1, timeout=(waited := self.patience()))
            except TimeoutError as error:
                seconds_left(self.until)
                raise WorkersLost(
                    f"The Dask scheduler has had no worker for {waited:g} s. Start some "
                    "(`dask worker ADDRESS`), and run again to go on."
                ) from error
            self._threads = dict(self._answer(self.client.nthreads))
        return max(1, sum(self._threads.values()))

    def ship(self, parcel: Parcel) -> None:
        """Send the game as a task, not as scattered data: Dask can run a task again elsewhere."""
        from dask import config

        self._refuse_without_us(parcel)
        size = parcel.contents.nbytes + 10**7
        settings = {"distributed.admin.large-graph-warning-threshold": size}
        with config.set(settings), self._connection():
            self._game = self.client.submit(_arrived, parcel, pure=False)

    def submit(self, group: Group, suspect: bool) -> Any:
        """Hand out to the least busy worker; left alone, Dask prefers those that hold the game."""
        busy = self._busy
        place = min(self._threads, key=lambda w: busy[w] / self._threads[w], default=None)
        with self._connection():
            handle = self.client.submit(
                pay_there,
                self._game,
                group,
                suspect,
                pure=False,
                retries=0,
                workers=place,
                allow_other_workers=place is not None,
            )
        self._places[handle] = place or ""
        busy[place or ""] += 1
        return handle

    def wait(self, handles: Collection[Any], seconds: float) -> Collection[Any]:
        self._refuse_lost()
        with suppress(TimeoutError, CancelledError), self.client.as_current():
            self.dask.wait(handles, timeout=seconds, return_when="FIRST_COMPLETED")
        return [handle for handle in handles if handle.done()]

    def result(self, handle: Any) -> tuple[float, Results]:
        self._busy[self._places.pop(handle, "")] -= 1
        if handle.status == "cancelled":
            self._refuse_lost()
            raise WorkerLost("Dask cancelled the task")
        try:
            return handle.result(timeout=self.patience())
        except self.dask.KilledWorker as error:
            raise WorkerLost(f"Dask: {error.last_worker.address} was the last to die") from error
        except (CancelledError, self.dask.comm.CommClosedError, TimeoutError) as error:
            seconds_left(self.until)
            self._refuse_lost()
            raise WorkerLost(f"Dask: {type(error).__name__}") from error
        except DUShapleyError:
            raise  # the model's own error, or what a worker said about itself
        except Exception as error:
            raise cannot_unpack(error) from error

    def _answer(self, question: Callable[..., Any]) -> Any:
        """What the cluster answers; one that stays silent is not waited for forever."""
        waited = self.patience()
        try:
            with self._connection():
                return question(callback_timeout=waited)
        except TimeoutError as error:
            seconds_left(self.until)
            raise WorkersLost(
                f"The Dask scheduler has not answered for {waited:g} s. See what keeps it or its "
                "workers, start them again, and run again to go on."
            ) from error

    @contextmanager
    def _connection(self) -> Iterator[None]:
        """Name a connection that breaks before the client itself has noticed."""
        from distributed.client import ClosedClientError

        try:
            yield
        except TimeoutError:
            raise  # silence is something else
        except (OSError, ClosedClientError) as error:
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

    def cancel(self, handles: Collection[Any]) -> None:
        self._places.clear()
        self._busy.clear()
        if handles and self.client.status == "running":
            with suppress(WorkersLost), self._connection():
                self.client.cancel(handles)

    def close(self) -> None:
        if self._shipment is not None and self.has_trainers:
            with suppress(OSError, TimeoutError):
                self.client.run(dismiss, self._shipment.token, callback_timeout=FAREWELL)
        self._game = None
        self._mine.close()


def _arrived(parcel: Parcel) -> Parcel:
    return parcel


def _refuse_unreadable(address: Any) -> None:
    """Refuse at once what is not an address: Dask would take a while to close its client."""
    from distributed.comm.addressing import parse_address
    from distributed.comm.registry import backends

    scheme, place = parse_address(address) if isinstance(address, str) else ("", "")
    port = place.rpartition(":")[2]
    if scheme not in backends or (scheme in ("tcp", "tls") and not port.isdecimal()):
        raise InvalidOption(
            f"address is {address!r}; it needs to be a scheduler's with its port, like "
            "tcp://host:8786, or a distributed.Client."
        )
