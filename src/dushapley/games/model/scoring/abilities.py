"""What an estimator can do, and how it would be scored: its methods, weights, own score."""

from __future__ import annotations

import inspect
from typing import Any

from dushapley.errors import InvalidGame
from dushapley.games.model.scoring.scorer import Scorer, own


def refuse_unable(scorer: Scorer, model: Any) -> None:
    """Refuse, before any training, a model that lacks what the score needs of it."""
    response = "labels" if scorer.metric is None else scorer.metric.response
    ranks = response == "ranking" and speaks(model, "decision_function")
    if response != "labels" and not ranks and not speaks(model, "predict_proba"):
        raise InvalidGame(
            f"scoring={scorer.name!r} needs predicted probabilities, but "
            f"{type(model).__name__} has no predict_proba. Choose a model that has, or "
            "another score such as 'accuracy'."
        )


def speaks(model: Any, name: str) -> bool:
    """Whether a model, once fitted, has a method.

    Stacked models have their final estimator's methods, and say so only once they are fitted where
    that is left to them.
    """
    if callable(getattr(model, name, None)):
        return True
    if not hasattr(type(model), name):
        return False
    if getattr(model, "final_estimator", model) is None:
        return True
    inner = _inner(model)
    return inner is not None and speaks(inner, name)


def _inner(model: Any) -> Any | None:
    """The model that answers for another: the last step of a pipeline, the one that is searched."""
    steps = hasattr(model, "named_steps")
    return model.steps[-1][1] if steps else getattr(model, "estimator", None)


def takes_columns(model: Any) -> bool:
    """Whether a single target may come as a column, shape (n, 1), and makes a difference.

    For networks it does; classifiers and scikit-learn's regressors take it as if it were flat.
    """
    from sklearn.base import is_classifier

    inner = model
    while (last := _inner(inner)) is not None:
        inner = last
    ours = type(inner).__module__.partition(".")[0] in ("sklearn", "dushapley")
    return not (isinstance(model, str) or is_classifier(model) or ours)


def own_score(model: Any) -> Any:
    """The model's own `score` as a scoring: by name where it is accuracy or r2, as most are.

    Examples
    --------
    >>> from sklearn.linear_model import PoissonRegressor, Ridge
    >>> own_score(Ridge()), own_score(PoissonRegressor()).__name__
    ('r2', 'own')
    """
    from sklearn import base, metrics

    score = getattr(type(model), "score", None)
    if score is None:
        return "r2" if base.is_regressor(model) else "accuracy"
    known = {base.ClassifierMixin.score: "accuracy", base.RegressorMixin.score: "r2"}
    if score in known or "sklearn.neighbors" in score.__module__:  # theirs may do without X
        return known.get(score, "accuracy")
    if hasattr(model, "named_steps"):
        return own_score(model.steps[-1][1])
    asked = getattr(model, "scoring", own)  # of a search, or of a model that searches
    if asked is None:
        return own_score(model.estimator) if hasattr(model, "estimator") else "accuracy"
    return asked if isinstance(asked, str) and asked in metrics.get_scorer_names() else own


def weight_option(model: Any, *, weighted: bool) -> str:
    """Under which name the model's `fit` takes the weight of each row; refused if under none.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_option(make_pipeline(StandardScaler(), Ridge()), weighted=True)
    'ridge__sample_weight'
    """
    name = _weight_option(model) if weighted else ""
    if name is None:
        raise InvalidGame(
            f"The owners' rows have weights, but {type(model).__name__} takes no sample_weight. "
            "Choose a model that does, or leave the weights out."
        )
    return name


def _weight_option(model: Any) -> str | None:
    parameters = inspect.signature(model.fit).parameters
    if "sample_weight" in parameters:
        return "sample_weight"
    if hasattr(model, "named_steps"):
        step, last = model.steps[-1]
        inner = _weight_option(last)
        return None if inner is None else f"{step}__{inner}"
    inside = [part for _, part in getattr(model, "estimators", [])]
    inside = inside or [getattr(model, "estimator", None)]
    names = {_weight_option(part) for part in inside if hasattr(part, "fit")}
    handed_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return names.pop() if handed_on and len(names) == 1 else None
