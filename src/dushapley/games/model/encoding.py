"""Owners, model and test set that understand each other, whatever the tables hold.

Tables of text, dates and numbers become numbers by skrub, always in the same way, or reach the
model as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, Rows
from dushapley.data.formats.objects import as_rows, as_table, missing_targets
from dushapley.data.owners import Owners
from dushapley.data.rows import count, frozen, is_sparse, is_table, joined
from dushapley.data.tables import aligned, aligned_frame
from dushapley.errors import InvalidGame, InvalidOwners
from dushapley.games.model.catalogue import (
    MODELS,
    Choice,
    choose,
    has_holes,
    input_tags,
    made_from,
    make_model,
)
from dushapley.games.model.scoring.abilities import own_score, speaks, takes_columns
from dushapley.games.model.scoring.scorer import full_name
from dushapley.games.rows import content_order, refuse_other_things
from dushapley.hashing import digest
from dushapley.validation import check_choice, refuse

NOISE = 1e-6
"""Spread below which a component of a text (of order 1) is rounding error."""


class Encoding:
    """Numbers for mixed tables: fitted once on the pooled rows of all owners, then frozen.

    Categories become indicators, long texts and rare categories a few components, dates their
    parts; a category that the owners never had counts as none. Fitting once means that every pool
    is encoded alike (and quickly), and that no owner is credited for which categories exist.

    Parameters
    ----------
    owners
        Whose rows it is fitted on. A what-if with other owners keeps the first run's encoding by
        passing it on, so that its trainings stay comparable.

    Attributes
    ----------
    name
        Content hash of the rows it was fitted on; part of a ledger's key.

    Examples
    --------
    >>> import pandas as pd, dushapley as ds
    >>> table = pd.DataFrame({"who": list("aabb"), "sex": list("mfmf"), "ill": [0, 1, 1, 0]})
    >>> owners = ds.Owners.from_frame(table, owner="who", target="ill")
    >>> Encoding(owners).encode(owners).X[0].tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, owners: Owners) -> None:
        if owners.columns is None:
            raise InvalidOwners("These owners came as arrays, whose columns have no names.")
        self.columns = dict(owners.columns)
        pooled = joined([owners.X[j] for j in content_order(owners)])
        self.vectorizer = vectorizer()
        encoded = self.vectorizer.fit_transform(as_frame(pooled, self.columns))
        # text of few words spans fewer directions than the encoder gives back: the rest are
        # rounding errors, which a scaler would blow up to the size of everything else
        texts = self.vectorizer.kind_to_columns_["high_cardinality"]
        made = {name for text in texts for name in self.vectorizer.input_to_outputs_[text]}
        noise = {name for name in made if np.std(encoded[name].to_numpy(np.float64)) < NOISE}
        self.outputs = [name for name in encoded.columns if name not in noise]
        self.name = digest("skrub", str(self.columns), *sorted(owners.hashes))

    def __call__(self, X: Array) -> Array:
        """Rows of objects as rows of numbers."""
        frame = self.vectorizer.transform(as_frame(X, self.columns))
        return np.ascontiguousarray(frame[self.outputs].to_numpy(dtype=np.float64))

    def encode(self, owners: Owners) -> Owners:
        """The same owners, known by the content they came with, with rows of numbers."""
        return replace(owners, X=tuple(self(X) for X in owners.X))


def column_reader(model: Any) -> Any | None:
    """The first step of a model that selects or encodes columns itself; None: there is none.

    One that selects columns (`ColumnTransformer`), that says it takes categories or text
    (`OneHotEncoder`, vectorizers), a function of one's own, or a transformer that is neither
    scikit-learn's nor this library's. In models made of several, each of them is looked at.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> column_reader(make_pipeline(OneHotEncoder(), LogisticRegression()))
    OneHotEncoder()
    >>> column_reader(make_pipeline(StandardScaler(), LogisticRegression()))
    """
    if isinstance(model, type) or not hasattr(model, "fit"):
        return None
    if hasattr(model, "named_steps"):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        return column_reader(steps[0]) if steps else None
    if _reads_columns(model):
        return model
    parts = []
    for value in model.get_params(deep=False).values() if hasattr(model, "get_params") else ():
        pairs = value if isinstance(value, (list, tuple)) else [("", value)]
        parts += [pair[1] for pair in pairs if isinstance(pair, tuple) and len(pair) > 1]
    return next(filter(None, map(column_reader, parts)), None)


def _reads_columns(step: Any) -> bool:
    if hasattr(step, "transformers"):
        return True
    if hasattr(step, "func"):
        return step.func is not None and not getattr(step, "validate", False)
    if hasattr(step, "transform") and not type(step).__module__.startswith(
        ("sklearn.", "dushapley.")
    ):
        return True
    tags = input_tags(step)
    encodes = tags is not None and (tags.categorical or tags.string)
    return encodes and not hasattr(step, "predict")


def is_mixed(owners: Owners) -> bool:
    """Whether the owners' tables hold anything but numbers."""
    return owners.columns is not None and set(owners.columns.values()) != {"number"}


def encoding_pipeline(model: Any, columns: Mapping[str, str]) -> Any:
    """A model that encodes its own rows, afresh in every training."""
    from sklearn import feature_selection, pipeline, preprocessing

    reader = preprocessing.FunctionTransformer(as_frame, kw_args={"columns": dict(columns)})
    # text of few words leaves columns of rounding errors, which a scaler would blow up
    varied = feature_selection.VarianceThreshold(NOISE**2)
    return pipeline.make_pipeline(reader, vectorizer(), varied, model)


def vectorizer() -> Any:
    """Skrub's vectorizer, with nothing left to chance."""
    from sklearn.preprocessing import OneHotEncoder
    from skrub import StringEncoder, TableVectorizer

    return TableVectorizer(
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        high_cardinality=StringEncoder(random_state=0),
    )


