"""Doctests of what needs an extra are left out where the extra is not installed.

Pages with commands, and tutorials, are run by tests/test_pages.py, block by block.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

BATCHED = "src/dushapley/games/model/batched"
collect_ignore = [f"{BATCHED}/kernels.py"] * (find_spec("triton") is None) + [
    name
    for name in (f"{BATCHED}/network.py", f"{BATCHED}/stacked.py", "docs/networks.md")
    if find_spec("torch") is None
]
collect_ignore += ["src/dushapley/federated/flower/app"] * (find_spec("flwr") is None)

ROOT = Path(__file__).parent
collect_ignore += [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if page.parent.name == "tutorials" or re.search(r"^```(sh|console)", page.read_text(), re.M)
]


@pytest.fixture(autouse=True)
def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the examples of a page in a folder of their own, so that what they write goes there."""
    if request.path.suffix == ".md":
        monkeypatch.chdir(tmp_path)
