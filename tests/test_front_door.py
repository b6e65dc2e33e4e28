"""A traced run of the demo's files: nothing is read, planned, opened or asked twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dushapley.cli.demo import HOSPITALS, demo_tables, leave_files
from dushapley.data.files import SourceFile
from dushapley.errors import InvalidOwners
from extras import needs

TRACE = """
import atexit, json, os, sys
from collections import Counter

folder, trace = sys.argv.pop(1), sys.argv.pop(1)
seen = {name: Counter() for name in ("opened", "listed", "ledgers", "pools", "made")}


def notice(event, arguments):
    if event == "open" and str(arguments[0]).startswith(folder):
        seen["opened"][os.path.basename(arguments[0])] += 1
    elif event in ("os.listdir", "os.scandir") and str(arguments[0]).startswith(folder):
        seen["listed"][os.path.basename(arguments[0])] += 1
    elif event == "sqlite3.connect" and arguments[0] != "":  # "": scores of this run, on no file
        seen["ledgers"][os.path.basename(arguments[0])] += 1


def counted(home, name, what):
    function = getattr(home, name)

    def wrapper(*arguments, **options):
        what(*arguments)
        return function(*arguments, **options)

    setattr(home, name, wrapper)


sys.addaudithook(notice)
from dushapley.engine.ledger import Ledger
from dushapley.engine import value
from dushapley.games.model import catalogue

counted(value, "choose_plan", lambda *_: seen["made"].update(["plan"]))
counted(catalogue, "guess_task", lambda *_: seen["made"].update(["task"]))
counted(Ledger, "read", lambda _, keys: seen["pools"].update(key.hex() for key in keys))
atexit.register(lambda: json.dump(seen, open(trace, "w")))
from dushapley.cli.main import main

main()
"""


def test_the_bytes_of_a_file_are_taken_once(tmp_path: Path) -> None:
    path = tmp_path / "north.csv"
    path.write_text("a,y\n1,0\n2,1\n")
    file = SourceFile.read(path)
    path.write_text("changed after it was opened")
    assert file.table()["a"].tolist() == [1, 2]
    assert file.record() == {
        "name": "north.csv",
        "role": "owners",
        "sha256": sha256(b"a,y\n1,0\n2,1\n").hexdigest(),
    }
    with pytest.raises(InvalidOwners, match="were taken before; open it again"):
        file.table()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's files: one per hospital, and a test file."""
    folder = tmp_path_factory.mktemp("demo") / "files"
    leave_files(folder, *demo_tables(0))
    return folder


def traced(files: Path, *command: object) -> tuple[dict[str, dict[str, int]], str]:
    """What one command opened, listed, made and asked; and its output."""
    trace = files.parent / "trace.json"
    run = subprocess.run(
        [sys.executable, "-c", TRACE, str(files), str(trace), *map(str, command)],
        capture_output=True,
        text=True,
        check=True,
        cwd=files.parent,
        env=os.environ | {"XDG_STATE_HOME": str(files.parent / "state")},
    )
    return json.loads(trace.read_text()), run.stdout


def of_files(files: Path) -> list[Any]:
    return [files / "owners", "--by-file", "--target", "diagnosis", "--test", files / "test.csv"]


def once_each(names: list[str]) -> dict[str, int]:
    return dict.fromkeys([f"{name}.csv" for name in names], 1)


def test_value_reads_plans_opens_and_asks_once(files: Path) -> None:
    needs("lightgbm")  # one of the usual models
    more = ["--pot", "1000", "--currency", "EUR", "--report", "report.html", "--json"]
    seen, out = traced(files, "value", *of_files(files), *more)
    result = json.loads(out)
    assert seen["opened"] == once_each([*HOSPITALS, "test"])
    assert seen["listed"] == {"owners": 1}
    assert seen["made"] == {"plan": 1, "task": 1}
    assert list(seen["ledgers"].values()) == [1]
    looked_up = sorted(seen["pools"].values())
    assert looked_up[-2:] == [2, 2]  # nobody's and everybody's, which were timed before the run
    assert set(looked_up[:-2]) == {1}
    why = 2 * len(HOSPITALS) + 2  # of the diagnosis: both ways, one forest for all, usual models
    assert len(seen["pools"]) == result["n_distinct"] + why


@pytest.mark.slow
def test_verify_reads_each_file_once(files: Path) -> None:
    terms = ["--pot", "1000", "--method", "loo", "--yes", "--force"]
    traced(files, "value", *of_files(files), *terms)
    seen, out = traced(
        files, "verify", "settlement.json", files / "owners", files / "test.csv", "--from-ledger"
    )
    assert "The settlement holds." in out
    assert seen["opened"] == once_each([*HOSPITALS, "test"])
    assert seen["listed"] == {"owners": 1}
    assert list(seen["ledgers"].values()) == [1]


@pytest.mark.parametrize("command", ["quote", "what-if"])
def test_other_commands_read_each_file_once(files: Path, command: str) -> None:
    more = ["--leave", "Juniper", "--method", "loo", "--yes"] if command == "what-if" else []
    seen, _ = traced(files, command, *of_files(files), *more)
    assert seen["opened"] == once_each([*HOSPITALS, "test"])
    assert seen["listed"] == {"owners": 1}
    assert seen["made"]["task"] == 1


@pytest.mark.slow
def test_the_demo_makes_one_plan_and_keeps_no_ledger(files: Path) -> None:
    seen, out = traced(files, "demo", "--out", files.parent / "out", "--json")
    assert json.loads(out)["n_evaluations"] == 300
    assert seen["made"] == {"plan": 1, "task": 1}
    assert seen["ledgers"] == {}
