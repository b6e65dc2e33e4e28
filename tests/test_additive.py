"""Models trained from sums against the same models trained on rows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.data.summaries import Statistics
from dushapley.errors import (
    InvalidChange,
    InvalidGame,
    InvalidOption,
    InvalidOwners,
    MethodNotApplicable,
)
from dushapley.estimators.du import BIAS_NOTE
from dushapley.games import Regressogram, SmallMLP, SoftmaxRegression
from dushapley.games.model.additive.model import ELIMINATE_UP_TO, least_norm, least_pivots, solve

SCALE, SHIFT = np.array([1.0, 10.0, 0.1, 3.0]), np.array([5.0, 0.0, 100.0, 1.0])
EVERY = (np.arange(64)[:, None] >> np.arange(6)) & 1 == 1


def regression(seed=0):
    rng = np.random.default_rng(seed)

    def some(n):
        X = rng.standard_normal((n, 4)) * SCALE + SHIFT
        return X, X @ [1, 0.1, 3, 0.2] + rng.standard_normal(n)

    return ds.Owners.from_arrays({f"o{n}": some(n) for n in (1, 2, 4, 9, 25, 40)}), *some(60)


def classification(seed=0, names=("x", "y", "z")):
    rng = np.random.default_rng(seed)

    def some(n, classes=3):
        y = rng.integers(0, classes, n)
        return (rng.standard_normal((n, 4)) + y[:, None]) * SCALE + SHIFT, np.array(names)[y]

    blocks = {f"o{n}": some(n, c) for n, c in ((1, 3), (5, 1), (8, 2), (9, 3), (25, 3), (40, 2))}
    return ds.Owners.from_arrays(blocks), *some(60)


REGRESSIONS = [
    (Ridge(), "r2"),
    (Ridge(fit_intercept=False), "neg_mean_squared_error"),
    (Ridge(alpha=3.0), "neg_mean_absolute_error"),
    (make_pipeline(StandardScaler(), Ridge()), "neg_root_mean_squared_error"),
    (LinearRegression(), "r2"),
    (LinearRegression(fit_intercept=False), "r2"),
    (Regressogram([4.0, 5.0, 6.0]), "r2"),
]
CLASSIFIERS = [
    (GaussianNB(), "accuracy"),
    (GaussianNB(), "neg_log_loss"),
    (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), "accuracy"),
    # not log loss: scikit-learn's 1 − p has no digits left where p is nearly one
    (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), "neg_brier_score"),
    (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01), "balanced_accuracy"),
    (make_pipeline(StandardScaler(), GaussianNB()), "neg_log_loss"),
    (
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)),
        "neg_brier_score",
    ),
]


@pytest.mark.parametrize(("model", "scoring"), REGRESSIONS + CLASSIFIERS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_every_coalition_equals_fitting_on_its_rows(model, scoring, seed):
    is_class = (model, scoring) in CLASSIFIERS
    owners, X, y = classification(seed) if is_class else regression(seed)
    fast = ds.ModelGame(owners, model, X, y, scoring=scoring)
    plain = ds.ModelGame(owners, model, X, y, scoring=scoring, fast=False, on_failure="empty")
    assert fast.path is not None
    assert fast.fractions == "rows"
    wanted = plain.evaluate(EVERY, None)
    fitted = np.array([o.failure is None for o in wanted])  # as many rows as classes: no LDA
    assert fitted.sum() >= 60
    truth = np.array([o.value for o in wanted])
    np.testing.assert_allclose(fast(EVERY)[fitted], truth[fitted], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["lda", "naive-bayes"])
@pytest.mark.parametrize("load", [load_wine, load_digits])
@pytest.mark.filterwarnings("ignore::UserWarning")  # of classes that have one row
def test_scaled_classifiers_equal_fitting_in_all_sorts_of_units(name, load):
    """Units of 1e-3 to 1e6, columns that are constant in pools, more columns than rows."""
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    X = X[
        :, (X > 0).mean(axis=0) > 0.5
    ]  # of others, constant far from a test row, rounding decides
    X = X[:500] * 10.0 ** rng.integers(-3, 7, X.shape[1])
    order, y = rng.permutation(len(X)), y[:500]
    X[:, 1] = 0.1 * X[:, 1] / X[:, 1].max()
    parts = np.split(order[len(order) // 3 :], [15, 30, 60])
    blocks = {f"o{j}": (X[part].copy(), y[part]) for j, part in enumerate(parts)}
    for j in (0, 2):
        blocks[f"o{j}"][0][:, 1] = 0.1
    owners, test = ds.Owners.from_arrays(blocks), order[: len(order) // 3]
    pools = EVERY[1:16, :4]
    for scoring in ("accuracy", "neg_log_loss"):
        fast = ds.ModelGame(owners, name, X[test], y[test], scoring=scoring)
        plain = ds.ModelGame(owners, name, X[test], y[test], scoring=scoring, fast=False)
        assert fast.cheap
        exact = {"accuracy": 0.0, "neg_log_loss": 1e-8}[scoring]
        np.testing.assert_allclose(fast(pools), plain(pools), rtol=exact, atol=exact)


def test_scalers_that_sums_cannot_follow_are_fitted():
    owners, X, y = classification()
    for steps in (
        (StandardScaler(with_std=False), GaussianNB()),
        (StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr")),
        (SimpleImputer(), StandardScaler(), GaussianNB()),
    ):
        assert ds.ModelGame(owners, make_pipeline(*steps), X, y).path is None


def owners_of_incomes(rng):
    """Four honest owners and one of 40% wrong labels; one column has nothing but a large unit."""

    def some(n):
        X = rng.normal(size=(n, 4))
        score = X[:, :3].sum(axis=1) + rng.normal(size=n)
        return X * [10, 1, 0.01, 1e6], np.where(score > 1, "more", "less")

    blocks = {name: some(200) for name in ("alder", "birch", "cedar", "dogwood", "elm")}
    X, y = blocks["elm"]
    wrong = rng.random(200) < 0.4
    blocks["elm"] = X, np.where(wrong, np.where(y == "more", "less", "more"), y)
    return blocks, *some(1500)


@pytest.mark.parametrize("name", ["lda", "naive-bayes"])
def test_wrong_labels_get_the_least_whatever_the_units(name):
    """On raw columns the amounts drowned all others, and elm was paid."""
    for seed in range(3):
        blocks, X, y = owners_of_incomes(np.random.default_rng(seed))
        owners = ds.Owners.from_arrays(blocks)
        valued = ds.value(ds.ModelGame(owners, name, X, y), "exact")
        assert valued.owners[int(valued.values.argmin())] == "elm"
        sums = ds.Owners.from_statistics(owners.statistics())
        assert ds.value(ds.ModelGame(sums, name, X, y), "exact").values.tolist() == (
            valued.values.tolist()
        )


@pytest.mark.filterwarnings("ignore::dushapley.errors.SharedRows")
def test_wrong_labels_get_the_least_on_raw_incomes(data_folder):
    table = pd.read_parquet(data_folder / "adult.parquet").sample(12_000, random_state=0)
    numbers = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    X, y = table[numbers].to_numpy(float), (table["income"] == table["income"].max()).to_numpy(int)
    blocks = {f"o{j}": (X[j:6000:5], y[j:6000:5]) for j in range(5)}
    wrong = np.random.default_rng(0).random(1200) < 0.4
    blocks["o4"] = blocks["o4"][0], np.where(wrong, 1 - blocks["o4"][1], blocks["o4"][1])
    owners, test = ds.Owners.from_arrays(blocks), (X[6000:], y[6000:])
    valued = ds.value(ds.ModelGame(owners, "lda", *test), "exact")
    theirs = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis())
    theirs.fit(np.concatenate(owners.X), np.concatenate(owners.y))
    assert valued.values.argmin() == 4
    assert valued.u_full >= theirs.score(*test) - 0.01


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("spread", [0, 9])
def test_least_squares_of_few_rows_and_in_all_sorts_of_units_is_scikit_learns(spread, intercept):
    """Which leaves out directions by its own rule, in the units of the columns."""
    X, y = load_diabetes(return_X_y=True)
    X = X * 10.0 ** np.linspace(-3, spread - 3, X.shape[1])
    blocks = {f"o{j}": (X[7 * j : 7 * j + 7], y[7 * j : 7 * j + 7]) for j in range(5)}
    model = LinearRegression(fit_intercept=intercept)
    owners, test = ds.Owners.from_arrays(blocks), (X[35:200], y[35:200])
    fast, slow = (ds.ModelGame(owners, model, *test, fast=fast) for fast in (True, False))
    pools = np.unpackbits(np.arange(32, dtype=np.uint8)[:, None], axis=1)[:, 3:].astype(bool)
    np.testing.assert_allclose(fast(pools), slow(pools), rtol=1e-8)
    if spread == 0:
        assert fast.path is not None
        rows = [[o.scores for o in game.evaluate(pools, None)] for game in (fast, slow)]
        np.testing.assert_allclose(*rows, rtol=1e-7, atol=1e-7)


FAST = {
    "ridge": Ridge(),
    "scaled ridge": make_pipeline(StandardScaler(), Ridge()),
    "least squares": LinearRegression(),
    "regressogram": Regressogram([4.0, 5.0, 6.0]),
    "shrunk lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    "scaled lda": make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    ),
    "naive bayes": GaussianNB(),
    "scaled naive bayes": make_pipeline(StandardScaler(), GaussianNB(var_smoothing=0.01)),
    "softmax": SoftmaxRegression(steps=5),
    "network": SmallMLP(hidden=3, steps=5),
    "softmax, log loss": SoftmaxRegression(steps=5),
    "network, log loss": SmallMLP(hidden=3, steps=5),
}
"""Every kind of model that has a fast path, and the score where it is not the usual one."""


@pytest.fixture(scope="module", params=FAST)
def both(request):
    """A game of four owners on its fast path, and fitted pool by pool."""
    rng = np.random.default_rng(4)
    model, sizes, n_test = FAST[request.param], (14, 11, 19, 16), 40
    X = rng.standard_normal((sum(sizes) + n_test, 3)) * SCALE[:3] + SHIFT[:3]
    y = X @ [1.0, 0.1, 3.0] + rng.standard_normal(len(X))
    if is_classifier(model):
        y = np.digitize(y, np.quantile(y, [0.4, 0.7]))
    ends = np.cumsum(sizes)
    *parts, test = zip(np.split(X, ends), np.split(y, ends), strict=True)
    owners = ds.Owners.from_arrays({f"o{j}": part for j, part in enumerate(parts)})
    scoring = "neg_log_loss" if "log loss" in request.param else None
    made = [
        ds.ModelGame(owners, model, *test, scoring=scoring, fast=fast) for fast in (True, False)
    ]
    assert made[0].path is not None
    assert made[0].fractions == made[1].fractions == "rows"
    return made


# all but those that train nothing: du-second-order is a formula, knn another game
ASKED = [
    *((method, {}) for method in ds.methods() if method not in ("du-second-order", "knn")),
    ("du", {"budget": 60}),
    ("loo", {"options": {"form": "random"}}),
    ("gp", {"budget": 13}),  # adaptive, and yet on the same coalitions
    ("tmc", {"budget": 30}),
]


@pytest.mark.parametrize(("method", "options"), ASKED)
@pytest.mark.filterwarnings("ignore:Only one sample available")
def test_a_fast_path_changes_no_value(both, method, options):
    fast, slow = (ds.value(game, method, seed=4, **options) for game in both)
    np.testing.assert_allclose(fast.values, slow.values, rtol=0, atol=1e-8)
    assert (BIAS_NOTE in fast.notes) == (BIAS_NOTE in slow.notes) == method.startswith("du")


@pytest.mark.filterwarnings("ignore:Only one sample:UserWarning")
@pytest.mark.parametrize("change", [ds.MoreRows("o1", 5), ds.MoreRows("o2", -6)])
def test_a_fast_path_changes_no_what_if(both, change):
    fast, slow = (ds.what_if(game, change, method="exact") for game in both)
    np.testing.assert_allclose(fast.after.values, slow.after.values, rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["du", "du++", "loo"])
def test_methods_that_draw_rows_ask_for_parts_of_owners(both, method, monkeypatch):
    options = {"form": "random"} if method == "loo" else None
    asked, outcomes = [], both[1].evaluate
    monkeypatch.setattr(both[1], "evaluate", lambda q, d: asked.append(q) or outcomes(q, d))
    ds.value(both[1], method, seed=4, options=options)
    assert any(((pools > 0) & (pools < 1)).any() for pools in asked)


def test_a_fast_path_draws_the_same_rows(both):
    rng = np.random.default_rng(5)
    pools = np.where(rng.random((40, 4)) < 0.3, 1.0, rng.uniform(0.4, 1, (40, 4)))
    pools[20:, 0] = 0.0
    pools[0], pools[1] = 0.0, [0.01, 0.0, 0.0, 0.0]  # no rows, and a part that rounds to none
    draws = rng.integers(5, size=40)
    fast, slow = (game(pools, draws) for game in both)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-8)
    assert not np.array_equal(both[0](pools, draws + 5), fast)
    fast, slow = (game.evaluate(pools, draws) for game in both)  # the error bars need these
    rows = [np.array([outcome.scores for outcome in found]) for found in (fast, slow)]
    np.testing.assert_allclose(*rows, rtol=0, atol=1e-7)


def test_drawn_sums_have_no_bits_of_their_company(both):
    rng = np.random.default_rng(6)
    pools, draws = rng.uniform(0.4, 1, (70, 4)), rng.integers(9, size=70)
    together, turned = both[0](pools, draws), rng.permutation(70)
    fresh = both[0].with_owners(both[0].owners)  # which has kept no sums
    np.testing.assert_array_equal(fresh(pools[turned], draws[turned]), together[turned])
    alone = [fresh(pools[k : k + 1], draws[k : k + 1])[0] for k in range(5)]
    np.testing.assert_array_equal(alone, together[:5])


@pytest.mark.parametrize(
    "model",
    [Ridge(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01), GaussianNB()],
)
def test_taking_rows_out_of_a_sum_loses_no_digits(model):
    """A row ten million times as long as others would leave only rounding of them behind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X.sum(axis=1) + rng.normal(size=400)
    X[7] *= 1e7
    y, scoring = (y > 0, "neg_log_loss") if is_classifier(model) else (y, "r2")
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:300:3], y[j:300:3]) for j in range(3)})
    given = owners, model, X[300:], y[300:]
    fast, fitted = (ds.ModelGame(*given, scoring=scoring, fast=fast) for fast in (True, False))
    pools, draws = np.full((40, 3), 0.6), np.arange(40)
    counts = fitted.counts(pools)
    far = [float(np.abs(fitted.pool(counts[k], k)[0]).max()) for k in draws.tolist()]
    near = draws[np.array(far) < 1e3]
    assert len(near) > 5
    found, expected = (game.evaluate(pools[near], near).values for game in (fast, fitted))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_single_precision_is_fitted_as_scikit_learn_does():
    owners, X, y = regression()
    blocks = {n: (owners.X[j].astype("f4"), owners.y[j]) for j, n in enumerate(owners.names)}
    game = ds.ModelGame(ds.Owners.from_arrays(blocks), Ridge(), X.astype("f4"), y, scoring="r2")
    assert game.path is None  # and no warning of an overflow
    theirs = Ridge().fit(*game.pool(owners.sizes, None)).score(X.astype("f4"), y)
    assert game(EVERY[-1:])[0] == theirs


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("d", [5, ELIMINATE_UP_TO + 6])
def test_ridge_of_few_rows_in_all_sorts_of_units_is_scikit_learns(alpha, d):
    """Of fewer rows than columns scikit-learn itself rounds, by up to a hundredth of R²."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(160, d)) * 10.0 ** rng.integers(-4, 7, d)
    y = (X / X.std(axis=0)).sum(axis=1) + rng.normal(size=160)
    rows = 2 * d // 5
    owners = ds.Owners.from_arrays(
        {f"o{j}": (X[j * rows : (j + 1) * rows], y[j * rows : (j + 1) * rows]) for j in range(6)}
    )
    given = owners, Ridge(alpha=alpha), X[-80:], y[-80:]
    fast, fitted = (ds.ModelGame(*given, scoring="r2", fast=fast) for fast in (True, False))
    assert fast.path is not None
    np.testing.assert_allclose(fast(EVERY), fitted(EVERY), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
def test_an_owner_with_a_constant_column_is_fitted_behind_its_scaler(scoring):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=200), 50_000 + 20_000 * rng.normal(size=200)])
    y = X[:, 0] + X[:, 1] / 2e4 + rng.normal(size=200)
    X[:20, 1] = 30_000.0
    blocks = {f"o{j}": (X[20 * j :][:20], y[20 * j :][:20]) for j in range(4)}
    given = ds.Owners.from_arrays(blocks), "ridge", X[100:], y[100:]
    fast, fitted = (ds.ModelGame(*given, scoring=scoring, fast=fast) for fast in (True, False))
    assert fast.path is not None
    one, other = (ds.value(game, "exact") for game in (fast, fitted))
    np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.errors["test set"], other.errors["test set"], rtol=1e-6)


def test_least_squares_of_nearly_equal_columns_scores_what_was_fitted():
    rng = np.random.default_rng(7)
    x = rng.normal(size=300)
    X = np.column_stack([x, x + 3e-6 * rng.normal(size=300)])
    X[40:80, 1], y = rng.normal(size=40), x + rng.normal(size=300)
    owners = ds.Owners.from_arrays({"a": (X[:40], y[:40]), "b": (X[40:80], y[40:80])})
    given = owners, LinearRegression(), X[100:], y[100:]
    fast, fitted = (ds.ModelGame(*given, scoring="r2", fast=fast) for fast in (True, False))
    assert fast.path is not None
    np.testing.assert_allclose(fast(EVERY[:4, :2]), fitted(EVERY[:4, :2]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model", [LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01), GaussianNB()]
)
def test_few_close_rows_of_few_of_many_classes_are_fitted(model):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 10
    close = 40 + 1e-4 * rng.normal(size=(6, 3)), np.array([0, 1, 0, 1, 0, 1])
    owners = ds.Owners.from_arrays({"few": close, "many": (X[:300], y[:300])})
    given = owners, model, X[300:], y[300:]
    games = [ds.ModelGame(*given, scoring="neg_log_loss", fast=fast) for fast in (True, False)]
    assert games[0].path is not None
    fast, fitted = (game(np.eye(2)) for game in games)
    np.testing.assert_allclose(fast, fitted, rtol=1e-8)


@pytest.mark.parametrize("model", ["lda", "naive-bayes", "ridge", GaussianNB()])
@pytest.mark.parametrize("spread", [1e-7, 1e-8, 1e-10])
def test_a_column_that_hardly_varies_is_fitted(model, spread):
    """As a StandardScaler has it, which blows it up: sums around other rows have lost it."""
    rng = np.random.default_rng(13)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 2
    X[:, 1] += y
    X[:40, 0] = 20 + spread * rng.normal(size=40) * (1 + y[:40])
    y = X.sum(axis=1) if model == "ridge" else y
    parts = {"steady": (X[:40], y[:40]), "other": (X[40:120], y[40:120])}
    given = ds.Owners.from_arrays(parts), model, X[120:], y[120:]
    fast, fitted = (ds.ModelGame(*given, fast=fast) for fast in (True, False))
    assert fast.path is not None
    pools, draws = np.array([[1, 0], [1, 1], [0.6, 0], [0.6, 0.5]]), np.arange(4)
    np.testing.assert_allclose(fast(pools, draws), fitted(pools, draws), rtol=1e-8)


@pytest.mark.parametrize("model", [GaussianNB(), "naive-bayes", FAST["scaled naive bayes"]])
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_naive_bayes_of_a_column_that_is_constant_and_far_from_the_test_rows_is_fitted(
    model, scoring
):
    """Its likelihoods are so small that their last digits decide; sums have others."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(40, 10, size=(500, 3)), np.arange(500) % 2
    X[:, 1] += 4 * y
    X[:, 2] = np.where(rng.random(500) < 0.04, rng.lognormal(12, 1, 500), 0)
    X[:20, 2] = 0
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:60:6], y[j:60:6]) for j in range(6)})
    given = owners, model, X[60:], y[60:]
    games = [ds.ModelGame(*given, scoring=scoring, fast=fast) for fast in (True, False)]
    assert games[0].path is not None
    for method in ("exact", "du"):
        fast, fitted = (ds.value(game, method).values for game in games)
        np.testing.assert_allclose(fast, fitted, rtol=0, atol=1e-8)


