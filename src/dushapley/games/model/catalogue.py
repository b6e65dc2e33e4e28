"""Models and scores by short names: what each needs around it, and which one the targets suggest.

Python and the command line ask here alike, so that one name is one model everywhere. A new model by
name is an entry of `MODELS`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.owners import Owners
from dushapley.data.rows import is_sparse
from dushapley.errors import InvalidOption
from dushapley.games.model.scoring.metrics import ROW_METRICS, full_name
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
        Whether it needs columns of one scale.
    """

    summary: str
    classes: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    scaled: bool = False


def _both(prefix: str, regressor: str = "Regressor") -> dict[str, str]:
    """Classes of both tasks, whose names differ in their endings."""
    return {"classification": f"{prefix}Classifier", "regression": f"{prefix}{regressor}"}


MODELS: dict[str, NamedModel] = {
    "logistic": NamedModel(
        "logistic regression on scaled columns; trained in gradient steps on large tables",
        {"classification": "sklearn.linear_model.LogisticRegression"},
        {"max_iter": 2000},
        scaled=True,
    ),
    "ridge": NamedModel(
        "linear model with squared penalty on scaled columns; from sums for regression",
        _both("sklearn.linear_model.Ridge", regressor=""),
        scaled=True,
    ),
    "lda": NamedModel(
        "linear discriminant analysis, shrunk by 0.01; from sums",
        {"classification": "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"},
        {"solver": "lsqr", "shrinkage": 0.01},
    ),
    "naive-bayes": NamedModel(
        "Gaussian naive Bayes; from sums", {"classification": "sklearn.naive_bayes.GaussianNB"}
    ),
    "gradient-boosting": NamedModel(
        "boosted trees on binned columns, by scikit-learn; takes missing numbers",
        _both("sklearn.ensemble.HistGradientBoosting"),
    ),
    "gbdt": NamedModel(
        "boosted trees by LightGBM, the paper's 20 rounds; takes missing numbers",
        _both("lightgbm.LGBM"),
        # one thread each, since workers run side by side
        {"n_estimators": 20, "n_jobs": 1, "deterministic": True, "verbose": -1},
    ),
    "random-forest": NamedModel("100 randomised trees", _both("sklearn.ensemble.RandomForest")),
    "knn": NamedModel(
        "the 5 nearest neighbours on scaled columns",
        _both("sklearn.neighbors.KNeighbors"),
        scaled=True,
    ),
    "mlp": NamedModel(
        "a neural network on scaled columns; trained in gradient steps on large tables",
        _both("sklearn.neural_network.MLP"),
        {"max_iter": 1000},
        scaled=True,
    ),
}
DEFAULT: dict[str, str] = {"classification": "logistic", "regression": "ridge"}
SUMMED: dict[str, str] = {"classification": "lda", "regression": "ridge"}
"""Default models where owners handed over statistics instead of rows."""
SCORING: dict[str, str] = {"classification": "accuracy", "regression": "r2"}
MOST_CLASSES = 20
MANY_CELLS, ROWS_PER_OWNER, MOST_COLUMNS = 2**19, 8, 4096
"""From this many rows × columns, `logistic` and `mlp` train pools together in gradient steps."""


