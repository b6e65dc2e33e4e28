"""`gp` at a third of DU-Shapley's evaluations, on trained models with owners of three kinds.

    python benchmarks/gp_versus_du.py

Ten owners of unequal size; exact values by all 1,024 coalitions. DU-Shapley (one replicate) asks
2I(I−1)+2 = 182 pools, `gp` 60. Relative MSE, mean over 4 seeds of each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from made_games import data

N, SEEDS = 10, range(4)
Utility = Callable[[np.ndarray, np.ndarray], float]


def adult() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("adult.parquet"))
    y = frame["income"].astype(str).str.contains(">").to_numpy().astype(float)
    kinds = pd.get_dummies(frame[["marital-status", "sex", "relationship"]]).to_numpy(float)
    return np.c_[frame.select_dtypes("number").to_numpy(float), kinds], y


def bank() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("bank_marketing.parquet"))
    y = frame["y"].astype(str).eq("yes").to_numpy().astype(float)
    X = pd.get_dummies(frame.drop(columns=["y", "duration"])).to_numpy(float)
    keep = np.concatenate([np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:5289]])
    return X[keep], y[keep]


def housing() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("california_housing.parquet"))
    y = frame["MedHouseVal"].to_numpy(float)
    return frame.iloc[:, :8].to_numpy(float), (y - y.mean()) / y.std()


def embeddings() -> tuple[np.ndarray, np.ndarray]:
    with np.load(data("imdb_minilm_emb.npz")) as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    X = X - X.mean(axis=0)
    return X @ np.linalg.svd(X[:2000], full_matrices=False)[2][:40].T, y


def logistic(X_test: np.ndarray, y_test: np.ndarray) -> Utility:
    def utility(X: np.ndarray, y: np.ndarray) -> float:
        w = np.zeros(X_test.shape[1])
        for _ in range(20 if len(y) else 0):
            w -= 0.5 * X.T @ (1 / (1 + np.exp(-X @ w)) - y) / len(y)
        return float(np.mean((X_test @ w > 0) == y_test))

    return utility


def ridge(X_test: np.ndarray, y_test: np.ndarray) -> Utility:
    def utility(X: np.ndarray, y: np.ndarray) -> float:
        w = np.linalg.solve(X.T @ X + np.eye(X_test.shape[1]), X.T @ y)
        return -float(np.mean((X_test @ w - y_test) ** 2))

    return utility


def owners(X: np.ndarray, y: np.ndarray, kind: str, rng: np.random.Generator) -> ds.Owners:
    """Ten owners of 20 to 200 rows: alike, three mislabelled, or sorted along a direction."""
    order = rng.permutation(len(y))
    if kind == "shifted":
        along = X[order, :3].sum(axis=1) + 2 * (y[order] - y.mean()) / y.std()
        order = order[np.argsort(along + rng.standard_normal(len(y)), kind="stable")]
        order = order[np.sort(rng.choice(len(order), 2000, replace=False))]
    sizes = np.rint(np.exp(rng.uniform(np.log(20), np.log(200), N))).astype(int)
    cuts = np.linspace(0, len(order) - 200, N).astype(int)
    parts = [order[at : at + size] for at, size in zip(cuts, sizes, strict=True)]
    labels = [y[part].copy() for part in parts]
    for j in range(3 if kind == "mislabelled" else 0):
        bad = rng.random(len(labels[j])) < 0.6
        labels[j][bad] = rng.permutation(y)[: bad.sum()] if len(set(y)) > 2 else 1 - labels[j][bad]
    return ds.Owners.from_arrays(
        {
            f"owner {j}": (X[part], label)
            for j, (part, label) in enumerate(zip(parts, labels, strict=True))
        }
    )


def dataset_game(name: str, X: np.ndarray, y: np.ndarray, kind: str) -> ds.DatasetGame:
    """Ten owners of one kind and a model: ridge regression for housing, else logistic."""
    rng = np.random.default_rng(17)
    X = np.c_[np.clip(StandardScaler().fit_transform(X), -4, 4), np.ones(len(X))]
    test = rng.permutation(len(y))[:1000]
    rest = np.setdiff1d(np.arange(len(y)), test)
    make = ridge if name == "housing" else logistic
    return ds.DatasetGame(owners(X[rest], y[rest], kind, rng), make(X[test], y[test]))


def compare(name: str, X: np.ndarray, y: np.ndarray, kind: str) -> dict[str, object]:
    game = dataset_game(name, X, y, kind)
    exact = ds.value(game, "exact").values

    def error(method: str, budget: int) -> float:
        runs = [ds.value(game, method, budget=budget, seed=seed).values for seed in SEEDS]
        return float(np.mean([np.mean((v - exact) ** 2) for v in runs]) / np.var(exact))

    du = 2 * N * (N - 1) + 2
    return {"data": name, "owners": kind, "du": error("du", du), "gp": error("gp", du // 3)}


def main() -> None:
    rows = []
    print("| data | owners | du, 182 evaluations | gp, 60 evaluations | du / gp |")
    print("|---|---|---|---|---|")
    for load in (adult, bank, housing, embeddings):
        X, y = load()
        for kind in ("i.i.d.", "mislabelled", "shifted"):
            row = compare(load.__name__, X, y, kind)
            rows.append(row)
            print(
                f"| {row['data']} | {kind} | {row['du']:.4f} | {row['gp']:.4f} "
                f"| {row['du'] / row['gp']:.1f} |",
                flush=True,
            )
    path = Path(__file__).parent / "results" / "gp_versus_du.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
