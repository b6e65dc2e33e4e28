"""The Gaussian process: its mathematics, its promises, and the games built to break it."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import dushapley as ds
from dushapley.engine.value import Run
from dushapley.estimators.exact import bits
from dushapley.estimators.gp import check, functional, kernel, study
from dushapley.estimators.gp.fit import Likelihood, Observed, Posterior
from dushapley.games import classic
from dushapley.protocol import Problem
from dushapley.report.checks import checks
from dushapley.results.uncertainty import rank_probabilities

SIZES = np.array([120.0, 30, 60, 200, 15, 80, 45, 150])


def learning_game(n: int = 8, seed: int = 0) -> ds.TableGame:
    """A learning curve over rows of different quality: what `gp` is made for."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(2, 5, n))
    quality = rng.uniform(0.3, 1.2, n)
    z = bits(np.arange(2**n), n)
    rows = z @ sizes
    curve = rows / (rows + 80)
    blend = np.divide(z @ (sizes * quality), rows, out=np.zeros(2**n), where=rows > 0)
    return ds.TableGame(curve * (0.5 + 0.5 * blend), sizes)


def relative_mse(game: ds.Game, values: np.ndarray) -> float:
    exact = ds.value(game, "exact", budget=2**game.n_players).values
    return float(np.mean((values - exact) ** 2) / np.var(exact))


def some_posterior(seed: int = 0, count: int = 30) -> Posterior:
    rng = np.random.default_rng(seed)
    game = learning_game()
    pools = study.pilot(8, count, rng)
    observed = Observed(pools, game(pools), kernel.log_relative_sizes(game.sizes))
    mean, spread = kernel.prior(8)[:2]
    return Posterior(observed, mean + 0.3 * spread * rng.standard_normal(len(mean)))


# --- the mathematics


@pytest.mark.parametrize("told_apart", [True, False])
def test_gradient_is_the_slope_of_the_likelihood(
    told_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not told_apart:  # as of many owners
        monkeypatch.setattr(kernel, "MOST_TOLD_APART", 7)
    posterior = some_posterior()
    observed, theta = posterior.observed, posterior.theta
    likelihood = Likelihood(observed.pools, observed.targets, observed.log_sizes)
    _, gradient = likelihood(theta)
    step = 1e-5
    for at, direction in enumerate(step * np.eye(len(theta))):
        up = likelihood(theta + direction)[0]
        down = likelihood(theta - direction)[0]
        assert gradient[at] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-4)


def test_likelihood_by_blocks_is_that_of_the_whole_covariance() -> None:
    rng = np.random.default_rng(2)
    pools = np.unique(rng.random((300, 12)) < rng.random((300, 1)), axis=0)[1:]
    sizes = rng.uniform(1, 5, 12)
    observed = Observed(pools, np.log(pools @ sizes), kernel.log_relative_sizes(sizes))
    posterior = Posterior(observed, kernel.prior(12)[0])
    value, _ = Likelihood(pools, observed.targets, observed.log_sizes)(posterior.theta)
    whole = kernel.covariance(posterior.hyper, posterior.seen, posterior.seen)
    whole[np.diag_indices_from(whole)] += posterior.nugget
    explained = observed.targets @ np.linalg.solve(whole, observed.targets)
    assert value == pytest.approx(0.5 * (explained + np.linalg.slogdet(whole)[1]))
    alone = 1 / np.diag(np.linalg.inv(whole))
    np.testing.assert_allclose(posterior.alone, alone, rtol=1e-6)


@pytest.mark.parametrize("cheap", [True, False])
def test_every_library_has_one_thread_while_gp_runs(cheap: bool) -> None:
    threads: list[int] = []

    def utility(z: np.ndarray) -> np.ndarray:
        found = threadpool_info()
        threads.extend(lib["num_threads"] for lib in found if lib["user_api"] == "blas")
        return z.sum(axis=1) ** 0.5

    with threadpool_limits(2):
        ds.value(ds.CallableGame(utility, 8, cheap=cheap), "gp", budget=30)
    assert set(threads) == {1}


