"""Where a command writes: refused before anything is paid, if it could not or should not.

An output never hits an input, nor another output. A file that stands there is replaced only if it
was written for the same job (same files in the same roles, same target and owners) and, where it
shares money, for the same pot by the same rule; or on --force.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, NamedTuple

from typer import Option

from dushapley.arrays import AnyMapping
from dushapley.data.outputs import write_whole
from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.hashing import digest
from dushapley.settlement.money import NO_CAP
from dushapley.settlement.verification import as_stored
from dushapley.terminal import printable, say

Force = Annotated[
    bool,
    Option("--force", help="Replace files that were written for something else; never inputs."),
]
STAMP = re.compile(rb"dushapley-job:([0-9a-f]{64})")
TERMS = re.compile(rb"dushapley-terms:([0-9a-f]{64})")


@dataclass(frozen=True)
class Output:
    """A file that a command is going to write.

    Attributes
    ----------
    option
        The option that names it, for messages.
    path
        Where it goes.
    job
        Identity of its job, which a file that is to be replaced must share; None: the file is added
        to, and checks for itself what stands there (a ledger).
    terms
        Pot and rule, of what shares money (`terms_of`); "" for what does not.
    """

    option: str
    path: Path
    job: str | None
    terms: str = ""


def planned(job: str, terms: str = "", **files: Path | None) -> list[Output]:
    """Files that were asked for, by the names of their options."""
    return [
        Output(f"--{name.replace('_', '-')}", path, job, terms)
        for name, path in files.items()
        if path
    ]


def identity(record: AnyMapping) -> str:
    """What makes two jobs the same, from the record of one: roles and names of files, columns."""
    files = sorted(f"{file['role']} {file['name']}" for file in record["inputs"])
    columns = [str(record["job"].get(name)) for name in ("target", "owner", "by_file")]
    return digest("job", *files, *columns)


def terms_of(settled: AnyMapping) -> str:
    """What makes two settlements share the same money by the same rule, from a stored one."""
    cap = None if settled.get("cap") == NO_CAP else settled.get("cap")
    rule = (str(settled.get(name)) for name in ("pot", "currency", "negative", "floor"))
    return digest("terms", *rule, str(cap))


def stamp(job: str) -> str:
    """How a page or picture says which job it was written for."""
    return f"dushapley-job:{job}"


def stamped(page: str, job: str, terms: str = "") -> str:
    """A page that says so, and what it shares by which rule, where no browser shows it."""
    shared = f" dushapley-terms:{terms}" if terms else ""
    return f"{page.rstrip()}\n<!-- {stamp(job)}{shared} -->\n"


def letter_identity(owner: str, target: object) -> str:
    """Whose letter it is, from what this owner knows: the others' files are not its business."""
    return digest("page", owner, str(target))


def letter_name(stem: str, position: int, owner: str) -> str:
    """A file name that no owner's name can lead astray: letters and digits of any script."""
    plain = re.sub(r"\W+", "-", owner)[:40].strip("-_")
    return f"{stem}-{position + 1:03d}{'-' * bool(plain)}{plain}.html"


def write(path: Path, content: str | bytes) -> None:
    """Write a file and say where it is."""
    say(f"written: {write_whole(path, content)}")


def refuse_outputs(
    outputs: Sequence[Output], inputs: Iterable[Path | None], *, force: bool = False
) -> None:
    """Refuse files that cannot be written, that are read, that meet, or that are another job's."""
    read = [file for file in inputs if file is not None and file.exists()]
    seen: dict[str, str] = {}
    for output in outputs:
        option, path = output.option, output.path
        refuse_unwritable(option, path)
        hit = [file for file in read if path.exists() and path.samefile(file)]
        if hit:
            raise InvalidOption(
                f"{option} {path} is the input {hit[0]}, which would be overwritten. Name another "
                "file to write."
            )
        place = os.path.realpath(path).casefold()  # some systems keep one file for both cases
        if place in seen:
            raise InvalidOption(
                f"{seen[place]} and {option} both name {path}; one would overwrite the other. Name "
                "two files."
            )
        seen[place] = option
        refuse_strange(output, force=force)


def refuse_unwritable(option: str, path: Path) -> None:
    """Refuse a file that could not be written, by trying to make one beside it."""
    try:
        fault = fault_of(path)
    except (OSError, ValueError) as error:
        fault = f"cannot be written: {getattr(error, 'strerror', None) or error}"
    if fault is not None:
        raise InvalidOption(
            f"{option} {printable(str(path))} {fault}. Name a file in a folder that can be written."
        )


def refuse_no_folder(option: str, folder: Path) -> None:
    """Refuse a folder to write into that is not one and cannot be made."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        TemporaryFile(dir=there).close()
    except OSError as error:
        fault = "cannot be written" if there.is_dir() else "is not a folder"
        raise InvalidOption(
            f"{option} {folder}: {there} {fault}. Name a folder that can be written, or a new one."
        ) from error


def fault_of(path: Path) -> str | None:
    """Why nothing can be written there, as far as it can be told without writing it."""
    kind, folder = 0, Path(os.path.realpath(path)).parent
    with suppress(FileNotFoundError, NotADirectoryError):
        kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        return "is a folder"
    if kind and not (stat.S_ISREG(kind) and os.access(path, os.W_OK)):
        return "is read-only" if stat.S_ISREG(kind) else "is not a plain file"
    if not folder.is_dir():
        return f"cannot be written: there is no folder {path.parent}"
    TemporaryFile(dir=folder).close()
    return None


def refuse_strange(output: Output, *, force: bool) -> None:
    """Refuse to replace what was not written for the same job, or shares other money."""
    if force or output.job is None or not output.path.exists():
        return
    found, stands = purpose_of(output.path), f"{output.option} {output.path} exists and"
    again = "Name another file, or add --force to replace it."
    if found.job != output.job:
        target = f"; its target is {found.target!r}" if found.target else ""
        raise InvalidOption(
            f"{stands} was not written for this job (the same files, target and owners"
            f"{printable(target)}). {again}"
        )
    if output.terms and found.terms and found.terms != output.terms:
        raise InvalidOption(f"{stands} shares another pot, or by another rule. {again}")


class Purpose(NamedTuple):
    """What a file was written for: a job, pot and rule, and the target where it is legible."""

    job: str | None = None
    terms: str | None = None
    target: str | None = None


def purpose_of(path: Path) -> Purpose:
    """What a settlement, page or picture was written for, as far as it says so."""
    content = path.read_bytes()
    job, terms = (mark.search(content) for mark in (STAMP, TERMS))
    if job is not None:
        return Purpose(job[1].decode(), terms and terms[1].decode())
    try:
        settled = as_stored(path)
        record = settled["record"]
        return Purpose(identity(record), terms_of(settled), record["job"].get("target"))
    except (InvalidSettlement, LookupError, TypeError, AttributeError):
        return Purpose()
