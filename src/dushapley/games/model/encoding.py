"""Tables of text, dates and numbers as numbers, by skrub, always in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import Array
from dushapley.data.owners import Owners
from dushapley.data.rows import joined
from dushapley.errors import InvalidOwners
from dushapley.hashing import digest

if TYPE_CHECKING:
    import pandas as pd


OURS = ("sklearn.", "dushapley.")
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
        order = sorted(range(len(owners)), key=lambda j: owners.hashes[j])
        pooled = joined([owners.X[j] for j in order])
        self.vectorizer = vectorizer()
        encoded = self.vectorizer.fit_transform(as_frame(pooled, self.columns))
        self.outputs = without_noise(encoded, self.vectorizer)
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
    inside = model.get_params(deep=False).values() if hasattr(model, "get_params") else ()
    parts = [part for value in inside for part in _estimators(value)]
    return next(filter(None, map(column_reader, parts)), None)


def _reads_columns(step: Any) -> bool:
    if hasattr(step, "transformers"):
        return True
    if hasattr(step, "func"):
        return step.func is not None and not getattr(step, "validate", False)
    if hasattr(step, "transform") and not type(step).__module__.startswith(OURS):
        return True
    tags = input_tags(step)
    encodes = tags is not None and (tags.categorical or tags.string)
    return encodes and not hasattr(step, "predict")


def input_tags(model: Any) -> Any | None:
    """What a model says of the rows that it takes, by scikit-learn's tags; older ones lack them."""
    from sklearn.utils import get_tags

    with suppress(AttributeError, TypeError):
        return get_tags(model).input_tags
    return None


def _estimators(value: Any) -> list[Any]:
    """Estimators in a parameter: one, or a list of (name, estimator)."""
    if isinstance(value, (list, tuple)):
        return [pair[1] for pair in value if isinstance(pair, tuple) and len(pair) > 1]
    return [value]


def is_mixed(owners: Owners) -> bool:
    """Whether the owners' tables hold anything but numbers."""
    return owners.columns is not None and set(owners.columns.values()) != {"number"}


def encoding_pipeline(model: Any, columns: Mapping[str, str]) -> Any:
    """A model that encodes its own rows, afresh in every training."""
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    reader = FunctionTransformer(as_frame, kw_args={"columns": dict(columns)})
    # text of few words leaves columns of rounding errors, which a scaler would blow up
    return make_pipeline(reader, vectorizer(), VarianceThreshold(NOISE**2), model)


def without_noise(encoded: pd.DataFrame, fitted: Any) -> list[str]:
    """Columns but for those of a text that hold only rounding errors.

    Text of few different words spans fewer directions than the encoder gives back. The rest are
    numbers of 1e-8, which a scaler would blow up to the size of everything else.
    """
    texts = fitted.kind_to_columns_["high_cardinality"]
    outputs = {name for text in texts for name in fitted.input_to_outputs_[text]}
    noise = {name for name in outputs if np.std(encoded[name].to_numpy(np.float64)) < NOISE}
    return [name for name in encoded.columns if name not in noise]


def vectorizer() -> Any:
    """Skrub's vectorizer, with nothing left to chance."""
    from sklearn.preprocessing import OneHotEncoder
    from skrub import StringEncoder, TableVectorizer

    return TableVectorizer(
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        high_cardinality=StringEncoder(random_state=0),
    )


def as_frame(X: Array, columns: Mapping[str, str]) -> pd.DataFrame:
    """An array of objects as the table it came from."""
    import pandas as pd

    table = pd.DataFrame(X, columns=list(columns), dtype=object)
    readers: dict[str, Any] = {
        "number": lambda column: column.astype(np.float64),
        "date": pd.to_datetime,
    }
    for name, kind in columns.items():
        if kind in readers:
            table[name] = readers[kind](table[name])
    return table
