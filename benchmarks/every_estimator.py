"""Every classifier and regressor of scikit-learn, and what else people hand in: does it work?

    python benchmarks/every_estimator.py [NAME...]

Classifiers on breast-cancer, regressors on diabetes, 120 rows of three owners, six pools. A case
*works* if its utilities equal those of plain fitting (`model.fit(X, y).score(X_test, y_test)` on
the same rows); is *refused* if the library says why, and plain fitting fails for the same reason;
is *wrong* if utilities differ, or plain fitting goes well where the library refuses; and is *raw*
if an exception of another package comes through. Without names all cases are run; the results and
the table in docs/models.md are written.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets, tree
from sklearn.base import clone
from sklearn.utils import all_estimators

import dushapley as ds
from dushapley.errors import DUShapleyError

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "every_estimator.json", HERE.parents[0] / "docs" / "models.md"
OWNERS, ROWS = 3, 120
POOLS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
SAME = 1e-9
"""Of a score; fast paths compute the same by other arithmetic."""
INNER = {"classifier": tree.DecisionTreeClassifier(), "regressor": tree.DecisionTreeRegressor()}
NEEDED: dict[str, dict[str, Any]] = {
    "SelfTrainingClassifier": {"estimator": INNER["classifier"]},
    "StackingClassifier": {"estimators": [("tree", INNER["classifier"])]},
    "StackingRegressor": {"estimators": [("tree", INNER["regressor"])]},
    "VotingClassifier": {"estimators": [("tree", INNER["classifier"])]},
    "VotingRegressor": {"estimators": [("tree", INNER["regressor"])]},
    "RegressorChain": {"estimator": INNER["regressor"]},
    "ClassifierChain": {"estimator": INNER["classifier"]},
    "GridSearchCV": {"estimator": INNER["classifier"], "param_grid": {"max_depth": [1, 3]}},
    "RandomizedSearchCV": {
        "estimator": INNER["classifier"],
        "param_distributions": {"max_depth": [1, 3]},
        "n_iter": 2,
    },
}
SMALL = {"n_estimators": 10, "max_subpopulation": 100, "Cs": 2, "n_restarts_optimizer": 0}
"""Parameters of models that take long, where they have them; boosting by `max_iter`, see below."""
SEVERAL = ("MultiOutput", "Chain", "MultiTask", "CCA", "PLSCanonical")
"""Parts of the names of models that predict several targets."""


@dataclass(frozen=True)
class Case:
    """A model with its data: rows X and y, of which the first 120 are the owners'."""

    name: str
    model: Any
    X: Any
    y: Any
    score: Callable[[Any, Any, Any, Any, Any], float] | None = None
    how: tuple[tuple[str, Any], ...] = ()


@cache
def rows_of(kind: str) -> tuple[Any, Any]:
    """Rows of a task in random order, the same in every run."""
    load = datasets.load_breast_cancer if kind == "classifier" else datasets.load_diabetes
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:270]
    return X[order], y[order]


def is_there(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def seeded(model: Any) -> Any:
    """Every seed that was left open fixed, for the library and for plain fitting alike."""
    seeds = [k for k, v in model.get_params().items() if k.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds, 0))


def listed(kind: str) -> list[Case]:
    """All that scikit-learn lists of a kind."""
    cases = []
    for name, maker in all_estimators(type_filter=kind):
        X, y = rows_of(kind)
        if any(part in name for part in SEVERAL):
            y = np.column_stack([y, X[:, 0] > X[:, 0].mean() if kind == "classifier" else X[:, 2]])
            y = y.astype(int if kind == "classifier" else float)
        try:
            model = maker(**NEEDED.get(name, {}))
        except TypeError:
            model = maker(INNER[kind])
        small = {k: v for k, v in SMALL.items() if k in model.get_params(deep=False)}
        small |= {"max_iter": 10} if name.startswith("HistGradient") else {}
        cases.append(Case(name, seeded(model.set_params(**small)), X, y))
    return cases


def people() -> tuple[pd.DataFrame, Any]:
    """A table of numbers, categories, text and dates."""
    rng = np.random.default_rng(0)
    n = 270
    table = pd.DataFrame(
        {
            "noise": rng.normal(size=n),
            "sex": pd.Categorical(rng.choice(["f", "m", "x"], n)),
            "age": rng.integers(18, 90, n),
            "job": rng.choice(["baker", "tailor", "smith", "cook"], n),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), "D"),
        }
    )
    hidden = 0.05 * (table["age"] - 50) + 2.0 * (table["sex"] == "f") + (table["job"] == "cook")
    return table, np.where(hidden + 0.5 * rng.normal(size=n) > 0.7, "yes", "no")


