"""DU-Shapley: Definition 1 term by term, its law, its error."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dushapley as ds
from dushapley.estimators.du import du
from dushapley.protocol import Problem
from dushapley_paper.use_cases import RidgeGame


def curve(n: np.ndarray) -> np.ndarray:
    return 1 - 100 / (100 + n)


def by_formula(sizes: np.ndarray, w) -> np.ndarray:
    """ψ_i = (1/I) Σ_k w(kμ + n_i) − w(kμ), written out."""
    n_owners = len(sizes)
    values = np.zeros(n_owners)
    for i in range(n_owners):
        mu = (sizes.sum() - sizes[i]) / (n_owners - 1)
        for k in range(n_owners):
            values[i] += w(k * mu + sizes[i]) - w(k * mu)
    return values / n_owners


@pytest.mark.parametrize("n", [2, 3, 4, 7, 20])
def test_equals_the_formula_on_size_games(n: int) -> None:
    sizes = np.random.default_rng(n).integers(1, 1000, n).astype(float)
    found = ds.value(ds.SizeGame(sizes, curve), "du")
    np.testing.assert_allclose(found.values, by_formula(sizes, curve), rtol=1e-12)


def test_equals_the_papers_formula_with_floors() -> None:
    rng = np.random.default_rng(5)
    n, d = 8, 5
    sizes, gamma = rng.integers(20, 200, n), rng.uniform(0.5, 10, n)
    expected = np.zeros(n)
    for i in range(n):
        a = (gamma * sizes).sum() - gamma[i] * sizes[i]
        b = (gamma**2 * sizes).sum() - gamma[i] ** 2 * sizes[i]
        for k in range(n):
            share = k / (n - 1)
            own_a, own_b = gamma[i] * sizes[i], gamma[i] ** 2 * sizes[i]
            with_owner = np.floor((own_a + share * a) ** 2 / (own_b + share * b) * (1 + 1e-12))
            without = np.floor(share * a**2 / b * (1 + 1e-12))
            expected[i] += d / (d + 1 - with_owner) - d / (d + 1 - without)
    game = ds.LinearRegressionGame(sizes, gamma, d, form="paper")
    np.testing.assert_allclose(ds.value(game, "du").values, expected / n, rtol=1e-12)


@given(st.integers(2, 9), st.integers(1, 500))
def test_equal_sizes_make_it_exact(n: int, size: int) -> None:
    game = ds.SizeGame([size] * n, curve)
    exact = ds.value(game, "exact", options={"by": "enumeration"}).values
    np.testing.assert_allclose(ds.value(game, "du").values, exact, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_plus_plus_is_du(n: int) -> None:
    sizes = np.random.default_rng(n).integers(1, 30, n)
    game = ds.SizeGame(sizes, curve)
    one, other = ds.value(game, "du"), ds.value(game, "du++")
    np.testing.assert_array_equal(one.values, other.values)
    assert (one.method, other.method) == ("du", "du++")
    assert "equal to du" in ds.methods()["du++"]


@pytest.mark.parametrize(("n", "cost"), [(1, 2), (2, 4), (3, 14), (10, 182), (20, 762)])
def test_cost_of_one_replicate(n: int, cost: int) -> None:
    game = RidgeGame([np.eye(3)] * n, np.ones(3), 1.0, 0.5)  # has no formula for du
    assert ds.value(game, "du").n_evaluations == cost


class Recorder:
    """A utility that remembers which rows it was given."""

    def __init__(self) -> None:
        self.pools: list[np.ndarray] = []

    def __call__(self, X: np.ndarray, y: object) -> float:
        self.pools.append(X[:, 0].copy())
        return float(len(X))


def rows_game(sizes: list[int], recorder: Recorder) -> ds.DatasetGame:
    """Every row carries its own number, so pools can be read back."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = {
        f"o{i}": np.arange(start, stop)[:, None] for i, (start, stop) in enumerate(pairwise(starts))
    }
    return ds.DatasetGame(ds.Owners.from_arrays(blocks), recorder)


def test_pools_follow_definition_1() -> None:
    """k·μ rows of the others without repetition, and the same ones with the owner added."""
    sizes = [5, 9, 2, 12]
    recorder = Recorder()
    ds.value(rows_game(sizes, recorder), "du", seed=3)
    owner_of = np.repeat(np.arange(4), sizes)
    expected = {
        (i, round(k * (28 - sizes[i]) / 3)) for i in range(4) for k in (1, 2)
    }  # (absent owner, rows drawn)
    drawn = [p for p in recorder.pools if len(set(p)) == len(p)]
    assert len(drawn) == len(recorder.pools) == 26
    pools = {frozenset(p.tolist()) for p in recorder.pools}
    matched = set()
    for pool in pools:
        for i in range(4):
            own = frozenset(np.flatnonzero(owner_of == i).tolist())
            if own.isdisjoint(pool) and pool | own in pools and (i, len(pool)) in expected:
                matched.add((i, len(pool)))
    assert matched == expected


