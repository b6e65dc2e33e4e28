"""The README's commands, run as a new user would, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_commands_of_the_readme_lead_to_a_settlement_that_holds(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(), flags=re.S)
    commands = [line for line in blocks[0].splitlines() if line.startswith("dushapley ")]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)[1:]
        run = subprocess.run(
            [sys.executable, "-m", "dushapley.cli.main", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    assert "holds" in run.stdout + run.stderr
    assert "<html" in (tmp_path / "report.html").read_text().lower()
