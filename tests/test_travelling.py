"""What a game takes along to its workers, and what happens to models that misbehave there."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley import errors
from dushapley.engine.executors import dask as dask_executor
from dushapley.engine.executors.worker import Parcel, pack
from extras import needs
from faults import faulty_game, sleepy_game

RNG = np.random.default_rng(0)
ROWS = RNG.normal(3, 1, size=(80, 3))
TARGETS = ROWS @ [1.0, 2.0, 3.0] + RNG.normal(size=80)


def game(model: Any, **options: Any) -> ds.ModelGame:
    owners = ds.Owners.from_arrays({f"o{i}": (ROWS[i:60:3], TARGETS[i:60:3]) for i in range(3)})
    options = {"scoring": "r2", "fast": False} | options
    return ds.ModelGame(owners, model, ROWS[60:], TARGETS[60:], **options)


def places(client: Any) -> list[dict[str, Any]]:
    return [{}, {"n_jobs": 2}, {"executor": "dask", "address": client}]


# --- rows that everybody shares -----------------------------------------------------------------


def test_models_that_scale_in_place_are_worth_the_same_everywhere(client: Any) -> None:
    before = ROWS.tobytes()
    careful = ds.value(game(make_pipeline(StandardScaler(), LinearRegression())), "exact")
    for place in places(client):
        careless = game(make_pipeline(StandardScaler(copy=False), LinearRegression()))
        found = ds.value(careless, "exact", **place)
        np.testing.assert_allclose(found.values, careful.values, rtol=1e-9)
    assert ROWS.tobytes() == before


class Centred(RegressorMixin, BaseEstimator):
    """Least squares that centres whatever it is given, where it is."""

    def __init__(self, careful: bool = False, random_state: int | None = None) -> None:
        self.careful, self.random_state = careful, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Centred:
        self.mean_ = X.mean(axis=0)
        X -= self.mean_
        self.weights_ = np.linalg.lstsq(X, y, rcond=None)[0]
        self.level_ = y.mean()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        if self.careful:
            X = X - self.mean_
        else:
            X -= self.mean_
        return X @ self.weights_ + self.level_


def test_writing_into_the_test_set_changes_it_for_nobody(client: Any) -> None:
    careful = ds.value(game(Centred(careful=True)), "exact")
    for place in places(client):
        found = ds.value(game(Centred()), "exact", **place)
        assert found.values.tobytes() == careful.values.tobytes()
    found = ds.value(game(Centred(), timeout=60), "exact")
    assert found.values.tobytes() == careful.values.tobytes()


def spoil(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    score = -float(((model.predict(X) - y) ** 2).mean())
    X[:], y[:] = 0, 0
    return score


def test_scorers_may_write_too() -> None:
    named = ds.value(game(LinearRegression(), scoring="neg_mean_squared_error", empty=0.0), "exact")
    written = ds.value(game(LinearRegression(), scoring=spoil, empty=0.0), "exact")
    np.testing.assert_allclose(written.values, named.values, rtol=1e-12)


def test_repeats_do_not_train_on_what_others_wrote() -> None:
    once = ds.value(game(Centred(careful=True)), "exact")
    often = ds.value(game(Centred(careful=True), repeats=3), "exact")
    np.testing.assert_allclose(often.values, once.values, rtol=1e-12)


# --- code that travels --------------------------------------------------------------------------

MODEL = """
from sklearn.base import BaseEstimator, RegressorMixin
import numpy as np
CENTRE = np.{centre}

def centre(y):
    return CENTRE(y)

