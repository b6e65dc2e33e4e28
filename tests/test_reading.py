"""Files as people have them: the clean folder's values to the last bit, or a stop that says why."""

from __future__ import annotations

import gzip
import os
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dushapley as ds
from dushapley.data.files import SourceFile, opened
from dushapley.data.findings import Finding
from dushapley.data.formats.reader import mended
from dushapley.data.intake import take_in
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOption, InvalidOwners

Write = Callable[[Path, pd.DataFrame], object]


def rows(seed: int, n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = pd.to_timedelta(rng.integers(0, 700, n), "D")
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "weight": rng.normal(70, 10, n).round(9),
            "income": rng.normal(30_000, 8_000, n).round(2),
            "town": rng.choice(["München", "Köln", "Bonn"], n),
            "visit": pd.Timestamp("2022-01-01") + days,
            "ill": rng.choice(["yes", "no"], n),
        }
    )


TABLES = {name: rows(seed) for seed, name in enumerate(("Aachen", "Bonn", "Dresden"))}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    for name, table in TABLES.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def folder_with(clean: Path, tmp_path: Path, write: Write) -> Path:
    """The clean folder, with Dresden's file as Dresden has it."""
    for name in ("Aachen", "Bonn"):
        (tmp_path / f"{name}.csv").write_bytes((clean / f"{name}.csv").read_bytes())
    write(tmp_path, TABLES["Dresden"].copy())
    return tmp_path


def findings_in(folder: Path, **keys: Any) -> list[Finding]:
    files, skipped = opened(folder)
    found = take_in(files, target="ill", reading=Reading.from_keys(keys))
    return [*skipped, *found.findings]


def csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False)


def text(change: Callable[[pd.DataFrame], str], encoding: str = "utf-8") -> Write:
    return lambda folder, t: (folder / "Dresden.csv").write_bytes(change(t).encode(encoding))


def german(t: pd.DataFrame) -> pd.DataFrame:
    return t.assign(visit=t["visit"].dt.strftime("%d.%m.%Y"))


def to_sqlite(folder: Path, t: pd.DataFrame) -> None:
    with closing(sqlite3.connect(folder / "Dresden.sqlite")) as database:
        t.assign(visit=t["visit"].dt.strftime("%Y-%m-%d")).to_sql("rows", database, index=False)


def to_zip(folder: Path, t: pd.DataFrame) -> None:
    with zipfile.ZipFile(folder / "Dresden.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/Dresden.csv", csv(t))
        archive.writestr("__MACOSX/._Dresden.csv", "x")


def with_units(t: pd.DataFrame) -> str:
    first, rest = csv(t).split("\n", 1)
    return f"{first}\nyears,kg,EUR,,,\n{rest}"


def with_total(t: pd.DataFrame) -> str:
    return csv(t) + f"Total,{t['weight'].sum()},{t['income'].sum()},,,\n"