def test_gradient_holds_for_fractions_of_owners() -> None:
    rng = np.random.default_rng(1)
    pools = rng.random((20, 5))
    observed = Observed(pools, rng.random(20), kernel.log_relative_sizes(SIZES[:5]))
    mean = kernel.prior(5)[0]
    likelihood = Likelihood(observed.pools, observed.targets, observed.log_sizes)
    gradient = likelihood(mean)[1]
    step = 1e-5 * np.ones(len(mean))
    up, down = (likelihood(mean + s)[0] for s in (step, -step))
    assert gradient.sum() == pytest.approx((up - down) / 2e-5, rel=1e-5)


def test_a_strong_owner_sets_pools_apart() -> None:
    theta = kernel.prior(4)[0]
    theta[-4] = 2.0  # of the first owner
    pools = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]], dtype=bool)
    observed = Observed(pools, np.arange(3.0), np.zeros(4))
    posterior = Posterior(observed, theta)
    found = kernel.bent(posterior.hyper, posterior.seen, posterior.seen)
    assert found[0, 1] < found[1, 2]
    p, a = posterior.seen.mix, posterior.strength**2
    differ = 0.5 * (a * (np.sqrt(p[0]) - np.sqrt(p[1])) ** 2).sum()
    h, fade = posterior.hyper, np.exp(-posterior.hyper.mix_decay * posterior.seen.log_count[:2])
    by_hand = h.curve + h.shift * np.exp(-differ / h.shift_length)
    by_hand += h.mix * fade.prod() * np.exp(-differ / h.mix_length)
    assert found[0, 1] == pytest.approx(by_hand)


def test_one_owner_who_spoils_every_pool_is_learnt() -> None:
    rows = np.array([40.0, 60, 80, 50, 70, 45, 55, 65, 75, 85])

    def utility(z: np.ndarray) -> np.ndarray:
        total = np.maximum(z @ rows, 1e-9)
        spoilt = z[:, 3] * rows[3] / total
        return total / (total + 100) * np.exp(-3 * spoilt) - 0.3 * np.sqrt(spoilt)

    game = ds.CallableGame(utility, 10, rows, cheap=True)
    runs = [ds.value(game, "gp", budget=60, seed=seed) for seed in range(3)]
    assert np.mean([relative_mse(game, v.values) for v in runs]) < 5e-8
    assert all(v.values.argmin() == 3 for v in runs)


def test_covariance_is_symmetric_and_its_diagonal_known() -> None:
    posterior = some_posterior()
    seen = posterior.seen
    found = kernel.covariance(posterior.hyper, seen, seen)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(found), kernel.terms_diagonal(posterior.hyper, seen))
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_hopeless_hyper_parameters_cost_much_instead_of_failing() -> None:
    observed = some_posterior().observed
    theta = kernel.prior(8)[0]
    theta[[3, 4]] = [700.0, 6.0]  # overflows
    with np.errstate(all="ignore"):
        assert Likelihood(observed.pools, observed.targets, observed.log_sizes)(theta) is None


def test_functional_on_all_pools_is_the_shapley_value() -> None:
    game = learning_game(6, seed=3)
    whole = functional.functional(6, 64, np.random.default_rng(0))
    values = whole.weights @ game(whole.pools) - game.values[0] / 6
    np.testing.assert_allclose(values, ds.value(game, "exact").values, atol=1e-12)


@pytest.mark.parametrize("n", [9, 14, 40])
def test_sampled_functional_is_exact_for_additive_games(n: int) -> None:
    worth = np.random.default_rng(n).normal(size=n)
    sampled = functional.functional(n, 400, np.random.default_rng(0))
    found = sampled.weights @ (sampled.pools @ worth + 0.01 * sampled.pools.sum(axis=1) ** 2)
    np.testing.assert_allclose(found, worth + 0.01 * n, atol=1e-9)


