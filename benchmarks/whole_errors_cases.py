"""What `whole_errors.py` measures on: three tables, five models each, owners drawn from them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

try:
    import cloudpickle
except ImportError:  # joblib brings its own
    from joblib.externals import cloudpickle

    sys.modules["cloudpickle"] = cloudpickle

import dushapley as ds
from dushapley.games import SmallMLP
from dushapley_paper.data import FOLDER, find, standardised

TEST, HELD_OUT = 300, 9_000
"""Rows of a test set, and of the rows it is drawn from: thirty times as many."""
SIZES = (60, 90, 140, 220)
STARTS = 40
"""Trainings of a random model that there are: each starts from another seed."""
NOISY, FLIPPED = 2, 0.3
"""The owner with wrong targets, and the part of them that is wrong."""


LONG_TAILS = ("capital-gain", "capital-loss", "balance", "duration", "campaign", "pdays")
LONG_TAILS += ("previous", "AveRooms", "AveBedrms", "Population", "AveOccup")
"""Columns taken as logarithms: a mean of squares that hangs on one row in a thousand has no error
bar that 300 rows could know."""


class Data(NamedTuple):
    """One table: rows for owners, and rows held out, of which all are the truth."""

    X: np.ndarray
    y: np.ndarray
    X_held: np.ndarray
    y_held: np.ndarray
    task: str


@cache
def data(name: str) -> Data:
    """A table with few columns; from plain arrays where `prepare` left them."""
    stored = Path(os.environ.get(FOLDER, "")) / f"whole-{name}.npz"
    if stored.is_file():
        with np.load(stored) as file:
            rows, targets = file["X"], file["y"]
    else:
        rows, targets = read(name)
    held = slice(-HELD_OUT, None)
    task = "regression" if name == "cal-housing" else "classification"
    return Data(rows[:-HELD_OUT], targets[:-HELD_OUT], rows[held], targets[held], task)


def prepare(folder: Path) -> None:
    """Store the tables as plain arrays, for machines that cannot read their own format."""
    for name in DATA:
        X, y = read(name)
        np.savez_compressed(folder / f"whole-{name}.npz", X=X, y=y)


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a table in an order drawn once."""
    import pandas as pd

    frame = pd.read_parquet(find(name))
    if name == "adult":
        y = (frame["income"].str.strip(". ") == ">50K").astype(int)
        married = frame["marital-status"].str.startswith("Married")
        X = frame.select_dtypes("number").assign(married=married, man=frame["sex"] == "Male")
    elif name == "bank":
        y = (frame["y"] == "yes").astype(int)
        X = frame.select_dtypes("number").assign(housing=frame["housing"] == "yes")
    else:
        y = frame.pop("MedHouseVal")
        X = frame
    skewed = [column for column in LONG_TAILS if column in X]
    X[skewed] = np.sign(X[skewed]) * np.log1p(np.abs(X[skewed]))
    order = np.random.default_rng(0).permutation(len(X))
    return standardised(X.to_numpy(dtype=float))[order], y.to_numpy()[order]


def median_error(model: Any, X: Any, y: Any) -> float:
    """Minus median absolute error: a score of which the library knows answers only."""
    return -float(np.median(np.abs(y - model.predict(X))))


OWN_SCORES = {"median error": median_error}
DATA = ("adult", "bank", "cal-housing")
METRICS = {
    "classification": ("accuracy", "balanced_accuracy", "neg_log_loss", "f1", "roc_auc"),
    "regression": (
        "r2",
        "neg_mean_squared_error",
        "neg_root_mean_squared_error",
        "neg_mean_absolute_error",
        "median error",
    ),
}
started: dict[bytes, list[int]] = {}
"""Seeds of trainings that were left to chance, by the rows they were trained on."""


