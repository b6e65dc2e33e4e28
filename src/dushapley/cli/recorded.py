"""The command and the job that a settlement records, read back with care and compared."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from dushapley.cli import options as o
from dushapley.cli.data import Inputs
from dushapley.cli.delivery import precision_of
from dushapley.cli.job import Job
from dushapley.errors import DUShapleyError, InvalidOption, InvalidSettlement
from dushapley.games.model.catalogue import MODELS
from dushapley.settlement.money import NO_CAP, agreed_terms
from dushapley.settlement.settlement import Settlement
from dushapley.settlement.verification import Finding, same_notes
from dushapley.validation import is_number, is_whole

OLDER = {"cap": NO_CAP, "encode": "pooled"}
"""What options meant that were not typed, in versions whose settlements are still verified."""
TERMS = ("pot", "currency", "negative", "floor", "cap")
"""Options that say what is shared and how."""
MONEY = "money"
"""A precision that was typed as an amount; how large is between the command and its pot."""
FILES = ("files", "test")
"""Fields of a job that are files: recorded by name, and found by whoever verifies."""


def recorded(data: Mapping[str, Any]) -> Mapping[str, Any]:
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


def recorded_job(record: Mapping[str, Any], inputs: Inputs, agreed_model: str | None) -> Job:
    """The job that a settlement was made by, on these files."""
    job = record["job"]
    refuse_odd_job(job)
    named = (job.get("model") or "").split(",")[0].strip()  # the first pays, and is computed again
    if named and named not in MODELS and named != agreed_model:
        raise InvalidOption(
            f"The settlement names the model {named!r:.200}, which is code to be imported. Pass "
            f"--model {shlex.quote(named)} if you trust it."
        )
    test = None if inputs.test is None else inputs.test.path
    return Job(**(job | {"files": [file.path for file in inputs.owners], "test": test}))


def refuse_odd_job(job: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and those that are not of their type."""
    hints = get_type_hints(Job)
    for name, thing in job.items():
        if name not in hints or (name not in FILES and not fits(thing, hints[name])):
            raise InvalidSettlement(
                f"The settlement records {thing!r:.60} as its option {name!r:.60}, which this "
                "version does not take. Use the file and the version it was written by."
            )
    if not {"files", "target"} <= set(job):
        raise InvalidSettlement("The settlement records no files or no target; settle again.")


