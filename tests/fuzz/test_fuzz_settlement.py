"""Any settlement file is verified, found false, or refused in a sentence; nothing else."""

from __future__ import annotations

import atexit
import copy
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields
from functools import cache
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from fuzzing import CASES, Target, Unclear, bytewise, check
from hypothesis import given, settings

from dushapley.cli.job import Job
from dushapley.cli.main import main
from dushapley.settlement.settlement import seal
from dushapley.settlement.verification import OF_FILES

JOB = ["--by-file", "--target", "y", "--test", "test.csv", "--pot", "1000", "--currency", "EUR"]
HOSTILE = "\x1b[2J\x1b[1;1HThe settlement holds.\u202e\n"
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 10**9, 10**15, 10**39, -(2**63), 0.5, -0.0, 1e308, 5e-324, "",
    "nan", "1e99999999", "1e-99999999", "-1", "999.99", "0.1", "1/0", "exact", "permutation", "gp",
    "auto → gp", HOSTILE, "\ud800", "\0", "x" * 5000, "../../etc/passwd", "os.system", "'; rm x",
    [], {}, [None], {"": {}}, [[1.0]], [1e140] * 4, ["a"] * 4, {"a": 1}, [[[[[]]]]], "é", "0" * 64,
]  # fmt: skip
TEXTS = (
    "1e999999", "NaN", "-Infinity", "1" * 5000, "[" * 3000 + "]" * 3000, '{"a":' * 900 + "}" * 900,
    '{"pot": "1", "pot": "2"}', "1e-999999", '"\\ud800"', "true", "1.0000000000000000000000000001",
)  # fmt: skip


