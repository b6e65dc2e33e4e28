"""Parquet and JSON lines, by Arrow; tables of SQLite files, of which nothing is run."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.json as json_lines
import pyarrow.parquet as parquet

from dushapley.data.formats.raw import Account, Raw, as_text
from dushapley.data.formats.text import as_utf8
from dushapley.data.formats.unpacking import refuse_too_many_bytes, refuse_too_many_rows
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners
from dushapley.validation import suggestion

BATCH = 1 << 16
FIXED = 8
"""Bytes that a number takes at most, once it is read."""
SECONDS, STEPS = 60.0, 100_000
"""How long a query may take, and how often that is looked at (in steps of SQLite's machine)."""
WRITE_AHEAD = slice(18, 20)
"""Bytes of the header that say that changes wait in another file."""
SAFE = ("trusted_schema=off", "cell_size_check=on", "query_only=on", "mmap_size=0")


def read_parquet(content: bytes, reading: Reading, account: Account) -> pd.DataFrame:
    """A Parquet file, with the index and the types that pandas wrote into it."""
    try:
        return _parquet_table(content, reading, account).to_pandas()
    except InvalidOwners:
        raise
    except Exception as error:  # damaged metadata of pandas raises whatever it likes
        reason = str(error).replace("'<Buffer>'", "it").strip() or type(error).__name__
        raise InvalidOwners(
            f"{account.name} cannot be read as Parquet: {reason[:300]}. Write it again."
        ) from error


def _parquet_table(content: bytes, reading: Reading, account: Account) -> pa.Table:
    """All rows, counted before and while they are unpacked."""
    # text is kept as a dictionary until its real size is known
    able = (pa.types.is_string, pa.types.is_binary)
    schema = parquet.ParquetFile(BytesIO(content)).schema_arrow
    words = [field.name for field in schema if any(test(field.type) for test in able)]
    file = parquet.ParquetFile(BytesIO(content), read_dictionary=words)
    found = file.metadata
    refuse_too_many_rows(account.name, found.num_rows, reading)
    groups = [found.row_group(k) for k in range(found.num_row_groups)]
    refuse_too_many_bytes(account.name, sum(g.total_byte_size for g in groups), reading.max_bytes)
    refuse_too_many_bytes(
        account.name, sum(g.num_rows for g in groups) * found.num_columns * FIXED, reading.max_bytes
    )
    batches, size = [], 0
    for batch in file.iter_batches(BATCH):
        size += sum(_expanded(column) for column in batch.columns)
        refuse_too_many_bytes(account.name, size, reading.max_bytes)
        batches.append(batch)
    table = pa.Table.from_batches(batches, file.schema_arrow)
    fields = []  # text as text again, with what pandas wrote about the columns
    for field in table.schema:
        plain = pa.types.is_dictionary(field.type) and pa.types.is_string(field.type.value_type)
        fields.append(field.with_type(pa.string()) if plain else field)
    return table.cast(pa.schema(fields, table.schema.metadata))


def _expanded(column: pa.Array) -> int:
    """Bytes of a column once every row has its own copy."""
    if not (pa.types.is_dictionary(column.type) and pa.types.is_string(column.dictionary.type)):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return int(compute.sum(lengths).as_py() or 0)


def read_json_lines(content: bytes, reading: Reading, account: Account) -> Raw:
    """One JSON object per line; all with the same names, none nested."""
    refuse_too_many_rows(account.name, content.count(b"\n"), reading)
    text = as_utf8(content, reading, account)
    try:
        table = json_lines.read_json(
            BytesIO(text),
            json_lines.ReadOptions(block_size=max(1 << 20, min(len(text) + 1, 1 << 30))),
        )
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InvalidOwners(
            f"{account.name} cannot be read as JSON lines: {str(error).strip()[:200]}. Each line "
            'needs one object, like {"age": 5, "ill": 0}.'
        ) from error
    nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if nested:
        raise InvalidOwners(
            f"{account.name} has objects or lists in {nested[0]!r}; cells need to be numbers, text "
            "or truth values."
        )
    return Raw(table)


def cells_of(names: Sequence[str], columns: Iterable[list[Any]]) -> pa.Table:
    """Columns of Python's own values as Arrow's: numbers, dates or truth values, else text."""
    return pa.table([_typed(cells) for cells in columns], names=names)


def _typed(cells: list[Any]) -> pa.Array:

    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds:
        return pa.array(cells, pa.float64())
    if kinds <= {int, float}:
        whole = all(c is None or (float(c).is_integer() and abs(c) < 2**53) for c in cells)
        return pa.array(cells, pa.int64() if whole else pa.float64(), from_pandas=True)
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    if kinds <= {dt.date, dt.datetime}:
        known = (dt.datetime, type(None))
        moments = [
            c if isinstance(c, known) else dt.datetime(c.year, c.month, c.day) for c in cells
        ]
        return pa.array(moments, pa.timestamp("us"))  # days have no time zone
    return pa.array([None if cell is None else as_text(cell) for cell in cells], pa.string())


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
            return Raw(cells_of(*_queried(database, reading, account)))
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
    if wanted in names:
        return str(wanted)
    hint = asked = ""
    if wanted is not None:
        hint, asked = suggestion(wanted, names), f"no table {wanted!r} but "
    elif len(names) == 1:
        account.detected["sheet"] = names[0]
        return names[0]
    raise InvalidOwners(
        f"{account.name} holds {asked}{len(names)} tables: {', '.join(map(repr, names[:12]))}."
        f"{hint} Choose one with --read sheet=NAME."
    )


def _queried(
    database: sqlite3.Connection, reading: Reading, account: Account
) -> tuple[list[str], list[list[Any]]]:
    quoted = '"' + _table_name(database, reading, account).replace('"', '""') + '"'
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
    return names, columns
