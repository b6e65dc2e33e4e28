"""Processes: children that run functions under limits; and a process's threads, signals, folders.

A `Child` is given functions to run, one after the other. It starts with nothing but this file, so
no script runs again in it (none needs ``if __name__ == "__main__":``), and it may be started where
`multiprocessing` forbids children, as in a worker of Dask: that is why neither loky nor pebble is
used. It talks over two pipes and has a session of its own, so it owns no name that a kill could
leave behind, and Ctrl-C is its parent's to answer. It ends with the thread that started it: on
Linux at once, whatever it is doing, elsewhere when it next looks for work.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock, Thread, Timer, current_thread, main_thread
from types import FrameType
from typing import Any

LIKELY = {
    "SIGKILL": ", often for lack of memory",
    "SIGSEGV": ", a crash in compiled code",
    "SIGABRT": ", a crash in compiled code",
}
"""Usual reasons of signals."""


class ChildEnded(Exception):
    """A child process ended before it answered."""


class Child:
    """A process that runs functions one after the other.

    Examples
    --------
    >>> child = Child()
    >>> child.call(divmod, 7, 2)
    (3, 1)
    >>> child.close()
    """

    def __init__(self) -> None:
        self.expired = False
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-P", __file__, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.there: Any = self.process.stdin
        self.back: Any = self.process.stdout
        Thread(target=self.process.wait, daemon=True).start()  # whenever it ends, no zombie stays

    @property
    def alive(self) -> bool:
        """Whether it can be given work."""
        return not self.expired and self.process.poll() is None

    def call(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> Any:
        """Run a function there, and return its result or raise its error.

        Parameters
        ----------
        function, arguments
            What can be pickled, of modules that can be imported.
        seconds
            Time for an answer; then the child is ended.

        Raises
        ------
        TimeoutError
            If there was none in time.
        ChildEnded
            If the child ended by itself, or was killed.
        MemoryError
            If it was refused memory (see `limit_memory`).
        """
        alarm = Timer(seconds or 0.0, self._expire)
        if seconds is not None:
            alarm.start()
        try:
            pickle.dump(pickle.dumps((function, arguments)), self.there)
            self.there.flush()
            answer = pickle.load(self.back)  # noqa: S301 - our own child
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = self.process.wait()
            if self.expired:
                raise TimeoutError(f"no answer within {seconds:g} s") from error
            raise ChildEnded(ending(code)) from error
        finally:
            alarm.cancel()
        done, result = pickle.loads(answer)  # noqa: S301
        if not done:
            raise result
        return result

    def _expire(self) -> None:
        self.expired = True
        self.kill()

    def kill(self) -> None:
        """End the process now, from any thread; whoever waits for its answer is told."""
        self.process.kill()

    def close(self) -> None:
        """End the process, and close what leads to it."""
        self.kill()
        self.process.wait()
        self.back.close()
        with suppress(OSError):  # something may be left in it
            self.there.close()


def ending(code: int) -> str:
    """Return how a process ended, in words.

    Examples
    --------
    >>> ending(-11)
    'the process ended with signal 11 (SIGSEGV, a crash in compiled code)'
    >>> ending(3)
    'the process ended with exit code 3'
    """
    if code >= 0:
        return f"the process ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"the process ended with signal {-code} ({name}{LIKELY.get(name, '')})"


def die_with_parent() -> None:
    """Have Linux end this process with the thread it works for, should Python never run again."""
    with suppress(AttributeError, OSError, TypeError):  # of systems that have no such call
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def limit_memory(size: int) -> None:
    """Refuse this process more than `size` bytes beyond what it has now (Linux only).

    OpenBLAS maps its work space before: where it is refused some, it asks again for ever.
    """
    import resource

    import numpy as np
    from scipy.linalg import blas

    square = np.ones((256, 256))
    np.dot(square, square)
    blas.dgemm(1.0, square, square)  # SciPy has a library of its own
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + size
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def serve() -> None:
    """Run what the parent sends until it sends no more."""
    die_with_parent()
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what functions print goes where errors go
    sys.path[:] = sys.argv[1:]
    while True:
        try:
            request = pickle.load(source)  # noqa: S301
        except EOFError:
            return
        pickle.dump(_answer(request), target)
        target.flush()


def _answer(request: bytes) -> bytes:
    """Return the packed result of a function, or its error, or what can be said of that."""
    try:
        function, arguments = pickle.loads(request)  # noqa: S301
        return pickle.dumps((True, function(*arguments)))
    except (Exception, SystemExit) as error:
        try:
            packed = pickle.dumps((False, error))
            pickle.loads(packed)  # noqa: S301
        except Exception:  # errors may hold what cannot travel
            packed = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return packed


_BLAS_LOCK = Lock()
_BLAS: dict[str, Any] = {"inside": 0, "limit": None}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread in this process while anybody is inside, whichever thread that is.

    Results of BLAS depend on its threads. The limit holds for the whole process, so the first
    thread to enter sets it and the last to leave lifts it.
    """
    with _BLAS_LOCK:
        _BLAS["inside"] += 1
        if _BLAS["inside"] == 1:
            _BLAS["limit"] = _thread_pools(len(sys.modules)).limit(limits=1)
    try:
        yield
    finally:
        with _BLAS_LOCK:
            _BLAS["inside"] -= 1
            if _BLAS["inside"] == 0:
                _BLAS["limit"].restore_original_limits()


