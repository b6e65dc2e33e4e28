"""The shape of the house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import dushapley

ROOMS = [
    "errors", "questions", "tables", "reading", "owners", "splitting", "statistics", "batched",
    "games", "estimators", "guarantees", "ledger", "salvage", "valuation", "ranking",
    "conversation", "errorbars", "trail", "progress", "executors", "paying", "engine", "testing",
    "compare", "citations", "money", "settlement", "verification", "changes", "whatif", "report",
    "experiments", "demo", "cli", "__main__",
]  # fmt: skip
HOUSE = Path(dushapley.__file__).parent


def rooms_imported(node: ast.AST) -> list[str]:
    """Rooms named by `from dushapley.x import`, `from dushapley import x`, `import dushapley.x`."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom) and node.module == "dushapley":
        names = [f"dushapley.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    return [name.split(".")[1] for name in names if name.startswith("dushapley.")]


def test_each_room_imports_only_from_those_on_its_left() -> None:
    for path in HOUSE.rglob("*.py"):
        room = path.relative_to(HOUSE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        tree = ast.parse(path.read_text())
        guarded = {
            inner
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for inner in ast.walk(block)
        }
        for node in ast.walk(tree):
            if node not in guarded:
                for other in rooms_imported(node):
                    if room == "owners" and other in ("splitting", "statistics"):
                        continue  # methods that hand over to the files beside them
                    assert ROOMS.index(other) <= ROOMS.index(room), f"{path}: {other}"


def test_importing_is_light() -> None:
    code = "import sys, dushapley; print(*[m for m in sys.modules if '.' not in m])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"pandas", "matplotlib", "torch", "sklearn", "scipy", "joblib", "rich"}


def test_every_public_name_has_a_docstring() -> None:
    for name in dushapley.__all__:
        thing = getattr(dushapley, name)
        if not name.startswith("__"):
            assert thing.__doc__, name
            assert len(thing.__doc__) > 20, name