def models() -> dict[str, str]:
    """Names of all models with one line each; `ModelGame` takes them as its model.

    Examples
    --------
    >>> import dushapley as ds
    >>> ds.models()["naive-bayes"]
    'Gaussian naive Bayes; from sums (classes)'
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
    if task == "auto" and owners.reduced is not None:
        chosen = owners.reduced[0].kind
    elif task == "auto":
        chosen = guess_task(np.concatenate(owners.labels()))
    default = DEFAULT if owners.reduced is None else SUMMED
    return Choice(chosen, model or default[chosen], full_name(scoring) or SCORING[chosen])


def check_task(task: str, name: str = "task") -> None:
    """Refuse what is not a task."""
    if task not in ("auto", *DEFAULT):
        raise InvalidOption(f"{name} is {task!r}; choose auto, classification or regression.")


def guess_task(y: Array) -> Task:
    """Text and a few whole numbers are classes; everything else is a quantity."""
    numbers = y.dtype.kind in "iuf"
    many = numbers and (bool((y != np.rint(y)).any()) or len(np.unique(y)) > MOST_CLASSES)
    return "regression" if many else "classification"


def model_for(
    choice: Choice,
    blocks: Sequence[Array],
    sizes: FloatArray,
    X_test: Array,
    dates: Sequence[int] = (),
) -> Any:
    """The model of a choice as these rows need it.

    Parameters
    ----------
    choice
        The model by name.
    blocks
        Features as they came, of the owners and of the test set, in which holes are looked for.
    sizes
        Rows of each owner.
    X_test
        Test rows as the model will see them, text and dates encoded.
    dates
        Positions of columns that hold dates.
    """
    classes = choice.task == "classification"
    together = trained_together(choice.model, X_test, sizes) if classes else None
    holes, sparse = has_holes(blocks, dates), is_sparse(X_test)
    return together or make_model(choice.model, choice.task, missing=holes, sparse=sparse)


def has_holes(blocks: Sequence[Array], dates: Sequence[int] = ()) -> bool:
    """Whether some number or date is missing (missing text is a category of its own)."""
    if any(is_sparse(b) for b in blocks):
        return any(b.dtype.kind == "f" and bool(np.isnan(b.data).any()) for b in blocks)
    days = [b[:, list(dates)] for b in blocks if b.dtype.kind == "O" and dates]
    if any(cell is None or cell != cell for b in days for cell in b.flat):
        return True
    numbers = [b for b in blocks if b.dtype.kind == "f"]
    cells = (cell for b in blocks if b.dtype.kind == "O" for cell in b.flat)
    return any(bool(np.isnan(b).any()) for b in numbers) or any(
        isinstance(cell, float) and cell != cell for cell in cells
    )


def trained_together(name: str, X_test: Array, sizes: FloatArray) -> Any | None:
    """The gradient-step form of `logistic` and `mlp` for large tables; None: train one by one.

    A fixed rule on rows, columns and owners: from `MANY_CELLS` cells on, with owners of some size,
    pools are trained together in a fixed number of steps. Columns are scaled once, by the test
    rows, which are the same for every pool.
    """
    rows, columns = float(sizes.sum()), X_test.shape[1]
    large = rows * columns >= MANY_CELLS and rows >= ROWS_PER_OWNER * len(sizes)
    numbers = not is_sparse(X_test) and X_test.dtype.kind != "O" and columns <= MOST_COLUMNS
    if name not in ("logistic", "mlp") or not (large and numbers):
        return None
    from dushapley.games.model.batched.reference import SmallMLP, SoftmaxRegression, safe_rate

    center = np.nanmean(X_test.astype(np.float64), axis=0)
    spread = np.nanstd(X_test.astype(np.float64), axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    if name == "mlp":
        return SmallMLP(center=center, scale=scale)
    rate = safe_rate(SoftmaxRegression(center=center, scale=scale).scaled(X_test))
    return SoftmaxRegression(learning_rate=rate, center=center, scale=scale)


def make_model(name: str, task: str, *, missing: bool, sparse: bool = False) -> Any:
    """The model of a short name or dotted path; `missing`: the rows have holes to fill.

    Sparse rows are scaled without being centred, or they would not stay sparse.

    Holes are filled by column means unless the model says, by scikit-learn's tags, that it takes
    them as they are.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = MODELS.get(name)
    if known is not None and task not in known.classes:
        able = ", ".join(other for other, model in MODELS.items() if task in model.classes)
        raise InvalidOption(f"{name} is not a model for {task}; choose among: {able}.")
    model = imported(known.classes[task])(**known.options) if known else made_from(name)
    steps: list[Any] = [StandardScaler(with_mean=not sparse)] if known and known.scaled else []
    if missing and not takes_holes(model):
        steps.insert(0, SimpleImputer(keep_empty_features=True))
    return make_pipeline(*steps, model) if steps else model


def takes_holes(model: Any) -> bool:
    """Whether a model says that missing numbers are welcome."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(model).input_tags.allow_nan)
    except (AttributeError, TypeError):  # older models lack such tags
        return False


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
    recipes = [getattr(step, "recipe", None) for step in steps]
    words = [repr(s) if r is None else r().words for s, r in zip(steps, recipes, strict=True)]
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
