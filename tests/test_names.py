"""Models and scores by name: one name is one model, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import dushapley as ds
from dushapley.cli.job import Job
from dushapley.cli.main import main
from dushapley.errors import BudgetTooSmall, InvalidGame, InvalidOption
from dushapley.games.model.catalogue import MODELS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mixed tables with holes: numbers, words, classes and a quantity."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("warnings.showwarning", None)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(160, 2)), columns=["a", "b"])
    table["town"] = rng.choice(["Lyon", "Oslo", "Rome"], 160)
    table["ill"] = np.where(table["a"] + table["b"] > 0, "yes", "no")
    table["cost"] = table["a"] * 2 + rng.normal(size=160)
    table.loc[::9, "b"] = np.nan
    (tmp_path / "owners").mkdir()
    for k, name in enumerate("xyz"):
        table[k:120:3].to_csv(tmp_path / "owners" / f"{name}.csv", index=False)
    table[120:].to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def by_command(capsys: pytest.CaptureFixture[str], folder: Path, target: str, *more: str) -> Any:
    job = [str(folder / "owners"), "--by-file", "--target", target, "--json", "--no-ledger"]
    with pytest.raises(SystemExit) as ended:
        main(["value", *job, "--test", str(folder / "test.csv"), "--method", "loo", *more])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return json.loads(out)


def by_name(folder: Path, target: str, model: str, **how: Any) -> ds.ModelGame:
    owners = ds.Owners.from_files(folder / "owners", target=target)
    return ds.ModelGame(owners, model, *owners.align(pd.read_csv(folder / "test.csv")), **how)


@pytest.mark.parametrize(
    ("target", "model", "how"),
    [
        ("ill", "logistic", {}),
        ("ill", "naive-bayes", {"scoring": "neg_log_loss"}),
        ("ill", "sklearn.tree.DecisionTreeClassifier", {"encode": "training"}),
        ("cost", "ridge", {}),
        ("cost", "knn", {"task": "regression"}),
    ],
)
def test_a_name_is_the_same_game_in_python_and_on_the_command_line(
    capsys: pytest.CaptureFixture[str], folder: Path, target: str, model: str, how: dict[str, str]
) -> None:
    options = [word for key, given in how.items() for word in (f"--{key}", given)]
    stored = by_command(capsys, folder, target, "--model", model, *options)
    game = by_name(folder, target, model, **how)
    assert game.fingerprint == stored["fingerprint"] is not None
    assert ds.value(game, "loo").values.tolist() == stored["values"]


def test_large_tables_switch_to_gradient_steps_in_python_too(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dushapley.games.model.catalogue.MANY_CELLS", 100)
    game = by_name(folder, "ill", "logistic")
    assert type(game.model).__name__ == "SoftmaxRegression"
    assert game.fingerprint == by_command(capsys, folder, "ill")["fingerprint"]


def test_large_tables_of_quantities_keep_their_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient models are classifiers: they took each different quantity for a class."""
    monkeypatch.setattr("dushapley.games.model.catalogue.MANY_CELLS", 100)
    assert type(by_name(folder, "cost", "mlp").model.steps[-1][1]).__name__ == "MLPRegressor"
    with pytest.raises(InvalidOption, match="logistic is not a model for regression"):
        by_name(folder, "cost", "logistic")


def test_scores_follow_the_task_of_a_named_model_only(folder: Path) -> None:
    assert by_name(folder, "cost", "ridge").scoring == "r2"
    assert by_name(folder, "ill", "ridge").scoring == "accuracy"
    assert by_name(folder, "cost", "ridge", scoring="neg_mean_squared_error").scoring == (
        "neg_mean_squared_error"
    )
    owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [0.5, 1.5])})
    with pytest.raises(InvalidGame, match="judges classes"):
        ds.ModelGame(owners, Ridge(), [[1.0]], [0.5], scoring="accuracy")
    # a model that is given has a score of its own
    assert ds.ModelGame(owners, Ridge(), [[1.0], [3.0]], [0.6, 1.0]).scoring == "r2"


