"""The shape of the house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import dushapley

ROOMS = [
    "errors", "questions", "tables", "files", "owners", "encoding", "games", "batched",
    "estimators", "guarantees", "ledger", "valuation", "ranking", "conversation", "errorbars",
    "trail", "progress", "executors", "engine", "testing", "compare", "citations", "money", "settlement", "what_if",
    "report", "experiments", "demo", "cli", "__main__",
]  # fmt: skip
HOUSE = Path(dushapley.__file__).parent


def test_each_room_imports_only_from_those_on_its_left() -> None:
    for path in HOUSE.rglob("*.py"):
        room = path.relative_to(HOUSE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        tree = ast.parse(path.read_text())
        guarded = {n for b in ast.walk(tree) if isinstance(b, ast.If) for n in ast.walk(b)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in guarded and node.module:
                parts = node.module.split(".")
                if parts[0] == "dushapley" and len(parts) > 1:
                    assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path}: {node.module}"


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
