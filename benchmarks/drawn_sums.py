"""DU-Shapley on models trained from sums: what drawing rows costs, and how close it is.

    python benchmarks/drawn_sums.py      writes results/drawn_sums.json

Time: one replicate of `du`, 20 owners, with and without the fast path, processor seconds of one
thread. Error: relative MSE of `du` against exact values, 8 owners, mean of 20 seeds, both ways, and
the largest difference between them.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import dushapley as ds

OUT = Path(__file__).parent / "results" / "drawn_sums.json"
MODELS = {
    "naive Bayes": GaussianNB(),
    "LDA": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01),
    "least squares": LinearRegression(),
    "ridge": Ridge(),
}
CLASSIFIERS = ("naive Bayes", "LDA")
SEEDS = 20


def game(name: str, X: np.ndarray, y: np.ndarray, sizes: Any, *, fast: bool) -> ds.ModelGame:
    """Owners of these sizes, and the rest of the rows as test set."""
    ends = np.cumsum(sizes)
    *parts, test = zip(np.split(X, ends), np.split(y, ends), strict=True)
    owners = ds.Owners.from_arrays({f"o{j}": part for j, part in enumerate(parts)})
    scoring = "accuracy" if name in CLASSIFIERS else "r2"
    return ds.ModelGame(owners, MODELS[name], *test, scoring=scoring, fast=fast)


def timed(name: str, rows: int, columns: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * rows + 500, columns))
    y = X @ rng.normal(size=columns) + 2 * rng.normal(size=len(X))
    if name in CLASSIFIERS:
        y = np.digitize(y, [-2, 2])
    found: dict[str, Any] = {"model": name, "rows": rows, "columns": columns}
    for fast in (True, False):
        played, start = game(name, X, y, [rows] * 20, fast=fast), process_time()
        ds.value(played, "du", seed=1, progress=False)
        found["fast" if fast else "fitted"] = round(process_time() - start, 3)
    print(
        f"| {name} | {rows} | {columns} | {found['fast']:.2f} s | {found['fitted']:.2f} s | "
        f"{found['fitted'] / found['fast']:.0f} |",
        flush=True,
    )
    return found


def small() -> tuple[np.ndarray, np.ndarray]:
    """Rows to begin with."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(90, 3)), rng.integers(0, 2, 90)


def judged(name: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    digits = name in CLASSIFIERS
    X, y = (load_digits if digits else load_diabetes)(return_X_y=True)
    order = rng.permutation(len(X))
    sizes = rng.integers(30, 81, 8) if digits else rng.integers(20, 50, 8)
    fast, fitted = (game(name, X[order], y[order], sizes, fast=fast) for fast in (True, False))
    exact = ds.value(fast, "exact", progress=False).values
    runs = np.array(
        [
            [ds.value(g, "du", seed=s, progress=False).values for s in range(SEEDS)]
            for g in (fast, fitted)
        ]
    )
    error = ((runs - exact) ** 2).mean(axis=(1, 2)) / exact.var()
    apart = float(np.abs(runs[0] - runs[1]).max())
    print(f"| {name} | {error[0]:.4f} | {error[1]:.4f} | {apart:.1e} |", flush=True)
    return {"model": name, "fast": error[0], "fitted": error[1], "apart": apart}


def main() -> None:
    warnings.filterwarnings("ignore", "Only one sample")  # of a class, says scikit-learn
    print("| model | rows each | columns | fast | fitted | times |\n|---|---|---|---|---|---|")
    cases = [(name, rows, d) for rows in (200, 1000) for d in (10, 30) for name in MODELS]
    for name in MODELS:
        ds.value(
            game(name, *small(), [20] * 3, fast=False), "du", progress=False
        )  # loads what fits
    times = [timed(*case) for case in cases]
    print("\n| model | error, fast | error, fitted | largest difference |\n|---|---|---|---|")
    errors = [judged(name) for name in MODELS]
    OUT.write_text(json.dumps({"times": times, "errors": errors}, indent=1))


if __name__ == "__main__":
    main()
