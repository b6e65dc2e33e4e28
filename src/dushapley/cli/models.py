"""Models by short names, with what each needs around it."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Literal

import numpy as np

from dushapley.errors import InvalidOption

Task = Literal["classification", "regression"]

NAMES: dict[str, dict[Task, str]] = {
    "logistic": {"classification": "sklearn.linear_model.LogisticRegression"},
    "ridge": {
        "classification": "sklearn.linear_model.RidgeClassifier",
        "regression": "sklearn.linear_model.Ridge",
    },
    "gradient-boosting": {
        "classification": "sklearn.ensemble.HistGradientBoostingClassifier",
        "regression": "sklearn.ensemble.HistGradientBoostingRegressor",
    },
    "random-forest": {
        "classification": "sklearn.ensemble.RandomForestClassifier",
        "regression": "sklearn.ensemble.RandomForestRegressor",
    },
    "knn": {
        "classification": "sklearn.neighbors.KNeighborsClassifier",
        "regression": "sklearn.neighbors.KNeighborsRegressor",
    },
    "mlp": {
        "classification": "sklearn.neural_network.MLPClassifier",
        "regression": "sklearn.neural_network.MLPRegressor",
    },
}
DEFAULT: dict[Task, str] = {"classification": "logistic", "regression": "ridge"}
SCORING: dict[Task, str] = {"classification": "accuracy", "regression": "r2"}
OPTIONS: dict[str, dict[str, Any]] = {"logistic": {"max_iter": 2000}, "mlp": {"max_iter": 1000}}
SCALED = {"logistic", "ridge", "knn", "mlp"}
"""Models that need columns of one scale, and numbers in all of them."""
MOST_CLASSES = 20


def guess_task(y: np.ndarray[Any, Any]) -> Task:
    """Text and a few whole numbers are classes; all else are quantities."""
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = bool((y == np.rint(y)).all())
    return "classification" if whole and len(np.unique(y)) <= MOST_CLASSES else "regression"


def make_model(name: str, task: Task, *, missing: bool) -> Any:
    """The model of a short name or dotted path; `missing`: the rows have holes to fill."""
    if name not in NAMES:
        return imported(name)()
    if task not in NAMES[name]:
        able = ", ".join(n for n, tasks in NAMES.items() if task in tasks)
        raise InvalidOption(f"{name} is no model for {task}; choose among: {able}.")
    model = imported(NAMES[name][task])(**OPTIONS.get(name, {}))
    if name not in SCALED:
        return model
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    filled = [SimpleImputer(keep_empty_features=True)] if missing else []
    return make_pipeline(*filled, StandardScaler(), model)


def imported(path: str) -> Any:
    """What a dotted path names."""
    module, _, name = path.rpartition(".")
    if not module:
        near = difflib.get_close_matches(path, NAMES, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidOption(
            f"There is no model {path!r}.{hint} Models: {', '.join(NAMES)}, or a dotted path such "
            "as sklearn.svm.SVC."
        )
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidOption(f"The model {path!r} cannot be imported: {error}.") from error
