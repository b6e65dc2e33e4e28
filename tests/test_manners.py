"""How the command line behaves: what it prints where, what it calls things, how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dushapley as ds
from dushapley.cli.main import main

OWNERS = ["owners", "--by-file", "--target", "y"]
JOB = [*OWNERS, "--test", "test.csv"]
NOISY = """
import os
from sklearn.neighbors import KNeighborsClassifier
print("imported")
class Noisy(KNeighborsClassifier):
    def fit(self, X, y):
        print("training")
        os.write(1, b"compiled\\n")
        return super().fit(X, y)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three small owners and a test file, where we are."""
    rng = np.random.default_rng(0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owners").mkdir()

    def table(rows: int) -> pd.DataFrame:
        X = rng.normal(size=(rows, 2))
        return pd.DataFrame(X, columns=list("ab")).assign(y=np.where(X.sum(axis=1) > 0, "p", "n"))

    for name, rows in {"north": 20, "south": 30, "west": 15}.items():
        table(rows).to_csv(tmp_path / "owners" / f"{name}.csv", index=False)
    table(60).to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]):
    """A command: its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return int(end.value.code or 0), *capsys.readouterr()

    return run


@pytest.mark.parametrize("more", [[], ["--jobs", "2"], ["--timeout", "60"]])
def test_json_stays_json_when_a_model_prints(folder: Path, more: list[str]) -> None:
    (folder / "noisy.py").write_text(NOISY)
    paths = os.pathsep.join([str(Path(ds.__file__).parents[1]), str(folder)])
    command = ["value", *JOB, "--model", "noisy.Noisy", "--method", "loo", "--no-ledger", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "dushapley", *command, *more],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert json.loads(ended.stdout)["owners"] == ["north", "south", "west"]
    for word in (b"imported", b"training", b"compiled"):
        assert word in ended.stderr


def test_results_are_printed_by_one_function() -> None:
    """So that nothing else reaches stdout."""
    for module in (Path(ds.__file__).parent / "cli").glob("*.py"):
        assert not re.search(r"(?<![.\w])print\(", module.read_text(encoding="utf-8")), module
