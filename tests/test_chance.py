"""Chance in training: found by training a pool twice, measured by repeats, never assumed away."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds
from dushapley.engine.ledger import Ledger
from dushapley.estimators.calibration import pooled_freedom, pooled_variances, student
from dushapley.games import SmallMLP, SoftmaxRegression
from dushapley.games.model.randomness import (
    behaviour,
    same_behaviour,
    seeded_generators,
    seeds_by_pool,
)


def labels(n, rng):
    X = rng.normal(size=(n, 3))
    return X, (X @ [1.0, -0.5, 0.25] + 0.7 * rng.normal(size=n) > 0).astype(int)


def owners(number=4):
    rng = np.random.default_rng(5)
    return ds.Owners.from_arrays({f"o{i}": labels(12 + 6 * i, rng) for i in range(number)})


TEST = labels(60, np.random.default_rng(6))


class Dice(ClassifierMixin, BaseEstimator):
    """A linear classifier whose weights are thrown by global generators."""

    fits = 0

    def __init__(self, generator="numpy", seed_free=True):
        self.generator, self.seed_free = generator, seed_free

    def fit(self, X, y):
        Dice.fits += 1
        self.classes_ = np.unique(y)
        thrown = np.array([random.gauss(0, 1) for _ in range(X.shape[1])])
        if self.generator == "numpy":
            thrown = np.random.normal(size=X.shape[1])  # noqa: NPY002
        self.weights = X.T @ (2 * y - 1) / len(y) + thrown / np.sqrt(len(y))
        return self

    def decision_function(self, X):
        return X @ self.weights

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Net(ClassifierMixin, BaseEstimator):
    """A small torch net without a seed of its own, which loads torch when it is trained."""

    def __init__(self, hidden=4, steps=8):
        self.hidden, self.steps = hidden, steps

    def fit(self, X, y):
        import torch

        self.classes_ = np.unique(y)
        codes = torch.tensor(np.searchsorted(self.classes_, y))
        rows = torch.tensor(X, dtype=torch.float32)
        layers = torch.nn.Linear(X.shape[1], self.hidden), torch.nn.Linear(self.hidden, 2)
        self.net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)
        for _ in range(self.steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.net(rows), codes).backward()
            optimizer.step()
        return self

    def predict(self, X):
        import torch

        with torch.no_grad():
            said = self.net(torch.tensor(X, dtype=torch.float32))
        return self.classes_[said.numpy().argmax(axis=1)]


@pytest.mark.parametrize("generator", ["numpy", "python"])
def test_models_on_global_generators_have_the_same_bits_and_an_unknown_error(generator):
    game = ds.ModelGame(owners(), Dice(generator), *TEST)
    state = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    first, second = (ds.value(game, "exact") for _ in range(2))
    assert (np.random.get_state()[1].tolist(), random.getstate()) == state  # noqa: NPY002
    assert first.values.tolist() == second.values.tolist()
    assert first.errors["training"] is None  # it was reported as 0
    assert first.errors["total"] is first.total_errors is None
    assert first.errors["unknown"] == ["training"] == list(first.unknown)
    assert any("repeats=3" in note for note in first.notes)
    assert first.interval_meaning == "unknown: training"
    with pytest.raises(ds.DUShapleyError, match="unknown: training"):
        ds.probability_greater(first)


def test_repeats_are_always_allowed_and_measure_it():
    measured = ds.value(ds.ModelGame(owners(), Dice(), *TEST, repeats=3), "exact")
    assert min(measured.errors["training"]) > 0
    assert measured.unknown == ()
    for model in (GaussianNB(), LogisticRegression()):
        same = ds.value(ds.ModelGame(owners(), model, *TEST, repeats=3), "exact")
        assert same.errors.get("training", [0.0] * 4) == [0.0] * 4
    fixed = RandomForestClassifier(3, max_depth=2, random_state=1)
    varied = ds.value(ds.ModelGame(owners(), fixed, *TEST, repeats=2), "exact")
    assert min(varied.errors["training"]) > 0


def test_a_net_without_a_seed_works_and_leaves_the_generator_alone():
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    game = ds.ModelGame(owners(3), Net(), *TEST)
    first, second = (ds.value(game, "exact") for _ in range(2))
    assert torch.rand(2).tolist() == expected
    assert first.values.tolist() == second.values.tolist()
    assert first.unknown == ("training",)
    measured = ds.value(ds.ModelGame(owners(3), Net(), *TEST, repeats=3), "exact")
    assert min(measured.errors["training"]) > 0
    assert measured.unknown == ()


def test_one_pool_is_trained_twice_counted_apart_and_kept(tmp_path):
    game = ds.ModelGame(owners(), Dice(), *TEST, fingerprint="dice")
    ledger, Dice.fits = tmp_path / "paid.sqlite", 0
    result = ds.value(game, "exact", ledger=ledger)
    assert Dice.fits == 15 + 1  # every pool but nobody's, and everybody's once more
    assert result.n_computed == result.n_distinct == result.n_evaluations == 16
    resumed = ds.value(game, "exact", ledger=ledger)
    assert Dice.fits == 16
    assert resumed.n_computed == 0
    assert replace(resumed, n_computed=16).to_json() == result.to_json()
    with Ledger(ledger, game.context) as paid:
        assert len(paid) == 17
    without = ds.what_if(game, ds.Leave("o1"), method="exact", ledger=ledger)
    assert Dice.fits == 16
    assert without.after.unknown == ("training",)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (LogisticRegression(), True),
        (LogisticRegression(solver="saga", max_iter=3, tol=1.0), False),
        (RandomForestClassifier(3, max_depth=2, random_state=0), False),
        (Dice(), False),
    ],
)
@pytest.mark.filterwarnings("ignore:The max_iter was reached")
def test_what_two_trainings_show_counts_not_what_parameters_are_called(model, known):
    game = ds.ModelGame(owners(), model, *TEST)
    assert game.deterministic is None
    assert game.is_tried
    result = ds.value(game, "permutation", budget=30)
    assert result.details["same under another seed"] is known
    assert (result.errors["training"] == [0.0] * 4) is known


def test_our_own_arithmetic_needs_no_second_training():
    assert ds.ModelGame(owners(), GaussianNB(), *TEST).deterministic is True
    assert ds.ModelGame(owners(), SoftmaxRegression(), *TEST).deterministic is True
    assert ds.ModelGame(owners(), SmallMLP(), *TEST).deterministic is False
    random_by_seed = ds.value(ds.ModelGame(owners(), SmallMLP(steps=2), *TEST), "exact")
    assert random_by_seed.unknown == ("training",)


def test_folds_try_one_fold_and_quotes_count_the_training():
    def make(inside, X, y):
        return ds.ModelGame(inside, Dice(), X, y)

    game = ds.FoldsGame(owners(), make, 3)
    Dice.fits = 0
    result = ds.value(game, "exact")
    assert Dice.fits == 3 * 15 + 1
    assert result.unknown == ("training",)
    assert game.is_tried
    assert not ds.FoldsGame(
        owners(), lambda *split: ds.ModelGame(split[0], Dice(), *split[1:], repeats=2), 3
    ).is_tried


def test_models_that_differ_where_the_score_does_not_show_it_differ():
    X = np.random.default_rng(0).normal(size=(5, 3))
    one, other = Dice(), Dice()
    one.classes_ = other.classes_ = np.array([0, 1])
    one.weights, other.weights = np.array([1.0, 0, 0]), np.array([1.1, 0, 0])
    assert (one.predict(X) == other.predict(X)).all()
    assert not same_behaviour(behaviour(one, X), behaviour(other, X))
    assert same_behaviour(behaviour(one, X), behaviour(one, X))
    with seeded_generators(3):
        first = np.random.random()  # noqa: NPY002
    with seeded_generators(3):
        assert np.random.random() == first  # noqa: NPY002


def test_variances_of_few_trainings_learn_from_other_pools():
    rng = np.random.default_rng(1)
    rows = np.repeat([10.0, 20, 40, 80, 160], 12)
    truth = 3 / rows
    raw = truth * rng.chisquare(2, size=(200, len(rows))) / 2
    pooled = np.array([pooled_variances(r, 2, rows) for r in raw])
    assert pooled.mean(axis=0) == pytest.approx(truth, rel=0.15)
    assert ((pooled - truth) ** 2).mean() < 0.2 * ((raw - truth) ** 2).mean()
    assert pooled_variances(np.zeros(4), 2, rows[:4]).tolist() == [0.0] * 4


class Seen(RandomForestClassifier):
    """Keeps the seeds that it was trained with."""

    seeds: ClassVar[list[int]] = []

    def fit(self, X, y):
        Seen.seeds.append(self.random_state)
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("fixed", "repeats", "different"), [(None, 1, 7), (None, 2, 14), (5, 1, 1), (5, 2, 14)]
)
def test_every_pool_and_repeat_has_seeds_of_its_own(fixed, repeats, different):
    Seen.seeds = []
    game = ds.ModelGame(owners(3), Seen(1, random_state=fixed), *TEST, repeats=repeats)
    everything = game([[bool(k & 1), bool(k & 2), bool(k & 4)] for k in range(8)])
    assert len(set(Seen.seeds)) == different  # one for all pools of a repeat, before
    assert game([[1, 1, 0]])[0] == everything[3]


def test_only_our_own_nets_share_the_weights_they_start_from():
    piped = make_pipeline(RandomForestClassifier(random_state=3))
    assert seeds_by_pool(piped, repeated=False) == ()
    assert seeds_by_pool(piped, repeated=True) == ("randomforestclassifier__random_state",)
    assert seeds_by_pool(SmallMLP(), repeated=True) == ()
    assert seeds_by_pool(make_pipeline(SmallMLP()), repeated=True) == ()


def ties(seed=0, number=4, rows=15):
    """Columns of 0 and 1: in small pools several of them split equally well."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(number * rows + 200, 6)).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=len(X)) > 3).astype(int)
    blocks = {f"o{j}": (X[j : number * rows : number], y[j : number * rows : number])
              for j in range(number)}  # fmt: skip
    return ds.Owners.from_arrays(blocks), X[number * rows :], y[number * rows :]


