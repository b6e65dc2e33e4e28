"""Sampling takes memory for what it keeps, not for what it asks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import dushapley as ds


def peak(n_players: int, method: str, budget: int, **options: object) -> float:
    """Megabytes at the highest point of a run."""
    sizes = np.random.default_rng(0).integers(1, 100, n_players)
    game = ds.SizeGame(sizes, lambda n: n / (n + 1000))
    tracemalloc.start()
    try:
        ds.value(game, method, budget=budget, options=options)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["warm-up", "+"])
def test_stratified_svarm_streams(form):
    assert peak(60, "stratified-svarm", 100_000, form=form) < 120  # it was 200


def test_leverage_keeps_sums_of_strata():
    assert peak(300, "leverage", 1200) < 60  # 150 matrices of 300 by 300 were kept: 103, twice


@pytest.mark.parametrize("intercepts", [False, True])
def test_values_do_not_depend_on_the_parts(monkeypatch, intercepts):
    game = ds.SizeGame([3, 5, 8, 13, 21, 34, 55, 89], lambda n: n / (n + 30))
    options = {"size_intercepts": intercepts}
    whole = ds.value(game, "leverage", budget=100, options=options)
    monkeypatch.setattr("dushapley.estimators.regression.AT_ONCE", 64)
    parts = ds.value(game, "leverage", budget=100, options=options)
    assert np.abs(whole.values - parts.values).max() < 1e-12
    assert np.abs(whole.std_errors - parts.std_errors).max() < 1e-12


def test_kernel_can_count_every_draw_alike():
    rng = np.random.default_rng(2)
    table = np.zeros(2**10)
    pools = (np.arange(2**10)[:, None] >> np.arange(10)) & 1
    table += np.sqrt(pools @ rng.random(10)) + 0.3 * (pools[:, 0] & pools[:, 1])
    game = ds.TableGame(table)
    exact = ds.value(game, "exact").values
    errors = {}
    for weights in ("sizes", "draws"):
        runs = [
            ds.value(game, "kernel", budget=60, seed=s, options={"weights": weights})
            for s in range(60)
        ]
        errors[weights] = np.mean([np.square(v.values - exact).mean() for v in runs])
        assert max(abs(v.efficiency_gap) for v in runs) < 1e-12
    assert errors["draws"] < errors["sizes"]
    held = [np.abs(v.values - exact) <= 1.96 * v.std_errors for v in runs]  # by draws: always known
    assert np.mean(held) > 0.85
