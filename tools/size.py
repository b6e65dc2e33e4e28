"""Print how large the library is, each number beside its limit in `pyproject.toml`.

A statement is an AST statement under `src/dushapley`, docstrings not counted: neither those of
modules, classes and functions nor a string that stands alone below a constant. Nodes per statement
show whether statements were saved by writing denser ones. A function has one caller if its name is
defined once and mentioned once more. Fields and hooks are those of the waist: what estimators,
games and the engine know of each other. Exits with 1 where a limit is exceeded.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dushapley"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a source file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes_of(*paths: Path) -> Iterator[ast.AST]:
    """Yield all nodes of some files."""
    for path in paths:
        yield from ast.walk(tree_of(path))


def is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is a string by itself."""
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone and isinstance(node.value.value, str)


def statements(*paths: Path) -> int:
    """Count statements without docstrings."""
    return sum(isinstance(n, ast.stmt) and not is_docstring(n) for n in nodes_of(*paths))


def body_lines(function: Function) -> int:
    """Count the lines of a function's body below its docstring."""
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def with_one_caller(*paths: Path) -> int:
    """Count functions whose name is defined once and mentioned once more."""
    nodes = list(nodes_of(*paths))
    defined = Counter(n.name for n in nodes if isinstance(n, Function))
    used = Counter(n.id for n in nodes if isinstance(n, ast.Name))
    used.update(n.attr for n in nodes if isinstance(n, ast.Attribute))
    return sum(count == 1 and used[name] == 1 for name, count in defined.items())


def class_of(name: str, path: Path) -> ast.ClassDef:
    """Find a class in a file."""
    found = (n for n in nodes_of(path) if isinstance(n, ast.ClassDef) and n.name == name)
    return next(found)


def fields_of(name: str, module: str) -> int:
    """Count the annotated names of a class's body: fields, or attributes that are declared."""
    body = class_of(name, SOURCE / module).body
    return sum(isinstance(node, ast.AnnAssign) for node in body)


HOOKS = "evaluate", "keys", "closed_form", "marginals", "reseeded", "costs"
"""Methods of `Game` that a game may write itself."""
OWN = "check", "failed"
"""Methods of `Game` that it has for its games, none of which writes them."""


def hooks(path: Path) -> int:
    """Count the public methods of `Game` that games may override."""
    body = class_of("Game", path).body
    names = [n.name for n in body if isinstance(n, Function) and not n.name.startswith("_")]
    plain = [n for n in body if isinstance(n, Function) and n.decorator_list]
    properties = {n.name for n in plain if any(_is_property(d) for d in n.decorator_list)}
    return len(set(names) - set(OWN) - properties)


def attributes(path: Path) -> int:
    """Count the attributes of `Game`: those it declares, and properties."""
    body = class_of("Game", path).body
    properties = [
        n for n in body if isinstance(n, Function) and any(map(_is_property, n.decorator_list))
    ]
    return fields_of("Game", "games/base.py") + len(properties)


def _is_property(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id in ("property", "cached_property")


def classes_ending(ending: str, *paths: Path) -> int:
    """Count classes by the end of their name."""
    return sum(isinstance(n, ast.ClassDef) and n.name.endswith(ending) for n in nodes_of(*paths))


def exported() -> int:
    """Count the names that `import dushapley` offers."""
    assigned = (n for n in nodes_of(SOURCE / "__init__.py") if isinstance(n, ast.Assign))
    names = next(n.value for n in assigned if ast.unparse(n.targets[0]) == "__all__")
    return len(ast.literal_eval(names))


def options() -> tuple[int, int]:
    """Count the options of `dushapley value`, and the different options of all commands."""
    from typer.main import get_command

    from dushapley.cli.main import app

    commands = get_command(app).commands
    every = [commands, commands["federate"].commands]
    named = [options_of(command) for group in every for command in group.values()]
    return len(options_of(commands["value"])), len(set().union(*named))


def options_of(command: Any) -> set[str]:
    """Return the options of a command by their longest spelling."""
    return {max(p.opts, key=len) for p in command.params if p.param_type_name == "option"}


def words() -> int:
    """Count the words of the pages in `docs` that people wrote, tables and examples included."""
    docs = ROOT / "docs"
    pages = [page for page in docs.rglob("*.md") if docs / "reference" not in page.parents]
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def tables() -> int:
    """Count the tables of the ledger."""
    text = (SOURCE / "engine" / "ledger.py").read_text(encoding="utf-8")
    return len(re.findall(r"create table (?:if not exists )?\w+", text, re.IGNORECASE))


def measured() -> Mapping[str, float]:
    """Return every number by the name of its limit."""
    paths = sorted(SOURCE.rglob("*.py"))
    engine = [
        path
        for path in (SOURCE / "engine").rglob("*.py")
        if "diagnosis" not in path.relative_to(SOURCE).parts
    ]
    functions = [n for n in nodes_of(*paths) if isinstance(n, Function)]
    lengths = [body_lines(function) for function in functions]
    base = SOURCE / "games" / "base.py"
    executors = (SOURCE / "engine" / "executors").glob("*.py")
    of_value, of_all = options()
    return {
        "statements": statements(*paths),
        "statements of engine": statements(*engine),
        "statements of games": statements(*(SOURCE / "games").rglob("*.py")),
        "nodes per 100 statements": round(
            100 * sum(1 for _ in nodes_of(*paths)) / statements(*paths)
        ),
        "files": len(paths),
        "lines of the longest file": max(len(p.read_text().splitlines()) for p in paths),
        "functions": len(functions),
        "functions with one caller": with_one_caller(*paths),
        "median lines of a body": int(median(lengths)),
        "ninth decile of lines of a body": int(quantiles(lengths, n=10)[-1]),
        "fields of Ask": fields_of("Ask", "protocol.py"),
        "fields of Problem": fields_of("Problem", "protocol.py"),
        "fields of Estimate": fields_of("Estimate", "protocol.py"),
        "fields of Method": fields_of("Method", "estimators/method.py"),
        "attributes of Game": attributes(base),
        "hooks of Game": hooks(base),
        "evaluators": classes_ending("Evaluator", *paths),
        "tables of the ledger": tables(),
        "modules of executors": sum(path.name != "__init__.py" for path in executors),
        "names in __all__": exported(),
        "error classes": sum(isinstance(n, ast.ClassDef) for n in nodes_of(SOURCE / "errors.py")),
        "options of value": of_value,
        "options": of_all,
        "words in docs": words(),
    }


def limits() -> Mapping[str, Any]:
    """Return the limits, by the same names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["tool"]["size"]


def main() -> int:
    """Print the table; 1 if something is larger than it may be."""
    most, found = limits(), measured()
    for name, number in found.items():
        mark = "  too many" if number > most[name] else ""
        print(f"{name:34}{number:>8,}{most[name]:>10,}{mark}")
    return int(any(number > most[name] for name, number in found.items()))


if __name__ == "__main__":
    sys.exit(main())
