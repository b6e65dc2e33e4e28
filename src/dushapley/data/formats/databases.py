"""A table of a SQLite file, read from its bytes: nothing is opened beside it, nothing is run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

from dushapley.data.formats.columnar import cells_of
from dushapley.data.formats.raw import Account, Raw
from dushapley.data.formats.unpacking import refuse_too_many_bytes, refuse_too_many_rows
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners
from dushapley.validation import suggestion

SECONDS, STEPS = 60.0, 100_000
"""How long a query may take, and how often that is looked at (in steps of SQLite's machine)."""
WRITE_AHEAD = slice(18, 20)
"""Bytes of the header that say that changes wait in another file."""
SAFE = ("trusted_schema=off", "cell_size_check=on", "query_only=on", "mmap_size=0")


def read_database(content: bytes, path: Path, reading: Reading, account: Account) -> Raw:
    """The only table, or the one that was named as `sheet`."""
    waiting = path.with_name(path.name + "-wal")
    if waiting.is_file() and waiting.stat().st_size:
        raise InvalidOwners(
            f"{account.name} has changes that wait in {waiting.name}. Close the program that "
            "writes it, or run `PRAGMA wal_checkpoint(TRUNCATE)` in it."
        )
    plain = bytearray(content)
    plain[WRITE_AHEAD] = b"\x01\x01"
    until = monotonic() + SECONDS
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(bytes(plain))
            database.set_progress_handler(lambda: monotonic() > until, STEPS)
            for pragma in SAFE:
                database.execute(f"pragma {pragma}")
            name = _table_name(database, reading, account)
            return Raw(cells_of(_columns(database, name, reading, account)))
    except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
        raise InvalidOwners(
            f"{account.name} cannot be read as a SQLite file: {error}. Check that it is whole."
        ) from error


def _table_name(database: sqlite3.Connection, reading: Reading, account: Account) -> str:
    found = database.execute(
        "select name from sqlite_master where type = 'table' and rootpage > 0 "
        "and name not like 'sqlite^_%' escape '^' order by name"
    )
    names = [str(name) for (name,) in found]
    wanted = reading.sheet or account.known.get("sheet")
    if wanted is None and len(names) == 1:
        account.detected["sheet"] = names[0]
        return names[0]
    if wanted in names:
        return str(wanted)
    hint = "" if wanted is None else suggestion(wanted, names)
    asked = "" if wanted is None else f"no table {wanted!r} but "
    raise InvalidOwners(
        f"{account.name} holds {asked}{len(names)} tables: {', '.join(map(repr, names[:12]))}."
        f"{hint} Choose one with --read sheet=NAME."
    )


def _columns(
    database: sqlite3.Connection, name: str, reading: Reading, account: Account
) -> Iterator[tuple[str, list[Any]]]:
    quoted = '"' + name.replace('"', '""') + '"'
    cursor = database.execute(f"select * from {quoted}")  # noqa: S608  # quoted, and our own copy
    names = [entry[0] for entry in cursor.description]
    columns: list[list[Any]] = [[] for _ in names]
    size = 0
    for number, row in enumerate(cursor, start=1):
        refuse_too_many_rows(account.name, number, reading)
        for column, cell in zip(columns, row, strict=True):
            size += len(cell) if isinstance(cell, (str, bytes)) else 8
            column.append(None if cell == "" else cell)
        refuse_too_many_bytes(account.name, size, reading.max_bytes)
    yield from zip(names, columns, strict=True)
