"""Owners, model and test set that understand each other, whatever the tables hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array
from dushapley.data.owners import Owners
from dushapley.data.tables import aligned
from dushapley.errors import InvalidGame
from dushapley.games.model.catalogue import choose, model_for
from dushapley.games.model.encoding import Encoding, encoding_pipeline, is_mixed
from dushapley.games.model.scoring.metrics import full_name
from dushapley.validation import check_choice, refuse


@dataclass(frozen=True)
class Prepared:
    """What a model game is made of, checked: rows as the model sees them, and the model itself."""

    owners: Owners
    model: Any
    scoring: Any
    X_test: Array
    y_test: Array
    encoding: Encoding | None

    @property
    def classes(self) -> Array | None:
        """All labels that owners or test set hold, where the model is a classifier."""
        from sklearn.base import is_classifier

        if not is_classifier(self.model):
            return None
        return np.unique(np.concatenate([self.y_test, *self.owners.labels()]))


def prepare(
    owners: Owners,
    model: Any,
    X_test: Any,
    y_test: ArrayLike,
    *,
    scoring: Any,
    task: str,
    encode: Any,
) -> Prepared:
    """Encode the rows, and make the model and its score where they are given by name."""
    if owners.y[0] is None:
        raise InvalidGame("The owners have no targets; a model needs them: pass {name: (X, y)}.")
    encoding = _encoding(owners, encode)
    given = X_test
    if owners.columns is not None and hasattr(given, "columns"):
        given = aligned(given, owners.columns, "The test table")
    rows = np.array(given) if encoding is None else encoding(np.asarray(given, dtype=object))
    scoring = full_name(scoring)
    if isinstance(model, str):
        choice = choose(owners, model, task, scoring)
        blocks = [*owners.X, np.asarray(given)]
        kinds = list((owners.columns or {}).values())
        dates = [position for position, kind in enumerate(kinds) if kind == "date"]
        model = model_for(choice, blocks, owners.sizes, rows, dates)
        scoring = choice.scoring
    elif task != "auto":
        raise InvalidGame(f"task is {task!r}, which is for models by name; leave it out.")
    if encoding is None and is_mixed(owners):
        assert owners.columns is not None
        model = encoding_pipeline(model, owners.columns)
    pooled = owners if encoding is None else encoding.encode(owners)
    targets = np.array(y_test)
    _check_test_set(pooled, rows, targets)
    _check_model(model)
    return Prepared(
        pooled, model, "accuracy" if scoring is None else scoring, rows, targets, encoding
    )


def _encoding(owners: Owners, encode: Any) -> Encoding | None:
    """The encoding of tables with text or dates that is the same for every pool, if there is."""
    if not isinstance(encode, Encoding):
        check_choice(encode, "encode", ("pooled", "training"))
    if not is_mixed(owners) or encode == "training":
        return None
    return encode if isinstance(encode, Encoding) else Encoding(owners)


def _check_test_set(owners: Owners, X: Array, y: Array) -> None:
    """Refuse a test set that does not fit the owners' rows; freeze one that does."""
    for array in (X, y):  # one test set for all trainings, and the caller's stays as it was
        array.setflags(write=False)
    columns = owners.X[0].shape[1:]
    refuse(
        InvalidGame,
        (
            X.shape[1:] != columns,
            f"The test set has rows of shape {X.shape[1:]}, the owners' have {columns}; both need "
            "the same columns.",
        ),
        (
            len(X) == 0 or len(X) != len(y),
            f"The test set has {len(X)} rows and {len(y)} targets; each row needs one target.",
        ),
        (
            y.dtype.kind == "f" and not bool(np.isfinite(y).all()),
            "The test set has targets that are missing or infinite; drop those rows.",
        ),
    )


def _check_model(model: Any) -> None:
    for needed in ("fit", "predict", "get_params", "set_params"):
        if isinstance(model, type) or not callable(getattr(model, needed, None)):
            raise InvalidGame(
                f"Found {model!r} as the model, which has no {needed}(). Pass an unfitted "
                "scikit-learn estimator or pipeline, for example LogisticRegression(), or one of "
                "dushapley.models() by name."
            )
