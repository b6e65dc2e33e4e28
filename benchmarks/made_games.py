"""Complete utility tables trained here, of data and models that the stored games do not have.

The kernel, priors and design of `gp` were not tuned on them. Every table holds all 2^I utilities.
They are kept in the temporary directory, because training them takes a few minutes.

    python benchmarks/made_games.py        # make them all
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import dushapley as ds
from stored_games import StoredGame

FOLDER = Path(tempfile.gettempdir()) / "dushapley-made-games"


@dataclass(frozen=True)
class Split:
    """Rows of each owner, and the test rows."""

    X: list[np.ndarray]
    y: list[np.ndarray]
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.array([len(part) for part in self.y])


def split(X: np.ndarray, y: np.ndarray, sizes: np.ndarray, n_test: int, order: np.ndarray) -> Split:
    """Cut rows into owners along `order`; the test rows come first, at random."""
    rng = np.random.default_rng(len(y))
    test = rng.permutation(len(y))[:n_test]
    rest = order[~np.isin(order, test)]
    at = np.cumsum([0, *sizes])
    parts = [rest[a:b] for a, b in pairwise(at)]
    return Split([X[p] for p in parts], [y[p] for p in parts], X[test], y[test])


def unequal(rng: np.random.Generator, n_players: int, low: int, high: int) -> np.ndarray:
    return np.rint(np.exp(rng.uniform(np.log(low), np.log(high), n_players))).astype(int)


def table(part: Split, score: Callable[[np.ndarray, np.ndarray, int], float], empty: float):
    """Utilities of all coalitions by training one model each."""
    n = len(part.y)
    u = np.full(2**n, empty)
    for index in range(1, 2**n):
        inside = [j for j in range(n) if index >> j & 1]
        X = np.concatenate([part.X[j] for j in inside])
        y = np.concatenate([part.y[j] for j in inside])
        u[index] = score(X, y, index)
    return u


def members(n: int) -> np.ndarray:
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


def ridge_table(part: Split, strength: float) -> np.ndarray:
    """Minus the test error of ridge regression, from the owners' second moments."""
    X = [np.c_[x, np.ones(len(x))] for x in part.X]
    d = X[0].shape[1]
    gram = np.stack([x.T @ x for x in X]).reshape(len(X), -1)
    moment = np.stack([x.T @ y for x, y in zip(X, part.y, strict=True)])
    who = members(len(X))
    A = (who @ gram).reshape(-1, d, d) + strength * np.eye(d)
    w = np.linalg.solve(A, (who @ moment)[:, :, None])[:, :, 0]
    test = np.c_[part.X_test, np.ones(len(part.X_test))]
    return -np.array([np.mean((test @ row - part.y_test) ** 2) for row in w])


def logistic_table(part: Split, steps: int, rate: float) -> np.ndarray:
    """Test accuracy of logistic regression after full-batch steps, many coalitions at a time."""
    X, y = np.concatenate(part.X), np.concatenate(part.y)
    owner = np.repeat(np.arange(len(part.y)), part.sizes)
    who = members(len(part.y))
    u = np.empty(len(who))
    for start in range(0, len(who), 512):
        mask = who[start : start + 512, owner].T.astype(np.float64)
        mask /= np.maximum(mask.sum(axis=0), 1)
        w = np.zeros((X.shape[1], mask.shape[1]))
        for _ in range(steps):
            w -= rate * (X.T @ ((1 / (1 + np.exp(-X @ w)) - y[:, None]) * mask))
        u[start : start + 512] = ((part.X_test @ w > 0) == part.y_test[:, None]).mean(axis=0)
    return u


def data(name: str) -> Path:
    folder = os.environ.get("DUSHAPLEY_DATA")
    if folder is None:
        sys.exit("Set DUSHAPLEY_DATA to the folder of the experiment data.")
    return Path(folder) / name


def flipped(part: Split, owners: list[int], rate: float, rng: np.random.Generator) -> Split:
    """The same, with part of some owners' labels replaced by random ones of their own."""
    y = [labels.copy() for labels in part.y]
    for j in owners:
        bad = rng.random(len(y[j])) < rate
        y[j][bad] = rng.permutation(np.concatenate(part.y))[: bad.sum()]
    return Split(part.X, y, part.X_test, part.y_test)


def digits_tree() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(1)
    part = split(X, y, unequal(rng, 11, 15, 200), 600, rng.permutation(len(y)))

    def score(X: np.ndarray, y: np.ndarray, index: int) -> float:
        tree = DecisionTreeClassifier(max_depth=10, random_state=index).fit(X, y)
        return float(tree.score(part.X_test, part.y_test))

    return table(part, score, 0.1), part.sizes


