"""No path reports an error without all of its parts: every game, model path, score and method.

A value may be wrong by sampling, by training and by the test set. Whatever way it was computed, its
error is the sum of all three, or the word unknown with the parts that are unknown; in Python, in
texts, what-ifs and pages alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import dushapley as ds
from dushapley.engine import error_bars
from dushapley.games import Regressogram, SmallMLP, SoftmaxRegression
from dushapley.report import render, summarize, text_table
from dushapley.results.uncertainty import half_width
from dushapley.testing import small_games

SOURCES = ("sampling", "training", "test set")
METHODS = [name for name in ds.methods() if name != "auto"]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(98, 3))
NUMBERS = X @ [1.0, -0.5, 0.2] + 0.5 * RNG.normal(size=98)
LABELS = (NUMBERS > 0.2).astype(int)
ROWS = (slice(0, 25), slice(25, 45), slice(45, 80))
RANDOM = DecisionTreeClassifier(max_depth=2, splitter="random")
CLASSES: dict[str, dict[str, Any]] = {
    "sums (LDA)": {"model": LinearDiscriminantAnalysis(solver="lsqr")},
    "sums (naive Bayes)": {"model": GaussianNB()},
    "fitted": {"model": LogisticRegression()},
    "fitted, random, repeated": {"model": RANDOM, "repeats": 2},
    "fitted, random": {"model": RANDOM},
    "batched": {"model": SoftmaxRegression(steps=3)},
    "batched, random, repeated": {"model": SmallMLP(hidden=2, steps=3), "repeats": 2},
    "batched, random": {"model": SmallMLP(hidden=2, steps=3)},
}
REGRESSIONS: dict[str, dict[str, Any]] = {
    "sums (ridge)": {"model": Ridge()},
    "sums (least squares)": {"model": LinearRegression()},
    "sums (bins)": {"model": Regressogram(edges=[-0.5, 0.5])},
    "fitted": {"model": Ridge(), "fast": False},
    "fitted, random, repeated": {"model": DecisionTreeRegressor(splitter="random"), "repeats": 2},
}
SCORES = ("accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc", "f1", "precision_macro")
ERRORS = ("r2", "neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error")
ERRORS += ("neg_median_absolute_error", "neg_max_error")


@pytest.fixture(autouse=True)
def _few_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which parts are known does not hang on how finely they are measured."""
    for name in ("NOISES", "GROUPS"):
        monkeypatch.setattr(error_bars, name, 4)


def model_game(targets: Any, scoring: Any, **wishes: Any) -> ds.ModelGame:
    blocks = {f"owner {j}": (X[rows], targets[rows]) for j, rows in enumerate(ROWS)}
    owners = ds.Owners.from_arrays(blocks)
    return ds.ModelGame(owners, X_test=X[80:], y_test=targets[80:], scoring=scoring, **wishes)


def valuations(game: ds.Game) -> Iterator[ds.Valuation]:
    """By every method that can answer for this game."""
    for method in METHODS:
        try:
            yield ds.value(game, method, progress=False)
        except ds.errors.MethodNotApplicable:
            continue


def check(v: ds.Valuation) -> None:
    """All parts with their sum, or which of them are unknown."""
    if v.errors:
        missing = [source for source in SOURCES if v.errors[source] is None]
        if v.biased and v.n_evaluations == 0:  # another model's values
            missing.append("bias")
        assert v.errors["unknown"] == missing
        assert list(v.unknown) == missing
        assert (v.errors["total"] is None) == bool(missing)
    if v.unknown:
        assert v.total_errors is None
        assert v.total_covariance is None
    elif v.errors:
        squares = sum(np.square(v.errors[source]) for source in SOURCES)
        assert v.total_errors == pytest.approx(np.sqrt(squares), rel=1e-9)
        assert np.diag(v.total_covariance) == pytest.approx(squares, rel=1e-9)


def check_shown(v: ds.Valuation) -> None:
    """What is shown as ± is the total, or it says unknown."""
    frame, summary = v.to_frame().set_index("owner"), summarize(v)
    shown = {row["name"]: row["error"] for row in summary["rows"]}
    texts = repr(v), v._repr_html_(), text_table(v, summary)
    if v.unknown:
        assert frame[["std_error", "low", "high"]].isna().to_numpy().all()
        assert set(shown.values()) == {None}
        assert all(f"± unknown: {', '.join(v.unknown)}" in text for text in texts)
        assert "± unknown" in render(summary)
    else:
        known = dict(zip(v.owners, v.total_errors.tolist(), strict=True))
        assert frame["std_error"].to_dict() == known
        assert shown == {name: half_width(error) for name, error in known.items()}
        assert all("± unknown" not in text for text in (*texts, render(summary)))


