"""The mathematics of the estimators, piece by piece."""

from __future__ import annotations

from itertools import combinations
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dushapley as ds
from dushapley.estimators.calibration import WITH, WITHOUT, Cells, student
from dushapley.estimators.orthogonal import directions, hyperplane, sobol_orders
from dushapley.estimators.regression import (
    draw_pairs,
    equal_counts,
    kernel_eigenvalue,
    kernel_mass,
    whole_levels,
)
from dushapley.estimators.semivalues import semivalue_weights
from dushapley.estimators.subsets import distinct_subsets, random_subsets, spread_sizes
from dushapley.estimators.svarm import cover, size_chances
from dushapley.testing import CountingGame, run, small_games

RNG = np.random.default_rng


def brute_force(game: ds.Game, weights: np.ndarray) -> np.ndarray:
    """A semivalue by its definition: weights[k] for joining k others, spread over coalitions."""
    n = game.n_players
    values = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for k in range(n):
            for members in combinations(others, k):
                mask = np.zeros((2, n), dtype=bool)
                mask[:, list(members)] = True
                mask[1, i] = True
                without, with_owner = game(mask)
                values[i] += weights[k] / comb(n - 1, k) * (with_owner - without)
    return values


# Drawing coalitions


@given(st.integers(2, 12), st.integers(0, 10**6))
def test_random_subsets_have_the_sizes_asked_for(n, seed):
    sizes = RNG(seed).integers(0, n + 1, 30)
    assert random_subsets(RNG(seed), sizes, n).sum(axis=1).tolist() == sizes.tolist()


@pytest.mark.parametrize(
    ("n", "size", "count"), [(6, 3, 20), (6, 3, 7), (25, 12, 2000), (30, 3, 50)]
)
def test_distinct_subsets_are_distinct(n, size, count):
    masks = distinct_subsets(RNG(0), n, size, count)
    assert masks.shape == (count, n)
    assert len(np.unique(masks, axis=0)) == count
    assert set(masks.sum(axis=1)) == {size}


