"""Exact values, DU-Shapley and its second order from the law of the pooled size."""

from __future__ import annotations

import os
import subprocess
import sys
from math import comb, fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dushapley as ds
from dushapley.errors import InvalidGame, MethodNotApplicable, UtilityFailed
from dushapley.games import (
    LearningCurve,
    logarithmic,
    mean_estimation,
    power_law,
    rational,
    saturating,
)
from dushapley.games.size import bounds as size_strata
from dushapley.games.size import closed_forms as du_closed
from dushapley.games.size import exact as size_values

ENUMERATE = {"by": "enumeration"}
CURVES = {
    "rational": rational(37.0),
    "logarithmic": logarithmic(),
    "power law": power_law(20.0, 0.7),
    "saturating": saturating(60.0),
    "wild": lambda n: np.sin(n) + (n > 50),
}


def asked(game: ds.Game) -> np.ndarray:
    """DU-Shapley by asking the game, without its closed form."""
    talk = ds.AskTell("du", game.n_players, sizes=game.sizes, fractions="exact")
    while (ask := talk.ask()) is not None:
        talk.tell(game(ask.queries))
    assert talk.estimate is not None
    return talk.estimate.values


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize(
    "sizes",
    [
        [7],
        [3, 5],
        [0, 0, 4],
        [1] * 9,
        [1, 1, 1, 1, 900],
        [2**k for k in range(10)],
        [12.5, 0.25, 3.75, 8],
        [6, 12, 18, 6, 600, 6, 0],
        list(range(1, 13)),
    ],
)
def test_formula_equals_enumeration(name: str, sizes: list[float]) -> None:
    game = ds.SizeGame(sizes, CURVES[name])
    by_formula = ds.value(game, "exact")
    by_coalitions = ds.value(game, "exact", options=ENUMERATE)
    assert by_formula.n_evaluations == 0
    assert by_coalitions.n_evaluations == 2 ** len(sizes)
    np.testing.assert_allclose(by_formula.values, by_coalitions.values, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_formula_equals_enumeration_of_18_owners(seed: int) -> None:
    sizes = np.random.default_rng(seed).integers(1, 1001, 18)
    for curve in (rational(900.0), logarithmic(), CURVES["wild"]):
        game = ds.SizeGame(sizes, curve)
        found = ds.value(game, "exact").values
        told = ds.value(game, "exact", options=ENUMERATE).values
        np.testing.assert_allclose(found, told, rtol=0, atol=1e-12)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.sampled_from(sorted(CURVES)))
def test_any_sizes(sizes: list[int], name: str) -> None:
    game = ds.SizeGame(sizes, CURVES[name])
    found = ds.value(game, "exact").values
    np.testing.assert_allclose(found, ds.value(game, "exact", options=ENUMERATE).values, atol=1e-12)


def test_it_is_closer_to_the_truth_than_its_stated_error() -> None:
    sizes = np.array([1.0] * 11 + [400, 7, 90])
    game = ds.SizeGame(sizes, logarithmic())
    n, rows = len(sizes), np.arange(2**14)
    members = (rows[:, None] >> np.arange(n)) & 1
    u, order = game(members), members.sum(axis=1)
    weight = np.array([1 / (n * comb(n - 1, k)) for k in range(n)])
    found = ds.value(game, "exact")
    for i in (0, 11, 12, 13):
        without = members[:, i] == 0
        terms = (u[rows[without] | 1 << i] - u[without]) * weight[order[without]]
        assert abs(found.values[i] - fsum(terms)) <= found.details["numerical_error"]


@pytest.fixture(scope="module")
def thousand() -> tuple[ds.SizeGame, ds.Valuation]:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 1001, 1000)
    sizes[:3], sizes[3:6] = 0, 77
    game = ds.SizeGame(sizes, rational(10_000.0))
    return game, ds.value(game, "exact")


def test_axioms_with_a_thousand_owners(thousand: tuple[ds.SizeGame, ds.Valuation]) -> None:
    game, found = thousand
    assert abs(found.efficiency_gap) < 1e-12
    assert (found.values[:3] == 0).all()  # who brings nothing gets nothing
    assert len(set(found.values[3:6])) == 1  # equals are paid alike, to the last bit
    order = np.argsort(game.sizes, kind="stable")
    assert (np.diff(found.values[order]) >= 0).all()  # more rows, more value