def texts() -> tuple[Any, Any]:
    """Short texts of two topics."""
    rng = np.random.default_rng(0)
    topics = (["ball", "goal", "team", "coach"], ["vote", "law", "party", "court"])
    y = rng.integers(0, 2, 270)
    others = [f"word{k}" for k in range(200)]
    lines = [" ".join([*rng.choice(topics[c], 2), *rng.choice(others, 8)]) for c in y]
    return np.array(lines, dtype=object), y


def of_tables() -> list[Case]:
    """Models that select or encode columns, and text in every form."""
    from scipy.sparse import csr_matrix
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
    from skrub import TableVectorizer

    table, ill = people()
    words, topic = texts()
    sparse = TfidfVectorizer().fit_transform(words)
    known = OneHotEncoder(handle_unknown="ignore")
    by_name = ColumnTransformer([("w", known, ["sex", "job"]), ("n", StandardScaler(), ["age"])])
    by_place = ColumnTransformer([("w", known, [1, 3]), ("n", StandardScaler(), [2])])
    by_type = ColumnTransformer(
        [
            ("n", StandardScaler(), make_column_selector(dtype_include=np.number)),
            ("c", known, make_column_selector(dtype_include="category")),
        ]
    )
    boosted = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    raw = (("encode", "none"),)
    return [
        Case("ColumnTransformer by name", make_pipeline(by_name, LogisticRegression()), table, ill),
        Case(
            "ColumnTransformer by place",
            make_pipeline(by_place, LogisticRegression()),
            table,
            ill,
        ),
        Case("ColumnTransformer by type", make_pipeline(by_type, LogisticRegression()), table, ill),
        Case(
            "OneHotEncoder first",
            make_pipeline(known, LogisticRegression()),
            table[["sex", "job"]],
            ill,
        ),
        Case(
            "OrdinalEncoder on polars or pyarrow",
            make_pipeline(
                OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
                LogisticRegression(),
            ),
            table[["job"]],
            ill,
        ),
        Case(
            "skrub: categories and dates",
            make_pipeline(TableVectorizer(), tree.DecisionTreeClassifier(random_state=0)),
            table,
            ill,
        ),
        Case("boosting on categories by type", boosted, table[["sex", "age"]], ill, how=raw),
        Case("numbers in a table", LogisticRegression(), table[["noise", "age"]], ill),
        Case("sparse text", LogisticRegression(), sparse, topic),
        Case("sparse text, csr_matrix", MultinomialNB(), csr_matrix(sparse), topic),
        Case("raw text", make_pipeline(TfidfVectorizer(), LogisticRegression()), words, topic),
    ]


def recoded(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> float:
    """Accuracy of a model that takes labels 0, 1, 2, ... only."""
    classes, codes = np.unique(y, return_inverse=True)
    return float(np.mean(classes[model.fit(X, codes).predict(X_test).astype(int)] == y_test))


def of_packages() -> list[Case]:
    """Models of other packages, as far as they are installed."""
    cases = []
    X, y = rows_of("classifier")
    numbers, amount = rows_of("regressor")
    three = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.33, 0.66])) * 1
    # the first owner lacks the class in the middle, and the others some rows of the outer ones
    lacking = np.where((np.arange(len(y)) % 3 == 0) & (three == 1), 2, three)
    if is_there("xgboost"):
        xgboost = import_module("xgboost")
        how = {"n_estimators": 10, "n_jobs": 1, "random_state": 0}
        cases += [
            Case("XGBClassifier", xgboost.XGBClassifier(**how), X, y),
            Case("XGBClassifier, a class less", xgboost.XGBClassifier(**how), X, lacking, recoded),
            Case(
                "XGBClassifier, classes by name",
                xgboost.XGBClassifier(**how),
                X,
                np.array(["a", "b", "c"])[lacking],
                recoded,
            ),
            Case("XGBRegressor", xgboost.XGBRegressor(**how), numbers, amount),
        ]
    if is_there("lightgbm"):
        lightgbm = import_module("lightgbm")
        how = {"n_estimators": 10, "n_jobs": 1, "random_state": 0, "verbose": -1}
        table, ill = people()
        raw = (("encode", "none"),)
        cases += [
            Case("LGBMClassifier", lightgbm.LGBMClassifier(**how), X, lacking),
            Case("LGBMRegressor", lightgbm.LGBMRegressor(**how), numbers, amount),
            Case(
                "LGBMClassifier on categories",
                lightgbm.LGBMClassifier(**how),
                table[["sex", "age"]],
                ill,
                how=raw,
            ),
        ]
    if is_there("skorch") and is_there("torch"):
        cases += networks(X, y, numbers, amount)
    return cases


