"""Models and scores by short names: what each needs around it, and which one the targets suggest.

Python and the command line ask here alike, so that one name is one model everywhere. A new model by
name is an entry of `MODELS`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dushapley.arrays import Array
from dushapley.data.owners import Owners
from dushapley.data.rows import is_sparse
from dushapley.errors import InvalidOption
from dushapley.games.model.scoring.scorer import ROW_METRICS, full_name
from dushapley.games.rows import content_order
from dushapley.validation import suggestion

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class NamedModel:
    """What a short name stands for.

    Attributes
    ----------
    summary
        One line for `dushapley.models`.
    classes
        The class of the model for each task that it knows, as a dotted path.
    options
        Parameters of the class that differ here from its defaults.
    scaled
        What scales the columns: "pool", every pool by itself; "once", the rows of all owners, for
        every pool alike; "": nothing.
    """

    summary: str
    classes: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    scaled: Literal["", "pool", "once"] = ""


def _both(prefix: str, regressor: str = "Regressor") -> dict[str, str]:
    """Classes of both tasks, whose names differ in their endings."""
    return {"classification": f"{prefix}Classifier", "regression": f"{prefix}{regressor}"}


MODELS = {
    "logistic": NamedModel(
        "logistic regression on scaled columns",
        {"classification": "sklearn.linear_model.LogisticRegression"},
        {"max_iter": 2000},
        scaled="pool",
    ),
    "softmax": NamedModel(
        "the same in 200 gradient steps, columns scaled once; pools trained together",
        {"classification": "dushapley.games.SoftmaxRegression"},
        {"steps": 200},
        scaled="once",
    ),
    "ridge": NamedModel(
        "linear model with squared penalty on scaled columns; from sums for regression",
        _both("sklearn.linear_model.Ridge", regressor=""),
        scaled="pool",
    ),
    "lda": NamedModel(
        "linear discriminant analysis on scaled columns, shrunk by 0.01; from sums",
        {"classification": "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"},
        {"solver": "lsqr", "shrinkage": 0.01},
        scaled="pool",
    ),
    "naive-bayes": NamedModel(
        "Gaussian naive Bayes on scaled columns, smoothed by 0.01; from sums",
        {"classification": "sklearn.naive_bayes.GaussianNB"},
        # scikit-learn's 1e-9 lets a category that one class lacks decide alone
        {"var_smoothing": 0.01},
        scaled="pool",
    ),
    "gradient-boosting": NamedModel(
        "boosted trees on binned columns, by scikit-learn; takes missing numbers",
        _both("sklearn.ensemble.HistGradientBoosting"),
    ),
    "gbdt": NamedModel(
        "boosted trees by LightGBM; takes missing numbers",
        _both("lightgbm.LGBM"),
        # one thread each, since workers run side by side
        {"n_jobs": 1, "deterministic": True, "verbose": -1},
    ),
    "random-forest": NamedModel("100 randomised trees", _both("sklearn.ensemble.RandomForest")),
    "knn": NamedModel(
        "the 5 nearest neighbours on scaled columns",
        _both("sklearn.neighbors.KNeighbors"),
        scaled="pool",
    ),
    "mlp": NamedModel(
        "a neural network on scaled columns",
        _both("sklearn.neural_network.MLP"),
        {"max_iter": 1000},
        scaled="pool",
    ),
}
DEFAULT = {"classification": "logistic", "regression": "ridge"}
SUMMED = {"classification": "lda", "regression": "ridge"}
"""Default models where owners handed over statistics instead of rows."""
SCORING = {"classification": "accuracy", "regression": "r2"}


def models() -> dict[str, str]:
    """Names of all models with one line each; `ModelGame` takes them as its model.

    Examples
    --------
    >>> import dushapley as ds
    >>> ds.models()["naive-bayes"]
    'Gaussian naive Bayes on scaled columns, smoothed by 0.01; from sums (classes)'
    """
    words = {"classification": "classes", "regression": "numbers"}
    return {
        name: f"{model.summary} ({' or '.join(words[task] for task in model.classes)})"
        for name, model in MODELS.items()
    }


def scores() -> dict[str, str]:
    """Names of the scores that are known test row by test row, with one line each.

    Short names are taken as well: rmse, mae, mse, auc, log_loss and brier (each error with a minus,
    since higher is better). Any other score that ``sklearn.metrics.get_scorer_names()`` lists is
    taken too: its test-set error is found by scoring without each group of test rows in turn.

    Examples
    --------
    >>> import dushapley as ds
    >>> ds.scores()["r2"]
    'R²: one minus mean squared error over variance.'
    """
    return {
        name: metric.summary or str(metric.rows.__doc__).splitlines()[0]
        for name, metric in ROW_METRICS.items()
    }


@dataclass(frozen=True)
class Choice:
    """Task, model and score of a job, all of them named."""

    task: Task
    model: str
    scoring: Any


def choose(
    owners: Owners, model: str | None = None, task: str = "auto", scoring: Any = None
) -> Choice:
    """What was asked for, and for the rest what the owners' targets suggest."""
    check_task(task)
    chosen: Any = task
    if task == "auto":
        summed = owners.reduced
        chosen = summed[0].kind if summed else guess_task(np.concatenate(owners.labels()))
    default = DEFAULT if owners.reduced is None else SUMMED
    return Choice(
        chosen, default[chosen] if model is None else model, full_name(scoring) or SCORING[chosen]
    )