def points(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


SAME: dict[str, tuple[Write, str | None]] = {
    "German Excel": (
        text(lambda t: german(t).to_csv(index=False, sep=";", decimal=","), "cp1252"),
        "decimal-comma",
    ),
    "tabs": (lambda f, t: t.to_csv(f / "Dresden.tsv", sep="\t", index=False), None),
    "bars": (lambda f, t: t.to_csv(f / "Dresden.txt", sep="|", index=False), "separator"),
    "UTF-16": (text(csv, "utf-16"), None),
    "UTF-16 without a mark": (text(csv, "utf-16-le"), "encoding"),
    "byte-order mark": (text(csv, "utf-8-sig"), None),
    "gzip": (lambda f, t: (f / "Dresden.csv.gz").write_bytes(gzip.compress(csv(t).encode())), None),
    "zip": (to_zip, None),
    "Parquet": (lambda f, t: t.to_parquet(f / "Dresden.parquet"), None),
    "Excel": (lambda f, t: t.to_excel(f / "Dresden.xlsx", index=False), None),
    "JSON lines": (
        lambda f, t: german(t).to_json(
            f / "Dresden.jsonl", lines=True, orient="records", double_precision=15
        ),
        "date-format",
    ),
    "SQLite": (to_sqlite, None),
    "index column": (lambda f, t: t.to_csv(f / "Dresden.csv"), "index-column"),
    "names in line 3": (text(lambda t: f"Export 3.4.2022,,,,,\n,,,,,\n{csv(t)}"), "header-row"),
    "groups above names": (text(lambda t: f"patient,,,place,,\n{csv(t)}"), "header-row"),
    "units below names": (text(with_units), "second-header"),
    "total": (text(with_total), "totals-row"),
    "trailing separators": (
        text(lambda t: "\n".join(f"{line},," for line in csv(t).strip().split("\n"))),
        "empty-columns",
    ),
    "mixed line ends": (
        text(lambda t: "\r".join(csv(t).split("\n", 20)).replace("\n", "\r\n", 5)),
        None,
    ),
    "thousands": (
        lambda f, t: t.assign(income=t["income"].map("{:,.2f}".format)).to_csv(
            f / "Dresden.csv", index=False
        ),
        "thousands",
    ),
    "German thousands": (
        text(
            lambda t: (
                german(t)
                .assign(income=t["income"].map(points))
                .to_csv(index=False, sep=";", decimal=",")
            )
        ),
        "thousands",
    ),
    "serial dates": (
        text(lambda t: csv(t.assign(visit=(t["visit"] - pd.Timestamp("1899-12-30")).dt.days))),
        "serial-dates",
    ),
    "American dates": (
        text(lambda t: csv(t.assign(visit=t["visit"].dt.strftime("%m/%d/%Y")))),
        "date-format",
    ),
    "two formats of dates": (
        text(
            lambda t: csv(
                t.assign(
                    visit=t["visit"].dt.strftime("%Y-%m-%d")[:20].tolist()
                    + t["visit"].dt.strftime("%d.%m.%Y")[20:].tolist()
                )
            )
        ),
        "date-format",
    ),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_values_of_the_clean_folder_to_the_last_bit(
    kind: str, clean: Path, tmp_path: Path
) -> None:
    write, code = SAME[kind]
    folder = folder_with(clean, tmp_path, write)
    wanted = ds.Owners.from_files(clean, target="ill")
    found = ds.Owners.from_files(folder, target="ill")
    assert found.names == wanted.names
    assert found.columns == wanted.columns
    assert found.hashes == wanted.hashes
    told = findings_in(folder)
    assert {finding.severity for finding in told} <= {"note"}
    assert code is None or code in {finding.code for finding in told}
    assert all(finding.owner == "Dresden" for finding in told)


def replaced(column: str, row: int, value: object) -> Write:
    def write(folder: Path, t: pd.DataFrame) -> None:
        cells = t[column].astype(object)
        cells[row - 1] = value
        csv_file = folder / "Dresden.csv"
        t.assign(**{column: cells}).to_csv(csv_file, index=False)

    return write


def unclear_days(t: pd.DataFrame) -> str:
    days = t["visit"].map(lambda d: f"{d.day % 12 + 1:02}/{d.month:02}/{d.year}")
    return csv(t.assign(visit=days))


STOPS: dict[str, tuple[Write, str, dict[str, Any], str]] = {
    "question mark": (
        replaced("weight", 6, "?"),
        "stray-text",
        {"column": "weight", "row": 6, "value": "?"},
        "--read missing='?'",
    ),
    "dash among dates": (
        replaced("visit", 3, "unknown"),
        "stray-text",
        {"column": "visit", "row": 3, "value": "unknown"},
        "--read missing='unknown'",
    ),
    "dates that read two ways": (
        text(unclear_days),
        "ambiguous-date",
        {"column": "visit", "row": 1},
        "--read dates=day-first",
    ),
    "two digits of a year": (
        text(lambda t: csv(t.assign(visit=t["visit"].dt.strftime("%d.%m.%y")))),
        "ambiguous-date",
        {"column": "visit", "row": 1},
        "--read dates=%d.%m.%y",
    ),
    "numbers that read two ways": (
        text(lambda t: csv(t.assign(income=t["income"].astype(int).map("{:,}".format)))),
        "ambiguous-number",
        {"column": "income", "row": 1},
        "--read decimal=,",
    ),
    "percent": (
        text(lambda t: csv(t.assign(weight=t["weight"].map("{}%".format)))),
        "percent-sign",
        {"column": "weight"},
        "--read percent=points",
    ),
    "mojibake": (
        text(lambda t: csv(t.assign(town=t["town"].map(lambda s: s.encode().decode("cp1252"))))),
        "mojibake",
        {"column": "town", "row": 1},
        "--read mojibake=mend",
    ),
    "short row": (
        text(lambda t: csv(t).replace("\n", "\n\n", 6).replace("\n\n", "\n", 5) + "1,2\n"),
        "ragged-row",
        {"row": 42, "value": "1,2"},
        "",
    ),
    "column without a name": (
        text(lambda t: csv(t.assign(x=7)).replace("ill,x", "ill,")),
        "unnamed-column",
        {"column": "column 7", "value": "7"},
        "--read drop='column 7'",
    ),
    "sums in the last row": (
        text(lambda t: csv(t) + f"{t['age'].sum()},{t['weight'].sum()},{t['income'].sum()},,,no\n"),
        "totals-row",
        {"row": 41},
        "--read totals=drop",
    ),
    "a total that is none": (
        text(lambda t: csv(t) + "Total,1,2,,,\n"),
        "totals-row",
        {"row": 41},
        "--read totals=drop",
    ),
    "a document": (
        lambda f, t: (f / "Dresden.docx").write_text("x"),
        "file-skipped",
        {"owner": "Dresden.docx"},
        "--accept file-skipped",
    ),
    "a damaged workbook": (
        lambda f, t: (f / "Dresden.xlsx").write_bytes(b"PK\x03\x04 and then nothing"),
        "unreadable-file",
        {},
        "",
    ),
}


@pytest.mark.parametrize("kind", STOPS)
def test_a_stop_names_owner_column_row_value_and_option(
    kind: str, clean: Path, tmp_path: Path
) -> None:
    write, code, where, remedy = STOPS[kind]
    folder = folder_with(clean, tmp_path, write)
    (stop,) = [finding for finding in findings_in(folder) if finding.severity == "stop"]
    assert stop.code == code
    for name, value in ({"owner": "Dresden"} | where).items():
        assert getattr(stop, name) == value, name
    assert remedy in (stop.remedy or "")
    with pytest.raises(InvalidOwners, match=rf"\[{code}\]"):
        ds.Owners.from_files(folder, target="ill")


RESOLVED: dict[str, dict[str, Any]] = {
    "numbers that read two ways": {"decimal": "."},
    "percent": {"percent": "points"},
    "mojibake": {"mojibake": True},
    "two digits of a year": {"dates": "%d.%m.%y"},
    "column without a name": {"drop": "column 7"},
    "sums in the last row": {"totals": "drop"},
    "a total that is none": {"totals": "drop"},
}


@pytest.mark.parametrize("kind", RESOLVED)
def test_the_option_resolves_it(kind: str, clean: Path, tmp_path: Path) -> None:
    folder = folder_with(clean, tmp_path, STOPS[kind][0])
    wanted = ds.Owners.from_files(clean, target="ill")
    found = ds.Owners.from_files(folder, target="ill", **RESOLVED[kind])
    if kind == "numbers that read two ways":  # they were cut to whole ones
        assert np.array_equal(found.X[2][:, 2], np.trunc(wanted.X[2][:, 2].astype(float)))
    else:
        assert found.hashes == wanted.hashes


def test_all_problems_of_a_folder_are_told_at_once(clean: Path, tmp_path: Path) -> None:
    folder = folder_with(clean, tmp_path, STOPS["question mark"][0])
    STOPS["percent"][0](folder / "..", TABLES["Dresden"])  # a second bad file, for another owner
    (folder / ".." / "Dresden.csv").rename(folder / "Essen.csv")
    STOPS["a document"][0](folder, TABLES["Dresden"])
    (folder / "old").mkdir()
    (folder / ".DS_Store").write_text("x")
    codes = sorted(finding.code for finding in findings_in(folder))
    assert codes == ["file-skipped", "file-skipped", "percent-sign", "stray-text"]


def test_keys_of_one_file_win() -> None:
    reading = Reading.from_pairs(["sep=;", "Bonn.csv:sep=tab", "drop=id", "drop=name"])
    assert reading.of("Bonn.csv").sep == "\t"
    assert reading.of("Kiel.csv").sep == ";"
    assert reading.drop == ("id", "name")
    assert Reading.from_keys(reading.record()) == reading


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["sepp=;"], r"no key 'sepp'.*Did you mean 'sep'\?"),
        (["sep"], "not of the form KEY=VALUE"),
        (["decimal=x"], "decimal is 'x'"),
        (["merge=label"], "merge is 'label'"),
        (["header=third"], "header is 'third'"),
        (["decimal=,", "thousands=,"], "another mark than decimal"),
    ],
)
def test_wrong_keys_are_explained(pairs: list[str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        Reading.from_pairs(pairs)


def test_labels_owners_and_columns_are_merged_and_chosen_on_request() -> None:
    table = pd.DataFrame(
        {
            "who": ["Madera", "Madera ", "Fresno", "Fresno"],
            "id": [1, 2, 3, 4],
            "age": ["1,5", "2,5", "?", "4"],
            "ill": ["yes", " Yes", "no", "NO"],
        }
    )
    owners = ds.Owners.from_frame(
        table, owner="who", target="ill", drop=["id"], decimal=",", missing="?",
        merge=["labels", "owners"], text="who",
    )  # fmt: skip
    assert owners.names == ("Madera", "Fresno")
    assert owners.columns == {"age": "number"}
    assert owners.y[0].tolist() == [" Yes", " Yes"] or owners.y[0].tolist() == ["yes", "yes"]
    positive = ds.Owners.from_frame(
        table, owner="who", target="ill", columns="id", merge="owners", positive="YES"
    )
    assert [y.tolist() for y in positive.y] == [[1, 1], [0, 0]]
    with pytest.raises(InvalidOwners, match="label 'maybe', which no row has"):
        ds.Owners.from_frame(table, owner="who", target="ill", columns="id", positive="maybe")
    with pytest.raises(InvalidOwners, match=r"no column 'idd'.*Did you mean 'id'"):
        ds.Owners.from_frame(table, owner="who", target="ill", drop="idd")


def test_common_columns(clean: Path, tmp_path: Path) -> None:
    folder = folder_with(
        clean, tmp_path, lambda f, t: t.assign(x=1).to_csv(f / "Dresden.csv", index=False)
    )
    wanted = ds.Owners.from_files(clean, target="ill")
    found = ds.Owners.from_files(folder, target="ill", common_columns=True)
    assert found.hashes == wanted.hashes
    assert any("'x' is left out for everybody" in note for note in found.notes)


def test_mojibake_is_mended_only_where_it_is() -> None:
    assert mended("GrÃ¶ÃŸe â‚¬") == "Größe €"
    assert mended("São Tomé, Ärzte, naïve") == "São Tomé, Ärzte, naïve"


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        ("Zürich", "cp1252"),
        ("Größe,Köln", "cp1252"),
        ("Müller,Köln", "cp850"),
        ("Иван,Москва", "cp1251"),
        ("東京,大阪", "cp932"),
    ],
)
def test_encodings_are_detected_and_said(tmp_path: Path, words: str, encoding: str) -> None:
    path = tmp_path / "a.csv"
    cells = ",".join([*words.split(","), ""][:2])
    path.write_bytes(("x,y\n" + f"{cells}\n" * 20).encode(encoding))
    file = SourceFile.read(path)
    assert words.split(",")[0] in file.table().iloc[0].tolist()
    assert file.account.detected["encoding"] == encoding
    assert file.account.findings[0].code == "encoding"
    assert file.record()["read"]["encoding"] == encoding


