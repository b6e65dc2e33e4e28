"""Complete tables of all 2^I utilities by name: data, model, score, kind of owners, I and seed.

A name says all there is to know, `housing/ridge/r2/shifted/12/0`, so a table can be made again
anywhere. Models are trained many coalitions at a time: from owners' sums (ridge, naive Bayes,
double descent), by batched steps (logistic regression, boosted stumps, networks) or by counting
(nearest neighbours). `GAMES` has 72 names; half of them, by a hash of the name, are for tuning
(`TUNE`), the others are held back (`HELD_BACK`) and looked at when nothing is changed any more.

    python benchmarks/complete_games.py        # make them all, under DUSHAPLEY_TABLES
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import dushapley as ds
from made_games import data, members
from stored_games import StoredGame

FOLDER = Path(os.environ.get("DUSHAPLEY_TABLES", tempfile.gettempdir())) / "complete-games"
ROWS, TEST = 700, 400
"""Rows of all owners together, and of the test set, at most."""


@dataclass(frozen=True)
class Rows:
    """The rows of all owners, whose each is, and the test rows; `numeric` targets or 0 and 1."""

    X: np.ndarray
    y: np.ndarray
    owner: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    numeric: bool

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.owner)

    def masks(self, start: int, stop: int) -> np.ndarray:
        """Which rows each coalition of a range holds, shape (coalitions, rows)."""
        return members(len(self.sizes))[start:stop][:, self.owner].astype(np.float64)


# --- data: features, targets


def housing() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("california_housing.parquet"))
    return frame.drop(columns="MedHouseVal").to_numpy(), frame["MedHouseVal"].to_numpy()


def year() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("year_msd_12f_6224.parquet"))
    return frame.drop(columns=["year", "in_90f"]).to_numpy(float), frame["year"].to_numpy(float)


def adult() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("adult.parquet"))
    y = frame["income"].astype(str).str.contains(">50K").to_numpy(float)
    X = frame.select_dtypes("number").assign(
        married=frame["marital-status"].astype(str).str.startswith("Married")
        if "marital-status" in frame
        else 0,
        male=(frame["sex"].astype(str) == "Male") if "sex" in frame else 0,
    )
    return X.to_numpy(float), y


def bank() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("bank_marketing.parquet"))
    y = (frame["y"].astype(str) == "yes").to_numpy(float)
    return frame.select_dtypes("number").to_numpy(float), y


def cancer() -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(data("breast_cancer_diagnostic.parquet"))
    y = frame["target"].to_numpy()
    return frame.drop(columns="target").to_numpy(float)[:, :12], (y == y.max()).astype(float)


def embedded(file: str, X: str, y: str, positive: Callable) -> Callable:
    def load() -> tuple[np.ndarray, np.ndarray]:
        with np.load(data(file), allow_pickle=True) as stored:
            rows, labels = stored[X].astype(np.float64), stored[y]
        rows = rows - rows.mean(axis=0)
        return rows @ np.linalg.svd(rows[:1000], full_matrices=False)[2][:12].T, positive(labels)

    return load


def toy(load: Callable, positive: Callable) -> Callable:
    def loaded() -> tuple[np.ndarray, np.ndarray]:
        X, y = load(return_X_y=True)
        X = X[:, X.std(axis=0) > 0]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return X @ np.linalg.svd(X, full_matrices=False)[2][:12].T, positive(y).astype(float)

    return loaded


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "housing": housing,
    "year": year,
    "diabetes": toy(load_diabetes, lambda y: y),
    "adult": adult,
    "bank": bank,
    "cancer": cancer,
    "bbc": embedded("bbc_minilm_emb.npz", "X", "y", lambda y: (y.astype(int) % 2).astype(float)),
    "imdb": embedded("imdb_minilm_emb.npz", "X", "y", lambda y: (y.astype(int) == 1).astype(float)),
    "cifar": embedded(
        "cifar10_resnet50_emb.npz",
        "X_train",
        "y_train",
        lambda y: np.isin(y, [2, 3, 4, 5, 6, 7]) * 1.0,
    ),
    "digits": toy(load_digits, lambda y: y % 2),
    "wine": toy(load_wine, lambda y: y == 1),
}
NUMERIC = ("housing", "year", "diabetes")


# --- owners


@cache
def loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    return DATA[name]()


def dealt(
    name: str, kind: str, n: int, rng: np.random.Generator, sizes: np.ndarray | None = None
) -> Rows:
    """Rows of a dataset dealt to n owners of a kind, as many to each as is drawn, or as given."""
    X, y = loaded(name)
    numeric = name in NUMERIC
    order = rng.permutation(len(y))
    held = min(TEST, len(y) // 3)
    test, rest = order[:held], order[held:]
    X = np.clip((X - X[rest].mean(axis=0)) / np.maximum(X[rest].std(axis=0), 1e-9), -5, 5)
    if numeric:
        y = (y - y[rest].mean()) / y[rest].std()
    if sizes is None:
        share = np.exp(rng.uniform(0, 4.0 if kind == "powerlaw" else 2.0, n))
        sizes = np.maximum(np.rint(share / share.sum() * min(ROWS, len(rest))), 3).astype(int)
    rest = rest[: sizes.sum()]
    sizes[-1] -= sizes.sum() - len(rest)
    if kind in ("shifted", "skewed"):  # owners differ in their rows, or in their targets
        by = X[rest] @ rng.standard_normal(X.shape[1]) if kind == "shifted" else y[rest]
        rest = rest[np.argsort(by + by.std() * rng.standard_normal(len(rest)), kind="stable")]
    owner = np.repeat(rng.permutation(n), sizes)
    X_own, y_own = X[rest], y[rest].copy()
    if kind == "mislabelled":
        for j in rng.permutation(n)[: n // 4 + 1]:
            bad = (owner == j) & (rng.random(len(owner)) < 0.6)
            y_own[bad] = rng.permutation(y_own)[: bad.sum()] if numeric else 1 - y_own[bad]
    if kind == "toxic":
        bad = owner == int(np.argsort(np.bincount(owner))[-2])
        y_own[bad] = 2.5 * y_own[bad] + 2 if numeric else 1 - y_own[bad]
    if kind == "copied":  # three owners hold the same rows
        first, *others = rng.permutation(n)[:3]
        for j in others:
            keep = owner != j
            again = np.flatnonzero(owner == first)
            X_own = np.concatenate([X_own[keep], X_own[again]])
            y_own = np.concatenate([y_own[keep], y_own[again]])
            owner = np.concatenate([owner[keep], np.full(len(again), j)])
    return Rows(X_own, y_own, owner, X[test], y[test], numeric)


# --- models: predictions on the test rows for all coalitions, as scores (numbers or log-odds)


def with_ones(X: np.ndarray) -> np.ndarray:
    return np.c_[X, np.ones(len(X))]


def sums(parts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Sums of rows of `parts` over every coalition."""
    own = np.stack([parts[owner == j].sum(axis=0) for j in range(owner.max() + 1)])
    return members(len(own)) @ own.reshape(len(own), -1)


