"""Models by short names, with what each needs around it."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any, Literal

import numpy as np

from dushapley.errors import InvalidOption

Task = Literal["classification", "regression"]

NAMES: dict[str, dict[str, str]] = {
    "logistic": {"classification": "sklearn.linear_model.LogisticRegression"},
    "ridge": {
        "classification": "sklearn.linear_model.RidgeClassifier",
        "regression": "sklearn.linear_model.Ridge",
    },
    "lda": {"classification": "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"},
    "naive-bayes": {"classification": "sklearn.naive_bayes.GaussianNB"},
    "gradient-boosting": {
        "classification": "sklearn.ensemble.HistGradientBoostingClassifier",
        "regression": "sklearn.ensemble.HistGradientBoostingRegressor",
    },
    "gbdt": {
        "classification": "lightgbm.LGBMClassifier",
        "regression": "lightgbm.LGBMRegressor",
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
DEFAULT: dict[str, str] = {"classification": "logistic", "regression": "ridge"}
SUMMED: dict[str, str] = {"classification": "lda", "regression": "ridge"}
"""Models nobody named, where owners handed over statistics instead of rows."""
SCORING: dict[str, str] = {"classification": "accuracy", "regression": "r2"}
OPTIONS: dict[str, dict[str, Any]] = {
    "logistic": {"max_iter": 2000},
    "mlp": {"max_iter": 1000},
    "lda": {"solver": "lsqr", "shrinkage": 0.01},
    # the paper's 20 rounds; one thread each, since workers run side by side
    "gbdt": {"n_estimators": 20, "n_jobs": 1, "deterministic": True, "verbose": -1},
}
SCALED = {"logistic", "ridge", "knn", "mlp"}
"""Models that need columns of one scale."""
MOST_CLASSES = 20
MANY_CELLS, ROWS_PER_OWNER, MOST_COLUMNS = 2**19, 8, 4096
"""From this many rows × columns, `logistic` and `mlp` train pools together in gradient steps."""


def guess_task(y: np.ndarray[Any, Any]) -> Task:
    """Text and a few whole numbers are classes; all else are quantities."""
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = bool((y == np.rint(y)).all())
    return "classification" if whole and len(np.unique(y)) <= MOST_CLASSES else "regression"


def trained_together(
    name: str, X_test: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]
) -> Any | None:
    """The gradient-step form of `logistic` and `mlp` for large tables; None: train one by one.

    A fixed rule on rows, columns and owners: from `MANY_CELLS` cells on, with owners of some size,
    pools are trained together in a fixed number of steps. Columns are scaled once, by the test
    rows, which are the same for every pool.
    """
    rows, columns = float(sizes.sum()), X_test.shape[1]
    if name not in ("logistic", "mlp") or rows * columns < MANY_CELLS or X_test.dtype.kind == "O":
        return None
    if rows < ROWS_PER_OWNER * len(sizes) or columns > MOST_COLUMNS:
        return None
    from dushapley.games.model.batched import SmallMLP, SoftmaxRegression, safe_rate

    center = np.nanmean(X_test.astype(np.float64), axis=0)
    spread = np.nanstd(X_test.astype(np.float64), axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    if name == "mlp":
        return SmallMLP(center=center, scale=scale)
    rate = safe_rate(SoftmaxRegression(center=center, scale=scale).scaled(X_test))
    return SoftmaxRegression(learning_rate=rate, center=center, scale=scale)


def make_model(name: str, task: str, *, missing: bool) -> Any:
    """The model of a short name or dotted path; `missing`: the rows have holes to fill.

    Holes are filled by column means unless the model says, by scikit-learn's tags, that it takes
    them as they are.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = short_named(name, task) if name in NAMES else made_from(name)
    steps: list[Any] = [StandardScaler()] if name in SCALED else []
    if missing and not takes_holes(model):
        steps.insert(0, SimpleImputer(keep_empty_features=True))
    return make_pipeline(*steps, model) if steps else model


def short_named(name: str, task: str) -> Any:
    """The model of a short name, with the options it has here."""
    if task not in NAMES[name]:
        able = ", ".join(n for n, tasks in NAMES.items() if task in tasks)
        raise InvalidOption(f"{name} is no model for {task}; choose among: {able}.")
    return imported(NAMES[name][task])(**OPTIONS.get(name, {}))


def takes_holes(model: Any) -> bool:
    """Whether a model says that missing numbers are welcome."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(model).input_tags.allow_nan)
    except (AttributeError, TypeError):  # older models have no such tags
        return False


def made_from(path: str) -> Any:
    """The estimator that a dotted path leads to: a class of them, or a function that makes one.

    What is neither is refused without being called.
    """
    found = imported(path)
    able = inspect.isfunction(found) or (isinstance(found, type) and is_estimator(found))
    if not able:
        raise InvalidOption(
            f"The model {path!r} is {found!r}; needed is a class of scikit-learn estimators (with "
            "fit, predict and get_params), or a Python function that makes one without arguments."
        )
    try:
        made = found()
    except TypeError as error:
        raise InvalidOption(
            f"The model {path!r} cannot be made without arguments: {error}. Write a function that "
            "makes it and name that."
        ) from error
    if not is_estimator(made):
        raise InvalidOption(
            f"The model {path!r} made {made!r}; needed is an estimator with fit, predict and "
            "get_params."
        )
    return made


def is_estimator(thing: Any) -> bool:
    """Whether a class or object can be trained and asked as scikit-learn's are."""
    return all(callable(getattr(thing, name, None)) for name in ("fit", "predict", "get_params"))


def told(model: Any) -> str:
    """A model in words: its steps, the last first."""
    steps = list(getattr(model, "named_steps", {"model": model}).values())
    recipes = [getattr(step, "recipe", None) for step in steps]
    words = [repr(s) if r is None else r().told for s, r in zip(steps, recipes, strict=True)]
    return " after ".join(reversed(words))


def imported(path: str) -> Any:
    """What a dotted path names."""
    module, _, name = path.rpartition(".")
    if not module or not all(part.isidentifier() for part in path.split(".")):
        near = difflib.get_close_matches(path, NAMES, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidOption(
            f"There is no model {path!r}.{hint} Models: {', '.join(NAMES)}, or a dotted path such "
            "as sklearn.svm.SVC."
        )
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        if module == "lightgbm":
            raise InvalidOption(
                "gbdt needs lightgbm, which is not installed. Install dushapley[gbdt], or choose "
                "gradient-boosting."
            ) from error
        raise InvalidOption(f"The model {path!r} cannot be imported: {error}.") from error
