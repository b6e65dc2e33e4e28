"""Every mistake is met by a message that says what was found, what is needed and what to do."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dushapley as ds
from dushapley import errors
from dushapley.games import airport, glove, mean_estimation, voting
from faults import fill_the_disk


def additive(z: np.ndarray) -> np.ndarray:
    return z.sum(axis=1)


game = ds.TableGame(np.arange(8.0))
paid_game = ds.CallableGame(additive, 3, fingerprint="sum")
two_owners = ds.Owners.from_arrays({"a": [[1.0], [2.0], [3.0]], "b": [[4.0]]})
sum_of_rows = ds.DatasetGame(two_owners, lambda X, y: float(X.sum()))


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        # games
        (lambda: ds.TableGame([1, 2, 3]), errors.InvalidGame, r"needs 2\^I numbers"),
        (lambda: ds.TableGame([1.0]), errors.InvalidGame, r"needs 2\^I numbers"),
        (
            lambda: ds.TableGame([0, 1], [1, 2]),
            errors.InvalidGame,
            r"needs one number per owner",
        ),
        (lambda: ds.SizeGame([3, -1], np.sqrt), errors.InvalidGame, r"Owner 2 has -1.0 in sizes"),
        (
            lambda: ds.SizeGame([3, np.nan], np.sqrt),
            errors.InvalidGame,
            r"Owner 2 has nan in sizes",
        ),
        (lambda: ds.SizeGame([], np.sqrt), errors.InvalidGame, r"one number per owner"),
        (lambda: ds.SizeGame("many", np.sqrt), errors.InvalidGame, r"sizes are not numbers"),
        (lambda: ds.SizeGame([1, 2], 3), errors.InvalidGame, r"w must be a function"),
        (
            lambda: ds.value(ds.SizeGame([1, 2], lambda n: 1.0), "permutation"),
            errors.InvalidGame,
            r"w returned shape \(\)",
        ),
        (
            lambda: ds.SizeGame([1, 2], np.sqrt, names=["a", "a"]),
            errors.InvalidGame,
            r"one name per owner, all different",
        ),
        (lambda: ds.CallableGame(3, 2), errors.InvalidGame, r"Pass a callable"),
        (lambda: ds.CallableGame(additive, 0), errors.InvalidGame, r"whole number of at least 1"),
        (lambda: ds.value(3, "exact"), errors.InvalidGame, r"Found int, which is not a game"),
        (
            lambda: ds.LinearRegressionGame([9, 9], [1, 0], 2),
            errors.InvalidGame,
            r"gamma must be finite and positive",
        ),
        (
            lambda: ds.LinearRegressionGame([9, 9], 1, 2, form="raw"),
            errors.InvalidGame,
            r"choose 'fixed-point' or 'paper'",
        ),
        (
            lambda: ds.LinearRegressionGame([9, 9], 1, 2, form="paper", floor=-1),
            errors.InvalidGame,
            r"takes no floor",
        ),
        (lambda: ds.LinearRegressionGame([9], 1, 0), errors.InvalidGame, r"number of features"),
        (
            lambda: ds.RegressogramGame([[1, 2]], [0.5], mean_estimation(1, 1)),
            errors.InvalidGame,
            r"need to be \(I, B\) and \(B,\)",
        ),
        (
            lambda: ds.RegressogramGame([[1, 2]], [0.9, 0.9], mean_estimation(1, 1)),
            errors.InvalidGame,
            r"at most 1",
        ),
        (lambda: mean_estimation(0, 1), errors.InvalidGame, r"must be positive"),
        (lambda: glove(0, 2), errors.InvalidGame, r"at least one owner of each kind"),
        (lambda: voting([0.5, 1], 1), errors.InvalidGame, r"whole numbers"),
        (lambda: airport([-1]), errors.InvalidGame, r"not negative"),
        # pools
        (lambda: game([1, 0, 1]), errors.InvalidQuery, r"needs \(m, 3\)"),
        (lambda: game([[1, 0]]), errors.InvalidQuery, r"needs \(m, 3\)"),
        (lambda: game([[0, 0.5, 1]]), errors.FractionsRefused, r"knows whole owners only"),
        (lambda: game([[0, 2, 1]]), errors.InvalidQuery, r"outside 0..1"),
        (lambda: game([[0, np.nan, 1]]), errors.InvalidQuery, r"outside 0..1"),
        (lambda: sum_of_rows([[0.5, 1]]), errors.InvalidQuery, r"Pass draws="),
        (lambda: sum_of_rows([[0.5, 1]], draws=[1, 2]), errors.InvalidQuery, r"1 integers"),
        (lambda: sum_of_rows([[0.5, 1]], draws=[0.5]), errors.InvalidQuery, r"1 integers"),
        # owners
        (lambda: ds.Owners.from_arrays({}), errors.InvalidOwners, r"No owners were given"),
        (
            lambda: ds.Owners.from_arrays({"a": ([[1]], [1, 2])}),
            errors.InvalidOwners,
            r"but targets for 2",
        ),
        (lambda: ds.Owners.from_arrays({"a": []}), errors.InvalidOwners, r"'a' has no rows"),
        (
            lambda: ds.Owners.from_arrays({"a": [[1]], "b": [[1, 2]]}),
            errors.InvalidOwners,
            r"same columns",
        ),
        # methods, options, budgets
        (lambda: ds.value(game, budget=10**400), errors.InvalidOption, r"more than the 1,000"),
        (lambda: ds.value(game, seed=2**200), errors.InvalidOption, r"201 bits; it may have 128"),
        (lambda: ds.value(game, "owen", budget=10**15), errors.InvalidOption, r"Lower the budget"),
        (lambda: ds.value(game, "sobol", budget=10**15), errors.InvalidOption, r"fit in memory"),
        (lambda: ds.value(game, "exakt"), errors.UnknownMethod, r"Did you mean 'exact'\?"),
        (lambda: ds.value(game, "permutations"), errors.UnknownMethod, r"mean 'permutation'"),
        (
            lambda: ds.value(game, "loo", options={"from": "all"}),
            errors.InvalidOption,
            r"no option 'from'; the options it takes: form",
        ),
        (lambda: ds.value(game, "loo", options=["form"]), errors.InvalidOption, r"pass a mapping"),
        (
            lambda: ds.value(game, "loo", options={"form": "some"}),
            errors.InvalidOption,
            r"it takes 'all', 'random'",
        ),
        (
            lambda: ds.value(game, "auto", options={"form": "all"}),
            errors.InvalidOption,
            r"auto takes no options",
        ),
        (
            lambda: ds.value(game, "exact", budget=7),
            errors.BudgetTooSmall,
            r"needs at least 8",
        ),
        (lambda: ds.value(game, "exact", n_players=4), errors.InvalidGame, r"has 3 owners"),
        (lambda: ds.value(game, ["du"]), errors.UnknownMethod, r"no method"),
        (lambda: ds.SizeGame([1, 2], math.sqrt)([[1, 1]]), errors.InvalidGame, r"vectorised"),
        (
            lambda: ds.AskTell("du", 3, fractions="rows"),
            errors.InvalidGame,
            r"Drawing rows needs sizes=",
        ),
        (lambda: ds.AskTell("exact", 3, fractions="row"), errors.InvalidGame, r"choose 'exact'"),
        (
            lambda: ds.Owners.from_arrays({"a": ([[1]], [1]), "b": ([[1]], ["x"])}),
            errors.InvalidOwners,
            r"targets of owner 'b' are <U1, those of 'a' are int64",
        ),
        (
            lambda: ds.Owners.from_arrays(
                {"a": pd.DataFrame({"u": [1], "v": [2]}), "b": pd.DataFrame({"v": [1], "w": [2]})}
            ),
            errors.InvalidOwners,
            r"the same ones are needed",
        ),
        (
            lambda: ds.Owners.from_arrays({"a": ([1], [2], [3], [4])}),
            errors.InvalidOwners,
            r"tuple of 4",
        ),
        (
            lambda: ds.Owners.from_arrays({"a": [[[1, 2]], [1]]}),
            errors.InvalidOwners,
            r"rows of different lengths",
        ),
        (
            lambda: ds.Owners.from_arrays({"a": np.array([object()])}),
            errors.InvalidOwners,
            r"content cannot be compared",
        ),
        (lambda: ds.Owners({"a": [1]}), errors.InvalidCall, r"Use Owners.from_arrays"),
        (lambda: ds.DatasetGame({"a": [1]}, len), errors.InvalidGame, r"pass Owners"),
        (lambda: ds.value(game, budget=1), errors.BudgetTooSmall, r"at least 2"),
        (lambda: ds.value(game, budget=9.5), errors.InvalidOption, r"whole number"),
        (lambda: ds.value(game, "loo", budget=4), errors.BudgetTooSmall, r"needs at least 5"),
        (
            lambda: ds.value(sum_of_rows, "du", budget=3),
            errors.BudgetTooSmall,
            r"for 2 owners it needs at least 4",
        ),
        (
            lambda: ds.value(game, "du"),
            errors.MethodNotApplicable,
            r"asks for whole owners",
        ),
        (
            lambda: ds.value(game, "loo", options={"form": "random"}),
            errors.MethodNotApplicable,
            r"whole owners only",
        ),
        (lambda: ds.value(game, "exact", seed=-1), errors.InvalidOption, r"not negative"),
        (lambda: ds.value(game, "exact", precision=0), errors.InvalidOption, r"precision is 0"),
        (
            lambda: ds.value(game, "exact", precision=95),
            errors.InvalidOption,
            r"at most 1, say 0.05",
        ),
        (lambda: ds.value(game, n_jobs=0), errors.InvalidOption, r"n_jobs is 0"),
        (lambda: ds.value(game, executor="cloud"), errors.InvalidOption, r"executor is 'cloud'"),
        # ledgers that cannot be
        (
            lambda: ds.value(ds.CallableGame(additive, 3), ledger="x.sqlite"),
            errors.LedgerRefused,
            r"fingerprint=",
        ),
        (
            lambda: ds.value(paid_game, ledger="no/such/folder/x.sqlite"),
            errors.LedgerUnreadable,
            r"folder that exists",
        ),
        # stored valuations
        (lambda: ds.Valuation.from_dict({}), errors.InvalidValuation, r"Found format None"),
        (
            lambda: ds.Valuation.from_dict(ds.value(game).to_dict() | {"extra": 1}),
            errors.InvalidValuation,
            r"unknown \['extra'\]",
        ),
    ],
)
def test_teaches(attempt, error, message) -> None:
    with pytest.raises(error, match=message) as caught:
        attempt()
    assert isinstance(caught.value, ds.DUShapleyError)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["exact", "permutation", "auto"])
def test_values_that_are_no_numbers_name_their_pool(bad: float, method: str, tmp_path) -> None:
    def sick(z: np.ndarray) -> np.ndarray:
        return np.where(z[:, 1] & ~z[:, 0], bad, 1.0)

    named = ds.CallableGame(sick, 3, names=["north", "south", "west"], fingerprint="sick")
    with pytest.raises(errors.UtilityFailed, match=r"pool of 'south'.* is (nan|inf|-inf)"):
        ds.value(named, method, budget=60, ledger=tmp_path / "l.sqlite")
    with ds.Ledger(tmp_path / "l.sqlite", named.context) as ledger:
        found = ledger.read(named.keys(np.array([[0, 1, 0]], dtype=bool), None))
    assert found == {}  # what is no number is never kept


def test_a_utility_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(errors.InvalidGame, match="Return one number per row"):
        ds.value(lambda z: z, "exact", n_players=2)


def test_a_utility_that_raises_names_its_pool() -> None:
    def fails(X: np.ndarray, y: object) -> float:
        if len(X) == 1:
            raise ZeroDivisionError("one row only")
        return float(len(X))

    with pytest.raises(errors.UtilityFailed, match="pool of 'b' raised ZeroDivisionError: one row"):
        ds.value(ds.DatasetGame(two_owners, fails), "exact")


def test_ledger_of_another_game_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ds.value(paid_game, "permutation", ledger=path)
    for other in (
        ds.CallableGame(additive, 3, fingerprint="another sum"),
        ds.CallableGame(additive, 4, fingerprint="sum"),
    ):
        with pytest.raises(errors.LedgerMismatch, match="holds evaluations of another game"):
            ds.value(other, "permutation", ledger=path)


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like one\n" * 40)
    with pytest.raises(errors.LedgerUnreadable, match=r"not a readable ledger .*left alone"):
        ds.value(paid_game, "permutation", ledger=path)
    assert path.read_text().startswith("not a database")
    with pytest.raises(errors.LedgerUnreadable):
        ds.value(paid_game, "permutation", ledger=tmp_path)


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("create table customers (name text)")
        shop.commit()
    before = path.read_bytes()
    with pytest.raises(errors.LedgerUnreadable, match="not a ledger: it holds customers"):
        ds.value(paid_game, "permutation", ledger=path)
    assert path.read_bytes() == before


def test_a_locked_ledger_says_that_another_is_writing(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "l.sqlite"
    ds.value(paid_game, "permutation", ledger=path)
    monkeypatch.setattr("dushapley.engine.ledger.PATIENCE", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(errors.LedgerBusy, match="Wait until it is done"):
            ds.value(paid_game, "permutation", ledger=path)


def test_read_only_ledger_is_refused_before_any_payment(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ds.value(paid_game, "permutation", ledger=path)
    path.chmod(0o444)
    asked: list[int] = []

    def counted(z: np.ndarray) -> np.ndarray:
        asked.append(len(z))
        return additive(z)

    with pytest.raises(errors.LedgerReadOnly, match="read-only"):
        ds.value(ds.CallableGame(counted, 3, fingerprint="sum"), "exact", ledger=path)
    assert asked == []


def test_a_full_disk_keeps_what_was_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "l.sqlite"
    wide = ds.CallableGame(additive, 12, fingerprint="wide", block=16)
    fill_the_disk(monkeypatch)
    monkeypatch.setattr("dushapley.engine.evaluator.OFTEN", 0.0)
    with pytest.raises(errors.LedgerReadOnly, match="What it held before is intact"):
        ds.value(wide, "exact", budget=2**12, ledger=path)
    monkeypatch.undo()
    with ds.Ledger(path, wide.context) as ledger:
        kept = len(ledger)
    assert kept > 0
    found = ds.value(wide, "exact", budget=2**12, ledger=path)
    assert found.n_computed == 2**12 - kept


def test_no_ledger_file_is_left_by_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(errors.LedgerRefused):
        ds.value(ds.CallableGame(additive, 3), ledger=tmp_path / "x.sqlite")
    with pytest.raises(errors.BudgetTooSmall):
        ds.value(paid_game, "exact", budget=3, ledger=tmp_path / "x.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_stored_text_must_be_json_numbers() -> None:
    found = ds.value(game, "exact")
    assert json.loads(found.to_json())["values"] == found.values.tolist()
