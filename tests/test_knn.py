"""Owner-level KNN-Shapley against brute force."""

from __future__ import annotations

import numpy as np
import pytest

import dushapley as ds
from dushapley.games.knn import knn_values
from dushapley.games.rows import RowsGame


def random_game(seed: int, k: int, *, ties: bool = False) -> ds.KNNGame:
    rng = np.random.default_rng(seed)
    blocks = {}
    for i, size in enumerate(rng.integers(1, 9, rng.integers(1, 7))):
        X = rng.integers(0, 3, (size, 2)) if ties else rng.normal(size=(size, 2))
        blocks[f"owner {i}"] = (X, rng.integers(0, 3, size))
    X_test = rng.integers(0, 3, (4, 2)) if ties else rng.normal(size=(4, 2))
    return ds.KNNGame(ds.Owners.from_arrays(blocks), X_test, rng.integers(0, 3, 4), k=k)


def by_enumeration(game: ds.KNNGame) -> np.ndarray:
    options = {"by": "enumeration"}
    return ds.value(game, "exact", options=options, budget=2**game.n_players).values


def slow_utility(game: ds.KNNGame, X: np.ndarray, y: np.ndarray) -> float:
    """The definition, row by row."""
    total = 0.0
    for point, label in zip(game.X_test, game.y_test, strict=True):
        distance = ((X - point) ** 2).sum(axis=1)
        nearest = np.argsort(distance, kind="stable")[: game.k]
        total += (y[nearest] == label).sum() / game.k
    return total / len(game.X_test)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_formula_equals_brute_force(k, ties):
    for seed in range(8):
        game = random_game(seed, k, ties=ties)
        assert np.allclose(ds.value(game, "knn").values, by_enumeration(game), atol=1e-12)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_utility_is_the_definition(k):
    game = random_game(3, k)
    masks = np.random.default_rng(0).random((10, game.n_players)) < 0.5
    for mask, found in zip(masks, game(masks), strict=True):
        X, y = game.pool(np.where(mask, game.sizes, 0).astype(int), None)
        assert np.isclose(found, slow_utility(game, X, y))


def test_drawn_rows_are_the_pool_s():
    game = random_game(5, 2)
    half = np.full((1, game.n_players), 0.5)
    X, y = game.pool(game.counts(half)[0], 9)
    assert np.isclose(game(half, draws=[9])[0], slow_utility(game, X, y))


def test_values_follow_owners_not_their_order():
    game = random_game(4, 3, ties=True)
    turned = list(reversed(range(game.n_players)))
    owners = ds.Owners.from_arrays(
        {game.names[j]: (game.owners.X[j], game.owners.y[j]) for j in turned}
    )
    other = ds.KNNGame(owners, game.X_test, game.y_test, k=3)
    assert np.allclose(ds.value(game, "knn").values[turned], ds.value(other, "knn").values)


def test_nothing_is_asked_and_values_add_up():
    found = ds.value(random_game(2, 3), "knn")
    assert found.n_evaluations == 0
    assert found.std_errors is None
    assert np.isclose(found.efficiency_gap, 0, atol=1e-12)


def test_large_counts_stay_exact():
    """With 60 owners, subsets are counted in billions; values still add up."""
    rng = np.random.default_rng(0)
    blocks = {str(i): (rng.normal(size=(3, 2)), rng.integers(0, 2, 3)) for i in range(60)}
    game = ds.KNNGame(ds.Owners.from_arrays(blocks), rng.normal(size=(5, 2)), [0, 1, 0, 1, 1], k=10)
    assert abs(ds.value(game, "knn").efficiency_gap) < 1e-10


class WithTestSet(RowsGame):
    """A game with rows and a test set, as trained models are."""

    def __init__(self, owners, X_test, y_test):
        super().__init__(owners)
        self.X_test, self.y_test = np.asarray(X_test), np.asarray(y_test)

    def evaluate(self, queries, draws):
        return queries.sum(axis=1).astype(float)


def test_any_game_with_rows_and_a_test_set_offers_knn():
    inner = random_game(6, 5)
    found = ds.value(WithTestSet(inner.owners, inner.X_test, inner.y_test), "knn")
    assert np.array_equal(found.values, knn_values(inner.owners, inner.X_test, inner.y_test, 5))
    assert "another model's values" in found.notes[0]
    assert found.biased


def test_rows_without_a_test_set_are_refused():
    game = ds.DatasetGame(random_game(6, 5).owners, lambda X, y: float(len(X)))
    with pytest.raises(ds.DUShapleyError, match="KNNGame"):
        ds.value(game, "knn")


def owners_of(X, y):
    return ds.Owners.from_arrays({"a": (np.asarray(X), np.asarray(y))})


@pytest.mark.parametrize(
    ("X", "y", "X_test", "y_test", "k", "says"),
    [
        ([["red"]], [0], [["red"]], [0], 1, "Encode"),
        ([[1.0]], [0.5], [[1.0]], [0.5], 1, "regression"),
        ([[1.0]], [0], [[1.0, 2.0]], [0], 1, "columns"),
        ([[1.0]], [0], [[1.0]], [0, 1], 1, "label per row"),
        ([[1.0]], [0], [[1.0]], [0], 0, "whole number of at least 1"),
    ],
)
def test_mistakes_are_taught(X, y, X_test, y_test, k, says):
    with pytest.raises(ds.DUShapleyError, match=says):
        ds.KNNGame(owners_of(X, y), X_test, y_test, k=k)


def test_summing_points_is_another_game():
    """Each row its own owner, then added up by owner: same total, other values."""
    game = random_game(7, 3)
    rows = {
        f"{j} {r}": (game.owners.X[j][r : r + 1], game.owners.y[j][r : r + 1])
        for j in range(game.n_players)
        for r in range(int(game.sizes[j]))
    }
    points = knn_values(ds.Owners.from_arrays(rows), game.X_test, game.y_test, 3)
    summed = np.add.reduceat(points, np.cumsum([0, *game.sizes[:-1].astype(int)]))
    owners = ds.value(game, "knn").values
    assert np.isclose(summed.sum(), owners.sum())
    assert np.abs(summed - owners).max() > 1e-3