@lru_cache(maxsize=1)
def _thread_pools(_modules: int) -> Any:
    """Those of loaded libraries. To look takes milliseconds, and libraries come with modules.

    SciPy's is loaded first: methods that load it later would find it without a limit.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def interrupts_put_off() -> Iterator[Callable[[], None]]:
    """Note a Ctrl-C, and raise it where the function given is called, or at the end.

    Raised anywhere, it may be raised in a destructor, where Python drops it: of the futures of a
    cluster there are many. A second Ctrl-C is not put off. Neither is anything where somebody else
    already listens, or in another thread, which never hears it.
    """
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if heard:
            signal.default_int_handler(number, frame)
        heard.append(number)

    def answer() -> None:
        if heard:
            raise KeyboardInterrupt

    theirs = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if theirs or current_thread() is not main_thread():
        yield answer
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield answer
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    answer()


MACHINE = f"dushapley-{zlib.crc32(platform.node().encode()):08x}"
SHORT = Path("/tmp")  # noqa: S108 - sockets have names of at most 107 letters


def own_folder(longest: int = 255) -> Path:
    """Make a private folder that belongs to this process; its user removes it.

    Parameters
    ----------
    longest
        Letters that its name may have; where the temporary folder's is too long, it is in /tmp.
    """
    remove_abandoned_folders()
    root, prefix = Path(tempfile.gettempdir()), f"{MACHINE}-{os.getpid()}-"
    fits = len(str(root)) + len(prefix) + 9 <= longest
    return Path(tempfile.mkdtemp(prefix=prefix, dir=root if fits else SHORT))


def remove_abandoned_folders() -> None:
    """Remove the folders of processes of this machine that live no longer."""
    for root in {Path(tempfile.gettempdir()), SHORT}:
        for left in root.glob(f"{MACHINE}-*"):
            number = left.name.split("-")[2]
            if Path("/proc/self").exists() and not Path("/proc", number).exists():
                _end_daemons(left.name)
                shutil.rmtree(left, ignore_errors=True)


def _end_daemons(folder: str) -> None:
    """End what Ray started in a folder for a process that is gone; it would write there again."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # of what has ended meanwhile, or is somebody else's
            line = command.read_bytes()
            if folder.encode() in line and b"/ray/" in line:
                os.kill(int(command.parent.name), signal.SIGKILL)


if __name__ == "__main__":
    serve()
