"""Models trained from sums against the same models trained on rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.data.summaries import Statistics
from dushapley.errors import InvalidGame, InvalidOwners, LedgerRefused
from dushapley.games import Regressogram
from dushapley.games.model.additive.model import ELIMINATE_UP_TO, least_norm, solve

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
    (LinearDiscriminantAnalysis(solver="lsqr"), "balanced_accuracy"),
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
    assert fast.fractions == "exact"
    wanted = plain.outcomes(EVERY, None)
    fitted = np.array([o.failure is None for o in wanted])  # as many rows as classes: no LDA
    assert fitted.sum() >= 60
    truth = np.array([o.value for o in wanted])
    np.testing.assert_allclose(fast(EVERY)[fitted], truth[fitted], rtol=1e-8, atol=1e-8)


def test_fractions_are_weights():
    owners, X, y = regression()
    shares = np.random.default_rng(1).random(6)
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="neg_mean_squared_error")
    weights = np.repeat(shares, owners.sizes.astype(int))
    model = Ridge().fit(np.concatenate(owners.X), np.concatenate(owners.y), sample_weight=weights)
    mse = np.mean((model.predict(X) - y) ** 2)
    assert game(shares[None])[0] == pytest.approx(-mse, rel=1e-10)


def test_du_needs_no_draws():
    owners, X, y = regression()
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="neg_mean_squared_error")
    first, second = (ds.value(game, "du", seed=s).values for s in (1, 2))
    np.testing.assert_array_equal(first, second)


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
    with pytest.raises(LedgerRefused, match="costs nothing"):
        ds.value(game, "exact", ledger=tmp_path / "l.sqlite")


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
    for solver in (solve, least_norm):
        found = solver(systems, right)
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