class Level(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.level_ = centre(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.level_)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes a module that only this process can import, and loads it, again if need be."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(centre: str) -> Any:
        (tmp_path / "my_level.py").write_text(MODEL.format(centre=centre))
        importlib.invalidate_caches()
        known = sys.modules.get("my_level")
        return importlib.import_module("my_level") if known is None else importlib.reload(known)

    yield write
    sys.modules.pop("my_level", None)


@pytest.mark.slow
def test_workers_run_the_code_that_the_driver_has_now(own_module: Any) -> None:
    for centre in ("mean", "median"):
        level = own_module(centre).Level
        here = ds.value(game(level()), "exact")
        there = ds.value(game(level()), "exact", n_jobs=2)  # on workers that live on
        assert there.values.tobytes() == here.values.tobytes()


def arrived(parcel: Parcel) -> Any:
    """The game, as a worker unpacks it."""
    return pickle.loads(pickle.dumps(parcel)).game


def test_versions_of_all_that_a_game_is_made_of_are_compared(own_module: Any) -> None:
    assert set(pack(sleepy_game()).packages) == {
        "Python", "dushapley", "numpy", "scipy", "sklearn",
    }  # fmt: skip
    assert "my_level" not in pack(game(own_module("mean").Level())).packages
    lightgbm = needs("lightgbm")
    parcel = pack(game(lightgbm.LGBMRegressor()))
    assert parcel.packages["lightgbm"] == lightgbm.__version__
    assert arrived(parcel).n_players == 3
    parcel.packages["lightgbm"] = "0.1"
    with pytest.raises(errors.WorkersDiffer, match=r"lightgbm .* \(driver: 0\.1\)"):
        arrived(parcel)
    parcel.packages["not_here_at_all"] = "1.0"
    with pytest.raises(errors.WorkersDiffer, match="not_here_at_all missing"):
        arrived(parcel)


def test_modules_that_compilers_make_up_have_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cython registers such ones, under names that a fresh worker does not know yet."""
    made_up = ModuleType("_made_up_3_2")
    made_up.Kind = type("Kind", (), {"__module__": "_made_up_3_2"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "_made_up_3_2", made_up)
    played = sleepy_game()
    played.extra = made_up.Kind()
    assert "_made_up_3_2" not in pack(played).packages


class Locked:
    """A utility that holds what cannot travel."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, X: np.ndarray, y: object) -> float:
        with self.lock:
            return float(len(X))


def test_games_that_cannot_travel_say_so(client: Any) -> None:
    owners = ds.Owners.from_arrays({"a": [[1.0]], "b": [[2.0]]})
    here, *elsewhere = places(client)
    assert ds.value(ds.DatasetGame(owners, Locked()), "exact", **here).values.tolist() == [1, 1]
    for place in elsewhere:
        with pytest.raises(errors.InvalidGame, match=r"cannot travel.*lock.*n_jobs=1"):
            ds.value(ds.DatasetGame(owners, Locked()), "exact", **place)


# --- models that leave, neighbours, schedulers --------------------------------------------------


class Leaves(LogisticRegression):
    def fit(self, X: Any, y: Any) -> Any:
        sys.exit(3)


@pytest.mark.slow
def test_a_model_that_calls_exit_has_failed_and_nothing_more(client: Any) -> None:
    labels = (TARGETS.mean() < TARGETS).astype(int)
    owners = ds.Owners.from_arrays({f"o{i}": (ROWS[i:60:3], labels[i:60:3]) for i in range(3)})
    limits: list[dict[str, Any]] = [{}, {"timeout": 60}]
    for place in places(client):
        for limit in limits if "executor" not in place else limits[:1]:
            made = [
                ds.ModelGame(owners, Leaves(), ROWS[60:], labels[60:], on_failure=policy, **limit)
                for policy in ("raise", "empty")
            ]
            with pytest.raises(errors.UtilityFailed, match="SystemExit: 3"):
                ds.value(made[0], "exact", **place)
            assert ds.value(made[1], "exact", **place).failures == {"SystemExit: 3": 7}


def leave(X: np.ndarray, y: object) -> float:
    raise SystemExit("enough")


def test_a_utility_that_calls_exit_has_failed(client: Any) -> None:
    owners = ds.Owners.from_arrays({"a": [[1.0]], "b": [[2.0]]})
    for place in places(client):
        with pytest.raises(errors.UtilityFailed, match="SystemExit: enough"):
            ds.value(ds.DatasetGame(owners, leave), "exact", **place)


def test_a_run_with_limits_beside_another_on_local_workers() -> None:
    found: list[Any] = []
    beside = threading.Thread(
        target=lambda: found.append(ds.value(sleepy_game(0.02), "exact", n_jobs=2))
    )
    beside.start()
    limited = ds.value(faulty_game(3, timeout=30), "exact", n_jobs=2)
    beside.join(120)
    assert not beside.is_alive()
    assert found[0].values.tobytes() == ds.value(sleepy_game(), "exact").values.tobytes()
    assert limited.values.tobytes() == ds.value(faulty_game(3), "exact").values.tobytes()


def lacking(name: str) -> str:
    raise ModuleNotFoundError(name)


def test_workers_without_this_library_are_named(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_executor, "version", lacking)
    with pytest.raises(errors.WorkersDiffer, match=r"The Dask worker inproc://.* lacks dushapley"):
        ds.value(sleepy_game(), "exact", executor="dask", address=client)
