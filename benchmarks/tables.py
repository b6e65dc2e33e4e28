"""What benchmarks share: Markdown tables, stored results, CPU seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def save(name: str, data: Any) -> None:
    """Keep a result beside the script, as small JSON."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def load(name: str) -> dict[str, Any]:
    """The result kept by `save`, or nothing yet."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def best_cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """CPU seconds of the best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def mean_and_error(sample: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(np.mean(sample)), float(np.std(sample, ddof=1) / np.sqrt(len(sample)))


def short(number: float) -> str:
    """Two significant figures."""
    return f"{number:.1e}".replace("e-0", "e-").replace("e+0", "e+")