def test_targets_in_single_precision_are_scored_in_double():
    X, y = load_diabetes(return_X_y=True)
    y += 4e6
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:60:3], y[j:60:3]) for j in range(3)})
    given = owners, Ridge(), X[60:], y[60:].astype(np.float32)
    games = [ds.ModelGame(*given, scoring="r2", fast=fast) for fast in (True, False)]
    fast, fitted = (game(EVERY[1:8, :3]) for game in games)
    np.testing.assert_allclose(fast, fitted, rtol=1e-8)


@pytest.mark.parametrize("model", ["lda", "naive-bayes", GaussianNB()])
def test_numbers_among_objects_are_labels_and_continuous_ones_are_not(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), (np.arange(60) % 2).astype(object)
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:40:2], y[j:40:2]) for j in range(2)})
    plain = ds.Owners.from_arrays({f"o{j}": (X[j:40:2], y[j:40:2].astype(int)) for j in range(2)})
    values = [
        ds.value(ds.ModelGame(some, model, X[40:], y[40:].astype(kind)), "exact").values
        for some, kind in ((owners, object), (plain, int))
    ]
    np.testing.assert_allclose(*values, rtol=1e-12)
    text = ds.Owners.from_arrays({f"o{j}": (X[j:40:2], y[j:40:2].astype(str)) for j in range(2)})
    assert ds.ModelGame(text, model, X[40:], y[40:].astype(str).astype(object)).path is not None
    numbers = ds.Owners.from_arrays({f"o{j}": (X[j:40:2], X[j:40:2, 0]) for j in range(2)})
    classifier = LinearDiscriminantAnalysis() if model == "lda" else GaussianNB()
    with pytest.raises(
        InvalidGame, match=r"classifier, but the targets are continuous: -.* is one"
    ):
        ds.ModelGame(numbers, classifier, X[40:], X[40:, 0])