@pytest.mark.filterwarnings("ignore::dushapley.errors.SharedRows")
def test_chance_that_shows_in_small_pools_only_is_seen():
    class Tie(Dice):
        """Random only where rows are few."""

        def fit(self, X, y):
            super().fit(X, y)
            if len(y) > 30:
                self.weights = X.T @ (2 * y - 1) / len(y)
            return self

    result = ds.value(ds.ModelGame(owners(), Tie(), *TEST), "exact")
    assert result.unknown == ("training",)  # 0 was claimed
    for seed in range(4):
        game = ds.ModelGame(*ties(seed)[:1], DecisionTreeClassifier(max_depth=2), *ties(seed)[1:])
        assert ds.value(game, "permutation", budget=20).unknown == ("training",)


class Counted(LogisticRegression):
    """Free of chance, and counts."""

    fits = 0

    def fit(self, X, y):
        Counted.fits += 1
        return super().fit(X, y)


def test_small_pools_are_paid_once_counted_apart_and_quoted(tmp_path):
    game = ds.ModelGame(owners(5), Counted(), *TEST, fingerprint="counted")
    assert game.small_pools.sum(axis=1).tolist() == [1, 1, 1, 1, 2, 2]
    assert game.n_tried == 13
    Counted.fits = 0
    result = ds.value(game, "exact", ledger=tmp_path / "paid.sqlite")
    assert Counted.fits == 31 + 7
    assert result.n_computed == result.n_distinct == result.n_evaluations == 32
    assert result.errors["training"] == [0.0] * 5
    ds.value(game, "exact", ledger=tmp_path / "paid.sqlite")
    assert Counted.fits == 38
    few = ds.value(game, "permutation", budget=12)
    assert few.n_distinct <= 12
    assert Counted.fits <= 38 + 12 + game.n_tried


