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
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from dushapley import errors
from dushapley.cli import options as o
from dushapley.cli.check import check
from dushapley.cli.compare import compare
from dushapley.cli.data import Data
from dushapley.cli.demo import demo
from dushapley.cli.federate import COMMANDS as FEDERATE
from dushapley.cli.jobfile import Job, decide
from dushapley.cli.methods import methods
from dushapley.cli.panels import in_panel
from dushapley.cli.quote import quote
from dushapley.cli.report import report
from dushapley.cli.reproduce import reproduce
from dushapley.cli.statistics import statistics
from dushapley.cli.value import value
from dushapley.cli.verify import verify
from dushapley.cli.what_if import what_if
from dushapley.cli.wording import in_options
from dushapley.hashing import package_version
from dushapley.terminal import output, results_only, say

LISTED = (
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
COMMANDS: dict[str, Callable[..., Any]] = {f.__name__.replace("_", "-"): f for f in LISTED}
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
INTERRUPTED = (
    "Stopped. What was paid is in the ledger, if there is one; run the same again to go on."
)


def ungrouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command with one option per field of its dataclasses, and with --debug."""
    groups: dict[str, Any] = {}
    options: dict[str, Parameter] = {}
    for name, parameter in signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            options |= signature(groups[name], eval_str=True).parameters
        else:
            options[name] = parameter
    takes_job = any(issubclass(group, Data) for group in groups.values())
    takes_context = "context" in options
    if takes_job:
        given = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        job = Parameter("job", Parameter.KEYWORD_ONLY, default=None, annotation=Job)
        options = {"context": given} | options | {"job": job}
    options["debug"] = Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=o.Debug)
    keywords = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options.values()]
    listed = [in_panel(option, grouped=bool(groups)) for option in keywords]

    @wraps(command)
    def with_options(debug: bool = False, **given: Any) -> Any:
        del debug  # read by main
        with results_only():
            try:
                if takes_job:
                    del given["job"]  # its options are defaults by now
                    decide(given["context"] if takes_context else given.pop("context"), given)
                for name, group in groups.items():
                    own = {field.name: given.pop(field.name) for field in fields(group)}
                    given[name] = group(**own)
                command(**given)
            except KeyboardInterrupt:
                say(INTERRUPTED)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; errors end in a sentence on stderr, with a traceback only on --debug."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = lambda message, *_, **__: say(
        indented(f"warning: {in_options(str(message))}")
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


def sentence_on(error: Exception, given: Sequence[str]) -> str:
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
        return indented(f"error: {in_options(str(error))}")
    return indented(f"error: {type(error).__name__}: {error}\n(--debug shows where)")


def indented(message: str) -> str:
    """A message no line of which stands for itself."""
    return message.replace("\n", "\n  ")


def exit_code(error: Exception) -> int:
    """How a command ends that met this error."""
    if isinstance(error, errors.Stopped):
        return 1 if error.out_of_time else 130
    return 2 if isinstance(error, WRONG_COMMAND) or hasattr(error, "format_message") else 1


def refuse_repeated(given: Sequence[str]) -> None:
    """Refuse a change that is named twice, since one of the two would be dropped unnoticed."""
    for option in ("--leave", "--join", "--merge", "--copy", "--rows"):
        named = sum(word.split("=")[0] == option for word in given)
        if named > 1 and given[0] == "what-if":
            raise errors.InvalidOption(
                f"Found {option} {named} times; ask for one change at a time."
            )


if __name__ == "__main__":
    main()
