"""From files to a settlement, its pages and its verification, by the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dushapley.cli.main import main
from dushapley.cli.outputs import letter_name
from dushapley.settlement.settlement import seal

NAMES = {"north": 20, "south": 30, "=east": 25, "<b>west": 15}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owners").mkdir()

    def table(rows: int) -> pd.DataFrame:
        X = rng.normal(size=(rows, 3))
        return pd.DataFrame(X, columns=list("abc")).assign(y=X @ [1, 2, 0] + rng.normal(size=rows))

    for name, rows in NAMES.items():
        table(rows).to_csv(tmp_path / "owners" / f"{name}.csv", index=False)
    table(60).to_csv(tmp_path / "test.csv", index=False)
    table(18).to_csv(tmp_path / "late.csv", index=False)
    return tmp_path


JOB = ["owners", "--by-file", "--target", "y", "--test", "test.csv", "--method", "exact"]
JOB += ["--model", "knn"]  # whose trainings cost something, so that a ledger keeps them


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def test_three_commands_lead_to_a_settlement_that_holds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("value", *JOB, "--pot", "1000", "--currency", "EUR", "--report", "page.html",
               "--report-for", "north", "--report-for", "<b>west")  # fmt: skip
    assert code == 0
    told = capsys.readouterr().out
    assert "payment EUR" in told
    assert "by size" in told
    settled = json.loads((folder / "settlement.json").read_text())
    assert sum(round(100 * float(line["payment"])) for line in settled["payments"]) == 100_000
    assert settled["record"]["command"].startswith("dushapley value owners --by-file")
    assert len(settled["record"]["inputs"]) == 5
    page = (folder / "page.html").read_text()
    assert "<b>west" not in page
    assert "&lt;b&gt;west" in page
    own = (folder / "page-for-003-north.html").read_text()
    assert "south" not in own
    assert (folder / "page-for-001-b-west.html").exists()
    assert run("verify", "settlement.json", "owners", "test.csv") == 0
    assert "The settlement holds." in capsys.readouterr().out
    assert run("verify", "settlement.json", "owners", "test.csv", "--from-ledger") == 0
    assert "taken from the ledger on trust" in capsys.readouterr().out


def test_one_byte_or_one_number_changed_fails(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("value", *JOB, "--pot", "1000") == 0
    original = (folder / "owners" / "south.csv").read_bytes()
    (folder / "owners" / "south.csv").write_bytes(original.replace(b"7", b"8", 1))
    capsys.readouterr()
    assert run("verify", "settlement.json", "owners", "test.csv") == 1
    assert "file 'south.csv' has changed" in capsys.readouterr().out
    (folder / "owners" / "south.csv").write_bytes(original)
    assert run("verify", "settlement.json", "owners") == 2
    told = capsys.readouterr()
    assert "test file 'test.csv' of the settlement was not passed" in told.err
    assert "does NOT hold" not in told.out
    text = (folder / "settlement.json").read_text()
    data = json.loads(text)
    paid = data["payments"][0]["payment"]
    (folder / "other.json").write_text(text.replace(f'"{paid}"', '"999.99"', 1))
    capsys.readouterr()
    assert run("verify", "other.json", "owners", "test.csv") == 1
    assert "was changed after it was written" in capsys.readouterr().out


def test_the_same_command_writes_the_same_bytes(folder: Path) -> None:
    pages = []
    for _ in range(2):
        assert run("value", *JOB, "--pot", "10", "--report", "page.html") == 0
        pages.append(
            ((folder / "page.html").read_bytes(), (folder / "settlement.json").read_bytes())
        )
    assert pages[0][0] == pages[1][0]
    one, two = (json.loads(text) for _, text in pages)
    assert one["payments"] == two["payments"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [["--cv", "2"], ["--holdout", "0.3"]])
def test_owners_rows_as_test_set_are_verified_too(
    folder: Path, capsys: pytest.CaptureFixture[str], how: list[str]
) -> None:
    job = ["owners", "--by-file", "--target", "y", *how, "--method", "exact", "--model", "knn"]
    assert run("value", *job, "--pot", "10", "--report", "page.html") == 0
    assert run("verify", "settlement.json", "owners") == 0
    capsys.readouterr()
    assert run("what-if", *job, "--leave", "north") == 0
    assert "0 computed" in capsys.readouterr().out
    assert run("what-if", *job, "--join", "late.csv") == (2 if "--cv" in how else 0)


@pytest.mark.slow
def test_letters_and_growth_lead_from_files_to_what_owners_receive(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("value", *JOB, "--growth") == 2
    assert "--pot" in capsys.readouterr().err
    assert run("value", *JOB, "--pot", "1000", "--currency", "EUR", "--growth", "--negative",
               "charge", "--cap", "0.5") == 0  # fmt: skip
    err = capsys.readouterr().err
    assert "warning: Everybody is paid in proportion to its value" in err
    assert "65 trainings more for --growth" in err
    assert "dushapley report settlement.json --letters letters --payments payments.csv" in err
    assert "dushapley verify settlement.json owners test.csv" in err
    call = ["report", "settlement.json", "--letters", "letters", "--payments", "payments.csv"]
    assert run(*call, "--letters-show", "growth,rank") == 0
    letters = sorted((folder / "letters").iterdir())
    assert len(letters) == 4
    north = next(path for path in letters if "north" in path.name).read_text(encoding="utf-8")
    for said in ("25% more rows like yours (5 rows)", "the r2 on 60 rows of test.csv", "your rank",
                 "north.csv"):  # fmt: skip
        assert said in north, said
    assert "south" not in north
    assert run("verify", "settlement.json", "owners", "test.csv") == 0
    told = capsys.readouterr().out
    for name in ("about: model, score and test set", "growth: the same", "with cap 0.5"):
        assert name in told
    data = json.loads((folder / "settlement.json").read_text())
    data["record"]["growth"]["values"][0] += 1.0
    data["seal"] = seal(data)
    (folder / "settlement.json").write_text(json.dumps(data))
    assert run("verify", "settlement.json", "owners", "test.csv", "--from-ledger") == 1
    assert "FAILED    growth" in capsys.readouterr().out


@pytest.mark.slow
def test_merged_owners_are_paid_beside_what_they_had_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["what-if", *JOB, "--merge", "north", "south", "--pot", "100", "--json"]
    assert run(*call) == 0
    paid = {row["owner"]: row for row in json.loads(capsys.readouterr().out)["payments"]}
    assert set(paid) == {"north + south", "=east", "<b>west"}
    assert all(row["before"] and row["after"] for row in paid.values())
    assert sum(round(100 * float(row["before"])) for row in paid.values()) == 10_000


@pytest.mark.slow
def test_what_if_by_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("value", *JOB) == 0
    for change, said in (
        (["--leave", "north"], "0 computed"),
        (["--merge", "north", "south"], "0 computed"),
        (["--copy", "north", "south"], "4 computed"),
        (["--join", "late.csv"], "16 computed"),
        (["--rows", "south", "-10"], "8 computed"),
    ):
        capsys.readouterr()
        assert run("what-if", *JOB, *change, "--pot", "100") == 0
        assert said in capsys.readouterr().out, change
    assert run("what-if", *JOB, "--leave", "north", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["after"]["owners"]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["value", *JOB, "--pot", "1,000"], "without separators"),
        (["value", *JOB, "--pot", "10", "--negative", "x"], "clip, charge, floor"),
        (["value", *JOB, "--report-for", "north"], "needs --report"),
        (["value", *JOB, "--report", "no/page.html"], "no folder"),
        (["value", *JOB, "--report", "p.html", "--report-for", "nobody"], "no such owner"),
        (["what-if", *JOB], "Found 0 changes"),
        (["what-if", *JOB, "--leave", "nobody"], "no owner 'nobody'"),
        (["what-if", *JOB, "--leave", "norht"], "Did you mean 'north'"),
        (["verify", "test.csv", "owners"], "not a readable settlement"),
    ],
)
def test_mistakes_are_told_before_any_training(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(*arguments) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (folder / "settlement.json").exists()


def test_a_model_to_import_must_be_agreed_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("value", *JOB, "--model", "sklearn.linear_model.Lasso", "--pot", "5") == 0
    assert run("verify", "settlement.json", "owners", "test.csv") == 2
    assert "if you trust it" in capsys.readouterr().err
    agreed = ["--model", "sklearn.linear_model.Lasso"]
    assert run("verify", "settlement.json", "owners", "test.csv", *agreed) == 0


def test_files_are_found_by_name_wherever_they_are(folder: Path) -> None:
    assert run("value", *JOB, "--pot", "5") == 0
    moved = folder / "elsewhere"
    moved.mkdir()
    for path in [*(folder / "owners").iterdir(), folder / "test.csv"]:
        shutil.move(path, moved / path.name)
    assert run("verify", "settlement.json", "elsewhere") == 0


def test_no_owner_names_a_file_outside() -> None:
    for name in ("../../etc/passwd", "/etc/passwd", "x" * 300, "مستشفى", "..", "a\x00b"):
        made = letter_name("r-for", 0, name)
        assert "/" not in made
        assert ".." not in made
        assert len(made) < 80
