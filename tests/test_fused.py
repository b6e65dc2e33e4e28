"""The fused step: its arithmetic is that of the program, by Triton's interpreter on any machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from extras import needs

needs("torch", "triton")


def test_kernels_by_the_interpreter() -> None:
    """Triton decides when it is imported whether it interprets: hence a process of its own."""
    tests = Path(__file__).with_name("interpreted_kernels.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    alone = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, check=False, env=alone, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
