"""Games and scores behind the tables, against plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest

import dushapley as ds
from dushapley.estimators.exact import coalitions
from dushapley.games.model.batched.recipe import Recipe
from dushapley.guarantees.uniformity import distance_to_uniform
from dushapley_paper.accuracy import PAPERS, advantage, auto_errors, du_errors, outcome
from dushapley_paper.boosting import BoostedTreesGame, Boosting, codes_of, quantile_edges
from dushapley_paper.cases import Utilities
from dushapley_paper.classifiers import ClassifierGame, ManyOwnersGame
from dushapley_paper.data import Table
from dushapley_paper.neighbours import knn_point_sums
from dushapley_paper.older_table import PUBLISHED as OLDER
from dushapley_paper.splits import draw_sizes, split
from dushapley_paper.table_1_page import PUBLISHED
from dushapley_paper.table_1_readings import AS_CHOSEN, readings_sheet
from dushapley_paper.table_2 import Play, Setting, columns, deal, f1, lower_cluster, plays
from dushapley_paper.table_2_page import PUBLISHED as TASKS
from dushapley_paper.table_2_page import against, published_not_worse
from extras import needs


def regression_table(rows: int = 90, columns: int = 3) -> Table:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, columns))
    return Table("toy", X, X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=rows), "regression")


def classes_table(rows: int = 90) -> Table:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, 4))
    return Table("toy", X, (X[:, 0] + X[:, 1] > 0).astype(np.int64), "classification")


class PlainTrees:
    """Boosted trees of one pool, by loops and in float64."""

    def __init__(self, codes: np.ndarray, y: np.ndarray, boosting: Boosting) -> None:
        self.codes, self.y, self.how = codes, y, boosting

    def predict(self, test: np.ndarray) -> np.ndarray:
        found = np.full(len(test), self.y.mean())
        missed = self.y - self.y.mean()
        for _ in range(self.how.rounds):
            leaf, test_leaf = (np.zeros(len(c), dtype=int) for c in (self.codes, test))
            for _ in range(self.how.depth):
                before, before_test = leaf.copy(), test_leaf.copy()
                for k in np.unique(before):
                    feature, last = self.best(before == k, missed)
                    leaf[before == k] = 2 * k + (self.codes[before == k, feature] > last)
                    test_leaf[before_test == k] = 2 * k + (test[before_test == k, feature] > last)
                for k in set(np.unique(before_test)) - set(np.unique(before)):
                    test_leaf[before_test == k] = 2 * k
            for k in np.unique(leaf):
                step = self.how.rate * missed[leaf == k].mean()
                missed = missed - step * (leaf == k)
                found[test_leaf == k] += step
        return found

    def best(self, inside: np.ndarray, missed: np.ndarray) -> tuple[int, int]:
        top, chosen = 0.0, (0, self.how.bins)
        for feature in range(self.codes.shape[1]):
            for last in range(self.how.bins - 1):
                left = inside & (self.codes[:, feature] <= last)
                right = inside & ~left
                if min(left.sum(), right.sum()) >= self.how.least:
                    gain = missed[left].sum() ** 2 / left.sum()
                    gain += missed[right].sum() ** 2 / right.sum()
                    if gain > top * (1 + 1e-5):
                        top, chosen = gain, (feature, last)
        return chosen


def test_trees_for_many_pools_equal_trees_grown_one_by_one() -> None:
    rows = split(regression_table(), 3, "iid", seed=0)
    boosting = Boosting(rounds=4, rate=0.3, depth=2, bins=6, least=3)
    game = BoostedTreesGame(rows.owners(), rows.X_test, rows.y_test, boosting, block=8)
    pools = np.concatenate(list(coalitions(3)))
    edges = quantile_edges(rows.X, boosting.bins)
    owner = np.repeat(np.arange(3), rows.sizes)
    for pool, found in zip(pools[1:], game(pools)[1:], strict=True):
        held = pool[owner].astype(bool)
        plain = PlainTrees(codes_of(rows.X[held], edges), rows.y[held], boosting)
        missed = plain.predict(codes_of(rows.X_test, edges)) - rows.y_test
        assert found == pytest.approx(-np.mean(missed**2), rel=1e-4)


def test_trees_agree_in_either_arithmetic() -> None:
    needs("torch")
    rows = split(regression_table(300, 5), 5, "iid", seed=0)
    first, second = (
        BoostedTreesGame(rows.owners(), rows.X_test, rows.y_test, device=device, block=32)
        for device in (None, "cpu")
    )
    pools = np.concatenate(list(coalitions(5)))
    assert first(pools) == pytest.approx(second(pools), abs=1e-5)
    values = [ds.value(game, "du", seed=1, progress=False).values for game in (first, second)]
    assert values[0] == pytest.approx(values[1], abs=1e-5)


def test_whole_pools_train_alike_in_both_classifier_games() -> None:
    rows = split(classes_table(), 6, "iid", seed=0)
    recipe = Recipe(hidden=4, steps=5, learning_rate=0.05, optimizer="adam", batch_size=8)
    pools = np.concatenate(list(coalitions(6)))[1:]
    given = (rows.owners(), rows.X_test, rows.y_test, recipe)
    assert ManyOwnersGame(*given)(pools).tolist() == ClassifierGame(*given)(pools).tolist()


def test_pools_of_many_owners_hold_the_counts_they_should() -> None:
    rows = split(classes_table(), 6, "iid", seed=0)
    recipe = Recipe(hidden=4, steps=2, learning_rate=0.05, optimizer="adam", batch_size=8)
    game = ManyOwnersGame(rows.owners(), rows.X_test, rows.y_test, recipe)
    counts = np.minimum(np.array([0, 2, 3, 1, 4, 2]), game.sizes.astype(int))
    held = game.held(counts, 7)
    assert np.bincount(game.owner_of[held], minlength=6).tolist() == counts.tolist()
    assert held.tolist() == game.held(counts, 7).tolist()
    more = counts.copy()
    more[0] = int(game.sizes[0])
    assert set(held) <= set(game.held(more, 7)), "pools of one draw share the others' rows"


def test_point_values_of_neighbours_by_enumeration() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2)), rng.integers(0, 2, 6)
    X_test, y_test, k = rng.normal(size=(3, 2)), rng.integers(0, 2, 3), 2

    def worth(rows: tuple[int, ...]) -> float:
        near = [sorted(rows, key=lambda r: np.sum((X[r] - x) ** 2))[:k] for x in X_test]
        return float(
            np.mean([sum(y[r] == t for r in n) / k for n, t in zip(near, y_test, strict=True)])
        )

    points = np.zeros(6)
    for i in range(6):
        others = [j for j in range(6) if j != i]
        for size in range(6):
            for some in combinations(others, size):
                points[i] += (worth((*some, i)) - worth(some)) / (6 * comb(5, size))
    owners = ds.Owners.from_arrays(
        {"a": (X[:2], y[:2]), "b": (X[2:3], y[2:3]), "c": (X[3:], y[3:])}
    )
    expected = [points[:2].sum(), points[2], points[3:].sum()]
    assert knn_point_sums(owners, X_test, y_test, k) == pytest.approx(expected)


@pytest.mark.parametrize("how", ["uniform", "dirichlet", "equal"])
def test_sizes_add_up_and_nobody_has_nothing(how: str) -> None:
    for seed in range(20):
        sizes = draw_sizes(np.random.default_rng(seed), 20, 57, how)
        assert sizes.sum() == 57
        assert sizes.min() >= 1


def test_spoiled_labels_are_the_bad_owners_alone() -> None:
    clean, spoiled = (split(classes_table(400), 10, s, seed=0) for s in ("iid", "mislabelled"))
    owner = np.repeat(np.arange(10), spoiled.sizes)
    wrong = np.bincount(owner, clean.y != spoiled.y, minlength=10) / spoiled.sizes
    assert len(spoiled.bad) == 3
    assert wrong[spoiled.bad] == pytest.approx(0.5, abs=0.1)
    assert not np.delete(wrong, spoiled.bad).any()


def test_shifted_owners_differ() -> None:
    table = classes_table(2000)
    spread = {}
    for scenario in ("iid", "shifted"):
        rows = split(table, 10, scenario, seed=0)
        owner = np.repeat(np.arange(10), rows.sizes)
        spread[scenario] = np.var([rows.X[owner == i, 0].mean() for i in range(10)])
    assert spread["shifted"] > 5 * spread["iid"]


def test_scores_of_the_tasks() -> None:
    assert f1(np.array([0, 1]), np.array([1, 2])) == 0.5
    assert lower_cluster(np.array([5.0, 0.1, 5.2, 0.0])).tolist() == [3, 1]


def test_noise_is_spread_over_rows_or_sits_with_owners() -> None:
    table = classes_table(600)
    small = Setting(owners=20, train=300, valid=50, test=50, noisy=0.1, wrong=0.3)
    rows = deal(table, replace(small, spread=True), seed=0)
    assert (len(rows.wrong), len(rows.bad)) == (30, 0)
    owner = np.repeat(np.arange(20), rows.sizes)
    assert len(np.unique(owner[rows.wrong])) > 10
    np.testing.assert_array_equal(rows.held_by(np.array([3])), np.flatnonzero(owner == 3))
    some = deal(table, small, seed=0)
    assert len(some.bad) == 2
    assert set(np.repeat(np.arange(20), some.sizes)[some.wrong]) == set(some.bad)


def test_a_repetition_counts_when_all_its_games_are_played() -> None:
    """Time may be up in the middle of one."""
    parts = {"tasks": ("DR 5%", "DR 15%", "DA 5%", "DA 15%"), "rows 5%": ("NLD 5%",)}
    parts["rows 15%"] = ("NLD 15%",)
    found = {
        Play("BBC", kind, r): ("here", {"DU-Shapley": dict.fromkeys(scores, 0.1 * r)})
        for kind, scores in parts.items()
        for r in range(3)
        if (kind, r) != ("rows 15%", 2)
    }
    assert columns(found, "BBC")["DU-Shapley"]["DA 5%"]["all"] == [0.0, 0.1]
    assert columns(found, "IMDB") == {}
    assert len(plays("full")) == len(set(plays("full"))) > 20 * 3 * 5


def test_readings_of_the_printed_errors_stand_beside_them() -> None:
    sheet = readings_sheet([{"data": "adult", "rows": 9, AS_CHOSEN: [1e-3, 2e-2]}])
    assert sheet.rows[0] == ("adult", "9", "0.002 / 0.01", "0.001 / 0.02", "–", "–", "–", "–")


def test_uneven_owners_are_alike_and_of_very_unequal_size() -> None:
    spread = {s: split(classes_table(2000), 10, s, seed=0).sizes for s in ("iid", "uneven")}
    assert spread["uneven"].sum() == spread["iid"].sum()
    assert spread["uneven"].max() / spread["uneven"].min() > 20


def test_columns_are_compared_repetition_by_repetition() -> None:
    du, rival = [0.50, 0.60, 0.70], [0.40, 0.51, 0.60]
    scores = {
        "DU-Shapley": {"NLD 5%": {"all": du}, "DR 5%": {"all": du}},
        "DataShapley": {"NLD 5%": {"all": rival}, "DR 5%": {"all": rival}},
        "Random": {"NLD 5%": {"all": [0.1, 0.9, 0.5]}},
    }
    assert against(scores, "DataShapley", "NLD 5%") == "won"  # higher is better
    assert against(scores, "DataShapley", "DR 5%") == "lost"  # lower is better
    assert against(scores, "Random", "NLD 5%") == "level"
    assert published_not_worse(("DataShapley", "KNN-Shapley", "LOO", "Random")) == 13


def test_distance_to_the_uniform_law() -> None:
    assert distance_to_uniform((np.arange(1000) + 0.5) / 1000) == pytest.approx(0.0005)
    assert distance_to_uniform(np.zeros(10)) == 1.0


def test_published_numbers_are_complete() -> None:
    assert PUBLISHED.keys() == OLDER.keys()
    for name in PUBLISHED:
        for owners in ("10", "20"):
            printed = PUBLISHED[name][owners]
            assert printed["DU-Shapley"] < min(printed["MC-Shapley"], printed["MC-anti-Shapley"])
            assert len(OLDER[name][owners]) == 4
    assert all(len(row) == 6 for table in TASKS.values() for row in table.values())


def test_errors_are_compared_with_the_better_rival_and_their_noise() -> None:
    errors = {
        "DU-Shapley": {"mse": 2.0, "se": 0.5, "seeds": 10},
        "MC-Shapley": {"mse": 8.0, "se": 0.5, "seeds": 100},
        "MC-anti-Shapley": {"mse": 6.0, "se": 0.5, "seeds": 100},
    }
    assert advantage(errors, "DU-Shapley", PAPERS) == 3.0
    assert outcome(errors, "DU-Shapley", PAPERS) == "won"
    errors["MC-anti-Shapley"]["mse"] = 2.5
    assert outcome(errors, "DU-Shapley", PAPERS) == "level"
    errors["MC-Shapley"]["mse"] = 0.1
    assert outcome(errors, "DU-Shapley", PAPERS) == "lost"


def test_bias_and_noise_of_du_add_up_and_are_unbiased() -> None:
    rng = np.random.default_rng(0)
    exact, bias, noise = np.arange(5.0), 0.3, 0.2
    found = []
    for _ in range(400):
        runs = exact + bias + rng.normal(0, noise, (4, 5))
        parts = du_errors(runs, exact)
        found.append((parts["DU bias"], parts["DU noise"]))
        assert parts["DU-Shapley"]["mse"] == pytest.approx(sum(found[-1]))
    means, se = np.mean(found, axis=0), np.std(found, axis=0) / 20
    assert np.all(np.abs(means - [bias**2, noise**2]) < 4 * se)


def test_auto_and_strata_do_not_see_the_value_of_nothing() -> None:
    rng = np.random.default_rng(1)
    sizes = np.arange(10, 17)
    rows = np.array([z @ sizes for z in np.concatenate(list(coalitions(7)))])
    u = np.tanh(rows / 40) + rng.normal(0, 0.01, 128)
    low, high = (Utilities(np.r_[first, u[1:]], sizes, np.zeros((1, 7)), "") for first in (0, 0.5))
    for method in ("auto", "stratified-svarm"):
        values = [
            ds.value(t.game("constant"), method, budget=86, seed=0, progress=False).values
            for t in (low, high)
        ]
        assert values[0] - values[1] == pytest.approx(0.5 / 7, abs=1e-9), method
    assert auto_errors(high, 1) == auto_errors(low, 1)
