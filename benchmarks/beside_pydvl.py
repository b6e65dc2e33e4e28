"""Owner-level values of a trained model beside pyDVL: error, intervals and time at one budget.

Twelve owners of the breast cancer data, two of them with mixed-up labels; a scaled logistic
regression from scikit-learn; accuracy on a test set. Exact values come from all 4,096 trainings.
pyDVL groups rows by owner (`GroupedDataset`). It needs an older NumPy, so it runs in an
environment of its own, whose Python is named on the command line. Trainings are counted in the
model itself on both sides, which run one after the other.

    python -m venv peer && peer/bin/pip install pydvl scikit-learn
    python benchmarks/beside_pydvl.py peer/bin/python
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

OWNERS, SEEDS = 12, 20
WALKS = {"6I": 6, "2I²": 24}
"""Permutations that each budget pays for; one asks I trainings."""


class Counted(LogisticRegression):
    """A logistic regression that counts how often it is trained."""

    fits = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Counted:
        Counted.fits += 1
        super().fit(X, y, sample_weight)
        return self


def rows() -> tuple[Any, Any, Any, Any, Any]:
    """Training rows and targets, the owner of each row, test rows and targets."""
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    X, y = X[order], y[order].copy()
    weights = rng.integers(1, 6, OWNERS)
    owner = np.sort(rng.choice(OWNERS, 369, p=weights / weights.sum()))
    wrong = np.isin(owner, (2, 7)) & (rng.random(369) < 0.5)
    y[:369][wrong] = 1 - y[:369][wrong]
    return X[:369], y[:369], owner, X[369:], y[369:]


def model() -> Any:
    return make_pipeline(StandardScaler(), Counted(max_iter=300))


def timed(work: Callable[[], tuple[Any, Any]]) -> dict[str, Any]:
    """Values and standard errors of one run, its trainings and its CPU seconds."""
    Counted.fits, begun = 0, time.process_time()
    values, errors = work()
    return {
        "values": np.asarray(values).tolist(),
        "errors": None if errors is None else np.asarray(errors).tolist(),
        "trainings": Counted.fits,
        "seconds": time.process_time() - begun,
    }


def peer() -> None:
    """The other side: prints all runs as JSON. Needs pyDVL, not dushapley."""
    warnings.simplefilter("ignore")
    import pydvl.valuation as dvl

    X, y, owner, X_test, y_test = rows()
    data = dvl.GroupedDataset(X, y, owner)
    constant = float(max(np.mean(y_test), 1 - np.mean(y_test)))

    def run(sampler: Any, updates: int) -> tuple[Any, Any]:
        scorer = dvl.SupervisedScorer("accuracy", dvl.Dataset(X_test, y_test), default=constant)
        utility = dvl.ModelUtility(model(), scorer, show_warnings=False)
        valuation = dvl.ShapleyValuation(utility, sampler, dvl.MaxUpdates(updates))
        found = valuation.fit(data).result
        place = np.argsort([int(str(name)) for name in found.names])
        return found.values[place], found.stderr[place]

    samplers = {
        "permutation": dvl.PermutationSampler,
        "antithetic": dvl.AntitheticPermutationSampler,
    }
    found = [
        {"method": name, "budget": budget, "seed": seed}
        | timed(lambda make=make, seed=seed, walks=walks: run(make(seed=seed), walks))
        for name, make in samplers.items()
        for budget, walks in WALKS.items()
        for seed in range(SEEDS)
    ]
    print(json.dumps(found))


def ours() -> tuple[Any, list[dict[str, Any]]]:
    """Exact values, and all runs of this side."""
    import dushapley as ds

    X, y, owner, X_test, y_test = rows()
    owners = ds.Owners.from_arrays({str(j): (X[owner == j], y[owner == j]) for j in range(OWNERS)})

    def run(method: str, budget: int | None, seed: int) -> tuple[Any, Any]:
        game = ds.ModelGame(owners, model(), X_test, y_test, scoring="accuracy")
        found = ds.value(game, method, budget=budget, seed=seed, progress=False)
        return found.values, found.std_errors

    exact, _ = run("exact", None, 0)
    return exact, [
        {"method": method, "budget": budget, "seed": seed}
        | timed(lambda m=method, b=OWNERS * walks, s=seed: run(m, b, s))
        for method in ("auto", "permutation", "antithetic")
        for budget, walks in WALKS.items()
        for seed in range(SEEDS)
    ]


def judged(side: str, exact: Any, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per method and budget."""
    lines = []
    for method, budget in dict.fromkeys((run["method"], run["budget"]) for run in found):
        runs = [r for r in found if (r["method"], r["budget"]) == (method, budget)]
        off = np.array([r["values"] for r in runs]) - exact
        errors = np.array([r["errors"] for r in runs], dtype=float)
        mse = np.mean(off**2, axis=1) / np.var(exact)
        hold = float(np.mean(abs(off) <= 1.96 * errors))
        lines.append(
            {
                "library": side,
                "method": method,
                "budget": budget,
                "trainings": round(float(np.mean([r["trainings"] for r in runs])), 1),
                "relative MSE": float(f"{mse.mean():.3g}"),
                "its standard error": float(f"{mse.std(ddof=1) / np.sqrt(len(mse)):.1g}"),
                "95% intervals that hold, %": round(100 * hold, 1),
                "CPU ms a training": round(
                    1000 * sum(r["seconds"] for r in runs) / sum(r["trainings"] for r in runs), 2
                ),
            }
        )  # fmt: skip
    return lines


def main(python: str) -> None:
    """Both sides in one run, a table and a small file."""
    with tempfile.TemporaryDirectory() as folder:
        peer = subprocess.run(
            [python, str(Path(__file__).resolve()), "--peer"],
            check=True, capture_output=True, text=True, cwd=folder,
        )  # fmt: skip
    exact, runs = ours()
    lines = judged("dushapley", exact, runs)
    lines += judged("pyDVL", exact, json.loads(peer.stdout.splitlines()[-1]))
    print("| " + " | ".join(lines[0]) + " |\n|" + "---|" * len(lines[0]))
    for line in lines:
        print("| " + " | ".join(map(str, line.values())) + " |")
    store = Path(__file__).parent / "results" / "beside_pydvl.json"
    store.write_text(json.dumps(lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    peer() if sys.argv[1] == "--peer" else main(sys.argv[1])