@pytest.mark.slow
def test_another_route_agrees_with_a_thousand_owners(
    thousand: tuple[ds.SizeGame, ds.Valuation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moving the border between the two ways of finding the law changes nothing."""
    game, found = thousand
    monkeypatch.setattr(size_values, "MIDDLE_BEGINS", 110.0)
    again = ds.value(game, "exact").values
    np.testing.assert_allclose(again[3:], found.values[3:], rtol=1e-10)


def test_a_plain_convolution_agrees_with_150_owners() -> None:
    """An independent computation: owners added one by one, numpy's nodes, the owner left out."""
    sizes = np.random.default_rng(2).integers(1, 61, 150)
    game = ds.SizeGame(sizes, CURVES["wild"])
    found = ds.value(game, "exact").values
    t, weight = np.polynomial.legendre.leggauss(75)
    for i in (0, 77, 149):
        law = np.zeros((75, sizes.sum() + 1))
        law[:, 0] = 1.0
        node = (1 + t[:, None]) / 2
        for size in np.delete(sizes, i):
            law[:, size:] = (1 - node) * law[:, size:] + node * law[:, :-size]
            law[:, :size] *= 1 - node
        y = np.arange(sizes.sum() + 1)
        added = game.w(y + sizes[i]) - game.w(y)
        assert abs((weight / 2) @ (law @ added) - found[i]) < 1e-13


def test_what_has_no_lattice_is_enumerated_or_refused() -> None:
    odd = ds.SizeGame([0.1, 0.25, 7.3], rational(2.0))
    assert odd.closed_form("exact") is None
    assert ds.value(odd, "exact").n_evaluations == 8
    huge = ds.SizeGame([1e15, 3, 1e9 + 1], logarithmic())
    assert ds.value(huge, "exact").n_evaluations == 8
    with pytest.raises(MethodNotApplicable, match="coalitions"):
        ds.value(ds.SizeGame(np.arange(1, 31) * 1e12 + 1, logarithmic()), "exact")


def test_a_curve_is_asked_only_where_coalitions_are() -> None:
    def pole(n: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 10 / (11 - n)

    game = ds.SizeGame([20, 30, 50, 90], pole)  # 11 rows are in nobody's reach
    np.testing.assert_allclose(
        ds.value(game, "exact").values, ds.value(game, "exact", options=ENUMERATE).values
    )
    with pytest.raises(UtilityFailed, match="11 pooled rows"):
        ds.value(ds.SizeGame([11, 30], pole), "exact")


def test_regressogram_bin_by_bin() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 9, (8, 5))
    game = ds.RegressogramGame(
        counts, [0.1, 0.2, 0.3, 0.4, 0.0], mean_estimation(np.arange(1, 6), 2.0)
    )
    np.testing.assert_allclose(
        ds.value(game, "exact").values,
        ds.value(game, "exact", options=ENUMERATE).values,
        atol=1e-12,
    )
    np.testing.assert_allclose(ds.value(game, "du").values, asked(game), atol=1e-13)


@pytest.mark.parametrize("name", CURVES)
def test_du_formula_equals_asking(name: str) -> None:
    for sizes in ([5], [3, 9], [0, 4, 4, 17], np.arange(1, 20)):
        game = ds.SizeGame(sizes, CURVES[name])
        for method in ("du", "du++"):
            found = ds.value(game, method)
            assert found.n_evaluations == 0
            np.testing.assert_allclose(found.values, asked(game), atol=1e-13)


def test_du_is_exact_for_equal_sizes() -> None:
    game = ds.SizeGame([40] * 30, rational(100.0))
    du, exact = (ds.value(game, method).values for method in ("du", "exact"))
    np.testing.assert_allclose(du, exact, rtol=1e-12)


def test_rule_for_the_sum_over_k_keeps_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = np.random.default_rng(1).integers(1, 40, 5000).astype(float)
    curve = LearningCurve(lambda n: n / (n + 500.0))
    plain, _ = du_closed.du_values(sizes, curve)
    monkeypatch.setattr(du_closed, "MOST_TERMS", 0)
    ruled, error = du_closed.du_values(sizes, curve)
    assert np.abs(ruled - plain).max() <= error + 1e-17
    np.testing.assert_allclose(ruled, plain, rtol=1e-8)


def test_an_unsmooth_curve_is_caught_by_the_numerical_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(du_closed, "MOST_TERMS", 0)
    steps = LearningCurve(lambda n: np.floor(n / 1e5))
    _, error = du_closed.du_values(np.arange(1.0, 2000), steps)
    assert error > 1e-5


@given(st.integers(65, 5000))
def test_gauss_rule_for_sums_is_exact_for_polynomials(n: int) -> None:
    k, weight = du_closed.sum_rule(n, 8)
    for power in (0, 1, 7, 13):
        wanted = fsum(float(j / n) ** power for j in range(n))
        assert abs(float(weight @ (k / n) ** power) - wanted) < 1e-10 * n


@given(st.lists(st.integers(0, 12), min_size=2, max_size=9), st.sampled_from(["rational", "wild"]))
def test_exact_terms_equal_the_mean_over_coalitions(sizes: list[int], name: str) -> None:
    rows = np.array(sizes, dtype=float)
    n, w = len(rows), CURVES[name]
    coalitions = np.arange(2**n)
    inside = (coalitions[:, None] >> np.arange(n)) & 1
    u, order = w(inside @ rows), inside.sum(axis=1)
    listed = size_strata.exact_terms(rows, w)
    few = size_strata.FEW_COALITIONS
    try:
        size_strata.FEW_COALITIONS = 0
        counted = size_strata.exact_terms(rows, w)
    finally:
        size_strata.FEW_COALITIONS = few
    for i in range(n):
        out = inside[:, i] == 0
        added = u[coalitions[out] | 1 << i] - u[out]
        for ks, terms in (listed, counted):
            for position, k in enumerate(ks):
                wanted = added[order[out] == k].mean()
                assert abs(terms[i, position] - wanted) < 1e-11


def test_second_order_needs_a_formula() -> None:
    with pytest.raises(MethodNotApplicable, match="use du"):
        ds.value(ds.TableGame([0, 1, 1, 2]), "du-second-order")
    with pytest.raises(MethodNotApplicable, match="SizeGame"):
        ds.AskTell("du-second-order", 3)


@pytest.mark.parametrize("n_max", [10, 50, 100])
def test_second_order_cuts_the_error_of_du(n_max: int) -> None:
    """At least 30-fold in MSE at I=20, in the setting of the paper's Figure 2."""
    rng = np.random.default_rng(n_max)
    first, second = [], []
    for _ in range(20):
        sizes = rng.integers(1, n_max + 1, 20)
        game = ds.SizeGame(sizes, rational(10 ** (np.floor(np.log10(sizes.sum())) - 1)))
        exact = ds.value(game, "exact").values
        first.append(np.mean((ds.value(game, "du").values - exact) ** 2))
        second.append(np.mean((ds.value(game, "du-second-order").values - exact) ** 2))
    assert np.mean(second) < np.mean(first) / 30


def test_curves_teach() -> None:
    with pytest.raises(InvalidGame, match="shape is 'convex'"):
        LearningCurve(np.sqrt, shape="convex")  # type: ignore[arg-type]
    with pytest.raises(InvalidGame, match="positive"):
        rational(-1.0)
    with pytest.raises(InvalidGame, match="leave them out"):
        ds.SizeGame([1, 2], rational(3.0), shape="concave")
    with pytest.raises(InvalidGame, match="same shape"):
        ds.value(ds.SizeGame([1, 2], lambda n: 1.0), "exact")


@pytest.mark.parametrize("name", ["rational", "logarithmic", "power law", "saturating"])
def test_supplied_second_derivatives_are_those_of_the_curve(name: str) -> None:
    curve = CURVES[name]
    n = np.geomspace(1, 1000, 50)
    h = 1e-3 * n
    numeric = (curve(n + h) - 2 * curve(n) + curve(n - h)) / h**2
    np.testing.assert_allclose(curve.second_derivative(n), numeric, rtol=1e-3, atol=1e-9)


def test_same_bits_twice() -> None:
    sizes = np.random.default_rng(5).integers(1, 300, 120)
    for method in ("exact", "du", "du-second-order"):
        first, second = (ds.value(ds.SizeGame(sizes, logarithmic()), method) for _ in range(2))
        assert first.values.tobytes() == second.values.tobytes()


def test_formulas_have_the_same_bits_for_any_number_of_threads() -> None:
    code = (
        "import dushapley as ds; game = ds.SizeGame(range(1, 71), w=lambda n: n / (n + 100)); "
        "print(ds.value(game, 'exact').values.tobytes().hex())"
    )
    bits = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(bits) == 1
