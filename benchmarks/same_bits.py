"""Do values stay the same? Numbers of valuations over every method and kind of game.

`python benchmarks/same_bits.py --store` writes what this tree gives to `results/same_bits.json`;
without it, this tree is compared with what is stored there: values, standard errors by source,
covariances, counts and utilities. On one machine two trees should agree to the last bit, and the
last line says whether they do; another processor rounds sums otherwise, so what is asked for is
agreement to `TOLERANCE` of the largest number of each field. An error that is stored as a number
may not become unknown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.games import SoftmaxRegression

STORED = Path(__file__).parent / "results" / "same_bits.json"
KEPT = (
    "owners", "sizes", "values", "std_errors", "covariance", "method", "n_evaluations",
    "n_distinct", "n_computed", "u_empty", "u_full", "biased", "failures", "errors",
)  # fmt: skip
"""What must be the same; notes are words, and fingerprints name the modules of our own models."""
TOLERANCE = 1e-8
"""Of the largest number of a field: rounding of another processor."""
SIZES = [40, 80, 120, 60, 100, 200]


def cancer() -> tuple[ds.Owners, Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    blocks = {f"site {j}": (X[j:400:6], y[j:400:6]) for j in range(6)}
    return ds.Owners.from_arrays(blocks), X[400:], y[400:]


def diabetes() -> tuple[ds.Owners, Any, Any]:
    X, y = load_diabetes(return_X_y=True)
    blocks = {f"site {j}": (X[j:300:5], y[j:300:5]) for j in range(5)}
    return ds.Owners.from_arrays(blocks), X[300:], y[300:]


def mixed() -> ds.ModelGame:
    """A table of numbers, words and dates."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "who": rng.choice(list("abcd"), 200),
            "age": rng.normal(40, 10, 200),
            "town": rng.choice(["York", "Bath", "Hull"], 200),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), "D"),
        }
    )
    table["ill"] = (table["age"] + 10 * (table["town"] == "York") > 42).astype(int)
    owners = ds.Owners.from_frame(table.iloc[:150], owner="who", target="ill")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return ds.ModelGame(owners, model, *owners.align(table.iloc[150:]))


class Failing(LogisticRegression):
    """Fails on small pools."""

    def fit(self, X: Any, y: Any) -> Any:
        if len(X) < 100:
            raise ValueError("too few rows")
        return super().fit(X, y)


def noisy(pools: Any) -> Any:
    """Draws from numpy's own generator, which is set before each pool."""
    return pools.sum(axis=1) + np.random.standard_normal(len(pools))  # noqa: NPY002


def games() -> dict[str, Any]:
    owners, X, y = cancer()
    numbers, X_reg, y_reg = diabetes()
    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    forest = RandomForestClassifier(n_estimators=5, max_depth=3)
    return {
        "size": ds.SizeGame(SIZES, w=lambda n: n / (n + 100)),
        "linear": ds.LinearRegressionGame(SIZES[:4], [1.0, 2, 1, 4], d=3),
        "callable": ds.CallableGame(lambda z: (z @ np.arange(1.0, 9)) ** 0.5, 8, fingerprint="c"),
        "knn": ds.KNNGame(owners, X, y, k=3),
        "logistic": ds.ModelGame(owners, scaled, X, y),
        "log loss": ds.ModelGame(owners, GaussianNB(), X, y, scoring="neg_log_loss", fast=False),
        "forest": ds.ModelGame(owners, forest, X, y, repeats=2),
        "sums": ds.ModelGame(numbers, Ridge(), X_reg, y_reg, scoring="r2"),
        "ridge": ds.ModelGame(numbers, Ridge(), X_reg, y_reg, scoring="r2", fast=False),
        "lifted": ds.ModelGame(
            numbers, Ridge(), X_reg, y_reg, scoring="r2", fast=False, at_least="empty"
        ),
        "lifted sums": ds.ModelGame(numbers, Ridge(), X_reg, y_reg, scoring="r2", at_least="empty"),
        "trees": ds.ModelGame(owners, forest, X, y),
        "failing": ds.ModelGame(owners, Failing(max_iter=3000), X, y, on_failure="empty"),
        "utility": ds.DatasetGame(
            numbers, lambda X, _y: float(X.sum() + len(X) ** 0.5), deterministic=True
        ),
        "noise": ds.CallableGame(noisy, 6, fingerprint="n", repeats=3),
        "batched": ds.ModelGame(owners, SoftmaxRegression(steps=10), X / 100, y),
        "folds": ds.FoldsGame(
            numbers, lambda o, a, b: ds.ModelGame(o, Ridge(), a, b, scoring="r2", fast=False), 3
        ),
        "mixed": mixed(),
    }