def fits(thing: Any, hint: Any) -> bool:
    """Whether plain data is of a type, as far as options are typed."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(thing, one) for one in get_args(hint))
    if get_origin(hint) in (list, tuple):
        inner = get_args(hint)[0] if get_args(hint) else str
        return isinstance(thing, list) and all(fits(item, inner) for item in thing)
    if hint is float:
        return is_number(thing) and abs(thing) < 1e300
    if hint is int:
        return is_whole(thing, -(2**63), 2**63)
    if hint in (str, Path):
        return isinstance(thing, str) and len(thing) <= 10_000 and "\0" not in thing
    return isinstance(thing, hint) if hint in (bool, NoneType) else True


def command_finding(stored: Settlement) -> Finding:
    """Whether the recorded command is the one that asks for this job and these terms."""
    try:
        typed, given = parsed(stored.record["command"])
    except (ValueError, InvalidSettlement) as error:
        return Finding("command", False, f"cannot be read: {error}")
    by_file = bool(given.get("job"))  # what is not typed may stand in there
    # a budget that was not typed is the command's default, which is recorded as a number
    wanted = expected(stored)
    wanted = {k: v for k, v in wanted.items() if k in typed or not (by_file or k == "budget")}
    differs = [name for name, thing in wanted.items() if not agrees(given, name, thing)]
    if differs:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in differs)
        return Finding("command", False, f"the settlement was made with other values of {names}")
    if by_file:
        return Finding("command", None, "it names a job file, which was not looked at")
    return Finding("command", True, "asks for this job and these terms")


def intake_finding(settlement: Settlement, job: Job) -> Finding:
    """Whether all that was odd in the files is recorded, as it is found again."""
    found = json.loads(json.dumps(job.findings.record()))
    stored = settlement.record.get("findings", ())
    keys = {_key(one): _in_words(one) for one in (*stored, *found)}
    here, there = ([_key(one) for one in some] for some in (stored, found))
    return same_notes("findings", here, there, settlement.valuation.version, keys)


def _key(finding: Mapping[str, Any]) -> str:
    """All of it, to be compared."""
    return f"{json.dumps(finding, sort_keys=True)} [{finding.get('code')}]"


def _in_words(finding: Mapping[str, Any]) -> str:
    """All of it, to be read: the sentence, and what else is recorded."""
    named = {"message": "a finding without a sentence", "code": "none"} | dict(finding)
    message, code = named.pop("message"), named.pop("code")
    rest = ", ".join(f"{name} {thing!r:.60}" for name, thing in sorted(named.items()))
    return f"{message} ({rest}) [{code}]"


def parsed(command: str) -> tuple[set[str], dict[str, Any]]:
    """Which options of a `dushapley value` command were typed, and all of them as it has them."""
    import typer

    from dushapley.cli.main import app

    words = shlex.split(command)
    if shlex.join(words) != command:  # a shell would do something else, or more
        raise InvalidSettlement("it is not quoted as it was written")
    if words[:2] != ["dushapley", "value"]:
        raise InvalidSettlement("it is not a `dushapley value` command")
    commands: Any = typer.main.get_command(app)
    value = commands.commands["value"]
    context = value.context_class(value)  # of the click that typer brings
    try:
        given, _, _ = value.make_parser(context).parse_args(args=words[2:])
    except Exception as error:
        if not hasattr(error, "format_message"):  # a wrong option, found by typer
            raise
        raise InvalidSettlement(error.format_message()) from error
    known = {option.name: option.get_default(context) for option in value.params}
    typed = {name: thing for name, thing in given.items() if thing not in (None, ())}
    return set(typed), known | typed


def expected(stored: Settlement) -> dict[str, Any]:
    """What the command must have said, by option."""
    v = stored.valuation
    asked = {"method": v.method_asked, "option": dict(v.options), "budget": v.budget}
    wish = {"precision": MONEY if "stopped_at" in v.details else v.precision}
    return {
        **stored.record["job"],
        **asked,
        **(wish if v.n_evaluations else {}),  # a formula has nothing to stop
        "learn_from_ledger": v.details.get("learned") is not None,
        "seed": v.seed,
        **stored.terms,
    }


def agrees(given: Mapping[str, Any], name: str, wanted: Any) -> bool:
    """Whether an option that was typed means what is recorded."""
    typed = given.get(name)
    if typed is None and name in OLDER and wanted == OLDER[name]:
        return True
    with suppress(ValueError, ArithmeticError, DUShapleyError, TypeError):
        if name in FILES:
            files = [typed] if name == "test" else list(typed or ())
            names = [Path(file).name for file in files if file]
            return names == ([wanted] if isinstance(wanted, str) else list(wanted or ()))
        if name == "precision":
            of_spread, amount = precision_of(typed, str(given.get("currency") or ""))
            return bool(wanted == (MONEY if amount else of_spread))
        if name == "learn_from_ledger":
            return bool(typed) or not wanted  # of an empty ledger there was nothing to learn
        if name in TERMS or name == "decimals":
            asked: dict[str, Any] = {term: given.get(term) for term in TERMS}
            return bool(agreed_terms(asked.pop("pot"), **asked)[name] == wanted)
        if name == "option":
            return o.method_options(typed or []).items() <= dict(wanted).items()
        if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
            return typed is not None and float(typed) == float(wanted)
        return bool(typed == wanted or (not typed and not wanted))
    return False