def test_nuggets_of_all_coalitions_add_up() -> None:
    posterior = some_posterior()
    pools = bits(np.arange(1, 2**8), 8)
    weights = functional.exact_weights(pools)
    brute = (weights.T * kernel.nugget(posterior.hyper, pools.sum(axis=1, dtype=float))) @ weights
    np.testing.assert_allclose(functional.nugget_covariance(posterior), brute, atol=1e-15)


def test_covariance_of_values_is_that_of_the_joint_normal_law() -> None:
    posterior = some_posterior()
    whole = functional.functional(8, 2**8, np.random.default_rng(0))
    seen = posterior.view(whole.pools)
    total = kernel.covariance(posterior.hyper, seen, seen)
    total[np.diag_indices_from(total)] += kernel.nugget(posterior.hyper, seen.owners)
    rows = {pool.tobytes(): at for at, pool in enumerate(whole.pools)}
    at = [rows[pool.tobytes()] for pool in posterior.observed.pools]
    gain = np.linalg.solve(total[np.ix_(at, at)], total[at])
    left = total - total[:, at] @ gain
    np.testing.assert_allclose(
        functional.value_covariance(posterior, whole, whole),
        whole.weights @ left @ whole.weights.T,
        atol=1e-9,
    )


def test_greedy_choice_minimises_the_variance_it_claims_to() -> None:
    posterior = some_posterior(count=14)
    whole = functional.functional(8, 2**8, np.random.default_rng(0))
    seen = {pool.tobytes() for pool in posterior.observed.pools}
    pools = study.candidates(8, seen, np.random.default_rng(0))[::4]
    with_answers = functional.covariance_with_answers(posterior, whole)
    chosen = study.most_telling(posterior, whole, with_answers, pools, 3)

    def left_after(more: np.ndarray) -> float:
        observed = posterior.observed
        grown = Observed(
            np.concatenate([observed.pools, more]),
            np.concatenate([observed.answers, np.zeros(len(more))]),
            observed.log_sizes,
        )
        after = Posterior(grown, posterior.theta)
        return float(np.trace(functional.value_covariance(after, whole, whole)))

    best = min(range(len(pools)), key=lambda c: left_after(pools[c : c + 1]))
    assert (chosen[0] == pools[best]).all()
    second = min(
        range(len(pools)), key=lambda c: left_after(np.concatenate([chosen[:1], pools[c : c + 1]]))
    )
    assert (chosen[1] == pools[second]).all()


# --- what it promises


@pytest.mark.parametrize("budget", [18, 30, 48, 100])
def test_budget_is_spent_on_different_pools(budget: int) -> None:
    game = learning_game()
    asked: list[bytes] = []

    def counted(z: np.ndarray) -> np.ndarray:
        asked.extend(row.tobytes() for row in z)
        return game(z)

    v = ds.value(ds.CallableGame(counted, 8, game.sizes, cheap=True), "gp", budget=budget)
    assert len(asked) == len(set(asked)) == v.n_evaluations == budget


def test_values_are_efficient_and_linear_in_the_answers() -> None:
    game = learning_game()
    talk = ds.AskTell("gp", 8, sizes=game.sizes, budget=40)
    answers: list[float] = []
    while (ask := talk.ask()) is not None:
        found = game(ask.queries)
        answers.extend(found.tolist())
        talk.tell(found)
    assert talk.estimate is not None
    assert talk.estimate.weights is not None
    np.testing.assert_allclose(talk.estimate.weights @ answers, talk.estimate.values, atol=1e-12)
    assert talk.estimate.values.sum() == pytest.approx(game.values[-1] - game.values[0])
    assert talk.estimate.weights.shape == (8, 40)


