"""Entry point: all commands by name, and what becomes of errors.

Exit code 0: done; 1: failed; 2: the command was wrong; 130: interrupted. A new command is a
function with typed parameters (or dataclasses of them) in a module of its own and a name in
`COMMANDS`. Modules of commands import what is heavy inside their functions, so that `--help` stays
quick.

Typer reads options off a function's parameters, one each, so that commands with options in common
would repeat the list of them. Here a parameter whose type is a dataclass stands for all its fields,
each an option, and the dataclass checks them when it is made: before any file is read.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

import dushapley as ds
from dushapley import errors
from dushapley.arrays import AnyDict, Names
from dushapley.cli import options as o
from dushapley.cli.check import Job, check, decide
from dushapley.cli.demo import demo
from dushapley.cli.federate import COMMANDS as FEDERATE
from dushapley.cli.job import Data
from dushapley.cli.quote import compare, quote
from dushapley.cli.report import report
from dushapley.cli.reproduce import reproduce
from dushapley.cli.statistics import statistics
from dushapley.cli.value import value
from dushapley.cli.verify import verify
from dushapley.cli.what_if import what_if
from dushapley.hashing import package_version
from dushapley.terminal import columns, json_text, output, results_only, say, table


def methods(json: o.Json = False) -> None:
    """All methods, one line each."""
    known = ds.methods()
    listed = table((), known.items(), left=(0, 1), indent=0, width=columns())
    output(json_text(known) if json else listed)


COMMANDS: dict[str, Callable[..., Any]] = {
    command.__name__.replace("_", "-"): command
    for command in (
        demo,
        check,
        value,
        report,
        what_if,
        verify,
        quote,
        compare,
        methods,
        statistics,
        reproduce,
    )
}
"""All commands by name, in the order in which `--help` lists them."""
WRONG_COMMAND = (
    errors.BudgetTooSmall,
    errors.InvalidChange,
    errors.InvalidGame,
    errors.InvalidOption,
    errors.InvalidOwners,
    errors.InvalidSettlement,
    errors.InvalidValuation,
    errors.LedgerMismatch,
    errors.LedgerRefused,
    errors.MethodNotApplicable,
    errors.UnknownMethod,
    errors.UnresolvedFindings,
)
"""Mistakes in what was typed, or in the files that it names: exit code 2. All else fails: 1."""
TYPED = {
    r"\.$": "",
    "Input should be a valid integer.*": "it takes a whole number",
    "Input should be a valid number.*": "it takes a number",
    "Input should be greater than or equal to": "it takes at least",
    r"\(Possible options: (.*)\)": r"(there is \1)",
}
"""What typer says of types, in words that do not come from Python."""
PANELS = {
    "Whose data": (
        "files", "target", "owner", "by_file", "read", "job", "accept", "expect", "max_rows",
        "max_bytes",
    ),
    "How a pool is tested (one of the three)": ("test", "holdout", "cv"),
    "What is trained": (
        "task", "model", "scoring", "empty", "at_least", "on_failure", "repeats", "timeout",
        "memory", "encode", "backend", "model_seed",
    ),
    "How values are estimated": (
        "method", "option", "budget", "precision", "max_seconds", "learn_from_ledger",
        "seed", "methods", "budgets", "seeds", "reference",
    ),
    "Where it runs and is kept": ("jobs", "executor", "address", "ledger", "no_ledger", "yes"),
    "Sharing money": ("pot", "currency", "negative", "floor", "cap", "settlement"),
    "What is written": (
        "report", "report_for", "growth", "pairs", "why", "picture", "write_job", "force", "json",
        "debug",
    ),
}  # fmt: skip
"""Titles and the options under them; those of no group stand under "Options"."""
PANEL_OF = {name: title for title, names in PANELS.items() for name in names}

WORDS = {"bool": " ", "int": "N", "float": "X", "str": "WORD"}
"""What stands for a value of each type, instead of the type."""
KEYWORD = Parameter.KEYWORD_ONLY


def in_panel(option: Parameter, *, grouped: bool) -> Parameter:
    """The same parameter of a command, listed without types of Python, and in its group.

    Commands with few options are not `grouped`.
    """
    if get_origin(option.annotation) is not Annotated:
        return option
    kind, info = get_args(option.annotation)
    listed: Any = copy(info)
    if isinstance(listed, typer.models.ArgumentInfo):
        return option
    listed.rich_help_panel = PANEL_OF.get(option.name) if grouped else None
    if listed.metavar is None:
        listed.metavar = next((word for known, word in WORDS.items() if known in str(kind)), None)
    return option.replace(annotation=Annotated[kind, listed])


def ungrouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command with one option per field of its dataclasses, and with --debug."""
    parameters = signature(command, eval_str=True).parameters
    groups: AnyDict = {
        name: given.annotation
        for name, given in parameters.items()
        if is_dataclass(given.annotation)
    }
    options = {"context": Parameter("context", KEYWORD, annotation=typer.Context)}
    for name, parameter in parameters.items():
        if name in groups:
            options |= signature(groups[name], eval_str=True).parameters
        else:
            options[name] = parameter
    if any(issubclass(group, Data) for group in groups.values()):
        options["job"] = Parameter("job", KEYWORD, default=None, annotation=Job)
    options["debug"] = Parameter("debug", KEYWORD, default=False, annotation=o.Debug)
    keywords = [option.replace(kind=KEYWORD) for option in options.values()]
    listed = [in_panel(option, grouped=bool(groups)) for option in keywords]

    @wraps(command)
    def with_options(
        context: typer.Context, debug: bool = False, job: Path | None = None, **given: Any
    ) -> None:
        del debug, job  # one is read by main, and the options of the other are defaults by now
        with results_only():
            try:
                decide(context, given)
                for name, group in groups.items():
                    own = {field.name: given.pop(field.name) for field in fields(group)}
                    given[name] = group(**own)
                if "context" in parameters:
                    given["context"] = context
                command(**given)
            except KeyboardInterrupt:
                say(
                    "Stopped. What was paid is in the ledger, if there is one; run the same again "
                    "to go on."
                )
                raise typer.Exit(130) from None

    with_options.__signature__ = Signature(listed)  # type: ignore[attr-defined]
    with_options.__annotations__ = {option.name: option.annotation for option in listed}
    return with_options


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for name, function in COMMANDS.items():
    app.command(name)(ungrouped(function))


