"""Any table is read, or refused in a sentence, whatever its format."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
import zipfile
from contextlib import closing
from io import BytesIO
from pathlib import Path
from random import Random

import pandas as pd
from fuzzing import CASES, Target, bytewise, check
from hypothesis import given, settings

from dushapley.data.files import SourceFile
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners

TABLE = pd.DataFrame(
    {
        "age": [31, 45, 28, 60] * 5,
        "weight": [70.5, 81.25, 64.0, 90.125] * 5,
        "town": ["Köln", "Bonn", "", "Ulm, Süd"] * 5,
        "visit": ["2022-12-31", "2022-01-02", "2023-05-06", "2021-03-04"] * 5,
        "ill": ["yes", "no", "no", "yes"] * 5,
    }
)
KINDS = (".csv", ".csv.gz", ".zip", ".tsv", ".parquet", ".xlsx", ".ods", ".jsonl", ".sqlite")
READING = Reading(max_rows=10**6, max_bytes=2 * 10**8)
ODS = """<?xml version="1.0"?><office:document-content
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>
 <table:table table:name="rows">{}</table:table></office:spreadsheet></office:body>
</office:document-content>"""

MANIFEST = """<?xml version="1.0"?><manifest:manifest
 xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>"""


def packed(member: str, content: bytes, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        if member == "content.xml":
            mimetype = "application/vnd.oasis.opendocument.spreadsheet"
            archive.writestr("mimetype", mimetype, zipfile.ZIP_STORED)
            archive.writestr("META-INF/manifest.xml", MANIFEST)
        archive.writestr(member, content)
    return out.getvalue()


def cell(value: object) -> str:
    if isinstance(value, (int, float)):
        return (
            f'<table:table-cell office:value-type="float" office:value="{value}">'
            f"<text:p>{value}</text:p></table:table-cell>"
        )
    return (
        f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
    )


def as_ods() -> bytes:
    rows = [TABLE.columns.tolist(), *TABLE.to_numpy().tolist()]
    lines = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    return packed("content.xml", ODS.format(lines).encode())


def corpus() -> list[bytes]:
    """A file of each kind; its first byte says which."""
    text = TABLE.to_csv(index=False).encode()
    parquet, workbook = BytesIO(), BytesIO()
    TABLE.to_parquet(parquet)
    TABLE.to_excel(workbook, index=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.sqlite")
        with closing(sqlite3.connect(path)) as database:
            TABLE.to_sql("rows", database, index=False)
        sqlite = path.read_bytes()
    german = TABLE.to_csv(index=False, sep=";", decimal=",").encode("cp1252")
    files = {
        ".csv": [text, german, text.decode().encode("utf-16")],
        ".csv.gz": [gzip.compress(text)],
        ".zip": [packed("a.csv", text)],
        ".tsv": [TABLE.to_csv(index=False, sep="\t").encode()],
        ".parquet": [parquet.getvalue()],
        ".xlsx": [workbook.getvalue()],
        ".ods": [as_ods()],
        ".jsonl": [TABLE.to_json(lines=True, orient="records").encode()],
        ".sqlite": [sqlite],
    }
    return [bytes([KINDS.index(kind)]) + one for kind in KINDS for one in files[kind]]


def mutate(rng: Random, content: bytes) -> bytes:
    """Damage a file, or a member of its archive that is then packed in good order."""
    kind, body = content[:1], content[1:]
    if KINDS[kind[0]] in (".xlsx", ".ods", ".zip") and rng.random() < 0.6:
        with zipfile.ZipFile(BytesIO(body)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = rng.choice(sorted(members))
        members[name] = bytewise(rng, members[name])
        out = BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, inside in members.items():
                archive.writestr(member, inside)
        return kind + out.getvalue()
    if KINDS[kind[0]] == ".csv.gz" and rng.random() < 0.5:
        return kind + gzip.compress(bytewise(rng, gzip.decompress(body)))
    return kind + bytewise(rng, body)


def read(path: Path) -> None:
    """The table of a file whose first byte says what it is: nothing is opened beside it."""
    content = path.read_bytes()
    kind = KINDS[content[0] % len(KINDS)] if content else ".csv"
    file = SourceFile(path.with_name(f"rows{kind}"), "", content[1:])
    table = file.table(READING)
    stops = [str(finding) for finding in file.account.findings if finding.severity == "stop"]
    if stops:
        raise InvalidOwners("\n".join(stops))
    assert all(isinstance(name, str) for name in table.columns)
    assert table.columns.is_unique


TARGET = Target("table", "rows.bin", corpus, read, mutate)


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_any_table_ends_clearly(case: int) -> None:
    check(TARGET, case)


def test_the_corpus_is_read() -> None:
    assert {check(TARGET, case) for case in range(len(TARGET.seeds))} == {"value"}
