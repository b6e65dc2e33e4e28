"""Who could cheat whom, and what would it gain? Measured on data that ships with scikit-learn.

Six owners of 20 to 60 rows share 100,000 by their exact Shapley values (rule "clip"): of an easy
task (breast cancer, `lda`, accuracy on 200 test rows) and of a hard one (diabetes, `ridge`, R² on
150). The second owner, of 30 rows, tries each trick; its gain is what all its names together are
paid, over what it is paid honestly: mean over 40 random splits, with its standard error. Stored in
`results/threats.json`; `docs/threats.md` quotes it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

import dushapley as ds

STORED = Path(__file__).parent / "results" / "threats.json"
SIZES, CHEAT, POT, SPLITS = (20, 30, 40, 45, 50, 60), "owner 2", 100_000, 40
TASKS = {"easy": (load_breast_cancer, "lda", 200), "hard": (load_diabetes, "ridge", 150)}
"""Data, model and test rows."""
Rows = dict[str, tuple[Any, Any]]


def split(seed: int, task: str = "easy") -> tuple[Rows, Any, Any]:
    """Owners' rows and a test set."""
    load, _, n_test = TASKS[task]
    X, y = load(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    ends = np.cumsum(SIZES)
    parts = np.split(order[: ends[-1]], ends[:-1])
    owners = {f"owner {k + 1}": (X[part], y[part]) for k, part in enumerate(parts)}
    test = order[ends[-1] : ends[-1] + n_test]
    return owners, X[test], y[test]


def settle(
    owners: Rows, X: Any, y: Any, method: str = "exact", seed: int = 0, task: str = "easy"
) -> ds.Settlement:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.SharedRows)  # the notes say so, too
        game = ds.ModelGame(ds.Owners.from_arrays(owners), TASKS[task][1], X, y)
    return ds.settle(ds.value(game, method, seed=seed), POT)


def paid(settled: ds.Settlement) -> float:
    """What the cheat gets under all its names."""
    lines = zip(settled.valuation.owners, settled.payments, strict=True)
    return float(sum(amount for name, amount in lines if name.startswith(CHEAT)))


def joined(*blocks: tuple[Any, Any]) -> tuple[Any, Any]:
    X, y = zip(*blocks, strict=True)
    return np.concatenate(X), np.concatenate(y)


def tripled(owners: Rows, *_: Any) -> Rows:
    return owners | {CHEAT: joined(*[owners[CHEAT]] * 3)}


def invented(owners: Rows, _: Any, rng: Any) -> Rows:
    """80 rows made up around one's own, with the labels of those."""
    own, labels = owners[CHEAT]
    pick = rng.integers(0, len(own), 80)
    made = own[pick] + 0.5 * own.std(axis=0) * rng.normal(size=(80, own.shape[1]))
    return owners | {CHEAT: joined(owners[CHEAT], (made, labels[pick]))}


def shells(number: int) -> Callable[..., Rows]:
    def tricked(owners: Rows, *_: Any) -> Rows:
        own, labels = owners[CHEAT]
        parts = {f"{CHEAT} {k}": (own[k::number], labels[k::number]) for k in range(number)}
        return {name: rows for name, rows in owners.items() if name != CHEAT} | parts

    return tricked


def twice(owners: Rows, *_: Any) -> Rows:
    return owners | {f"{CHEAT} again": owners[CHEAT]}


def copied(owners: Rows, *_: Any) -> Rows:
    return owners | {CHEAT: joined(owners[CHEAT], owners["owner 6"])}


def leaked(owners: Rows, test: tuple[Any, Any], *_: Any) -> Rows:
    return owners | {CHEAT: joined(owners[CHEAT], (test[0][:30], test[1][:30]))}


def flipped(owners: Rows, *_: Any) -> Rows:
    """Spoil the largest owner's labels: what a worker who handles its files could do."""
    rows, labels = owners["owner 6"]
    return owners | {"owner 6": (rows, labels.max() + labels.min() - labels)}


TRICKS: dict[str, Callable[..., Rows]] = {
    "hand in one's rows three times over": tripled,
    "invent 80 rows around one's own": invented,
    "come as two shells": shells(2),
    "come as three shells": shells(3),
    "hand in the same rows under two names": twice,
    "add a copy of the largest owner's rows": copied,
    "add 30 leaked rows of the test set": leaked,
    "spoil the labels of the largest owner": flipped,
}


def gains(trick: Callable[..., Rows], task: str) -> dict[str, Any]:
    """Mean payment before and after, gain in percent, and how often a note said so."""
    before, after, told = [], [], 0
    for seed in range(SPLITS):
        owners, X, y = split(seed, task)
        before.append(paid(settle(owners, X, y, task=task)))
        settled = settle(trick(owners, (X, y), np.random.default_rng(seed)), X, y, task=task)
        after.append(paid(settled))
        told += any("targets included" in note for note in settled.valuation.notes)
    change = (np.array(after) - before) / np.mean(before)
    return {
        "honest": round(float(np.mean(before))),
        "cheating": round(float(np.mean(after))),
        "gain_percent": round(100 * float(change.mean()), 1),
        "std_error_percent": round(100 * float(change.std(ddof=1) / SPLITS**0.5), 1),
        "noted": f"{told} of {SPLITS}",
    }


def seeds(method: str) -> dict[str, Any]:
    """The same data under 25 seeds: what the operator could pick for a friend."""
    ranges = []
    for split_seed in range(10):
        owners, X, y = split(split_seed)
        pays = [paid(settle(owners, X, y, method, seed)) for seed in range(25)]
        ranges.append((pays[0], max(pays)))
    first, best = np.mean(ranges, axis=0)
    return {
        "first_seed": round(float(first)),
        "best_of_25": round(float(best)),
        "gain_percent": round(100 * float(best / first - 1), 1),
    }


def main() -> None:
    result: dict[str, Any] = {
        name: {task: gains(trick, task) for task in TASKS} for name, trick in TRICKS.items()
    }
    result["try 25 seeds of a sampling method (permutation, its default budget)"] = seeds(
        "permutation"
    )
    result["try 25 seeds of exact values"] = seeds("exact")
    for name, row in result.items():
        print(name, row)
    STORED.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
