"""The formulas of the three use-cases against simulated regressions, and games built on them."""

from __future__ import annotations

import numpy as np
import pytest

import dushapley as ds
from dushapley.errors import DUShapleyError, InvalidGame, InvalidOption, InvalidOwners
from dushapley.games import (
    epsilon_from_gamma,
    gamma_from_privacy,
    mean_estimation,
)
from dushapley.games.size.games import cubes
from dushapley_paper.use_cases import RidgeGame, definition_1, ridge_minimiser


def simulated_errors(
    rng: np.random.Generator,
    sizes: list[int],
    gamma: list[float],
    test_moment: np.ndarray,
    repeats: int,
) -> np.ndarray:
    """Squared errors x'(θ̂ − θ) of generalised least squares, averaged over x exactly."""
    d = len(test_moment)
    errors = np.empty(repeats)
    for k in range(repeats):
        # rows scaled by σ/ε have unit noise: the whitened problem
        X = np.concatenate([g * rng.normal(size=(n, d)) for n, g in zip(sizes, gamma, strict=True)])
        noise = rng.normal(size=len(X))
        off = np.linalg.solve(X.T @ X, X.T @ noise)
        errors[k] = off @ test_moment @ off
    return errors


@pytest.mark.parametrize(
    ("sizes", "gamma", "d"),
    [([30, 30], [1, 1], 5), ([40, 25, 60], [2, 2, 2], 8)],
)
@pytest.mark.parametrize("spread", ["identity", "general"])
def test_linear_regression_with_equal_precision(
    sizes: list[int], gamma: list[float], d: int, spread: str
) -> None:
    """Both forms are exact here (γ=1 for the paper's), for any test covariance, by its trace."""
    rng = np.random.default_rng(0)
    root = np.eye(d) if spread == "identity" else rng.normal(size=(d, d))
    moment = root @ root.T
    errors = simulated_errors(rng, sizes, gamma, moment, 4000)
    mean, noise = errors.mean(), errors.std() / np.sqrt(len(errors))
    everyone = np.ones((1, len(sizes)), dtype=bool)
    trace = float(np.trace(moment))
    fixed = ds.LinearRegressionGame(sizes, gamma, d, trace=trace)(everyone)[0]
    assert abs(-fixed - mean) < 4 * noise
    paper = ds.LinearRegressionGame(sizes, gamma, d, form="paper", trace=trace)(everyone)[0]
    assert abs(-paper / gamma[0] ** 2 - mean) < 4 * noise


@pytest.mark.parametrize(
    ("sizes", "gamma", "d"),
    [([30, 30], [1, 3], 5), ([100, 20, 40], [0.5, 5, 2], 10)],
)
def test_fixed_point_is_right_where_the_papers_form_is_not(
    sizes: list[int], gamma: list[float], d: int
) -> None:
    rng = np.random.default_rng(1)
    errors = simulated_errors(rng, sizes, gamma, np.eye(d), 3000)
    everyone = np.ones((1, len(sizes)), dtype=bool)
    fixed = -ds.LinearRegressionGame(sizes, gamma, d)(everyone)[0]
    paper = -ds.LinearRegressionGame(sizes, gamma, d, form="paper")(everyone)[0]
    noise = errors.std() / np.sqrt(len(errors))
    assert abs(fixed - errors.mean()) < 4 * noise + 0.02 * errors.mean()  # an approximation
    assert abs(paper - errors.mean()) > 4 * errors.mean()


@pytest.mark.parametrize(
    ("sizes", "gamma", "d", "high"), [([10, 3], [1, 100], 2, 3.0), ([40, 10], [1, 10], 10, 1.05)]
)
def test_the_fixed_point_is_not_the_expected_error_itself(
    sizes: list[int], gamma: list[float], d: int, high: float
) -> None:
    """A few precise rows, too few for d coefficients: simulation is the reference."""
    everyone = np.ones((1, 2), dtype=bool)
    game = ds.LinearRegressionGame(sizes, gamma, d, form="simulated", draws=3000)
    errors = simulated_errors(np.random.default_rng(5), sizes, gamma, np.eye(d), 5_000)
    assert -game(everyone)[0] == pytest.approx(errors.mean(), rel=0.4)  # a heavy tail
    assert -ds.LinearRegressionGame(sizes, gamma, d)(everyone)[0] > high * -game(everyone)[0]