def test_drawn_counts_are_hypergeometric() -> None:
    """Rows drawn from one owner have the mean and variance of uniform draws without replacement."""
    sizes = [4, 10, 30]
    recorder = Recorder()
    replicates = 400
    budget = 2 + 6 + replicates * 6
    ds.value(rows_game(sizes, recorder), "du", seed=1, budget=budget)
    without_last = [p for p in recorder.pools if p.max(initial=0) < 14 and len(p) == 7]
    counts = np.array([(p < 4).sum() for p in without_last])
    assert len(counts) > 300  # equal pools are asked once
    distinct = len({tuple(p) for p in without_last})
    assert distinct > 300
    mean, variance = 7 * 4 / 14, 7 * (4 / 14) * (10 / 14) * (14 - 7) / 13
    assert counts.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / len(counts)))
    assert counts.var() == pytest.approx(variance, rel=0.35)


def test_every_row_is_drawn_equally_often() -> None:
    recorder = Recorder()
    ds.value(rows_game([3, 6, 9], recorder), "du", seed=2, budget=2 + 6 + 600 * 6)
    pools = [p for p in recorder.pools if p.min(initial=99) >= 3 and len(p) == 8]
    share = np.bincount(np.concatenate(pools), minlength=18)[3:] / len(pools)
    spread = np.sqrt(8 / 15 * 7 / 15 / len(pools))
    assert np.abs(share - 8 / 15).max() < 4.5 * spread


def test_replicates_give_standard_errors() -> None:
    rng = np.random.default_rng(0)
    blocks = {f"o{i}": rng.normal(size=(n, 1)) for i, n in enumerate([4, 8, 15, 6])}
    game = ds.DatasetGame(
        ds.Owners.from_arrays(blocks), lambda X, y: float(np.median(X)) if len(X) else 0.0
    )
    single = ds.value(game, "du", seed=0)
    assert single.std_errors is None
    many = ds.value(game, "du", seed=0, budget=10 + 40 * 16)
    assert set(many.details) == {"trail"}  # nothing of its own
    assert many.n_evaluations == 10 + 40 * 16
    assert many.std_errors.min() > 0
    assert many.biased
    assert many.interval_meaning == "unknown: training, test set"  # a function may train
    fresh = np.array([ds.value(game, "du", seed=s).values for s in range(1, 61)])
    ratio = fresh.std(axis=0, ddof=1) / (many.std_errors * np.sqrt(40))
    assert ((ratio > 0.6) & (ratio < 1.6)).all()


def mean_errors(n: int, draws: int = 20) -> tuple[float, float]:
    """Mean absolute error of DU over owners and draws, also relative to the mean value."""
    rng = np.random.default_rng(n)
    absolute, relative = [], []
    for _ in range(draws):
        sizes = rng.integers(1, 1001, n)
        game = ds.SizeGame(sizes, lambda m: 1 - 1000 / (1000 + m))
        exact = ds.value(game, "exact", options={"by": "enumeration"}).values
        error = np.abs(ds.value(game, "du").values - exact).mean()
        absolute.append(error)
        relative.append(error / exact.mean())
    return float(np.mean(absolute)), float(np.mean(relative))


@pytest.mark.slow
def test_error_shrinks_in_absolute_terms_and_grows_relative_to_the_values() -> None:
    """Measured for I = 5 to 20: values shrink like 1/I, and faster than DU-Shapley's error."""
    errors = np.array([mean_errors(n) for n in range(5, 21)])
    few, many = errors[:4].mean(axis=0), errors[-4:].mean(axis=0)
    assert many[0] < 0.7 * few[0]
    assert many[1] > 1.2 * few[1]
    assert errors[:, 1].max() < 0.06


@pytest.mark.parametrize(("n", "budget"), [(3, 14), (5, 42), (5, 130)])
def test_values_are_the_stated_weights_of_the_answers(n: int, budget: int) -> None:
    ends, options = np.array([0.2, 1.0]), {"semivalue": "shapley"}
    sizes, rng = np.arange(3.0, 3 + n), np.random.default_rng(0)
    talk = du(Problem(n, sizes, "rows", budget, *ends, options, rng))
    answers, found = [ends], None
    try:
        ask = next(talk)
        while True:
            answers.append(np.random.default_rng(len(answers)).random(len(ask.queries)))
            ask = talk.send(answers[-1])
    except StopIteration as end:
        found = end.value
    np.testing.assert_allclose(found.weights @ np.concatenate(answers), found.values, atol=1e-14)