def check_task(task: str, name: str = "task") -> None:
    """Refuse what is not a task."""
    if task not in ("auto", *DEFAULT):
        raise InvalidOption(f"{name} is {task!r}; choose auto, classification or regression.")


def guess_task(y: Array) -> Task:
    """Text and a few whole numbers are classes; everything else is a quantity."""
    numbers = y.dtype.kind in "iuf"
    many = numbers and (bool((y != np.rint(y)).any()) or len(np.unique(y)) > 20)
    return "regression" if many else "classification"


def has_holes(blocks: Sequence[Array], dates: Sequence[int] = ()) -> bool:
    """Whether some number or date is missing (missing text is a category of its own)."""
    if any(np.isnan(b.data if is_sparse(b) else b).any() for b in blocks if b.dtype.kind == "f"):
        return True
    mixed = [b for b in blocks if b.dtype.kind == "O"]
    days = (cell for b in mixed if dates for cell in b[:, list(dates)].flat)
    missing = any(cell is None or cell != cell for cell in days)
    cells = (cell for b in mixed for cell in b.flat)
    return missing or any(isinstance(cell, float) and cell != cell for cell in cells)


def make_model(
    name: str, task: str, *, missing: bool, sparse: bool = False, owners: Owners | None = None
) -> Any:
    """The model of a short name or dotted path.

    Holes are filled by column means unless the model says, by scikit-learn's tags, that it takes
    them as they are.

    Parameters
    ----------
    name, task
        What was asked for.
    missing
        Whether rows have holes to fill.
    sparse
        Sparse rows are scaled without being centred, or they would not stay sparse.
    owners
        Rows of numbers as the model will see them, by which columns are scaled once; None: they
        are not known before a training.
    """
    from sklearn import impute, pipeline, preprocessing

    from dushapley.games.model.wrappers import EmptyAsZero

    known = MODELS.get(name)
    if known is not None and task not in known.classes:
        able = ", ".join(other for other, model in MODELS.items() if task in model.classes)
        raise InvalidOption(f"{name} is not a model for {task}; choose among: {able}.")
    model = imported(known.classes[task])(**known.options) if known else made_from(name)
    scaled = known.scaled if known else ""
    if scaled == "once":
        return scaled_once(name, model, owners)
    steps: list[Any] = [preprocessing.StandardScaler(with_mean=not sparse)] if scaled else []
    if missing and not getattr(input_tags(model), "allow_nan", False):
        steps = [EmptyAsZero(), impute.SimpleImputer(), *steps]
    elif missing and type(model).__name__.startswith("HistGradientBoosting"):
        steps.insert(0, EmptyAsZero())
    return pipeline.make_pipeline(*steps, model) if steps else model


