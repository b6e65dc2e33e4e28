"""Owners, model and test set that understand each other, whatever the tables hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, Rows
from dushapley.data.formats.objects import as_rows, as_table, missing_targets
from dushapley.data.owners import Owners
from dushapley.data.rows import count, frozen, is_sparse, is_table
from dushapley.data.tables import aligned, aligned_frame
from dushapley.errors import InvalidGame
from dushapley.games.model.catalogue import (
    MODELS,
    Choice,
    choose,
    has_holes,
    made_from,
    make_model,
)
from dushapley.games.model.encoding import Encoding, column_reader, encoding_pipeline, is_mixed
from dushapley.games.model.scoring.metrics import full_name
from dushapley.games.model.scoring.scorer import own_score, speaks, takes_columns
from dushapley.games.rows import refuse_other_things
from dushapley.validation import check_choice, refuse

ENCODES = ("none", "pooled", "training")


@dataclass(frozen=True)
class Prepared:
    """What a model game is made of, checked: rows as the model sees them, and the model itself.

    `notes` say how tables reached the model.
    """

    owners: Owners
    model: Any
    scoring: Any
    X_test: Rows
    y_test: Array
    encoding: Encoding | None
    notes: tuple[str, ...] = ()

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
    refuse_other_things(owners, "ModelGame")
    if owners.y[0] is None:
        raise InvalidGame("The owners have no targets; a model needs them: pass {name: (X, y)}.")
    if not isinstance(model, str) and task != "auto":
        raise InvalidGame(f"task is {task!r}, which is for models by name; leave it out.")
    if not isinstance(model, str):
        _check_model(model)
    how = _way(owners, model, encode)
    given = as_table(X_test)
    targets = np.array(as_table(y_test))
    if not takes_columns(model):
        owners, targets = replace(owners, y=tuple(map(_flat, owners.y))), _flat(targets)
    if how == "none" and owners.frames is not None:
        return _with_tables(owners, model, given, targets, scoring=scoring, task=task)
    encoding = _encoding(owners, how)
    if owners.columns is not None and is_table(given):
        given = aligned(given, owners.columns, "The test table")
    plain = as_rows("test set", given)
    plain = plain.to_numpy() if is_table(plain) else plain
    if plain.ndim == 0:
        raise InvalidGame(f"The test set is {X_test!r}; rows of features are needed.")
    rows = plain if encoding is None else encoding(np.asarray(plain, dtype=object))
    pooled = owners if encoding is None else encoding.encode(owners)
    scoring = full_name(scoring)
    if isinstance(model, str):
        choice = choose(owners, model, task, scoring)
        kinds = list((owners.columns or {}).values())
        dates = [position for position, kind in enumerate(kinds) if kind == "date"]
        holes = has_holes([*owners.X, plain], dates)
        known = None if owners.reduced or is_sparse(rows) else pooled
        model = make_model(
            choice.model, choice.task, missing=holes, sparse=is_sparse(rows), owners=known
        )
        scoring = choice.scoring
    encodes = encoding is None and is_mixed(owners) and how == "training"
    if encodes:
        assert owners.columns is not None
        model = encoding_pipeline(model, owners.columns)
    notes = ("Text and dates were encoded afresh in every training.",) if encodes else ()
    return _checked(Prepared(pooled, model, scoring, rows, targets, encoding, notes))


def _with_tables(
    owners: Owners, model: Any, X_test: Any, y_test: Array, *, scoring: Any, task: str
) -> Prepared:
    """A model that is handed tables, with the names, types and categories that they came with."""
    assert owners.columns is not None
    assert owners.frames is not None
    if not is_table(X_test):
        raise InvalidGame(
            "The model is handed tables, since it selects or encodes columns itself, but the test "
            f"set is {type(X_test).__name__}. Pass X_test as a table with the owners' columns."
        )
    rows = aligned_frame(X_test, owners.columns, "The test table").reset_index(drop=True)
    reader = column_reader(model) if not isinstance(model, str) else None
    if isinstance(model, str):
        choice = choose(owners, model, task, full_name(scoring))
        scoring, model = choice.scoring, _made(choice, owners)
        reader = column_reader(model)
    why = (
        "because encode='none'"
        if reader is None
        else f"since its {type(reader).__name__} selects or encodes columns itself"
    )
    note = f"The model was handed the tables as they are (encode='none'), {why}."
    pooled = replace(owners, X=owners.frames)
    return _checked(Prepared(pooled, model, full_name(scoring), rows, y_test, None, (note,)))


def _made(choice: Choice, owners: Owners) -> Any:
    if choice.model not in MODELS:
        return made_from(choice.model)
    return make_model(choice.model, choice.task, missing=has_holes(owners.X))


def _checked(parts: Prepared) -> Prepared:
    """The parts, once they fit each other; a score that was not named is the model's own."""
    _check_test_set(parts.owners, parts.X_test, parts.y_test)
    _check_model(parts.model)
    _check_labels(parts.classes)
    scoring = own_score(parts.model) if parts.scoring is None else parts.scoring
    return replace(parts, scoring=scoring, owners=replace(parts.owners, frames=None))


