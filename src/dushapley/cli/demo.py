"""`demo`: the whole job on data that ships with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.report import report
from dushapley.terminal import say

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


def demo(
    write_files: Annotated[
        Path | None,
        Option(help="Leave the CSV files that were used in this folder.", metavar="DIR"),
    ] = None,
    out: Annotated[Path, Option(help="Folder for the JSON and the picture.", metavar="DIR")] = Path(
        "dushapley-demo"
    ),
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """The whole job in seconds: ten hospitals share breast-cancer data; two have wrong labels."""
    tables, test = demo_tables(seed)
    if write_files is not None:
        leave_files(write_files, tables, test)
    say(
        f"Breast-cancer data that ship with scikit-learn: {len(tables)} hospitals, {len(test)} "
        "test rows.\nTwo hospitals mixed up benign and malignant: can the values tell which?\n"
        "Training models on a few of the 1,024 coalitions ..."
    )
    result = ds.value(demo_game(tables, test), seed=seed)
    print(result.to_json() if json else result)
    lowest = result.to_frame()["owner"].iloc[-2:]
    say(f"Mixed up: {' and '.join(MISLABELLED)}. Lowest values: {' and '.join(sorted(lowest))}.")
    keep(result, out)
    if write_files is not None:
        say(
            f"The same from files:\n  dushapley value {write_files / 'owners'} --by-file "
            f"--target {TARGET} --test {write_files / 'test.csv'} "
            "--pot 100000 --currency EUR --report report.html\nAnd for those who doubt it:\n"
            f"  dushapley verify settlement.json {write_files / 'owners'} "
            f"{write_files / 'test.csv'}"
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


def leave_files(folder: Path, tables: dict[str, pd.DataFrame], test: pd.DataFrame) -> None:
    """One CSV per owner in `owners/`, and `test.csv`."""
    (folder / "owners").mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / "owners" / f"{name}.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)


def keep(result: ds.Valuation, folder: Path) -> None:
    """Write the valuation as JSON, as a picture and as a page."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "valuation.json").write_text(result.to_json() + "\n", encoding="utf-8")
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    result.plot(figure.subplots())
    figure.savefig(folder / "valuation.png", dpi=120)
    page = report(result, title="Ten hospitals, one model: who contributed how much?")
    (folder / "report.html").write_text(page, encoding="utf-8")
    say(f"Written to {folder}: valuation.json, valuation.png and report.html")
