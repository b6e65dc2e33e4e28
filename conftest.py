"""Doctests of what needs an extra skip where the extra is not installed.

Pages with commands, and tutorials, are run by tests/test_pages.py, block by block.
"""

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from extras import importable, skip_unless_required

ROOT = Path(__file__).parent
BATCHED = "src/dushapley/games/model/batched"
NEEDED = {
    f"{BATCHED}/kernels.py": "triton",
    f"{BATCHED}/reference.py": "torch",
    f"{BATCHED}/stacked.py": "torch",
    "docs/networks.md": "torch",
    "src/dushapley/federated/flower/app/client.py": "flwr",
    "src/dushapley/federated/flower/app/clientapp.py": "flwr",
    "src/dushapley/federated/flower/app/server.py": "flwr",
}
"""Modules and pages, and the package without which they cannot be imported or run."""
collect_ignore = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if page.parent.name == "tutorials" or re.search(r"^```(sh|console)", page.read_text(), re.M)
]


class Lacking(pytest.File):
    """A file whose doctests are skipped for lack of a package."""

    def collect(self) -> Iterator[pytest.Item]:
        name = NEEDED[str(self.path.relative_to(ROOT))]
        skip_unless_required(name, f"{self.path.name} needs the package {name}")
        return iter(())


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
    """Doctests of a file, or one sentence that names the package that they need."""
    found = yield
    name = NEEDED.get(str(file_path.relative_to(ROOT)) if ROOT in file_path.parents else "")
    if name is None or importable(name):
        return found
    return [Lacking.from_parent(parent, path=file_path)]


SKIPPED: set[str] = set()


def pytest_runtest_logreport(report: Any) -> None:
    """Note what was skipped."""
    SKIPPED.update([report.nodeid] * report.skipped)


pytest_collectreport = pytest_runtest_logreport


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the names of what was skipped, one a line, for `pytest @.pytest_cache/d/skipped/names`.

    So that a machine that has more need not run the rest again (see .ci/run).
    """
    config = session.config
    cached = config.pluginmanager.has_plugin("cacheprovider")
    if cached and not hasattr(config, "workerinput") and not config.option.collectonly and SKIPPED:
        kept = config.cache.mkdir("skipped") / "names"
        kept.write_text("".join(f"{name}\n" for name in sorted(SKIPPED)))


@pytest.fixture(autouse=True)
def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the examples of a page in a folder of their own, so that what they write goes there."""
    if request.path.suffix == ".md":
        monkeypatch.chdir(tmp_path)
