"""Anybody's network: stacked training is the plain training of each pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, load_digits

import dushapley as ds
from dushapley.cli.main import main
from dushapley.errors import DUShapleyError, InvalidOption
from extras import needs

torch = needs("torch")

from dushapley.games import TorchModel  # noqa: E402


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))


def convolutional():
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(144, 10),
    )  # fmt: skip


def dropping():
    return torch.nn.Sequential(mlp(), torch.nn.Dropout(0.2))


def normalising():
    return torch.nn.Sequential(
        torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 10)
    )


class Transformer(torch.nn.Module):
    """One block of attention over the eight lines of a digit."""

    def __init__(self) -> None:
        super().__init__()
        self.block = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.block(x.reshape(-1, 8, 8)).mean(dim=1))


class Sums(torch.nn.Module):
    """Two weights that are added and have one gradient, and one whose numbers are alike in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10, bias=False)
        self.here, self.there = (torch.nn.Parameter(torch.zeros(10)) for _ in range(2))
        self.slope = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.layer(x) + (self.here + self.there) + self.slope.sum() * x[:, 20:30]


def for_numbers():
    return torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def digits(n_owners: int = 4):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    owners = {f"o{i}": (X[i * 60 : i * 60 + 60], y[i * 60 : i * 60 + 60]) for i in range(n_owners)}
    lacking = y[:60] < 7  # the first owner lacks classes
    owners["o0"] = X[:60][lacking], y[:60][lacking]
    return ds.Owners.from_arrays(owners), X[1000:1200], y[1000:1200]


def game(make, **more):
    owners, X, y = digits()
    model = TorchModel(make, steps=12, batch_size=16, learning_rate=0.01)
    return ds.ModelGame(owners, model, X, y, scoring=more.pop("scoring", "neg_log_loss"), **more)


POOLS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])


@pytest.mark.parametrize("make", [mlp, convolutional, Transformer, Sums])
def test_stacked_training_is_the_training_of_each(make) -> None:
    stacked, alone = game(make), game(make, fast=False)
    assert "at a time" in stacked.notes[0]
    np.testing.assert_allclose(stacked(POOLS), alone(POOLS), atol=2e-5)


def test_weights_that_share_a_gradient_take_the_same_steps() -> None:
    """Beside a network of one weight that takes both their steps."""

    class One(Sums):
        def forward(self, x):
            return self.layer(x) + 2 * self.here + 3 * self.slope[0] * x[:, 20:30]

    np.testing.assert_allclose(game(Sums)(POOLS), game(One)(POOLS), atol=2e-5)


def test_same_bits_in_any_company() -> None:
    together = game(mlp)(POOLS)
    np.testing.assert_array_equal([game(mlp)(pool[None])[0] for pool in POOLS], together)


@pytest.mark.parametrize(
    ("make", "why"), [(dropping, "drops units at random"), (normalising, "running statistics")]
)
def test_what_cannot_be_stacked_is_trained_alone_and_says_so(make, why: str) -> None:
    one_by_one = game(make)
    assert "one by one" in one_by_one.notes[0]
    assert why in one_by_one.notes[0]
    np.testing.assert_array_equal(one_by_one(POOLS), game(make)(POOLS[::-1])[::-1])


def test_part_of_the_rows() -> None:
    fractions = np.array([[0.5, 0.5, 0.0, 1.0]])
    found = [game(mlp, fast=fast)(fractions, draws=[3]) for fast in (True, False)]
    np.testing.assert_allclose(*found, atol=2e-5)


def test_numbers() -> None:
    X, y = load_diabetes(return_X_y=True)
    X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
    owners = ds.Owners.from_arrays(
        {f"o{i}": (X[i * 60 : i * 60 + 60], y[i * 60 : i * 60 + 60]) for i in range(4)}
    )
    model = TorchModel(for_numbers, "mse", steps=60, learning_rate=0.01)
    assert is_regressor(model)
    assert not is_classifier(model)
    one, other = (
        ds.ModelGame(owners, model, X[300:], y[300:], scoring="r2", fast=fast)
        for fast in (True, False)
    )
    np.testing.assert_allclose(one(POOLS), other(POOLS), atol=1e-4)
    assert one(POOLS)[-1] > 0.2


def test_ledger_test_set_and_training_errors(tmp_path: Path) -> None:
    made = game(mlp, repeats=3, scoring="accuracy")
    first = ds.value(made, "exact", ledger=tmp_path / "paid.sqlite")
    again = ds.value(made, "exact", ledger=tmp_path / "paid.sqlite")
    assert (first.n_computed, again.n_computed) == (16, 0)
    np.testing.assert_array_equal(first.values, again.values)
    assert min(first.errors["training"]) > 0
    assert min(first.errors["test set"]) > 0


def test_a_diverged_network_is_a_failure() -> None:
    owners, X, y = digits()
    wild = TorchModel(mlp, steps=30, learning_rate=1e30, optimizer="sgd")
    with pytest.raises(DUShapleyError, match="lower its learning rate"):
        ds.ModelGame(owners, wild, X, y)(POOLS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"make": 3}, "function without arguments"),
        ({"make": lambda: 3}, "must return a torch.nn.Module"),
        ({"make": for_numbers}, "cannot take rows of shape"),
        ({"make": lambda: torch.nn.Linear(64, 3)}, r"needs \(batch, 10\)"),
        ({"loss": "hinge"}, "loss"),
        ({"loss": lambda a, b: 0}, "Pass task="),
        ({"batch_size": None}, "whole number of rows"),
        ({"weight_decay": -1}, "penalty of 0 or more"),
    ],
)
def test_misuse_is_explained(wrong: dict, words: str) -> None:
    owners, X, y = digits()
    with pytest.raises((InvalidOption, DUShapleyError), match=words):
        ds.ModelGame(owners, TorchModel(**{"make": mlp, **wrong}), X, y)


def test_it_is_an_estimator_of_scikit_learn() -> None:
    model = clone(TorchModel(mlp, steps=3))
    X, y = load_digits(return_X_y=True)
    chances = model.fit(X[:50], y[:50]).predict_proba(X[50:60])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert set(model.predict(X[50:60])) <= set(y)


def test_the_command_line_takes_a_function_that_makes_a_network(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_network.py").write_text(
        "import torch\nfrom dushapley.games import TorchModel\n\n\n"
        "def net():\n    return torch.nn.Linear(2, 2)\n\n\n"
        "def small():\n    return TorchModel(net, steps=5, batch_size=8)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("north", "south", "test"):
        X = rng.normal(size=(40, 2))
        rows = [f"{a},{b},{int(a + b > 0)}" for a, b in X]
        (tmp_path / f"{name}.csv").write_text("a,b,y\n" + "\n".join(rows) + "\n")
    files = [str(tmp_path / f"{name}.csv") for name in ("north", "south", "test")]
    told = ["value", *files[:2], "--by-file", "--target", "y", "--test", files[2], "--no-ledger"]
    with pytest.raises(SystemExit) as ended:
        main([*told, "--model", "my_network.small", "--json"])
    assert ended.value.code == 0
    assert "at a time by torch" in capsys.readouterr().out
