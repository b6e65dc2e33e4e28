"""Where a run puts data while it is on its way, and what is swept of runs that were killed.

Local workers map the game into memory from a file; Dask and Ray need folders, too. All of that goes
into one folder of the running process, which only its user can enter:

    /dev/shm/dushapley-UID/PID-START

(in `JOBLIB_TEMP_FOLDER` where that is set, in the temporary folder where shared memory is small,
and always there for Dask and Ray, which write what does not fit into memory). The process locks it
as long as it lives, and removes it when it ends. A process that is killed cannot; so every run
begins by removing the folders that nobody locks any more, and what joblib left under the same
numbers.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path
from time import time

from dushapley.errors import WorkersLost

SHARED = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory
ENOUGH = 2 * 10**9
"""Bytes that shared memory must have free to be used; joblib's own rule."""

_FOLDERS: dict[tuple[int, Path], tuple[Path, int]] = {}
"""Folder and lock of this process, by its number (a fork is another) and by where it is."""


def workspace(*, on_disk: bool = False) -> Path:
    """This process's own folder; made when it is first needed."""
    place = os.getpid(), _folder_in(Path(tempfile.gettempdir())) if on_disk else _root()
    if place not in _FOLDERS:
        _FOLDERS[place] = _made(place[1])
        atexit.register(_remove, *place)
    return _FOLDERS[place][0]


def _made(root: Path) -> tuple[Path, int]:
    try:
        with _locked(root):
            folder = root / f"{os.getpid()}-{int(time())}"
            folder.mkdir(mode=0o700)
            lock = os.open(folder, os.O_RDONLY)
            flock(lock, LOCK_EX)
            return folder, lock
    except OSError as error:
        raise WorkersLost(
            f"Data cannot be put into {root} ({error.strerror}). Free some space, or name another "
            "folder in JOBLIB_TEMP_FOLDER."
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
    flock(lock, LOCK_EX)
    about = os.fstat(lock)
    if about.st_uid != os.getuid() or about.st_mode & 0o077:
        os.close(lock)
        raise PermissionError(0, "others can enter it")
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
    for root in dict.fromkeys([_root(), *map(_folder_in, (SHARED, Path(tempfile.gettempdir())))]):
        if root.is_dir():
            with suppress(OSError), _locked(root):
                for folder in root.iterdir():
                    if _is_abandoned(folder):
                        _sweep_joblib(int(folder.name.partition("-")[0]))
                        shutil.rmtree(folder, ignore_errors=True)
                if not any(root.iterdir()):
                    root.rmdir()


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody holds the folder's lock: whoever made it has ended, however it ended."""
    if not folder.name.partition("-")[0].isdecimal():
        return False
    lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        flock(lock, LOCK_EX | LOCK_NB)
        flock(lock, LOCK_UN)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _sweep_joblib(number: int) -> None:
    """Semaphores and folders that joblib made for a process of ours, unless it lives again."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(number, 0)
        return
    for place in (SHARED, Path(tempfile.gettempdir())):
        for left in place.glob(f"joblib_memmapping_folder_{number}_*"):
            shutil.rmtree(left, ignore_errors=True)
        for left in place.glob(f"sem.loky-{number}-*"):
            with suppress(OSError):
                left.unlink()


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
