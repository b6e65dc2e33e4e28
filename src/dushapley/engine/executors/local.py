"""This machine: the process itself, or workers beside it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from math import isfinite
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dushapley.engine.executors.base import (
    ATTEMPTS,
    FAREWELL,
    Block,
    Group,
    Numbered,
    OutOfTime,
    Pace,
    Results,
    leave_with,
    seconds_left,
)
from dushapley.engine.executors.isolation import dismiss, pay
from dushapley.engine.executors.transport import Parcel, Shipment, unpacked
from dushapley.engine.executors.workspace import workspace
from dushapley.errors import WorkersDiffer, WorkersLost
from dushapley.games.base import Game, Outcome


class Local:
    """This machine: in the process itself, or in joblib's workers, which stay alive.

    One BLAS thread per worker, as in the parent, so that no bit depends on their number. The game
    is written once, to a file that all workers map into memory (see `workspace`). Short blocks
    travel in groups (see `Pace`), so that travelling costs little and a kill loses little.

    Parameters
    ----------
    n_jobs
        Number of workers; 1 stays in the process, -1 takes all processors.
    address
        None: this machine has none.
    until
        When to give up, by `time.monotonic`.
    """

    def __init__(self, n_jobs: int = 1, address: None = None, until: float = float("inf")) -> None:
        self.n_jobs, self.until = n_jobs, until
        self._stack = ExitStack()
        self._workers: Any = None
        self._shipment: Shipment | None = None
        self._shelf: Path | None = None  # the file that holds the game
        self.pace = Pace()
        self._renewed = False
        self._suspects: set[int] = set()  # blocks that were at work when a worker died
        self._at_rest = False  # workers stand ready; an unfinished run has joblib end them

    def workers(self) -> int:
        """How many blocks can be at work at once."""
        return int(effective_n_jobs(self.n_jobs))

    def run(self, game: Game, blocks: Sequence[Block]) -> Iterator[tuple[int, Sequence[Outcome]]]:
        if self._shipment is None or self._shipment.game is not game:
            self._clear()
            self._shipment = Shipment(game)
        waiting = dict(enumerate(iter(blocks.take, None) if self.n_jobs != 1 else ()))
        # one block of our own arithmetic needs workers only to be stopped; somebody's model might
        # take this process with it
        lonely = len(waiting) == 1 and game.block > 1 and not isfinite(self.until)
        if lonely:
            yield from self._here(self._shipment, waiting)
            return
        if self.n_jobs == 1:
            n = 0
            while (block := blocks.take()) is not None:
                yield from self._here(self._shipment, {n: block})
                n += 1
            return
        losses, self._suspects = 0, set()
        while waiting and losses < ATTEMPTS:
            before = len(waiting)
            yield from self._share_out(self._shelved(self._shipment), waiting)
            losses = losses + 1 if len(waiting) == before else 0
        if waiting:
            raise WorkersLost(
                f"Workers died {ATTEMPTS} times in a row, most likely for lack of memory, with "
                f"{len(waiting)} blocks unpaid. Use fewer workers (n_jobs=1), a smaller model, or "
                "ModelGame(memory=..., on_failure='empty') to count such trainings as failures."
            )

    def _here(
        self, shipment: Shipment, waiting: dict[int, Block]
    ) -> Iterator[tuple[int, Sequence[Outcome]]]:
        for numbered in waiting.items():
            seconds_left(self.until)
            seconds, results = pay(shipment, [numbered])
            self.pace.saw(seconds, 1)
            yield from results

    def _share_out(
        self, parcel: Parcel, waiting: dict[int, Block]
    ) -> Iterator[tuple[int, Sequence[Outcome]]]:
        """Hand the waiting blocks to the workers; those lost with a dead worker keep waiting."""
        workers, self._at_rest = self._start(parcel.code), False
        alone = [[(n, block)] for n, block in waiting.items() if n in self._suspects]
        others = [(n, block) for n, block in waiting.items() if n not in self._suspects]
        given: set[int] = set()
        self._limit(workers)
        try:
            for seconds, results in workers(
                delayed(_pay)(parcel, group, suspect, os.getpid())
                for suspect, groups in (
                    (True, alone),
                    (False, self.groups_of(others, workers.n_jobs, given)),
                )
                for group in groups
            ):
                self.pace.saw(seconds, len(results))
                for position, outcomes in results:
                    del waiting[position]
                    yield position, outcomes
                self._limit(workers)
            self._at_rest = True
        except TerminatedWorkerError:
            self._suspects |= given & waiting.keys()
            self._let_go()
        except WorkersDiffer:
            if self._renewed:
                raise
            self._renewed = True  # standing workers may lack a module that new ones find
            self._let_go()
        except (TimeoutError, multiprocessing.TimeoutError) as error:  # joblib raises the latter
            if isfinite(self.until):
                raise OutOfTime from error
            raise

    def _shelved(self, shipment: Shipment) -> Parcel:
        """The parcel in a file, of which joblib sends workers the name only."""
        parcel, file = shipment.parcel, workspace() / shipment.token
        if self._shelf is None:
            self._shelf = file
            try:
                with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as shelf:
                    shelf.write(parcel.contents.data)
            except OSError as error:
                self._clear()
                raise WorkersLost(
                    f"The game could not be handed to the workers: its {parcel.contents.nbytes:,} "
                    f"bytes are written once into {file.parent}, which is full or not writable "
                    f"({error.strerror}). Free some space, name another folder in "
                    "JOBLIB_TEMP_FOLDER, or take n_jobs=1; run again to go on."
                ) from error
        return replace(parcel, contents=np.memmap(self._shelf, dtype=np.uint8, mode="r"))

    def _clear(self) -> None:
        """Remove the game's file; workers that still map it keep it until they let go."""
        if self._shelf is not None:
            self._shelf.unlink(missing_ok=True)
            self._shelf = None

    def _limit(self, workers: Any) -> None:
        workers.timeout = seconds_left(self.until) if isfinite(self.until) else None

    def groups_of(
        self, blocks: list[Numbered], workers: int, given: set[int] | None = None
    ) -> Iterator[Group]:
        """Groups of blocks, as large as they should be when joblib comes for the next one.

        Those that it came for are noted in `given`.
        """
        start = 0
        while start < len(blocks):
            size = self.pace.size(len(blocks) - start, workers)
            group = blocks[start : start + size]
            if given is not None:
                given.update(number for number, _ in group)
            yield group
            start += size

    def _start(self, code: dict[str, str]) -> Any:
        if self._workers is None:
            self._stack.enter_context(parallel_config(backend="loky", inner_max_num_threads=1))
            self._workers = self._stack.enter_context(
                Parallel(
                    n_jobs=effective_n_jobs(self.n_jobs),
                    return_as="generator_unordered",
                    batch_size=1,
                    max_nbytes=None,  # nothing but the game is worth a file, and it has one
                    temp_folder=workspace(),
                    **_crew(code),
                )
            )
        return self._workers

    def _end_trainers(self, token: str) -> None:
        """Have every worker end its trainer; not the workers, which others may be using.

        A worker that stays busy with something else keeps its trainer until that leaves by itself.
        """
        crew, answered, until = effective_n_jobs(self.n_jobs), set[int](), monotonic() + FAREWELL
        with suppress(RuntimeError):  # workers that died took their trainers along
            workers = get_reusable_executor(reuse=True)
            while len(answered) < crew and (left := until - monotonic()) > 0:
                asked = [workers.submit(_end_trainer, token) for _ in range(crew)]
                done, late = wait(asked, timeout=left)
                answered |= {answer.result() for answer in done}
                for answer in late:
                    answer.cancel()

    def _let_go(self) -> None:
        self._workers = None
        self._stack.close()

    def close(self) -> None:
        """Let go of the game's files; the workers are joblib's own and serve the next run."""
        trained = self._suspects or (self._shipment and True)
        if self._at_rest and self._shipment is not None and trained:
            self._end_trainers(self._shipment.token)
        self._let_go()
        self._clear()
        if self._shipment is not None:
            dismiss(self._shipment.token)


