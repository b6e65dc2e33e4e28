"""`statistics`: what owners hand over instead of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.games.model.catalogue import check_task, choose
from dushapley.terminal import say


def statistics(
    files: o.Files,
    target: o.Target,
    out: Annotated[Path, Option(help="Folder for one file per owner.", metavar="DIR")],
    owner: o.Owner = None,
    by_file: o.ByFile = False,
    task: o.Task = "auto",
) -> None:
    """Reduce each owner's rows to sums, enough to value them by additive models."""
    check_task(task, "--task")
    o.refuse_unclear_owners(owner, by_file)
    owners = ds.Owners.from_files(files, target=target, owner=owner)
    kind = choose(owners, task=task).task
    out.mkdir(parents=True, exist_ok=True)
    for number, made in enumerate(owners.statistics(kind), start=1):
        print(made.save(out / f"owner-{number:03}.npz"))
    say(
        f"{kind} statistics of {len(owners)} owners. They hold no rows, but counts, means, "
        "variances and correlations; those of few rows give the rows away."
    )
