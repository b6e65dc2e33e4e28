"""Pages are run as they are read: commands and Python in order, in one empty folder.

No block may escape. Each is Python (a doctest), commands (`sh`, or `console` with what they print),
`text` that nobody could mistake for code, or stands below a comment that says why it is not run::

    <!-- not run: two machines and a certificate; tests/test_federated.py does the same on one -->
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from dushapley.cli.main import main
from dushapley.federated.policy import Policy
from extras import needs

ROOT = Path(__file__).parents[1]
ALL = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL = [page for page in ALL if page.parent.name != "reference"]  # written from the code
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>.*)\n(?P<code>(?:.*\n)*?)(?P=indent)```$",
    re.M,
)
INDENTED = re.compile(r"(?<=\n\n) {4,}\S.*")
CODE = re.compile(r"^\s*(\$ |>>> |dushapley |ds\.|import |pip |make |python3? )", re.M)
PAGES = [
    page
    for page in ALL
    if re.search(r"^```(sh|console)", page.read_text(), re.M) or page.parent.name == "tutorials"
]
"""Pages with commands, and tutorials; the doctests of all others are collected by pytest."""
NEEDS = {"network.md": "torch", "cluster.md": "distributed"}
AS_SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
READERS = {"toml": Policy.read}
"""What reads a block of settings; job files are shown by `cat`, as they were written."""
MOST_NOT_RUN = 6


@dataclass(frozen=True)
class Block:
    """A block of a page: where it begins, what it is, and why it is not run, if so."""

    line: int
    language: str
    code: str
    reason: str | None


def blocks(text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        yield Block(line, found["language"], found["code"], found["reason"])


def unrun(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a page where a block begins that nothing runs, and what would help."""
    for block in blocks(text):
        python = block.language == "python" and ">>> " in block.code and "+SKIP" not in block.code
        commands = block.language in {"sh", "console"}
        prose = block.language == "text" and not CODE.search(block.code)
        if not (python or commands or prose or block.language in READERS or block.reason):
            yield block.line, "make it a doctest, commands, text, or say why it is not run"
    outside = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for found in INDENTED.finditer(outside):
        yield outside.count("\n", 0, found.start()) + 1, "put it between fences"


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    assert not list(unrun(page.read_text()))


def test_blocks_that_are_not_run_are_few_and_cannot_hide() -> None:
    given = [block.reason for page in ALL for block in blocks(page.read_text()) if block.reason]
    assert len(given) <= MOST_NOT_RUN
    hidden = ("```\nls\n```", "```text\ndushapley demo\n```", "```python\nf()\n```", "\n\n    f()")
    assert all(list(unrun(f"Words.\n\n{block}\n")) for block in hidden)
    assert not list(unrun("<!-- not run: a cluster -->\n```sh\nsrun make\n```\n\n```text\nx²\n```"))


def test_settings_that_are_shown_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    every = [block for page in ALL for block in blocks(page.read_text())]
    shown = [block for block in every if block.language in READERS]
    assert shown
    for block in shown:
        file.write_text(block.code)
        READERS[block.language](file)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in NEEDS:
        needs(NEEDS[page.name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "100")
    run_page(page)
    for picture in re.findall(r"\(\.\./images/tutorials/(\S+)\)", page.read_text()):
        assert (tmp_path / picture).stat().st_size > 5_000
        assert (ROOT / "docs/images/tutorials" / picture).exists(), "run tools/pictures.py"


def run_page(page: Path) -> None:
    """All blocks in order, in the folder one stands in."""
    names: dict[str, Any] = {"__name__": "__main__"}
    commands = Commands()
    for block in blocks(page.read_text()):
        if block.language == "python":
            commands.alone &= not commands.done
            run_python(block.code, names, page, block.line)
        elif block.language in {"sh", "console"} and not block.reason:
            commands.run(block.code, block.language)


def run_python(code: str, names: dict[str, Any], page: Path, line: int) -> None:
    """The examples of a block, in the names that the blocks before it left."""
    test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=AS_SHOWN)
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


class Commands:
    """The commands of a page. Many begin alike: what was done in an empty folder is copied."""

    kept: dict[tuple[str, ...], tuple[Path, str]] = {}  # noqa: RUF012 - shared by all pages

    def __init__(self) -> None:
        self.alone = not any(Path.cwd().iterdir())
        self.done: tuple[str, ...] = ()

    def run(self, code: str, language: str) -> None:
        """Commands end well; in a console block they print what is shown."""
        lines = re.sub(r"\\\n\s*", "", code)
        if language == "sh":
            for line in filter(None, lines.splitlines()):
                self.printed_by(line)
            return
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", lines, re.M):
            shown = self.printed_by(command)
            assert doctest.OutputChecker().check_output(expected, shown, AS_SHOWN), shown

    def printed_by(self, line: str) -> str:
        """What a command prints, in a folder that holds what those before it wrote."""
        self.done = (*self.done, line)
        if not self.alone:
            return printed_by(line)
        if self.done in self.kept:
            folder, shown = self.kept[self.done]
            shutil.copytree(folder, Path.cwd(), dirs_exist_ok=True)
            return shown
        shown = printed_by(line)
        folder = Path(mkdtemp(dir=Path.cwd().parent)) / "kept"
        shutil.copytree(Path.cwd(), folder)
        self.kept[self.done] = folder, shown
        return shown


def printed_by(line: str) -> str:
    """What a command prints and says."""
    program, *arguments = shlex.split(line, comments=True)
    if program == "cat":
        return "".join(Path(name).read_text() for name in arguments)
    assert program == "dushapley", f"{line}\nno test runs {program}: say why above the block"
    told, warned = StringIO(), StringIO()
    with redirect_stdout(told), redirect_stderr(warned):
        try:
            main(arguments)
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    assert not code, f"{line}\n{told.getvalue()}\n{warned.getvalue()}"
    return told.getvalue() + warned.getvalue()
