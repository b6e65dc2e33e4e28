"""How long do reading and check take beside pandas? A million rows in twenty files.

    python benchmarks/intake.py [--rows 1000000] [--files 20]

Numbers, text and dates in ten columns; `ds.check` (reading, check and all) beside
`pandas.read_csv(engine="pyarrow")` of the same files in the same run, best of two, CPU time.
Stored in results/intake.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import dushapley as ds

STORED = Path(__file__).parent / "results" / "intake.json"


def write(folder: Path, rows: int, files: int) -> list[Path]:
    rng = np.random.default_rng(0)
    names = [folder / f"owner {i:02d}.csv" for i in range(files)]
    for path in names:
        n = rows // files
        X = rng.normal(size=(n, 7)).round(4)
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(7)])
        table["town"] = rng.choice(["Ulm", "Bonn", "Köln", "Essen"], n)
        table["visit"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D")
        table["ill"] = np.where(X[:, 0] + rng.normal(size=n) > 0, "yes", "no")
        table.to_csv(path, index=False)
    return names


def seconds(work: Callable[[], object]) -> float:
    """CPU time of the better of two runs."""
    times = []
    for _ in range(2):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--files", type=int, default=20)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), given.rows, given.files)
        pandas = seconds(lambda: [pd.read_csv(path, engine="pyarrow") for path in files])
        ours = seconds(lambda: ds.check(files, by_file=True, target="ill"))
    found = {"rows": given.rows, "files": given.files, "pandas_s": pandas, "check_s": ours}
    found["times"] = ours / pandas
    print({name: round(number, 2) for name, number in found.items()})
    STORED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