federate = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="No row moves: owners keep their files and answer a coordinator's questions.",
)
for name, part in FEDERATE.items():
    federate.command(name)(ungrouped(part))
app.add_typer(federate, name="federate")


def show_version(wanted: bool) -> None:
    """Print the version, and nothing else."""
    if wanted:
        output(f"dushapley {package_version('dushapley')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            metavar=" ",
            is_eager=True,
            callback=show_version,
        ),
    ] = False,
) -> None:
    """Fair values for whole datasets: what each owner's data is worth."""


def main(arguments: Names | None = None) -> None:
    """Run one command; errors end in a sentence on stderr, with a traceback only on --debug."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = lambda message, *_, **__: say(
        indented(f"warning: {o.in_options(str(message))}")
    )
    try:
        o.refuse_not_unicode(given)
        refuse_repeated(given)
        sys.exit(app(given, prog_name="dushapley", obj=given, standalone_mode=False) or 0)
    except BrokenPipeError:  # whoever read the result has seen enough
        sys.exit(1)
    except Exception as error:
        if "--debug" in given and not hasattr(error, "format_message"):
            raise
        say(sentence_on(error, given))
        sys.exit(exit_code(error))


def sentence_on(error: Exception, given: Names) -> str:
    """What a person is told of an error, in the words of the command line."""
    if hasattr(error, "format_message"):  # a wrong option, found by typer
        command = next((word for word in given if word in (*COMMANDS, "federate")), "")
        told = error.format_message()
        if not told or told.lstrip().startswith("Usage"):
            return told  # the help is printed
        for theirs, ours in TYPED.items():
            told = re.sub(theirs, ours, told)
        ended = told if told.endswith((".", "?")) else f"{told}."
        return " ".join(f"error: {ended} See dushapley {command} --help.".split())
    if isinstance(error, typer.Abort):
        return "Stopped."
    if isinstance(error, errors.DUShapleyError):
        return indented(f"error: {o.in_options(str(error))}")
    return indented(f"error: {type(error).__name__}: {error}\n(--debug shows where)")


def indented(message: str) -> str:
    """A message no line of which stands for itself."""
    return message.replace("\n", "\n  ")


def exit_code(error: Exception) -> int:
    """How a command ends that met this error."""
    if isinstance(error, errors.Stopped):
        return 1 if error.out_of_time else 130
    return 2 if isinstance(error, WRONG_COMMAND) or hasattr(error, "format_message") else 1


def refuse_repeated(given: Names) -> None:
    """Refuse a change that is named twice, since one of the two would be dropped unnoticed."""
    for option in ("--leave", "--join", "--merge", "--copy", "--rows"):
        named = sum(word.split("=")[0] == option for word in given)
        if named > 1 and given[0] == "what-if":
            raise errors.InvalidOption(
                f"Found {option} {named} times; ask for one change at a time."
            )


if __name__ == "__main__":
    main()
