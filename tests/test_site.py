"""The documentation site: built strictly, with every public name, command and error on it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

import dushapley as ds
from dushapley import errors
from dushapley.cli.main import COMMANDS
from extras import needs
from schemas import validator

ROOT = Path(__file__).parents[1]
LEAST_PAGES = 25


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning fails the build."""
    needs("mkdocs", "material", "mkdocstrings")
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


def test_schemas_refuse_what_is_not_theirs() -> None:
    game = ds.SizeGame([100, 200, 400], w=lambda n: n / (n + 100))
    settled = ds.settle(ds.value(game, "exact"), 900, currency="EUR").to_dict()
    assert validator("settlement").is_valid(settled)
    assert validator("valuation").is_valid(settled["valuation"])
    assert not validator("valuation").is_valid({**settled["valuation"], "values": ["1"]})
    assert not validator("settlement").is_valid({**settled, "pot": 900.0})
    assert not validator("settlement").is_valid({**settled, "valuation": {}})
    assert not validator("job").is_valid({"cv": 1})


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pages are asked for by the hundred."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served while a browser looks at it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_every_page_opens_in_silence_and_fits(
    site: Path, address: str, browser: Any, width: int, height: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": height})
    page, said, asked = context.new_page(), [], set()
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    for file in sorted(site.rglob("index.html")):
        where = file.parent.relative_to(site).as_posix()
        page.goto(f"{address}{where}/", wait_until="load")
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{where} scrolls sideways by {wide} at {width}"
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert not page.evaluate(broken), where
        for target in page.evaluate("[...document.links].map(a => a.href.split('#')[0])"):
            if target.startswith(address):
                path = site / unquote(target.removeprefix(address))
                assert path.is_file() or (path / "index.html").is_file(), f"{where}: {target}"
    context.close()
    assert not said
    assert all(url.startswith((address, "data:")) for url in asked)
