"""`methods` and `quote`: which there are, and what each would cost, before paying."""

from __future__ import annotations

import json as jsons
from typing import TYPE_CHECKING, Any

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.consent import clock
from dushapley.cli.job import Job
from dushapley.engine.executors import check_executor
from dushapley.terminal import columns, table

if TYPE_CHECKING:
    import pandas as pd


def methods(json: o.Json = False) -> None:
    """All methods, one line each."""
    known = ds.methods()
    listed = table((), known.items(), left=(0, 1), indent=0, width=columns())
    print(jsons.dumps(known, indent=1, ensure_ascii=False) if json else listed)


def quote(job: Job, jobs: o.Jobs = 1, json: o.Json = False) -> None:
    """What each method would cost here, from three timed trainings, before paying."""
    check_executor("local", jobs, None)
    frame = ds.quote(job.game(), n_jobs=jobs)
    print(frame.to_json(orient="records", indent=1, double_precision=15) if json else shown(frame))


def shown(frame: pd.DataFrame) -> str:
    """One line per method: evaluations, time and summary, or why it is refused."""
    titles = ("method", "evaluations", "about", "what it does")
    rows = [cells(row) for _, row in frame.iterrows()]
    return table(titles, rows, left=(0, 3), indent=0, width=columns())


def cells(row: Any) -> list[str]:
    """One method of a quote."""
    if isinstance(row["refused"], str):
        return [row["method"], "-", "-", row["refused"]]
    return [row["method"], f"{row['evaluations']:,}", clock(row["seconds"]), row["summary"]]
