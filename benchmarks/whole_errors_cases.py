"""What `whole_errors.py` measures on: three tables, five models each, and owners drawn from them.

Expensive models are wrapped in `Remembered`: the game trains them through its front door as ever,
and what was trained on the same rows from the same seed before is not trained again.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression
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
SIZES = (30, 60, 120, 240)
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


DATA = ("adult", "bank", "cal-housing")
METRICS = {
    "classification": ("accuracy", "balanced_accuracy", "neg_log_loss", "f1", "roc_auc"),
    "regression": (
        "r2",
        "neg_mean_squared_error",
        "neg_root_mean_squared_error",
        "neg_mean_absolute_error",
        "neg_median_absolute_error",
    ),
}
_trained: dict[Any, Any] = {}


def forget() -> None:
    """Drop what was trained, before it fills the memory."""
    _trained.clear()


class Remembered(BaseEstimator):
    """A model that is not trained twice on the same rows with the same parameters."""

    def __init__(self, model: Any = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Any:
        seed = getattr(self.model, "random_state", None)
        key = (type(self.model).__name__, seed, X.tobytes(), y.tobytes())
        if key not in _trained:
            _trained[key] = clone(self.model).fit(X, y)
        self.fitted_ = _trained[key]
        if is_classifier(self):
            self.classes_ = self.fitted_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.fitted_.predict(X)


class RememberedClassifier(ClassifierMixin, Remembered):
    """The same for classes."""

    def predict_proba(self, X: Any) -> Any:
        return self.fitted_.predict_proba(X)


class RememberedRegressor(RegressorMixin, Remembered):
    """The same for numbers."""


class Net(BaseEstimator):
    """A torch net of one hidden layer without a `random_state`: it starts where torch is.

    One number of torch's global generator decides the weights it starts from, by which what was
    trained before is found again.
    """

    def __init__(self, hidden: int = 12, steps: int = 30, rate: float = 0.05) -> None:
        self.hidden, self.steps, self.rate = hidden, steps, rate

    def fit(self, X: Any, y: Any) -> Any:
        import torch

        start = int(torch.randint(2**62, (1,)))
        key = ("net", start, X.tobytes(), y.tobytes())
        if key not in _trained:
            _trained[key] = self._train(torch.Generator().manual_seed(start), X, y)
        self.weights_ = _trained[key]
        if is_classifier(self):
            self.classes_ = np.unique(y)
        return self

    def _train(self, generator: Any, X: Any, y: Any) -> list[np.ndarray]:
        import torch

        rows = torch.tensor(X, dtype=torch.float32)
        goal = torch.tensor(y, dtype=torch.float32)
        shapes = ((X.shape[1], self.hidden), (self.hidden,), (self.hidden,), (1,))
        weights = [
            (torch.randn(*shape, generator=generator) / shape[0] ** 0.5).requires_grad_()
            for shape in shapes
        ]
        descent = torch.optim.Adam(weights, lr=self.rate)
        loss = torch.nn.BCEWithLogitsLoss() if is_classifier(self) else torch.nn.MSELoss()
        for _ in range(self.steps):
            descent.zero_grad()
            a, b, c, d = weights
            loss(torch.tanh(rows @ a + b) @ c + d, goal).backward()
            descent.step()
        return [w.detach().numpy().astype(np.float64) for w in weights]

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


class Case(NamedTuple):
    """A model, and how often each pool is trained: once where there is no chance in it."""

    model: Any
    repeats: int = 1


def cases(task: str) -> dict[str, Case]:
    """Five models for a task, the first two made of sums."""
    if task == "classification":
        return {
            "LDA (sums)": Case(LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)),
            "naive Bayes (sums)": Case(GaussianNB(var_smoothing=1e-2)),
            "logistic": Case(
                RememberedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
            ),
            "small MLP (batched)": Case(
                SmallMLP(hidden=8, steps=60, optimizer="adam", learning_rate=0.05), repeats=3
            ),
            "torch net": Case(NetClassifier(), repeats=3),
        }
    return {
        "ridge (sums)": Case("ridge"),
        "least squares (sums)": Case(LinearRegression()),
        "nearest neighbours": Case(RememberedRegressor(KNeighborsRegressor(7))),
        "tree": Case(RememberedRegressor(DecisionTreeRegressor(max_depth=5, max_features=3)), 3),
        "torch net": Case(NetRegressor(steps=60), repeats=3),
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


def fixed_owners(table: Data) -> ds.Owners:
    """The owners of the coverage table."""
    noisy = [FLIPPED * (j == NOISY) for j in range(len(SIZES))]
    return draw_owners(table, SIZES, noisy, seed=1)
