"""Files opened once: their hashes and their tables come from the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple

from dushapley.data.findings import Finding
from dushapley.data.formats.raw import Account
from dushapley.data.formats.unpacking import refuse_too_many_bytes
from dushapley.data.reading import ENDINGS, MAX_BYTES, Reading
from dushapley.errors import InvalidOwners
from dushapley.hashing import sha256

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]
STATISTICS = (".npz",)
RECORDED = ("sep", "encoding", "header", "sheet")
"""What is detected by others' programs, whose next version may detect something else."""


@dataclass(eq=False)
class SourceFile:
    """One file as it was when it was opened: its hash and its rows come from the same bytes.

    Attributes
    ----------
    path
        Where it was read from.
    sha256
        SHA-256 of its bytes, as other programs compute it.
    content
        The bytes, until somebody takes them.
    known
        What was detected when it was read before; it is not detected again.
    """

    path: Path
    sha256: str
    content: bytes | None = field(repr=False)
    known: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: PathLike, most: int = MAX_BYTES) -> SourceFile:
        """Open a file of at most so many bytes, or explain why it cannot be opened."""
        file = Path(path)
        refuse_special(file, most)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InvalidOwners(f"{file} cannot be read: {error}.") from error
        return cls(file, sha256(content).hex(), content)

    def take(self) -> bytes:
        """Hand over the bytes and let go of them, so that no rows are held twice."""
        if self.content is None:
            raise InvalidOwners(f"The rows of {self.path} were taken before; open it again.")
        content, self.content = self.content, None
        return content

    @property
    def owner(self) -> str:
        """Whose file it is, by its name."""
        return owner_name(self.path)

    @cached_property
    def account(self) -> Account:
        """How it was read and what that noticed; empty before `table`."""
        return Account(self.path.name, self.owner)

    def record(self, role: str = "owners") -> dict[str, Any]:
        """Name, role and hash, and what was detected, for the record of a settlement."""
        plain = {"name": self.path.name, "role": role, "sha256": self.sha256}
        read = {key: value for key, value in self.account.detected.items() if key in RECORDED}
        return plain | ({"read": read} if read else {})

    def table(self, reading: Reading | None = None, owner: str | None = None) -> pd.DataFrame:
        """The table in it, or an explanation of why there is none.

        Parameters
        ----------
        reading
            How to read it; None detects everything.
        owner
            Whom findings name; None: the one that the file is named after.
        """
        from dushapley.data.formats.reader import read_frame  # pandas comes with it

        how = reading or Reading()
        known = [key for key in RECORDED if key in self.known and getattr(how, key) is None]
        again = {key: str(self.known[key]) for key in known}
        self.account = Account(self.path.name, owner or self.owner, known=again)
        table = read_frame(self.path, self.take(), how, self.account)
        self.account.detected |= again
        return table


def refuse_special(file: Path, most: int) -> None:
    """Refuse what is not a plain file: folders, pipes and devices, which may never end."""
    try:
        about = file.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidOwners(
            f"There is no file {str(file)[:200]!r} ({reason}). Check its name and folder."
        ) from error
    if not S_ISREG(about.st_mode):
        what = "folder" if S_ISDIR(about.st_mode) else "pipe or device"
        raise InvalidOwners(f"{file} is a {what}, not a file. Save the table as a file first.")
    refuse_too_many_bytes(file.name, about.st_size, most)


def opened(
    files: PathLike | Iterable[PathLike | SourceFile],
) -> tuple[list[SourceFile], tuple[Finding, ...]]:
    """Files opened, and findings about what lies beside them in folders and is not read."""
    given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    known = [file for file in given if isinstance(file, SourceFile)]
    named = [file for file in given if not isinstance(file, SourceFile)]
    found = listing(named) if named or not known else Listing([], ())
    return known + [SourceFile.read(path) for path in found.files], found.skipped


class Listing(NamedTuple):
    """Files to read, and what was found beside them and left out."""

    files: list[Path]
    skipped: tuple[Finding, ...]


def listing(paths: PathLike | Iterable[Any]) -> Listing:
    """The files themselves; a folder stands for its tables, in the order of their names.

    A folder without tables stands for the owners' statistics in it. Whatever else lies in a folder
    is told, but for what programs leave behind: an owner left out in silence is paid nothing.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[Path] = []
    skipped: list[Finding] = []
    for path in map(Path, given):
        # no folder, rather than an error, where no file can have this name
        inside, left = _sorted_out(path) if os.path.isdir(path) else ([path], [])
        files += inside
        skipped += left
    if not files:
        raise InvalidOwners("No files were given; pass one file per owner, or a folder of them.")
    return Listing(files, tuple(skipped))


def _sorted_out(folder: Path) -> tuple[list[Path], list[Finding]]:
    """Tables (or else statistics) of a folder, and findings about all else that lies there."""
    found = sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    tables = [
        path
        for path in found
        if path.name.lower().endswith(ENDINGS) and path.is_file() and path.name[0] != "."
    ]
    inside = tables or [path for path in found if path.name.lower().endswith(STATISTICS)]
    if not inside:
        raise InvalidOwners(
            f"The folder {folder} holds no .csv, .parquet, .xlsx or other table, and no statistics "
            "(.npz). Name a folder or files that hold the owners' tables."
        )
    return inside, [skipped_file(path) for path in found if path not in inside]


def is_hidden(name: str) -> bool:
    """Whether a file is one that programs leave behind, not people."""
    if name.startswith(("._", "~$")) or name.lower() in ("thumbs.db", "desktop.ini"):
        return True
    return name.startswith(".") and not name.lower().endswith(ENDINGS)


def skipped_file(path: Path) -> Finding:
    """The finding about something in a folder that is not read, with the reason."""
    reasons = (
        (path.is_dir(), "it is a folder inside the folder"),
        (path.is_symlink() and not path.exists(), "it is a link to a file that is not there"),
        (path.name.startswith("."), "its name begins with a point, which hides it"),
        (path.name.lower().endswith(STATISTICS), "it holds statistics, beside tables"),
        (path.suffix, f"tables do not end in {path.suffix!r}"),
        (True, "its name has no ending"),
    )
    reason = next(words for holds, words in reasons if holds)
    return Finding(
        "file-skipped",
        "stop",
        f"{path.name} in the folder {path.parent.name} is not read: {reason}. Take it out of the "
        "folder, or name the files one by one.",
        owner=path.name,
        remedy="--accept file-skipped",
    )


def owner_name(path: Path) -> str:
    """A file's name without its folder and ending."""
    for ending in ENDINGS:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return path.name[: -len(ending)]
    return path.name
