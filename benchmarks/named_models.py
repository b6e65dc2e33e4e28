"""Models by name against scikit-learn's own at their defaults, behind a `StandardScaler`.

Numbers come in units from 1e-3 to 1e6. First: the score of all rows together, a mean over splits,
and the difference with its standard error over splits: 5 of them, or 20 where that error exceeds
.005. Then: one of four owners has its labels reversed; in how many of 20 splits does it come last
(exact values) under scikit-learn's model, and in how many of these under the name.
Run: DUSHAPLEY_DATA=folder python benchmarks/named_models.py [NAME ...]
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from tables import load, markdown, save

COUNTERPARTS: dict[str, tuple[Any, ...]] = {
    "logistic": (LogisticRegression(),),
    "softmax": (LogisticRegression(),),
    "ridge": (RidgeClassifier(), Ridge()),
    "lda": (LinearDiscriminantAnalysis(),),
    "naive-bayes": (GaussianNB(),),
    "gradient-boosting": (HistGradientBoostingClassifier(), HistGradientBoostingRegressor()),
    "gbdt": (LGBMClassifier(n_jobs=1, verbose=-1), LGBMRegressor(n_jobs=1, verbose=-1)),
    "random-forest": (RandomForestClassifier(), RandomForestRegressor()),
    "knn": (KNeighborsClassifier(), KNeighborsRegressor()),
    "mlp": (MLPClassifier(), MLPRegressor()),
}
HEADER = [
    "table", "name", "u(all)", "scikit-learn", "difference", "standard error", "median difference",
    "splits", "reversed last there", "and here",
]  # fmt: skip
FEWEST, MOST, SHARP = 5, 20, 0.005
SEEDS, ROWS, OWNER_ROWS, TEST_ROWS = 20, 4000, 120, 2000


def tables() -> Iterator[tuple[str, bool, np.ndarray, np.ndarray]]:
    """Name, whether targets are numbers, features in all sorts of units, targets."""
    for made in (load_breast_cancer, load_wine, load_digits, load_diabetes):
        X, y = made(return_X_y=True)
        yield made.__name__[5:], made is load_diabetes, in_units(X), y
    folder = Path(os.environ["DUSHAPLEY_DATA"])
    for name, target in (("adult", "income"), ("bank_marketing", "y"), ("california_housing", "")):
        table = pd.read_parquet(folder / f"{name}.parquet").drop(columns="split", errors="ignore")
        y = table.pop(target or table.columns[-1]).to_numpy()
        numbers = table.select_dtypes("number")
        X = in_units(numbers.fillna(0).to_numpy(float))
        if len(numbers.columns) < len(table.columns):
            words = pd.get_dummies(table.drop(columns=numbers.columns), dtype=float)
            X = np.column_stack([X, words.to_numpy(float)])
        yield name, not target, X, y


def in_units(X: np.ndarray) -> np.ndarray:
    """Columns multiplied by powers of ten from 1e-3 to 1e6."""
    return X * 10.0 ** np.random.default_rng(0).integers(-3, 7, X.shape[1])


def split(y: np.ndarray, seed: int, rows: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows of four owners, and test rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    test = min(TEST_ROWS, len(y) // 3)
    return np.array_split(order[test:][:rows], 4), order[:test]


def games(
    name: str, numbers: bool, owners: ds.Owners, X: np.ndarray, y: np.ndarray, repeats: int = 1
) -> list[ds.ModelGame]:
    """The model by name, and scikit-learn's."""
    task = "regression" if numbers else "classification"
    theirs = make_pipeline(StandardScaler(), COUNTERPARTS[name][numbers])
    repeats = repeats if name in ("random-forest", "mlp") else 1
    ours = ds.ModelGame(owners, name, X, y, task=task, repeats=repeats)
    return [ours, ds.ModelGame(owners, theirs, X, y, scoring=ours.scoring, repeats=repeats)]


def grand(name: str, numbers: bool, X: np.ndarray, y: np.ndarray) -> list[Any]:
    """Scores of all rows together under both models, and how they differ."""
    scores: list[list[float]] = []
    error = np.inf
    while len(scores) < FEWEST or (len(scores) < MOST and error > SHARP):
        parts, test = split(y, len(scores), ROWS)
        owners = ds.Owners.from_arrays({str(j): (X[p], y[p]) for j, p in enumerate(parts)})
        both = games(name, numbers, owners, X[test], y[test], repeats=3)
        scores.append([float(game(np.ones((1, 4)))[0]) for game in both])
        differences = -np.diff(scores)[:, 0]
        error = differences.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.inf
    cells = [*np.mean(scores, axis=0), differences.mean(), error, np.median(differences)]
    return [*(round(float(cell), 4) for cell in cells), len(scores)]


def reversed_last(name: str, X: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """Splits in which the reversed owner is last under scikit-learn's model, and under both."""
    classes, codes = np.unique(y, return_inverse=True)
    theirs_last = both_last = 0
    for seed in range(SEEDS):
        parts, test = split(y, seed, 4 * OWNER_ROWS)
        made = {str(j): (X[p], y[p]) for j, p in enumerate(parts)}
        made["0"] = X[parts[0]], classes[len(classes) - 1 - codes[parts[0]]]
        both = games(name, False, ds.Owners.from_arrays(made), X[test], y[test])
        ours, theirs = (ds.value(game, "exact").values.argmin() == 0 for game in both)
        theirs_last, both_last = theirs_last + int(theirs), both_last + int(ours and theirs)
    return theirs_last, both_last


def main() -> None:
    """Print both tables, and keep them."""
    warnings.simplefilter("ignore")
    names, known = sys.argv[1:] or list(ds.models()), load("named_models")
    rows: list[list[Any]] = [row for row in known.get("rows", []) if row[1] not in names]
    for table, numbers, X, y in tables():
        for name in names:
            if numbers and len(COUNTERPARTS[name]) == 1:
                continue
            last = (None, None) if numbers else reversed_last(name, X, y)
            rows.append([table, name, *grand(name, numbers, X, y), *last])
            print(*rows[-1], flush=True)
            save("named_models", {"header": HEADER, "rows": sorted(rows, key=lambda row: row[:2])})
    print(markdown(HEADER, [["" if cell is None else str(cell) for cell in row] for row in rows]))


if __name__ == "__main__":
    main()