def test_a_blank_date_is_a_missing_value_also_in_the_test_set(clean: Path, tmp_path: Path) -> None:
    owners = ds.Owners.from_files(clean, target="ill")
    table = rows(9).astype({"visit": str})
    table.loc[3, "visit"] = ""
    table.to_csv(tmp_path / "test.csv", index=False)
    test = owners.align(SourceFile.read(tmp_path / "test.csv").table())
    assert test[0][3, 4] is None
    for encode in ("pooled", "training"):
        game = ds.ModelGame(owners, "logistic", *test, encode=encode)
        assert np.isfinite(ds.value(game, "exact").values).all()


def test_cells_that_come_again_hash_as_each_by_itself() -> None:
    from dushapley.hashing import _cell, content_hash, sha256

    days = [pd.Timestamp("2022-01-01"), pd.Timestamp("2022-01-01", tz="UTC"), None]
    columns = [[0.5, -0.0, float("nan")], ["a", "é", "a"], days, [1, True, 1.0], [None] * 3]
    X = np.array(columns, dtype=object).T
    cells = [_cell(cell) for cell in X.ravel()]
    plain = sha256("O(3, 5);", *(b"%d:%b" % (len(c), c) for c in cells), "none;").hex()
    assert content_hash(X, None) == plain


# -- limits


