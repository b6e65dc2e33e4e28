"""Trainings by the thousand on the CPU, each beside a plain scikit-learn loop in the same run.

    DUSHAPLEY_DATA=FOLDER python benchmarks/trainings.py [ridge] [logistic] [trees]

CPU seconds per training, best of three; the loop trains a random sample of the pools. One BLAS
thread each.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import dushapley as ds
from dushapley.games import SoftmaxRegression

HERE = Path(__file__).parent


def cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def data_folder() -> Path:
    named = os.environ.get("DUSHAPLEY_DATA")
    return Path(named) if named else sys.exit("Set DUSHAPLEY_DATA to the folder of the data.")


def split(X: np.ndarray, y: np.ndarray, n_owners: int, n_test: int) -> tuple[Any, ...]:
    """Unequal owners of shuffled rows, and a test set."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    shares = rng.dirichlet(np.full(n_owners, 3.0))
    cuts = (np.cumsum(shares)[:-1] * (len(X) - n_test)).astype(int)
    blocks = zip(np.split(X[n_test:], cuts), np.split(y[n_test:], cuts), strict=True)
    owners = ds.Owners.from_arrays({f"owner {j}": block for j, block in enumerate(blocks)})
    return owners, X[:n_test], y[:n_test]


def loop(game: ds.ModelGame, model: Any, pools: np.ndarray) -> np.ndarray:
    """What everybody writes: concatenate, fit, score."""
    from sklearn.base import clone
    from sklearn.metrics import get_scorer

    score = get_scorer(game.scoring)
    values = []
    for pool in pools:
        X = np.concatenate([game.owners.X[j] for j in np.flatnonzero(pool)])
        y = np.concatenate([game.owners.y[j] for j in np.flatnonzero(pool)])
        values.append(score(clone(model).fit(X, y), game.X_test, game.y_test))
    return np.array(values)


def sample_of(n_owners: int, n: int) -> np.ndarray:
    """Coalitions drawn uniformly, nobody left out."""
    pools = np.random.default_rng(1).random((2 * n, n_owners)) < 0.5
    return pools[pools.any(axis=1)][:n]


def ridge() -> dict[str, Any]:
    """All 65,536 coalitions of 16 owners of California housing."""
    from sklearn.linear_model import Ridge

    table = pd.read_parquet(data_folder() / "california_housing.parquet")
    X = table.drop(columns="MedHouseVal").to_numpy(float)
    owners, X_test, y_test = split(X, table["MedHouseVal"].to_numpy(float), 16, 4128)
    pools = sample_of(16, 300)

    def ours() -> ds.Valuation:
        game = ds.ModelGame(owners, Ridge(), X_test, y_test, scoring="neg_mean_squared_error")
        return ds.value(game, "exact")

    game = ds.ModelGame(owners, Ridge(), X_test, y_test, scoring="neg_mean_squared_error")
    return row(
        "ridge, California housing, 16 owners, all 65,536 coalitions, exact values included",
        cpu_seconds(ours) / 2**16,
        cpu_seconds(lambda: loop(game, Ridge(), pools)) / len(pools),
        float(abs(game(pools) - loop(game, Ridge(), pools)).max()),
    )


def logistic() -> dict[str, Any]:
    """Random coalitions of 20 owners of adult, 20 full-batch steps against 20 iterations."""
    from sklearn.linear_model import LogisticRegression

    sys.path.insert(0, str(HERE))
    from prepare_adult import TARGET, load

    X, y, X_test, y_test = load(TARGET)
    owners, _, _ = split(X.astype(np.float64), y, 20, 1)
    game = ds.ModelGame(owners, SoftmaxRegression(), X_test.astype(np.float64), y_test)
    pools, few = sample_of(20, 512), sample_of(20, 512)[:12]
    plain = LogisticRegression(max_iter=20)
    return row(
        "logistic, adult (43,957 × 105), 20 owners, random coalitions",
        cpu_seconds(lambda: game(pools)) / len(pools),
        cpu_seconds(lambda: loop(game, plain, few)) / len(few),
        float(abs(game(few) - loop(game, plain, few)).max()),
    )


def trees() -> dict[str, Any]:
    """Boosted trees, 20 rounds, on random coalitions of adult."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier

    sys.path.insert(0, str(HERE))
    from prepare_adult import TARGET, load

    X, y, X_test, y_test = load(TARGET)
    owners, _, _ = split(X.astype(np.float64), y, 20, 1)
    light = LGBMClassifier(n_estimators=20, n_jobs=1, deterministic=True, verbose=-1)
    game = ds.ModelGame(owners, light, X_test.astype(np.float64), y_test)
    few = sample_of(20, 12)
    plain = HistGradientBoostingClassifier(max_iter=20, early_stopping=False)
    return row(
        "boosted trees, adult, 20 rounds: lightgbm against scikit-learn's histogram trees",
        cpu_seconds(lambda: game(few)) / len(few),
        cpu_seconds(lambda: loop(game, plain, few)) / len(few),
        float(abs(game(few) - loop(game, plain, few)).max()),
    )


def row(what: str, ours: float, theirs: float, difference: float) -> dict[str, Any]:
    print(
        f"| {what} | {1e3 * ours:.4g} | {1e3 * theirs:.4g} | {theirs / ours:.1f} | "
        f"{difference:.2g} |",
        flush=True,
    )
    return {
        "what": what,
        "ms_per_training": 1e3 * ours,
        "ms_per_training_of_the_loop": 1e3 * theirs,
        "ratio": theirs / ours,
        "largest_difference_in_score": difference,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    chosen = sys.argv[1:] or ["ridge", "logistic", "trees"]
    print("| what | CPU ms a training | CPU ms of the loop | times | largest score difference |")
    print("|---|---|---|---|---|", flush=True)
    with threadpool_limits(1):
        rows = [{"ridge": ridge, "logistic": logistic, "trees": trees}[name]() for name in chosen]
    target = HERE / "results" / "trainings.json"
    target.parent.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    versions = {name: version(name) for name in ("scikit-learn", "lightgbm")}
    found = {"machine": machine, "versions": versions, "rows": rows}
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
