"""After an upgrade of anything that a model uses, the ledger gives no answer of before."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import dushapley as ds
from dushapley.games.model import identity
from dushapley.games.model.identity import blas, packages_of
from dushapley.hashing import package_version

CODE = """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
import thrown_beneath

class Upgraded(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self
    def predict(self, X):
        found = self.inner_.predict(X)
        return found if {version} < 2 else 1 - found

def shifted(X):
    return X + ({version} >= 2)

def score(truth, found):
    return float((truth == found).mean()) - ({version} >= 2)
"""
NAMES = ("thrown_away", "thrown_beneath", "thrown_aside")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Installs a package, with its metadata, in the version given; as pip would, but quicker."""
    folder = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def installed(name: str, version: str, requires: str = "") -> Any:
        (folder / name).mkdir(parents=True, exist_ok=True)
        code = CODE.format(version=version) if name == "thrown_away" else ""
        (folder / name / "__init__.py").write_text(code)
        for old in folder.glob(f"{name}-*.dist-info"):
            (old / "METADATA").unlink()
            old.rmdir()
        about = folder / f"{name}-{version}.dist-info"
        about.mkdir()
        needed = f"Requires-Dist: {requires}\n" if requires else ""
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"
        )
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield installed
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def package(install: Callable[..., Any]) -> Any:
    for name in NAMES[1:]:
        install(name, "1.0")
    return install("thrown_away", "1.0")


def game(model: Any, scoring: Any = "accuracy", **more: Any) -> ds.ModelGame:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    owners = ds.Owners.from_arrays({"a": (X[:20], y[:20]), "b": (X[20:40], y[20:40])})
    return ds.ModelGame(owners, model, X[40:], y[40:], scoring=scoring, **more)


MADE: dict[str, Callable[[Any], ds.ModelGame]] = {
    "the model": lambda p: game(p.Upgraded()),
    "in a pipeline": lambda p: game(make_pipeline(StandardScaler(), p.Upgraded())),
    "wrapped twice": lambda p: game(make_pipeline(OneVsRestClassifier(p.Upgraded()))),
    "a function in a pipeline": lambda p: game(
        make_pipeline(FunctionTransformer(p.shifted), LogisticRegression())
    ),
    "a function with options": lambda p: game(
        make_pipeline(FunctionTransformer(np.add, kw_args={"x2": p.shifted(0)}), p.Upgraded())
    ),
    "based on it": lambda p: game(type("Own", (p.Upgraded,), {"__module__": "sklearn.base"})()),
}


@pytest.mark.parametrize("where", MADE)
def test_an_upgrade_is_another_context(
    install: Callable[..., Any], package: Any, where: str
) -> None:
    before = MADE[where](package)
    assert before.packages["thrown-away"] == "1.0"
    after = MADE[where](install("thrown_away", "2.0"))
    assert after.packages["thrown-away"] == "2.0"
    assert before.context != after.context


def test_the_truth_is_not_hidden_by_what_was_paid(
    install: Callable[..., Any], package: Any, tmp_path: Path
) -> None:
    def settled(p: Any, name: str = "ledger") -> ds.Valuation:
        made = game(make_pipeline(StandardScaler(), p.Upgraded()))
        return ds.value(made, "exact", ledger=tmp_path / f"{name}-{made.context}")

    first = settled(package)
    assert first.u_full > 0.8
    install("thrown_aside", "2.0")  # which nobody uses
    assert settled(package).n_computed == 0
    upgraded = settled(install("thrown_away", "2.0"))
    assert upgraded.u_full == pytest.approx(1 - first.u_full)
    one = game(package.Upgraded())
    ds.value(one, "exact", ledger=tmp_path / "one")
    other = game(install("thrown_away", "3.0").Upgraded())
    with pytest.raises(ds.errors.LedgerMismatch, match="version"):
        ds.value(other, "exact", ledger=tmp_path / "one")


def test_what_a_package_requires_counts_too(install: Callable[..., Any], package: Any) -> None:
    install("thrown_beneath", "1.0", requires="thrown.aside")
    needing = install("thrown_away", "1.0", requires='Thrown_Beneath>=1; python_version > "3"')
    before = game(needing.Upgraded())
    assert before.packages["thrown-aside"] == before.packages["thrown-beneath"] == "1.0"
    install("thrown_aside", "2.0")  # required by what is required
    again = install("thrown_away", "1.0", requires="thrown-beneath")
    assert game(again.Upgraded()).context != before.context
    unstated = install("thrown_away", "1.0", requires='thrown-aside; extra == "more"')
    assert "thrown-aside" not in game(unstated.Upgraded()).packages


def test_what_a_package_does_not_state_is_told_apart_by_a_fingerprint(
    install: Callable[..., Any], package: Any
) -> None:
    before = game(package.Upgraded())  # its module imports thrown_beneath
    install("thrown_beneath", "2.0")
    assert game(install("thrown_away", "1.0").Upgraded()).context == before.context
    assert game(package.Upgraded(), fingerprint="beneath 2.0").context != before.context