@pytest.mark.parametrize("load", [load_digits, load_wine])
def test_columns_that_are_constant_are_still_summed(load):
    X, y = load(return_X_y=True)
    X, y = X[:130].copy(), y[:130] % 2
    X[:, 0] = 0.1
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:60:3], y[j:60:3]) for j in range(3)})
    for model in ("lda", "naive-bayes", GaussianNB()):
        game = ds.ModelGame(owners, model, X[60:], y[60:])
        assert game.cheap
        game.path.model.fitted = None  # which nothing calls
        assert np.isfinite(game(np.eye(3))).all()
        assert np.isfinite(game(np.full((2, 3), 0.5), [1, 2])).all()


@pytest.mark.parametrize("far", [1e6, 1e9, 1e14])
@pytest.mark.parametrize(
    "model", [LinearRegression(), Ridge(), GaussianNB(), "lda", "naive-bayes", "ridge"]
)
def test_a_wrong_cell_among_test_rows_changes_no_fit(model, far):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(400, 4))
    y = X @ [1.0, -1.0, 2.0, 0.5] + rng.normal(size=400)
    X[205, 1] = far
    scoring = "neg_median_absolute_error"
    if model in ("lda", "naive-bayes") or isinstance(model, GaussianNB):
        y, scoring = y > 0, "accuracy"
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:200:4], y[j:200:4]) for j in range(4)})
    given = owners, model, X[200:], y[200:]
    games = [ds.ModelGame(*given, scoring=scoring, fast=fast) for fast in (True, False)]
    pools = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=bool)
    fast, fitted = (game(pools) for game in games)
    np.testing.assert_allclose(fast, fitted, rtol=1e-8)


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(1e-6)])
def test_errors_of_models_that_fit_perfectly_are_those_of_the_rows(model):
    rng = np.random.default_rng(12)
    X = rng.integers(0, 1000, (120, 6)).astype(float)
    y = X.sum(axis=1)
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:60:3], y[j:60:3]) for j in range(3)})
    given = owners, model, X[60:], y[60:]
    for scoring in ("neg_root_mean_squared_error", "neg_mean_squared_error"):
        games = [ds.ModelGame(*given, scoring=scoring, fast=fast) for fast in (True, False)]
        assert games[0].path is not None
        fast, fitted = (game(EVERY[1:8, :3] > 0) for game in games)
        np.testing.assert_allclose(fast, fitted, rtol=0, atol=1e-8)


