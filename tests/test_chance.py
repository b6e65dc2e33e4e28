"""Chance in training: found by training a pool twice, measured by repeats, never assumed away."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, mutual_info_classif
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds
from dushapley.engine.ledger import Ledger
from dushapley.engine.plan import choose_plan, probe_pools
from dushapley.engine.value import Run
from dushapley.estimators.calibration import pooled_freedom, pooled_variances, student
from dushapley.games import SmallMLP, SoftmaxRegression
from dushapley.games.model.training import (
    behaviour,
    known_chance,
    seeded_generators,
    seeds_by_pool,
    voice_of,
)
from extras import needs


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


class Calm(Dice):
    """Free of chance."""

    def fit(self, X, y):
        super().fit(X, y)
        self.weights = X.T @ (2 * y - 1) / len(y)
        return self


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
    torch = needs("torch")
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


def test_every_training_is_counted_and_kept(tmp_path):
    game = ds.ModelGame(owners(), Dice(), *TEST, fingerprint="dice")
    ledger, Dice.fits = tmp_path / "paid.sqlite", 0
    result = ds.value(game, "exact", ledger=ledger)
    assert Dice.fits == result.n_trainings == 15 + 7  # every pool but the empty one; seven again
    assert result.n_computed == result.n_distinct == result.n_evaluations == 16
    resumed = ds.value(game, "exact", ledger=ledger)
    assert Dice.fits == 22
    assert resumed.n_computed == 0
    assert replace(resumed, n_computed=16).to_json() == result.to_json()
    with Ledger(ledger, game.context) as paid:
        assert len(paid) == 16 + 2 * 7
    without = ds.what_if(game, ds.Leave("o1"), method="exact", ledger=ledger)
    assert Dice.fits == 22
    assert without.after.unknown == ("training",)


@pytest.mark.parametrize(
    ("method", "budget", "probes"),
    [("gp", 20, 0), ("gp", 40, 2), ("gp", 60, 3), ("permutation", 200, 7), ("du", 30, 0)],
)
def test_probes_are_inside_the_budget_and_a_tenth_of_it(method, budget, probes):
    game = ds.ModelGame(owners(6), Dice(), *TEST)
    Dice.fits = 0
    result = ds.value(game, method, budget=max(budget, 62 if method == "du" else 0))
    assert Dice.fits == result.n_trainings < (result.budget or 0)
    assert result.details["probes"]["trainings"] == probes
    assert "training" in result.unknown
    assert any("parameter deterministic" in note for note in result.notes) == (probes == 0)


def test_probes_that_may_fail_under_limits_are_a_tenth_of_the_budget_too():
    limited = ds.ModelGame(owners(6), Dice(), *TEST, timeout=60.0)
    for budget in (30, 50, 60, 200):
        plan = choose_plan(limited, "gp", None, budget)
        assert budget - plan.budget <= budget / 10
        assert plan.trainings(limited) <= budget


@pytest.mark.parametrize("said", [True, False])
def test_who_says_whether_training_is_random_pays_no_probe(said):
    game = ds.ModelGame(owners(6), Dice(), *TEST, deterministic=said)
    Dice.fits = 0
    result = ds.value(game, "gp", budget=40)
    assert Dice.fits == result.n_trainings == 39
    assert (result.errors["training"] == [0.0] * 6) is said
    assert any("was stated by who made the game" in note for note in result.notes) is said
    with pytest.raises(ds.DUShapleyError, match="deterministic is 'no'"):
        ds.ModelGame(owners(), Dice(), *TEST, deterministic="no")


def test_an_exact_budget_has_no_room_for_probes_and_says_so():
    game = ds.ModelGame(owners(), Dice(), *TEST)
    Dice.fits = 0
    assert ds.value(game, "exact", budget=16).n_trainings == Dice.fits == 15
    assert ds.value(game, "exact", budget=18).n_trainings == 17


def test_a_killed_run_loses_only_what_is_in_flight_while_it_probes(tmp_path):
    class Mortal(Dice):
        last = 0

        def fit(self, X, y):
            if Mortal.fits == Mortal.last:
                raise KeyboardInterrupt
            Mortal.fits += 1
            return super().fit(X, y)

    game = ds.ModelGame(owners(6), Mortal(), *TEST, fingerprint="mortal")
    Mortal.fits, Mortal.last = 0, 1000
    whole = ds.value(game, "gp", budget=40)
    for kill in (1, 2, 3, 4, 7):
        Mortal.fits, Mortal.last = 0, kill
        with pytest.raises(ds.Stopped):
            ds.value(game, "gp", budget=40, ledger=tmp_path / f"{kill}.sqlite")
        Mortal.last = 1000
        again = ds.value(game, "gp", budget=40, ledger=tmp_path / f"{kill}.sqlite")
        assert Mortal.fits == whole.n_trainings == again.n_trainings
        assert again.values.tolist() == whole.values.tolist()
        assert again.details["probes"] == whole.details["probes"]


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (LogisticRegression(), True),
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
        (Calm(), True),
        (LogisticRegression(solver="saga", max_iter=3, tol=1.0), False),
        (RandomForestClassifier(3, max_depth=2, random_state=0), False),
        (Dice(), False),
    ],
)
@pytest.mark.filterwarnings("ignore:The max_iter was reached")
def test_what_two_trainings_show_counts_not_what_parameters_are_called(model, known):
    game = ds.ModelGame(owners(), model, *TEST)
    result = ds.value(game, "permutation", budget=30)
    if game.training.deterministic is None:
        assert result.details["probes"]["same under another seed"] is known
    proven = any("That is evidence, not proof" in note for note in result.notes)
    assert proven is (known and game.training.deterministic is None)
    assert (result.errors["training"] == [0.0] * 4) is known


def test_models_of_scikit_learn_that_take_no_seed_are_known():
    known = [
        GaussianNB(),
        Ridge(),
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), Ridge()),
    ]
    assert [known_chance(model) for model in known] == [True] * 4
    unknown = [
        HistGradientBoostingClassifier(),
        LogisticRegression(solver="saga"),
        GridSearchCV(GaussianNB(), {"var_smoothing": [0.1]}, cv=KFold(3)),
        make_pipeline(FunctionTransformer(np.abs), GaussianNB()),
        GridSearchCV(LogisticRegression(), {"solver": ["saga", "liblinear"]}),
        Calm(),
    ]
    assert [known_chance(model) for model in unknown] == [None] * 6
    scored = ds.ModelGame(owners(), KNeighborsClassifier(), *TEST, scoring=lambda m, X, y: 1.0)
    assert scored.training.deterministic is None  # the scorer may draw
    assert ds.ModelGame(owners(), KNeighborsClassifier(), *TEST).training.deterministic is True
    random = [
        DecisionTreeClassifier(),
        make_pipeline(RandomForestClassifier()),
        AdaBoostRegressor(),
        # these mostly choose the same, which a few probes would take for certain
        RandomizedSearchCV(GaussianNB(), {"var_smoothing": [0.1, 1.0]}, n_iter=1),
        GridSearchCV(GaussianNB(), {"var_smoothing": [0.1]}, cv=KFold(3, shuffle=True)),
        RidgeCV(cv=ShuffleSplit(3)),
        make_pipeline(SelectKBest(mutual_info_classif, k=1), GaussianNB()),
        make_pipeline(PCA(2), GaussianNB()),  # draws from 501 rows to ten a column
    ]
    assert [known_chance(model) for model in random] == [False] * 8
    assert known_chance(make_pipeline(PCA(2, svd_solver="full"), GaussianNB())) is None


@pytest.mark.parametrize("name", ["logistic", "lda", "naive-bayes", "ridge", "knn"])
def test_names_need_no_second_training_where_rows_have_holes_either(name):
    blocks = {
        f"o{j}": (X.copy(), y) for j, (X, y) in enumerate(zip(owners().X, owners().y, strict=True))
    }
    for X, _ in blocks.values():
        X[::5, 0] = np.nan
    game = ds.ModelGame(ds.Owners.from_arrays(blocks), name, *TEST, task="classification")
    assert game.training.deterministic is True


def test_our_own_arithmetic_needs_no_second_training():
    assert ds.ModelGame(owners(), GaussianNB(), *TEST).training.deterministic is True
    assert ds.ModelGame(owners(), SoftmaxRegression(), *TEST).training.deterministic is True
    assert ds.ModelGame(owners(), SmallMLP(), *TEST).training.deterministic is False
    random_by_seed = ds.value(ds.ModelGame(owners(), SmallMLP(steps=2), *TEST), "exact")
    assert random_by_seed.unknown == ("training",)


def test_folds_try_one_fold_and_quotes_count_the_training():
    def make(inside, X, y):
        return ds.ModelGame(inside, Dice(), X, y)

    game = ds.FoldsGame(owners(), make, 3)
    Dice.fits = 0
    result = ds.value(game, "exact")
    assert Dice.fits == result.n_trainings == 3 * 15 + 7
    assert result.unknown == ("training",)
    frame = ds.quote(game).set_index("method")
    assert frame["trainings"]["exact"] == 3 * 15 + 7
    repeated = ds.FoldsGame(
        owners(), lambda *split: ds.ModelGame(split[0], Dice(), *split[1:], repeats=2), 3
    )
    assert not len(probe_pools(repeated))


def test_models_that_differ_where_the_score_does_not_show_it_differ():
    X = np.random.default_rng(0).normal(size=(5, 3))
    one, other = Dice(), Dice()
    one.classes_ = other.classes_ = np.array([0, 1])
    one.weights, other.weights = np.array([1.0, 0, 0]), np.array([1.1, 0, 0])
    assert (one.predict(X) == other.predict(X)).all()
    assert voice_of(1.0, behaviour(one, X)) != voice_of(1.0, behaviour(other, X))
    assert voice_of(1.0, behaviour(one, X)) == voice_of(1.0, behaviour(one, X))
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


def test_probes_are_paid_once_and_quoted(tmp_path):
    game = ds.ModelGame(owners(5), Counted(), *TEST, fingerprint="counted")
    assert probe_pools(game).sum(axis=1).tolist() == [5, 1, 1, 1, 1, 2, 2]
    Counted.fits = 0
    result = ds.value(game, "exact", ledger=tmp_path / "paid.sqlite")
    assert Counted.fits == result.n_trainings == 31 + 7
    assert result.n_computed == result.n_distinct == result.n_evaluations == 32
    assert result.errors["training"] == [0.0] * 5
    ds.value(game, "exact", ledger=tmp_path / "paid.sqlite")
    assert Counted.fits == 38
    few = ds.value(game, "permutation", budget=12)
    assert few.n_distinct <= 12
    assert Counted.fits == 38 + few.n_trainings <= 38 + 12
    row = ds.quote(game, 12).set_index("method").loc["permutation"]
    assert (row["evaluations"], row["trainings"]) == (12, 11)


@pytest.mark.parametrize("method", ["gp", "loo", "random", "du", "exact"])
@pytest.mark.parametrize("said", [None, True])
def test_pools_that_were_timed_are_not_trained_again_nor_for_nothing(tmp_path, method, said):
    game = ds.ModelGame(
        owners(6), Counted(), *TEST, deterministic=said, fingerprint=f"timed {said}"
    )
    budget, ledger = {"gp": 40}.get(method), tmp_path / "l.sqlite"
    Counted.fits = 0
    with Run(game, method, budget=budget, ledger=ledger) as run:
        assert run.trial() > 0
        assert Counted.fits == 1
        result = run.pay()
    plain = ds.value(game, method, budget=budget)
    again = ds.value(game, method, budget=budget, ledger=ledger)
    assert Counted.fits == 2 * result.n_trainings
    assert result.n_trainings == plain.n_trainings == again.n_trainings
    assert result.values.tolist() == plain.values.tolist()


def test_a_small_pool_that_fails_does_not_end_a_run_that_never_asks_for_it():
    class Fussy(LogisticRegression):
        def fit(self, X, y):
            if len(y) < 40:
                raise ValueError("too few rows")
            return super().fit(X, y)

    game = ds.ModelGame(owners(6), Fussy(), *TEST)
    with Run(game, "loo", budget=100) as run:
        assert run.trial() > 0  # of the grand coalition
        result = run.pay()
    assert result.details["probes"] == {"same under another seed": None, "trainings": 5}
    assert result.errors["training"] is None  # one pool is not enough to know it


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
    few = ds.value(size, "stratified-svarm", budget=50, precision=1)
    assert any("rests on" in note for note in few.notes)
    assert not any("not reached" in note for note in few.notes)


class Meets(Calm):
    """Ends a training of so many rows only once another process has begun one."""

    generator, seed_free = "numpy", True

    def __init__(self, folder=".", rows=0):
        self.folder, self.rows = folder, rows

    def fit(self, X, y):
        folder, until = Path(self.folder), time.monotonic() + 120
        if len(X) >= self.rows:
            (folder / str(os.getpid())).touch()
            while len(list(folder.iterdir())) < 2:
                if time.monotonic() > until:
                    (folder / "alone").touch()
                time.sleep(0.01)
        return super().fit(X, y)


@pytest.mark.parametrize("said", [None, True])
def test_both_workers_train_from_the_first_training_on(tmp_path, said):
    """Where training is probed, on the grand coalition under two seeds."""
    rows = 0 if said else int(owners(6).sizes.sum())
    (folder := tmp_path / "met").mkdir()
    game = ds.ModelGame(owners(6), Meets(str(folder), rows), *TEST, deterministic=said)
    result = ds.value(game, "gp", budget=40, n_jobs=2)
    assert not (folder / "alone").exists()
    (here := tmp_path / "here").mkdir()
    for name in "ab":
        (here / name).touch()
    alone = ds.ModelGame(owners(6), Meets(str(here), rows), *TEST, deterministic=said)
    assert result.values.tolist() == ds.value(alone, "gp", budget=40).values.tolist()


@pytest.mark.slow
def test_failures_of_probes_are_counted_and_paid_once(tmp_path):
    log = str(tmp_path / "fits")  # of other processes as well: limits have trainings in their own

    class Fails(Dice):
        def fit(self, X, y):
            with open(log, "a") as fits:
                fits.write("x")
            super().fit(X, y)
            if len(y) % 3 == 0:
                raise ValueError("unlucky")
            return self

    runs = ((3, None, None), (4, None, 90), (4, 20, 90), (6, 40, None), (6, 40, 90))
    for number, budget, limit in runs:
        Path(log).write_text("")
        game = ds.ModelGame(owners(number), Fails(), *TEST, on_failure="empty", timeout=limit)
        result = ds.value(game, budget=budget)
        assert len(Path(log).read_text()) == result.n_trainings <= (budget or 99)
        quoted = ds.quote(game, budget).set_index("method").loc["auto", "trainings"]
        assert result.n_trainings <= quoted
        assert result.failures


def test_quotes_count_what_du_and_knn_train():
    for number in (3, 4, 5):
        game = ds.ModelGame(owners(number), Counted(), *TEST, deterministic=True)
        quoted = ds.quote(game).set_index("method")["trainings"]
        for method in ("du", "loo", "knn", "exact"):
            Counted.fits = 0
            result = ds.value(game, method)
            assert Counted.fits == result.n_trainings == quoted[method]


def test_a_pool_of_one_class_shows_nothing_about_chance():
    rng = np.random.default_rng(0)
    blocks = {f"o{i}": labels(20 + i, rng) for i in range(5)}
    blocks["one class"] = (rng.normal(size=(6, 3)), np.ones(6, dtype=int))
    game = ds.ModelGame(ds.Owners.from_arrays(blocks), Calm(), *TEST)
    few = ds.value(game, "gp", budget=40)  # two pools: all, and the smallest
    assert few.details["probes"]["same under another seed"] is None
    assert ds.value(game, "gp", budget=60).errors["training"] == [0.0] * 6
