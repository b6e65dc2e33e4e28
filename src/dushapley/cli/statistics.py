"""`statistics`: what owners hand over instead of rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from typer import Option

import dushapley as ds
from dushapley.arrays import Names
from dushapley.cli import options as o
from dushapley.cli.outputs import Force, refuse_no_folder, refuse_unwritable
from dushapley.data.reading import Reading
from dushapley.data.summaries import Statistics
from dushapley.errors import InvalidOption, InvalidOwners
from dushapley.games.model.catalogue import check_task, choose
from dushapley.report.wording import plural
from dushapley.terminal import output, say

Out = Annotated[Path, Option(help="Folder for one file per owner.", metavar="DIR")]


def statistics(
    files: o.Files,
    target: o.Target,
    out: Out,
    owner: o.Owner = None,
    by_file: o.ByFile = False,
    task: o.Task = "auto",
    read: o.Read = None,
    force: Force = False,
) -> None:
    """Reduce each owner's rows to sums, enough to value them by additive models."""
    check_task(task, "--task")
    o.refuse_unclear_owners(owner, by_file)
    refuse_no_folder("--out", out)
    owners = ds.Owners.from_files(
        files, target=target, owner=owner, alone=True, **Reading.from_pairs(read or ()).record()
    )
    kind = choose(owners, task=task).task
    made = dict(zip(files_for(owners.names, out), owners.statistics(kind), strict=True))
    for path, one in made.items():
        refuse_unwritable("--out", path) if out.exists() else None
        if path.exists() and not force and not replaces(one, path):
            raise InvalidOption(
                f"{path} exists and does not hold statistics of {one.name!r}. Name another folder, "
                "or add --force to replace it."
            )
    out.mkdir(parents=True, exist_ok=True)
    for path, one in made.items():
        output(one.save(path))
    say(
        f"{kind} statistics of {plural(len(owners), 'owner', 'owners')}. They hold no rows, but "
        "counts, means, variances and correlations; those of few rows give the rows away."
    )


def files_for(names: Names, folder: Path) -> list[Path]:
    """A file per owner; one that is alone at home gives it its name, since others send theirs too.

    Names are anybody's, so that only letters, digits and dashes of them are taken.
    """
    if len(names) > 1:
        return [folder / f"owner-{k:03}.npz" for k in range(1, len(names) + 1)]
    plain = re.sub(r"[^\w-]+", "-", names[0]).strip("-")[:60]
    return [folder / f"{plain or 'owner-001'}.npz"]


def replaces(made: Statistics, path: Path) -> bool:
    """Whether a file holds older statistics of the same owner and columns."""
    try:
        older = Statistics.load(path)
    except InvalidOwners:
        return False
    return (older.name, older.columns) == (made.name, made.columns)
