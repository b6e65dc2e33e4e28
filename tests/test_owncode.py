"""Code of one's own: an edit makes another game, a comment does not."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dushapley as ds
from dushapley import errors
from dushapley.games.model.identity import own_code

MODEL = """
import my_helpers
from sklearn.linear_model import Ridge
SETTINGS = {"shift": 1.0}

class Shifted(Ridge):
    calls = 0
    def fit(self, X, y):
        Shifted.calls += 1
        return super().fit(X, my_helpers.halved(y) + SETTINGS["shift"])
"""
HELPERS = """
from my_deep import PART
def halved(y):
    return y * PART
"""
DEEP = "PART = 0.5"


NAMES = ("my_shifted", "my_helpers", "my_deep")


def game(model: Any) -> ds.ModelGame:
    X = np.arange(24.0).reshape(12, 2)
    owners = ds.Owners.from_arrays({"a": (X[:4], X[:4, 0]), "b": (X[4:8], X[4:8, 0])})
    return ds.ModelGame(owners, model, X[8:], X[8:, 0], scoring="r2", fast=False)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes both modules anew and loads them."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(model: str = MODEL, helpers: str = HELPERS, deep: str = DEEP) -> Any:
        for name, code in zip(NAMES, (model, helpers, deep), strict=True):
            (tmp_path / f"{name}.py").write_text(code)
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("my_shifted")

    yield write
    forget()


def forget() -> None:
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "changed",
    [
        (MODEL.replace("1.0", "2.0"), HELPERS, DEEP),
        (MODEL.replace(") + ", ") - "), HELPERS, DEEP),
        (MODEL, HELPERS.replace("y * PART", "y / PART"), DEEP),
        (MODEL, HELPERS, "PART = 0.25"),
    ],
)
def test_an_edit_makes_another_game(load: Any, changed: tuple[str, str, str]) -> None:
    before = game(load().Shifted()).context
    assert before is not None
    assert game(load(*changed).Shifted()).context != before


def test_comments_layout_and_what_a_run_leaves_behind_do_not(load: Any) -> None:
    module = load()
    before = game(module.Shifted()).context
    ds.value(game(module.Shifted()), "exact")
    module.SETTINGS["shift"] = 3.0  # by the script, which is its own affair
    assert game(module.Shifted()).context == before
    commented = "# why\n" + MODEL.replace("    calls = 0", "\n    calls =  0  # so far")
    assert game(load(commented).Shifted()).context == before


def test_an_edit_counts_once_the_module_is_loaded_again(load: Any, tmp_path: Path) -> None:
    module = load()
    before = own_code(["my_shifted"])
    assert list(before) == sorted(NAMES)
    (tmp_path / "my_shifted.py").write_text(MODEL.replace("1.0", "2.0"))
    assert own_code(["my_shifted"]) == before
    importlib.reload(module)
    after = own_code(["my_shifted"])
    assert after["my_shifted"] != before["my_shifted"]
    assert after["my_helpers"] == before["my_helpers"]


PACKAGED = {
    "my_package/__init__.py": "",
    "my_package/model.py": "from . import more\nfrom .inner import deep\n",
    "my_package/more.py": "def f():\n    from ..my_package.inner.deep import PART\n",
    "my_package/inner/__init__.py": "import my_alone",
    "my_package/inner/deep.py": "PART = 0.5",
    "my_package/other.py": "",
    "my_alone.py": "",
    "my_caller.py": "from my_package import model",
}


def test_modules_of_a_package_count_where_they_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in PACKAGED.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(code)
    importlib.invalidate_caches()
    importlib.import_module("my_caller")
    loaded = {f"my_package{end}" for end in ("", ".inner", ".inner.deep", ".model", ".more")}
    assert set(own_code(["my_caller"])) == {"my_caller", "my_alone", *loaded}
    for name in ("my_caller", "my_alone", "my_package.other", *loaded):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_digest_is_the_same_in_every_process(load: Any, tmp_path: Path) -> None:
    load()
    code = "import my_shifted; from dushapley.games.model.identity import own_code as o; "
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        told = subprocess.run(
            [sys.executable, "-c", code + "print(o(['my_shifted']))"],
            env=environment, capture_output=True, text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        assert told.stdout.strip() == str(own_code(["my_shifted"]))


def test_a_ledger_paid_under_other_code_is_refused(load: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    ds.value(game(load().Shifted()), "exact", ledger=ledger)
    assert ds.value(game(load().Shifted()), "exact", ledger=ledger).n_computed == 0
    other = game(load(deep="PART = 2.0").Shifted())
    with pytest.raises(errors.LedgerMismatch, match=r"model.*code.*differ"):
        ds.value(other, "exact", ledger=ledger)


def test_functions_inside_a_pipeline_count(load: Any) -> None:
    def piped() -> ds.ModelGame:
        helpers = importlib.import_module("my_helpers")
        return game(make_pipeline(FunctionTransformer(helpers.halved), Ridge()))

    load()
    before = piped().context
    load(deep="PART = 4.0")
    assert piped().context != before


def test_installed_code_is_known_by_its_version() -> None:
    assert own_code(["sklearn.linear_model", "dushapley.games.model.game", "json", "no_such"]) == {}
