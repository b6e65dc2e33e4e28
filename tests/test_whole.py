"""Error bars are whole: one total for wishes, displays and ranks, or the word unknown."""

from __future__ import annotations

import numpy as np
import pytest

import dushapley as ds
from dushapley.estimators import calibration
from dushapley.games import classic
from dushapley.results import uncertainty


def test_there_is_one_1_96():
    assert calibration.NORMAL == uncertainty.NORMAL_95 == 1.96


def test_stratified_svarm_has_errors_or_says_why_not():
    game = classic.airport(np.arange(1.0, 11))
    results = [ds.value(game, "stratified-svarm", seed=seed) for seed in range(40)]
    blind = [v for v in results if v.std_errors is None]  # it was 12, without a word
    assert len(blind) <= 2
    assert all(any("a larger budget" in note for note in v.notes) for v in blind)
    least = ds.value(ds.games.airport(np.arange(1.0, 8)), "svarm", budget=16)
    assert least.std_errors is not None or any("larger budget" in note for note in least.notes)


@pytest.mark.parametrize("method", ["svarm", "stratified-svarm"])
def test_pairs_of_svarm_are_covered_by_a_covariance(method):
    game = classic.glove(4, 4)
    truth, covered = game.shapley_values, []
    pairs = np.triu_indices(8, 1)
    for seed in range(60):
        v = ds.value(game, method, budget=300, seed=seed)
        joint = v.total_covariance
        own = np.diag(joint)
        error = np.sqrt(np.maximum(own[:, None] + own - 2 * joint, 0))
        off = np.abs((v.values[:, None] - v.values) - (truth[:, None] - truth))
        covered.append((off <= 1.96 * error)[pairs].mean())
        assert not v.is_apart
    assert 0.92 <= np.mean(covered) <= 0.98  # svarm covered .996 when taken as independent


def test_values_that_do_not_add_up_say_so():
    rng = np.random.default_rng(0)
    game = ds.CallableGame(lambda z: np.sin(z @ np.arange(30)), 30, cheap=True)
    v = ds.value(game, "stratified-svarm", budget=300, seed=int(rng.integers(9)))
    assert abs(v.efficiency_gap) > 0.1 * abs(v.u_full - v.u_empty)
    assert any("add up to" in note and "is due" in note for note in v.notes)
    assert not any("is due" in note for note in ds.value(game, "permutation", budget=300).notes)


def test_owen_covers_where_few_shared_coalitions_agree():
    game = classic.glove(20, 20)
    hits = [
        (np.abs(v.values - game.shapley_values) <= 1.96 * v.std_errors).mean()
        for v in (
            ds.value(game, "owen", budget=2 + 41 * t, seed=s) for t in (2, 3) for s in range(40)
        )
    ]
    assert np.mean(hits) >= 0.93  # it was .79: all gains of two or three coalitions agreed