def test_simulated_pools() -> None:
    game = ds.LinearRegressionGame([12, 30, 8], [1, 2, 0.5], 4, form="simulated", draws=50, seed=3)
    values = ds.value(game, "exact").values
    again = ds.LinearRegressionGame([12, 30, 8], [1, 2, 0.5], 4, form="simulated", draws=50, seed=3)
    np.testing.assert_array_equal(values, ds.value(again, "exact").values)
    assert game.fingerprint == again.fingerprint
    assert game([[0, 0, 0]])[0] == -4
    assert (values > 0).all()  # more rows never hurt
    with pytest.raises(DUShapleyError, match="whole owners only"):
        ds.value(game, "du")
    with pytest.raises(InvalidGame, match="whole"):
        ds.LinearRegressionGame([1.5, 2], 1.0, 3, form="simulated")


def by_enumeration(game: ds.Game) -> np.ndarray:
    options = {"by": "enumeration"}
    return ds.value(game, "exact", options=options, budget=2**game.n_players).values


@pytest.mark.parametrize("seed", range(6))
def test_exact_values_of_twelve_owners_of_four_precisions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gamma, d = rng.choice([0.5, 1, 2, 4], 12), int(rng.integers(1, 9))
    sizes = rng.integers(1, 60, 12) if seed % 2 else rng.choice([5, 30, 200], 12)
    game = ds.LinearRegressionGame(sizes, gamma, d)
    found = ds.value(game, "exact")
    assert found.n_evaluations == 0
    np.testing.assert_allclose(found.values, by_enumeration(game), rtol=0, atol=1e-10)


def test_exact_values_of_the_papers_form_by_kinds() -> None:
    game = ds.LinearRegressionGame([40, 60, 40, 60, 90], [1, 2, 1, 3, 3], 4, form="paper")
    found = ds.value(game, "exact")
    assert found.n_evaluations == 0
    np.testing.assert_allclose(found.values, by_enumeration(game), rtol=0, atol=1e-10)


def test_equal_precisions_are_a_size_game() -> None:
    sizes = np.random.default_rng(0).integers(1, 40, 14)
    for form in ("fixed-point", "paper"):
        game = ds.LinearRegressionGame(sizes, 1.7, 300, form=form)  # type: ignore[arg-type]
        assert ds.value(game, "exact").n_evaluations == 0
        np.testing.assert_allclose(
            ds.value(game, "exact").values, by_enumeration(game), rtol=0, atol=1e-10
        )


