"""`verify`: a settlement, computed again from its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from dushapley.cli import options as o
from dushapley.cli.data import Inputs
from dushapley.cli.delivery import about
from dushapley.cli.job import Job
from dushapley.cli.quote import agree_on_evaluations
from dushapley.cli.recorded import command_finding, intake_finding, recorded, recorded_job
from dushapley.data.files import SourceFile, opened
from dushapley.errors import InvalidSettlement
from dushapley.settlement.comparison import TOLERANCE, first_difference, scale_of
from dushapley.settlement.growth import measure_growth
from dushapley.settlement.settlement import Settlement
from dushapley.settlement.verification import (
    Finding,
    as_stored,
    refuse_endless,
    value_findings,
    verdict_on,
)
from dushapley.terminal import output
from dushapley.validation import MOST_COUNT

JOB = Finding("job", True, "is what the game was made again by")
NO_REASONS = Finding(
    "diagnosis", None, "the file holds none: there was no time to measure it, or it was taken out"
)


def verify(
    settlement: Annotated[Path, Argument(exists=True, dir_okay=False, metavar="SETTLEMENT")],
    files: Annotated[
        list[Path], Argument(exists=True, help="All files it was made from, test file too.")
    ],
    ledger: Annotated[
        Path | None,
        Option(help="Take paid evaluations from this file on trust.", metavar="FILE"),
    ] = None,
    from_ledger: Annotated[
        bool, Option("--from-ledger", help="Trust the ledger that `value` keeps by default.")
    ] = False,
    model: Annotated[
        str | None,
        Option(help="Agree to import this model, where it has no short name.", metavar="NAME"),
    ] = None,
    jobs: o.Jobs = 1,
    yes: Annotated[
        bool, Option("--yes", help="Agree to all the evaluations that it takes, however many.")
    ] = False,
) -> None:
    """Compute a settlement again and say whether it holds: exit code 0 if so, else 1."""
    means = o.Means(jobs=jobs, yes=yes)
    data = as_stored(settlement)
    stored, record = Settlement.from_dict(data), recorded(data)
    sources, _ = opened(files)
    refuse_other_files(sources, record["inputs"])
    inputs = by_role(sources, record["inputs"])

    def of_values() -> list[Finding]:
        job = recorded_job(record, inputs, model).opened(inputs)
        game = job.game()
        trusted = o.default_ledger(game.context) if from_ledger and game.context else ledger
        trusted = None if game.cheap else trusted  # nothing was paid for, so nothing was kept
        most = MOST_COUNT if yes else None
        if trusted is None and stored.valuation.fingerprint == game.fingerprint:
            agree_on_evaluations(game, refuse_endless(stored.valuation, game, most), means)
        found = value_findings(data, game, ledger=trusted, n_jobs=jobs, most_evaluations=most)
        asked = "--no-why" not in record["command"].split()
        found += [NO_REASONS] * (asked and "diagnosis" not in data)
        grown = growth_finding(stored, game, trusted, jobs) if found[0].holds else []
        return [*found, intake_finding(stored, job), *about_finding(record, job, game), *grown]

    of_record = {"command": command_finding(stored), "job": JOB, "findings": None, "about": None}
    of_record |= {"growth": None}
    verdict = verdict_on(data, inputs.record(), of_values, of_record)
    output(verdict)
    raise Exit(0 if verdict.holds else 1)


def about_finding(record: Any, job: Job, game: Any) -> list[Finding]:
    """Whether model, score and test set are those that the pages name; older files name none."""
    if "about" not in record:
        return []
    difference = first_difference(dict(record["about"]), about(job, game))
    same = "model, score and test set are those that pages and letters name"
    return [Finding("about", difference is None, difference or same)]


def growth_finding(settled: Settlement, game: Any, ledger: Path | None, jobs: int) -> list[Finding]:
    """What more rows would add, measured again where it was measured."""
    if "growth" not in settled.record:
        return []
    stored, v = dict(settled.record["growth"]), settled.valuation
    again = measure_growth(game, seed=stored["seed"], ledger=ledger, n_jobs=jobs)
    stored["trainings"] = again["trainings"]  # as it went: a ledger may have known of failures
    slack = TOLERANCE * scale_of(v)
    difference = first_difference(stored, again, ("growth",), TOLERANCE, lambda _: slack, v.owners)
    return [Finding("growth", difference is None, difference or "the same, measured again")]


def refuse_other_files(files: Sequence[SourceFile], recorded: Sequence[Any]) -> None:
    """Refuse to judge a settlement by files that are not its own: too few, too many, renamed."""
    given = Counter(file.path.name for file in files)
    wanted = Counter(entry["name"] for entry in recorded)
    missing = [entry for entry in recorded if entry["name"] not in given]
    extra = [file for file in files if file.path.name not in wanted]
    if missing:
        lost = missing[0]
        kind = "test file" if lost["role"] == "test" else "file"
        twin = next((f.path for f in extra if f.sha256 == lost["sha256"]), None)
        raise InvalidSettlement(
            f"The {kind} {lost['name']!r} of the settlement was not passed, so nothing can be said "
            "about it yet. "
            + (f"{twin} has its content: rename it back." if twin else "Name it as well.")
        )
    if extra:
        raise InvalidSettlement(
            f"{extra[0].path} is not an input of this settlement, so nothing can be said about it "
            f"yet. Name its {wanted.total()} files only: {', '.join(map(repr, list(wanted)[:6]))}"
            + (" ..." if len(wanted) > 6 else "")
        )


def by_role(files: Sequence[SourceFile], recorded: Sequence[Any]) -> Inputs:
    """Owners' files in their recorded order, and the test file."""
    names = [entry["name"] for entry in recorded if entry["role"] != "test"]
    tests = {entry["name"]: entry["sha256"] for entry in recorded if entry["role"] == "test"}
    tested = [
        file
        for file in files
        if (name := file.path.name) in tests and (name not in names or file.sha256 == tests[name])
    ]
    test = tested[-1] if tested else None
    owners = [file for file in files if file is not test]
    read = {(entry["name"], entry["role"] == "test"): entry.get("read") for entry in recorded}
    for file in files:  # what was detected then is not detected again: detectors change
        file.known = read.get((file.path.name, file is test)) or {}
    place = {name: k for k, name in enumerate(names)}
    return Inputs(sorted(owners, key=lambda file: place.get(file.path.name, len(place))), test)
