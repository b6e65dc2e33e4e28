"""The groups in which `--help` lists options."""

from __future__ import annotations

from copy import copy
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo

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


def in_panel(option: Parameter, *, grouped: bool) -> Parameter:
    """The same parameter of a command, listed without types of Python, and in its group.

    Commands with few options are not `grouped`.
    """
    if get_origin(option.annotation) is not Annotated:
        return option
    kind, info = get_args(option.annotation)
    listed: Any = copy(info)
    if isinstance(listed, ArgumentInfo):
        return option
    listed.rich_help_panel = PANEL_OF.get(option.name) if grouped else None
    if listed.metavar is None:
        listed.metavar = next((word for known, word in WORDS.items() if known in str(kind)), None)
    return option.replace(annotation=Annotated[kind, listed])
