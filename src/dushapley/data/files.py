"""Tables from files: CSV and Parquet, one per owner, a folder of them, or one for all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dushapley.data.tables import check_columns, refuse_other_columns, refuse_twins
from dushapley.errors import InvalidOwners

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]
CSV, PARQUET = (".csv", ".csv.gz"), (".parquet", ".pq")
STATISTICS = (".npz",)


def files_in(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """The files themselves; a folder stands for its tables, in the order of their names.

    A folder without tables stands for the owners' statistics in it.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[Path] = []
    for path in map(Path, given):
        if path.is_dir():
            inside = _ending(path, CSV + PARQUET) or _ending(path, STATISTICS)
            if not inside:
                raise InvalidOwners(
                    f"The folder {path} holds no .csv or .parquet file, and no statistics (.npz)."
                )
            found += inside
        else:
            found.append(path)
    if not found:
        raise InvalidOwners("No files were given; pass one file per owner, or a folder of them.")
    return found


def _ending(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.lower().endswith(endings))


def owner_name(path: Path) -> str:
    """A file's name without its folder and ending."""
    for ending in CSV + PARQUET:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return path.name[: -len(ending)]
    return path.name


def read_by_file(paths: PathLike | Iterable[PathLike]) -> dict[str, pd.DataFrame]:
    """One table per file, by the name of the file."""
    tables: dict[str, pd.DataFrame] = {}
    origin: dict[str, Path] = {}
    for path in files_in(paths):
        name = owner_name(path)
        if name in tables:
            raise InvalidOwners(
                f"{origin[name]} and {path} both name the owner {name!r}; rename one of them."
            )
        tables[name], origin[name] = read_table(path), path
    return tables


def read_together(paths: PathLike | Iterable[PathLike]) -> pd.DataFrame:
    """All files as one table; they need the same columns."""
    import pandas as pd

    files = files_in(paths)
    tables = [read_table(path) for path in files]
    for path, table in zip(files, tables, strict=True):
        check_columns(table, str(path))
        refuse_other_columns(files[0].name, tables[0], path.name, table)
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def read_table(path: PathLike) -> pd.DataFrame:
    """One table, or an explanation of why it cannot be read."""
    file = Path(path)
    if not file.is_file():
        raise InvalidOwners(f"There is no file {file}.")
    lower = file.name.lower()
    if lower.endswith(CSV):
        return read_csv(file)
    if lower.endswith(PARQUET):
        return read_parquet(file)
    raise InvalidOwners(
        f"{file} ends in {file.suffix!r}; tables are read from .csv, .csv.gz and .parquet files."
    )


def read_csv(file: Path) -> pd.DataFrame:
    """Comma-separated text in UTF-8 with a line of column names."""
    header = _parsed(file, header=None, nrows=1, dtype=str, keep_default_na=False)
    check_header(file, [str(name) for name in header.iloc[0]])
    return _parsed(file, low_memory=False, index_col=False)


def _parsed(file: Path, **how: Any) -> pd.DataFrame:
    """What pandas reads with these options, or an explanation of why it cannot."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(file, encoding="utf-8-sig", **how)
    except pd.errors.EmptyDataError as error:
        raise InvalidOwners(
            f"{file} is empty; needed is a line of names and one line per row."
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
    refuse_twins(names, str(file))


def read_parquet(file: Path) -> pd.DataFrame:
    """A Parquet file."""
    import pandas as pd

    try:
        return pd.read_parquet(file)
    except (OSError, ValueError, ImportError) as error:
        raise InvalidOwners(f"{file} cannot be read as Parquet: {error}.") from error
