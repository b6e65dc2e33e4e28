"""The shape of the house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import dushapley

HOUSE = Path(dushapley.__file__).parent
MOST_MODULES, MOST_FOLDERS, MOST_IN_A_FOLDER = 10, 10, 14
LARGE = ("cli", "estimators")
"""Folders with one file a command or a method."""


def test_each_room_imports_only_from_those_before_it() -> None:
    """Layers as pyproject.toml declares them, lazy imports included."""
    lint = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [lint, "--no-cache", "--no-logo"],
        cwd=HOUSE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


def test_a_stranger_sees_the_house_at_a_glance() -> None:
    inside = [path for path in HOUSE.iterdir() if path.name != "__pycache__"]
    modules = [path.name for path in inside if path.suffix == ".py"]
    folders = [path for path in inside if path.is_dir()]
    assert len(modules) <= MOST_MODULES, modules
    assert len(folders) <= MOST_FOLDERS, folders
    for folder in [path for path in HOUSE.rglob("*") if path.is_dir()]:
        held = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert folder.name in LARGE or len(held) <= MOST_IN_A_FOLDER, folder


def test_importing_is_light() -> None:
    code = "import sys, dushapley; print(*[m for m in sys.modules if sys.modules[m]])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"pandas", "matplotlib", "torch", "sklearn", "scipy", "joblib", "rich"}


EXTRAS = (
    "dask", "distributed", "flwr", "lightgbm", "mkdocs", "playwright", "polars", "pooch",
    "pypdfium2", "ray", "shapiq", "torch", "triton", "xgboost",
)  # fmt: skip
"""Packages that the library, or a test of it, can do without."""


@pytest.mark.slow
def test_tests_and_doctests_can_be_collected_without_any_extra() -> None:
    paths = [str(Path(__file__).with_name("blocked")), *sys.path]
    blocked = {"DUSHAPLEY_BLOCK": ",".join(EXTRAS), "PYTHONPATH": os.pathsep.join(paths)}
    alone = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"],
        cwd=HOUSE.parents[1], env=alone | blocked, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-5000:]
    for name in ("torch", "triton", "flwr"):
        assert f"needs the package {name}" in run.stdout  # skipped aloud


def imported(path: Path) -> set[str]:
    """Packages that a module imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    names |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom) and not n.level}
    return {name.partition(".")[0] for name in names}


def test_whatever_is_imported_is_asked_for_by_name() -> None:
    """What another package brings today it may not bring tomorrow, as typer does with click."""
    asked = {distribution(line) for line in metadata.requires("dushapley") or ()}
    brings = metadata.packages_distributions()
    ours = {"dushapley", "dushapley_paper", *sys.stdlib_module_names}
    for path in HOUSE.rglob("*.py"):
        for name in imported(path) - ours:
            assert asked & {distribution(other) for other in brings.get(name, [name])}, path


def distribution(requirement: str) -> str:
    """The name of a package as those who compare names write it."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def test_every_public_name_has_a_docstring() -> None:
    for name in dushapley.__all__:
        thing = getattr(dushapley, name)
        if not name.startswith("__"):
            assert thing.__doc__, name
            assert len(thing.__doc__) > 20, name
