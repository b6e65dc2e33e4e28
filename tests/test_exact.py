"""Exact values: against all orders, against textbooks, against the axioms."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dushapley as ds
from dushapley.games import airport, glove, voting

ENUMERATE = {"by": "enumeration"}


def by_all_orders(table: np.ndarray) -> np.ndarray:
    """Shapley values from the first definition: the mean over all I! orders."""
    n = len(table).bit_length() - 1
    values = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        here = 0
        for i in order:
            values[i] += table[here | 1 << i] - table[here]
            here |= 1 << i
    return values / len(orders)


def tables(n: int) -> st.SearchStrategy[np.ndarray]:
    number = st.floats(-100, 100, allow_nan=False)
    return arrays(np.float64, 2**n, elements=number)


any_table = st.integers(2, 6).flatmap(tables)


def exact(table: np.ndarray) -> np.ndarray:
    return ds.value(ds.TableGame(table), "exact").values


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_equals_the_mean_over_all_orders(n: int) -> None:
    table = np.random.default_rng(n).normal(size=2**n)
    np.testing.assert_allclose(exact(table), by_all_orders(table), atol=1e-13)


@pytest.mark.parametrize(
    ("game", "known"),
    [
        (glove(1, 2), [4 / 6, 1 / 6, 1 / 6]),
        (glove(2, 1), [1 / 6, 1 / 6, 4 / 6]),
        (airport([1, 2, 4]), [1 / 3, 5 / 6, 17 / 6]),
        (voting([50, 49, 1], 51), [4 / 6, 1 / 6, 1 / 6]),
        # the UN Security Council: five permanent members, ten others, 39 of 45 needed
        (voting([7] * 5 + [1] * 10, 39), [421 / 2145] * 5 + [4 / 2145] * 10),
    ],
)
def test_classic_games_have_their_known_answers(game: ds.Game, known: list[float]) -> None:
    np.testing.assert_allclose(game.closed_form("exact").values, known, atol=1e-14)
    asked = ds.value(game, "exact", options=ENUMERATE)
    np.testing.assert_allclose(asked.values, known, atol=1e-13)
    assert asked.n_evaluations == 2**game.n_players
    assert ds.value(game, "exact").n_evaluations == 0


@given(st.integers(1, 5), st.integers(1, 5))
def test_glove_formula_equals_enumeration(left: int, right: int) -> None:
    game = glove(left, right)
    asked = ds.value(game, "exact", options=ENUMERATE).values
    np.testing.assert_allclose(game.shapley_values, asked, atol=1e-13)


@given(arrays(np.int64, st.integers(1, 8), elements=st.integers(0, 9)), st.integers(1, 20))
def test_voting_and_airport_formulas_equal_enumeration(weights: np.ndarray, quota: int) -> None:
    for game in (voting(weights, quota), airport(weights)):
        asked = ds.value(game, "exact", options=ENUMERATE).values
        np.testing.assert_allclose(game.shapley_values, asked, atol=1e-12)


def test_toy_of_section_2_3_comes_out_of_actual_datasets() -> None:
    owners = ds.Owners.from_arrays({"D1": [[1]], "D2": [[2]], "D3": [[2], [2]]})

    def both_points(X: np.ndarray, y: None) -> float:
        return float({1, 2} <= set(X.ravel().tolist()))

    found = ds.value(ds.DatasetGame(owners, both_points), "exact")
    np.testing.assert_allclose(found.values, [2 / 3, 1 / 6, 1 / 6], atol=1e-15)
    assert found.owners == ("D1", "D2", "D3")


@given(any_table)
def test_efficiency(table: np.ndarray) -> None:
    assert exact(table).sum() == pytest.approx(table[-1] - table[0], abs=1e-10)


@given(any_table)
def test_symmetry(table: np.ndarray) -> None:
    """Owners 0 and 1 made interchangeable get the same value."""
    index = np.arange(len(table))
    swapped = (index & ~3) | ((index & 1) << 1) | ((index & 2) >> 1)
    values = exact((table + table[swapped]) / 2)
    assert values[0] == pytest.approx(values[1], abs=1e-10)


@given(any_table)
def test_dummy(table: np.ndarray) -> None:
    """Owner 0 made to change nothing gets nothing."""
    values = exact(table[np.arange(len(table)) & ~1])
    assert values[0] == pytest.approx(0, abs=1e-10)


@given(st.integers(2, 5).flatmap(lambda n: st.tuples(tables(n), tables(n))), st.floats(-3, 3))
def test_linearity(pair: tuple[np.ndarray, np.ndarray], factor: float) -> None:
    one, other = pair
    np.testing.assert_allclose(
        exact(one + factor * other), exact(one) + factor * exact(other), atol=1e-9
    )


def test_large_offset_costs_no_digits() -> None:
    table = np.random.default_rng(0).normal(size=2**10)
    np.testing.assert_allclose(exact(table + 1e6), exact(table), atol=1e-8)


def test_enumeration_streams_blocks_above_sixteen_owners() -> None:
    sizes = np.random.default_rng(1).integers(1, 50, 18)
    game = ds.SizeGame(sizes, lambda n: n**2.0)
    # for u = (Σn)² the value is n_i·Σn: own square plus half of every cross term twice
    found = ds.value(game, "exact", options=ENUMERATE).values
    np.testing.assert_allclose(found, sizes * sizes.sum(), rtol=1e-11)


def test_exact_refuses_what_would_never_end() -> None:
    w = lambda z: z.sum(axis=1)  # noqa: E731
    with pytest.raises(ds.DUShapleyError, match=r"2\^13 = 8,192 coalitions.*budget=8192"):
        ds.value(ds.CallableGame(w, 13), "exact")
    with pytest.raises(ds.DUShapleyError, match=r"stops at 16,777,216"):
        ds.value(ds.CallableGame(w, 25, cheap=True), "exact")
    assert ds.value(ds.CallableGame(w, 13), "exact", budget=8192).n_evaluations == 8192