@pytest.mark.parametrize("p", [300, 600])
def test_pivots_of_columns_that_follow_from_each_other_are_found_at_any_width(p):
    rows = np.random.default_rng(3).normal(size=(2 * p, p))
    rows[:, -1] = rows[:, 0]
    assert least_pivots((rows.T @ rows)[:, :, None]) < 1e-8


def test_one_system_without_a_solution_ends_no_other():
    systems = np.stack([np.eye(30), np.zeros((30, 30)), 2 * np.eye(30)], axis=2)
    found = solve(systems, np.ones((30, 1, 3)))
    np.testing.assert_array_equal(found[:, 0], np.array([[1.0, np.nan, 0.5]] * 30))


def test_naive_bayes_without_smoothing_is_fitted():
    owners, X, y = classification()
    game = ds.ModelGame(owners, GaussianNB(var_smoothing=0.0), X, y, on_failure="empty")
    assert game.path is None


def test_a_row_a_million_times_as_long_as_others_is_not_summed():
    owners, X, y = regression()
    far = np.array([[1e8], [1], [1], [1]])  # the third owner's rows
    blocks = {n: (owners.X[j], owners.y[j]) for j, n in enumerate(owners.names)}
    blocks[owners.names[2]] = owners.X[2] * far, owners.y[2]
    assert ds.ModelGame(ds.Owners.from_arrays(blocks), Ridge(), X, y, scoring="r2").path is None


