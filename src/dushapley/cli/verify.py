"""`verify`: a settlement, computed again from its files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from typer import Argument, Exit, Option
from typer.main import get_command

from dushapley.arrays import AnyDict, AnyMapping
from dushapley.cli import options as o
from dushapley.cli.delivery import about, precision_of
from dushapley.cli.job import Inputs, Job
from dushapley.cli.quote import agree_on_evaluations
from dushapley.data.files import SourceFile, opened
from dushapley.errors import DUShapleyError, InvalidOption, InvalidSettlement
from dushapley.games.model.catalogue import MODELS
from dushapley.settlement.comparison import TOLERANCE, first_difference, scale_of
from dushapley.settlement.growth import measure_growth
from dushapley.settlement.money import NO_CAP, agreed_terms
from dushapley.settlement.settlement import Settlement
from dushapley.settlement.verification import (
    Finding,
    as_stored,
    refuse_endless,
    same_notes,
    value_findings,
    verdict_on,
)
from dushapley.terminal import output
from dushapley.validation import MOST_COUNT, is_number, is_whole

OLDER = {"cap": NO_CAP, "encode": "pooled"}
"""What options meant that were not typed, in versions whose settlements are still verified."""
MONEY = "money"
"""A precision that was typed as an amount; how large is between the command and its pot."""
FILES = ("files", "test")
"""Fields of a job that are files: recorded by name, and found by whoever verifies."""
NO_REASONS = Finding(
    "diagnosis", None, "the file holds none: there was no time to measure it, or it was taken out"
)


Stored = Annotated[Path, Argument(exists=True, dir_okay=False, metavar="SETTLEMENT")]
AllFiles = Annotated[
    list[Path], Argument(exists=True, help="All files it was made from, test file too.")
]
TrustedLedger = Annotated[
    Path | None,
    Option(help="Take paid evaluations from this file on trust.", metavar="FILE"),
]
FromLedger = Annotated[
    bool, Option("--from-ledger", help="Trust the ledger that `value` keeps by default.")
]
AgreedModel = Annotated[
    str | None,
    Option(help="Agree to import this model, where it has no short name.", metavar="NAME"),
]
Yes = Annotated[
    bool, Option("--yes", help="Agree to all the evaluations that it takes, however many.")
]


def verify(
    settlement: Stored,
    files: AllFiles,
    ledger: TrustedLedger = None,
    from_ledger: FromLedger = False,
    model: AgreedModel = None,
    jobs: o.Jobs = 1,
    yes: Yes = False,
) -> None:
    """Compute a settlement again and say whether it holds: exit code 0 if so, else 1."""
    means = o.Means(jobs=jobs, yes=yes)
    data = as_stored(settlement)
    stored, record = Settlement.from_dict(data), recorded(data)
    sources, _ = opened(files)
    refuse_other_files(sources, record["inputs"])
    inputs = by_role(sources, record["inputs"])

    def of_values() -> list[Finding]:
        job = recorded_job(record, inputs, model)
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

    of_record = {
        "command": command_finding(stored),
        "job": Finding("job", True, "is what the game was made again by"),
        **dict.fromkeys(("findings", "about", "growth")),
    }
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
    given = {file.path.name for file in files}
    wanted = [entry["name"] for entry in recorded]
    extra = [file for file in files if file.path.name not in wanted]
    for lost in recorded:
        if lost["name"] not in given:
            kind = "test file" if lost["role"] == "test" else "file"
            twins = [file.path for file in extra if file.sha256 == lost["sha256"]]
            cure = f"{twins[0]} has its content: rename it back." if twins else "Name it as well."
            raise InvalidSettlement(
                f"The {kind} {lost['name']!r} of the settlement was not passed, so nothing can be "
                f"said about it yet. {cure}"
            )
    if extra:
        names = ", ".join(map(repr, wanted[:6]))
        more = " ..." if len(wanted) > 6 else ""
        raise InvalidSettlement(
            f"{extra[0].path} is not an input of this settlement, so nothing can be said about it "
            f"yet. Name its {len(wanted)} files only: {names}{more}"
        )


def by_role(files: Sequence[SourceFile], recorded: Sequence[Any]) -> Inputs:
    """Owners' files in their recorded order, and the test file."""
    names = [entry["name"] for entry in recorded if entry["role"] != "test"]
    tests = {entry["name"]: entry["sha256"] for entry in recorded if entry["role"] == "test"}
    test = None
    for file in files:
        name = file.path.name
        if name in tests and (name not in names or file.sha256 == tests[name]):
            test = file
    owners = [file for file in files if file is not test]
    read = {(entry["name"], entry["role"] == "test"): entry.get("read") for entry in recorded}
    for file in files:  # what was detected then is not detected again: detectors change
        file.known = read.get((file.path.name, file is test)) or {}
    place = {name: k for k, name in enumerate(names)}
    return Inputs(sorted(owners, key=lambda file: place.get(file.path.name, len(place))), test)


def recorded(data: AnyMapping) -> AnyMapping:
    """Provenance of a settlement that the command line made."""
    record = data["record"]
    if "federation" in record:
        raise InvalidSettlement(
            "The settlement was made over a federation, whose rows are with their owners: files "
            "alone cannot bear it out. Have the owners join again and run its command once more "
            f"(with another --ledger): {record.get('command')}"
        )
    if not {"job", "inputs", "command"} <= set(record):
        raise InvalidSettlement(
            "The settlement does not record the command it was made by. If it was made in Python, "
            "verify it there: dushapley.verify(settlement, game)."
        )
    return record


