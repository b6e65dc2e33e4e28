"""Public data sets, fetched into the data folder: only when asked."""

from __future__ import annotations

import io
import os
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dushapley_paper.data import FOLDER, SOURCES, DataMissing

if TYPE_CHECKING:
    import pandas as pd

ARCHIVE = "https://archive.ics.uci.edu/static/public"
SECONDS = 60
"""Patience with a silent server."""
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


def unzipped(address: str, *inside: str) -> bytes:
    """A file out of an archive on the web, or out of an archive inside it."""
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310  a fixed https address
        content: bytes = answer.read()
    for name in inside:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(name)
    return content


def adult() -> pd.DataFrame:
    """Both files of the census income data, `split` telling which."""
    import pandas as pd

    parts = []
    for file, split, skipped in (("adult.data", "train", 0), ("adult.test", "test", 1)):
        text = io.BytesIO(unzipped(f"{ARCHIVE}/2/adult.zip", file))
        part = pd.read_csv(
            text, names=list(ADULT_COLUMNS), skiprows=skipped, skipinitialspace=True, na_values="?"
        )
        parts.append(part.assign(split=split))
    return pd.concat(parts, ignore_index=True)


def bank() -> pd.DataFrame:
    """All calls of the bank's campaign."""
    import pandas as pd

    text = unzipped(f"{ARCHIVE}/222/bank+marketing.zip", "bank.zip", "bank-full.csv")
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
    import pandas as pd

    text = unzipped(f"{ARCHIVE}/203/yearpredictionmsd.zip", "YearPredictionMSD.txt")
    names = ["year", *(f"f{i}" for i in range(90))]
    return pd.read_csv(io.BytesIO(text), header=None, names=names)


FETCHERS: dict[str, Callable[[], pd.DataFrame]] = {
    "adult": adult,
    "bank": bank,
    "breast-cancer": breast_cancer,
    "cal-housing": california_housing,
    "year": year,
}