def test_owners_of_sums_have_no_parts():
    owners, X, y = regression()
    game = ds.ModelGame(ds.Owners.from_statistics(owners.statistics()), Ridge(), X, y)
    assert game.fractions == "none"
    for method, options in (("du", {}), ("du++", {}), ("loo", {"form": "random"})):
        with pytest.raises(MethodNotApplicable, match=r"given sums .* whole owners: exact"):
            ds.value(game, method, options=options)
    with pytest.raises(InvalidChange, match="given sums"):
        ds.what_if(game, ds.MoreRows("o25", 5))
    with pytest.raises(InvalidChange, match=r"sums instead of rows. Ask about whole owners"):
        ds.what_if(game, ds.Copy(owners.names[0], owners.names[1]))
    with pytest.raises(MethodNotApplicable, match="needs the owners' rows"):
        ds.value(game, "knn")
    refused = ds.quote(game).set_index("method")["refused"]
    assert refused[["du", "knn"]].notna().all()


def test_nothing_is_reduced_before_the_first_question():
    owners, X, y = regression()
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2")
    assert "summed" not in vars(game.path)
    game(EVERY[:3])
    assert "summed" in vars(game.path)


def test_making_a_game_by_name_takes_no_more_memory_than_its_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((512, 2048)), np.arange(512) % 2
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:500:20], y[j:500:20]) for j in range(20)})
    ds.ModelGame(owners, "lda", X[500:], y[500:])  # loads what it needs
    tracemalloc.start()
    try:
        ds.ModelGame(owners, "lda", X[500:], y[500:])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2 * X.nbytes