def _way(owners: Owners, model: Any, encode: Any) -> Any:
    """How tables reach the model: as was asked, or as its first step makes right."""
    if encode is not None and not isinstance(encode, Encoding):
        check_choice(encode, "encode", ENCODES)
    if encode is not None:
        return encode
    if isinstance(model, str):
        named = owners.frames is None or model in MODELS or "." not in model
        return "pooled" if named or column_reader(made_from(model)) is None else "none"
    return "pooled" if column_reader(model) is None else "none"


def _encoding(owners: Owners, how: Any) -> Encoding | None:
    """The encoding of tables with text or dates that is the same for every pool, if there is."""
    if not is_mixed(owners) or how in ("training", "none"):
        return None
    return how if isinstance(how, Encoding) else Encoding(owners)


def _flat(y: Any) -> Any:
    """Targets without the column that a single one of them may come in."""
    column = y is not None and y.ndim == 2 and y.shape[1] == 1
    return frozen(y[:, 0].copy()) if column else y


def _check_test_set(owners: Owners, X: Rows, y: Array) -> None:
    """Refuse a test set that does not fit the owners' rows; freeze one that does."""
    frozen(X), frozen(y)  # one test set for all trainings, and the caller's stays as it was
    columns, known = owners.X[0].shape[1:], owners.labels()
    refuse(
        InvalidGame,
        (
            is_sparse(X) != is_sparse(owners.X[0]),
            f"The test set has rows of type {type(X).__name__}, the owners' are "
            f"{type(owners.X[0]).__name__}; both need to be sparse, or neither.",
        ),
        (
            X.shape[1:] != columns,
            f"The test set has rows of shape {X.shape[1:]}, the owners' have {columns}; both need "
            "the same columns.",
        ),
        (
            count(X) == 0 or y.ndim == 0 or count(X) != len(y),
            f"The test set has {count(X)} rows and {len(y) if y.ndim else 0} targets; each row "
            "needs one target.",
        ),
        (
            owners.reduced is None and y.shape[1:] != known[0].shape[1:],
            f"The test set has targets of shape {y.shape[1:]}, the owners' have "
            f"{known[0].shape[1:] if known else ()}; both need as many.",
        ),
        (
            bool(y.ndim) and missing_targets(y).any(),
            "The test set has targets that are missing or infinite; drop those rows.",
        ),
    )


def _check_labels(classes: Array | None) -> None:
    """Refuse targets between whole numbers as classes, as scikit-learn does."""
    labels = [] if classes is None or classes.dtype.kind not in "fO" else classes.tolist()
    between = [y for y in labels if isinstance(y, float) and not y.is_integer()]
    if between:
        raise InvalidGame(
            f"The model is a classifier, but the targets are continuous: {between[0]:g} is one of "
            f"{len(labels)} values. Pass a regressor; or classes as whole numbers or text."
        )


def _check_model(model: Any) -> None:
    for needed in ("fit", "predict", "get_params", "set_params"):
        if isinstance(model, type) or not speaks(model, needed):
            raise InvalidGame(
                f"Found {model!r} as the model, which has no {needed}(). Pass an unfitted "
                "scikit-learn estimator or pipeline, for example LogisticRegression(), or one of "
                "dushapley.models() by name."
            )
