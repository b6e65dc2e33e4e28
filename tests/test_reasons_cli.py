"""Reasons where people meet them: in the terminal, on the page of a check, in refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dushapley.cli.main import main

JOB = ["owners", "--by-file", "--test", "test.csv", "--model", "naive-bayes,knn"]
JOB += ["--method", "exact", "--pot", "1000", "--currency", "EUR"]
NAMES = ("Aalen", "Brilon", "Coburg", "Deggendorf", "Eisenach")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Five owners, of whom one has 70% of its labels wrong, valued; and what was said of it."""
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    place, rng = tmp_path_factory.mktemp("reasons"), np.random.default_rng(0)
    (place / "owners").mkdir()
    for name in (*NAMES, "test"):
        X = rng.normal(size=(120, 3))
        ill = X.sum(axis=1) + 0.3 * rng.normal(size=120) > 0
        ill ^= (name == "Coburg") & (rng.random(120) < 0.7)
        frame = pd.DataFrame(X, columns=["age", "dose", "weight"]).assign(
            ill=np.where(ill, "yes", "no"), smokes=np.where(rng.random(120) < 0.5, "yes", "no")
        )
        frame.to_csv(place / ("test.csv" if name == "test" else f"owners/{name}.csv"), index=False)
    said = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.chdir(place)
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        assert run("value", *JOB, "--target", "ill") == 0, said.getvalue()
    return place, said.getvalue()


def test_the_terminal_says_whose_labels_disagree(told: tuple[Path, str]) -> None:
    place, said = told
    why = said.partition("why, to those of whom there is something to say")[2]
    assert "Coburg: " in why.splitlines()[1]
    assert not [name for name in NAMES if name != "Coburg" and f"    {name}: " in why]
    settled = json.loads((place / "settlement.json").read_text())
    assert "check the coding of “ill”" in " ".join(why.split())
    reasons = {one["owner"]: one["reasons"][0]["code"] for one in settled["diagnosis"]["owners"]}
    assert reasons["Coburg"] in ("labels", "target")


def test_the_terminal_says_under_which_model_it_goes_on(told: tuple[Path, str]) -> None:
    assert "now the same under knn, accuracy" in told[1]
    assert "Parts of what is shared, under each model and score; the first pays." in told[1]
    assert "next, letters and payments:" in told[1]


@pytest.mark.parametrize("target", ["smokes", "il"])
def test_another_target_beside_a_settlement_is_named_as_the_cause(
    told: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
) -> None:
    monkeypatch.chdir(told[0])
    before = Path("settlement.json").read_bytes()
    assert run("value", *JOB, "--target", target) == 2
    assert "its target is 'ill'" in capsys.readouterr().err
    assert Path("settlement.json").read_bytes() == before


def test_the_page_of_a_check_counts_owners_and_test_rows_apart(
    told: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(told[0])
    files = ["owners", "--by-file", "--target", "ill", "--test", "test.csv"]
    assert run("check", *files, "--report", "check.html") in (0, 2), capsys.readouterr().err
    page = Path("check.html").read_text(encoding="utf-8")
    for label, text in {
        "owners": "5",
        "rows of owners": "600",
        "rows of the test set": "120",
    }.items():
        assert f"<dt>{label}</dt><dd>{text}</dd>" in page
    assert "{&#39;" not in page
    assert "{'" not in page


def test_a_misspelt_model_is_refused_before_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owners").mkdir()
    for name in ("owners/Aalen.csv", "owners/Brilon.csv", "test.csv"):
        (tmp_path / name).touch()  # whoever reads it complains of it
    assert run("value", *JOB, "--target", "ill", "--model", "naive-bays") == 2
    assert "'naive-bays'" in capsys.readouterr().err


def test_trainings_that_explain_are_agreed_and_counted(told: tuple[Path, str]) -> None:
    place, said = told
    settled = json.loads((place / "settlement.json").read_text())
    trained, explained = settled["valuation"]["n_trainings"], settled["diagnosis"]["trainings"]
    assert trained == 2**5 - 1
    assert f"up to {explained} trainings more, apart from the budget" in said
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert run("report", "settlement.json", "--page", "page.html") == 0
    assert (
        f"{trained} for the values, {explained} to explain them"
        in (place / "page.html").read_text()
    )


def test_trainings_that_explain_are_counted_in_json(
    told: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(told[0])
    words = ["owners", "--by-file", "--test", "test.csv", "--target", "ill", "--report", "p.html"]
    assert run("value", *words, "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["details"]["trainings to explain"] > 0
    assert "trainings more, apart from the budget: why" in err