def digits_noisy_network() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rng = np.random.default_rng(2)
    part = split(X, y, unequal(rng, 10, 15, 120), 600, rng.permutation(len(y)))

    def score(X: np.ndarray, y: np.ndarray, index: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            net = MLPClassifier(
                (10,),
                max_iter=15,
                learning_rate_init=0.03,
                batch_size=min(32, len(y)),
                random_state=index,
            ).fit(X, y)
        return float(net.score(part.X_test, part.y_test))

    return table(part, score, 0.1), part.sizes


def wine_bayes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(3)
    part = split(X, y, unequal(rng, 10, 5, 20), 60, np.argsort(y + 1.5 * rng.random(len(y))))

    def score(X: np.ndarray, y: np.ndarray, _: int) -> float:
        model = GaussianNB(var_smoothing=1e-3).fit(X, y)
        p = model.predict_proba(part.X_test)
        at = np.searchsorted(model.classes_, part.y_test).clip(0, len(model.classes_) - 1)
        hit = model.classes_[at] == part.y_test
        return float(np.mean(np.where(hit, p[np.arange(len(at)), at], 0.0)))

    return table(part, score, 1 / 3), part.sizes


def adult_tree() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("adult.parquet"))
    y = frame["income"].astype(str).str.contains(">").to_numpy().astype(float)
    X = frame.select_dtypes("number").to_numpy(np.float64)
    rng = np.random.default_rng(4)
    part = split(X, y, unequal(rng, 12, 20, 300), 1000, rng.permutation(len(y)))
    part = flipped(part, [2, 5, 9], 0.8, rng)

    def score(X: np.ndarray, y: np.ndarray, _: int) -> float:
        tree = DecisionTreeRegressor(max_depth=5, min_samples_leaf=5, random_state=0).fit(X, y)
        return -float(np.mean((tree.predict(part.X_test) - part.y_test) ** 2))

    return table(part, score, -0.25), part.sizes


def diabetes_ridge() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    rng = np.random.default_rng(5)
    part = split(X, y, unequal(rng, 13, 6, 45), 140, rng.permutation(len(y)))
    part = flipped(part, [1, 6], 1.0, rng)
    return ridge_table(part, 3.0), part.sizes


def housing_regions() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("california_housing.parquet"))
    X, y = frame.iloc[:, :8].to_numpy(np.float64), frame["MedHouseVal"].to_numpy(np.float64)
    X = np.clip(StandardScaler().fit_transform(X), -4, 4)
    rng = np.random.default_rng(6)
    north = np.argsort(X[:, 6] + 0.5 * rng.standard_normal(len(y)))
    order = rng.permutation(north[: 86 * 240].reshape(240, 86)).ravel()  # places, in any order
    part = split(X, (y - y.mean()) / y.std(), unequal(rng, 15, 15, 250), 2000, order)
    return ridge_table(part, 1.0), part.sizes


def bank_logistic() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("bank_marketing.parquet"))
    y = frame["y"].astype(str).eq("yes").to_numpy().astype(float)
    X = pd.get_dummies(frame.drop(columns=["y", "duration"])).to_numpy(np.float64)
    X = np.c_[StandardScaler().fit_transform(X), np.ones(len(X))]
    rng = np.random.default_rng(7)
    balanced = np.concatenate([np.flatnonzero(y == 1), rng.choice(np.flatnonzero(y == 0), 5000)])
    part = split(X, y, unequal(rng, 13, 20, 250), 1500, rng.permutation(balanced))
    return logistic_table(part, 30, 0.3), part.sizes


def cifar_skewed() -> tuple[np.ndarray, np.ndarray]:
    with np.load(data("cifar10_resnet50_emb.npz")) as file:
        X, y = file["X_train"].astype(np.float64), file["y_train"].astype(int)
    X = X - X.mean(axis=0)
    X = X @ np.linalg.svd(X[:1500], full_matrices=False)[2][:40].T
    X = np.c_[StandardScaler().fit_transform(X), np.ones(len(X))]
    animal = np.isin(y, [2, 3, 4, 5, 6, 7]).astype(float)
    rng = np.random.default_rng(8)
    order = np.argsort(y + 4.0 * rng.random(len(y)))  # owners know different classes
    blocks = np.array_split(order, 13)
    order = np.concatenate([blocks[b] for b in rng.permutation(13)])
    order = order[order % 4 < 2]
    part = split(X, animal, unequal(rng, 13, 15, 200), 1000, order)
    return logistic_table(part, 30, 0.3), part.sizes


MAKERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "digits-tree-11": digits_tree,
    "digits-network-10": digits_noisy_network,
    "wine-bayes-10": wine_bayes,
    "adult-tree-12": adult_tree,
    "diabetes-ridge-13": diabetes_ridge,
    "housing-regions-15": housing_regions,
    "bank-logistic-13": bank_logistic,
    "cifar-skewed-13": cifar_skewed,
}


def made_games() -> list[StoredGame]:
    """All games made here, trained on the first call."""
    FOLDER.mkdir(exist_ok=True)
    games = []
    for name, make in MAKERS.items():
        path = FOLDER / f"{name}.npz"
        if not path.exists():
            u, sizes = make()
            np.savez(path, u=u, sizes=sizes)
        with np.load(path) as file:
            game = ds.TableGame(file["u"], file["sizes"])
        exact = ds.value(game, "exact", budget=2**game.n_players).values
        games.append(StoredGame(name, game, exact, np.empty((0, game.n_players))))
    return games


if __name__ == "__main__":
    for made in made_games():
        u = made.game.values
        print(f"{made.name}: u(∅) {u[0]:.3f}, u(all) {u[-1]:.3f}, values {made.exact.round(4)}")
