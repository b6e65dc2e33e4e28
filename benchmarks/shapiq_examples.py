"""shapiq's own example games as they are: every one that needs no download goes into `ds.value`.

A game of shapiq is an object that is called with coalitions and knows `n_players`; nothing is
wrapped. Exact values are compared with those of shapiq's ExactComputer, and `gp` at 6I pools with
the exact ones. Needs Python 3.12 in an environment of its own:

    python3.12 -m venv peers && peers/bin/pip install shapiq==1.8.0
    PYTHONPATH=src peers/bin/python benchmarks/shapiq_examples.py
"""

from __future__ import annotations

import warnings
from importlib.metadata import version
from typing import Any

import numpy as np

import dushapley as ds
from tables import markdown, save


def games() -> dict[str, Any]:
    """Games by name, made from data that ships with scikit-learn."""
    import shapiq_games as sg
    from sklearn.datasets import load_breast_cancer, load_diabetes
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
    from sklearn.tree import DecisionTreeRegressor

    X, y = load_diabetes(return_X_y=True)
    Z, c = load_breast_cancer(return_X_y=True)
    Z = (Z[:, :8] - Z[:, :8].mean(axis=0)) / Z[:, :8].std(axis=0)
    train, test = (X[:200], y[:200]), (X[300:400], y[300:400])
    sorted_rows = (Z[:200], c[:200]), (Z[300:400], c[300:400])
    forest = RandomForestRegressor(10, random_state=0).fit(*train)
    classes = RandomForestClassifier(10, random_state=0).fit(*sorted_rows[0])
    members = [LinearRegression().fit(X[i:200:8], y[i:200:8]) for i in range(8)]
    few, kinds = Z[:10], c[[0, 1, 2, 19, 20, 21, 3, 4, 37, 46]]
    nearest = KNeighborsClassifier(3).fit(few, kinds)
    weighted = KNeighborsClassifier(3, weights="distance").fit(few, kinds)
    return {
        "DummyGame": sg.DummyGame(8, (1, 2)),
        "UnanimityGame": sg.UnanimityGame([1, 0, 1, 1, 0, 0, 1, 0]),
        "SOUM": sg.SOUM(10, 30),
        "RandomTableGame": sg.RandomTableGame(8),
        "TabularLocalExplanation": sg.TabularLocalExplanation(forest, X[:50], X[0]),
        "TabularGlobalExplanation": sg.TabularGlobalExplanation(forest, X[:50]),
        "TabularUncertaintyExplanation": sg.TabularUncertaintyExplanation(classes, Z[:50], Z[0]),
        "FeatureSelection": sg.FeatureSelection(LinearRegression(), *train, *test),
        "DatasetValuation": sg.DatasetValuation(LinearRegression(), *train, *test, n_players=8),
        "DataValuation": sg.DataValuation(
            LogisticRegression(), few, kinds, *sorted_rows[1], task="classification"
        ),
        "EnsembleSelection": sg.EnsembleSelection(members, *test, task="regression"),
        "RandomForestEnsembleSelection": sg.RandomForestEnsembleSelection(forest, *test),
        "ClusterExplanation": sg.ClusterExplanation(Z[:80]),
        "UnsupervisedData": sg.UnsupervisedData(Z),
        "PathDependentTreeGame": sg.PathDependentTreeGame(
            DecisionTreeRegressor(max_depth=5, random_state=0).fit(*train), X[0]
        ),
        "InterventionalTreeGame": sg.InterventionalTreeGame(forest, X[:20], X[0]),
        "KNNGame": sg.KNNGame(nearest, Z[11]),
        "WeightedKNNGame": sg.WeightedKNNGame(weighted, Z[11]),
        "ThresholdNNGame": sg.ThresholdNNGame(
            RadiusNeighborsClassifier(3.0, outlier_label="most_frequent").fit(few, kinds), Z[11]
        ),
        "ProductKernelGame": sg.ProductKernelGame(
            GaussianProcessRegressor(RBF(0.1), alpha=0.1, optimizer=None).fit(*train), X[0]
        ),
    }


def row(name: str, game: Any) -> dict[str, Any]:
    """One game, by both libraries."""
    from shapiq import ExactComputer

    theirs = ExactComputer(game)("SV", 1)
    by_owner = np.array([theirs[(i,)] for i in range(game.n_players)])
    exact = ds.value(game, "exact")
    learned = ds.value(game, "gp")
    spread = float(np.var(exact.values))
    error = float(np.mean((learned.values - exact.values) ** 2))
    return {
        "game": name,
        "players": game.n_players,
        "largest difference of exact values": f"{abs(exact.values - by_owner).max():.0e}",
        "pools of gp": learned.n_evaluations,
        "relative MSE of gp": f"{error / spread:.0e}" if spread > 1e-20 else "-",
    }


def main() -> None:
    warnings.simplefilter("ignore")
    rows = [row(name, game) for name, game in games().items()]
    save("shapiq_examples", {"shapiq": version("shapiq"), "table": rows})
    print(markdown(list(rows[0]), [[str(cell) for cell in line.values()] for line in rows]))


if __name__ == "__main__":
    main()
