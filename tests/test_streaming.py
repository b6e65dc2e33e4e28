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
    monkeypatch.setattr("dushapley.estimators.design.AT_ONCE", 64)
    parts = ds.value(game, "leverage", budget=100, options=options)
    assert np.abs(whole.values - parts.values).max() < 1e-12
    assert np.abs(whole.std_errors - parts.std_errors).max() < 1e-12
