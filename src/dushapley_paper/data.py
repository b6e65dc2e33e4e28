"""The data sets of the experiments: read from a local folder, fetched only when asked.

The folder is named by the environment variable ``DUSHAPLEY_DATA``. Every set is one file in it; a
missing file raises `DataMissing`, which says which file, where its original is, and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from dushapley.arrays import Array, FloatArray
from dushapley.errors import DUShapleyError

Task = Literal["classification", "regression"]

FOLDER = "DUSHAPLEY_DATA"
"""Name of the environment variable that names the folder."""


class DataMissing(DUShapleyError, FileNotFoundError):
    """A file that an experiment needs is not in the folder, or there is no folder."""


@dataclass(frozen=True)
class Table:
    """Rows ready for a model: numbers only, columns standardised, regression targets too.

    Attributes
    ----------
    name
        As in the paper.
    X, y
        Features (rows, columns) and targets: class codes 0..C−1, or standardised numbers.
    task
        "classification" or "regression".
    note
        What differs from the paper's data.
    """

    name: str
    X: FloatArray
    y: Array
    task: Task
    note: str = ""


@dataclass(frozen=True)
class DataSource:
    """Where a data set comes from.

    Attributes
    ----------
    file
        Its name in the folder.
    origin
        Where people get the original.
    note
        What differs from the paper's data; `{rows}` is how many rows there are.
    read
        Features, ready for a model, and targets from the path of the file.
    task
        "classification" or "regression".
    public
        Whether `dushapley_paper.download` can make the file from the original.
    """

    file: str
    origin: str
    note: str
    read: Callable[[Path], tuple[FloatArray, Array]]
    task: Task = "classification"
    public: bool = True


def load(name: str) -> Table:
    """Read a data set from the folder named by ``DUSHAPLEY_DATA``; `make-regression` is computed.

    Arrays that `save` put there are preferred: they need no further library.

    Raises
    ------
    DataMissing
        Names the file, its origin and the folder.
    """
    prepared = _prepared(name)
    if prepared is not None:
        return _read_prepared(prepared)
    if name == "make-regression":
        return _make_regression()
    source = SOURCES[name]
    X, y = source.read(find(name))
    y = standardised(y) if source.task == "regression" else y.astype(np.int64)
    return Table(name, X, y, source.task, source.note.format(rows=f"{len(X):,}"))


def check(names: Iterable[str]) -> None:
    """Raise `DataMissing` unless all these data sets can be read: before anything is computed.

    The error names every file that is missing, not the first alone.
    """
    missing = []
    for name in dict.fromkeys(names):
        if _prepared(name) is None:
            try:
                find(name)
            except DataMissing as error:
                missing.append((name, error))
    if missing:
        _, first = missing[0]
        others = "; ".join(f"{SOURCES[n].file} ({SOURCES[n].origin})" for n, _ in missing[1:])
        raise DataMissing(f"{first} Also missing: {others}." if others else str(first))


def save(table: Table, folder: Path) -> None:
    """Store a data set as plain arrays, for machines without a reader of its own format."""
    np.savez_compressed(
        folder / f"{table.name}.npz", X=table.X, y=table.y, task=table.task, note=table.note
    )


def _prepared(name: str) -> Path | None:
    """The plain arrays of a data set, where `save` put them into the folder."""
    path = Path(os.environ.get(FOLDER, "")) / f"{name}.npz"
    return path if FOLDER in os.environ and path.is_file() else None


def _read_prepared(path: Path) -> Table:
    with np.load(path) as file:
        task: Task = "regression" if str(file["task"]) == "regression" else "classification"
        return Table(path.stem, file["X"].astype(np.float64), file["y"], task, str(file["note"]))


def find(name: str) -> Path:
    """Path of a data set's file in the data folder, or what to do about its absence."""
    source, folder = SOURCES[name], os.environ.get(FOLDER)
    if folder is not None and (Path(folder) / source.file).is_file():
        return Path(folder) / source.file
    found = f"{FOLDER} is not set" if folder is None else f"the folder {folder} ({FOLDER}) lacks it"
    fetching = (
        "Nothing is downloaded unless you ask: add --download to fetch it into that folder."
        if source.public
        else "It cannot be downloaded ready-made."
    )
    raise DataMissing(
        f"{name} needs the file {source.file}, but {found}. Its original: {source.origin}. Put "
        f"{source.file} into a folder and name it: export {FOLDER}=/path/to/folder. {fetching}"
    )