def test_sums_that_dwarf_the_rows_are_not_made():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((63, 1000)), np.arange(63) % 2
    owners = ds.Owners.from_arrays({f"o{j}": (X[3 * j :][:3], y[3 * j :][:3]) for j in range(20)})
    wide = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    assert ds.ModelGame(owners, wide, X[60:], y[60:]).path is None
    assert ds.ModelGame(owners, GaussianNB(), X[60:], y[60:]).path is not None


@pytest.mark.parametrize(("model", "scoring"), REGRESSIONS[:1] + CLASSIFIERS)
def test_no_bit_depends_on_company_or_order_of_owners(model, scoring):
    owners, X, y = classification() if (model, scoring) in CLASSIFIERS else regression()
    game = ds.ModelGame(owners, model, X, y, scoring=scoring)
    together = game(EVERY)
    turned = np.random.default_rng(1).permutation(64)
    np.testing.assert_array_equal(game(EVERY[turned]), together[turned])
    np.testing.assert_array_equal(
        np.concatenate([game(EVERY[k : k + 1]) for k in range(9)]), together[:9]
    )
    blocks = dict(zip(owners.names, zip(owners.X, owners.y, strict=True), strict=True))
    backwards = ds.Owners.from_arrays(dict(reversed(blocks.items())))
    again = ds.ModelGame(backwards, model, X, y, scoring=scoring)
    np.testing.assert_array_equal(again(EVERY[:, ::-1]), together)


