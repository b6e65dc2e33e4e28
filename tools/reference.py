"""Writes the pages of docs/reference/ from the code: API, command line, errors, methods.

They are not in git, so they cannot be out of date; `make docs` writes them before it builds.

Run: python tools/reference.py [FOLDER]
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Any

import dushapley as ds
from dushapley import errors
from dushapley.estimators.registry import REGISTRY

DOCS = Path(__file__).parents[1] / "docs"
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "values": ("Values", ("value", "methods", "quote", "compare", "plot_comparison", "AskTell")),
    "owners": ("Owners and files", ("Owners", "check", "Ledger")),
    "games": ("Games", ()),
    "results": (
        "Results",
        ("Valuation", "probability_greater", "bibtex"),
    ),
    "settlement": (
        "Settlements and changes",
        (
            *("Settlement", "settle", "verify", "Verdict"),
            *("what_if", "quote_change", "WhatIf", "Join", "Leave", "Merge", "Copy", "MoreRows"),
        ),
    ),
    "guarantees": ("Guarantees", ("guarantees",)),
    "plug-ins": ("Methods and games of your own", ("Ask", "Estimate", "Problem", "estimators")),
}
"""Pages of the reference of names: title, and names of the package that stand on it."""
MODULES = {"estimators", "games", "guarantees", "report"}


def pages() -> dict[str, str]:
    """All generated pages by file name."""
    api = {f"{page}.md": names(title, group) for page, (title, group) in placed().items()}
    return api | {
        "command-line.md": command_line(),
        "errors.md": error_list(),
        "methods.md": method_list(),
    }


def placed() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The groups, with every public name that has no place yet on the page of its kind."""
    public = [name for name in ds.__all__ if not name.startswith("_")]
    taken = {name for _, group in GROUPS.values() for name in group}
    rest: dict[str, tuple[str, ...]] = dict.fromkeys(GROUPS, ())
    for name in (name for name in public if name not in taken and name not in MODULES):
        rest[kind_of(getattr(ds, name))] += (name,)
    games = tuple(f"games.{name}" for name in ds.games.__all__ if name not in public)
    rest["games"] += games
    return {page: (title, group + rest[page]) for page, (title, group) in GROUPS.items()}


def kind_of(thing: Any) -> str:
    """The page of a name that was given none."""
    module = getattr(thing, "__module__", "")
    if issubclass(thing, Exception) if inspect.isclass(thing) else False:
        return "plug-ins"
    rooms = {"data": "owners", "settlement": "settlement", "results": "results"}
    rooms |= dict.fromkeys(("games", "federated"), "games")
    return rooms.get(module.removeprefix("dushapley.").partition(".")[0], "values")


def names(title: str, group: tuple[str, ...]) -> str:
    """A page of names with their docstrings, which mkdocstrings fills in."""
    return f"# {title}\n\n" + "\n".join(entry(name) for name in group)


def entry(name: str) -> str:
    """One name: where it is defined, called what the user calls it."""
    thing: Any = ds
    for part in name.split("."):
        thing = getattr(thing, part)
    if inspect.ismodule(thing):
        where, heading = thing.__name__, name
    else:
        where, heading = f"{thing.__module__}.{thing.__qualname__}", f"dushapley.{name}"
    return f"::: {where}\n    options:\n      heading: {heading}\n      toc_label: {name}\n"


def command_line() -> str:
    """Every command as `--help` shows it."""
    os.environ.update(COLUMNS="88", TERM="dumb", NO_COLOR="1")
    from typer.testing import CliRunner

    from dushapley.cli.main import COMMANDS, FEDERATE, app

    run, text = CliRunner(), ["# Command line\n"]
    for command in ("", *COMMANDS, *(f"federate {name}" for name in FEDERATE)):
        shown = run.invoke(app, [*command.split(), "--help"], prog_name="dushapley").output.strip()
        text.append(f"## `dushapley {command}".rstrip() + f"`\n\n```text\n{shown}\n```\n")
    return "\n".join(text)


def error_list() -> str:
    """Every error: what it means, and what helps."""
    text = ["# Errors\n", inspect.cleandoc(errors.__doc__ or "").partition("\n")[2].strip() + "\n"]
    for name, error in vars(errors).items():
        if inspect.isclass(error) and error.__module__ == errors.__name__:
            told, _, _ = inspect.cleandoc(error.__doc__ or "").partition("\n\nExamples\n")
            cause, _, cure = told.partition("Cure: ")
            kinds = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            text.append(f"## `{name}`\n\nA {kinds}. {cause.strip()}\n")
            text += [f"**What helps.** {cure.strip()}\n"] if cure else []
    return "\n".join(text)


WITHOUT_ERRORS = ("du-second-order", "knn", "loo", "random")
"""Methods that state no standard errors."""


def method_list() -> str:
    """Every method as it declares itself."""
    text = ["# Methods\n", f"`auto` takes {ds.methods()['auto']}.\n"]
    for name, method in REGISTRY.items():
        source = inspect.getmodule(method.run)
        chosen = method.complete(None)
        told = {
            "needs": method.need(chosen),
            "trainings by default, 10 owners": method.default(10, chosen),
            "has error bars": "no" if name in WITHOUT_ERRORS else "yes",
            "source": method.cite,
        }
        text.append(f"## `{name}`\n\n{capital(method.summary)}.\n")
        text.append("".join(f"- {what}: {value}\n" for what, value in told.items() if value))
        text += [option_table(method)] if method.options else []
        formula = inspect.cleandoc(getattr(source, "__doc__", "") or "")
        text.append(f"From its module:\n\n```text\n{formula}\n```\n")
    return "\n".join(text)


def option_table(method: Any) -> str:
    """The options of a method with their defaults."""
    lines = [f"| `{n}` | `{o.default!r}` | {o.meaning} |" for n, o in method.options.items()]
    return "| option | default | meaning |\n|---|---|---|\n" + "\n".join(lines) + "\n"


def capital(text: str) -> str:
    """A sentence's beginning."""
    return text[:1].upper() + text[1:]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
