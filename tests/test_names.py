"""Models and scores by name: one name is one model, in Python and on the command line."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.cli.job import Job
from dushapley.cli.main import main
from dushapley.errors import BudgetTooSmall, InvalidGame, InvalidOption, UtilityFailed
from dushapley.games.model.catalogue import MODELS, make_model
from dushapley.games.model.identity import describe
from extras import needs


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


@pytest.mark.parametrize("encode", ["pooled", "none"])
def test_an_owner_may_have_an_empty_column(encode: str) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    y = (table["a"] > 0).to_numpy()
    table.loc[:29, "b"] = np.nan
    blocks = {name: (table[k : k + 30], y[k : k + 30]) for name, k in (("x", 0), ("y", 30))}
    owners = ds.Owners.from_arrays(blocks)
    game = ds.ModelGame(owners, "gradient-boosting", table[60:], y[60:], encode=encode)
    assert ds.value(game, "exact").values.min() > 0
    own = ds.ModelGame(owners, HistGradientBoostingClassifier(), table[60:], y[60:], encode=encode)
    with pytest.raises(UtilityFailed, match=r"pool of 'x' .* Of its column 'b' every cell is miss"):
        ds.value(own, "exact")


@pytest.mark.parametrize("name", MODELS)
def test_a_column_that_a_pool_never_saw_says_nothing_of_test_rows(name: str) -> None:
    """Its imputer fills it in training, and test rows came through in units of their own."""
    if name == "gbdt":
        needs("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(320, 3))
    y = X[:, 0] + 0.5 * X[:, 1] > 0
    X[:, 2] *= 1e6
    X[:120, 2] = np.nan
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    blocks = {n: (table[k : k + 120], y[k : k + 120]) for n, k in (("x", 0), ("y", 120))}
    owners = ds.Owners.from_arrays(blocks)
    made = [
        ds.ModelGame(owners, name, table[240:].assign(c=table["c"][240:] * scale), y[240:])
        for scale in (1.0, 1e3)
    ]
    one, other = (float(game(np.array([[1.0, 0.0]]))[0]) for game in made)
    assert one == other
    assert one > 0.7


@pytest.mark.parametrize("name", MODELS)
def test_a_name_is_one_model_at_any_size_and_whatever_is_tested(name: str) -> None:
    """Large tables turned logistic and mlp into other models, scaled by the test rows."""
    if name == "gbdt":
        needs("lightgbm")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(33_000, 16)), np.repeat([0, 1], 16_500)
    small = ds.Owners.from_arrays({"a": (X[::999], y[::999])})
    large = ds.Owners.from_arrays({"a": (X, y)})
    one, tested_otherwise, larger = (
        ds.ModelGame(owners, name, test, [0, 1]).model
        for owners, test in ((small, X[:2] + 1), (small, 9 - X[2:4]), (large, X[:2] + 1))
    )
    assert describe([one]) == describe([tested_otherwise])
    if name != "softmax":  # which is scaled by the rows of all owners
        assert describe([one]) == describe([larger])


def test_softmax_is_scaled_once_by_the_owners_and_a_change_keeps_the_scale() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    blocks = {f"o{j}": (X[j:300:4], y[j:300:4]) for j in range(4)}
    game = ds.ModelGame(ds.Owners.from_arrays(blocks), "softmax", X[300:], y[300:])
    backwards = ds.Owners.from_arrays(dict(reversed(blocks.items())))
    np.testing.assert_allclose(game.model.center, X[:300].mean(axis=0))
    np.testing.assert_allclose(game.model.scale, X[:300].std(axis=0))
    again = ds.ModelGame(backwards, "softmax", X[300:], y[300:])
    assert describe([again.model]) == describe([game.model])
    left = game.with_owners(ds.Owners.from_arrays({k: blocks[k] for k in ("o0", "o1")}))
    assert left.model.center is game.model.center
    assert left([[1, 1]]) == game([[1, 1, 0, 0]])


def test_softmax_refuses_rows_that_cannot_be_scaled_once(folder: Path) -> None:
    with pytest.raises(InvalidOption, match=r"softmax scales columns once.*Choose logistic"):
        by_name(folder, "ill", "softmax", encode="training")
    X, y = load_breast_cancer(return_X_y=True)
    sums = ds.Owners.from_arrays({"a": (X, y)}).statistics("classification")
    with pytest.raises(InvalidOption, match="neither sparse nor sums"):
        ds.ModelGame(ds.Owners.from_statistics(sums), "softmax", X, y)


LOADS = {
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "digits": load_digits,
    "diabetes": load_diabetes,
}
COUNTERPARTS: dict[str, tuple[Any, ...]] = {
    "logistic": (LogisticRegression(),),
    "softmax": (LogisticRegression(),),
    "ridge": (RidgeClassifier(), Ridge()),
    "lda": (LinearDiscriminantAnalysis(),),
    "naive-bayes": (GaussianNB(),),
    "gradient-boosting": (HistGradientBoostingClassifier(), HistGradientBoostingRegressor()),
    "random-forest": (RandomForestClassifier(), RandomForestRegressor()),
    "knn": (KNeighborsClassifier(), KNeighborsRegressor()),
    "mlp": (MLPClassifier(), MLPRegressor()),
}
SLOW = ("gradient-boosting", "gbdt", "random-forest", "mlp")
NEVER_WORSE = {"max_iter", "n_jobs", "deterministic", "verbose"}
"""Options by which slow models may differ from scikit-learn's: patience, threads, silence."""