def least_squares(rows: Rows, X: np.ndarray, X_test: np.ndarray, strength: float) -> np.ndarray:
    d = X.shape[1]
    y = rows.y if rows.numeric else 2 * rows.y - 1
    gram = sums(X[:, :, None] * X[:, None, :], rows.owner).reshape(-1, d, d)
    moment = sums(X * y[:, None], rows.owner)
    found = np.linalg.solve(gram + strength * np.eye(d), moment[:, :, None])[:, :, 0]
    return found @ X_test.T


def ridge(rows: Rows, _rng: np.random.Generator) -> np.ndarray:
    return least_squares(rows, with_ones(rows.X), with_ones(rows.X_test), 0.1)


def descent(rows: Rows, rng: np.random.Generator) -> np.ndarray:
    """Forty random features and hardly a penalty: pools of about forty rows do worst."""
    W = rng.standard_normal((rows.X.shape[1] + 1, 40))
    hidden, hidden_test = (np.maximum(with_ones(X) @ W, 0) for X in (rows.X, rows.X_test))
    return least_squares(rows, hidden, hidden_test, 1e-2)


def bayes(rows: Rows, _rng: np.random.Generator) -> np.ndarray:
    odds = np.zeros((2 ** len(rows.sizes), len(rows.X_test)))
    for label, sign in ((1, 1.0), (0, -1.0)):
        here = (rows.y == label)[:, None]
        parts = np.c_[here, here * rows.X, here * rows.X**2]
        total = sums(parts, rows.owner)
        d = rows.X.shape[1]
        count = total[:, :1]
        mean = total[:, 1 : d + 1] / np.maximum(count, 1)
        variance = total[:, d + 1 :] / np.maximum(count, 1) - mean**2
        variance = np.maximum(variance, 0) + 0.02
        precise = 1 / variance
        odds += sign * (
            np.log(count + 0.5)
            - 0.5 * (np.log(variance) + mean**2 * precise).sum(axis=1, keepdims=True)
            + (mean * precise) @ rows.X_test.T
            - 0.5 * precise @ (rows.X_test**2).T
        )
    return odds


