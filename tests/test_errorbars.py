"""Errors by source: against theory, against fresh test sets, and when they cannot be known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.engine import error_bars, plan
from dushapley.estimators.calibration import student
from dushapley.estimators.registry import REGISTRY
from dushapley.games import Answers, Game, Outcome, Training
from dushapley.protocol import Ask, Estimate
from dushapley.results import influence

BETA = np.array([1.0, -0.5, 0.25, 0.0])


def numbers(n, rng, noise=1.0):
    X = rng.normal(size=(n, 4))
    return X, X @ BETA + noise * rng.normal(size=n)


def labels(n, rng):
    X = rng.normal(size=(n, 4))
    return X, (X @ BETA + 0.5 * rng.normal(size=n) > 0.3).astype(int)


def owners(make, number=4):
    rng = np.random.default_rng(5)
    return ds.Owners.from_arrays({f"o{i}": make(15 + 6 * i, rng) for i in range(number)})


class Rows(Game):
    """A game whose scores and spreads are given numbers."""

    def __init__(self, n_players, n_rows, spread=None):
        self.n_players = n_players
        self.sizes = np.ones(n_players)
        self.names = tuple(f"o{i}" for i in range(n_players))
        rng = np.random.default_rng(0)
        self.scores = rng.normal(size=(2**n_players, n_rows))
        self.spread = spread
        self.training = Training(repeats=4, deterministic=spread is None, shift=0.0)

    def evaluate(self, queries, draws):
        numbers = queries @ (1 << np.arange(self.n_players))
        parts = [(self.scores[k].mean(), None, self.scores[k], self.spread) for k in numbers]
        return Answers.of([Outcome(*part) for part in parts])


def widened(by_row):
    """How much errors of the means grow for few or uneven rows."""
    n, away = len(by_row), by_row - by_row.mean(axis=0)
    two, three, four = (np.sum(away**power, axis=0) for power in (2, 3, 4))
    uneven = n * four / two**2 - 1 - n * three**2 / two**3  # κ − 1 − γ²
    freedom = np.clip(2 * n / np.maximum(uneven, 2), 1, n - 1)
    skewness = three / n**3 / (two / n / (n - 1)) ** 1.5
    skew = np.maximum(skewness**2 - 6 / freedom**2, 0)
    return t.ppf(0.975, freedom) / 1.96 * (1 + skew)


def exact_of(columns):
    return np.stack([ds.value(ds.TableGame(u), "exact").values for u in columns.T])


def test_test_set_error_is_that_of_the_mean_of_row_values():
    game = Rows(3, 60)
    result = ds.value(game, "exact")
    by_row = exact_of(game.scores)
    expected = by_row.std(axis=0, ddof=1) / np.sqrt(60) * widened(by_row)
    assert result.errors["test set"] == pytest.approx(expected.tolist(), rel=1e-9)
    assert result.errors["sampling"] == [0.0, 0.0, 0.0]
    assert result.errors["dominant"] == "test set"
    assert result.std_errors is None
    assert result.total_errors == pytest.approx(expected)
    assert result.to_frame().sort_values("owner")["std_error"].to_numpy() == pytest.approx(expected)


def test_training_error_is_the_weighted_spread():
    game = Rows(3, 60, spread=0.3)
    result = ds.value(game, "exact")
    unit = exact_of(np.eye(8))  # row k: weights of coalition k
    expected = np.sqrt((unit**2).sum(axis=0)) * 0.3 / np.sqrt(4) * student(8 * 3 - 1)
    assert result.errors["training"] == pytest.approx(expected.tolist(), rel=1e-9)
    total = np.sqrt(np.square(result.errors["training"]) + np.square(result.errors["test set"]))
    assert result.total_errors == pytest.approx(total)


def test_weights_say_the_same_as_replays(monkeypatch):
    replayed = ds.value(Rows(3, 60, spread=0.3), "loo")
    loo = REGISTRY["loo"]

    def with_weights(problem):
        n = problem.n_players
        without = yield Ask(~np.eye(n, dtype=bool))
        weights = np.concatenate([np.zeros((n, 1)), np.ones((n, 1)), -np.eye(n)], axis=1)
        return Estimate(problem.full - without, weights=weights)

    monkeypatch.setitem(REGISTRY, "loo", replace(loo, run=with_weights))
    weighted = ds.value(Rows(3, 60, spread=0.3), "loo")
    assert weighted.values.tolist() == replayed.values.tolist()
    assert weighted.errors["test set"] == pytest.approx(replayed.errors["test set"], rel=1e-9)
    expected = [0.3 * np.sqrt(2) / 2 * float(student(5 * 3))] * 3
    assert weighted.errors["training"] == pytest.approx(expected)
    # a standard deviation from 100 replays is right to 7%; four of these
    assert replayed.errors["training"] == pytest.approx(expected, rel=0.28)
    assert weighted.errors["sampling"] is None
    assert weighted.errors["total"] is None  # without its sampling error it would promise too much
    assert weighted.total_errors is None


def test_a_method_that_changes_its_questions_reports_no_more_than_it_knows(monkeypatch):
    def fickle(problem):
        singles = yield Ask(np.eye(problem.n_players, dtype=bool))
        first = singles.argmax() if singles.sum() > problem.options["mark"] else 0
        pool = np.zeros((1, problem.n_players), dtype=bool)
        pool[0, [first, (first + 1) % problem.n_players]] = True
        extra = yield Ask(pool)
        return Estimate(singles + extra, std_errors=np.ones(problem.n_players))

    game = Rows(4, 50)
    singles = sum(game.scores[1 << i].mean() for i in range(4))
    method = replace(REGISTRY["loo"], run=lambda p: fickle(replace(p, options={"mark": singles})))
    monkeypatch.setitem(REGISTRY, "loo", method)
    result = ds.value(game, "loo", budget=10)
    assert result.errors["test set"] is result.errors["total"] is result.errors["dominant"] is None
    assert "test set unknown" in repr(result)
    assert result.interval_meaning == "unknown: test set"
    assert result.total_errors is None  # sampling alone would promise too much
    assert result.std_errors.tolist() == [1.0] * 4


def test_sampling_training_and_test_set_are_told_apart():
    rng = np.random.default_rng(8)
    game = ds.ModelGame(
        owners(labels), RandomForestClassifier(3), *labels(80, rng), repeats=2, seed=3
    )
    result = ds.value(game, "permutation", budget=40)
    parts = [np.square(result.errors[s]) for s in ("sampling", "training", "test set")]
    assert all((part > 0).all() for part in parts)
    assert result.total_errors == pytest.approx(np.sqrt(sum(parts)))
    assert result.std_errors.tolist() == result.errors["sampling"]
    assert "sampling, training, test set" in result.interval_meaning
    assert "dominant" in repr(result)
    back = ds.Valuation.from_dict(result.to_dict())
    assert back.to_json() == result.to_json()
    assert ds.value(game, "permutation", budget=40).to_json() == result.to_json()


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (LogisticRegression(), True),
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
        (LogisticRegression(solver="saga"), False),
        (GaussianNB(), True),
        (KNeighborsClassifier(3), True),
        (RandomForestClassifier(3), False),
        (RandomForestClassifier(3, random_state=0), False),  # another seed, another forest
    ],
)
def test_models_without_chance_have_no_error_of_training(model, known):
    test = labels(40, np.random.default_rng(8))
    game = ds.ModelGame(owners(labels, 2), model, *test, fast=False)
    result = ds.value(game, "exact")
    assert result.errors["training"] == ([0.0, 0.0] if known else None)
    assert ("training 0," if known else "training unknown") in repr(result)
    assert result.errors["dominant"] == "test set"


def test_errors_of_owners_are_known_jointly():
    game = Rows(3, 60, spread=0.3)
    exact, by_row, unit = ds.value(game, "exact"), exact_of(game.scores), exact_of(np.eye(8))
    wider = np.outer(widened(by_row), widened(by_row))
    expected = np.cov(by_row.T) / 60 * wider + unit.T @ unit * 0.3**2 / 4 * student(8 * 3 - 1) ** 2
    assert exact.total_covariance == pytest.approx(expected, rel=1e-9)
    sampled = ds.value(game, "permutation", budget=60)
    joint = sampled.total_covariance
    assert np.sqrt(np.diag(joint)) == pytest.approx(sampled.total_errors, rel=1e-12)
    assert np.linalg.eigvalsh(joint).min() > -1e-12


@pytest.mark.parametrize("method", ["exact", "permutation", "gp", "knn"])
def test_errors_of_very_many_owners_are_kept_without_their_squares(method, monkeypatch):
    rows = ds.KNNGame(owners(labels, 5), *labels(60, np.random.default_rng(6)))
    game = rows if method == "knn" else Rows(5, 60, spread=0.05)
    few = ds.value(game, method)
    for module in (error_bars, influence, plan):
        monkeypatch.setattr(module, "MOST_JOINT", 4)
    many = ds.value(game, method)
    assert few.total_covariance is not None
    assert many.total_covariance is None
    assert "independent" in many.interval_meaning
    assert "independent" not in few.interval_meaning
    assert many.errors["dominant"] == few.errors["dominant"]
    for source in ("sampling", "training", "test set", "total"):
        np.testing.assert_allclose(many.errors[source], few.errors[source], rtol=1e-9)
    assert ds.Valuation.from_dict(many.to_dict()) == many


def test_games_without_rows_have_no_further_errors():
    game = ds.CallableGame(lambda z: z.sum(axis=1), 3)
    assert ds.value(game, "permutation").errors == {}


def test_a_worth_agreed_beforehand_has_no_error_of_its_own():
    rng = np.random.default_rng(8)
    test = labels(80, rng)
    one = ds.Owners.from_arrays({"only": labels(30, rng)})
    fixed = ds.value(ds.ModelGame(one, LogisticRegression(), *test, empty="zero"), "exact")
    hits = LogisticRegression().fit(one.X[0], one.y[0]).predict(test[0]) == test[1]
    plain = hits.std(ddof=1) / np.sqrt(80)
    assert fixed.errors["test set"] == pytest.approx([plain * widened(hits * 1.0)], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scoring", "model", "make"),
    [
        ("accuracy", LogisticRegression(), labels),
        ("neg_log_loss", LogisticRegression(), labels),
        ("roc_auc", LogisticRegression(), labels),
        ("balanced_accuracy", LogisticRegression(), labels),
        ("r2", Ridge(), numbers),
        ("neg_root_mean_squared_error", Ridge(), numbers),
    ],
)
def test_spread_over_fresh_test_sets_agrees_with_the_stated_error(scoring, model, make):
    played, values, stated = owners(make), [], []
    for fresh in range(40):
        test = make(150, np.random.default_rng(1000 + fresh))
        game = ds.ModelGame(played, model, *test, scoring=scoring, fast=False)
        result = ds.value(game, "exact")
        values.append(result.values)
        stated.append(result.total_errors)
    spread = np.std(values, axis=0, ddof=1)
    error = np.sqrt(np.mean(np.square(stated), axis=0))
    ratio = np.sqrt(np.mean(spread**2) / np.mean(error**2))
    assert 1 / 1.3 < ratio < 1.3
    centre = np.mean(values, axis=0)
    inside = np.abs(np.array(values) - centre) < 1.96 * np.array(stated)
    assert inside.mean() > 0.88  # 160 correlated intervals that should hold 95%
