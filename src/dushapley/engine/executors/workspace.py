"""Where a run puts data while it is on its way, and what is swept of runs that were killed.

Local workers map the game into memory from a file; Dask and Ray need folders, too. All of that goes
into one folder of the running process, which only its user can enter:

    /dev/shm/dushapley-UID/PID-START

(in `JOBLIB_TEMP_FOLDER` where that is set, in the temporary folder where shared memory is small,
and always there for Dask and Ray, which write what does not fit into memory). The process locks it
as long as it lives, and removes it when it ends. A process that is killed cannot; so every run
begins by removing the folders that nobody locks any more, and what joblib left under the same
numbers. Where the system has no such locks, the folder is a plain temporary one, and nothing is
swept.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import current_process
from pathlib import Path
from time import time

from dushapley.errors import WorkersLost

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SHARED = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory
SHORT = Path("/tmp")  # noqa: S108 - a name that leaves room for those of sockets
ENOUGH = 2 * 10**9
"""Bytes that shared memory must have free to be used; joblib's own rule."""

_FOLDERS: dict[tuple[int, Path], tuple[Path, int]] = {}
"""Folder and lock of this process, by its number (a fork is another) and by where it is."""


def workspace(*, on_disk: bool = False, longest: int = 255) -> Path:
    """This process's own folder; made when it is first needed.

    Parameters
    ----------
    on_disk
        Whether it may not be in shared memory.
    longest
        Letters that its name may have; a longer one makes room for one in /tmp.
    """
    if fcntl is None:
        return _unlocked(os.getpid())
    root = _folder_in(Path(tempfile.gettempdir())) if on_disk else _root()
    if len(str(root)) + len(_name()) + 1 > longest:
        root = _folder_in(SHORT)
    if (os.getpid(), root) not in _FOLDERS:
        _FOLDERS[os.getpid(), root] = _made(root)
        atexit.register(_remove, os.getpid(), root)
    return _FOLDERS[os.getpid(), root][0]


@cache
def _unlocked(_number: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="dushapley-", dir=os.environ.get("JOBLIB_TEMP_FOLDER")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _name() -> str:
    return f"{os.getpid()}-{int(time())}"


def _made(root: Path) -> tuple[Path, int]:
    try:
        with _locked(root):
            folder = root / _name()
            folder.mkdir(mode=0o700)
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            return folder, lock
    except OSError as error:
        raise WorkersLost(
            f"Data cannot be put into {root} ({error.strerror}). Free some space, or name another "
            "folder in JOBLIB_TEMP_FOLDER (for a cluster or a federation in TMPDIR)."
        ) from error


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """The folder of all processes of this user; one of them at a time makes or sweeps."""
    lock = _lock(root)
    while not _is_same(root, lock):  # removed while we waited
        os.close(lock)
        lock = _lock(root)
    try:
        yield
    finally:
        os.close(lock)


def _lock(root: Path) -> int:
    with suppress(FileExistsError):
        root.mkdir(mode=0o700, parents=True)
    lock = os.open(root, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    about = os.fstat(lock)
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        os.close(lock)
        raise PermissionError(0, "others can enter it")
    os.fchmod(lock, 0o700)  # Ray makes what we have removed again, for all to read
    return lock


def _is_same(root: Path, lock: int) -> bool:
    with suppress(FileNotFoundError):
        return root.stat().st_ino == os.fstat(lock).st_ino
    return False


def _remove(number: int, root: Path) -> None:
    """Remove a folder of this process, and that of all its user's processes if it was the last."""
    if number == os.getpid() and (number, root) in _FOLDERS:
        folder, lock = _FOLDERS.pop((number, root))
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        with suppress(OSError):
            root.rmdir()


def sweep() -> None:
    """Remove what killed processes of this user left."""
    if fcntl is None:
        return
    places = SHARED, SHORT, Path(tempfile.gettempdir())
    for root in dict.fromkeys([_root(), *map(_folder_in, places)]):
        if root.is_dir():
            with suppress(OSError), _locked(root):
                for folder in root.iterdir():
                    if _is_abandoned(folder):
                        _sweep(folder, int(folder.name.partition("-")[0]))
                if not any(root.iterdir()):
                    root.rmdir()


def _sweep(folder: Path, number: int) -> None:
    """Remove what is in an abandoned folder; itself once its process has quite gone.

    As long as the number is somebody's (of a process whose parent has not noticed its end, say),
    what joblib left under it is not ours to judge, and the empty folder reminds us of it.
    """
    for inside in folder.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside, ignore_errors=True)
        else:
            inside.unlink()
    if not _is_alive(number):
        _sweep_joblib(number)
        folder.rmdir()


def _is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):  # no process can have such a number
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody holds the folder's lock: whoever made it has ended, however it ended."""
    if not folder.name.partition("-")[0].isdecimal():
        return False
    lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_UN)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _sweep_joblib(number: int) -> None:
    """Semaphores and folders that joblib made for a process of ours."""
    for place in (SHARED, Path(tempfile.gettempdir())):
        for left in place.glob(f"joblib_memmapping_folder_{number}_*"):
            shutil.rmtree(left, ignore_errors=True)
        for maker in ("loky", "dushapley"):
            for left in place.glob(f"sem.{maker}-{number}-*"):
                with suppress(OSError):
                    left.unlink()


def name_semaphores() -> None:
    """Have Python name this process's semaphores so that they can be swept if it is killed."""
    with suppress(AttributeError, KeyError):
        current_process()._config["semprefix"] = f"/dushapley-{os.getpid()}"  # type: ignore[attr-defined]


def _root() -> Path:
    """The folder of all processes of this user: in shared memory where there is enough of it."""
    if named := os.environ.get("JOBLIB_TEMP_FOLDER"):
        return _folder_in(Path(named))
    with suppress(OSError):
        free = os.statvfs(SHARED)
        if free.f_bsize * free.f_bavail > ENOUGH and os.access(SHARED, os.W_OK):
            return _folder_in(SHARED)
    return _folder_in(Path(tempfile.gettempdir()))


def _folder_in(place: Path) -> Path:
    return place.absolute() / f"dushapley-{os.getuid()}"