def refused(path: Path, message: str, **keys: Any) -> None:
    with pytest.raises(InvalidOwners, match=message):
        SourceFile.read(path).table(Reading.from_keys(keys))


@pytest.mark.parametrize(
    ("keys", "needed"),
    [({"header": ["a"]}, "text"), ({"positive": 0}, "words"), ({"files": "x"}, "by the name"),
     ({"files": {"a.csv": "x"}}, "by the name"), ({"drop": {"a": 1}}, "words"),
     ({"sep": 3}, "text"), ({"header": "²"}, "number of the line"),
     ({"mojibake": "x"}, "yes or no")],
)  # fmt: skip
def test_values_of_other_types_are_refused_in_a_sentence(keys: Any, needed: str) -> None:
    with pytest.raises(InvalidOption, match=f"it takes .*{needed}"):  # as job files may hold them
        Reading.from_keys(keys)
    with pytest.raises(InvalidOption, match="max-rows is '1e999'"):
        Reading.from_pairs(["max-rows=1e999"])


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    row = b"1.0,2.0,0\n"
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"a,b,y\n" + row * 1_100_000, 9))
    assert bomb.stat().st_size < 100_000
    refused(bomb, "more than 10,000,000 bytes.*--max-bytes", max_bytes=10**7)
    refused(bomb, r"1,100,000 rows; at most 1,000,000.*--max-rows", max_rows=10**6)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", row * 1_100_000)
    refused(tmp_path / "bomb.zip", "^bomb.zip holds more than 10,000,000 bytes", max_bytes=10**7)
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "a,y\n1,0\n")
        archive.writestr("b.csv", "a,y\n1,0\n")
    refused(tmp_path / "two.zip", "^two.zip holds 2 files")  # it was called damaged
    pd.DataFrame({"a": np.zeros(200_000), "b": "x" * 500}).to_parquet(tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").stat().st_size < 200_000
    refused(tmp_path / "b.parquet", "more than 40,000,000 bytes", max_bytes=4 * 10**7)
    refused(tmp_path / "b.parquet", "200,000 rows", max_rows=10)
    plain = tmp_path / "plain.csv"
    plain.write_bytes(row * 20)
    with pytest.raises(InvalidOwners, match="more than 100 bytes"):
        SourceFile.read(plain, 100)


def test_a_workbook_with_a_cell_far_out_is_refused(tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"] = "age"
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "far.xlsx")
    assert (tmp_path / "far.xlsx").stat().st_size < 10_000
    refused(tmp_path / "far.xlsx", "17,179,869,184 cells")


OFFICE = "http://schemas.openxmlformats.org"
MAIN = f"{OFFICE}/spreadsheetml/2006/main"
RELATED = f"{OFFICE}/officeDocument/2006/relationships"
NUMBER = "<v>1</v>"
WORKBOOK = {
    "_rels/.rels": f'<Relationships xmlns="{OFFICE}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{RELATED}/officeDocument" Target="xl/workbook.xml"/>'
    "</Relationships>",
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATED}"><sheets>'
    '<sheet name="Sheet" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{OFFICE}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{RELATED}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="r2" Type="{RELATED}/sharedStrings" Target="sharedStrings.xml"/>'
    "</Relationships>",
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>'
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'
    f'<row r="2"><c r="A2">{NUMBER}</c><c r="B2" t="str"><v>5 &amp; 6</v></c></row>'
    "</sheetData></worksheet>",
    "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"><si><t>age</t></si><si><t>t&lt;&#228;</t></si>'
    "</sst>",
}


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("sheet1", NUMBER, "<v>1&foo;7</v>"),
        ("sheet1", NUMBER, "<v>1&#55;</v>"),
        ("sheet1", NUMBER, "<v>1<![CDATA[7]]></v>"),
        ("sheet1", NUMBER, "<v>1<!-- 7 -->7</v>"),
        ("sheet1", f' r="A2">{NUMBER}', ' r="A2" t="inlineStr"><is><t>a&foo;b</t></is>'),
        ("sheet1", "<worksheet", '<!DOCTYPE a [<!ENTITY foo "1">]><worksheet'),
        ("xl/workbook.xml", 'name="Sheet"', 'name="a&foo;b"'),
        ("String", "age", "a&foo;b"),
        ("String", "<sst", '<!DOCTYPE a [<!ENTITY b "&c;&c;"><!ENTITY c "d">]><sst'),
    ],
)
def test_workbooks_that_would_be_misread_are_refused(
    tmp_path: Path, part: str, old: str, new: str
) -> None:
    for file, change in ((tmp_path / "plain.xlsx", old), (tmp_path / "odd.xlsx", new)):
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in WORKBOOK.items():
                archive.writestr(name, text.replace(old, change) if part in name else text)
    assert SourceFile.read(tmp_path / "plain.xlsx").table().to_dict("list") == {
        "age": [1],
        "t<ä": ["5 & 6"],
    }
    refused(tmp_path / "odd.xlsx", "cannot be read faithfully: .*Save it again with one")


