"""A network of one's own: hundreds of pools at once beside one by one, on the same device.

    python benchmarks/networks.py [--small] [--json FILE]

Three networks (a convolutional one and a transformer block on scikit-learn's digits, an MLP for
regression on its diabetes data), twelve owners, 500 pools each through `ds.value` with the method
`permutation`; one by one is `ModelGame(..., fast=False)` on a part of the same pools. Times are
wall-clock after a warm-up, scoring included.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits

import dushapley as ds
from dushapley.games import TorchModel

ROOT = Path(__file__).resolve().parent.parent


def convolutional() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 8, 8)),
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    )


class Transformer(torch.nn.Module):
    """One block of attention over the eight lines of a digit."""

    def __init__(self) -> None:
        super().__init__()
        self.place = torch.nn.Parameter(torch.zeros(8, 16))
        self.into = torch.nn.Linear(8, 16)
        self.block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lines = self.into(x.reshape(-1, 8, 8)) + self.place
        return self.head(self.block(lines).mean(dim=1))


def perceptron() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


def owners_of(X: np.ndarray, y: np.ndarray, n: int, rows: int) -> ds.Owners:
    parts = {f"owner {i}": slice(i * rows, (i + 1) * rows) for i in range(n)}
    return ds.Owners.from_arrays({name: (X[part], y[part]) for name, part in parts.items()})


def games(steps: int) -> dict[str, object]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    A, b = load_diabetes(return_X_y=True)
    A, b = A / A.std(axis=0), (b - b.mean()) / b.std()
    digits = owners_of(X, y, 12, 100), X[1200:], y[1200:]
    numbers = owners_of(A, b, 12, 27), A[324:], b[324:]
    quick = {"steps": steps, "batch_size": 32, "learning_rate": 0.005}
    return {
        "convolutional net, digits": (*digits, TorchModel(convolutional, **quick), "accuracy"),
        "transformer block, digits": (*digits, TorchModel(Transformer, **quick), "accuracy"),
        "MLP, diabetes": (*numbers, TorchModel(perceptron, "mse", **quick), "r2"),
    }


def measured(name: str, parts: tuple, n_pools: int, n_alone: int) -> dict[str, object]:
    owners, X, y, model, scoring = parts
    made, single = (
        ds.ModelGame(owners, model, X, y, scoring=scoring, fast=fast) for fast in (True, False)
    )
    rng = np.random.default_rng(1)
    pools = rng.random((n_pools, 12)) < rng.uniform(0.1, 1, (n_pools, 1))
    pools[:, 0] |= ~pools.any(axis=1)
    made(pools[:1])
    single(pools[:1])
    start = time.perf_counter()
    together = made(pools)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    alone = single(pools[:n_alone])
    each = (time.perf_counter() - start) / n_alone
    start = time.perf_counter()
    valuation = ds.value(made, "permutation", budget=n_pools)
    through = time.perf_counter() - start
    few = together[:n_alone]
    row = {
        "network": name,
        "trainings": n_pools,
        "seconds_together": seconds,
        "seconds_through_value": through,
        "computed_by_value": valuation.n_computed,
        "seconds_each_alone": each,
        "times_faster": each * n_pools / seconds,
        "mean_score_together": float(few.mean()),
        "mean_score_alone": float(alone.mean()),
        "note": made.notes[0],
    }
    print(
        f"| {name} | {seconds:.2f} | {through:.2f} ({valuation.n_computed}) | {each:.3f} | "
        f"{row['times_faster']:.0f} | {few.mean():.4f} | {alone.mean():.4f} |",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a size for any CPU")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/networks.json")
    args = parser.parse_args()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    n_pools, n_alone, steps = (32, 4, 20) if args.small else (500, 8, 200)
    print(f"{where}, torch {torch.__version__}, {n_pools} pools of 12 owners, {steps} steps")
    print(
        "| network | s together | s through ds.value (computed) | s each alone | times faster | "
        "mean score together | alone |\n|---|---|---|---|---|---|---|"
    )
    rows = [measured(name, parts, n_pools, n_alone) for name, parts in games(steps).items()]
    args.json.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": where, "torch": torch.__version__, "steps": steps, "networks": rows}
    args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
