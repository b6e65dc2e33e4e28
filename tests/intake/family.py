"""A clean folder of five clinics, and everything that files as people have them do to it.

Made of scikit-learn's diabetes data. Every irregularity is a change to the clean folder and what
must become of it: the same values to the last bit, a stop that says where and how to resolve it, or
a note.
"""

from __future__ import annotations

import gzip
import sqlite3
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CLINICS = ("Aachen", "Bonn", "Celle", "Dresden", "Essen")
TARGET = "ill"
DATE, NUMBER, WHOLE, TEXT = "visited", "bmi", "weight", "sex"


def clean() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Sixty rows of each clinic, and a hundred to test on."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(as_frame=True, scaled=False)
    table = data.data[["age", "sex", "bmi", "bp", "s5"]].copy()
    table["sex"] = np.where(table["sex"] == 1, "female", "male")
    table["weight"] = (table["bmi"] * 2.9 + data.data["age"] / 9).round(1)
    table["visited"] = pd.Timestamp("2021-02-03") + pd.to_timedelta(data.data["s1"] * 5, unit="D")
    table["visited"] = table["visited"].dt.strftime("%Y-%m-%d")
    table["city"] = np.where(np.arange(len(table)) % 3 == 0, "Köln", "Jena")
    table[TARGET] = np.where(data.target > 140, "yes", "no")
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    parts = [table.iloc[60 * k : 60 * k + 60].reset_index(drop=True) for k in range(5)]
    return dict(zip(CLINICS, parts, strict=True)), table.iloc[300:400].reset_index(drop=True)