def test_kinds_and_the_law_of_the_pooled_size_agree_with_many_owners() -> None:
    """Two routes, one of them in three dimensions: the precisions differ by next to nothing."""
    sizes = np.repeat([100, 50, 20], [60, 50, 40])
    gamma = np.repeat([1.0, 1 + 1e-13, 1 - 1e-13], [60, 50, 40])
    by_kinds = ds.value(ds.LinearRegressionGame(sizes, gamma, 6), "exact")
    by_law = ds.value(ds.LinearRegressionGame(sizes, 1.0, 6), "exact")
    assert by_kinds.details["route"] == "kinds of owners"
    np.testing.assert_allclose(by_kinds.values, by_law.values, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_hundreds_of_owners_of_four_precisions() -> None:
    sizes, gamma = np.repeat([100, 50, 200, 20], 100), np.repeat([0.5, 1, 2, 4], 100)
    game = ds.LinearRegressionGame(sizes, gamma, 10)
    found = ds.value(game, "exact")
    assert found.n_evaluations == 0
    assert found.details["numerical_error"] < 1e-9
    assert abs(found.efficiency_gap) < 1e-7


def test_definition_1_of_a_regressogram_against_its_draws() -> None:
    """The closed form is not Definition 1: bin counts of a draw are random."""
    rng = np.random.default_rng(0)
    counts = np.array([[4, 1, 0], [0, 3, 2], [2, 2, 5], [1, 0, 3]])
    w, chance = mean_estimation(2.0, 1.0), np.array([0.5, 0.2, 0.3])
    game = ds.RegressogramGame(counts, chance, w)
    drawn = np.zeros(4)
    for i in range(4):
        others = np.delete(counts, i, axis=0).sum(axis=0)
        for k in range(4):
            rows = round(k / 3 * int(others.sum()))
            pools = rng.multivariate_hypergeometric(others, rows, size=4000).astype(float)
            drawn[i] += ((w(pools + counts[i]) - w(pools)) @ chance).mean() / 4
    np.testing.assert_allclose(definition_1(game), drawn, atol=1e-3)
    assert np.abs(ds.value(game, "du").values - drawn).max() > 4e-3


def test_regressogram_utility_against_simulated_regressions() -> None:
    """Bins' means drawn from the prior, estimated by shrinkage: the error is −u."""
    rng = np.random.default_rng(2)
    counts, chance = np.array([[3, 0, 7], [1, 2, 0]]), np.array([0.5, 0.3, 0.2])
    noise, prior = 1.5, 0.8
    game = ds.RegressogramGame(counts, chance, mean_estimation(noise, prior))
    for members in ([1, 0], [1, 1], [0, 0]):
        n = np.array(members) @ counts
        means = rng.normal(0, np.sqrt(prior), (20_000, 3))
        averages = means + rng.normal(size=means.shape) * np.sqrt(noise / np.maximum(n, 1))
        shrunk = np.where(n > 0, averages * n / (n + noise / prior), 0.0)
        errors = (shrunk - means) ** 2 @ chance
        room = 4 * errors.std() / np.sqrt(len(errors))
        assert abs(-game([members])[0] - errors.mean()) < room


@pytest.fixture(scope="module")
def binned() -> tuple[ds.RegressogramGame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.random(4000)
    y = np.sin(6 * x) + rng.normal(0, 0.4, 4000)
    cut = {"a": slice(0, 500), "b": slice(500, 2500), "c": slice(2500, 4000)}
    owners = ds.Owners.from_arrays({name: (x[part, None], y[part]) for name, part in cut.items()})
    return ds.RegressogramGame.from_owners(owners), x, y


def test_real_rows_become_cubes(
    binned: tuple[ds.RegressogramGame, np.ndarray, np.ndarray],
) -> None:
    game, _, _ = binned
    risk = game.excess_risk
    assert risk is not None
    assert risk.bins == round(4000 ** (1 / 3))  # d/(d+2β) with d = β = 1
    np.testing.assert_array_equal(game.counts.sum(axis=1), [500, 2000, 1500])
    assert game.probabilities.sum() == pytest.approx(1)
    assert ds.value(game, "exact").n_evaluations == 0


def test_both_halves_of_the_excess_risk_are_those_of_the_truth(
    binned: tuple[ds.RegressogramGame, np.ndarray, np.ndarray],
) -> None:
    game, _, _ = binned
    risk = game.excess_risk
    assert risk is not None
    grid = np.linspace(0, 1, 160_001)
    where = cubes(grid[:, None], risk.bins)
    truth = np.sin(6 * grid)
    means = (np.bincount(where, truth) / np.bincount(where))[where]
    approximation = np.mean((truth - means) ** 2)
    assert risk.noise == pytest.approx(0.16, rel=0.08)  # nearest neighbours, 4,000 rows
    assert risk.approximation == pytest.approx(approximation, abs=4 * 0.16 * np.sqrt(3 / 4000))
    assert risk.prior == pytest.approx(np.var(means), rel=0.1)
    known = 0.16 * risk.bins / 4000  # s²/n_b in every bin, shrinkage being slight
    assert risk.estimation == pytest.approx(known, rel=0.1)


def test_two_features_and_bad_owners() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.random((600, 2)), rng.random(600)
    owners = ds.Owners.from_arrays({"a": (X[:300], y[:300]), "b": (X[300:], y[300:])})
    game = ds.RegressogramGame.from_owners(owners, per_axis=3, noise=0.1, prior=1.0)
    assert game.counts.shape == (2, 9)
    assert game.counts.sum() == 600
    chances = np.full(9, 1 / 9)
    even = ds.RegressogramGame.from_owners(
        owners, per_axis=3, probabilities=chances, noise=0.1, prior=1.0
    )
    np.testing.assert_array_equal(even.probabilities, chances)
    with pytest.raises(InvalidOwners, match="no target"):
        ds.RegressogramGame.from_owners(ds.Owners.from_arrays({"a": X}))
    wide = ds.Owners.from_arrays({"a": (rng.random((50, 30)), rng.random(50))})
    with pytest.raises(InvalidOwners, match="few features"):
        ds.RegressogramGame.from_owners(wide, per_axis=4)
    with pytest.raises(InvalidOwners, match="numbers throughout"):
        ds.RegressogramGame.from_owners(ds.Owners.from_arrays({"a": ([["x"], ["y"]], [0, 1])}))


@pytest.fixture(scope="module")
def designs() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.normal(size=(n, 3)) for n in (8, 15, 30)]


def test_ridge_minimiser_minimises(designs: list[np.ndarray]) -> None:
    rng = np.random.default_rng(6)
    labels = [rng.normal(size=len(X)) for X in designs]
    n, lam = sum(map(len, designs)), 0.3
    found = ridge_minimiser(designs, labels, lam)

    def objective(theta: np.ndarray) -> float:
        losses = [np.sum((y - X @ theta) ** 2) for X, y in zip(designs, labels, strict=True)]
        return lam * float(theta @ theta) + sum(losses) / n  # weights α_i = n_i/n

    for step in 1e-3 * np.eye(3):
        assert objective(found) < min(objective(found + step), objective(found - step))
    X, y = np.concatenate(designs), np.concatenate(labels)
    np.testing.assert_allclose(
        ridge_minimiser(designs, labels, 0.0), np.linalg.pinv(X) @ y, rtol=1e-10
    )


@pytest.mark.parametrize("lam", [0.0, 0.4])
@pytest.mark.parametrize("members", [[1, 1, 0], [1, 1, 1]])
def test_ridge_error_against_simulation(
    designs: list[np.ndarray], lam: float, members: list[int]
) -> None:
    rng = np.random.default_rng(7)
    theta, noise = np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 2.0])
    root = rng.normal(size=(3, 3))
    game = RidgeGame(designs, theta, noise, lam, root @ root.T)
    inside = [i for i in range(3) if members[i]]
    errors = []
    for _ in range(2000):
        labels = [
            designs[i] @ theta + np.sqrt(noise[i]) * rng.normal(size=len(designs[i]))
            for i in inside
        ]
        off = ridge_minimiser([designs[i] for i in inside], labels, lam) - theta
        errors.append(float(off @ root @ root.T @ off))
    room = 4 * np.std(errors) / np.sqrt(len(errors))
    assert abs(-game([members])[0] - np.mean(errors)) < room


