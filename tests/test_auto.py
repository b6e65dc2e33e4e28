"""`auto` decides by cost and size, and says why; pools worse than nobody's are told of."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dushapley as ds


def counted(n: int, *, cheap: bool = False) -> ds.CallableGame:
    return ds.CallableGame(lambda z: np.sqrt(z @ np.arange(1.0, n + 1)), n, cheap=cheap)


def test_free_games_of_twenty_owners_are_enumerated() -> None:
    free = ds.value(counted(12, cheap=True))
    assert (free.method, free.n_evaluations) == ("auto → exact", 2**12)
    assert "free" in free.notes[0]
    assert ds.value(counted(12)).method == "auto → gp"
    assert ds.value(counted(12, cheap=True), budget=72).n_evaluations == 72
    from dushapley.engine.plan import choose_plan

    assert choose_plan(counted(20, cheap=True), "auto", None, None).budget == 2**20
    assert choose_plan(counted(21, cheap=True), "auto", None, None).method.name == "gp"


def test_a_default_budget_stretches_by_a_tenth_and_a_given_one_never() -> None:
    every = ds.value(counted(5))
    assert (every.method, every.n_evaluations) == ("auto → exact", 32)
    assert "hardly more than the budget of 30" in every.notes[0]
    given = ds.value(counted(5), budget=30)
    assert (given.method, given.n_evaluations) == ("auto → gp", 30)
    assert ds.value(counted(5), budget=32).method == "auto → exact"


def wild_owners(seed: int = 0) -> tuple[ds.Owners, np.ndarray, np.ndarray]:
    """Owners of a few rows in many columns: regressions on one or two of them are far off."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 8))
    y = X @ rng.normal(size=8) + 0.5 * rng.normal(size=400)
    blocks = {f"site {j}": (X[8 * j : 8 * j + 8], y[8 * j : 8 * j + 8]) for j in range(6)}
    blocks["site 0"] = (blocks["site 0"][0], 30 * blocks["site 0"][1][::-1])
    return ds.Owners.from_arrays(blocks), X[200:], y[200:]


def wild_game(**options: object) -> ds.ModelGame:
    owners, X, y = wild_owners()
    return ds.ModelGame(owners, Ridge(alpha=1e-6), X, y, scoring="r2", **options)


@pytest.mark.parametrize("fast", [True, False])
def test_pools_worse_than_nobodys_count_as_nobodys(fast: bool) -> None:
    plain, lifted = wild_game(fast=fast), wild_game(fast=fast, at_least="empty")
    pools = np.random.default_rng(0).random((30, 6)) < 0.4
    assert plain(pools).min() < plain.nobody.value
    np.testing.assert_allclose(lifted(pools), np.maximum(plain(pools), plain.nobody.value))
    values = lifted.evaluate(pools, None).values
    np.testing.assert_allclose(values, lifted(pools), atol=1e-9)
    assert lifted.context != plain.context


def test_scores_by_test_row_follow() -> None:
    lifted = wild_game(at_least="empty")
    pools = np.eye(6, dtype=bool)
    answers = lifted.evaluate(pools, None)
    assert answers.scores is not None
    np.testing.assert_allclose(answers.values, lifted(pools))
    np.testing.assert_allclose(answers.scores.matrix().mean(axis=1), lifted(pools), atol=1e-6)


@pytest.mark.parametrize("method", ["exact", "gp"])
def test_a_note_names_the_remedy_where_such_pools_decide(method: str) -> None:
    budget = 64 if method == "exact" else 40
    told = ds.value(wild_game(), method, budget=budget)
    assert any('at_least="empty"' in note for note in told.notes)
    mended = ds.value(wild_game(at_least="empty"), method, budget=budget)
    assert not any("decide these values" in note for note in mended.notes)
    assert any("count as nobody's" in note for note in mended.notes)
    tame = ds.value(ds.ModelGame(*_tame(), scoring="r2"), method, budget=budget)
    assert not any("decide these values" in note for note in tame.notes)


def _tame() -> tuple[ds.Owners, Ridge, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=500)
    blocks = {f"site {j}": (X[50 * j : 50 * j + 50], y[50 * j : 50 * j + 50]) for j in range(6)}
    return ds.Owners.from_arrays(blocks), Ridge(), X[300:], y[300:]


def test_an_unknown_floor_is_refused() -> None:
    with pytest.raises(ds.DUShapleyError, match="at_least"):
        wild_game(at_least="zero")


def test_scores_without_a_lower_end_are_known() -> None:
    owners, X, y = wild_owners()
    named = {
        s: ds.ModelGame(owners, Ridge(), X, y, scoring=s).is_endless
        for s in ("r2", "neg_mean_squared_error")
    }
    assert all(named.values())