def test_live_estimates_come_after_every_batch() -> None:
    game = learning_game()
    talk = ds.AskTell("gp", 8, sizes=game.sizes, budget=60)
    talk.tell(game(talk.ask().queries))
    talk.tell(game(talk.ask().queries))  # the pilot
    assert talk.ask().so_far.std_errors is None  # nothing was forecast yet
    talk.tell(game(talk.ask().queries))
    errors = []
    while (ask := talk.ask()) is not None:
        assert ask.so_far is not None
        assert ask.so_far.std_errors is not None
        errors.append(float(ask.so_far.std_errors.mean()))
        talk.tell(game(ask.queries))
    assert len(errors) >= 2
    assert errors[-1] < errors[0]


def test_same_seed_same_bits_also_in_another_process() -> None:
    code = (
        "import dushapley as ds; g = ds.CallableGame(lambda z: (z @ [1.,2,3,4,5,6,7])**.5, 7, "
        "[1,2,3,4,5,6,7]); print(ds.value(g, 'gp', seed=5).values.tobytes().hex())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout != ""


def test_too_small_a_budget_is_refused_with_what_is_needed() -> None:
    with pytest.raises(ds.DUShapleyError, match="at least 18"):
        ds.value(learning_game(), "gp", budget=17)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_owners_are_enumerated_and_told_so(n: int) -> None:
    game = ds.TableGame(np.random.default_rng(n).random(2**n))
    v = ds.value(game, "gp")
    assert v.n_evaluations == 2**n
    assert "all" in v.notes[0]
    assert "exact" in v.notes[0]
    np.testing.assert_allclose(v.values, ds.value(game, "exact").values)


def test_one_owner_gets_everything() -> None:
    assert ds.value(ds.TableGame([1.0, 4.0]), "gp").values.tolist() == [3.0]


@pytest.mark.parametrize("budget", [10, 13, 15])
def test_four_owners_below_enumeration(budget: int) -> None:
    v = ds.value(learning_game(4), "gp", budget=budget)
    assert v.n_evaluations == budget
    assert v.std_errors is not None
    assert np.isfinite(v.std_errors).all()


def test_auto_runs_gp_and_says_why() -> None:
    v = ds.value(learning_game(), "auto", budget=48)
    assert v.method == "auto → gp"
    assert v.n_evaluations == 48
    assert "256 coalitions exceed the budget of 48" in v.notes[0]
    assert ds.value(learning_game(), "auto", budget=256).method == "auto → exact"


def test_more_accurate_than_sampling_and_better_with_budget() -> None:
    games = [learning_game(9, seed) for seed in range(3)]

    def error(method: str, budget: int) -> float:
        return float(
            np.mean([relative_mse(g, ds.value(g, method, budget=budget).values) for g in games])
        )

    found = [error("gp", budget) for budget in (27, 54, 108)]
    assert all(more > less for more, less in pairwise(found))
    assert found[1] < error("permutation", 162) / 20


def test_equal_owners_get_equal_values_and_null_owners_nothing() -> None:
    n = 8
    sizes = np.array([60.0, 60, 60, 60, 200, 200, 30, 30])

    def utility(z: np.ndarray) -> np.ndarray:
        rows = z[:, :6] @ sizes[:6]  # the last two hold nothing of use
        return rows / (rows + 100)

    v = ds.value(ds.CallableGame(utility, n, sizes), "gp")
    spread = np.ptp(v.values)
    assert np.ptp(v.values[:4]) < 0.05 * spread
    assert abs(v.values[4] - v.values[5]) < 0.05 * spread
    assert np.abs(v.values[6:]).max() < 0.05 * spread


def test_unknown_sizes_and_owners_without_rows_are_legal() -> None:
    game = learning_game()
    assert relative_mse(game, ds.value(ds.TableGame(game.values), "gp").values) < 0.1
    v = ds.value(ds.SizeGame([0, 50, 70, 90, 20, 40], lambda n: n / (n + 50)), "gp", budget=30)
    assert abs(v.values[0]) < 0.01


def test_constant_utility_is_shared_equally() -> None:
    v = ds.value(ds.CallableGame(lambda z: np.where(z.any(axis=1), 2.0, 0.5), 6), "gp", budget=30)
    np.testing.assert_allclose(v.values, 0.25, atol=1e-9)


def test_a_constant_game_is_told_as_one() -> None:
    v = ds.value(ds.CallableGame(lambda z: np.full(len(z), 3.0), 6), "gp", budget=30)
    assert not v.values.any()
    (note,) = v.notes
    assert note.startswith("All pools that were asked are worth the same")
    assert "nan" not in repr(v)
    forecasts = next(c for c in checks(v) if c["name"] == "Forecasts")
    assert "nothing to foresee" in forecasts["text"]


@pytest.mark.parametrize("unit", [1e-130, 1e-20, 1e20, 1e130])
def test_far_units_are_no_matter_either(unit: float) -> None:
    game = learning_game()
    one, other = (ds.value(ds.TableGame(c * game.values), "gp", budget=40) for c in (1.0, unit))
    np.testing.assert_allclose(one.values, other.values / unit, atol=1e-3 * np.ptp(one.values))
    np.testing.assert_allclose(one.std_errors, other.std_errors / unit, rtol=0.1)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
@pytest.mark.parametrize("method", ["gp", "permutation", "leverage"])
def test_units_whose_squares_are_no_numbers_are_refused(method: str, unit: float) -> None:
    game = ds.TableGame(unit * learning_game().values)
    with pytest.raises(ds.DUShapleyError, match=r"by a constant"):
        ds.value(game, method, budget=40)
    exact = ds.value(game, "exact").values
    np.testing.assert_allclose(exact / unit, ds.value(learning_game(), "exact").values)


def test_units_of_the_utility_do_not_matter() -> None:
    game = learning_game()
    scaled = ds.TableGame(1000 * game.values - 7, game.sizes)
    one, other = (ds.value(g, "gp", budget=40) for g in (game, scaled))
    # the fit stops where rounding tells it to, hence not to the last digit
    np.testing.assert_allclose(1000 * one.values, other.values, atol=1e-3 * np.ptp(other.values))


def test_precision_stops_early() -> None:
    game = learning_game(10)
    v = ds.value(game, "gp", budget=500, precision=0.1)
    assert v.complete
    assert v.n_evaluations < 200
    assert v.std_errors is not None
    assert 1.96 * v.std_errors.max() <= 0.1 * np.ptp(v.values)


def test_precision_does_not_stop_on_error_bars_that_nothing_checked() -> None:
    game = jumping_game(10)
    v = ds.value(game, "gp", budget=60, precision=0.05)
    assert v.details["model"] == "gaussian process, corrected by samples"
    assert v.n_evaluations == 60


# --- order of owners


def test_order_probabilities_agree_with_the_covariance() -> None:
    v = ds.value(learning_game(), "gp", budget=20)
    greater = ds.probability_greater(v)
    np.testing.assert_allclose(greater + greater.T, 1.0)
    ranks = rank_probabilities(v)
    np.testing.assert_allclose(ranks.sum(axis=0), 1.0)
    np.testing.assert_allclose(ranks.sum(axis=1), 1.0)
    expected_rank = greater.sum(axis=0) - 0.5  # how many are worth more
    np.testing.assert_allclose(ranks @ np.arange(8), expected_rank, atol=0.05)


def test_order_is_certain_for_exact_values_and_refused_without_errors() -> None:
    exact = ds.value(learning_game(4), "exact")
    assert set(np.unique(ds.probability_greater(exact))) == {0.0, 0.5, 1.0}
    with pytest.raises(ds.DUShapleyError, match="unknown: sampling"):
        ds.probability_greater(ds.value(learning_game(), "loo"))


# --- games built to break it


def hash_game(n: int) -> ds.TableGame:
    names = (hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(2**n))
    return ds.TableGame([int.from_bytes(d[:6], "big") / 2**48 for d in names])


def jumping_game(n: int) -> ds.TableGame:
    weights = np.random.default_rng(0).integers(1, 20, n)
    z = bits(np.arange(2**n), n)
    return ds.TableGame((z @ weights >= 0.35 * weights.sum()).astype(float), weights)


def pair_game(n: int) -> ds.TableGame:
    z = bits(np.arange(2**n), n)
    return ds.TableGame((z[:, 0] & z[:, 1]).astype(float))


def covered(game: ds.Game, v: ds.Valuation) -> float:
    exact = ds.value(game, "exact", budget=2**game.n_players).values
    assert v.std_errors is not None
    return float(np.mean(np.abs(v.values - exact) <= 1.96 * v.std_errors + 1e-12))


@pytest.mark.parametrize("budget", [60, 100])
@pytest.mark.parametrize("make", [hash_game, jumping_game, pair_game])
def test_games_without_structure_have_honest_intervals(make, budget) -> None:
    game = make(10)
    runs = [ds.value(game, "gp", budget=budget, seed=seed) for seed in range(3)]
    for v in runs:
        if make is not hash_game:  # of noise there is nothing to distrust: it says so by itself
            assert v.details["sampled"] == list(range(2, 10))
            assert "does not trust" in v.notes[0]
        assert v.efficiency_gap == pytest.approx(0, abs=1e-9)
    assert np.mean([covered(game, v) for v in runs]) >= 0.85


def test_smooth_games_are_not_sent_to_the_fallback() -> None:
    for seed in range(3):
        v = ds.value(learning_game(9, seed), "gp", seed=seed)
        assert v.details["model"] == "gaussian process"
        assert v.notes == ()
        assert v.details["random_forecasts"] >= 4


def test_slopes_of_random_pools_estimate_the_values_and_fade_as_all_is_seen() -> None:
    n = 8
    game = learning_game(n)
    pools = bits(np.arange(1, 2**n - 1), n)
    sizes = check.strata(n) >= 0
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        drawn = pools[rng.permutation(len(pools))[:120]]
        drawn = drawn[drawn.sum(axis=1) > 1]
        slopes = check.slope_map(drawn, np.ones(len(drawn), dtype=bool), sizes)
        found.append(slopes @ game(drawn))
    inside = functional.Functional(pools, functional.exact_weights(pools).T).of_sizes(sizes)
    truth = inside.weights @ game(pools)
    truth -= truth.mean()
    left = 1 - 120 / len(pools)  # the part that nobody asked
    np.testing.assert_allclose(np.mean(found, axis=0), left * truth, atol=0.02)
    whole = pools[pools.sum(axis=1) > 1]
    assert not check.slope_map(whole, np.ones(len(whole), dtype=bool), sizes).any()


def test_a_wrong_process_is_corrected_at_the_sizes_where_it_is_wrong() -> None:
    """Owners 1 and 2 spoil pools of up to three owners, and nothing else."""
    n = 12
    z = bits(np.arange(2**n), n)
    size = z.sum(axis=1)
    steps = np.floor(3 * size / n) / 3
    game = ds.TableGame(steps - 2.0 * ((size <= 3) & (z[:, 0] ^ z[:, 1])))
    runs = [ds.value(game, "gp", budget=144, seed=seed) for seed in range(3)]
    assert np.mean([covered(game, v) for v in runs]) >= 0.9


def test_a_staircase_is_known_by_its_teeth() -> None:
    sizes = np.random.default_rng(5).integers(20, 200, 12).astype(float)
    part = bits(np.arange(2**12), 12) @ sizes / sizes.sum()
    stairs = ds.TableGame(np.floor(12 * part + 1e-12) / 12, sizes)  # more steps than few values
    v = ds.value(stairs, "gp", budget=288)
    assert v.details["sampled"] == list(range(2, 12))
    assert covered(stairs, v) >= 0.9


def test_a_correction_is_drawn_in_by_what_chance_makes_of_it() -> None:
    n, rng = 10, np.random.default_rng(0)
    pools = bits(np.arange(1, 2**n - 1), n)
    pools = pools[rng.permutation(len(pools))[:200]]
    pools = pools[pools.sum(axis=1) > 1]
    random = np.ones(len(pools), dtype=bool)
    slopes = check.slope_map(pools, random, check.strata(n) >= 0)

    def part(missed: np.ndarray) -> float:
        each = check.variances(pools.sum(axis=1), missed, n, random)
        return check.believable(slopes, missed, each)

    noise = rng.standard_normal(len(pools))
    assert part(np.where(np.arange(len(pools)) == 7, 50.0, 0.01 * noise)) < 0.4  # one wild pool
    assert part(pools @ np.linspace(-1, 1, n) + 0.1 * noise) > 0.8
    assert part(np.zeros(len(pools))) == 0


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_few_values_that_are_foreseen_are_no_jumps(n: int) -> None:
    game = ds.SizeGame([100] * n, w=lambda m: m / (m + 100))
    v = ds.value(ds.CallableGame(game, n, game.sizes, cheap=True), "gp", budget=2**n - 4)
    assert v.details["sampled"] == []
    assert v.std_errors.max() < 2e-3


def test_noise_is_not_taken_for_structure() -> None:
    game = learning_game(10, seed=1)
    noise = 0.03 * np.random.default_rng(0).standard_normal(2**10)
    noisy = ds.TableGame(game.values + noise, game.sizes)
    runs = [ds.value(noisy, "gp", seed=seed) for seed in range(2)]
    plain = [ds.value(game, "gp", seed=seed) for seed in range(2)]
    assert np.mean([covered(noisy, v) for v in runs]) >= 0.85
    assert all(
        a.std_errors.mean() > 2 * b.std_errors.mean() for a, b in zip(runs, plain, strict=True)
    )


# --- slower: real games, many owners


def coverage(name: str, folder: Path, budgets: list[int], shrink: float = 1.0) -> float:
    with np.load(folder / "games" / f"{name}.npz") as file:
        game = ds.TableGame(file["u"], file["sizes"])
    exact = ds.value(game, "exact", budget=2**game.n_players).values
    inside = [
        np.abs(v.values - exact) <= 1.96 * shrink * v.std_errors
        for budget in budgets
        for v in (ds.value(game, "gp", budget=budget, seed=seed) for seed in range(6))
    ]
    return float(np.mean(inside))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bbc-12", "adult-noisy-12"])
def test_intervals_cover_on_trained_models(name: str, data_folder: Path) -> None:
    assert 0.85 <= coverage(name, data_folder, [84, 168]) <= 1.0


@pytest.mark.slow
def test_intervals_a_quarter_as_wide_would_not_cover(data_folder: Path) -> None:
    assert coverage("bbc-12", data_folder, [84], shrink=0.25) < 0.6


@pytest.mark.slow
def test_two_hundred_owners() -> None:
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(2, 6, 200))
    v = ds.value(ds.SizeGame(sizes, lambda n: n / (n + 3000)), "gp", budget=500)
    assert v.n_evaluations == 500
    # the exact value by quadrature over the share of others that has joined
    nodes, weights = np.polynomial.legendre.leggauss(40)
    exact = np.zeros(200)
    for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        joined = rng.random((4000, 200)) < t
        rows = joined @ sizes
        without = rows[:, None] - joined * sizes
        f = without / (without + 3000)
        exact += w * ((without + sizes) / (without + sizes + 3000) - f).mean(axis=0)
    assert np.mean((v.values - exact) ** 2) / np.var(exact) < 0.01