def test_ridge_limits(designs: list[np.ndarray]) -> None:
    theta = np.array([1.0, -2.0, 0.5])
    moment = np.diag([1.0, 2.0, 3.0])
    nothing = -float(theta @ moment @ theta)
    game = RidgeGame(designs, theta, 1.0, 1e12, moment)
    assert game([[1, 1, 1]])[0] == pytest.approx(nothing, rel=1e-9)  # λ → ∞
    assert game([[0, 0, 0]])[0] == pytest.approx(nothing, rel=1e-12)
    found = ds.value(RidgeGame(designs, theta, 1.0, 0.2), "exact")
    assert abs(found.efficiency_gap) < 1e-12
    with pytest.raises(InvalidGame, match="negative"):
        RidgeGame(designs, theta, 1.0, -1.0)
    with pytest.raises(InvalidGame, match="matrices"):
        RidgeGame(designs, theta[:2], 1.0, 1.0)


def test_ridge_without_penalty_is_the_running_example() -> None:
    """Averaged over Gaussian designs at λ=0 the error is σ²d/(n−d−1)."""
    rng = np.random.default_rng(8)
    d, sizes = 4, (12, 18)
    errors = [
        -RidgeGame([rng.normal(size=(n, d)) for n in sizes], np.ones(d), 1.7, 0.0)([[1, 1]])[0]
        for _ in range(1000)
    ]
    room = 4 * np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - 1.7 * d / (30 - d - 1)) < room