def as_frame(X: Array, columns: Mapping[str, str]) -> Rows:
    """An array of objects as the table it came from."""
    import pandas as pd

    table = pd.DataFrame(X, columns=list(columns), dtype=object)
    for name, kind in columns.items():
        if kind == "number":
            table[name] = table[name].astype(np.float64)
        elif kind == "date":
            table[name] = pd.to_datetime(table[name])
    return table


def prepare(
    owners: Owners,
    model: Any,
    X_test: Any,
    y_test: ArrayLike,
    *,
    scoring: Any,
    task: str,
    encode: Any,
) -> tuple[Owners, Any, Any, Rows, Array, Array | None, Encoding | None, list[str]]:
    """Encode the rows, and make the model and its score where they are given by name.

    Returns owners, model and score, rows and targets of the test set, all labels that owners or
    test set hold (where the model is a classifier), the encoding, and how tables reached the model.
    """
    from sklearn.base import is_classifier

    refuse_other_things(owners, "ModelGame")
    if owners.y[0] is None:
        raise InvalidGame("The owners have no targets; a model needs them: pass {name: (X, y)}.")
    if not isinstance(model, str):
        _check_model(model)
        if task != "auto":
            raise InvalidGame(f"task is {task!r}, which is for models by name; leave it out.")
    how = _way(owners, model, encode)
    targets, scoring = np.array(as_table(y_test)), full_name(scoring)
    if not takes_columns(model):
        owners, targets = replace(owners, y=tuple(map(_flat, owners.y))), _flat(targets)
    handed = owners.frames if how == "none" else None
    given = _test_rows(owners, X_test, tables=handed is not None)
    pooled, rows, encoding = owners, given, None
    if handed is not None:
        pooled = replace(owners, X=handed)
    elif is_mixed(owners) and how not in ("training", "none"):
        encoding = how if isinstance(how, Encoding) else Encoding(owners)
        pooled, rows = encoding.encode(owners), encoding(np.asarray(given, dtype=object))
    if isinstance(model, str):
        choice = choose(owners, model, task, scoring)
        scoring = choice.scoring
        model = _made(choice, owners, pooled, given, tables=handed is not None)
    notes = []
    if handed is not None:
        reader = column_reader(model)
        step = f"since its {type(reader).__name__} selects or encodes columns itself"
        why = "because encode='none'" if reader is None else step
        notes.append(f"The model was handed the tables as they are (encode='none'), {why}.")
    if is_mixed(owners) and how == "training":
        model = encoding_pipeline(model, owners.columns or {})
        notes = ["Text and dates were encoded afresh in every training."]
    _check_test_set(pooled, rows, targets)
    _check_model(model)
    classifies = is_classifier(model)
    classes = np.unique(np.concatenate([targets, *pooled.labels()])) if classifies else None
    labels = [] if classes is None or classes.dtype.kind not in "fO" else classes.tolist()
    between = [y for y in labels if isinstance(y, float) and not y.is_integer()]
    if between:
        raise InvalidGame(
            f"The model is a classifier, but the targets are continuous: {between[0]:g} is one of "
            f"{len(labels)} values. Pass a regressor; or classes as whole numbers or text."
        )
    scoring = own_score(model) if scoring is None else scoring
    owners = replace(pooled, frames=None)
    return owners, model, scoring, rows, targets, classes, encoding, notes


def _test_rows(owners: Owners, X_test: Any, *, tables: bool) -> Any:
    """Rows of the test set with the owners' columns: as a table, or as an array."""
    given = as_table(X_test)
    if tables and not is_table(given):
        raise InvalidGame(
            "The model is handed tables, since it selects or encodes columns itself, but the test "
            f"set is {type(given).__name__}. Pass X_test as a table with the owners' columns."
        )
    if tables:
        return aligned_frame(given, owners.columns or {}, "The test table").reset_index(drop=True)
    if owners.columns is not None and is_table(given):
        given = aligned(given, owners.columns, "The test table")
    rows = as_rows("test set", given)
    rows = rows.to_numpy() if is_table(rows) else rows
    if rows.ndim == 0:
        raise InvalidGame(f"The test set is {X_test!r}; rows of features are needed.")
    return rows


def _made(choice: Choice, owners: Owners, pooled: Owners, given: Rows, *, tables: bool) -> Any:
    """The model of a name, in which holes are filled but where a path is handed tables."""
    if tables and choice.model not in MODELS:
        return made_from(choice.model)
    kinds = (owners.columns or {}).values()
    dates = [position for position, kind in enumerate(kinds) if kind == "date"]
    sparse = is_sparse(given)
    return make_model(
        choice.model,
        choice.task,
        missing=has_holes([*owners.X, *([] if tables else [given])], dates),
        sparse=sparse,
        owners=None if owners.reduced or sparse or tables else pooled,
    )


def _way(owners: Owners, model: Any, encode: Any) -> Any:
    """How tables reach the model: as was asked, or as its first step makes right."""
    if encode is not None and not isinstance(encode, Encoding):
        check_choice(encode, "encode", ("none", "pooled", "training"))
    if encode is not None:
        return encode
    by_path = isinstance(model, str) and owners.frames is not None and "." in model
    made = made_from(model) if by_path else model
    return "pooled" if column_reader(made) is None else "none"


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


def _check_model(model: Any) -> None:
    for needed in ("fit", "predict", "get_params", "set_params"):
        if isinstance(model, type) or not speaks(model, needed):
            raise InvalidGame(
                f"Found {model!r} as the model, which has no {needed}(). Pass an unfitted "
                "scikit-learn estimator or pipeline, for example LogisticRegression(), or one of "
                "dushapley.models() by name."
            )