@cache
def folder() -> Path:
    """Four owners' files, a test file and a few settlements of them."""
    place = Path(tempfile.mkdtemp(prefix="fuzz-owners-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    rng = np.random.default_rng(0)
    (place / "owners").mkdir()
    for name in ("north", "south", "east", "test"):
        X = rng.normal(size=(20, 2))
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=X @ [1, 2] + rng.normal(size=20))
        frame.to_csv(place / ("test.csv" if name == "test" else f"owners/{name}.csv"), index=False)
    return place


def corpus() -> list[bytes]:
    made = []
    here = Path.cwd()
    os.chdir(folder())
    try:
        for extra in ([], ["--method", "permutation", "--budget", "40", "--negative", "floor"],
                      ["--method", "exact", "--negative", "charge"]):  # fmt: skip
            run("value", "owners", *JOB, *extra, "--settlement", "s.json", "--force", "--yes")
            made.append(Path("s.json").read_bytes())
            Path("s.json").unlink()
    finally:
        os.chdir(here)
    return made


def run(*arguments: str) -> tuple[int, str]:
    """A command, its exit code and all that it said."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        try:
            main(list(arguments))
        except SystemExit as end:
            return int(end.code or 0), told.getvalue()
    return 0, told.getvalue()


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where everything in the data stands."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, item in list(items):
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*path, key))


def mutate(rng: Random, content: bytes) -> bytes:
    """Change bytes, or fields; mostly seal again, as whoever forges a file would."""
    if rng.random() < 0.15:
        return bytewise(rng, content)
    data = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(rng, data)
    if isinstance(data, dict) and rng.random() < 0.85:
        data["seal"] = seal(data) if _sealable(data) else "0" * 64
    text = json.dumps(data)
    if rng.random() < 0.15:  # what no honest writer writes
        numbers = list(re.finditer(r"(?<=[:\[ ])-?[0-9][0-9.e+-]*|\"[^\"]*\"(?=[,}])", text))
        place = rng.choice(numbers)
        text = text[: place.start()] + rng.choice(TEXTS) + text[place.end() :]
    return text.encode("utf-8", "surrogatepass")


def _sealable(data: Any) -> bool:
    try:
        seal(data)
    except ValueError:
        return False
    return True


def _change(rng: Random, data: Any) -> None:
    # fields of small parts are as likely as the many numbers of large ones
    found = list(places(data))
    top = rng.choice(sorted({str(path[0]) for path in found}))
    path = rng.choice([path for path in found if str(path[0]) == top])
    inside = data
    for key in path[:-1]:
        inside = inside[key]
    key, item = path[-1], inside[path[-1]]
    action = rng.randrange(5)
    if action == 0:
        del inside[key]
    elif action == 1 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(item))
    elif action == 2 and isinstance(inside, dict):
        inside[rng.choice(("more", HOSTILE, "format", "seed"))] = inside.pop(key)
    elif action == 3 and isinstance(item, (int, float)) and not isinstance(item, bool):
        inside[key] = item * rng.choice((-1, 2, 1e-9, 1.0000001, 10**6))
    elif action == 3 and isinstance(item, str):
        inside[key] = item[: rng.randrange(len(item) + 1)] + rng.choice(
            ("", HOSTILE, "9", "\u200b")
        )
    else:
        inside[key] = copy.deepcopy(rng.choice(ODD))


def read(path: Path) -> str:
    """Verify it by the command line; whatever is said to hold says what the original said."""
    files = [str(folder() / "owners"), str(folder() / "test.csv")]
    code, told = run("verify", str(path), *files)
    hostile = [c for c in told if not c.isprintable() and c != "\n"]
    if hostile or "--debug shows where" in told or not told.strip() or code not in (0, 1, 2):
        raise Unclear(f"exit {code}, {hostile}: {told[-600:]}")
    verdicts = [line for line in told.splitlines() if line.startswith("The settlement holds")]
    assert bool(verdicts) == (code == 0), told
    if code == 0:
        data = json.loads(path.read_bytes())
        assert any(_same(data, json.loads(seed)) for seed in TARGET.seeds), told
    return ("holds", "does not hold" if "does NOT hold" in told else "refused", "refused")[code]


DEFAULTS = {field.name: field.default for field in fields(Job)}


def _same(one: Any, other: Any) -> bool:
    """Equal but for what `verify` said that nothing can check; what is left out is a default."""
    one = {"diagnosis": other.get("diagnosis")} | copy.deepcopy(one)
    other = {"diagnosis": None} | other
    one["valuation"] = {k: v for k, v in other["valuation"].items() if v is None} | one["valuation"]
    usual = {k: v for k, v in other["record"]["job"].items() if DEFAULTS.get(k) == v}
    one["record"]["job"] = usual | one["record"]["job"]
    for data in (one, other):  # of the rest of the record it says that it did not look at it
        known = ("inputs", "command", "job", "versions", "findings")
        record = {"findings": []} | data["record"]
        data["record"] = {key: record.get(key) for key in known}
    for data in (one, other):
        for line in data["payments"]:  # ends of intervals may differ by rounding
            line |= {end: line[end] is None for end in ("low", "high")}
        notes = data["valuation"]["notes"] or ()
        data["valuation"]["notes"] = [note for note in notes if not OF_FILES.search(note)]
        data["seal"] = data["valuation"]["n_computed"] = data["record"]["versions"] = None
    if one["valuation"]["version"] != other["valuation"]["version"]:  # words are the reader's
        for data in (one, other):
            data["valuation"]["notes"] = data["valuation"]["version"] = None
            data["record"]["findings"] = None
    reasons = (one.pop("diagnosis"), other.pop("diagnosis"))
    return _near(one, other) and _near(*reasons)


def _near(one: Any, other: Any, part: float = 1e-8) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(_near(one[key], other[key], part) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other, repeat(part)))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= part * max(1, abs(one), abs(other))
    return bool(one == other)


TARGET = Target("settlement", "settlement.json", corpus, read, mutate)


@given(CASES)
@settings(max_examples=120)
def test_any_settlement_ends_clearly(case: int) -> None:
    check(TARGET, case)