def scaled_once(name: str, model: Any, owners: Owners | None) -> Any:
    """A gradient model whose columns, rate and penalty follow from the rows of all owners.

    The penalty is that of scikit-learn's logistic regression on all rows. Sums run in an order of
    content, so that the order of owners changes no bit.
    """
    from dushapley.games.model.batched.reference import safe_rate

    if owners is None or owners.X[0].ndim != 2 or owners.X[0].dtype.kind not in "fiub":
        raise InvalidOption(
            f"{name} scales columns once, by the rows of all owners, which must be arrays of "
            "numbers then: neither sparse nor sums, and text encoded once (encode='pooled'). "
            "Choose logistic."
        )
    blocks = [np.asarray(owners.X[j], dtype=np.float64) for j in content_order(owners)]
    rows = np.maximum(sum((~np.isnan(X)).sum(axis=0) for X in blocks), 1)
    center = sum(np.nansum(X, axis=0) for X in blocks) / rows
    spread = np.sqrt(sum(np.nansum((X - center) ** 2, axis=0) for X in blocks) / rows)
    varies = spread > rows * np.finfo(np.float64).eps * np.abs(center)  # as a StandardScaler has it
    model.set_params(center=center, scale=np.where(varies, spread, 1.0))
    rate = safe_rate(*map(model.scaled, blocks))
    two = len(np.unique(np.concatenate(owners.labels()))) == 2  # softmax halves their weights
    return model.set_params(learning_rate=rate, l2=(1 + two) / float(owners.sizes.sum()))


def input_tags(model: Any) -> Any | None:
    """What a model says of the rows that it takes, by scikit-learn's tags; older ones lack them."""
    from sklearn.utils import get_tags

    with suppress(AttributeError, TypeError):
        return get_tags(model).input_tags
    return None


def made_from(path: str) -> Any:
    """The estimator that a dotted path leads to: a class of them, or a function that makes one.

    What is neither is refused without being called.
    """
    maker = imported(path)
    if not (inspect.isfunction(maker) or (isinstance(maker, type) and is_estimator(maker))):
        raise InvalidOption(
            f"The model {path!r} is {maker!r}; it must be a class of scikit-learn estimators (with "
            "fit, predict and get_params), or a Python function that makes one without arguments."
        )
    try:
        made = maker()
    except TypeError as error:
        raise InvalidOption(
            f"The model {path!r} cannot be made without arguments: {error}. Write a function that "
            "makes it and name that."
        ) from error
    if not is_estimator(made):
        raise InvalidOption(
            f"The model {path!r} made {made!r}; it must make an estimator with fit, predict and "
            "get_params."
        )
    return made


def is_estimator(thing: Any) -> bool:
    """Whether a class or object can be trained and asked as scikit-learn's are."""
    return all(callable(getattr(thing, name, None)) for name in ("fit", "predict", "get_params"))


def in_words(model: Any) -> str:
    """A model in words: its steps, the last first."""
    steps = list(getattr(model, "named_steps", {"model": model}).values())
    words = [step.recipe().words if hasattr(step, "recipe") else repr(step) for step in steps]
    return " after ".join(reversed(words))


def check_model_name(name: str | None) -> None:
    """Refuse a short name that no model has, before anything is read."""
    if name is not None and name not in MODELS and "." not in name:
        imported(name)


def imported(path: str) -> Any:
    """What a dotted path names."""
    module, _, name = path.rpartition(".")
    if not module or not all(part.isidentifier() for part in path.split(".")):
        hint = suggestion(path, list(MODELS), cutoff=0.4)
        raise InvalidOption(
            f"There is no model {path!r}.{hint} Models: {', '.join(MODELS)}, or a dotted path such "
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
        inside = [n for n in dir(sys.modules.get(module)) if n[:1].isupper()]
        hint = suggestion(name, inside) or " Check its spelling, and that its package is installed."
        raise InvalidOption(f"The model {path!r} cannot be imported: {error}.{hint}") from error