def test_ridge_with_any_weights(designs: list[np.ndarray]) -> None:
    """Weights of one's own: the minimiser's error over simulated noise is the formula's."""
    rng = np.random.default_rng(0)
    d, lam = designs[0].shape[1], 0.3
    theta, noise = rng.normal(size=d), np.linspace(0.5, 1.5, len(designs))
    alpha = np.linspace(3, 1, len(designs))
    game = RidgeGame(designs, theta, noise, lam, alpha=alpha)
    errors = []
    for _ in range(4000):
        labels = [
            x @ theta + s**0.5 * rng.normal(size=len(x))
            for x, s in zip(designs, noise, strict=True)
        ]
        errors.append(np.sum((ridge_minimiser(designs, labels, lam, alpha) - theta) ** 2))
    room = 4 * np.std(errors) / np.sqrt(len(errors))
    everyone = np.ones((1, len(designs)), dtype=bool)
    assert abs(np.mean(errors) + game(everyone)[0]) < room
    plain = RidgeGame(designs, theta, noise, lam)
    rows = RidgeGame(designs, theta, noise, lam, alpha=[len(x) for x in designs])
    np.testing.assert_allclose(rows(everyone), plain(everyone))
    with pytest.raises(InvalidGame, match="alpha"):
        RidgeGame(designs, theta, noise, lam, alpha=np.zeros(len(designs)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
def test_privacy_of_labels_both_ways(epsilon: float) -> None:
    """(ε, δ) to γ and back; δ is what the densities of two neighbouring labels say."""
    width, delta = 4.0, 1e-4
    gamma = gamma_from_privacy(epsilon, delta, width=width, label_noise=0.7, scale=1.3)
    back = epsilon_from_gamma(gamma, delta, width=width, label_noise=0.7, scale=1.3)
    assert back == pytest.approx(epsilon, rel=1e-9)
    noise = np.sqrt((1.3 / gamma) ** 2 - 0.7**2)
    x = np.linspace(-12, 12 + width / noise, 2_000_001) * noise
    one, other = (np.exp(-((x - m) ** 2) / (2 * noise**2)) for m in (width, 0.0))
    excess = np.maximum(one - np.exp(epsilon) * other, 0) / (noise * np.sqrt(2 * np.pi))
    assert float(excess.sum() * (x[1] - x[0])) == pytest.approx(delta, rel=1e-3)
    assert epsilon_from_gamma(1.3 / 0.7, delta, width=width, label_noise=0.7, scale=1.3) == np.inf


def test_privacy_options_are_checked() -> None:
    with pytest.raises(InvalidOption, match="between 0 and 1"):
        gamma_from_privacy(1.0, 0.0, width=2.0)
    with pytest.raises(InvalidOption, match="width"):
        gamma_from_privacy(1.0, 1e-5, width=-2.0)


def test_privacy_costs_value() -> None:
    """The worked example of the docs: more noise, less value, for everybody else a little more."""
    sizes, d = np.array([60, 40, 80, 50, 70, 30]), 8
    values = []
    for noise in (0.5, 1.0, 2.0, 4.0):
        gamma = np.ones(6)
        gamma[0] = 1 / noise
        values.append(ds.value(ds.LinearRegressionGame(sizes, gamma, d), "exact").values)
    found = np.array(values)
    assert (np.diff(found[:, 0]) < 0).all()
    assert (np.diff(found[:, 1:].sum(axis=1)) > 0).all()
    assert found[-1, 0] > 0  # the fixed point is monotone: noisy rows never hurt


def fixed_point(rows: np.ndarray, gamma: np.ndarray, d: int) -> float:
    """max(−d, −d·x), Σ n γ² x/(1 + (d+1)γ² x) = 1, by bisection: written from the formula alone."""
    if rows.sum() <= d + 1:
        return -float(d)
    low, high = -40.0, 40.0
    for _ in range(80):
        x = np.exp((low + high) / 2)
        more = (rows * gamma**2 * x / (1 + (d + 1) * gamma**2 * x)).sum() < 1
        low, high = ((low + high) / 2, high) if more else (low, (low + high) / 2)
    return max(-float(d), -d * float(np.exp((low + high) / 2)))


def test_four_precisions_are_exact_and_certified() -> None:
    """Twelve owners against all 2^12 coalitions; the certificate is the distance from them."""
    kind, d = np.arange(12) % 4, 5
    sizes, gamma = np.array([20.0, 40, 60, 30])[kind], np.array([0.5, 1, 2, 4])[kind]
    game = ds.LinearRegressionGame(sizes, gamma, d)
    present = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    u = {}
    for pool in present:  # pools of the same numbers of each kind are worth the same
        key = tuple(np.bincount(kind, pool, minlength=4).astype(int))
        u.setdefault(key, fixed_point(pool * sizes, gamma, d))
    worth = [u[tuple(np.bincount(kind, pool, minlength=4).astype(int))] for pool in present]
    reference = ds.value(ds.TableGame(worth), "exact").values
    found = ds.value(game, "exact")
    assert (found.n_evaluations, found.details["route"]) == (0, "kinds of owners")
    np.testing.assert_allclose(found.values, reference, atol=1e-10)
    du = [
        np.mean(
            [
                fixed_point(np.where(np.arange(12) == i, sizes, k / 11 * sizes), gamma, d)
                - fixed_point(np.where(np.arange(12) == i, 0, k / 11 * sizes), gamma, d)
                for k in range(12)
            ]
        )
        for i in range(4)
    ]
    ours = ds.value(game, "du")
    assert ours.n_evaluations == 0
    np.testing.assert_allclose(ours.values[:4], du, atol=1e-10)
    certificate = ds.guarantees.certificate(game)
    assert certificate.is_guarantee
    error = np.abs(ours.values - reference)
    assert (error <= certificate.bound).all()
    assert (certificate.bound <= error + 1e-9).all()


@pytest.mark.parametrize("seed", range(25))
def test_the_footnotes_bound_is_not_violated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 8)), int(rng.integers(1, 5))
    gamma = rng.choice(10 ** rng.uniform(-0.5, 0.5, 3), n)
    sizes = np.ceil((d + 2 + 1 / gamma.min() ** 2) * 10 ** rng.uniform(0, 1.5, n))
    game = ds.LinearRegressionGame(sizes, gamma, d)
    exact = ds.value(game, "exact", options={"by": "enumeration"}).values
    bound = ds.guarantees.footnote_bound(game)
    assert bound.is_guarantee
    assert (np.abs(ds.value(game, "du").values - exact) <= bound.bound).all()


def test_the_footnotes_bound_refuses_owners_below_the_floor() -> None:
    with pytest.raises(ds.errors.AssumptionFails, match="holds 6 rows; the bound needs more than"):
        ds.guarantees.footnote_bound(ds.LinearRegressionGame([6, 90], [1, 2], d=5))
    with pytest.raises(ds.errors.AssumptionFails, match="fixed-point"):
        ds.guarantees.footnote_bound(ds.LinearRegressionGame([60, 90], 1.0, 5, form="paper"))
    two = ds.guarantees.footnote_bound(ds.LinearRegressionGame([60, 90], [1, 2], d=5))
    assert two.bound.tolist() == [0.0, 0.0]  # with two owners both terms are exact
    free = ds.LinearRegressionGame(np.arange(100, 140), 1 + np.arange(40) / 40, d=5)
    with pytest.raises(ds.errors.AssumptionFails, match="few kinds"):
        ds.guarantees.certificate(free)
