"""Public data sets, fetched into the data folder: only when asked."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from dushapley_paper.data import FOLDER, SOURCES, DataMissing

ARCHIVE = "https://archive.ics.uci.edu/static/public"
CHECKSUMS = {
    "2/adult.zip": "7537312dd56c2b98035880805ce99e68183a30ee468aa5329d6df0fbb3cc21bb",
    "203/yearpredictionmsd.zip": "06f801af323bb7798e800583acce4ea1ed2697ac12c23f4424aea0a7a3d09e11",
    "222/bank+marketing.zip": "e0bf5f5de5b846e2f18e9d90606637267d46dfa260e0f17bb12e605db5efbeb4",
}
"""SHA-256 of every file of the archive: a different file is a different experiment."""
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip


def download(names: Iterable[str]) -> list[Path]:
    """Fetch what is public and not there yet into the folder named by ``DUSHAPLEY_DATA``.

    Embeddings are left out: they are made, not fetched, and `find` says how.

    Raises
    ------
    DataMissing
        Where no folder is named.
    """
    if FOLDER not in os.environ:
        raise DataMissing(
            f"{FOLDER} is not set: name the folder that downloads go to, "
            f"export {FOLDER}=/path/to/folder."
        )
    folder, made = Path(os.environ[FOLDER]), []
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / SOURCES[name].file
        if SOURCES[name].public and not path.is_file():
            FETCHERS[name]().to_parquet(path)
            made.append(path)
    return made


def unzipped(file: str, *inside: str) -> bytes:
    """A file from a zip of the archive, or from a zip inside it; the zip stays in the folder.

    Raises
    ------
    DataMissing
        Where pooch is not installed, or the zip is not the one these experiments were made with.
    """
    try:
        import pooch
    except ImportError as error:
        raise DataMissing(
            "Downloads need pooch, which is not installed: pip install 'dushapley[paper]'."
        ) from error
    address, folder = f"{ARCHIVE}/{file}", Path(os.environ[FOLDER]) / "originals"
    try:
        path = pooch.retrieve(address, CHECKSUMS[file], fname=Path(file).name, path=folder)
    except ValueError as error:
        raise DataMissing(
            f"{address} has changed: {error} Try again; if that does not help, prepare the "
            "file yourself from the original and put it into the folder."
        ) from error
    content = Path(path).read_bytes()
    for name in inside:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(name)
    return content


def adult() -> pd.DataFrame:
    """Both files of the census income data, `split` says which."""
    parts = []
    for file, split, skipped in (("adult.data", "train", 0), ("adult.test", "test", 1)):
        text = io.BytesIO(unzipped("2/adult.zip", file))
        part = pd.read_csv(
            text, names=list(ADULT_COLUMNS), skiprows=skipped, skipinitialspace=True, na_values="?"
        )
        parts.append(part.assign(split=split))
    return pd.concat(parts, ignore_index=True)


def bank() -> pd.DataFrame:
    """All calls of the bank's campaign."""
    text = unzipped("222/bank+marketing.zip", "bank.zip", "bank-full.csv")
    return pd.read_csv(io.BytesIO(text), sep=";")


def breast_cancer() -> pd.DataFrame:
    """The diagnostic set, which ships with scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(as_frame=True).frame


def california_housing() -> pd.DataFrame:
    """The districts of 1990, by scikit-learn's own fetcher."""
    from sklearn.datasets import fetch_california_housing

    return fetch_california_housing(data_home=os.environ[FOLDER], as_frame=True).frame


def year() -> pd.DataFrame:
    """All songs: the year first, then 90 timbre features."""
    text = unzipped("203/yearpredictionmsd.zip", "YearPredictionMSD.txt")
    names = ["year", *(f"f{i}" for i in range(90))]
    return pd.read_csv(io.BytesIO(text), header=None, names=names)


FETCHERS: dict[str, Callable[[], pd.DataFrame]] = {
    "adult": adult,
    "bank": bank,
    "breast-cancer": breast_cancer,
    "cal-housing": california_housing,
    "year": year,
}
