"""Where a command writes: refused before anything is paid, if it could not or should not.

An output never hits an input, nor another output. A file that stands there is replaced only if it
was written for the same job (same files in the same roles, same target and owners) and, where it
shares money, for the same pot by the same rule; or on --force.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

from typer import Option

from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.hashing import digest
from dushapley.settlement.money import NO_CAP
from dushapley.terminal import printable

Force = Annotated[
    bool,
    Option("--force", help="Replace files that were written for something else; never inputs."),
]
STAMP = re.compile(rb"dushapley-job:([0-9a-f]{64})")
TERMS = re.compile(rb"dushapley-terms:([0-9a-f]{64})")
STAMPED_WITHIN = 2**16
"""Bytes of either end of a file in which its stamp is looked for."""


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


def identity(record: Mapping[str, Any]) -> str:
    """What makes two jobs the same, from the record of one: roles and names of files, columns."""
    files = sorted(f"{file['role']} {file['name']}" for file in record["inputs"])
    columns = [str(record["job"].get(name)) for name in ("target", "owner", "by_file")]
    return digest("job", *files, *columns)


def terms_of(settled: Mapping[str, Any]) -> str:
    """What makes two settlements share the same money by the same rule, from a stored one."""
    cap = None if settled.get("cap") == NO_CAP else settled.get("cap")
    names = ("pot", "currency", "negative", "floor")
    return digest("terms", *(str(settled.get(name)) for name in names), str(cap))


def stamp(job: str) -> str:
    """How a page or picture says which job it was written for."""
    return f"dushapley-job:{job}"


def stamped(page: str, job: str, terms: str = "") -> str:
    """A page that says so, and what it shares by which rule, where no browser shows it."""
    shared = f" dushapley-terms:{terms}" if terms else ""
    return f"{page.rstrip()}\n<!-- {stamp(job)}{shared} -->\n"


def refuse_outputs(
    outputs: Sequence[Output], inputs: Iterable[Path], *, force: bool = False
) -> None:
    """Refuse files that cannot be written, that are read, that meet, or that are another job's."""
    read = list(inputs)
    seen: dict[str, str] = {}
    for output in outputs:
        option, path = output.option, output.path
        refuse_unwritable(option, path)
        hit = next((file for file in read if same_file(path, file)), None)
        if hit is not None:
            raise InvalidOption(
                f"{option} {path} is the input {hit}, which would be overwritten. Name another "
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
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        fault = None if there.is_dir() else "is not a folder"
        if fault is None:
            try_writing(there)
    except OSError:
        fault = "cannot be written"
    if fault is not None:
        raise InvalidOption(
            f"{option} {folder}: {there} {fault}. Name a folder that can be written, or a new one."
        )


def fault_of(path: Path) -> str | None:
    """Why nothing can be written there, as far as it can be told without writing it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            return "is a folder"
        if not stat.S_ISREG(kind):
            return "is not a plain file"
        if not os.access(path, os.W_OK):
            return "is read-only"
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        return f"cannot be written: there is no folder {path.parent}"
    try_writing(folder)
    return None


def try_writing(folder: Path) -> None:
    """Make a file in a folder and take it away again, or raise what the system says to it."""
    trial = folder / f".{token_hex(8)}.tmp"
    trial.touch(exist_ok=False)
    trial.unlink()


def refuse_strange(output: Output, *, force: bool) -> None:
    """Refuse to replace what was not written for the same job, or shares other money."""
    if force or output.job is None or not output.path.exists():
        return
    again = "Name another file, or add --force to replace it."
    stands = f"{output.option} {output.path} exists and"
    if job_in(output.path) != output.job:
        raise InvalidOption(
            f"{stands} was not written for this job (the same files, target and owners"
            f"{_about(output.path)}). {again}"
        )
    found = terms_in(output.path)
    if output.terms and found and found != output.terms:
        raise InvalidOption(
            f"{stands} shares another pot, or by another rule{_pot(output.path)}. {again}"
        )


def _ends(path: Path) -> bytes:
    """The first and the last of a file's bytes."""
    with path.open("rb") as file:
        head = file.read(STAMPED_WITHIN)
        file.seek(-min(STAMPED_WITHIN, path.stat().st_size), os.SEEK_END)
        return head + file.read()


def _settled(path: Path) -> dict[str, Any]:
    """A settlement that stands there; nothing where there is none."""
    from dushapley.settlement.verification import as_stored

    with path.open("rb") as file:
        if not file.read(STAMPED_WITHIN).lstrip().startswith(b"{"):
            return {}
    try:
        found = as_stored(path)
    except InvalidSettlement:
        return {}
    return found if isinstance(found, dict) else {}


def _about(path: Path) -> str:
    """What a settlement's own job predicts, which shows a target that was mistyped."""
    job = (_settled(path).get("record") or {}).get("job") or {}
    return printable(f"; its target is {job['target']!r}") if job.get("target") else ""


def _pot(path: Path) -> str:
    settled = _settled(path)
    if not settled:
        return ""
    amount = f"{settled.get('pot')} {settled.get('currency')}".strip()
    return printable(f": {amount} by {settled.get('negative')!r}")


def job_in(path: Path) -> str | None:
    """The job that a settlement, page or picture was written for; None where it does not say."""
    if found := STAMP.search(_ends(path)):
        return found[1].decode()
    try:
        return identity(_settled(path)["record"])
    except (KeyError, TypeError, AttributeError):
        return None


def terms_in(path: Path) -> str | None:
    """Pot and rule of a settlement, page or letter that stands there; None where it has none."""
    if found := TERMS.search(_ends(path)):
        return found[1].decode()
    settled = _settled(path)
    return terms_of(settled) if settled else None


def same_file(one: Path, other: Path) -> bool:
    """Whether two names lead to one file, by links of either kind or by case as well."""
    return one.exists() and other.exists() and one.samefile(other)
