"""`reproduce`: a figure or table of the paper, published beside found."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from dushapley.cli import options as o
from dushapley.terminal import output, say

if TYPE_CHECKING:
    from dushapley_paper.experiment import Profile
    from dushapley_paper.records import Record


Experiment = Annotated[
    str,
    Argument(
        help="figure-1, table-1, figure-2, table-2, svarm-figure, synthetic-figure, older-toy, "
        "older-bias, older-table, or all.",
    ),
]
Sizes = Annotated[str, Option(help="quick: seconds. full: the paper's sizes.")]
Results = Annotated[
    Path | None,
    Option(
        help="Folder to keep results in (all: of results and page, docs/reproduction by "
        "default; what is stored there is not run again).",
        metavar="DIR",
        show_default=False,
    ),
]
Download = Annotated[
    bool,
    Option("--download", help="Fetch public data into the folder DUSHAPLEY_DATA names."),
]


def reproduce(
    name: Experiment,
    profile: Sizes = "quick",
    seed: o.Seed = 0,
    out: Results = None,
    download: Download = False,
    json: o.Json = False,
) -> None:
    """A figure or table of the paper: published beside found, with a verdict for every claim."""
    from dushapley_paper.records import find_profile

    chosen = find_profile(profile)
    if name == "all":
        everything(chosen, seed, out or Path("docs/reproduction"), download)
    else:
        print_record(run_one(name, chosen, seed, out, download), as_json=json)


def run_one(name: str, profile: Profile, seed: int, out: Path | None, fetch: bool) -> Record:
    """Fetch if asked, run, keep where a folder is named."""
    from dushapley_paper import download, page, records

    experiment = records.find_experiment(name)
    if fetch:
        for path in download.download(experiment.needs):
            say(f"Fetched {path}.")
    say(f"{name}, {profile} profile ...")
    record = records.reproduce(name, profile, seed)
    if out is not None:
        say(f"Result in {records.save(record, out / page.RESULTS)}.")
    return record


def everything(profile: Profile, seed: int, out: Path, download: bool) -> None:
    """Run what is not stored yet, data checked first; then write the page."""
    from dushapley_paper import data, page, records

    stored = {record["name"] for record in records.read(out / page.RESULTS)}
    missing = [name for name in records.EXPERIMENTS if name not in stored]
    if not download:
        data.check(need for name in missing for need in records.EXPERIMENTS[name].needs)
    for name in missing:
        run_one(name, profile, seed, out, download)
    output(page.write_page(out))


def print_record(record: Record, *, as_json: bool) -> None:
    """Verdicts and tables as Markdown, or the whole record as JSON."""
    from dushapley_paper.records import find_experiment, rounded

    if as_json:
        output(dumps(rounded(record), ensure_ascii=False))
        return
    experiment = find_experiment(record["name"])
    output(f"{experiment.title} ({experiment.place})\n")
    for verdict in experiment.claims(record["result"]):
        output(verdict)
    for sheet in experiment.sheets(record["result"]):
        output(f"\n{sheet.markdown()}")
    if record["profile"] == "quick":
        say("The quick profile shows that all runs; for conclusions add --profile full.")
