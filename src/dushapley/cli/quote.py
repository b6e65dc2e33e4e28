"""`quote`: what each method would cost, before paying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.consent import clock
from dushapley.cli.job import Job
from dushapley.terminal import columns, table

if TYPE_CHECKING:
    import pandas as pd


def quote(job: Job, jobs: o.Jobs = 1, json: o.Json = False) -> None:
    """What each method would cost here, from three timed trainings, before paying."""
    o.refuse_workers(jobs)
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