def recorded_job(record: AnyMapping, inputs: Inputs, agreed_model: str | None) -> Job:
    """The job that a settlement was made by, on these files; refused if it has odd options."""
    job, hints = record["job"], get_type_hints(Job)
    for name, thing in job.items():
        if name not in hints or (name not in FILES and not fits(thing, hints[name])):
            raise InvalidSettlement(
                f"The settlement records {thing!r:.60} as its option {name!r:.60}, which this "
                "version does not take. Use the file and the version it was written by."
            )
    if not {"files", "target"} <= set(job):
        raise InvalidSettlement("The settlement records no files or no target; settle again.")
    named = (job.get("model") or "").split(",")[0].strip()  # the first pays, and is computed again
    if named and named not in MODELS and named != agreed_model:
        raise InvalidOption(
            f"The settlement names the model {named!r:.200}, which is code to be imported. Pass "
            f"--model {shlex.quote(named)} if you trust it."
        )
    test = None if inputs.test is None else inputs.test.path
    made = Job(**(job | {"files": [file.path for file in inputs.owners], "test": test}))
    vars(made)["inputs"] = inputs  # where the cached property would keep them
    return made


def fits(thing: Any, hint: Any) -> bool:
    """Whether plain data is of a type, as far as options are typed."""
    kinds = get_args(hint) or (hint,)
    if isinstance(thing, list):
        return list[str] in kinds and all(fits(item, str) for item in thing)
    if isinstance(thing, str):
        return str in kinds and len(thing) <= 10_000 and "\0" not in thing
    if isinstance(thing, bool) or thing is None:
        return type(thing) in kinds
    if float in kinds:
        return is_number(thing) and abs(thing) < 1e300
    return int in kinds and is_whole(thing, -(2**63), 2**63)


def command_finding(stored: Settlement) -> Finding:
    """Whether the recorded command is the one that asks for this job and these terms."""
    try:
        typed, given = parsed(stored.record["command"])
        asked = asked_by(given, stored)
    except (ValueError, DUShapleyError) as error:
        return Finding("command", False, f"cannot be read: {error}")
    by_file = "job" in typed  # what is not typed may stand in there
    differs = []
    for name, thing in expected(stored).items():
        # a budget that was not typed is the command's default, which is recorded as a number
        unsaid = by_file or name == "budget" or OLDER.get(name, by_file) == thing
        number = o.as_number(str(asked.get(name)), int, float)
        if thing not in (asked.get(name), number) and (name in typed or not unsaid):
            differs.append(name)
    if differs:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in differs)
        return Finding("command", False, f"the settlement was made with other values of {names}")
    if by_file:
        return Finding("command", None, "it names a job file, which was not looked at")
    return Finding("command", True, "asks for this job and these terms")


def parsed(command: str) -> tuple[set[str], AnyDict]:
    """Which options of a `dushapley value` command were typed, and all of them as it has them."""
    from dushapley.cli.main import app

    words = shlex.split(command)
    if shlex.join(words) != command:  # a shell would do something else, or more
        raise InvalidSettlement("it is not quoted as it was written")
    if words[:2] != ["dushapley", "value"]:
        raise InvalidSettlement("it is not a `dushapley value` command")
    value = get_command(app).commands["value"]  # type: ignore[attr-defined]
    context = value.context_class(value)  # of the click that typer brings
    try:
        given, _, _ = value.make_parser(context).parse_args(args=words[2:])
    except Exception as error:
        if not hasattr(error, "format_message"):  # a wrong option, found by typer
            raise
        raise InvalidSettlement(error.format_message()) from error
    known = {option.name: option.get_default(context) for option in value.params}
    typed = {name: thing for name, thing in given.items() if thing not in (None, (), [])}
    return set(typed), known | typed


def asked_by(given: AnyMapping, stored: Settlement) -> AnyDict:
    """What a command asks for, in the words of the record."""
    part, amount = precision_of(given["precision"], given["currency"])
    terms = {name: given[name] for name in ("pot", "currency", "negative", "floor", "cap")}
    options = o.method_options(given["option"] or ())
    return {
        **given,
        **(agreed_terms(**terms) if terms["pot"] else {}),
        "files": [Path(file).name for file in given["files"] or ()],
        "test": given["test"] and Path(given["test"]).name,
        "precision": MONEY if amount else part,
        "option": {**stored.valuation.options, **options},
    }


def expected(stored: Settlement) -> AnyDict:
    """What the command must have said, by option."""
    v, said = stored.valuation, dict(stored.record["job"])
    said |= {"method": v.method_asked, "option": dict(v.options), "budget": v.budget}
    said["seed"] = v.seed
    if v.n_evaluations:  # a formula has nothing to stop
        said["precision"] = MONEY if "stopped_at" in v.details else v.precision
    if v.details.get("learned") is not None:
        said["learn_from_ledger"] = True
    return said | stored.terms


def intake_finding(settlement: Settlement, job: Job) -> Finding:
    """Whether all that was odd in the files is recorded, as it is found again."""
    found = json.loads(json.dumps(job.findings.record()))
    here, there = (
        [_in_words(one) for one in some] for some in (settlement.record.get("findings", ()), found)
    )
    return same_notes("findings", here, there, settlement.valuation.version)


def _in_words(finding: AnyMapping) -> str:
    """All of it, to be read and compared: the sentence, and what else is recorded."""
    named = {"message": "a finding without a sentence", "code": "none"} | dict(finding)
    message, code = named.pop("message"), named.pop("code")
    rest = ", ".join(f"{name} {thing!r}" for name, thing in sorted(named.items()))
    return f"{message} ({rest}) [{code}]"
