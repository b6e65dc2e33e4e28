"""The formulas of the three use-cases against simulated regressions, and games built on them."""

from __future__ import annotations

import numpy as np
import pytest

import dushapley as ds
from dushapley.errors import InvalidGame, InvalidOwners
from dushapley.games import RidgeGame, mean_estimation, ridge_minimiser
from dushapley.games.size.binning import Cubes


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
    where = Cubes(np.zeros(1), np.ones(1), risk.bins).locate(grid[:, None])
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