def test_games_that_train_nothing_have_errors_of_sampling_or_say_unknown() -> None:
    games = small_games(3) | {"callable": ds.CallableGame(lambda z: z.sum(axis=1) ** 0.5, 3)}
    for game in games.values():
        for v in valuations(game):
            check(v)
            assert not v.errors
            without = v.std_errors is None and not v.is_enumerated
            assert bool(v.unknown) == (without and (v.n_evaluations > 0 or v.biased))


@pytest.mark.parametrize("path", CLASSES)
def test_every_method_on_every_path_of_classifiers(path: str) -> None:
    for v in valuations(model_game(LABELS, "accuracy", **CLASSES[path])):
        check(v)
        assert v.errors or v.unknown == ("bias",)  # another model's values


@pytest.mark.parametrize("path", REGRESSIONS)
def test_every_method_on_every_path_of_regressions(path: str) -> None:
    for v in valuations(model_game(NUMBERS, "r2", **REGRESSIONS[path])):
        check(v)
        assert v.errors


@pytest.mark.parametrize("path", CLASSES)
@pytest.mark.parametrize("scoring", SCORES)
def test_every_score_on_every_path_of_classifiers(path: str, scoring: str) -> None:
    v = ds.value(model_game(LABELS, scoring, **CLASSES[path]), "exact")
    check(v)
    assert v.unknown == ("training",) * path.endswith("random")


@pytest.mark.parametrize("path", ["sums (LDA)", "fitted, random", "batched, random, repeated"])
def test_a_score_known_by_its_answers_alone(path: str) -> None:
    v = ds.value(model_game(LABELS, "matthews_corrcoef", **CLASSES[path]), "exact")
    check(v)
    assert v.unknown == ("training",) * path.endswith("random")


@pytest.mark.parametrize("path", REGRESSIONS)
@pytest.mark.parametrize("scoring", ERRORS)
def test_every_score_on_every_path_of_regressions(path: str, scoring: str) -> None:
    v = ds.value(model_game(NUMBERS, scoring, **REGRESSIONS[path]), "exact")
    check(v)
    assert v.unknown == ("test set",) * (scoring == "neg_max_error")


def test_other_games_with_rows_know_what_a_test_set_does_or_say_unknown() -> None:
    owners = model_game(LABELS, "accuracy", **CLASSES["fitted"]).owners
    fold = ds.FoldsGame(owners, lambda *split: ds.ModelGame(split[0], GaussianNB(), *split[1:]), 2)
    for game in (ds.KNNGame(owners, X[80:], LABELS[80:], k=3), fold):
        for v in valuations(game):
            check(v)
            assert v.errors or v.unknown
    for v in valuations(ds.DatasetGame(owners, lambda rows, y: float(len(rows)) ** 0.5)):
        check(v)
        assert {"training", "test set"} & set(v.unknown)


@pytest.mark.parametrize(("path", "method"), [("fitted", "exact"), ("fitted", "permutation")])
def test_a_known_error_is_shown_alike_everywhere(path: str, method: str) -> None:
    check_shown(ds.value(model_game(LABELS, "f1", **CLASSES[path]), method))


@pytest.mark.parametrize(
    ("path", "method", "unknown"),
    [
        ("fitted, random", "exact", ("training",)),
        ("batched, random", "permutation", ("training",)),
        ("fitted", "loo", ("sampling",)),
        ("fitted, random", "loo", ("sampling", "training")),
    ],
)
def test_an_unknown_error_says_so_everywhere(path: str, method: str, unknown: Any) -> None:
    v = ds.value(model_game(LABELS, "accuracy", **CLASSES[path]), method)
    assert v.unknown == unknown
    check_shown(v)


def test_a_what_if_is_not_called_clear_by_part_of_its_error() -> None:
    for path in ("fitted, random", "batched, random"):
        game = model_game(LABELS, "accuracy", **CLASSES[path])
        answer = ds.what_if(game, ds.Leave("owner 0"), method="exact")
        for v in (answer.before, answer.after):
            check(v)
            assert v.unknown == ("training",)
        assert answer.to_frame()["std_error"].isna().all()
