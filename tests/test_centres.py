"""Everybody's marginal around a few pools: unbiased, the same wherever it is computed, kept."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.cli.value import is_asked_why
from dushapley.engine import many
from dushapley.engine.plan import choose_plan
from dushapley.estimators.centres import Sizes, drawn_pools
from dushapley.protocol import Ask, Problem


def rows(n_owners: int, *, classes: bool = False, seed: int = 0):
    """Owners of eight columns, one in seven of whom has targets of the wrong sign."""
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=8)
    X = rng.normal(size=(n_owners + 20, 16, 8))
    y = X @ beta + 2 * rng.normal(size=X.shape[:2])
    y[: n_owners // 7] *= -1
    y = (y > 0).astype(int) if classes else y
    owners = ds.Owners.from_arrays({f"owner {j}": (X[j], y[j]) for j in range(n_owners)})
    return owners, X[n_owners:].reshape(-1, 8), y[n_owners:].ravel()


class Evenly:
    """Stands for a generator all of whose numbers are the same."""

    def __init__(self, place: float) -> None:
        self.place = place

    def random(self, count: int) -> np.ndarray:
        return np.full(count, self.place)


def weighted_chances(sizes: Sizes) -> np.ndarray:
    """Chance times weight of each size, added up piece by piece: draws are alike in between."""
    found = np.zeros(sizes.n_players + 1)
    for h, (low, high) in enumerate(pairwise(sizes.edges)):
        inner = sizes.sums[(sizes.sums > low) & (sizes.sums < high)]
        for a, b in pairwise([low, *inner, high]):
            drawn, weights = sizes.draw(Evenly(((a + b) / 2 - low) / (high - low)))
            found[drawn[2 * h]] += weights[2 * h] * (b - a) / (high - low)
    return found / (len(sizes.edges) - 1)


@pytest.mark.parametrize("strata", [0, 1, 5])
@pytest.mark.parametrize("power", [0.0, 1.5, 3.0])
def test_the_mean_over_all_centres_is_the_shapley_value(power, strata):
    table, n, indices = np.random.default_rng(0).normal(size=2**6), 6, np.arange(2**6)
    gains = np.stack([table[indices | 1 << i] - table[indices & ~(1 << i)] for i in range(n)], 1)
    members = ((indices[:, None] >> np.arange(n)) & 1).sum(axis=1)
    share = weighted_chances(Sizes(n, strata, power))
    mean = share[members] / [comb(n, s) for s in members.tolist()] @ gains
    mean += gains[[0, -1]].sum(axis=0) / (n + 1)
    exact = ds.value(ds.TableGame(table), "exact").values
    np.testing.assert_allclose(mean, exact, rtol=0, atol=1e-12)


def test_pools_have_their_sizes_and_small_ones_are_drawn_most():
    rng = np.random.default_rng(1)
    sizes, weights = Sizes(1000, 32, 1.5).draw(rng)
    assert 15 <= (sizes <= 3).sum() <= 21  # of 64
    assert 9 <= (sizes > 60).sum() <= 15
    np.testing.assert_allclose(weights.mean(), 999 / 1001, rtol=0.1)
    pools = drawn_pools(rng, sizes, np.arange(1000))
    assert pools.sum(axis=1).tolist() == sizes.tolist()


def test_every_eight_single_owners_are_of_all_ranks_and_each_is_uniform():
    rng, ones, order = np.random.default_rng(1), np.ones(8, dtype=np.int64), np.arange(80)[::-1]
    drawn = [drawn_pools(rng, ones, order).argmax(axis=1) for _ in range(400)]
    assert all(sorted(first // 10) == list(range(8)) for first in drawn)
    seen = np.bincount(np.stack(drawn)[:, 0], minlength=80)
    assert np.square(seen - 5).sum() / 5 < 118  # chi-square, 79 degrees of freedom


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (Ridge(), {"scoring": "r2", "at_least": "empty"}),
        (LinearRegression(), {"scoring": "neg_mean_squared_error"}),
        (GaussianNB(), {"scoring": "accuracy"}),
    ],
)
def test_marginals_from_sums_are_those_of_the_pools(model, options):
    owners, X, y = rows(30, classes=isinstance(model, GaussianNB))
    game = ds.ModelGame(owners, model, X, y, **options)
    marginals = game.marginals()
    rng = np.random.default_rng(0)
    pools = np.vstack([np.zeros(30), np.eye(30)[4], rng.random((3, 30)) < 0.4, np.ones(30)]) > 0
    everybody = slice(0, 30)
    found = marginals.gains(pools, marginals.states(pools, everybody), everybody)
    for pool, gains in zip(pools, found, strict=True):
        with_, without = (np.tile(pool, (30, 1)) for _ in range(2))
        np.fill_diagonal(with_, True)
        np.fill_diagonal(without, False)
        np.testing.assert_allclose(gains, game(with_) - game(without), atol=1e-9)


def test_a_question_has_no_field_for_one_method():
    assert [part.name for part in fields(Ask)] == ["queries", "so_far", "draws"]
    assert not {"around", "lag"} & {part.name for part in fields(Problem)}


def test_asked_pool_by_pool_it_is_the_same():
    game = ds.SizeGame(np.arange(1, 13), ds.games.rational(20.0))
    plain = ds.CallableGame(game.__call__, 12)
    here, there = (ds.value(g, "centres", budget=20 * 13 + 2) for g in (game, plain))
    np.testing.assert_allclose(here.values, there.values, rtol=1e-12)
    assert here.n_evaluations == there.n_evaluations == 20 * 13 + 2
    assert here.details["marginals"]["updates"] == 20 * 12


def test_values_come_near_and_intervals_hold():
    sizes = np.random.default_rng(3).integers(5, 100, 300)
    game = ds.SizeGame(sizes, ds.games.rational(1000.0))
    exact = ds.value(game, "exact").values
    runs = [ds.value(game, "centres", budget=34 * 301 + 2, seed=seed) for seed in range(40)]
    errors = np.array([run.values - exact for run in runs])
    assert np.mean(errors**2) / exact.var() < 0.01
    covered = np.mean(np.abs(errors) <= 1.96 * np.array([run.std_errors for run in runs]))
    assert 0.9 <= covered <= 0.99  # 40 correlated runs; benchmarks/centres.py has the figures
    assert abs(runs[0].efficiency_gap) < 1e-12


def test_a_run_that_was_killed_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    owners, X, y = rows(40)
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2", at_least="empty")
    monkeypatch.setattr("dushapley.games.many.marginals.Marginals.block", 16)
    whole = ds.value(game, "centres", budget=34 * 41 + 2)
    computed, calls = many.BlocksGame.evaluate, []

    def dying(self, *task):
        calls.append(task)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return computed(self, *task)

    monkeypatch.setattr(many.BlocksGame, "evaluate", dying)
    with pytest.raises(ds.errors.Stopped):
        ds.value(game, "centres", budget=34 * 41 + 2, ledger=tmp_path / "paid.sqlite")
    before = len(calls)
    again = ds.value(game, "centres", budget=34 * 41 + 2, ledger=tmp_path / "paid.sqlite")
    assert again.values.tobytes() == whole.values.tobytes()
    assert again.std_errors.tobytes() == whole.std_errors.tobytes()
    assert before == 12
    assert len(calls) - before < 18  # three rounds of three blocks, twice, less what was kept


def test_owners_who_change_places_are_not_taken_for_each_other(tmp_path):
    owners, X, y = rows(40)
    names = list(owners.names)
    turned = ds.Owners.from_arrays(
        {name: (owners.X[j], owners.y[j]) for j, name in enumerate(reversed(names))}
    )
    first, second = (ds.ModelGame(o, Ridge(), X, y, scoring="r2") for o in (owners, turned))
    assert first.fingerprint == second.fingerprint
    told = {"budget": 20 * 41 + 2, "ledger": tmp_path / "paid.sqlite"}
    ds.value(first, "centres", **told)
    found = ds.value(second, "centres", **told)
    afresh = ds.value(second, "centres", budget=20 * 41 + 2)
    assert found.values.tobytes() == afresh.values.tobytes()


def test_workers_change_no_bit():
    owners, X, y = rows(40)
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2", at_least="empty")
    here, there = (ds.value(game, "centres", budget=20 * 41 + 2, n_jobs=n) for n in (1, 2))
    assert here.values.tobytes() == there.values.tobytes()


def test_a_budget_too_small_is_refused_with_the_least():
    with pytest.raises(ds.errors.BudgetTooSmall, match="at least 35"):
        ds.value(ds.SizeGame(np.ones(10), np.sqrt), "centres", budget=34)


def neighbours(n_owners: int, n_rows: int, points: int = 20):
    rng = np.random.default_rng([n_owners, n_rows])
    X = rng.normal(size=(n_owners, n_rows, 2))
    y = (X.sum(axis=2) + rng.normal(size=X.shape[:2]) > 0).astype(int)
    owners = ds.Owners.from_arrays({f"o{j}": (X[j], y[j]) for j in range(n_owners)})
    T = rng.normal(size=(points, 2))
    return ds.KNNGame(owners, T, (T.sum(axis=1) > 0).astype(int), k=4)


@pytest.mark.parametrize("n_rows", [1, 3, 7])
def test_marginals_of_neighbours_are_those_of_the_pools(n_rows):
    game = neighbours(20, n_rows)
    marginals, everybody = game.marginals(), slice(0, 20)
    rng = np.random.default_rng(0)
    pools = np.vstack([np.zeros(20), np.eye(20)[3], rng.random((4, 20)) < 0.3, np.ones(20)]) > 0
    found = marginals.gains(pools, marginals.states(pools, everybody), everybody)
    for pool, gains in zip(pools, found, strict=True):
        with_, without = (np.tile(pool, (20, 1)) for _ in range(2))
        np.fill_diagonal(with_, True)
        np.fill_diagonal(without, False)
        np.testing.assert_allclose(gains, game(with_) - game(without), atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 3, 7])
def test_values_of_neighbours_are_those_of_all_pools(n_rows):
    game = neighbours(12, n_rows)
    pools = ds.value(game, "exact", options={"by": "enumeration"}, budget=2**12).values
    np.testing.assert_allclose(ds.value(game, "exact").values, pools, atol=1e-14)


def test_streamed_owners_are_valued_as_owners_in_memory(tmp_path, monkeypatch):
    import pandas as pd

    owners, X, y = rows(50)
    table = pd.DataFrame(np.concatenate(owners.X), columns=[f"x{k}" for k in range(8)])
    table.insert(0, "who", np.repeat([f"owner {j}" for j in range(50)], 16))
    table["y"] = np.concatenate(owners.y)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    monkeypatch.setattr("dushapley.games.many.marginals.Marginals.block", 16)
    told = {"scoring": "r2", "at_least": "empty"}
    game = ds.StreamedGame(tmp_path, Ridge(), X, y, owner="who", target="y", **told)
    streamed = ds.value(game, "centres", budget=20 * 51 + 2)
    in_memory = ds.value(ds.ModelGame(owners, Ridge(), X, y, **told), "centres", budget=20 * 51 + 2)
    assert streamed.owners == in_memory.owners
    np.testing.assert_allclose(streamed.values, in_memory.values, rtol=1e-9, atol=1e-12)
    again = ds.value(game, "centres", budget=20 * 51 + 2, n_jobs=2)
    assert again.values.tobytes() == streamed.values.tobytes()
    with pytest.raises(ds.errors.MethodNotApplicable, match=r"given sums .* whole owners: exact"):
        ds.value(game, "du")
    with pytest.raises(ds.errors.InvalidChange, match=r"given sums .* \(Leave, Merge\)"):
        ds.what_if(game, ds.MoreRows(game.names[0], 5))


def test_files_that_cannot_be_streamed_are_refused(tmp_path):
    import pandas as pd

    file = tmp_path / "rows.parquet"
    pd.DataFrame({"who": [1, 2], "x": ["a", "b"], "y": [1.0, 2.0]}).to_parquet(file)
    told = {"owner": "who", "target": "y"}
    with pytest.raises(ds.errors.InvalidOwners, match="sums need numbers"):
        ds.StreamedGame(file, Ridge(), [[1.0]], [1.0], **told)
    with pytest.raises(ds.errors.InvalidOwners, match="lacks the column 'z'"):
        ds.StreamedGame(file, Ridge(), [[1.0]], [1.0], owner="who", target="z")
    with pytest.raises(ds.errors.InvalidOwners, match="no Parquet file"):
        ds.StreamedGame(tmp_path / "none.parquet", Ridge(), [[1.0]], [1.0], **told)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy", "neg_brier_score"])
@pytest.mark.parametrize("scaled", [False, True])
def test_newton_steps_and_refits_are_the_pools_models(scoring, scaled):
    model = LogisticRegression(tol=1e-10, max_iter=5000)
    game = logistic_game(make_pipeline(StandardScaler(), model) if scaled else model, scoring)
    marginals, some = game.marginals(), slice(0, 5)
    rng = np.random.default_rng(0)
    large = rng.permutation(80) < 70
    pools = np.vstack([np.zeros(80), np.eye(80)[2], rng.random(80) < 0.1, large]) > 0
    found = marginals.gains(pools, marginals.states(pools, slice(0, 80)), some)
    for pool, gains in zip(pools, found, strict=True):
        with_, without = (np.tile(pool, (5, 1)) for _ in range(2))
        np.fill_diagonal(with_, True)
        np.fill_diagonal(without, False)
        exact = game(with_) - game(without)
        tolerance = 0.02 * np.abs(exact).max() if pool.sum() > 60 else 1e-6
        np.testing.assert_allclose(gains[:5], exact, rtol=0, atol=max(tolerance, 1e-6))


def logistic_game(model, scoring="neg_log_loss", n_owners=80):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_owners + 30, 10, 4)) * [1, 3, 0.5, 1]
    y = (X @ [1, 0.4, -1, 0.5] + rng.logistic(size=X.shape[:2]) > 0).astype(int)
    owners = ds.Owners.from_arrays({f"o{j}": (X[j], y[j]) for j in range(n_owners)})
    return ds.ModelGame(
        owners, model, X[n_owners:].reshape(-1, 4), y[n_owners:].ravel(), scoring=scoring
    )


def test_trainings_and_steps_are_counted_apart_and_kept(tmp_path):
    game, budget = logistic_game(LogisticRegression()), 20 * 81 + 2
    v = ds.value(game, "centres", budget=budget, ledger=tmp_path / "paid.sqlite")
    work = v.details["marginals"]
    large = work["centres of more than 60 owners"]
    assert work["centres"] == 20
    assert work["updates"] == 80 * large > 0
    assert work["trainings on more than 60 owners"] == 4 * large  # each pool's, and three checks
    assert work["trainings around up to 60 owners"] == (20 - large) * 81
    assert work["relative squared error of checked steps"] < 0.02
    assert abs(v.efficiency_gap) < 1e-9
    again = ds.value(game, "centres", budget=budget, ledger=tmp_path / "paid.sqlite")
    assert again.values.tobytes() == v.values.tobytes()
    assert again.details["marginals"] == work


def test_a_model_with_a_number_of_steps_is_no_pipeline():
    game = logistic_game(ds.games.SoftmaxRegression(steps=5), n_owners=24)
    slow = ds.ModelGame(
        game.owners, game.model, game.X_test, game.y_test, scoring="neg_log_loss", fast=False
    )
    fast, fitted = (ds.value(g, "centres", budget=22 * 25 + 2).values for g in (game, slow))
    np.testing.assert_allclose(fast, fitted, rtol=0, atol=1e-8)


def test_steps_that_are_off_are_replaced_by_trainings(monkeypatch):
    game = logistic_game(LogisticRegression())
    monkeypatch.setattr("dushapley.games.many.newton.TOLERANCE", 0.0)
    work = ds.value(game, "centres", budget=20 * 81 + 2).details["marginals"]
    assert work["centres where steps were off"] == work["centres of more than 60 owners"]
    assert work["updates"] == 0


def test_auto_takes_it_for_many_owners_whose_marginals_are_cheap():
    owners, X, y = rows(200)
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2", at_least="empty")
    plan = choose_plan(game, "auto", None, None)
    assert (plan.label, plan.budget) == ("auto → centres", 66 * 201 + 2)
    assert "200 owners" in plan.reason
    assert choose_plan(game, "auto", None, 500).label == "auto → gp"  # too little for intervals
    few = ds.ModelGame(rows(30)[0], Ridge(), X, y, scoring="r2", at_least="empty")
    assert choose_plan(few, "auto", None, 500).label == "auto → gp"


def test_payments_of_many_owners_are_a_parquet_file():
    from io import BytesIO

    import pandas as pd

    from dushapley.report.payments import payments_frame, payments_parquet

    game = ds.SizeGame(np.arange(1, 301), ds.games.rational(5000.0))
    settled = ds.settle(ds.value(game, "centres"), 1_000_000, currency="EUR")
    found, given = pd.read_parquet(BytesIO(payments_parquet(settled))), payments_frame(settled)
    assert found["owner"].tolist() == given["owner"].tolist()
    assert found["payment"].tolist() == given["payment"].tolist()
    assert float(found["payment"].sum()) == 1_000_000


def test_the_page_of_thousands_has_both_ends_and_a_search_but_no_thousand_rows():
    names = [f"<b>owner {j}</b>" for j in range(3000)]
    game = ds.SizeGame(np.arange(1, 3001), ds.games.rational(5000.0), names=names)
    page = ds.report.report(ds.value(game, "centres", budget=34 * 3001 + 2))
    assert page.count("<tr>") < 60
    assert "<b>owner" not in page  # names are text
    assert page.count("\\u003cb>owner 1234\\u003c/b>") == 1  # in what is searched
    assert 'type="search"' in page
    assert "Download all as CSV" in page


def test_reasons_are_not_measured_of_thousands(capsys):
    assert is_asked_why(True, 1000)
    assert not is_asked_why(False, 10)
    assert not is_asked_why(True, 1001)
    assert "more than 1,000 owners" in capsys.readouterr().err


def test_the_page_of_thousands_says_that_the_test_set_is_not_in_its_errors(monkeypatch):
    monkeypatch.setattr("dushapley.report.page.MOST_ROWS", 60)
    owners, X, y = rows(70)
    game = ds.ModelGame(owners, Ridge(), X, y, scoring="r2", at_least="empty")
    page = ds.report.report(ds.value(game, "centres"))
    assert "± unknown (sampling alone " in page
    assert "told of sampling alone: the error of the test set is unknown" in page
    assert page.count("±") > 40


def test_games_say_which_sizes_centres_have_unless_the_user_does():
    owners, X, y = rows(70, classes=True)
    neighbours, model = ds.KNNGame(owners, X, y), ds.ModelGame(owners, GaussianNB(), X, y)
    assert ds.value(neighbours, "centres").options["power"] == 1
    assert ds.value(model, "centres").options["power"] == 1.5
    assert ds.value(model, "centres", options={"power": 2}).options["power"] == 2
