"""What people met on their first day: labels, gains of nothing, repeated options, odd names."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds
from dushapley.cli.main import main
from dushapley.engine.executors import make_executor
from dushapley.errors import InvalidOption, InvalidOwners, InvalidSettlement
from extras import needs

X = np.random.default_rng(0).normal(size=(80, 3))
RIGHT = X.sum(axis=1) > 0


def game_of(model, y: np.ndarray, scoring: str, **more) -> ds.ModelGame:
    blocks = {"a": (X[:20], y[:20]), "b": (X[20:40], y[20:40]), "c": (X[40:45], y[40:45])}
    return ds.ModelGame(
        ds.Owners.from_arrays(blocks), model, X[45:], y[45:], scoring=scoring, **more
    )


@pytest.mark.parametrize("kind", ["float64", "float32", "bool", "uint8", "str"])
@pytest.mark.parametrize(
    "model",  # open seeds follow the content of a pool, of which the kind of its labels is a part
    [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(random_state=0)],
)
def test_classes_may_be_numbers_of_any_kind_or_text(kind: str, model) -> None:
    """A target column that once held a hole is of floats; `y > 0` is of truth values."""
    y = RIGHT.astype(np.int64)
    y[40:45] = 1  # an owner of one class
    plain = ds.value(game_of(model, y, "accuracy"), "exact", progress=False)
    other = ds.value(game_of(model, y.astype(kind), "accuracy"), "exact", progress=False)
    assert other.values == pytest.approx(plain.values, abs=1e-12)


def test_a_gain_of_rounding_is_none() -> None:
    """The sign of 2.8e-17 decides nothing, and nothing is divided by it."""
    worth = np.array([0.3, -0.2, -0.1])
    v = ds.value(ds.CallableGame(lambda z: z @ worth, 3), "exact")
    assert 0 < abs(v.values.sum()) < v.rounding
    assert np.isnan(v.shares).all()
    with pytest.raises(InvalidSettlement, match="no gain to share"):
        ds.settle(v, 100, currency="EUR", negative="charge")
    assert ds.settle(v, 100, currency="EUR").notes
    assert [row["share_text"] for row in ds.report.summarize(v)["rows"]] == ["–"] * 3


@pytest.mark.parametrize("negative", ["clip", "charge"])
def test_values_of_rounding_are_paid_nothing(negative: str) -> None:
    v = ds.value(ds.CallableGame(lambda z: 1.0 + z @ np.array([1e-17, 0.0, -1e-17]), 3), "exact")
    with pytest.raises(InvalidSettlement, match="no gain to share"):
        ds.settle(v, 100, currency="EUR", negative=negative)


@pytest.mark.parametrize("solver", ["sag", "saga", "lsqr", "sparse_cg"])
def test_solvers_that_stop_when_near_are_the_models_own(solver: str) -> None:
    """Sums give the exact solution, which is another model's answer."""
    y = X @ np.array([1.0, 2.0, 3.0])
    game = game_of(Ridge(solver=solver, random_state=0), y, "r2")
    assert not game.cheap
    assert game_of(Ridge(), y, "r2").cheap


def test_holes_in_targets_are_refused_before_anything_is_trained() -> None:
    y = X @ np.array([1.0, 2.0, 3.0])
    y[0] = np.nan
    with pytest.raises(InvalidOwners, match=r"Owner 'a' .* target is missing"):
        game_of(Ridge(), y, "r2", on_failure="empty")


def test_features_beyond_squares_are_fitted() -> None:
    blocks = {name: (X[rows] * 1e200, X[rows, 0]) for name, rows in (("a", [0, 1, 2, 3, 4]),
              ("b", [5, 6, 7, 8, 9]))}  # fmt: skip
    owners = ds.Owners.from_arrays(blocks)
    game = ds.ModelGame(owners, LinearRegression(), X[45:] * 1e200, X[45:, 0], scoring="r2")
    assert not game.cheap


@pytest.mark.parametrize("address", ["tcp:bad", "tcp://host:abc", "127.0.0.1", "tcp://host:"])
def test_addresses_without_a_port_are_refused_at_once(address: str) -> None:
    needs("distributed")
    with pytest.raises(InvalidOption, match="with its port"):
        make_executor("dask", 1, address).__enter__()


def test_an_option_given_twice_is_refused(capsys) -> None:
    """Of two, one would be dropped."""
    with pytest.raises(SystemExit) as ended:
        main(["what-if", "files", "--target", "y", "--leave", "A", "--leave", "B"])
    assert ended.value.code == 2
    assert "Found --leave 2 times" in capsys.readouterr().err


def test_names_cannot_turn_text_around_on_the_page() -> None:
    names = ["x\u202egnp.exe", "b", "c\u2028d"]
    game = ds.SizeGame([1, 2, 4], w=lambda n: n / (n + 3), names=names)
    page = ds.report.report(ds.value(game, "exact"))
    assert "\u202e" not in page
    assert "\u2028" not in page
    assert "x\ufffdgnp.exe" in page