def test_distinct_subsets_are_uniform_when_rejected():
    """Owners are in equally often; 400·60 draws of 15 out of 30 have a spread of about 0.003."""
    masks = np.concatenate([distinct_subsets(RNG(s), 30, 15, 400) for s in range(60)])
    assert np.abs(masks.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / np.sqrt(len(masks))


@given(st.integers(4, 10), st.integers(0, 400), st.integers(0, 10**6))
def test_sizes_are_spread_within_their_room(n, count, seed):
    room = [comb(n, s) for s in range(2, n - 1)]
    drawn = spread_sizes(RNG(seed), size_chances(n), room, count)
    assert (drawn <= room).all()
    assert drawn.sum() == min(count, sum(room))


# Orders


@given(st.integers(2, 9), st.integers(0, 10**6))
def test_directions_are_orthonormal_and_balanced(n, seed):
    x = directions(RNG(seed), 1, n - 1, n)
    assert np.allclose(x @ x.T, np.eye(n - 1))
    assert np.allclose(x.sum(axis=1), 0)
    assert np.allclose(hyperplane(n) @ hyperplane(n).T, np.eye(n - 1))
    assert np.allclose(hyperplane(n).sum(axis=1), 0)


def test_orders_from_spheres_are_uniform():
    """All 24 orders of four owners come equally often: chi-squared with 23 degrees of freedom."""
    for orders in (
        np.concatenate([directions(RNG(s), 1, 1, 4).argsort(axis=1) for s in range(2400)]),
        np.concatenate([sobol_orders(RNG(s), 1, 4) for s in range(2400)]),
    ):
        counts = np.unique(orders, axis=0, return_counts=True)[1]
        assert len(counts) == factorial(4)
        assert ((counts - 100) ** 2 / 100).sum() < 23 + 4 * np.sqrt(2 * 23)


def test_antithetic_pairs_are_exact_for_pairwise_interactions():
    rng = RNG(0)
    main, pair = rng.normal(size=5), rng.normal(size=(5, 5))
    game = ds.CallableGame(lambda z: z @ main + ((z @ pair) * z).sum(axis=1), 5, cheap=True)
    exact = ds.value(game, "exact").values
    assert np.allclose(ds.value(game, "antithetic", budget=10).values, exact)


def test_truncation_at_zero_is_permutation_sampling():
    game = small_games(6)["size"]
    one = ds.value(game, "tmc", options={"tolerance": 0}, budget=52)
    other = ds.value(game, "permutation", budget=52)
    assert np.allclose(one.values, other.values)
    assert one.n_evaluations == other.n_evaluations


def test_truncation_buys_more_walks():
    game = small_games(7)["size"]
    few = run("permutation", game, {}, 92, 0).replicates
    many = run("tmc", game, {"tolerance": 0.2}, 92, 0).replicates
    assert many > few


# Strata


def test_cells_equal_plain_means_and_variances():
    rng = RNG(3)
    masks, values = rng.random((200, 4)) < 0.5, rng.normal(size=200) + 1e6
    cells = Cells(4, 5)
    for part in np.split(np.arange(200), [1, 50, 60]):
        for side, inside in ((WITH, masks), (WITHOUT, ~masks)):
            cells.add(inside[part], masks[part].sum(axis=1), values[part], side)
    chosen = values[masks[:, 2] & (masks.sum(axis=1) == 3)]
    assert cells.count[WITH, 2, 3] == len(chosen)
    assert np.isclose(cells.mean[WITH, 2, 3], chosen.mean(), rtol=1e-14)
    assert np.isclose(cells.second[WITH, 2, 3], chosen.var() * len(chosen), rtol=1e-6)
    cubes = (chosen - chosen.mean()) ** 3
    assert np.isclose(cells.third[WITH, 2, 3], cubes.sum(), rtol=1e-6)
    at_once = Cells(4, 5)
    for part in np.split(np.arange(200), [1, 50, 60]):
        at_once.add(masks[part], masks[part].sum(axis=1), values[part])
    for name in ("count", "mean", "second", "third"):
        assert np.allclose(getattr(at_once, name), getattr(cells, name), rtol=1e-6, atol=1e-6)
    joint = at_once.covariance(0.2, last=True)
    assert np.diag(joint) == pytest.approx(cells.spread(0.2).variance, rel=1e-6)


@pytest.mark.parametrize("n", range(4, 12))
def test_a_cover_serves_everybody_once(n):
    for size in range(2, n - 1):
        blocks, members = cover(RNG(n), n, size)
        assert (members.sum(axis=0) == 1).all()
        assert set(blocks.sum(axis=1)) == {size}
        assert (members <= blocks).all()


@pytest.mark.parametrize(("n", "middle"), [(4, 1.0), (10, 1 / (10 * np.log(10)))])
def test_size_chances_add_up_and_give_the_middle_its_share(n, middle):
    chances = size_chances(n)
    assert np.isclose(chances.sum(), 1)
    assert np.isclose(chances[n // 2 - 2], middle)
    assert np.allclose(chances, chances[::-1])


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "beta(1,1)", "beta(4,1)", "beta(1,16)"])
def test_semivalue_weights_add_up(name):
    weights = semivalue_weights(name, 300)
    assert np.isclose(weights.sum(), 1)
    assert (weights >= 0).all()
    if name == "beta(1,1)":
        assert np.allclose(weights, 1 / 300)


@pytest.mark.parametrize("name", ["banzhaf", "beta(4,1)"])
def test_strata_give_semivalues(name):
    """Drawn without repetition until nothing is left, the strata are exact, and so is the mean."""
    game = small_games(6)["table"]
    options = {"semivalue": name, "form": "+"}
    found = ds.value(game, "stratified-svarm", options=options, budget=64)
    assert np.allclose(found.values, brute_force(game, semivalue_weights(name, 6)))
    assert f"These are {name} values, not Shapley values" in found.notes[0]
    assert found.biased


def test_beta_semivalues_follow_kwon_and_zou():
    """Their weight of position j = k+1 is n·B(j+β−1, n−j+α)/B(α,β), averaged over positions."""
    from scipy.special import beta

    n, a, b = 7, 4.0, 1.5
    j = np.arange(1, n + 1)
    theirs = n * beta(j + b - 1, n - j + a) / beta(a, b)
    ours = semivalue_weights("beta(4,1.5)", n)
    assert np.allclose(ours, theirs * [comb(n - 1, k) for k in range(n)] / n)


@pytest.mark.parametrize("wrong", ["penrose", "beta(0,1)", "beta(1)", "beta(-1,2)"])
def test_unknown_semivalues_are_refused(wrong):
    with pytest.raises(ds.DUShapleyError, match="beta"):
        ds.value(small_games(4)["size"], "stratified-svarm", options={"semivalue": wrong})


def test_a_stratum_seen_once_has_no_standard_error():
    game = small_games(7)["size"]
    least = 2 + 14 + 2 * sum(-(-7 // s) for s in range(2, 6))
    assert ds.value(game, "stratified-svarm", budget=least).std_errors is None


# Regressions


@pytest.mark.parametrize("n", range(2, 8))
@pytest.mark.parametrize("method", ["kernel", "leverage"])
def test_regressions_on_all_coalitions_are_exact(method, n):
    game = small_games(n)["table"]
    options = {"kernel": [{}, {"form": "unpaired"}, {"form": "unbiased"}]}.get(
        method, [{}, {"size_intercepts": True}]
    )
    for option in options:
        found = ds.value(CountingGame(game), method, options=option, budget=2**n)
        assert found.n_evaluations == 2**n
        assert np.allclose(found.values, ds.value(game, "exact").values)
        assert found.std_errors is not None
        assert np.allclose(found.std_errors, 0)


@pytest.mark.parametrize("n", range(3, 9))
def test_kernel_eigenvalue_is_that_of_the_matrix(n):
    masks = np.array([[b >> i & 1 for i in range(n)] for b in range(1, 2**n - 1)], dtype=float)
    sizes = masks.sum(axis=1)
    weights = 1 / (sizes * (n - sizes) * [comb(n, int(s)) for s in sizes])
    matrix = (masks * (weights / weights.sum())[:, None]).T @ masks
    assert np.isclose(matrix[0, 0] - matrix[0, 1], kernel_eigenvalue(n))
    assert np.isclose(kernel_mass(n).sum(), 1)


@given(st.integers(2, 14), st.integers(1, 400), st.integers(0, 10**6))
def test_leverage_spreads_pairs_evenly(n, pairs, seed):
    counts = equal_counts(RNG(seed), n, pairs)
    assert counts.sum() == min(pairs, 2 ** (n - 1) - 1)
    sets = [c * (2 if 2 * s == n else 1) for s, c in enumerate(counts.tolist(), start=1)]
    open_levels = [m for s, m in enumerate(sets, start=1) if m < comb(n, s)]
    assert all(max(open_levels) - m <= 3 for m in open_levels)


def test_pairs_are_drawn_once():
    for n, size in [(6, 3), (6, 2), (7, 3)]:
        total = comb(n, size) // (2 if 2 * size == n else 1)
        pairs = draw_pairs(RNG(0), n, size, total)
        assert len(np.unique(pairs.reshape(-1, n), axis=0)) == 2 * total
        assert (pairs[:, 0] ^ pairs[:, 1]).all()


@pytest.mark.parametrize("budget", [8, 30, 60, 126, 500])
def test_borders_fit_the_budget(budget):
    whole = whole_levels(7, budget)
    assert 2 * sum(comb(7, s) for s in range(1, whole + 1)) <= budget


def test_an_undetermined_regression_says_so():
    """Eight draws rarely span seven owners when they are unlucky: some seed must show it."""
    game = small_games(7)["table"]
    notes = [
        ds.value(game, "kernel", options={"borders": False}, budget=16, seed=s).notes
        for s in range(40)
    ]
    assert any("do not determine" in text for note in notes for text in note)


# Differences


@pytest.mark.parametrize("n", [2, 4, 6])
def test_group_testing_identity(n):
    """φ_i − φ_j = Z·E[u(S)(β_i − β_j)], with the expectation taken over all coalitions."""
    from dushapley.estimators.group_testing import size_chances as chances_of

    game = small_games(n)["table"]
    masks = np.array([[b >> i & 1 for i in range(n)] for b in range(1, 2**n - 1)], dtype=bool)
    chances, scale = chances_of(n)
    sizes = masks.sum(axis=1)
    chance = chances[sizes - 1] / [comb(n, int(s)) for s in sizes]
    means = scale * (chance * game(masks)) @ masks
    exact = ds.value(game, "exact").values
    assert np.allclose(means - means[0], exact - exact[0])


# Standard errors


def test_few_replicates_widen_as_student_says():
    assert np.isclose(student(9) * 1.96, 2.262157)
    assert np.isclose(student(10**9) * 1.96, 1.959964)


def test_utilities_far_from_zero_change_nothing():
    """Adding a constant to every utility leaves values and errors alone, up to rounding."""
    base = small_games(6)["table"]
    moved = ds.TableGame(base.values + 1e4)
    for name in ds.methods():
        if name in ("du", "du++", "du-second-order", "knn", "auto"):
            continue
        here, there = (run(name, g, {}, None, seed=1) for g in (base, moved))
        assert np.allclose(here.values, there.values, atol=1e-9), name
        if here.std_errors is not None:
            assert np.allclose(here.std_errors, there.std_errors, atol=1e-8), name