def test_classic_games_are_answered_honestly() -> None:
    for game in (classic.airport(np.arange(1, 11)), classic.glove(4, 5)):
        v = ds.value(game, "gp", budget=60)
        inside = np.abs(v.values - game.shapley_values) <= 3 * 1.96 * v.std_errors
        assert inside.mean() >= 0.9


def test_problem_is_all_it_sees() -> None:
    """A generator of questions: it can be driven without a game or an engine."""
    from dushapley.estimators.gp import gp

    game = learning_game()
    problem = Problem(
        8, game.sizes, "none", 30, game.values[0], game.values[-1], {}, np.random.default_rng(0)
    )
    talk = gp(problem)
    ask = next(talk)
    asked = 0
    with contextlib.suppress(StopIteration):
        while True:
            asked += len(ask.queries)
            ask = talk.send(game(ask.queries))
    assert asked == 30


@pytest.mark.slow
@pytest.mark.parametrize(("n", "budget"), [(50, 300), (100, 600)])
def test_intervals_hold_for_many_owners(n: int, budget: int) -> None:
    """Above 32 owners the functional is sampled, and what that adds to the error is counted."""
    sizes = np.random.default_rng(n).integers(10, 500, n)

    def utility(z: np.ndarray) -> np.ndarray:
        rows = z @ sizes
        return rows / (rows + 1000.0)

    exact = ds.value(ds.SizeGame(sizes, lambda rows: rows / (rows + 1000.0)), "exact").values
    found = ds.value(ds.CallableGame(utility, n, sizes, cheap=True), "gp", budget=budget)
    covered = np.abs(found.values - exact) < 1.96 * found.std_errors
    assert covered.mean() >= 0.9
    assert np.mean((found.values - exact) ** 2) < 2e-4 * exact.var()


