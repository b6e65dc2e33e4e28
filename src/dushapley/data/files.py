"""Tables from files: CSV and Parquet, one per owner, a folder of them, or one for all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dushapley.data.findings import Finding
from dushapley.data.tables import check_columns, refuse_other_columns
from dushapley.errors import InvalidOwners
from dushapley.hashing import sha256

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]
CSV, PARQUET = (".csv", ".csv.gz"), (".parquet", ".pq")
TABLES = CSV + PARQUET
STATISTICS = (".npz",)


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
    """

    path: Path
    sha256: str
    content: bytes | None = field(repr=False)

    @classmethod
    def read(cls, path: PathLike) -> SourceFile:
        """Open a file, or explain why it cannot be opened."""
        file = Path(path)
        if not file.is_file():
            raise InvalidOwners(f"There is no file {file}. Check its name and folder.")
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

    def record(self, role: str = "owners") -> dict[str, str]:
        """Name, role and hash, for the record of a settlement."""
        return {"name": self.path.name, "role": role, "sha256": self.sha256}

    def table(self) -> pd.DataFrame:
        """The table in it, or an explanation of why there is none."""
        for endings, reader in ((CSV, read_csv), (PARQUET, read_parquet)):
            if self.path.name.lower().endswith(endings):
                return reader(self.path, self.take())
        raise InvalidOwners(
            f"{self.path} ends in {self.path.suffix!r}; tables are read from .csv, .csv.gz and "
            ".parquet files."
        )


def sources(files: PathLike | Iterable[PathLike | SourceFile]) -> list[SourceFile]:
    """Files opened, each once; those that are open already stay as they are."""
    given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    opened = [file for file in given if isinstance(file, SourceFile)]
    named = [file for file in given if not isinstance(file, SourceFile)]
    if opened and not named:
        return opened
    return opened + [SourceFile.read(path) for path in files_in(named)]


class Listing(NamedTuple):
    """Files to read, and what was found beside them and left out."""

    files: list[Path]
    skipped: tuple[Finding, ...]


def files_in(paths: PathLike | Iterable[Any]) -> list[Path]:
    """The files themselves; `listing` says more."""
    return listing(paths).files


def listing(paths: PathLike | Iterable[Any]) -> Listing:
    """The files themselves; a folder stands for its tables, in the order of their names.

    A folder without tables stands for the owners' statistics in it. Whatever else lies in a folder
    is told, but for hidden files: an owner who is left out in silence is paid nothing.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[Path] = []
    skipped: list[Finding] = []
    for path in map(Path, given):
        if path.is_dir():
            inside, left = _sorted_out(path)
            files += inside
            skipped += left
        else:
            files.append(path)
    if not files:
        raise InvalidOwners("No files were given; pass one file per owner, or a folder of them.")
    return Listing(files, tuple(skipped))


def _sorted_out(folder: Path) -> tuple[list[Path], list[Finding]]:
    """Tables (or else statistics) of a folder, and findings about all else that lies there."""
    found = sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    tables = [path for path in found if path.name.lower().endswith(TABLES) and path.is_file()]
    inside = tables or [path for path in found if path.name.lower().endswith(STATISTICS)]
    if not inside:
        raise InvalidOwners(
            f"The folder {folder} holds no .csv or .parquet file, and no statistics (.npz). "
            "Name a folder or files that hold the owners' tables."
        )
    return inside, [skipped_file(path) for path in found if path not in inside]


def is_hidden(name: str) -> bool:
    """Whether a file is one that programs leave behind, not people."""
    return name.startswith((".", "~$")) or name.lower() in ("thumbs.db", "desktop.ini")


def skipped_file(path: Path) -> Finding:
    """The finding about something in a folder that is not read, with the reason."""
    if path.is_dir():
        reason = "it is a folder inside the folder"
    elif path.name.lower().endswith(STATISTICS):
        reason = "it holds statistics, beside tables"
    else:
        reason = (
            f"tables do not end in {path.suffix!r}" if path.suffix else "its name has no ending"
        )
    return Finding(
        "file-skipped",
        "stop",
        f"{path.name} in the folder {path.parent.name} is not read: {reason}. Take it out of the "
        "folder, or name the files one by one.",
        owner=path.name,
    )


def owner_name(path: Path) -> str:
    """A file's name without its folder and ending."""
    for ending in CSV + PARQUET:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return path.name[: -len(ending)]
    return path.name


def read_by_file(files: Sequence[SourceFile]) -> dict[str, pd.DataFrame]:
    """One table per file, by the name of the file."""
    by_owner: dict[str, SourceFile] = {}
    for file in files:
        if file.owner in by_owner:
            raise InvalidOwners(
                f"{by_owner[file.owner].path} and {file.path} both name the owner {file.owner!r}; "
                "rename one of them."
            )
        by_owner[file.owner] = file
    return {name: file.table() for name, file in by_owner.items()}


def read_together(files: Sequence[SourceFile]) -> pd.DataFrame:
    """All files as one table; they need the same columns."""
    import pandas as pd

    tables = [file.table() for file in files]
    for file, table in zip(files, tables, strict=True):
        check_columns(table.columns, str(file.path))
        refuse_other_columns(files[0].path.name, tables[0], file.path.name, table)
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def read_table(path: PathLike) -> pd.DataFrame:
    """One table, or an explanation of why it cannot be read."""
    return SourceFile.read(path).table()


def read_csv(file: Path, content: bytes) -> pd.DataFrame:
    """Comma-separated text in UTF-8 with a line of column names."""
    header = _parsed(file, content, header=None, nrows=1, dtype=str, keep_default_na=False)
    check_header(file, [str(name) for name in header.iloc[0]])
    return _parsed(file, content, low_memory=False, index_col=False)


def _parsed(file: Path, content: bytes, **how: Any) -> pd.DataFrame:
    """What pandas reads with these options, or an explanation of why it cannot."""
    import pandas as pd

    packed: Any = "gzip" if file.name.lower().endswith(".gz") else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(BytesIO(content), encoding="utf-8-sig", compression=packed, **how)
    except pd.errors.EmptyDataError as error:
        raise InvalidOwners(
            f"{file} is empty; it needs a line of names and one line per row."
        ) from error
    except pd.errors.ParserWarning as error:
        raise InvalidOwners(
            f"{file} has rows with more fields than its first line has names. Name every column."
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidOwners(
            f"{file} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    except (pd.errors.ParserError, ValueError, OSError) as error:
        raise InvalidOwners(f"{file} cannot be read as CSV: {str(error).strip()}.") from error


def check_header(file: Path, names: list[str]) -> None:
    """Refuse headers that pandas would mend in silence, or that commas do not separate."""
    other = next((mark for mark in (";", "\t", "|") if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise InvalidOwners(
            f"{file} seems to have its columns separated by {other!r}: its first line is a single "
            f"name, {names[0][:60]!r}. Save it with commas between (and decimal points)."
        )
    blank = [position for position, name in enumerate(names) if not name.strip()]
    if blank:
        raise InvalidOwners(
            f"Column {blank[0] + 1} of {file} has no name. Name it, or leave it out (pandas "
            "writes such a column unless told index=False)."
        )
    check_columns(names, str(file))


def read_parquet(file: Path, content: bytes) -> pd.DataFrame:
    """A Parquet file."""
    import pandas as pd

    try:
        return pd.read_parquet(BytesIO(content))
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).replace("'<Buffer>'", "it")
        raise InvalidOwners(f"{file} cannot be read as Parquet: {reason}.") from error