def standardised(columns: Array) -> FloatArray:
    """Every column with mean 0 and standard deviation 1 (0 where it is constant)."""
    values = np.asarray(columns, dtype=np.float64)
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _read_adult(path: Path) -> tuple[FloatArray, Array]:
    frame = pd.read_parquet(path).drop(columns=["split"])
    rich = frame.pop("income").str.strip(". ") == ">50K"
    numbers = frame.select_dtypes("number")
    words = pd.get_dummies(frame.drop(columns=numbers.columns).fillna("?"))
    X = np.hstack([standardised(numbers.to_numpy()), words.to_numpy(dtype=np.float64)])
    return X, rich.to_numpy()


def _read_bank(path: Path) -> tuple[FloatArray, Array]:
    frame = pd.read_parquet(path)
    subscribed = frame.pop("y") == "yes"
    X = standardised(np.column_stack([_codes(frame[column]) for column in frame]))
    return X, subscribed.to_numpy()


def _codes(column: pd.Series[Any]) -> FloatArray:
    """Numbers as they are, words as their rank in the alphabet."""
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64)
    return np.asarray(column.astype(str).astype("category").cat.codes, dtype=np.float64)


def _read_numbers(target: str, path: Path) -> tuple[FloatArray, Array]:
    """A frame of numbers with the targets in one of its columns."""
    frame = pd.read_parquet(path)
    y = frame.pop(target).to_numpy()
    return standardised(frame.to_numpy()), y


def _make_regression() -> Table:
    from sklearn.datasets import make_regression

    X, y = make_regression(n_samples=1000, n_features=10, random_state=0)
    return Table(
        "make-regression",
        standardised(X),
        standardised(y),
        "regression",
        "scikit-learn's generator with its defaults (no noise); target standardised",
    )


def _read_embeddings(path: Path, parts: tuple[str, ...] = ("",)) -> tuple[FloatArray, Array]:
    """Arrays X and y, in one part or in several that carry these endings."""
    with np.load(path) as file:
        X, y = (np.concatenate([file[a + part] for part in parts]) for a in "Xy")
    return standardised(X.astype(np.float64)), y


UCI = "https://archive.ics.uci.edu/dataset"
EMBED = (
    "embed it yourself, and store arrays X (rows, dimensions) and y (class codes) by numpy.savez"
)
SOURCES = {
    "adult": DataSource(
        "adult.parquet",
        f"{UCI}/2/adult",
        "numbers standardised, categories one-hot",
        _read_adult,
    ),
    "bank": DataSource(
        "bank_marketing.parquet",
        f"{UCI}/222/bank+marketing",
        "16 columns as printed: categories as codes",
        _read_bank,
    ),
    "breast-cancer": DataSource(
        "breast_cancer_diagnostic.parquet",
        f"{UCI}/17/breast+cancer+wisconsin+diagnostic",
        "30 features and 569 rows; the paper prints 699 rows, which is the 9-feature set",
        partial(_read_numbers, "target"),
    ),
    "cal-housing": DataSource(
        "california_housing.parquet",
        "https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html",
        "target standardised",
        partial(_read_numbers, "MedHouseVal"),
        "regression",
    ),
    "year": DataSource(
        "year_msd_90f_1176.parquet",
        f"{UCI}/203/yearpredictionmsd",
        "target standardised; {rows} of the 515,345 songs",
        partial(_read_numbers, "year"),
        "regression",
    ),
    "BBC": DataSource(
        "bbc_minilm_emb.npz",
        f"http://mlg.ucd.ie/datasets/bbc.html; {EMBED}",
        "MiniLM sentence embeddings, not DistilBERT's",
        _read_embeddings,
        public=False,
    ),
    "IMDB": DataSource(
        "imdb_minilm_emb.npz",
        f"https://ai.stanford.edu/~amaas/data/sentiment; {EMBED}",
        "MiniLM sentence embeddings of 6,000 reviews, not DistilBERT's of 50,000",
        _read_embeddings,
        public=False,
    ),
    "CIFAR10": DataSource(
        "cifar10_resnet50_emb.npz",
        "https://www.cs.toronto.edu/~kriz/cifar.html; embed it yourself, and store X_train, "
        "y_train, X_test and y_test by numpy.savez",
        "ResNet50 features (Keras weights) of 6,000 pictures",
        partial(_read_embeddings, parts=("_train", "_test")),
        public=False,
    ),
}
