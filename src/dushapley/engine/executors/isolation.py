"""Trainings under limits: in a process of their own, which can be stopped whatever it does.

A game with limits of time or memory (see `ModelGame`) is paid by a *trainer*, a child of the
worker. Inside it an alarm and the operating system's limit turn most excesses into an exception of
that training; where they do not (compiled code that never returns, a process killed for memory)
the trainer is ended from outside and another one started. Either way the game's failure policy
decides what the pool counts as. Games without limits are paid in the worker itself; but blocks that
were at work when a worker died are tried again by a trainer, which can tell how it ended and over
which of them.

Pebble was tried instead and is shorter, but it starts its processes by `multiprocessing`: those of
a Dask worker, which is a daemon, are refused ("daemonic processes are not allowed to have
children"), and every script would need `if __name__ == "__main__":` or fail.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from threading import Lock, Thread, get_ident
from time import perf_counter
from typing import Any

from dushapley.engine.executors.base import (
    ATTEMPTS,
    Block,
    Numbered,
    Results,
    WorkerLost,
    answers_of,
    leave_with,
    limits_of,
    one_blas_thread,
)
from dushapley.engine.executors.transport import Parcel, Shipment
from dushapley.errors import UtilityFailed, WorkersLost
from dushapley.games.base import Game, Outcome
from dushapley.games.model.training import timed_out
from dushapley.validation import pool_name

GRACE = 2.0
"""Seconds beyond its limit after which a training is ended from outside."""
IDLE = 60.0
"""Seconds without work after which a trainer leaves."""

SERVE = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from dushapley.engine.executors.isolation import serve
serve(int(sys.argv[1]))
"""


def pay(
    shipment: Shipment, group: Iterable[Numbered], suspect: bool = False
) -> tuple[float, Results]:
    """What a worker does: pay for a group of blocks; its seconds, and its outcomes by position.

    One whose last worker died (`suspect`) is paid by a trainer.
    """
    started, within = perf_counter(), outcomes_of_suspect if suspect else outcomes_within
    with one_blas_thread():
        results = [(position, within(shipment, block)) for position, block in group]
    return perf_counter() - started, results


def outcomes_within(shipment: Shipment, block: Block) -> Sequence[Outcome]:
    """Outcomes of a block, within the limits of its game."""
    game = shipment.game
    if not limits_of(game).any:
        return answers_of(game, block)
    try:
        return _by_trainers(shipment, block, ATTEMPTS)
    except Ended as ended:
        return _failed(game, block, WorkerLost(f"{ended}, {ATTEMPTS} times"))


def _failed(game: Game, block: Block, error: Exception) -> Sequence[Outcome]:
    """Outcomes of a block that was ended from outside, by policy; a probe has none."""
    return game.failed(block[0], error)


def outcomes_of_suspect(shipment: Shipment, block: Block) -> Sequence[Outcome]:
    """Outcomes of a block over which a worker may have died, or how its trainers ended, too."""
    game, queries = shipment.game, block[0]
    if limits_of(game).any:
        return outcomes_within(shipment, block)
    try:
        return _by_trainers(shipment, block, ATTEMPTS - 1)
    except Ended as ended:
        others = f" (or one of {len(queries) - 1} paid with it)" if len(queries) > 1 else ""
        raise WorkersLost(
            f"T{str(ended)[1:]} while training on {pool_name(queries[0], game.names)}"
            f"{others}, {ATTEMPTS} times in a row. Mend the model; or use larger workers, or "
            "ModelGame(memory=..., on_failure='empty') to count such trainings as failures."
        ) from ended


class Ended(WorkerLost):
    """A trainer ended by itself, over the block it was given."""


def _by_trainers(shipment: Shipment, block: Block, attempts: int) -> Sequence[Outcome]:
    """Outcomes of a block, by a trainer that lives to tell them; raises `Ended` if none does."""
    ended = Ended("the process did not start")
    for _ in range(attempts):
        if shipment.token in _DISMISSED:
            raise WorkerLost("its run has ended")
        trainer = trainer_for(shipment)
        try:
            return trainer.outcomes(block)
        except Ended as error:
            trainer.end()
            ended = error
    raise ended


LIKELY = {
    "SIGKILL": ", often for lack of memory",
    "SIGSEGV": ", a crash in compiled code",
    "SIGABRT": ", a crash in compiled code",
}


def ending(code: int) -> str:
    """How a process ended, in words.

    Examples
    --------
    >>> ending(-11)
    'the process ended with signal 11 (SIGSEGV, a crash in compiled code)'
    >>> ending(3)
    'the process ended with exit code 3'
    """
    if code >= 0:
        return f"the process ended with exit code {code}"
    name = signal.Signals(-code)
    return f"the process ended with signal {-code} ({name.name}{LIKELY.get(name.name, '')})"