def counterpart(name: str, numbers: bool) -> Any:
    """scikit-learn's own model at its defaults, on scaled columns."""
    if name == "gbdt":
        lightgbm = needs("lightgbm")
        chosen = [
            make(n_jobs=1, verbose=-1) for make in (lightgbm.LGBMClassifier, lightgbm.LGBMRegressor)
        ]
    else:
        chosen = COUNTERPARTS[name]
    return make_pipeline(StandardScaler(), chosen[numbers])


def four_owners(table: str, seed: int, rows: int = 600) -> Any:
    """Four owners and test rows of a real table, whose columns come in units of 1e-3 to 1e6."""
    X, y = LOADS[table](return_X_y=True)
    X = X * 10.0 ** np.random.default_rng(1).integers(-3, 7, X.shape[1])
    order = np.random.default_rng(seed).permutation(len(y))[: rows * 3 // 2]
    test, parts = order[: len(order) // 3], np.array_split(order[len(order) // 3 :], 4)
    return {f"o{j}": (X[part], y[part]) for j, part in enumerate(parts)}, X[test], y[test]


def both_games(name: str, blocks: Any, X: Any, y: Any, numbers: bool = False) -> list[ds.ModelGame]:
    owners, repeats = ds.Owners.from_arrays(blocks), 3 if name in ("random-forest", "mlp") else 1
    task: Any = "regression" if numbers else "classification"
    ours = ds.ModelGame(owners, name, X, y, task=task, repeats=repeats)
    theirs = counterpart(name, numbers)
    return [ours, ds.ModelGame(owners, theirs, X, y, scoring=ours.scoring, repeats=repeats)]


@pytest.mark.parametrize("name", SLOW)
def test_slow_models_differ_from_scikit_learns_in_nothing_that_costs_score(name: str) -> None:
    for numbers, task in enumerate(("classification", "regression")):
        theirs = counterpart(name, bool(numbers))[-1]
        ours = make_model(name, task, missing=False)
        ours = getattr(ours, "steps", [("", ours)])[-1][1]
        assert type(ours) is type(theirs)
        options = ours.get_params()
        assert {k for k, v in theirs.get_params().items() if options[k] != v} <= NEVER_WORSE


@pytest.mark.parametrize(
    ("name", "table"),
    [
        (name, table)
        for name in MODELS
        for table in (["wine", "diabetes"] if name in SLOW else LOADS)
        if table != "diabetes" or "regression" in MODELS[name].classes
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_everybodys_rows_are_worth_what_scikit_learn_makes_of_them(name: str, table: str) -> None:
    if name == "gbdt":
        needs("lightgbm")
    numbers = table == "diabetes"
    splits = range(1 if name in SLOW else 4)
    scores = [
        [float(game(np.ones((1, 4)))[0]) for game in both_games(name, *split, numbers=numbers)]
        for split in (four_owners(table, seed) for seed in splits)
    ]
    ours, theirs = np.mean(scores, axis=0)
    assert ours >= theirs - 0.01


@pytest.mark.parametrize("table", ["breast cancer", "wine"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in SLOW])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_owner_with_reversed_labels_is_last_where_scikit_learn_has_it_last(
    name: str, table: str
) -> None:
    agreed = []
    for seed, part in product(range(6), (1.0, 0.4)):
        blocks, X, y = four_owners(table, seed, rows=160)
        rows, labels = blocks["o0"]
        flipped = np.random.default_rng(seed).random(len(labels)) < part
        blocks["o0"] = rows, np.where(flipped, y.max() - labels, labels)
        ours, theirs = (
            ds.value(game, "exact").values.argmin() for game in both_games(name, blocks, X, y)
        )
        agreed.append(ours == 0 or theirs != 0)
    assert all(agreed)


def test_a_name_of_no_letters_is_refused() -> None:
    owners = ds.Owners.from_arrays({"a": ([[1.0], [2.0]], [0.5, 1.5])})
    with pytest.raises(InvalidOption):
        ds.ModelGame(owners, "", [[1.0]], [0.5])
    with pytest.raises(InvalidGame, match="fast is 'yes'; choose True or False"):
        ds.ModelGame(owners, "ridge", [[1.0]], [0.5], fast="yes")  # type: ignore[arg-type]


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
