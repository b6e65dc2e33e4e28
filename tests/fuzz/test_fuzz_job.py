"""Any job file is run, or refused in a sentence; it can name files, but executes nothing."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import tomli_w
from fuzzing import CASES, Target, Unclear, bytewise, check
from hypothesis import given, settings
from test_fuzz_settlement import HOSTILE, folder, places, run

ODD: list[Any] = [
    True, 0, -1, 10**9, -(2**63), 0.5, float("nan"), float("inf"), "", "nan", "x" * 5000, HOSTILE,
    "\0", "/dev/zero", "../../../etc/passwd", "os.system", "=1+1", "\ufeff", ["owners"], [], {},
    [[]], [True, "a"], {"a": {"b": [1]}}, "auto", ";", ",", "utf-16", "utf-7", "rot13", "%d.%m.%Y",
    "%" * 400, "(a+)+$", "mend", "drop", "file-skipped", "y", "a",
]  # fmt: skip
KEYS = (
    "files", "target", "owner", "by-file", "test", "holdout", "cv", "expect", "accept", "task",
    "max-rows", "max-bytes", "seed", "join", "read", "model", "budget", "method", "job", "debug",
)  # fmt: skip
READ = (
    "sep", "decimal", "thousands", "encoding", "dates", "sheet", "header", "columns", "drop",
    "missing", "merge", "positive", "totals", "mojibake", "common-columns", "files",
)  # fmt: skip


def corpus() -> list[bytes]:
    place = folder()
    plain = {"files": [f"{place}/owners"], "target": "y", "by-file": True}
    tested = plain | {"test": f"{place}/test.csv", "expect": ["east", "north", "south"]}
    read = {"sep": ",", "files": {"north.csv": {"encoding": "utf-8"}}}
    jobs = [plain, tested, tested | {"accept": ["file-skipped"], "read": read}]
    return [tomli_w.dumps(job).encode() for job in jobs]


def mutate(rng: Random, content: bytes) -> bytes:
    """Change bytes, or keys and their values."""
    if rng.random() < 0.3:
        return bytewise(rng, content)
    data = tomllib.loads(content.decode())
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(rng, data)
    return tomli_w.dumps(data).encode("utf-8", "surrogatepass")


def _change(rng: Random, data: dict[str, Any]) -> None:
    action = rng.randrange(4)
    if action == 0:
        data[rng.choice(KEYS)] = copy.deepcopy(rng.choice(ODD))
    elif action == 1 and isinstance(data.setdefault("read", {}), dict):
        data["read"][rng.choice(READ)] = copy.deepcopy(rng.choice(ODD))
    elif found := list(places(data)):
        *inside, key = rng.choice(found)
        part: Any = data
        for step in inside:
            part = part[step]
        if action == 2:
            del part[key]
        else:
            part[key] = copy.deepcopy(rng.choice(ODD))


def read(path: Path) -> str:
    """Check the files it names by the command line."""
    code, told = run("check", "--job", str(path))
    hostile = [c for c in told if not c.isprintable() and c not in "\n\t"]
    if hostile or "--debug shows where" in told or not told.strip() or code not in (0, 1, 2):
        raise Unclear(f"exit {code}, {hostile}: {told[-600:]}")
    return "refused" if "error:" in told else "checked"


TARGET = Target("job", "job.toml", corpus, read, mutate)


@given(CASES)
@settings(max_examples=60, deadline=None)
def test_any_job_file_ends_clearly(case: int) -> None:
    check(TARGET, case)


def test_the_corpus_is_checked() -> None:
    assert {check(TARGET, case) for case in range(len(TARGET.seeds))} == {"checked"}