def test_a_game_that_shows_nothing_is_no_certainty() -> None:
    """Ten owners of whom five are needed: few pools all say zero, and the errors say so."""
    game = ds.CallableGame(lambda z: z[:, :5].all(axis=1) * 1.0, 10)
    truth = np.array([0.2] * 5 + [0.0] * 5)
    found = ds.value(game, "gp", budget=22)
    assert (np.abs(found.values - truth) < 1.96 * found.std_errors).all()


@settings(max_examples=12)
@given(st.integers(3, 6), st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.5, 0.95]))
def test_it_may_begin_with_any_pools(n: int, seed: int, density: float) -> None:
    """Nobody's, everybody's and twice the same among them: they say nothing new."""
    rng = np.random.default_rng(seed)
    known = rng.random((rng.integers(0, 12), n)) < density
    known = np.concatenate([known, known[:2], np.zeros((1, n)), np.ones((1, n))]).astype(bool)
    worth = rng.exponential(size=n) * 10.0 ** rng.integers(-9, 9)
    game = ds.CallableGame(lambda z: np.sqrt(z @ worth), n)
    v = Run(game, "gp", budget=2 * n + 2, known=known).pay()
    assert v.values.sum() == pytest.approx(v.u_full - v.u_empty)
    new = {row.tobytes() for row in known if 0 < row.sum() < n}
    assert v.n_distinct == v.n_evaluations <= 2 * n + 2 + len(new)


def test_known_pools_leave_room_in_the_budget_or_are_refused() -> None:
    known = np.unique(np.random.default_rng(0).random((60, 8)) < 0.5, axis=0)[:17]
    with pytest.raises(ds.DUShapleyError, match=r"counts the 17 known .* budget of 35 or more"):
        ds.AskTell("gp", 8, budget=20, known=known)
    with pytest.raises(ds.DUShapleyError, match="rest on its own questions"):
        ds.AskTell("permutation", 8, budget=60, known=known)
    with pytest.raises(ds.DUShapleyError, match="Pass a budget of 256 or more"):
        ds.AskTell("gp", 8, budget=60, known=np.arange(1, 255)[:, None] >> np.arange(8) & 1 == 1)
    talk = ds.AskTell("gp", 8, budget=35, known=known)
    while (ask := talk.ask()) is not None:
        talk.tell(np.sqrt(ask.queries.sum(axis=1)))
    assert talk.n_told == 35
    with pytest.raises(ds.DUShapleyError, match="a column for each of the 7 owners"):
        ds.AskTell("gp", 7, budget=35, known=known)