_LOADED: dict[str, str] = {}
"""Sources of the user's own modules that joblib's workers may have loaded: they outlive a run."""
_EDITS: list[str] = []
"""Modules that were seen to have changed since."""


def _crew(code: dict[str, str]) -> dict[str, Any]:
    """What joblib starts workers with: something new after an edit, and then it starts new ones.

    Standing workers would go on training with code from before the edit, and a ledger would keep
    their answers under the new source.
    """
    _EDITS.extend(name for name in code if _LOADED.get(name, code[name]) != code[name])
    _LOADED.update(code)
    return {"initializer": _join, "initargs": (os.getpid(), len(_EDITS))}


def _join(parent: int, _edits: int) -> None:
    """Leave with the parent, even if that is killed before it gives this worker any work.

    Joblib's workers wait minutes for some, and hold the parent's output open. Another number of
    edits makes another crew, which is all that it is for.
    """
    leave_with(parent)


def _end_trainer(token: str) -> int:
    dismiss(token)
    sleep(0.02)  # so that the other workers come to take their share
    return os.getpid()


def _pay(parcel: Parcel, group: Group, suspect: bool, driver: int) -> tuple[float, Results]:
    return pay(unpacked(parcel), _attended(group, driver), suspect)


def _attended(group: Group, driver: int) -> Iterator[Numbered]:
    """Blocks while the driver lives; when it was killed, nobody would keep what comes of them."""
    for numbered in group:
        if os.getppid() != driver:
            os._exit(1)
        yield numbered