def in_blocks(work: Callable[[np.ndarray], np.ndarray], rows: Rows, block: int) -> np.ndarray:
    count = 2 ** len(rows.sizes)
    return np.concatenate([work(rows.masks(at, at + block)) for at in range(0, count, block)])


def logistic(rows: Rows, _rng: np.random.Generator) -> np.ndarray:
    X, test = with_ones(rows.X), with_ones(rows.X_test)

    def trained(mask: np.ndarray) -> np.ndarray:
        mask = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        w = np.zeros((len(mask), X.shape[1]))
        for _ in range(40):
            w -= 0.7 * ((1 / (1 + np.exp(-w @ X.T)) - rows.y) * mask) @ X
        return w @ test.T

    return in_blocks(trained, rows, 1024)


def boosting(rows: Rows, _rng: np.random.Generator) -> np.ndarray:
    """Twenty stumps at eight thresholds of every feature, one after another."""
    cuts = np.quantile(rows.X, np.linspace(0.1, 0.9, 8), axis=0)
    left, left_test = (
        (X[:, :, None] <= cuts.T[None]).reshape(len(X), -1).astype(np.float32)
        for X in (rows.X, rows.X_test)
    )
    y = rows.y if rows.numeric else 2 * rows.y - 1

    def trained(mask: np.ndarray) -> np.ndarray:
        mask = mask.astype(np.float32)
        count, count_left = mask.sum(axis=1, keepdims=True), mask @ left
        found = np.zeros((len(mask), len(left)), np.float32)
        test = np.zeros((len(mask), len(left_test)), np.float32)
        for _ in range(20):
            residual = mask * (y.astype(np.float32) - found)
            total, sum_left = residual.sum(axis=1, keepdims=True), residual @ left
            low = sum_left / (count_left + 1)
            high = (total - sum_left) / (count - count_left + 1)
            best = np.argmax(low * sum_left + high * (total - sum_left), axis=1)
            at = np.arange(len(mask))
            one, other = low[at, best][:, None], high[at, best][:, None]
            found += 0.3 * np.where(left[:, best].T > 0, one, other)
            test += 0.3 * np.where(left_test[:, best].T > 0, one, other)
        return test

    return in_blocks(trained, rows, 512)


def network(rows: Rows, rng: np.random.Generator) -> np.ndarray:
    """Six hidden units, sixty steps from the same start."""
    X, test = with_ones(rows.X), with_ones(rows.X_test)
    inner, outer = rng.standard_normal((X.shape[1], 6)) / 2, rng.standard_normal(7) / 2

    def trained(mask: np.ndarray) -> np.ndarray:
        mask = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        W, v = np.tile(inner, (len(mask), 1, 1)), np.tile(outer, (len(mask), 1))
        for _ in range(60):
            hidden = np.tanh(X @ W)
            out = (hidden @ v[:, :6, None])[:, :, 0] + v[:, 6:]
            error = out - rows.y if rows.numeric else 1 / (1 + np.exp(-out)) - rows.y
            error = error * mask
            back = error[:, :, None] * v[:, None, :6] * (1 - hidden**2)
            v -= 0.5 * np.c_[(error[:, None, :] @ hidden)[:, 0], error.sum(axis=1)]
            W -= 0.5 * (X.T @ back)
        return (np.tanh(test @ W) @ v[:, :6, None])[:, :, 0] + v[:, 6:]

    return in_blocks(trained, rows, 64)


def neighbours(rows: Rows, _rng: np.random.Generator) -> np.ndarray:
    """The five nearest rows of the pool vote."""
    far = ((rows.X_test[:, None] - rows.X[None]) ** 2).sum(axis=2)
    order = np.argsort(far, axis=1, kind="stable")
    mask = rows.masks(0, 2 ** len(rows.sizes)).astype(np.int16)
    y = rows.y if rows.numeric else 2 * rows.y - 1
    found = np.empty((len(mask), len(order)))
    for at, near in enumerate(order):
        inside = mask[:, near]
        chosen = inside * (np.cumsum(inside, axis=1) <= 5)
        found[:, at] = (chosen @ y[near]) / np.maximum(chosen.sum(axis=1), 1)
    return found


def tree(rows: Rows, _rng: np.random.Generator) -> np.ndarray:
    kind = DecisionTreeRegressor if rows.numeric else DecisionTreeClassifier
    masks = rows.masks(0, 2 ** len(rows.sizes)) > 0
    found = np.zeros((len(masks), len(rows.X_test)))
    for at, mask in enumerate(masks[1:], 1):
        model = kind(max_depth=5, random_state=at).fit(rows.X[mask], rows.y[mask])
        found[at] = model.predict(rows.X_test) * (1 if rows.numeric else 2) - (not rows.numeric)
    return found