def test_wrong_names_and_tasks_are_refused(folder: Path) -> None:
    with pytest.raises(InvalidOption, match="Did you mean 'logistic'"):
        by_name(folder, "ill", "logistik")
    with pytest.raises(InvalidOption, match="task is 'guess'"):
        by_name(folder, "ill", "logistic", task="guess")
    with pytest.raises(InvalidGame, match="for models by name"):
        by_name(folder, "ill", LogisticRegression(), task="classification")  # type: ignore[arg-type]


def test_every_name_has_a_line_and_is_in_the_help() -> None:
    assert list(ds.models()) == list(MODELS)
    help_of_model = get_type_hints(Job, include_extras=True)["model"].__metadata__[0].help
    assert all(name in help_of_model for name in ds.models())
    for line in [*ds.models().values(), *ds.scores().values()]:
        assert 10 < len(line) < 100, line
        assert "\n" not in line
    assert {"accuracy", "r2", "neg_log_loss"} <= set(ds.scores())


def test_a_quote_prices_what_value_would_run() -> None:
    calls = []

    def utility(pools: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append(len(pools))
        return pools.sum(axis=1) ** 2.0

    game = ds.CallableGame(utility, n_players=5, block=1)
    frame = ds.quote(game, [20, 60])
    assert sum(calls) == 4
    assert set(frame["method"]) == set(ds.methods())
    assert frame["budget"].tolist() == [20, 60] * len(ds.methods())
    for row in frame.dropna(subset="evaluations").itertuples():
        run = ds.value(game, row.method, budget=row.budget)
        assert run.n_evaluations <= row.evaluations <= row.budget, row.method
        assert row.seconds > 0
        assert pd.isna(row.refused)
    refused = frame[frame["evaluations"].isna()]
    assert {"du", "knn"} <= set(refused["method"])
    assert refused["refused"].str.len().gt(30).all()
    assert len(ds.quote(game, np.int64(20))) == len(ds.methods())
    for wrong, error in ((1, BudgetTooSmall), (2.5, InvalidOption)):
        with pytest.raises(error, match=f"budget is {wrong}"):
            ds.quote(game, wrong)  # type: ignore[arg-type]


def test_a_formula_is_quoted_as_free() -> None:
    frame = ds.quote(ds.SizeGame([10, 20, 30], w=lambda n: n / (n + 5))).set_index("method")
    assert frame.loc["auto", "evaluations"] == 0
    assert frame.loc["permutation", "evaluations"] == 18
    assert frame.loc["permutation", "seconds"] == 0


def test_a_pilot_foresees_the_precision_of_larger_budgets(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes, quality = np.exp(rng.uniform(2, 5, 9)), rng.uniform(0.3, 1.0, 9)

    def utility(pools: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows = np.maximum(pools @ sizes, 1e-9)
        return rows / (rows + 100) * (0.5 + 0.5 * (pools @ (sizes * quality)) / rows)

    game = ds.CallableGame(utility, 9, sizes, fingerprint="a curve")
    ledger = tmp_path / "pilot.sqlite"
    with pytest.raises(InvalidOption, match="pay for a pilot first"):
        ds.quote(game, [40, 80], ledger=ledger)
    pilot = ds.value(game, "gp", budget=40, ledger=ledger)
    before = ledger.read_bytes()
    frame = ds.quote(game, [40, 80, 160], ledger=ledger).set_index(["method", "budget"])
    assert ledger.read_bytes() == before
    foreseen = [frame.loc[("gp", budget), "precision"] for budget in (40, 80, 160)]
    assert foreseen == sorted(foreseen, reverse=True)
    assert pilot.std_errors is not None
    reached = 1.96 * pilot.std_errors.max() / np.ptp(pilot.values)
    assert 0.3 * reached < foreseen[0] < 3 * reached
    assert np.isnan(frame.loc[("permutation", 80), "precision"])
    assert np.isnan(ds.quote(game, [40]).set_index("method").loc["gp", "precision"])