class Trainer:
    """A child process that holds a game and pays blocks of it within limits."""

    def __init__(self, shipment: Shipment) -> None:
        self.shipment, self.ending = shipment, Lock()
        self.connection, theirs = Pipe()
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", SERVE, str(theirs.fileno()), json.dumps(sys.path)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the driver's to answer
        )
        theirs.close()
        Thread(target=self.process.wait, daemon=True).start()  # whenever it ends, no zombie stays
        packed = pickle.dumps(shipment.parcel)
        try:
            self._ask(packed, None)  # it is ready: the time to start is nobody's training time
        except WorkerLost as error:  # no training's fault, so no policy's business
            raise WorkersLost(
                f"The process for trainings under limits could not start ({error}). Its own "
                "message stands above; without timeout= and memory= no such process is needed."
            ) from error

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def outcomes(self, block: Block) -> Sequence[Outcome]:
        """Outcomes of a block; late ones by the game's failure policy."""
        limits = limits_of(self.shipment.game)
        seconds = None if limits.timeout is None else limits.seconds(len(block[0])) + GRACE
        answer = self._ask(pickle.dumps(block), seconds)
        if answer is None:
            assert limits.timeout is not None
            self.end()
            return _failed(self.shipment.game, block, timed_out(limits.timeout))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _ask(self, message: bytes, seconds: float | None) -> Any:
        """The trainer's answer, or None when it is late."""
        try:
            self.connection.send_bytes(message)
            if not self.connection.poll(seconds):
                return None
            return pickle.loads(self.connection.recv_bytes())  # noqa: S301 - our own child
        except (EOFError, OSError) as error:
            raise Ended(ending(self.process.wait())) from error

    def end(self) -> None:
        """End the process now; a second call, from another thread, finds it done.

        Closing twice would close what has been opened under the same number since.
        """
        with self.ending:
            if not self.connection.closed:
                self.process.kill()
                self.process.wait()
                self.connection.close()


TRAINERS: dict[int, Trainer] = {}
"""The trainer of each thread of this worker."""
_DISMISSED: set[str] = set()
"""Shipments whose runs have ended: what was at work for them is not tried again."""


def trainer_for(shipment: Shipment) -> Trainer:
    """This thread's trainer, holding this game."""
    trainer = TRAINERS.get(get_ident())
    if trainer is not None:
        if trainer.shipment.token == shipment.token and trainer.alive:
            return trainer
        trainer.end()
    TRAINERS[get_ident()] = trainer = Trainer(shipment)
    return trainer


def dismiss(token: str) -> None:
    """End the trainers of this shipment in this worker; those of other runs stay at work."""
    _DISMISSED.add(token)
    for thread, trainer in list(TRAINERS.items()):
        if trainer.shipment.token == token:
            TRAINERS.pop(thread, trainer).end()


def serve(descriptor: int) -> None:
    """What the trainer does: receive a game, then blocks of it, until nobody asks anymore."""
    leave_with(os.getppid())
    die_with_parent()
    connection = Connection(descriptor)
    parcel: Parcel = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own parent
    game = parcel.shipment.game
    with one_blas_thread():
        if limits_of(game).memory is not None:
            take_work_space()
            limit_memory(limits_of(game).memory)
        connection.send_bytes(pickle.dumps("ready"))
        while connection.poll(IDLE):
            try:
                block = pickle.loads(connection.recv_bytes())  # noqa: S301
            except EOFError:
                return
            connection.send_bytes(_answer(game, block))


def die_with_parent() -> None:
    """Have Linux end this process with the thread it works for, should Python never run again."""
    with suppress(AttributeError, OSError, TypeError):  # of systems that have no such call
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _answer(game: Any, block: Block) -> bytes:
    try:
        return pickle.dumps(answers_of(game, block))
    except (Exception, SystemExit) as error:
        try:
            return pickle.dumps(error)
        except (pickle.PicklingError, AttributeError, TypeError):
            return pickle.dumps(UtilityFailed(f"{type(error).__name__}: {error}"))


def take_work_space() -> None:
    """Have OpenBLAS map its work space now: where it is refused some, it asks again for ever."""
    import numpy as np
    from scipy.linalg import blas

    square = np.ones((256, 256))
    for product in (np.dot, lambda a, b: blas.dgemm(1.0, a, b)):  # each has a library of its own
        product(square, square)


def limit_memory(size: int) -> None:
    """Refuse this process more than `size` bytes beyond what it has now."""
    import resource
    from pathlib import Path

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + size
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
