"""The documentation site: built strictly, with every public name, command and error on it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dushapley as ds
from dushapley import errors
from dushapley.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
LEAST_PAGES = 25


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning fails the build."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    built = tmp_path_factory.mktemp("site")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)]
    for command in ([sys.executable, "tools/reference.py"], build):
        run = subprocess.run(
            command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert "WARNING" not in run.stderr, run.stderr
    return built


def text(page: Path) -> str:
    return re.sub(r"<[^>]+>", "", page.read_text())


@pytest.mark.slow
def test_every_public_name_command_and_error_has_its_place(site: Path) -> None:
    reference = "".join(text(page) for page in (site / "reference").rglob("index.html"))
    assert len(list(site.rglob("index.html"))) >= LEAST_PAGES
    for name in set(ds.__all__) - {"__version__"}:
        assert re.search(rf"\b{name}\b", reference), name
    for command in COMMANDS:
        assert f"dushapley {command}" in reference
    told = text(site / "reference" / "errors" / "index.html")
    for name, error in vars(errors).items():
        if inspect.isclass(error) and error.__module__ == errors.__name__:
            assert name in told
            own = inspect.cleandoc(error.__doc__ or "")
            assert "Cure: " in own or name in {"DUShapleyError", "SharedRows", "Stopped"}


@pytest.mark.slow
def test_nothing_on_the_site_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("index.html"):
        source = page.read_text()
        assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', source) == []