def runs(folder: Path) -> Iterator[tuple[str, ds.Valuation]]:
    """Thirty-odd valuations: every method on a game it can ask, every game by some method."""
    known = games()
    for method in ds.methods():
        if method in ("knn", "du-second-order"):
            continue
        name = "logistic" if method not in ("tmc", "owen", "du++") else "ridge"
        yield f"{name} by {method}", ds.value(known[name], method, seed=1)
    for method in ("du", "du-second-order", "exact", "gp"):
        yield f"size by {method}", ds.value(known["size"], method, seed=2)
    yield "knn by knn", ds.value(known["knn"], "knn")
    for name in (
        "linear",
        "callable",
        "knn",
        "log loss",
        "sums",
        "batched",
        "folds",
        "mixed",
        "lifted",
        "lifted sums",
        "trees",
        "failing",
        "utility",
        "noise",
    ):
        yield f"{name} by auto", ds.value(known[name], seed=3)
    for name in ("forest", "log loss"):
        yield f"{name} by permutation", ds.value(known[name], "permutation", budget=60, seed=4)
    for method in ("exact", "gp", "permutation", "stratified-svarm", "kernel", "du", "centres"):
        yield f"sums by {method}", ds.value(known["sums"], method, seed=6)
    yield "sums, many pools", ds.value(known["sums"], "permutation", budget=5000, seed=6)
    for name in ("failing", "lifted", "trees"):
        yield f"{name} by permutation", ds.value(known[name], "permutation", seed=7)
    X, y = load_breast_cancer(return_X_y=True)
    many = ds.Owners.from_arrays({str(j): (X[j:500:200], y[j:500:200]) for j in range(200)})
    for model in (LogisticRegression(max_iter=5000, tol=1e-10), Ridge()):
        score = "r2" if isinstance(model, Ridge) else "neg_log_loss"
        game = ds.ModelGame(many, model, X[500:] / 1.0, y[500:], scoring=score)
        label = f"200 owners, {type(model).__name__}, by centres"
        yield label, ds.value(game, "centres", seed=8, budget=6000)
    ledger = folder / "paid.sqlite"
    for jobs in (1, 2):
        paid = ds.value(known["logistic"], "gp", seed=5, ledger=ledger, n_jobs=jobs)
        yield f"logistic by gp with a ledger, {jobs} workers", paid
    answer = ds.what_if(known["logistic"], ds.Leave("site 2"), method="exact", ledger=ledger)
    yield "logistic without site 2", answer.after
    merged = ds.what_if(known["ridge"], ds.Merge("site 0", "site 1"), method="exact")
    yield "ridge with two merged", merged.after


def numbers() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {name: kept(found) for name, found in runs(Path(folder))}


def kept(valuation: ds.Valuation) -> dict[str, Any]:
    stored = json.loads(json.dumps(valuation.to_dict()))
    return {field: stored[field] for field in KEPT}


def differences(stored: Any, found: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Where two results differ, and by how much of the largest number; infinite where in kind."""
    if isinstance(stored, dict) and isinstance(found, dict):
        for name in stored.keys() | found.keys():
            yield from differences(stored.get(name), found.get(name), f"{path}/{name}")
    elif is_numeric(stored) and is_numeric(found):
        old, new = np.array(stored, dtype=float), np.array(found, dtype=float)
        if old.shape != new.shape or not np.array_equal(np.isnan(old), np.isnan(new)):
            yield path, np.inf
        elif not np.array_equal(old, new, equal_nan=True):
            yield path, float(np.nanmax(np.abs(old - new)) / max(np.nanmax(np.abs(old)), 1e-300))
    elif stored != found:
        yield path, np.inf


def is_numeric(stored: Any) -> bool:
    try:
        return np.array(stored, dtype=float).dtype == float and stored is not None
    except (TypeError, ValueError):
        return False


def main() -> None:
    found = numbers()
    if "--store" in sys.argv:
        STORED.write_text(json.dumps(found) + "\n")
        print(f"{len(found)} valuations stored")
        return
    stored = json.loads(STORED.read_text())
    others = {name: dict(differences(old, found.get(name))) for name, old in stored.items()}
    wrong = [name for name, parts in others.items() if max(parts.values(), default=0) > TOLERANCE]
    for name in wrong:
        print(f"  differs: {name}: {others[name]}")
    bits = sum(not parts for parts in others.values())
    print(f"{len(stored) - len(wrong)} of {len(stored)} valuations are the same, {bits} to the bit")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
