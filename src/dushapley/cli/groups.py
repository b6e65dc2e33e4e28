"""Options in groups: a command takes a dataclass, the command line its fields.

Typer reads options off a function's parameters, one each, so that commands with options in common
would repeat the list of them. Here a parameter whose type is a dataclass stands for all its fields,
each an option, and the dataclass checks them when it is made: before any file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from dushapley.cli import options as o


def ungrouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command with one option per field of its dataclasses, and with --debug."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    listed = [p for name in signature(command).parameters for p in _options(command, name, hints)]
    listed.append(Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=o.Debug))

    @wraps(command)
    def with_options(debug: bool = False, **given: Any) -> Any:
        del debug  # read by main
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    with_options.__signature__ = Signature(listed)  # type: ignore[attr-defined]
    with_options.__annotations__ = {option.name: option.annotation for option in listed}
    return with_options


def _options(
    command: Callable[..., Any], name: str, hints: Mapping[str, Any]
) -> Iterator[Parameter]:
    """A parameter itself, or the fields of the dataclass it takes."""
    group = hints[name]
    if not is_dataclass(group):
        default = signature(command).parameters[name].default
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=group)
        return
    types = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=types[field.name],
        )


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default