@pytest.mark.parametrize(
    ("model", "make"),
    [
        (Ridge(), regression),
        (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), classification),
        (GaussianNB(), classification),
    ],
)
def test_statistics_files_alone_give_the_same_bits(model, make, tmp_path):
    owners, X, y = make()
    scoring = "r2" if make is regression else "accuracy"
    files = [s.save(tmp_path / f"{k}.npz") for k, s in enumerate(owners.statistics())]
    handed = ds.Owners.from_statistics(files)
    assert handed.names == owners.names
    assert all(len(block) == 0 for block in handed.X)
    rows = ds.value(ds.ModelGame(owners, model, X, y, scoring=scoring), "exact")
    sums = ds.value(ds.ModelGame(handed, model, X, y, scoring=scoring), "exact")
    assert rows.values.tobytes() == sums.values.tobytes()
    np.testing.assert_array_equal(rows.sizes, sums.sizes)


def test_statistics_are_refused_where_they_cannot_serve(tmp_path):
    owners, X, y = regression()
    handed = ds.Owners.from_statistics(owners.statistics())
    from sklearn.ensemble import RandomForestRegressor

    with pytest.raises(InvalidGame, match="statistics of regression instead of rows"):
        ds.ModelGame(handed, RandomForestRegressor(), X, y, scoring="r2")
    with pytest.raises(InvalidGame, match="cannot be trained from them"):
        ds.ModelGame(handed, Ridge(), X, y, scoring="r2", fast=False)
    with pytest.raises(InvalidGame, match="needs those of classification"):
        ds.ModelGame(handed, GaussianNB(), X, (y > y.mean()).astype(int))
    whole = ds.Owners.from_arrays({"a": ([[1.0]], [1]), "b": ([[2.0]], [3])})
    with pytest.raises(InvalidOwners, match="whole numbers"):
        whole.statistics()
    assert whole.statistics("regression")[0].kind == "regression"
    with pytest.raises(InvalidOwners, match="all owners need the same"):
        ds.Owners.from_statistics([*owners.statistics(), *whole.statistics("regression")])
    with pytest.raises(InvalidOwners, match="same name"):
        ds.Owners.from_statistics([*whole.statistics("regression")] * 2)
    with pytest.raises(InvalidOwners, match=r"Found a ndarray .* use Owners.from_arrays"):
        ds.Owners.from_statistics([np.ones((3, 2))])  # type: ignore[list-item]
    text = ds.Owners.from_arrays({"a": (np.array([["u"]]), [0.5])})
    with pytest.raises(InvalidOwners, match="not numbers"):
        text.statistics()


@pytest.mark.parametrize("damage", ["text", "pickle", "arrays", "shape", "numbers"])
def test_a_file_that_holds_no_statistics_is_refused(damage, tmp_path):
    path = tmp_path / "owner.npz"
    good = regression()[0].statistics()[3]
    if damage == "text":
        path.write_text("name,rows\n")
    elif damage == "pickle":
        np.savez(path, about=np.array([{"a": 1}], dtype=object))
    elif damage == "arrays":
        Statistics("o", "regression", 3, 4, {"mean": np.zeros(5)}).save(path)
    elif damage == "shape":
        arrays = {"mean": np.zeros(3), "scatter": np.eye(5)}
        Statistics("o", "regression", 3, 4, arrays).save(path)
    else:
        arrays = {**good.arrays, "mean": np.full(5, np.nan)}
        Statistics("o", "regression", 3, 4, arrays).save(path)
    with pytest.raises(InvalidOwners):
        Statistics.load(path)


