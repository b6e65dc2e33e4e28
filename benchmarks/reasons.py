"""Are the stated reasons right? Made cases, each with one owner whose data has a known fault.

    python benchmarks/reasons.py            the 60 cases of three data sets (docs/reasons.md)
    python benchmarks/reasons.py --tuning   other data sets, on which the thresholds were set
    python benchmarks/reasons.py adult      one data set only (--verbose: with the sentences)
    python benchmarks/reasons.py --honest   owners that differ honestly, or several at fault
    python benchmarks/reasons.py --skewed   clean owners of skewed numbers, 480 of them
    python benchmarks/reasons.py --store    and keep the tables in benchmarks/results/reasons.json

Every case has ten owners (eight where rows are few) with equal parts of the rows, shuffled, and a
test set of nobody's; one owner gets the fault. A stated reason is right when the weightiest one is
that fault (of copied rows: when they are named, and nobody is accused; of tiny and clean owners:
when nothing is said against them). All owners without a fault of their own are the clean ones.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

import dushapley as ds
from dushapley.engine.diagnosis import diagnose, probes

DATA = Path(os.environ.get("DUSHAPLEY_DATA", "data"))
RESULTS = Path(__file__).with_name("results") / "reasons.json"
FAULTS = (
    *((f"{part}% of labels wrong", "labels") for part in (10, 20, 30, 40, 50)),
    ("labels exchanged", "target"),
    ("target mapped", "target"),
    *((f"units of a column {how}", "units") for how in ("× 1000", "÷ 100", "+ offset")),
    *((f"{part}% of rows copied", "shared") for part in (10, 30, 60)),
    *((f"another population ({k})", "rows") for k in (1, 2, 3)),
    ("tiny", "small"),
    ("tinier", "small"),
    ("clean", "none"),
    ("clean again", "none"),
)
"""Faults by name, and the code of the reason that is right."""
HONEST = (
    "a label (or large numbers) far more common",
    "one column of another range",
    "a noisier target",
    "two columns swapped",
    "two of five with labels exchanged",
)
"""What no measurement of this kind tells from a fault for sure; what is said of it."""
Table = tuple[pd.DataFrame, int, str]
"""Rows with the target in the column "target"; owners, and the model."""


def measured() -> Iterator[tuple[str, Table]]:
    """The three data sets that the table of the docs is of."""
    bank = pd.read_parquet(DATA / "bank_marketing.parquet")
    yield "bank marketing", (some(named(bank), 2400), 10, "logistic")
    cancer = pd.read_parquet(DATA / "breast_cancer_diagnostic.parquet")
    yield "breast cancer", (some(named(cancer), 569), 8, "logistic")
    houses = pd.read_parquet(DATA / "california_housing.parquet")
    yield "California housing", (some(named(houses), 3400), 10, "gbdt")


def tuning() -> Iterator[tuple[str, Table]]:
    """Data sets on which the thresholds were set."""
    from sklearn.datasets import load_diabetes, load_digits, make_classification

    adult = pd.read_parquet(DATA / "adult.parquet").drop(columns=["split", "fnlwgt"])
    yield "adult", (some(named(adult), 2600), 10, "logistic")
    X, y = load_digits(return_X_y=True)
    yield "digits", (some(framed(X, y), 1600), 10, "logistic")
    X, y = load_diabetes(return_X_y=True, scaled=False)
    yield "diabetes", (some(framed(X, y), 442), 6, "ridge")
    X, y = make_classification(4000, 12, n_informative=6, random_state=1)
    yield "made classes", (some(framed(X, y), 3000), 10, "gbdt")
    years = pd.read_parquet(DATA / "year_msd_12f_6224.parquet").drop(columns="in_90f")
    yield "years of songs", (some(named(years), 3000), 10, "ridge")


def named(table: pd.DataFrame) -> pd.DataFrame:
    """The last column, or one that is called so, as the target; whole columns only."""
    names = [str(name) for name in table.columns]
    targets = ("y", "target", "income", "class", "diagnosis", "year", "medhouseval")
    known = [name for name in names if name.lower() in targets]
    table = table.set_axis(names, axis=1).dropna(axis=1, thresh=int(0.9 * len(table))).dropna()
    return table.rename(columns={(known or names[-1:])[0]: "target"})


def framed(X: Any, y: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(target=y)


def some(table: pd.DataFrame, rows: int) -> pd.DataFrame:
    """So many different rows, in an order of their own; text as indicators."""
    table = table.drop_duplicates().sample(frac=1, random_state=0)[:rows]
    target = table.pop("target")
    if target.dtype == object or str(target.dtype) in ("category", "string", "str"):
        target = pd.Series(pd.factorize(target, sort=True)[0], index=target.index)
    numbers = pd.get_dummies(table, dtype=float).astype(float)
    return numbers.assign(target=target.to_numpy()).reset_index(drop=True)


def case(table: pd.DataFrame, n_owners: int, fault: str, seed: int) -> tuple[Any, ...]:
    """Blocks of the owners, the test set, and who has the fault."""
    rng = np.random.default_rng([seed, 7])
    rows = rng.permutation(len(table))
    X, y = table.drop(columns="target").to_numpy(), table["target"].to_numpy()
    test, rest = np.split(rows, [len(rows) // 6])
    guilty = int(rng.integers(n_owners))
    if fault.startswith("another population"):
        rest = foreign_last(X, rest, int(fault[-2]) - 1, len(rest) // n_owners, rng)
    parts = np.array_split(rest, n_owners)
    parts[guilty], parts[-1] = parts[-1], parts[guilty]
    blocks = [(X[part].copy(), y[part].copy()) for part in parts]
    blocks[guilty] = spoilt(*blocks[guilty], blocks[guilty - 1], fault, rng)
    return blocks, X[test], y[test], guilty


def honest_case(table: pd.DataFrame, kind: str, seed: int) -> tuple[Any, ...]:
    """Ten owners, the last of whom differs (or five, the last two of whom are at fault)."""
    rng = np.random.default_rng([seed, 11])
    rows = rng.permutation(len(table))
    X, y = table.drop(columns="target").to_numpy().copy(), table["target"].to_numpy().copy()
    test, rest = np.split(rows, [len(rows) // 6])
    n_owners = 5 if kind.startswith("two of") else 8
    size = len(rest) // n_owners
    if kind.startswith("a label"):
        high = y[rest] > (np.median(y[rest]) if len(np.unique(y)) > 20 else 0)
        rest = chosen_last(rest, np.where(high, 1.0, 0.15), size, rng)
    elif kind.startswith("one column"):
        spread = [len(np.unique(X[:, j])) for j in range(X.shape[1])]
        column = X[rest, int(rng.choice(np.flatnonzero(np.array(spread) >= max(spread) / 4)))]
        rest = chosen_last(rest, 1e-9 + (column > np.quantile(column, 0.75)), size, rng)
    parts = np.array_split(rest, n_owners)
    blocks = [(X[part].copy(), y[part].copy()) for part in parts]
    classes, (X_own, y_own) = np.unique(y), blocks[-1]
    numbers = len(classes) > 20
    if kind.startswith("a noisier"):
        hit = rng.permutation(len(y_own))[: len(y_own) // 4]
        noise = y.std() * rng.normal(size=len(y_own)) if numbers else None
        y_own = y_own + noise if numbers else y_own
        if not numbers:
            y_own[hit] = others_of(y_own[hit], classes, rng)
    elif kind.startswith("two columns"):
        spread = np.argsort([-len(np.unique(X[:, j])) for j in range(X.shape[1])], kind="stable")
        X_own[:, spread[:2]] = X_own[:, spread[1::-1]]
    blocks[-1] = (X_own, y_own)
    if kind.startswith("two of"):
        blocks[-2:] = [(a, mapped(b, classes, numbers, True)) for a, b in blocks[-2:]]
    return blocks, X[test], y[test]


def chosen_last(rest: Any, weights: Any, size: int, rng: Any) -> Any:
    """The rows in another order: last come those chosen by weights."""
    last = rng.choice(rest, size, replace=False, p=weights / weights.sum())
    return np.concatenate([np.setdiff1d(rest, last), last])[shuffled(len(rest), size, rng)]


def shuffled(length: int, size: int, rng: Any) -> Any:
    """Positions of which all but the last are in random order."""
    return np.concatenate([rng.permutation(length - size), np.arange(length - size, length)])


def foreign_last(X: Any, rest: Any, k: int, size: int, rng: Any) -> Any:
    """The rows in another order: last come those of one end of a principal direction."""
    scaled = (X[rest] - X[rest].mean(axis=0)) / (X[rest].std(axis=0) + 1e-12)
    scaled = np.clip(scaled, -4, 4)
    direction = np.linalg.svd(scaled, full_matrices=False)[2][k]
    order = rest[np.argsort(scaled @ direction, kind="stable")]
    end = order[-2 * size :]
    chosen = rng.choice(end, size, replace=False)
    return np.concatenate([rng.permutation(np.setdiff1d(rest, chosen)), rng.permutation(chosen)])


def spoilt(X: Any, y: Any, neighbour: Any, fault: str, rng: Any) -> tuple[Any, Any]:
    """The data of the owner with the fault."""
    classes = np.unique(y)
    numbers = len(classes) > 20
    if "labels wrong" in fault:
        hit = rng.permutation(len(y))[: round(int(fault.split("%")[0]) / 100 * len(y))]
        y[hit] = rng.permutation(y)[hit] if numbers else others_of(y[hit], classes, rng)
    elif fault in ("labels exchanged", "target mapped"):
        y = mapped(y, classes, numbers, fault == "target mapped")
    elif fault.startswith("units"):
        spread = [len(np.unique(X[:, j])) for j in range(X.shape[1])]
        able = np.flatnonzero(np.array(spread) >= max(spread) / 4)
        j = int(rng.choice(able))
        step = 8 * (np.subtract(*np.quantile(X[:, j], [0.75, 0.25])) or X[:, j].std())
        X[:, j] = X[:, j] * 1000 if "1000" in fault else X[:, j] / 100 if "100" in fault else (
            X[:, j] + step)  # fmt: skip
    elif "copied" in fault:
        count = round(int(fault.split("%")[0]) / 100 * len(y))
        X[:count], y[:count] = neighbour[0][:count], neighbour[1][:count]
    elif fault.startswith("tin"):
        few = max(4, len(y) // (10 if fault == "tiny" else 20))
        X, y = X[:few], y[:few]
    return X, y


def others_of(y: Any, classes: Any, rng: Any) -> Any:
    """Another class for each."""
    position = np.searchsorted(classes, y)
    return classes[(position + rng.integers(1, len(classes), len(y))) % len(classes)]


def mapped(y: Any, classes: Any, numbers: bool, second: bool) -> Any:
    """All labels moved on by one class (by two), or numbers in thousands (or negated)."""
    if numbers:
        return y.max() - y if second else y / 1000
    step = 1 + (second and len(classes) > 2)
    return classes[(np.searchsorted(classes, y) + step) % len(classes)]


def judged(blocks: Any, X_test: Any, y_test: Any, model: str) -> Any:
    """The diagnosis of one case; values are not its business here."""
    owners = ds.Owners.from_arrays({f"owner {j}": block for j, block in enumerate(blocks)})
    game = ds.ModelGame(owners, model, X_test, y_test)
    sizes = ds.SizeGame(game.sizes, w=lambda n: n / (n + 100), names=game.names)
    return diagnose(game, ds.value(sizes, "exact"))


def is_right(found: Any, code: str) -> bool:
    codes = [reason.code for reason in found.reasons]
    if code == "none":
        return not found.accused and "shared" not in codes
    if code in ("shared", "small"):
        return not found.accused and code in codes
    return bool(codes[0] == code)


def honest(table: pd.DataFrame, model: str, seeds: int = 2) -> list[dict[str, Any]]:
    """What is said of owners that differ honestly, and of the others beside them."""
    found = []
    for number, kind in enumerate(HONEST):
        for seed in range(seeds):
            blocks, X_test, y_test = honest_case(table, kind, 10 * number + seed)
            owners = judged(blocks, X_test, y_test, model).owners
            odd = 2 if kind.startswith("two of") else 1
            rest = sum(one.accused for one in owners[:-odd])
            first = owners[-1].reasons[0]
            found.append({"kind": kind, "stated": first.code, "others accused": rest,
                          "sentence": first.text})  # fmt: skip
    return found


def skewed(n_games: int = 60) -> dict[str, int]:
    """Clean owners of numbers with long tails: how many are accused."""
    accused = 0
    for seed in range(n_games):
        rng, n = np.random.default_rng(seed), (60, 120, 200)[seed % 3]
        blocks = []
        for _ in range(9):
            X = rng.normal(size=(n, 5))
            z = X @ [0.6, 0.4, 0.2, 0.0, 0.0]
            ways = (
                np.exp(z + rng.normal(size=n)), np.exp(1.5 * z + 0.5 * rng.normal(size=n)),
                z + rng.standard_t(2.5, size=n), rng.gamma(np.exp(0.5 * z), 1),
            )  # fmt: skip
            blocks.append((X, ways[seed % 4]))
        owners = judged(blocks[:-1], *blocks[-1], "ridge").owners
        accused += sum(one.accused for one in owners)
    return {"accused": accused, "clean": 8 * n_games}


def main() -> None:
    warnings.simplefilter("ignore")
    probes.scores_of_usual = lambda *_: []  # whether another model is better is not asked here
    only = [word for word in sys.argv[1:] if not word.startswith("--")]
    known = json.loads(RESULTS.read_text()) if "--store" in sys.argv and RESULTS.exists() else {}
    if "--skewed" in sys.argv:
        known["skewed"] = skewed()
        print(known["skewed"])
    for name, (table, n_owners, model) in tuning() if "--tuning" in sys.argv else measured():
        if "--honest" in sys.argv and (not only or name in only):
            known.setdefault("honest", {})[name] = (rows := honest(table, model))
            print(name, *rows, sep="\n")
        elif "--skewed" not in sys.argv and (not only or name in only):
            started = process_time()
            rows = [row for number in range(len(FAULTS))
                    for row in [one_case(table, n_owners, model, number)]]  # fmt: skip
            known[name] = {"seconds": round(process_time() - started), "cases": rows}
    shown({name: found for name, found in known.items() if "cases" in found})
    if "--store" in sys.argv:
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")


def one_case(table: pd.DataFrame, n_owners: int, model: str, number: int) -> dict[str, Any]:
    """What is said of the owner with the fault, and who of the others is accused."""
    fault, code = FAULTS[number]
    blocks, X_test, y_test, guilty = case(table, n_owners, fault, number)
    diagnosis = judged(blocks, X_test, y_test, model)
    found = diagnosis.owners[guilty]
    faultless = [o for j, o in enumerate(diagnosis.owners)
                 if j != guilty or code in ("none", "small", "shared")]  # fmt: skip
    row = {
        "fault": fault,
        "stated": found.reasons[0].code,
        "right": is_right(found, code),
        "sentence": found.reasons[0].text,
        "clean": len(faultless),
        "accused": [one.reasons[0].text for one in faultless if one.accused],
    }
    if "--verbose" in sys.argv:
        mark = "" if row["right"] else "   <-- wrong"
        print(f"{fault:28s} {row['stated']:8s} {row['sentence'][:150]}{mark}", flush=True)
    return row


def shown(known: dict[str, Any]) -> None:
    """The table by fault and data set, and the clean owners that were accused."""
    if not known:
        return
    frame = pd.DataFrame({
        name: ["right" if row["right"] else row["stated"] for row in found["cases"]]
        for name, found in known.items()
    }, index=[fault for fault, _ in FAULTS])  # fmt: skip
    print(frame.to_string())
    cases = [row for found in known.values() for row in found["cases"]]
    accused = [text for row in cases for text in row["accused"]]
    print(f"right: {sum(row['right'] for row in cases)} of {len(cases)}")
    print(f"clean owners accused: {len(accused)} of {sum(row['clean'] for row in cases)}")
    print(*accused, sep="\n")


if __name__ == "__main__":
    main()
