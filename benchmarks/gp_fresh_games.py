"""Coverage of gp on games it was never run on before: four models on scikit-learn's data.

python benchmarks/gp_fresh_games.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds

N, SEEDS = 9, range(4)
GAMES = {
    "breast-knn": (load_breast_cancer, KNeighborsClassifier(5), "accuracy", 200),
    "digits-tree": (load_digits, DecisionTreeClassifier(max_depth=6), "accuracy", 300),
    "iris-perceptron": (load_iris, Perceptron(), "accuracy", 90),
    "diabetes-forest": (load_diabetes, RandomForestRegressor(4, max_depth=4), "r2", 200),
}


def table(name: str) -> ds.TableGame:
    load, model, scoring, rows = GAMES[name]
    X, y = load(return_X_y=True)
    order = np.random.default_rng(11).permutation(len(X))
    train, test = order[:rows], order[rows : rows + 200]
    cuts = np.cumsum(np.random.default_rng(12).dirichlet([1.5] * N) * (rows - 4 * N) + 4).astype(
        int
    )
    blocks = np.split(train, cuts[:-1])
    owners = ds.Owners.from_arrays({f"o{i}": (X[b], y[b]) for i, b in enumerate(blocks)})
    game = ds.ModelGame(owners, model, X[test], y[test], scoring=scoring, fast=False)
    return ds.TableGame(game((np.arange(2**N)[:, None] >> np.arange(N)) & 1 == 1), owners.sizes)


def main() -> None:
    print("| game | budget | relative MSE | coverage | half-width / RMSE |\n|---|---|---|---|---|")
    for name in GAMES:
        game = table(name)
        exact = ds.value(game, "exact").values
        for budget in (4 * N, 6 * N, N**2, 2 * N**2):
            runs = [ds.value(game, "gp", budget=budget, seed=s) for s in SEEDS]
            error = np.array([r.values - exact for r in runs])
            half = 1.96 * np.array([r.std_errors for r in runs])
            rmse = np.sqrt((error**2).mean())
            print(
                f"| {name} | {budget} | {rmse**2 / exact.var():.4f} | "
                f"{(np.abs(error) < half).mean():.3f} | {half.mean() / rmse:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
