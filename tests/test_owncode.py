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
from dushapley.games.owncode import code_digest

MODEL = """
import functools
import my_helpers
from sklearn.linear_model import Ridge
SHIFT = 1.0
FITS = 0

@functools.cache
def shift(y):
    return y + SHIFT

class Base(Ridge):
    kinds = ("a", "b")
    @property
    def name(self):
        return "ridge"
    @staticmethod
    def known(kind):
        return kind in {"a", "b", "c", "d"}

class Shifted(Base):
    def fit(self, X, y):
        global fits
        fits = [shift(value) for value in y]
        return super().fit(X, my_helpers.halved(fits))
"""
HELPERS = """
import numpy as np
def halved(y):
    return np.asarray(y) / 2
def unused():
    return 1
"""


def game(model: Any) -> ds.ModelGame:
    X = np.arange(24.0).reshape(12, 2)
    owners = ds.Owners.from_arrays({"a": (X[:4], X[:4, 0]), "b": (X[4:8], X[4:8, 0])})
    return ds.ModelGame(owners, model, X[8:], X[8:, 0], scoring="r2", fast=False)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes both modules anew and loads them."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(model: str = MODEL, helpers: str = HELPERS) -> Any:
        (tmp_path / "my_shifted.py").write_text(model)
        (tmp_path / "my_helpers.py").write_text(helpers)
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("my_shifted")

    yield write
    forget()


def forget() -> None:
    for name in ("my_shifted", "my_helpers"):
        sys.modules.pop(name, None)


def edited(before: str, after: str) -> str:
    assert before in MODEL
    return MODEL.replace(before, after)


@pytest.mark.parametrize(
    ("model", "helpers"),
    [
        (edited("SHIFT = 1.0", "SHIFT = 2.0"), HELPERS),
        (edited("y + SHIFT", "y - SHIFT"), HELPERS),
        (edited('"ridge"', '"Ridge"'), HELPERS),
        (edited('"c", "d"', '"c", "e"'), HELPERS),
        (edited('("a", "b")', '("a",)'), HELPERS),
        (edited("Base(Ridge)", "Base(my_helpers.np.__class__ and Ridge, object)"), HELPERS),
        (edited("def fit(self, X, y)", "def fit(self, X, y, w=None)"), HELPERS),
        (MODEL, HELPERS.replace("/ 2", "/ 3")),
    ],
)
def test_an_edit_makes_another_game(load: Any, model: str, helpers: str) -> None:
    before = game(load().Shifted()).context
    assert game(load(model, helpers).Shifted()).context != before


@pytest.mark.parametrize(
    ("model", "helpers"),
    [
        (MODEL, HELPERS),
        ("# a comment\n" + edited("        global", "        # why\n\n        global"), HELPERS),
        (edited("FITS = 0", "FITS = {}"), HELPERS),  # no part of the code uses it
        (MODEL, HELPERS.replace("return 1", "return 2")),
    ],
)
def test_what_decides_nothing_leaves_the_game_as_it_is(load: Any, model: str, helpers: str) -> None:
    before = game(load().Shifted()).context
    assert before is not None
    assert game(load(model, helpers).Shifted()).context == before


def test_the_digest_is_the_same_in_every_process(load: Any, tmp_path: Path) -> None:
    here = code_digest(load().Shifted)
    code = "import my_shifted; from dushapley.games.owncode import code_digest as d; "
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        told = subprocess.run(
            [sys.executable, "-c", code + "print(d(my_shifted.Shifted))"],
            env=environment, capture_output=True, text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        assert told.stdout.strip() == here


def test_a_ledger_paid_under_other_code_is_refused(load: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    ds.value(game(load().Shifted()), "exact", ledger=ledger)
    assert ds.value(game(load().Shifted()), "exact", ledger=ledger).n_computed == 0
    other = game(load(edited("SHIFT = 1.0", "SHIFT = 9.0")).Shifted())
    with pytest.raises(errors.LedgerMismatch, match=r"model.*code.*differ"):
        ds.value(other, "exact", ledger=ledger)


def test_functions_inside_a_pipeline_count(load: Any) -> None:
    def piped() -> ds.ModelGame:
        helpers = importlib.import_module("my_helpers")
        return game(make_pipeline(FunctionTransformer(helpers.halved), Ridge()))

    load()
    before = piped().context
    load(helpers=HELPERS.replace("/ 2", "/ 4"))
    assert piped().context != before


def test_installed_code_is_known_by_its_version() -> None:
    assert code_digest(Ridge) == code_digest(ds.ModelGame) == code_digest(len) == ""
