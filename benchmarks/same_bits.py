"""Do values keep their bits? Digests of valuations over every method and kind of game.

`python benchmarks/same_bits.py --store` writes what this tree gives to `results/same_bits.json`;
without it, this tree is compared with what is stored there. Two trees that agree value the same to
the last bit: values, standard errors by source, covariances, counts and utilities.

Of the two what-ifs the errors by source are not compared: a changed game used to forget that its
model has no seed, so that its training error, which is 0, was stored as unknown.
"""

from __future__ import annotations

import hashlib
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
CHANGED = ("logistic without site 2", "ridge with two merged")
"""Valuations of changed games, whose errors by source are left out."""
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
    for name in ("linear", "callable", "knn", "log loss", "sums", "batched", "folds", "mixed"):
        yield f"{name} by auto", ds.value(known[name], seed=3)
    for name in ("forest", "log loss"):
        yield f"{name} by permutation", ds.value(known[name], "permutation", budget=60, seed=4)
    ledger = folder / "paid.sqlite"
    for jobs in (1, 2):
        paid = ds.value(known["logistic"], "gp", seed=5, ledger=ledger, n_jobs=jobs)
        yield f"logistic by gp with a ledger, {jobs} workers", paid
    answer = ds.what_if(known["logistic"], ds.Leave("site 2"), method="exact", ledger=ledger)
    yield "logistic without site 2", answer.after
    merged = ds.what_if(known["ridge"], ds.Merge("site 0", "site 1"), method="exact")
    yield "ridge with two merged", merged.after


def digests() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        return {name: digest(name, found) for name, found in runs(Path(folder))}


def digest(name: str, valuation: ds.Valuation) -> str:
    stored = valuation.to_dict()
    compared = [field for field in KEPT if field != "errors" or name not in CHANGED]
    text = json.dumps({field: stored[field] for field in compared}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def main() -> None:
    found = digests()
    if "--store" in sys.argv:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} valuations stored")
        return
    stored = json.loads(STORED.read_text())
    other = [name for name in stored if found.get(name) != stored[name]]
    print(f"{len(stored) - len(other)} of {len(stored)} valuations have the bits that are stored")
    for name in other:
        print(f"  differs: {name}")
    sys.exit(bool(other))


if __name__ == "__main__":
    main()