@dataclass
class Folder:
    """The files of one case, before and after something is done to them.

    `tables` and `test` are written as CSV, but for those that a change has written itself.
    """

    path: Path
    tables: dict[str, pd.DataFrame]
    test: pd.DataFrame
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path) -> Folder:
        (path / "owners").mkdir(parents=True)
        return cls(path, *clean())

    @property
    def owners(self) -> Path:
        return self.path / "owners"

    def write(self) -> None:
        for name, table in self.tables.items():
            table.to_csv(self.owners / f"{name}.csv", index=False)
        if not list(self.path.glob("test.*")):
            self.test.to_csv(self.path / "test.csv", index=False)

    def text(self, name: str, change: Callable[[str], str], encoding: str = "utf-8") -> None:
        """Write one clinic's CSV, its text changed."""
        plain = self.tables.pop(name).to_csv(index=False)
        (self.owners / f"{name}.csv").write_bytes(change(plain).encode(encoding))

    def job(self, read: Sequence[str] = (), accept: Sequence[str] = ()) -> Any:
        """What `dushapley value` makes of it."""
        from dushapley.cli.job import Job

        options: dict[str, Any] = {"files": [self.owners], "by_file": True, **self.options}
        return Job(
            **options, target=TARGET, test=next(iter(self.path.glob("test.*"))),
            model="naive-bayes", read=list(read), accept=list(accept),
        )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One irregularity.

    Attributes
    ----------
    name
        What people do, in a few words.
    change
        Does it to a folder.
    code
        Of the finding that must be there; None: nothing need be said.
    stop
        Whether it must be a stop; else a note, or nothing.
    owner, column, row, value
        Where the finding must say it is.
    same
        Whether the values are those of the clean folder: at once, or for a stop with its remedy.
    like
        Otherwise: of the folder changed like this.
    """

    name: str
    change: Callable[[Folder], None]
    code: str | None = None
    stop: bool = False
    owner: str | None = None
    column: str | None = None
    row: int | None = None
    value: str | None = None
    same: bool = False
    like: Callable[[Folder], None] | None = None


CASES: list[Case] = []


def case(name: str, **expected: Any) -> Callable[[Callable[[Folder], None]], Any]:
    """Add a change to the family."""

    def add(change: Callable[[Folder], None]) -> Callable[[Folder], None]:
        CASES.append(Case(name, change, **expected))
        return change

    return add


def commas(table: pd.DataFrame) -> str:
    """A table as German spreadsheets save it."""
    return table.to_csv(index=False, sep=";", decimal=",")


def redated(table: pd.DataFrame, form: str) -> pd.DataFrame:
    return table.assign(visited=pd.to_datetime(table["visited"]).dt.strftime(form))


def cells(table: pd.DataFrame, column: str, row: int, value: Any) -> pd.DataFrame:
    """A table with one cell replaced; rows count from 1."""
    changed = table.astype({column: object})
    changed.loc[row - 1, column] = value
    return changed


# Formats, dialects and encodings: read, and nothing changes.


@case("an Excel workbook beside CSV files", same=True)
def _(f: Folder) -> None:
    f.tables.pop("Dresden").to_excel(f.owners / "Dresden.xlsx", index=False)


@case("an Excel workbook with real dates", same=True)
def _(f: Folder) -> None:
    table = f.tables.pop("Dresden")
    dated = table.assign(visited=pd.to_datetime(table["visited"]))
    dated.to_excel(f.owners / "Dresden.xlsx", index=False)


@case("a .tsv file", same=True)
def _(f: Folder) -> None:
    f.tables.pop("Bonn").to_csv(f.owners / "Bonn.tsv", sep="\t", index=False)


@case("a .txt file with semicolons", same=True)
def _(f: Folder) -> None:
    f.tables.pop("Bonn").to_csv(f.owners / "Bonn.txt", sep=";", index=False)


@case("a zip of one CSV file", same=True)
def _(f: Folder) -> None:
    with zipfile.ZipFile(f.owners / "Celle.zip", "w") as packed:
        packed.writestr("Celle.csv", f.tables.pop("Celle").to_csv(index=False))


@case("a gzipped CSV file", same=True)
def _(f: Folder) -> None:
    content = gzip.compress(f.tables.pop("Celle").to_csv(index=False).encode())
    (f.owners / "Celle.csv.gz").write_bytes(content)


@case("a Parquet file", same=True)
def _(f: Folder) -> None:
    f.tables.pop("Essen").to_parquet(f.owners / "Essen.parquet", index=False)


@case("JSON lines", same=True)
def _(f: Folder) -> None:
    text = f.tables.pop("Essen").to_json(orient="records", lines=True, force_ascii=False)
    (f.owners / "Essen.jsonl").write_text(text, encoding="utf-8")


@case("a SQLite file", same=True)
def _(f: Folder) -> None:
    connection = sqlite3.connect(f.owners / "Essen.sqlite")
    f.tables.pop("Essen").to_sql("patients", connection, index=False)
    connection.close()


@case("semicolons and decimal commas", same=True)
def _(f: Folder) -> None:
    table = f.tables["Aachen"]
    f.text("Aachen", lambda _: commas(table))


@case("everybody with semicolons and decimal commas", same=True)
def _(f: Folder) -> None:
    for name in CLINICS:
        f.text(name, lambda _, table=f.tables[name]: commas(table))
    (f.path / "test.csv").write_text(commas(f.test), encoding="utf-8")


@case("tabs in a file that is called .csv", same=True)
def _(f: Folder) -> None:
    table = f.tables["Aachen"]
    f.text("Aachen", lambda _: table.to_csv(index=False, sep="\t"))


@case("bars between columns", same=True)
def _(f: Folder) -> None:
    table = f.tables["Aachen"]
    f.text("Aachen", lambda _: table.to_csv(index=False, sep="|"))


@case("the encoding cp1252", same=True)
def _(f: Folder) -> None:
    f.text("Bonn", str, "cp1252")


@case("the encoding UTF-16", same=True)
def _(f: Folder) -> None:
    f.text("Bonn", str, "utf-16")


@case("UTF-8 with a byte order mark", same=True)
def _(f: Folder) -> None:
    f.text("Bonn", str, "utf-8-sig")


@case("mixed line ends", same=True)
def _(f: Folder) -> None:
    f.text("Celle", lambda text: text.replace("\n", "\r\n", 20))


@case("every field in quotes", same=True)
def _(f: Folder) -> None:
    table = f.tables["Celle"]
    f.text("Celle", lambda _: table.to_csv(index=False, quoting=1))


@case("columns in another order", same=True)
def _(f: Folder) -> None:
    f.tables["Celle"] = f.tables["Celle"][[*f.tables["Celle"].columns[::-1]]]


@case("an index column without a name", code="index-column", owner="Dresden", same=True)
def _(f: Folder) -> None:
    table = f.tables["Dresden"]
    f.text("Dresden", lambda _: table.to_csv())


@case("trailing empty columns", code="empty-columns", owner="Dresden", same=True)
def _(f: Folder) -> None:
    f.text("Dresden", lambda text: text.replace("\n", ",,\n"))


@case("empty lines at the end", same=True)
def _(f: Folder) -> None:
    f.text("Dresden", lambda text: text + "\n\n" + "," * 8 + "\n")


@case("names of columns in line 3", code="header-row", owner="Essen", same=True)
def _(f: Folder) -> None:
    f.text("Essen", lambda text: f"Patients of Essen,,,,,,,,\n,,,,,,,,\n{text}")


@case("a second line of units", code="second-header", owner="Essen", same=True)
def _(f: Folder) -> None:
    units = "years,,kg/m2,mmHg,,kg,,,"
    f.text("Essen", lambda text: text.replace("\n", f"\n{units}\n", 1))


@case("a totals row", code="totals-row", owner="Essen", same=True)
def _(f: Folder) -> None:
    table = f.tables["Essen"]
    sums = table.select_dtypes("number").sum()
    cells = {**{c: f"{x:.4f}" for c, x in sums.items()}, TEXT: "Total"}
    row = ",".join(cells.get(c, "") for c in table.columns)
    f.text("Essen", lambda text: f"{text}{row}\n")


def in_thousands(f: Folder) -> None:
    for name, table in f.tables.items():
        f.tables[name] = table.assign(s5=(table["s5"] * 1000).round(1))


@case("thousands separated by commas", code="thousands", owner="Bonn", like=in_thousands)
def _(f: Folder) -> None:
    in_thousands(f)
    table = f.tables["Bonn"]
    written = table.assign(s5=[f"{x:,.1f}" for x in table["s5"]])
    f.text("Bonn", lambda _: written.to_csv(index=False))


# Dates.


@case("dates as 31.12.2022", code="date-format", owner="Bonn", column=DATE, same=True)
def _(f: Folder) -> None:
    f.tables["Bonn"] = redated(f.tables["Bonn"], "%d.%m.%Y")


@case("dates as 12/31/2022", code="date-format", owner="Bonn", column=DATE, same=True)
def _(f: Folder) -> None:
    f.tables["Bonn"] = redated(f.tables["Bonn"], "%m/%d/%Y")


@case("dates with a time of day", same=True)
def _(f: Folder) -> None:
    f.tables["Bonn"] = redated(f.tables["Bonn"], "%Y-%m-%d 00:00:00")


@case("dates as spreadsheets count days", code="serial-dates", owner="Bonn", column=DATE, same=True)
def _(f: Folder) -> None:
    days = pd.to_datetime(f.tables["Bonn"][DATE]) - pd.Timestamp("1899-12-30")
    f.tables["Bonn"] = f.tables["Bonn"].assign(visited=days.dt.days)


@case("test dates as 31.12.2022", code="date-format", owner="test set", column=DATE, same=True)
def _(f: Folder) -> None:
    f.test = redated(f.test, "%d.%m.%Y")


def blank_date(f: Folder) -> None:
    f.test.loc[4, DATE] = None


@case("a blank date in the test file", like=blank_date)
def _(f: Folder) -> None:
    f.test.loc[4, DATE] = ""


def early(f: Folder) -> None:
    """All of Celle's visits on the first twelve days of a month."""
    days = pd.to_datetime(f.tables["Celle"][DATE])
    f.tables["Celle"] = f.tables["Celle"].assign(visited=days.dt.strftime("%Y-%m-05"))