@pytest.mark.parametrize("metadata", ["none", "of another name", "of another folder"])
def test_a_package_without_a_version_is_known_by_its_files(
    install: Callable[..., Any], package: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, metadata: str,
) -> None:  # fmt: skip
    home = Path(package.__file__).parent
    about = home.parent / "thrown_away-1.0.dist-info"
    if metadata == "of another folder":
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.syspath_prepend(tmp_path / "elsewhere")
        about.rename(tmp_path / "elsewhere" / about.name)
    else:
        (about / "METADATA").unlink()
        about.rmdir()
    if metadata == "of another name":
        (home.parent / "other_name-1.0.dist-info").mkdir()
        told = "Metadata-Version: 2.1\nName: other_name\nVersion: 1.0\n"
        (home.parent / "other_name-1.0.dist-info" / "METADATA").write_text(told)
    before = game(package.Upgraded())
    assert game(package.Upgraded()).context == before.context
    (home / "weights.bin").write_bytes(b"2.0")
    sys.modules.pop("thrown_away")
    after = game(importlib.import_module("thrown_away").Upgraded())
    assert after.context != before.context


def test_scores_are_nested_too(install: Callable[..., Any], package: Any) -> None:
    def scored(p: Any) -> ds.ModelGame:
        return game(LogisticRegression(), make_scorer(p.score))

    def named(p: Any) -> ds.ModelGame:
        made = game(LogisticRegression(), make_scorer(accuracy_score))
        return made if p is None else scored(p)

    assert "thrown-away" not in named(None).packages
    before = scored(package).packages
    assert before["thrown-away"] == "1.0"
    assert scored(install("thrown_away", "2.0")).packages != before


def test_numpy_scipy_and_the_linear_algebra_are_always_there() -> None:
    names = game(LogisticRegression()).packages
    assert {"dushapley", "numpy", "scipy", "scikit-learn"} <= set(names)
    assert any(name.startswith("BLAS") for name in names)
    assert not {"rich", "matplotlib", "typer", "pytest"} & set(names)


def test_versions_are_the_same_in_another_process() -> None:
    code = (
        "import pandas, matplotlib; from sklearn.linear_model import Ridge; "
        "from dushapley.games.model.identity import packages_of; print(packages_of(Ridge(), 'r2'))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    from sklearn.linear_model import Ridge

    assert told.stdout.strip() == str(packages_of(Ridge(), "r2"))
    assert blas()


def test_an_upgrade_is_still_the_same_game_to_verify(
    install: Callable[..., Any], package: Any
) -> None:
    before = game(package.Upgraded())
    after = game(install("thrown_away", "1.1").Upgraded())
    assert before.context != after.context
    assert before.fingerprint == after.fingerprint  # so that its values are computed again
    assert ds.verify(ds.settle(ds.value(before, "exact"), 100), after).holds


def mixed() -> ds.ModelGame:
    """A game whose table is made into numbers by an encoder of another package."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.normal(size=60), "town": rng.choice(["x", "y", "z"], 60)})
    label = (rows["a"] + (rows["town"] == "x") > 0.3).astype(int).to_numpy()
    owners = ds.Owners.from_arrays(
        {name: (rows[k : k + 20], label[k : k + 20]) for k, name in ((0, "a"), (20, "b"))}
    )
    return ds.ModelGame(owners, LogisticRegression(), rows[40:], label[40:])


def upgrade(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Have a package that is really installed say that it is of another version."""
    real = identity.metadata.distribution

    def other(name: str) -> Any:
        found = real(name)
        if name != package:
            return found
        return SimpleNamespace(
            version="99.0", requires=found.requires, metadata=found.metadata,
            locate_file=found.locate_file,
        )  # fmt: skip

    monkeypatch.setattr(identity.metadata, "distribution", other)
    forget_versions()


def forget_versions() -> None:
    identity._versions.cache_clear()
    package_version.cache_clear()


@pytest.mark.parametrize("package", ["skrub", "pandas", "scikit-learn", "scipy", "numpy"])
def test_upgrades_beneath_an_encoder_are_never_answered(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mixed()
    assert before.encoding is not None
    ds.value(before, "exact", ledger=tmp_path / "ledger")
    with monkeypatch.context() as patch:
        upgrade(patch, package)
        with pytest.raises(ds.errors.LedgerMismatch):
            ds.value(mixed(), "exact", ledger=tmp_path / "ledger")
    forget_versions()
    with monkeypatch.context() as patch:
        upgrade(patch, "matplotlib")  # which the encoder's package requires for drawing
        assert ds.value(mixed(), "exact", ledger=tmp_path / "ledger").n_computed == 0
    forget_versions()


def test_an_upgraded_score_is_never_answered(
    install: Callable[..., Any], package: Any, tmp_path: Path
) -> None:
    def paid(p: Any) -> ds.Valuation:
        made = game(LogisticRegression(), make_scorer(p.score), fingerprint="my score")
        return ds.value(made, "exact", ledger=tmp_path / "ledger")

    paid(package)
    install("thrown_aside", "2.0")  # which no score uses
    assert paid(package).n_computed == 0
    with pytest.raises(ds.errors.LedgerMismatch):
        paid(install("thrown_away", "2.0"))