def test_a_small_pool_that_fails_does_not_end_a_run_that_never_asks_for_it():
    class Fussy(LogisticRegression):
        def fit(self, X, y):
            if len(y) < 40:
                raise ValueError("too few rows")
            return super().fit(X, y)

    result = ds.value(ds.ModelGame(owners(6), Fussy(), *TEST), "loo")
    assert result.errors["training"] == [0.0] * 6


@pytest.mark.parametrize(("pools", "repeats"), [(1, 2), (1, 3), (3, 2)])
def test_few_pools_and_few_repeats_are_widened(pools, repeats):
    rng, freedom = np.random.default_rng(0), repeats - 1
    rows = np.array([20.0, 30.0, 50.0])[:pools]
    noise = rng.normal(size=(1000, repeats, pools))
    held = []
    for one in noise:
        own = one.var(axis=0, ddof=1)
        width = np.sqrt(pooled_variances(own, freedom, rows) / repeats)
        held.append(np.abs(one.mean(axis=0)) < 1.96 * width * student(pooled_freedom(own, freedom)))
    assert 0.93 < np.mean(held) < 0.97  # .71 to .86 without


def test_knn_says_bias_of_other_games_and_not_of_its_own():
    other = ds.value(ds.ModelGame(owners(), LogisticRegression(), *TEST), "knn")
    assert other.unknown == ("bias",)
    assert other.errors["unknown"] == ["bias"]
    assert other.total_errors is other.errors["total"] is other.total_covariance is None
    assert other.interval_meaning == "unknown: bias"
    own = ds.value(ds.KNNGame(owners(), *TEST), "knn")
    assert own.unknown == ()
    assert not own.biased
    assert (
        own.total_errors.tolist() == ds.value(ds.KNNGame(owners(), *TEST), "exact").errors["total"]
    )


def test_notes_name_the_true_cause():
    game = ds.ModelGame(owners(), Dice(), *TEST, repeats=2)
    adaptive = ds.value(game, "tmc", budget=20, precision=0.1, options={"tolerance": 0.5})
    said = " ".join(adaptive.notes)
    assert "training" in adaptive.unknown
    assert "chooses its questions by the answers" in said
    assert "one training a pool" not in said
    assert "would measure" not in said
    size = ds.SizeGame([10, 20, 30, 40, 50], w=lambda n: n / (n + 100))
    few = ds.value(size, "stratified-svarm", budget=50, precision=100)
    assert any("rests on" in note for note in few.notes)
    assert not any("not reached" in note for note in few.notes)
