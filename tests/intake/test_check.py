"""`ds.check` and `dushapley check`: all at once, with codes, and no false alarms on clean data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from family import CASES, CLINICS, TARGET, Folder
from sklearn import datasets

import dushapley as ds
from dushapley.cli.main import main
from dushapley.data.check import examine
from dushapley.data.findings import CODES
from dushapley.data.intake import Intake
from dushapley.errors import InvalidOption

DOCS = Path(__file__).parents[2] / "docs" / "check.md"
BUNDLED = ("breast_cancer", "wine", "iris", "diabetes", "digits")
FILES = {
    "adult": "income", "bank_marketing": "y", "california_housing": "MedHouseVal",
    "year_msd_90f_1176": "year", "breast_cancer_original": "class",
}  # fmt: skip


def made(folder: Folder, *names: str) -> Folder:
    """The folder after these irregularities."""
    by_name = {case.name: case.change for case in CASES}
    for name in names:
        by_name[name](folder)
    folder.write()
    return folder


def command(folder: Folder, *words: str, name: str = "check") -> list[str]:
    files = [str(folder.owners), "--by-file", "--target", TARGET]
    return [name, *files, "--test", str(folder.path / "test.csv"), *words]


def run(capfd: Any, words: list[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    told = capfd.readouterr()
    return int(ended.value.code or 0), told.out, told.err


EIGHT = (
    "semicolons and decimal commas", "dates as 31.12.2022", "Yes and No beside yes and no",
    "a subfolder", "a column that nobody else has", "Male beside male", "pounds for kilograms",
    "test labels in capitals",
)  # fmt: skip


def test_all_of_eight_irregularities_are_told_in_one_run(tmp_path: Path, capfd: Any) -> None:
    folder = made(Folder.at(tmp_path / "f"), *EIGHT)
    code, out, err = run(capfd, command(folder, "--json"))
    found = {(f["code"], f.get("owner")) for f in json.loads(out)}
    assert code == 2, err
    assert {
        ("decimal-comma", "Aachen"), ("date-format", "Bonn"), ("label-spelling", "Celle"),
        ("file-skipped", "older"), ("extra-column", "Celle"), ("category-spelling", "Essen"),
        ("shifted-units", "Dresden"), ("label-spelling", "test set"),
    } <= found  # fmt: skip


def test_options_named_resolve_everything(tmp_path: Path, capfd: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    folder = made(Folder.at(tmp_path / "f"), *EIGHT)
    folder.owners.joinpath("older").rmdir()
    code, _, err = run(capfd, command(folder, "--pot", "1000", name="value"))
    assert code == 2
    assert "nothing is trained or paid" in err
    assert not Path("settlement.json").exists()
    resolved = next(line for line in err.splitlines() if "To resolve:" in line).split(":", 1)[1]
    words = [*resolved.split(), "--pot", "1000", "--model", "naive-bayes", "--no-ledger", "--yes"]
    assert run(capfd, command(folder, *words, name="value"))[0] == 0
    settled = json.loads(Path("settlement.json").read_text(encoding="utf-8"))
    assert len(settled["payments"]) == len(CLINICS)
    assert any("shifted-units" in note for note in settled["valuation"]["notes"])


def test_what_was_accepted_is_in_the_settlement_under_its_seal(
    tmp_path: Path, capfd: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = made(Folder.at(tmp_path / "f"), "a subfolder")
    accepted = ["--accept", "file-skipped", "--pot", "99", "--report", "page.html"]
    words = command(folder, *accepted, "--model", "naive-bayes", "--yes", name="value")
    assert run(capfd, words)[0] == 0
    assert "file-skipped" in Path("page.html").read_text(encoding="utf-8")
    text = Path("settlement.json").read_text(encoding="utf-8")
    record = json.loads(text)["record"]
    assert record["job"]["accept"] == ["file-skipped"]
    assert [f["code"] for f in record["findings"]] == ["file-skipped"]
    files = [str(folder.owners), str(folder.path / "test.csv")]
    assert run(capfd, ["verify", "settlement.json", *files])[0] == 0
    forged = text.replace("Accepted: ", "")
    Path("forged.json").write_text(forged, encoding="utf-8")
    assert run(capfd, ["verify", "forged.json", *files])[0] == 1


@pytest.mark.parametrize("name", ["quote", "compare", "what-if"])
def test_the_check_is_the_first_step_of_every_command(
    name: str, tmp_path: Path, capfd: Any
) -> None:
    folder = made(Folder.at(tmp_path / "f"), "Yes and No beside yes and no")
    change = ["--leave", "Bonn"] if name == "what-if" else []
    code, _, err = run(capfd, command(folder, *change, name=name))
    assert code == 2
    assert "'Celle' writes 'Yes' in 'ill'" in err
    assert "--read merge=labels" in err


def test_a_newcomer_is_checked_like_everybody(tmp_path: Path, capfd: Any) -> None:
    folder = Folder.at(tmp_path / "f")
    newcomer = folder.tables.pop("Celle")
    folder.write()
    newcomer.replace("yes", "Yes").to_csv(tmp_path / "Celle.csv", index=False)
    change = ["--join", str(tmp_path / "Celle.csv"), "--model", "naive-bayes"]
    code, _, err = run(capfd, command(folder, *change, name="what-if"))
    assert code == 2
    assert "Owner 'Celle' writes 'Yes'" in err


def test_the_page_maps_owners_and_columns(tmp_path: Path, capfd: Any) -> None:
    folder = made(Folder.at(tmp_path / "f"), *EIGHT)
    page = tmp_path / "check.html"
    assert run(capfd, command(folder, "--report", str(page)))[0] == 2
    text = page.read_text(encoding="utf-8")
    assert all(
        name in text for name in (*CLINICS, "label-spelling", "remark", "--read merge=labels")
    )
    assert "<script" not in text
    assert run(capfd, command(folder, "--report", str(folder.path / "test.csv")))[0] == 2
    assert folder.path.joinpath("test.csv").read_text(encoding="utf-8").startswith("age")


def test_python_has_the_same_findings(tmp_path: Path) -> None:
    folder = made(Folder.at(tmp_path / "f"), *EIGHT)
    test = folder.path / "test.csv"
    findings = ds.check(folder.owners, by_file=True, target=TARGET, test=test)
    assert list(findings) == list(folder.job().findings)
    frame = findings.to_frame()
    assert set(frame["code"]) <= set(CODES)
    assert frame["severity"].tolist()[: len(findings.stops)] == ["stop"] * len(findings.stops)
    fewer = ds.check(
        folder.owners, by_file=True, target=TARGET, test=test, merge="labels,categories",
        common_columns=True, accept=["file-skipped"],
    )  # fmt: skip
    assert not fewer.stops
    assert fewer.accepted == ("file-skipped",)


def test_codes_that_cannot_be_accepted_are_refused(tmp_path: Path) -> None:
    folder = made(Folder.at(tmp_path / "f"))
    with pytest.raises(InvalidOption, match=r"no code 'label-speling'.*label-spelling"):
        folder.job(accept=["label-speling"])
    with pytest.raises(InvalidOption, match="few-rows is a note"):
        folder.job(accept=["few-rows"])
    with pytest.raises(InvalidOption, match="lacking-column cannot be accepted"):
        folder.job(accept=["lacking-column"])
    with pytest.raises(InvalidOption, match="owner=COLUMN or by_file"):
        ds.check(folder.owners, target=TARGET)


def split(table: pd.DataFrame, target: str) -> ds.data.check.Findings:  # type: ignore[name-defined]
    """What is found when the rows are dealt out to six owners and a test set at random."""
    table = table.sample(frac=1, random_state=3).reset_index(drop=True)
    parts = np.array_split(np.arange(len(table)), 7)
    tables = {f"owner {k}": table.iloc[part].reset_index(drop=True) for k, part in enumerate(parts)}
    return examine(Intake(tables, tables.pop("owner 6")), target)


@pytest.mark.parametrize("whose", ["Aachen", "test set"])
def test_a_copied_file_is_a_stop_that_can_be_accepted(whose: str, tmp_path: Path) -> None:
    folder = Folder.at(tmp_path / "f")
    source = {**folder.tables, "test set": folder.test}[whose]
    folder.tables["Bonn"] = source.sample(frac=1, random_state=1)
    folder.write()
    stops = folder.job().findings.stops
    assert [stop.code for stop in stops] == ["copied-file"]
    assert "'Bonn'" in stops[0].message
    assert not folder.job(accept=["copied-file"]).findings.stops


def test_positive_must_know_the_labels_of_everybody(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path / "f")
    bonn = folder.tables["Bonn"]
    bonn[TARGET] = bonn[TARGET].map({"yes": "Ja", "no": "Nein"})
    folder.write()
    stops = folder.job(["positive=yes"]).findings.stops
    assert [(stop.code, stop.owner) for stop in stops] == [("label-foreign", "Bonn")]
    assert not folder.job(["positive=yes,Ja"]).findings.stops


@pytest.mark.parametrize("name", BUNDLED)
def test_clean_data_give_no_stop_and_few_notes(name: str) -> None:
    table = getattr(datasets, f"load_{name}")(as_frame=True).frame
    findings = split(table, "target")
    assert not findings.stops
    assert len(findings.notes) <= 2, findings


@pytest.mark.parametrize("name", FILES)
def test_clean_files_give_no_stop_and_few_notes(name: str, data_folder: Path) -> None:
    table = pd.read_parquet(data_folder / f"{name}.parquet")
    findings = split(table.drop(columns="split", errors="ignore"), FILES[name])
    assert not findings.stops
    assert len(findings.notes) <= 2, findings


def test_the_docs_list_every_code_and_every_irregularity() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for code, of in CODES.items():
        assert f"| `{code}` | {of.severity} | {of.meaning} |" in text
    assert len(CASES) >= 40
    for case in CASES:
        assert row_of_docs(case) in text, row_of_docs(case)


def row_of_docs(case: Any) -> str:
    """One line of the table in docs/check.md."""
    end = "stops" if case.stop else "is told" if case.code else "is read"
    then = "the same values" if case.same else "as if it were mended" if case.like else "goes on"
    return f"| {case.name} | {end} | {f'`{case.code}`' if case.code else ''} | {then} |"