def test_sums_that_do_not_fit_are_not_computed() -> None:
    X = np.random.default_rng(0).normal(size=(12, 100_000))
    y = np.arange(12) % 2
    owners = ds.Owners.from_arrays({"a": (X[:6], y[:6]), "b": (X[6:], y[6:])})
    with pytest.raises(InvalidOwners, match=r"Statistics of 100,000 columns take 160,003"):
        owners.statistics("classification")
    game = ds.ModelGame(owners, "naive-bayes", X + 1, y)
    assert game.path is None
    assert np.isfinite(ds.value(game, "exact").values).all()


def test_pipes_devices_and_odd_names_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path, message in [
        (tmp_path / "pipe.csv", "is a pipe or device"),
        (Path("/dev/zero"), "is a pipe or device"),
        (tmp_path, "is a folder"),
        (tmp_path / ("x" * 300), "There is no file"),
        (tmp_path / "a\0b.csv", "There is no file"),
    ]:
        with pytest.raises(InvalidOwners, match=message):
            SourceFile.read(path)


def test_damaged_files_end_in_sentences(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,y\n1,0\n" * 1000)
    with zipfile.ZipFile(packed := BytesIO(), "w") as archive:
        archive.writestr("a.csv", "a,y\n1,0\n")
    strange = bytearray(packed.getvalue())
    strange[8] = strange[strange.index(b"PK\1\2") + 10] = 99  # a way to compress nobody knows
    for name, content, message in [
        ("strange.zip", bytes(strange), "cannot be unpacked"),
        ("cut.csv.gz", whole[:-20], "cannot be unpacked"),
        ("bad.csv.gz", whole[:20] + b"\xff" * 20 + whole[40:], "cannot be unpacked"),
        ("no.csv.gz", b"a,y\n1,0\n", "cannot be unpacked"),
        ("no.zip", b"PK\x03\x04", "cannot be unpacked"),
        ("no.sqlite", b"SQLite format 3\0" + b"\xff" * 200, "cannot be read as a SQLite file"),
        ("short.db", b"x", "cannot be read as a SQLite file"),
        ("no.ods", b"x", "damaged"),
        ("no.xls", b"\xd0\xcf\x11\xe0" + b"\0" * 600, "cannot be read as a workbook"),
        ("no.jsonl", b'{"a": 1}\n{"a": ', "cannot be read as JSON lines"),
        ("deep.jsonl", b'{"a": {"b": 1}}\n', "objects or lists in 'a'"),
        ("no.parquet", b"PAR1" + b"\0" * 50, "cannot be read as Parquet"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidOwners, match=message):
            SourceFile.read(tmp_path / name).table()


def test_damaged_metadata_of_pandas_is_explained(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = pa.table({"a": [1]}).replace_schema_metadata({b"pandas": b'{"columns": [{}]}'})
    parquet.write_table(table, tmp_path / "odd.parquet")
    with pytest.raises(InvalidOwners, match="cannot be read as Parquet"):
        SourceFile.read(tmp_path / "odd.parquet").table()


# -- tables of workbooks and databases


def test_sheets_and_tables_are_chosen_by_name(tmp_path: Path) -> None:
    book = tmp_path / "two.xlsx"
    with pd.ExcelWriter(book) as writer:
        TABLES["Bonn"].to_excel(writer, sheet_name="rows", index=False)
        TABLES["Aachen"].to_excel(writer, sheet_name="old", index=False)
    refused(book, r"2 sheets that hold something: 'rows', 'old'.*--read sheet=NAME")
    refused(book, r"no sheet 'row'\. Did you mean 'rows'", sheet="row")
    assert len(SourceFile.read(book).table(Reading(sheet="rows"))) == 40
    path = tmp_path / "two.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table a (x, y)")
        database.execute("create table b (x, y)")
        database.execute("insert into b values (1, 'u'), (2.5, null)")
        database.execute(
            "create view forever as with recursive n(i) as (select 1 union all select i + 1 from n)"
            " select * from n"
        )
        database.commit()
    refused(path, r"holds 2 tables: 'a', 'b'.*--read sheet=NAME")
    refused(path, "no table 'forever'", sheet="forever")
    assert SourceFile.read(path).table(Reading(sheet="b"))["x"].tolist() == [1, 2.5]
    (tmp_path / "two.db-wal").write_bytes(b"x")
    refused(path, "changes that wait in two.db-wal", sheet="b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["two.db", "two.db-wal", "two.xlsx"]


# -- job files


def ran(capsys: pytest.CaptureFixture[str], *command: object) -> tuple[int, str, str]:
    from dushapley.cli.main import main

    code = 0
    try:
        main([str(word) for word in command])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def job(clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A job file beside a folder in which Dresden's file is German and has a column of names."""
    (tmp_path / "owners").mkdir()
    folder_with(
        clean,
        tmp_path / "owners",
        text(
            lambda t: german(t).assign(name="Müller").to_csv(index=False, sep=";", decimal=","),
            "cp1252",
        ),
    )
    for table in TABLES.values():
        table["ill"] = np.where(table["age"] > 50, "yes", "no")
    rows(9).assign(ill=lambda t: np.where(t["age"] > 50, "yes", "no")).to_csv(
        tmp_path / "test.csv", index=False
    )
    files = [tmp_path / "owners", "--by-file", "--target", "ill", "--test", tmp_path / "test.csv"]
    path = tmp_path / "job.toml"
    code, _, err = ran(capsys, "check", *files, "--read", "drop=name", "--write-job", path)
    assert code == 0, err
    return path


def test_a_job_file_is_written_and_run(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tomllib

    keys = tomllib.loads(job.read_text())
    assert keys["files"] == ["owners"]
    assert keys["test"] == "test.csv"
    assert keys["by-file"] is True
    assert keys["read"] == {
        "drop": ["name"],
        "files": {
            "Dresden.csv": {
                "sep": ";", "encoding": "cp1252", "decimal": ",", "dates": "%d.%m.%Y",
            }
        },
    }  # fmt: skip
    run = ["value", "--job", job, "--method", "loo", "--no-ledger", "--json"]
    code, out, err = ran(capsys, *run)
    assert code == 0, err
    code, typed, err = ran(
        capsys, "value", tmp_path / "owners", "--by-file", "--target", "ill", "--test",
        tmp_path / "test.csv", "--read", "drop=name", *run[3:],
    )  # fmt: skip
    assert code == 0, err
    import json

    assert json.loads(out)["values"] == json.loads(typed)["values"]


def test_what_is_typed_wins_over_the_job_file(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = ran(
        capsys, "value", "--job", job, "--method", "loo", "--no-ledger", "--holdout", "0.2",
        "--read", "drop=town",
    )  # fmt: skip
    assert code == 0, err
    assert "4 columns" in err  # neither name, by the file, nor town


def test_unknown_keys_of_a_job_file_are_refused(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, message in [
        ("budgett = 9", "Did you mean 'budget'?"),
        ("[read]\nsepp = 1", "Did you mean 'sep'?"),
        ("read = 3", "it must be a table"),
        ("budget = [", "It must be TOML"),
    ]:
        job.write_text(line)
        code, _, err = ran(capsys, "value", "--job", job)
        assert code == 2
        assert message in err


def test_a_settlement_records_how_files_were_read_and_verify_reads_so_again(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settlement = tmp_path / "s.json"
    code, _, err = ran(
        capsys, "value", "--job", job, "--method", "loo", "--no-ledger", "--pot", "100",
        "--settlement", settlement, "--negative", "floor",
    )  # fmt: skip
    assert code == 0, err
    detector = "dushapley.data.formats.text._detected_encoding"
    monkeypatch.setattr(detector, lambda *_: pytest.fail("detected again"))
    code, out, err = ran(capsys, "verify", settlement, tmp_path / "owners", tmp_path / "test.csv")
    assert "not looked at: command" in out.splitlines()[0], out + err  # it was a job's
    assert "notes: all" in out


def test_a_mark_of_missing_values_is_compared_as_a_number_and_must_be_there(tmp_path: Path) -> None:
    text = "age,bp,y\n34,-999.0,0\n51,71.5,1\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text.replace(",", ";").replace(".", ","))
    findings = ds.check(tmp_path, by_file=True, target="y", missing="-999")
    assert [findings.cells[name]["bp"] for name in "ab"] == [("number", 0.5)] * 2
    with pytest.raises(InvalidOwners, match=r"missing names '-99', which no cell"):
        ds.check(tmp_path, by_file=True, target="y", missing="-99")
    opened_files = [SourceFile.read(tmp_path / "a.csv"), SourceFile.read(tmp_path / "b.csv")]
    with pytest.raises(InvalidOwners, match=r"'51.5', which no cell of b.csv holds"):
        take_in(opened_files, target="y", reading=Reading.from_pairs(["b.csv:missing=51.5"]))


def test_keys_for_a_file_that_is_not_read_are_refused(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = ran(capsys, "check", "--job", job, "--read", "Aachn.csv:sep=;")
    assert (code, "'Aachn.csv', which is not among" in err) == (2, True)
    assert "Did you mean 'Aachen.csv'?" in " ".join(err.split())


def test_a_job_file_knows_its_owners(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, kept = tmp_path / "owners" / "Bonn.csv", tmp_path / "Bonn.csv"
    gone.rename(kept)
    code, out, _ = ran(capsys, "check", "--job", job)
    assert code == 2
    assert "owners-changed" in out
    assert "Owner 'Bonn' is expected" in " ".join(out.split())
    assert ran(capsys, "check", "--job", job, "--accept", "owners-changed")[0] == 0
    kept.rename(tmp_path / "owners" / "Emden.csv")
    assert "Owner 'Emden' is among" in " ".join(ran(capsys, "check", "--job", job)[1].split())


def test_a_hidden_table_is_told(clean: Path, tmp_path: Path) -> None:
    folder = folder_with(clean, tmp_path, lambda path, table: table.to_csv(path / ".Dresden.csv"))
    for name in (".DS_Store", "._Bonn.csv", "~$Bonn.xlsx", ".gitignore"):
        (folder / name).write_bytes(b"")
    (folder / "Essen.csv").symlink_to(folder / "nowhere.csv")
    told = {finding.owner: finding for finding in opened(folder)[1]}
    assert set(told) == {".Dresden.csv", "Essen.csv"}
    assert "begins with a point" in told[".Dresden.csv"].message
    assert "a link to a file that is not there" in told["Essen.csv"].message