@case(
    "dates that read two ways (05/04/2022)",
    code="ambiguous-date", stop=True, owner="Celle", column=DATE, row=1, like=early,
)  # fmt: skip
def _(f: Folder) -> None:
    early(f)
    f.tables["Celle"] = redated(f.tables["Celle"], "%d/%m/%Y")


# Spelling.


def ones(f: Folder) -> None:
    """Everybody writes 1 and 0."""
    for table in [*f.tables.values(), f.test]:
        table[TARGET] = (table[TARGET] == "yes").astype(int)


@case(
    "Yes and No beside yes and no",
    code="label-spelling", stop=True, owner="Celle", column=TARGET, value="Yes", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Celle"][TARGET] = f.tables["Celle"][TARGET].str.capitalize()


@case(
    "a space before a label",
    code="label-spelling", stop=True, owner="Aachen", column=TARGET, row=3, value=" no", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Aachen"].loc[2, TARGET] = f" {f.tables['Aachen'].loc[2, TARGET]}"


@case(
    "full-width letters in a label",
    code="label-spelling", stop=True, owner="Bonn", column=TARGET, value="ｙｅｓ", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Bonn"][TARGET] = f.tables["Bonn"][TARGET].replace("yes", "ｙｅｓ")


@case(
    "test labels in capitals",
    code="label-spelling", stop=True, owner="test set", column=TARGET, value="YES", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    f.test[TARGET] = f.test[TARGET].str.upper()


@case(
    "test labels 1 and 0 for yes and no",
    code="mixed-types", stop=True, owner="test set", column=TARGET, row=1, like=ones,
)  # fmt: skip
def _(f: Folder) -> None:
    f.test[TARGET] = (f.test[TARGET] == "yes").astype(int)


@case(
    "one clinic writes 1 and 0 for yes and no",
    code="mixed-types", stop=True, owner="Dresden", column=TARGET, row=1, like=ones,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Dresden"][TARGET] = (f.tables["Dresden"][TARGET] == "yes").astype(int)


@case(
    "test labels in another language",
    code="test-labels", stop=True, owner="test set", column=TARGET, like=ones,
)  # fmt: skip
def _(f: Folder) -> None:
    f.test[TARGET] = f.test[TARGET].map({"yes": "ja", "no": "nein"})


@case(
    "Male beside male",
    code="category-spelling", stop=True, owner="Essen", column=TEXT, value="Male", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Essen"][TEXT] = f.tables["Essen"][TEXT].str.capitalize()


@case(
    "letters of two Unicode forms",
    code="category-spelling", stop=True, owner="Essen", column="city", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Essen"]["city"] = f.tables["Essen"]["city"].str.normalize("NFD")


@case("mojibake (KÃ¶ln)", code="mojibake", stop=True, owner="Essen", column="city", same=True)
def _(f: Folder) -> None:
    wrong = "Köln".encode().decode("cp1252")
    f.tables["Essen"]["city"] = f.tables["Essen"]["city"].replace("Köln", wrong)


def in_one_file(f: Folder) -> None:
    """All clinics in one file with a column of owners."""
    for name, table in f.tables.items():
        table.insert(0, "clinic", name)
    f.tables = {"all": pd.concat(f.tables.values(), ignore_index=True)}
    f.options = {"by_file": False, "owner": "clinic"}


@case(
    "an owner's name with a space behind it",
    code="owner-spelling", stop=True, owner="Celle ", same=True,
)  # fmt: skip
def _(f: Folder) -> None:
    in_one_file(f)
    rows = f.tables["all"].index[f.tables["all"]["clinic"] == "Celle"][:20]
    f.tables["all"].loc[rows, "clinic"] = "Celle "


@case("an owner's name in two cases", code="owner-spelling", stop=True, owner="BONN", same=True)
def _(f: Folder) -> None:
    in_one_file(f)
    rows = f.tables["all"].index[f.tables["all"]["clinic"] == "Bonn"][:9]
    f.tables["all"].loc[rows, "clinic"] = "BONN"


# Columns, cells and files.


@case("a column that nobody else has", code="extra-column", stop=True, owner="Celle",
      column="remark", same=True)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Celle"]["remark"] = "none"


def without_bp(f: Folder) -> None:
    f.tables = {name: table.drop(columns="bp") for name, table in f.tables.items()}


@case("a column that one clinic lacks", code="lacking-column", stop=True, owner="Celle",
      column="bp", like=without_bp)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Celle"] = f.tables["Celle"].drop(columns="bp")


@case("a column that the test file lacks", code="lacking-column", stop=True, owner="test set",
      column="bp", like=without_bp)  # fmt: skip
def _(f: Folder) -> None:
    f.test = f.test.drop(columns="bp")


@case("a column that only the test file has", code="test-columns", owner="test set",
      column="remark", same=True)  # fmt: skip
def _(f: Folder) -> None:
    f.test["remark"] = "none"


def a_hole(f: Folder) -> None:
    f.tables["Aachen"] = cells(f.tables["Aachen"], NUMBER, 7, None)


@case("a stray ? among numbers", code="stray-text", stop=True, owner="Aachen", column=NUMBER,
      row=7, value="?", like=a_hole)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Aachen"] = cells(f.tables["Aachen"], NUMBER, 7, "?")


@case("a stray - among numbers", code="stray-text", stop=True, owner="Aachen", column=NUMBER,
      row=7, value="-", like=a_hole)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Aachen"] = cells(f.tables["Aachen"], NUMBER, 7, "-")


@case("n/a among numbers", like=a_hole)
def _(f: Folder) -> None:
    f.tables["Aachen"] = cells(f.tables["Aachen"], NUMBER, 7, "n/a")


@case("percent signs in one file", code="percent-sign", stop=True, owner="Dresden",
      column=NUMBER, same=True)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Dresden"][NUMBER] = [f"{x}%" for x in f.tables["Dresden"][NUMBER]]


def without_row_5(f: Folder) -> None:
    f.tables["Bonn"] = f.tables["Bonn"].drop(index=4)


@case("a label that is missing", code="missing-target", stop=True, owner="Bonn", column=TARGET,
      row=5, like=without_row_5)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Bonn"] = cells(f.tables["Bonn"], TARGET, 5, None)


@case("a subfolder", code="file-skipped", stop=True, owner="older", same=True)
def _(f: Folder) -> None:
    (f.owners / "older").mkdir()


@case("a file of another kind", code="file-skipped", stop=True, owner="Fulda.docx", same=True)
def _(f: Folder) -> None:
    (f.owners / "Fulda.docx").write_bytes(b"PK")


@case("an empty file", code="unreadable-file", stop=True, owner="Fulda", same=True)
def _(f: Folder) -> None:
    (f.owners / "Fulda.csv").write_bytes(b"")


@case("a file of column names only", code="no-rows", stop=True, owner="Fulda", same=True)
def _(f: Folder) -> None:
    f.tables["Fulda"] = f.tables["Essen"].iloc[:0]


def without_bonn(f: Folder) -> None:
    del f.tables["Bonn"]


@case("two columns of one name", code="unreadable-file", stop=True, owner="Bonn",
      like=without_bonn)  # fmt: skip
def _(f: Folder) -> None:
    f.text("Bonn", lambda text: text.replace("bmi", "age", 1))


@case("files of several owners, of which one lacks a column", code="lacking-column", stop=True,
      owner="rest.csv", column="bp", like=without_bp)  # fmt: skip
def _(f: Folder) -> None:
    in_one_file(f)
    table = f.tables.pop("all")
    f.tables = {"first": table[:120], "rest": table[120:].drop(columns="bp")}


# What may be real: told, and the run goes on.


@case("a column of ids", code="id-column", column="patient")
def _(f: Folder) -> None:
    for k, table in enumerate([*f.tables.values(), f.test]):
        table["patient"] = 1000 * k + np.random.default_rng(k).permutation(len(table))


@case("a column of names", code="id-column", column="name")
def _(f: Folder) -> None:
    for k, table in enumerate([*f.tables.values(), f.test]):
        table["name"] = [f"Person {k}-{i}" for i in range(len(table))]


@case("a column that gives away the target", code="giveaway-column", column="therapy")
def _(f: Folder) -> None:
    for table in [*f.tables.values(), f.test]:
        table["therapy"] = np.where(table[TARGET] == "yes", "insulin", "none")


@case("a constant column", code="constant-column", column="country")
def _(f: Folder) -> None:
    for table in [*f.tables.values(), f.test]:
        table["country"] = "DE"


@case("pounds for kilograms", code="shifted-units", owner="Dresden", column="weight")
def _(f: Folder) -> None:
    f.tables["Dresden"]["weight"] = (f.tables["Dresden"]["weight"] * 2.2046).round(1)


@case("grams for kilograms", code="shifted-units", owner="Dresden", column="weight")
def _(f: Folder) -> None:
    f.tables["Dresden"]["weight"] *= 1000


@case("an inverted target", code="inverted-target", owner="Bonn", column=TARGET)
def _(f: Folder) -> None:
    f.tables["Bonn"][TARGET] = f.tables["Bonn"][TARGET].map({"yes": "no", "no": "yes"})


@case("an owner of one class", code="one-class", owner="Bonn", column=TARGET)
def _(f: Folder) -> None:
    f.tables["Bonn"] = f.tables["Bonn"][f.tables["Bonn"][TARGET] == "yes"]


@case("a category that only one clinic uses", code="own-category", owner="Celle", column="city")
def _(f: Folder) -> None:
    f.tables["Celle"]["city"] = "Celle"


@case("values missing in one clinic", code="missing-values", owner="Celle", column="bp")
def _(f: Folder) -> None:
    f.tables["Celle"].loc[::2, "bp"] = None


@case("a clinic of six rows", code="few-rows", owner="Celle")
def _(f: Folder) -> None:
    f.tables["Celle"] = f.tables["Celle"].iloc[:6]


@case("rows of another clinic", code="shared-rows", owner="Aachen")
def _(f: Folder) -> None:
    f.tables["Essen"] = pd.concat([f.tables["Essen"], f.tables["Aachen"].iloc[:12]])


@case("the same rows three times", code="repeated-rows", owner="Essen")
def _(f: Folder) -> None:
    f.tables["Essen"] = pd.concat([f.tables["Essen"]] * 3)


@case("rows of the test file", code="tested-rows", owner="Essen")
def _(f: Folder) -> None:
    f.tables["Essen"] = pd.concat([f.tables["Essen"], f.test.iloc[:15]])


@case("rows of another clinic, changed by a millionth", code="near-rows", owner="Aachen")
def _(f: Folder) -> None:
    copied = f.tables["Aachen"].iloc[:30].copy()
    rng = np.random.default_rng(0)
    for column in ("age", "bmi", "bp", "s5", "weight"):
        copied[column] = copied[column] * (1 + 1e-6 * rng.standard_normal(len(copied)))
    f.tables["Essen"] = pd.concat([f.tables["Essen"], copied])


@case("-999 for missing values", code="placeholder", owner="Bonn", column="bp", row=1, value="-999")
def _(f: Folder) -> None:
    f.tables["Bonn"].loc[::6, "bp"] = -999


@case("one value a billion", code="outlier", owner="Bonn", column="bmi", row=6, value="1000000000")
def _(f: Folder) -> None:
    f.tables["Bonn"].loc[5, "bmi"] = 1e9


@case(
    "inf among numbers", code="infinite-value", stop=True, owner="Bonn", column="bmi", row=4,
    value="inf", like=lambda f: blanked(f, "Bonn", "bmi", 4),
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Bonn"].loc[3, "bmi"] = np.inf


def blanked(f: Folder, name: str, column: str, row: int) -> None:
    f.tables[name].loc[row - 1, column] = np.nan


def ones(f: Folder) -> None:
    """Labels 1 and 0 for everybody."""
    for table in (*f.tables.values(), f.test):
        table[TARGET] = (table[TARGET] == "yes").astype(int)


@case(
    "one clinic writes J and N for yes and no", code="label-foreign", stop=True, owner="Bonn",
    column=TARGET, like=ones,
)  # fmt: skip
def _(f: Folder) -> None:
    f.tables["Bonn"][TARGET] = f.tables["Bonn"][TARGET].map({"yes": "J", "no": "N"})


@case("a label misspelt once", code="rare-label", owner="Bonn", column=TARGET, row=4, value="yess")
def _(f: Folder) -> None:
    f.tables["Bonn"].loc[3, TARGET] = "yess"


@case("a column's name in capitals", code="column-spelling", owner="Bonn", column="bmi", same=True)
def _(f: Folder) -> None:
    f.tables["Bonn"] = f.tables["Bonn"].rename(columns={"bmi": "BMI"})