MODELS: dict[str, Callable[[Rows, np.random.Generator], np.ndarray]] = {
    "ridge": ridge,
    "descent": descent,
    "bayes": bayes,
    "logistic": logistic,
    "boosting": boosting,
    "network": network,
    "knn": neighbours,
    "tree": tree,
}


# --- scores


def accuracy(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((out > 0) == (y > 0)).mean(axis=1)


def f1(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    hit, said = ((out > 0) & (y > 0)).sum(axis=1), (out > 0).sum(axis=1)
    return 2 * hit / np.maximum(said + (y > 0).sum(), 1)


def log_loss(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.minimum(np.logaddexp(0, np.where(y > 0, -out, out)), 36).mean(axis=1)


def r2(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 1 - ((out - y) ** 2).mean(axis=1) / y.var()


def rmse(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.sqrt(((out - y) ** 2).mean(axis=1))


SCORES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": accuracy,
    "f1": f1,
    "logloss": log_loss,
    "r2": r2,
    "rmse": rmse,
}


# --- the list

KINDS = ("iid", "powerlaw", "shifted", "skewed", "mislabelled", "toxic", "copied")
LABELLED = tuple(name for name in DATA if name not in NUMERIC)
MEANS = (
    "ridge/r2", "bayes/accuracy", "logistic/accuracy", "boosting/f1", "knn/accuracy",
    "ridge/rmse", "logistic/logloss", "boosting/r2", "bayes/logloss", "descent/r2",
    "tree/accuracy", "network/accuracy", "boosting/accuracy", "knn/rmse", "logistic/f1",
    "network/rmse", "tree/r2", "descent/accuracy",
)  # fmt: skip
"""Model and score, in turn; kinds of owners and data take turns at other paces."""


def names(count: int = 72) -> list[str]:
    found = []
    for at in range(count):
        means = MEANS[at % len(MEANS)]
        numeric = means.endswith(("r2", "rmse"))
        of = (NUMERIC if numeric else LABELLED)[(at + at // len(MEANS)) % (3 if numeric else 8)]
        kind = KINDS[(at + 2 * (at // len(MEANS))) % len(KINDS)]
        slow = means.split("/")[0] in ("network", "tree", "knn")
        owners = (10, 11)[at % 2] if slow else (11, 12, 13, 12, 14)[at % 5]
        found.append(f"{of}/{means}/{kind}/{owners}/{at // len(MEANS)}")
    return found


GAMES = names()


def for_tuning(name: str) -> bool:
    """Half of all names, by a hash that knows nothing of the game."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


TUNE = [name for name in GAMES if for_tuning(name)]
HELD_BACK = [name for name in GAMES if not for_tuning(name)]


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Utilities of all coalitions and sizes of the owners; the best constant for nobody's data."""
    of, model, score, kind, owners, _seed = name.split("/")
    rng = np.random.default_rng(list(hashlib.sha256(name.encode()).digest()[:8]))
    rows = dealt(of, kind, int(owners), rng)
    return utilities(rows, model, score, rng), rows.sizes


def utilities(rows: Rows, model: str, score: str, rng: np.random.Generator) -> np.ndarray:
    """Scores of the models of all coalitions; the best constant for nobody's data."""
    out = MODELS[model](rows, rng)
    u = SCORES[score](out, rows.y_test)
    y = rows.y_test
    constants = (np.zeros(1) if rows.numeric else np.array([-1e-9, 1e-9]))[:, None]
    u[0] = SCORES[score](np.tile(constants, (1, len(y))), y).max() if score != "f1" else 0.0
    return u


def complete_game(name: str) -> StoredGame:
    """A game by name, made on the first call and kept."""
    path = FOLDER / (name.replace("/", "-") + ".npz")
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        u, sizes = table(name)
        np.savez_compressed(path, u=u, sizes=sizes)
    with np.load(path) as file:
        game = ds.TableGame(file["u"], file["sizes"])
    exact = ds.value(game, "exact", budget=2**game.n_players).values
    return StoredGame(name, game, exact, np.empty((0, game.n_players)))


if __name__ == "__main__":
    for name in sys.argv[1:] or GAMES:
        made = complete_game(name)
        u = made.game.values
        print(f"{name}: u(∅) {u[0]:.3f}, u(all) {u[-1]:.3f}, lowest {u[1:].min():.3f}, "
              f"values {made.exact.min():.4f} to {made.exact.max():.4f}", flush=True)  # fmt: skip