def test_bins_of_another_model_are_refused():
    owners, X, y = regression()
    game = ds.ModelGame(owners, Regressogram([4.0, 5.0]), X, y, scoring="r2")
    held = [
        game.path.model.reduce(n, a, b)
        for n, a, b in zip(owners.names, owners.X, owners.y, strict=True)
    ]
    handed = ds.Owners.from_statistics(held)
    same = ds.ModelGame(handed, Regressogram([4.0, 5.0]), X, y, scoring="r2")
    np.testing.assert_array_equal(same(EVERY), game(EVERY))
    with pytest.raises(InvalidGame, match="other bins"):
        ds.ModelGame(handed, Regressogram([4.0, 6.0]), X, y, scoring="r2")


def test_what_changes_the_model_is_not_taken():
    owners, X, y = regression()

    class Mine(Ridge):
        pass

    for model in (Mine(), Ridge(positive=True), Ridge(alpha=0.0), Ridge(alpha=np.ones(1))):
        assert ds.ModelGame(owners, model, X, y, scoring="r2").path is None
    assert ds.ModelGame(owners, Ridge(), X, y, scoring="neg_max_error").path is None


def test_sums_cost_nothing_and_keep_no_ledger(tmp_path):
    owners, X, y = regression()
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2")
    assert game.cheap
    with pytest.raises(InvalidOption, match="ledger is True; pass the path of a file"):
        ds.value(game, "exact", ledger=True)
    kept = ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    assert any("nothing was kept in the ledger" in note for note in kept.notes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["permutation", "centres", "exact", "loo"])
def test_trainings_from_sums_are_counted_as_they_were_quoted(method):
    owners, X, y = regression()
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2")
    quoted = ds.quote(game).set_index("method").loc[method]
    result = ds.value(game, method)
    assert result.n_trainings == result.n_evaluations - 1
    assert quoted["trainings"] - owners.sizes.size <= result.n_trainings <= quoted["trainings"]


@pytest.mark.parametrize("model", ["ridge", Ridge(), LinearRegression(), "lda", GaussianNB()])
@pytest.mark.parametrize(("level", "spread"), [(1.7e9, 1.0), (1e3, 5e-8), (1e9, 3000.0)])
def test_columns_far_from_0_lose_no_digits(model, level, spread):
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack([X, level + spread * np.random.default_rng(1).normal(size=len(y))])
    classes = model == "lda" or isinstance(model, GaussianNB)
    y, scoring = (y > 140, "neg_log_loss") if classes else (y, "r2")
    owners = ds.Owners.from_arrays({f"o{j}": (X[j:60:5], y[j:60:5]) for j in range(5)})
    given = owners, model, X[300:], y[300:]
    games = [ds.ModelGame(*given, scoring=scoring, fast=fast) for fast in (True, False)]
    for method in ("du", "exact"):
        fast, slow = (ds.value(game, method).values for game in games)
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-8)


def test_rows_all_equal_predict_the_larger_class():
    X, y = np.ones((5, 2)), np.array([0, 0, 0, 1, 1])
    owners = ds.Owners.from_arrays({"a": (X, y), "b": (X[:1], y[:1])})
    game = ds.ModelGame(owners, GaussianNB(), np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 0]))
    assert game([[1, 0]])[0] == 0.75


@pytest.mark.parametrize("p", [3, ELIMINATE_UP_TO + 1])
def test_many_systems_are_solved_at_once(p):
    rng = np.random.default_rng(0)
    half = rng.standard_normal((p, 2 * p, 7))
    systems = np.einsum("ikm,jkm->ijm", half, half)
    right = rng.standard_normal((p, 2, 7))
    for found in (solve(systems, right), least_norm(systems, right)):
        for m in range(7):
            wanted = np.linalg.solve(systems[:, :, m], right[:, :, m])
            np.testing.assert_allclose(found[:, :, m], wanted, rtol=1e-8)


def test_large_models_go_through_in_smaller_blocks():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 120)), rng.standard_normal(300)
    owners = ds.Owners.from_arrays({f"o{j}": (X[j::4], y[j::4]) for j in range(3)})
    fast = ds.ModelGame(owners, Ridge(), X[3::4], y[3::4], scoring="r2")
    assert fast.path.block < 1024
    plain = ds.ModelGame(owners, Ridge(), X[3::4], y[3::4], scoring="r2", fast=False)
    np.testing.assert_allclose(fast(EVERY[:8, :3]), plain(EVERY[:8, :3]), atol=1e-9)
