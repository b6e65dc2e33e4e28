"""Bytes out of compressed files, within stated limits: a small file can hold a large one."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, Any
from zipfile import BadZipFile, LargeZipFile, ZipFile

from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners

CHUNK = 1 << 20
PACKED = (".gz", ".zip")
DAMAGED = (OSError, EOFError, zlib.error, BadZipFile, LargeZipFile, RuntimeError, ValueError,
           OverflowError)  # fmt: skip
"""What the standard library raises on archives that are cut short, damaged, or locked.

RuntimeError and what is derived from it: of locked ones, and of ways to compress that it lacks.
"""


def unpacked(name: str, content: bytes, reading: Reading) -> tuple[str, bytes]:
    """A file without its compression: its name and its bytes."""
    lower = name.lower()
    try:
        if lower.endswith(".gz"):
            return name[:-3], _whole(name, lambda: gzip.open(BytesIO(content)), reading)
        if lower.endswith(".zip"):
            return _only_member(name, content, reading)
    except InvalidOwners:  # in good order, but not what can be read
        raise
    except DAMAGED as error:
        raise InvalidOwners(
            f"{name} cannot be unpacked ({error or type(error).__name__}): it is damaged, locked "
            "or cut short. Get it again, or unpack it yourself."
        ) from error
    return name, content


def _only_member(name: str, content: bytes, reading: Reading) -> tuple[str, bytes]:
    with ZipFile(BytesIO(content)) as archive:
        files = [i for i in archive.infolist() if not i.is_dir()]
        inside = [i for i in files if not re.search(r"^__MACOSX/|(^|/)\.[^/]*$", i.filename)]
        if len(inside) != 1:
            held = ", ".join(repr(i.filename) for i in inside[:4])
            raise InvalidOwners(
                f"{name} holds {len(inside)} files{f' ({held})' * bool(inside)}; a table is read "
                "from a .zip with one file in it. Unpack it and name the files."
            )
        member = PurePosixPath(inside[0].filename).name
        return member, _whole(name, lambda: archive.open(inside[0]), reading)


def _whole(name: str, opened: Callable[[], Any], reading: Reading) -> bytes:
    """All of a stream, counted before it is kept, so that a bomb takes time but no memory."""
    with opened() as stream:
        for total in _running_total(stream):
            refuse_too_many_bytes(name, total, reading.max_bytes)
    with opened() as stream:
        return stream.read()


def _running_total(stream: IO[bytes]) -> Iterator[int]:
    total = 0
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        yield total


def refuse_too_many_bytes(name: str, found: int, most: int) -> None:
    """Refuse a file that is larger, unpacked, than it may be."""
    if found > most:
        raise InvalidOwners(
            f"{name} holds more than {most:,} bytes, unpacked; that is the most that "
            "is read of one file. Raise it with --max-bytes if the file is in order."
        )


def refuse_too_many_rows(name: str, found: int, reading: Reading) -> None:
    """Refuse a file of more rows than it may have."""
    if found > reading.max_rows:
        raise InvalidOwners(
            f"{name} has {found:,} rows; at most {reading.max_rows:,} are read of one file. Raise "
            "it with --max-rows if the file is in order."
        )


def refuse_archive_bomb(name: str, content: bytes, reading: Reading) -> None:
    """Refuse an archive whose members unpack to too much, together."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            total = 0
            for member in archive.infolist():
                with archive.open(member) as stream:
                    for size in _running_total(stream):
                        refuse_too_many_bytes(name, total + size, reading.max_bytes)
                    total += member.file_size
    except InvalidOwners:
        raise
    except DAMAGED as error:
        raise InvalidOwners(
            f"{name} is damaged ({error or type(error).__name__}). Save it again."
        ) from error
