"""`demo`: the whole job on data that ships with scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.options import generous_budget
from dushapley.cli.outputs import (
    Force,
    purpose_of,
    refuse_no_folder,
    stamped,
)
from dushapley.data.outputs import write_whole
from dushapley.errors import InvalidOption
from dushapley.hashing import digest
from dushapley.report import report
from dushapley.terminal import output, say

if TYPE_CHECKING:
    import pandas as pd


HOSPITALS = {
    "Ashford": 64, "Birchwood": 58, "Cedarville": 50, "Dunmore": 44, "Elmhurst": 38,
    "Fernhill": 32, "Glenrock": 26, "Hazelton": 20, "Ivybridge": 14, "Juniper": 8,
}  # fmt: skip
"""Ten owners and their rows: 354 of 569; the other 215 are the test set."""
MISLABELLED = ("Dunmore", "Fernhill")
"""Owners who coded the diagnosis the other way round."""
TARGET = "diagnosis"
KEPT = "valuation.json", "valuation.png", "report.html"
DEMO = digest("demo")
"""The job that its files are written for."""


WriteFiles = Annotated[
    Path | None,
    Option(help="Leave the CSV files that were used in this folder.", metavar="DIR"),
]
Out = Annotated[Path, Option(help="Folder for the JSON and the picture.", metavar="DIR")]


def demo(
    write_files: WriteFiles = None,
    out: Out = Path("dushapley-demo"),
    seed: o.Seed = 0,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """The whole job in seconds: ten hospitals share breast-cancer data; two have wrong labels."""
    refuse_no_folder("--out", out)
    if write_files is not None:
        refuse_no_folder("--write-files", write_files)
    tables, test = demo_tables(seed)
    files = {} if write_files is None else demo_files(write_files, tables, test)
    if not force:
        refuse_others([out / name for name in KEPT], files)
    if write_files is not None:
        leave_files(write_files, tables, test)
    say(
        f"Breast-cancer data that ship with scikit-learn: {len(tables)} hospitals, {len(test)} "
        "test rows.\nTwo hospitals mixed up benign and malignant: can the values tell which?\n"
        "Training models on a few of the 1,024 coalitions ..."
    )
    game = demo_game(tables, test)
    result = ds.value(game, budget=generous_budget(game, "auto"), seed=seed)
    output(result.to_json() if json else result)
    lowest = result.to_frame()["owner"].iloc[-2:]
    say(f"Mixed up: {' and '.join(MISLABELLED)}. Lowest values: {' and '.join(sorted(lowest))}.")
    keep(result, out)
    if write_files is not None:
        folder, tested = write_files / "owners", write_files / "test.csv"
        say(
            f"The same from files:\n  dushapley value {folder} --by-file --target {TARGET} --test "
            f"{tested} --pot 100000 --currency EUR --report report.html\nAnd for those who doubt "
            f"it:\n  dushapley verify settlement.json {folder} {tested}"
        )


def demo_tables(seed: int) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """One table per hospital, and the test table."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    table = data.data.copy()
    table[TARGET] = np.where(data.target == 1, "benign", "malignant")
    order = np.random.default_rng(seed).permutation(len(table))
    parts = np.split(order, np.cumsum(list(HOSPITALS.values())))
    *owned, test = (table.iloc[part].reset_index(drop=True) for part in parts)
    tables = dict(zip(HOSPITALS, owned, strict=True))
    for name in MISLABELLED:
        labels = tables[name][TARGET]
        tables[name][TARGET] = labels.map({"benign": "malignant", "malignant": "benign"})
    return tables, test


def demo_game(tables: dict[str, pd.DataFrame], test: pd.DataFrame) -> ds.ModelGame:
    """The game that `value` makes of the same files."""
    owners = ds.Owners.from_tables(tables, target=TARGET)
    return ds.ModelGame(owners, "logistic", *owners.align(test))


def demo_files(
    folder: Path, tables: dict[str, pd.DataFrame], test: pd.DataFrame
) -> dict[Path, str]:
    """One CSV per owner in `owners/`, and `test.csv`: their contents by path."""
    texts = {folder / "owners" / f"{n}.csv": t.to_csv(index=False) for n, t in tables.items()}
    return texts | {folder / "test.csv": test.to_csv(index=False)}


def leave_files(folder: Path, tables: dict[str, pd.DataFrame], test: pd.DataFrame) -> None:
    """Write them."""
    (folder / "owners").mkdir(parents=True, exist_ok=True)
    for path, text in demo_files(folder, tables, test).items():
        write_whole(path, text)


def refuse_others(results: Sequence[Path], files: Mapping[Path, str]) -> None:
    """Refuse to replace files that no demo wrote: results without stamp, other tables."""
    page = results[-1]
    ours = page.is_file() and purpose_of(page).job == DEMO
    strange = [path for path in results if os.path.lexists(path) and not ours]
    for path, text in files.items():
        head = text.partition("\n")[0].encode()
        if os.path.lexists(path) and not (path.is_file() and path.read_bytes().startswith(head)):
            strange.append(path)
    if strange:
        raise InvalidOption(
            f"{strange[0]} exists and was not written by a demo. Name another folder, or add "
            "--force to replace it."
        )


def keep(result: ds.Valuation, folder: Path) -> None:
    """Write the valuation as JSON, as a picture and as a page."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    result.plot(figure.subplots())
    figure.savefig(picture := BytesIO(), format="png", dpi=120)
    contents: list[str | bytes] = [
        result.to_json() + "\n",
        picture.getvalue(),
        stamped(report(result, title="Ten hospitals, one model: who contributed how much?"), DEMO),
    ]
    for name, content in zip(KEPT, contents, strict=True):
        write_whole(folder / name, content)
    say(f"Written to {folder}: {', '.join(KEPT[:-1])} and {KEPT[-1]}")
