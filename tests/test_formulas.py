"""The paper's closed-form games, against simulation and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dushapley as ds
from dushapley.games import mean_estimation
from dushapley.games.size.regression import effective_rows, expected_inverse

# d, γ, n, and the trace of the mean inverse by an independent simulation
CASES = [
    (5, (1, 1), (30, 30), 0.0926),
    (5, (1, 3), (30, 30), 0.0199),
    (10, (0.5, 5, 2), (100, 20, 40), 0.0202),
    (10, (0.3, 8), (200, 15), 0.0311),
    (10, (0.3, 8), (200, 5), 0.304),
    (10, (0.2, 1, 5), (300, 30, 6), 0.144),
]


def simulated_error(d: int, gamma, sizes, draws: int = 3000) -> float:
    """Mean trace of (XᵀΣ⁻¹X)⁻¹: the expected error of generalised least squares."""
    rng = np.random.default_rng(0)
    total = np.zeros((draws, d, d))
    for g, n in zip(gamma, sizes, strict=True):
        x = g * rng.normal(size=(draws, n, d))
        total += x.transpose(0, 2, 1) @ x
    return float(np.trace(np.linalg.inv(total), axis1=1, axis2=2).mean())


@pytest.mark.parametrize(("d", "gamma", "sizes", "known"), CASES)
def test_fixed_point_agrees_with_simulated_least_squares(d, gamma, sizes, known) -> None:
    simulated = simulated_error(d, gamma, sizes)
    game = ds.LinearRegressionGame(sizes, gamma, d)
    everyone = -float(game(np.ones((1, len(sizes))))[0])
    assert simulated == pytest.approx(known, rel=0.06)
    assert everyone == pytest.approx(simulated, rel=0.10)


def test_papers_form_is_not_the_expected_error_once_owners_differ() -> None:
    d, gamma, sizes, known = CASES[3]
    game = ds.LinearRegressionGame(sizes, gamma, d, form="paper")
    assert -float(game(np.ones((1, 2)))[0]) > 10 * known


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(1, 12), st.floats(0.1, 10)
)
def test_equal_precision_gives_the_homogeneous_formula(sizes, d, gamma) -> None:
    n = sum(sizes)
    x = expected_inverse(np.array([sizes], dtype=float), np.full(len(sizes), gamma), d)[0]
    if n > d + 1:
        assert x == pytest.approx(1 / (gamma**2 * (n - d - 1)), rel=1e-11)
    else:
        assert np.isinf(x)


def test_equal_precision_equals_the_papers_form_exactly() -> None:
    sizes = [40, 70, 25]
    everyone = np.ones((1, 3), dtype=bool)
    ours = ds.LinearRegressionGame(sizes, 1.0, 5)(everyone)
    papers = ds.LinearRegressionGame(sizes, 1.0, 5, form="paper")(everyone)
    assert ours[0] == papers[0] == 5 / (6 - 135)


@given(st.integers(0, 2**32 - 1))
def test_more_data_never_hurts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = 5, int(rng.integers(1, 10))
    game = ds.LinearRegressionGame(rng.integers(0, 60, n), 10 ** rng.uniform(-2, 2, n), d)
    less = rng.uniform(size=(20, n)) * rng.integers(0, 2, (20, n))
    more = np.minimum(1, less + rng.uniform(size=(20, n)) * rng.integers(0, 2, (20, n)))
    assert (game(more) >= game(less) * (1 + 1e-9) - 1e-9).all()


def test_too_little_data_is_worth_the_floor() -> None:
    game = ds.LinearRegressionGame([3, 3], 1.0, 5, floor=-7.5, trace=2.0)
    assert game([[0, 0], [1, 1]]).tolist() == [-7.5, -7.5]
    assert ds.LinearRegressionGame([3, 9], 1.0, 5)([[0, 0]])[0] == -5.0


def test_papers_form_is_raw() -> None:
    game = ds.LinearRegressionGame([5, 50], 1.0, 5, form="paper")
    assert game([[0, 0]])[0] == 5 / 6  # nobody's data is worth more than anybody's
    assert game([[1, 0]])[0] == 5.0


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_effective_rows_of_equal_precision_are_the_rows(sizes, gamma) -> None:
    """In floating point A²/B misses the whole number in about a third of all cases."""
    rows = np.array([sizes], dtype=float)
    assert effective_rows(rows, np.full(len(sizes), gamma))[0] == sum(sizes)


def test_regressogram_is_a_weighted_sum_of_size_games() -> None:
    rng = np.random.default_rng(0)
    counts, p = rng.integers(0, 9, (5, 3)), np.array([0.2, 0.5, 0.3])
    w = mean_estimation(noise=2.0, prior=0.5)
    whole = ds.value(ds.RegressogramGame(counts, p, w), "exact", options={"by": "enumeration"})
    parts = [
        ds.value(ds.SizeGame(counts[:, b], w), "exact", options={"by": "enumeration"}).values
        for b in range(3)
    ]
    np.testing.assert_allclose(whole.values, p @ np.array(parts), atol=1e-13)


def test_mean_estimation_starts_at_the_prior_and_rises() -> None:
    w = mean_estimation(noise=4.0, prior=3.0)
    n = np.arange(0, 50.0)
    assert w(n)[0] == -3.0
    assert (np.diff(w(n)) > 0).all()
    assert w(n)[10] == pytest.approx(-1 / (10 / 4 + 1 / 3))


def test_zero_rows_are_legal_and_worth_nothing() -> None:
    found = ds.value(
        ds.SizeGame([0, 10, 20], np.sqrt), "exact", options={"by": "enumeration"}
    ).values
    assert found[0] == pytest.approx(0, abs=1e-14)
