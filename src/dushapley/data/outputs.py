"""Files that we write: whole or not at all, whatever stood there before."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex

from dushapley.errors import NotWritten


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file by way of a temporary one beside it, which is renamed once it is on the disk.

    Whoever looks sees the old file or the new one, never a part, also after a crash. A link is
    followed, and a file that is replaced keeps its permissions.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(f"{folder}/page.html", "<p>Grüße").read_text(encoding="utf-8")
    '<p>Grüße'
    """
    data = content if isinstance(content, bytes) else in_utf8(content, os.fspath(path))
    try:
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _settle_folder(target.parent)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotWritten(
            f"{os.fspath(path)} could not be written: {reason}. What stood there is unchanged. "
            "Free some space or name another file, and run the same again."
        ) from error
    return Path(path)


def in_utf8(text: str, where: str) -> bytes:
    """Text as bytes; refused where some name in it is not Unicode (bytes of an odd file name)."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end + 20]
        raise NotWritten(
            f"{where} could not be written: {around!a} holds characters that are not Unicode, "
            "most likely from a file's name. Rename that file and run the same again."
        ) from error


def _settle_folder(folder: Path) -> None:
    """Have the new name itself on the disk; only Unix opens folders for that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