def networks(X: Any, y: Any, numbers: Any, amount: Any) -> list[Case]:
    """Networks of skorch."""
    torch, skorch = import_module("torch"), import_module("skorch")
    small = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    how = {"max_epochs": 3, "lr": 0.1, "train_split": None, "verbose": 0}
    two, one = (torch.nn.Linear(small.shape[1], 2), torch.nn.Linear(numbers.shape[1], 1))

    def trained(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> float:
        return float(model.fit(X, y).score(X_test, y_test))

    return [
        Case(
            "skorch NeuralNetClassifier",
            skorch.NeuralNetClassifier(two, criterion=torch.nn.CrossEntropyLoss, **how),
            small,
            y,
            trained,
        ),
        Case(
            "skorch NeuralNetRegressor",
            skorch.NeuralNetRegressor(one, **how),
            numbers.astype(np.float32),
            (amount[:, None] / 100).astype(np.float32),
            trained,
        ),
        Case(
            "skorch, rows of float64",
            skorch.NeuralNetClassifier(two, criterion=torch.nn.CrossEntropyLoss, **how),
            small.astype(np.float64),
            y,
            trained,
        ),
    ]


def cases() -> dict[str, Case]:
    """All cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [*listed("classifier"), *listed("regressor"), *of_tables(), *of_packages()]
    return {case.name: case for case in found}


def part(X: Any, rows: Any) -> Any:
    """Some rows of anything."""
    return X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]


def game_of(case: Case) -> ds.ModelGame:
    groups = [f"owner {k % OWNERS}" for k in range(ROWS)]
    X = part(case.X, slice(0, ROWS))
    owners = ds.Owners.from_arrays(X, case.y[:ROWS], groups=groups)
    test = part(case.X, slice(ROWS, None))
    return ds.ModelGame(owners, clone(case.model), test, case.y[ROWS:], **dict(case.how))


def plainly(case: Case, order: list[int]) -> list[float]:
    """Scores of plain fitting, each pool's rows in this order of owners."""
    scores = []
    for pool in POOLS:
        rows = np.concatenate([np.arange(j, ROWS, OWNERS) for j in order if pool[j]])
        data = (
            part(case.X, rows),
            case.y[rows],
            part(case.X, slice(ROWS, None)),
            case.y[ROWS:],
        )
        model = clone(case.model)
        if case.score is not None:
            scores.append(case.score(model, *data))
        else:
            scores.append(float(model.fit(data[0], data[1]).score(data[2], data[3])))
    return scores


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0].strip()


def judged(case: Case) -> dict[str, Any]:
    """What became of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        order, refusal, found = list(range(OWNERS)), None, None
        try:
            game = game_of(case)
            order = list(game.order)
            found = game(POOLS)
        except DUShapleyError as error:
            refusal = str(error)
        except Exception as error:  # it is what is looked for
            return {"verdict": "raw", "why": f"{type(error).__name__}: {first_line(error)}"}
        try:
            plain = plainly(case, order)
        except Exception as error:
            why = first_line(error)
            if refusal is None:
                return {"verdict": "wrong", "why": f"only plain fitting fails: {why}"}
            return {"verdict": "refused" if why in refusal else "wrong", "why": why}
    if found is None:
        return {"verdict": "wrong", "why": f"only refused here: {refusal}"}
    apart = float(np.max(np.abs(found - np.array(plain))))
    return {"verdict": "works" if apart <= SAME else "wrong", "apart": apart}


def table(results: dict[str, dict[str, Any]]) -> str:
    """The results as the page has them."""
    lines = ["| model | verdict |", "|---|---|"]
    for name, found in results.items():
        why = found.get("why", "").replace("|", "\\|")
        lines.append(f"| {name} | {found['verdict']}{': ' + why if why else ''} |")
    return "\n".join(lines)


MARKS = ("<!-- begin of the table of all models -->", "<!-- end of the table of all models -->")


def on_page(text: str, results: dict[str, dict[str, Any]]) -> str:
    """The page with these results between its marks."""
    before, _, rest = text.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{table(results)}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def main() -> None:
    wanted = sys.argv[1:]
    every = cases()
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name, case in every.items():
        if not wanted or name in wanted:
            known[name] = judged(case)
            print(name, known[name], flush=True)
    for package in ("xgboost", "lightgbm", "skorch"):
        if not is_there(package):
            print(f"{package} is not installed: skipped, what is stored of it stays")
    results = {name: known[name] for name in [*every, *known] if name in known}
    print({v: sum(r["verdict"] == v for r in results.values()) for v in VERDICTS})
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(on_page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


VERDICTS = ("works", "refused", "wrong", "raw")

if __name__ == "__main__":
    main()