class Net(BaseEstimator):
    """A torch net of one hidden layer without a `random_state`.

    It starts from one of `STARTS` initial weights, which torch's global generator chooses, so that
    all it can come to is known; `start` fixes which.
    """

    def __init__(
        self, hidden: int = 12, steps: int = 30, rate: float = 0.05, start: int | None = None
    ) -> None:
        self.hidden, self.steps, self.rate, self.start = hidden, steps, rate, start

    def fit(self, X: Any, y: Any) -> Any:
        import torch

        start = int(torch.randint(STARTS, (1,))) if self.start is None else self.start
        started.setdefault(X.tobytes(), []).append(start)
        generator = torch.Generator().manual_seed(start)
        shapes = ((X.shape[1], self.hidden), (self.hidden,), (self.hidden,), (1,))
        weights = [
            (torch.randn(*shape, generator=generator) / shape[0] ** 0.5).requires_grad_()
            for shape in shapes
        ]
        self._descend(torch, weights, *(torch.tensor(part, dtype=torch.float32) for part in (X, y)))
        self.weights_ = [w.detach().numpy().astype(np.float64) for w in weights]
        if is_classifier(self):
            self.classes_ = np.unique(y)
        return self

    def _descend(self, torch: Any, weights: list[Any], rows: Any, goal: Any) -> None:
        descent = torch.optim.Adam(weights, lr=self.rate)
        loss = torch.nn.BCEWithLogitsLoss() if is_classifier(self) else torch.nn.MSELoss()
        a, b, c, d = weights
        for _ in range(self.steps):
            descent.zero_grad()
            loss(torch.tanh(rows @ a + b) @ c + d, goal).backward()
            descent.step()

    def answer(self, X: Any) -> Any:
        a, b, c, d = self.weights_
        return np.tanh(X @ a + b) @ c + d


class NetClassifier(ClassifierMixin, Net):
    """The net for two classes."""

    def predict_proba(self, X: Any) -> Any:
        chance = 1 / (1 + np.exp(-self.answer(X)))
        return np.column_stack([1 - chance, chance])

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.answer(X) > 0).astype(int)]


class NetRegressor(RegressorMixin, Net):
    """The net for numbers."""

    def predict(self, X: Any) -> Any:
        return self.answer(X)


class Tree(DecisionTreeRegressor):
    """A tree that tells which seed each of its pools was given."""

    def fit(self, X: Any, y: Any) -> Any:
        started.setdefault(X.tobytes(), []).append(self.random_state)
        return super().fit(X, y)


class Case(NamedTuple):
    """A model, how often each pool is trained, and by which parameter its chance is fixed.

    `shared`: a repeat has one seed for all pools, as the library's own models have.
    """

    model: Any
    repeats: int = 1
    seeded_by: str = ""
    shared: bool = False

    def trainings(self, seeds: Iterable[int] = range(STARTS)) -> list[Any]:
        """The model with its chance fixed, in every way there is or by these seeds."""
        if not self.seeded_by:
            return [clone(self.model)]
        return [clone(self.model).set_params(**{self.seeded_by: seed}) for seed in seeds]


def cases(task: str) -> dict[str, Case]:
    """Five models for a task, the first two made of sums."""
    if task == "classification":
        small = SmallMLP(hidden=8, steps=60, optimizer="adam", learning_rate=0.05)
        return {
            "LDA (sums)": Case(LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)),
            "naive Bayes (sums)": Case(GaussianNB(var_smoothing=1e-2)),
            "logistic": Case(make_pipeline(StandardScaler(), LogisticRegression())),
            "small MLP (batched)": Case(small, 3, "random_state", shared=True),
            "torch net": Case(NetClassifier(), 3, "start"),
        }
    return {
        "ridge (sums)": Case(make_pipeline(StandardScaler(), Ridge())),
        "least squares (sums)": Case(LinearRegression()),
        "nearest neighbours": Case(KNeighborsRegressor(7)),
        "tree": Case(Tree(max_depth=5, max_features=3), 3, "random_state"),
        "torch net": Case(NetRegressor(steps=60), 3, "start"),
    }


def draw_owners(table: Data, sizes: Any, noisy: Any, seed: int) -> ds.Owners:
    """Owners with rows drawn by a seed, and with wrong targets where `noisy` says how many."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(table.X))[: sum(sizes)]
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    blocks = {}
    for j, (part, wrong) in enumerate(zip(parts, noisy, strict=True)):
        y = table.y[part].copy()
        mixed = rng.random(len(y)) < wrong
        y[mixed] = rng.permutation(y[mixed])
        blocks[f"owner {j + 1}"] = (table.X[part], y)
    return ds.Owners.from_arrays(blocks)


def fixed_owners(table: Data, sizes: tuple[int, ...]) -> ds.Owners:
    """The owners of the coverage table."""
    noisy = [FLIPPED * (j == NOISY) for j in range(len(sizes))]
    return draw_owners(table, sizes, noisy, seed=1)
