"""How do thousands of damaged and forged files end? Counts by kind of file.

`python benchmarks/fuzz.py` reads as many files of each kind as `CASES` says and stores the counts
in `results/fuzz.json`; `make fuzz` (`--forever`) goes on with new ones until it is interrupted or
something is found. Each kind runs in a process of its own, which is watched from here: an ending
that is neither a right value nor one of our errors, a file that takes longer than 10 s, a process
that grows past 1 GB, and whatever is left behind are counted and shown.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FUZZING = HERE.parent / "tests" / "fuzz"
STORED = HERE / "results" / "fuzz.json"
CASES = {"settlement": 10_000, "ledger": 2_000, "sums": 500, "job": 1_000, "conversation": 500}
"""Files of each kind; all other kinds are tables and share `TABLES` of them evenly."""
TABLES = 2_000
SECONDS, BYTES = 60, 10**9
"""The frame's own alarm rings after 10 s of processor time; what waits for something, or cannot be
interrupted, is ended from here: after 60 s in which it computed nothing, or computed for so long.
"""


def watched(name: str, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Endings of these cases, in as many processes as it takes."""
    while start < stop:
        command = [sys.executable, str(FUZZING / "fuzzing.py"), name, str(start), str(stop)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            ended = False
            for answer in _answers(child):
                if "begun" in answer:
                    start = answer["begun"] + 1
                else:
                    ended = bool({"hang", "large"} & set(answer))
                    yield answer
            child.kill()
        if child.wait() == 0:
            return
        if not ended:  # it ended itself, in the middle of a file
            yield {"case": start - 1, "unclear": f"the process ended with {child.returncode}"}


def _answers(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """What the process says, until it ends, falls silent or grows too large."""
    assert child.stdout is not None
    waiting, case, spent, begun = b"", -1, -1.0, 0.0
    while True:
        ready, _, _ = select.select([child.stdout], [], [], SECONDS)
        if not ready:  # others may keep the machine busy
            before, spent = spent, _processor_time(child.pid)
            if spent in (before, 0.0) or spent > begun + SECONDS:
                yield {"case": case, "hang": f"no ending within {SECONDS} s"}
                return
            continue
        chunk = os.read(child.stdout.fileno(), 2**16)
        if not chunk:
            return
        *lines, waiting = (waiting + chunk).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            case = answer.get("begun", case)
            begun = _processor_time(child.pid)
            yield answer
        if (size := _largest(child.pid)) > BYTES:
            yield {"case": case, "large": f"{size / 1e9:.2f} GB"}
            return


def _processor_time(pid: int) -> float:
    """Seconds that a process has computed; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _largest(pid: int) -> int:
    """Most memory that a process has had, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line), 0)


def count(name: str, start: int, stop: int) -> dict[str, Any]:
    """Endings by kind, and what went wrong."""
    endings: Counter[str] = Counter()
    faults: list[dict[str, Any]] = []
    for answer in watched(name, start, stop):
        kind = next(iter({"unclear", "hang", "large"} & set(answer)), None)
        if kind == "unclear" and "but left" in answer[kind]:
            kind = "left"
        elif kind == "unclear" and "TooLong" in answer[kind]:
            kind = "hang"
        endings[kind or answer["ending"]] += 1
        if kind:
            faults.append(answer)
            print(f"{name} {answer}", file=sys.stderr)
    wrong = {kind: endings.pop(kind, 0) for kind in ("unclear", "hang", "large", "left")}
    files = sum(endings.values()) + sum(wrong.values())
    return {"files": files, **wrong, "endings": dict(endings.most_common()), "faults": faults}


def planned(names: list[str]) -> dict[str, int]:
    """How many files of each kind there are to be."""
    tables = [name for name in names if name not in CASES]
    return {n: CASES.get(n, -(-TABLES // max(len(tables), 1))) for n in names}


def forever(names: list[str]) -> None:
    """New cases in turn, until something is found."""
    for name in cycle(names):
        start = random.randrange(2**40)
        result = count(name, start, start + 200)
        print(f"{name} from {start}: {result['endings']}")
        if result["faults"]:
            sys.exit(f"python tests/fuzz/fuzzing.py {name} {result['faults'][0]['case']}")


def main() -> None:
    sys.path.insert(0, str(FUZZING))
    from fuzzing import names

    chosen = [word for word in sys.argv[1:] if not word.startswith("-")] or names()
    if "--forever" in sys.argv:
        forever(chosen)
    known = json.loads(STORED.read_text()) if STORED.exists() else {}
    for name in chosen:
        known[name] = count(name, 0, planned(names())[name])
        shown = {k: v for k, v in known[name].items() if k != "faults"}
        print(f"{name}: {shown}")
        STORED.write_text(json.dumps(known, indent=1) + "\n")
    sys.exit(bool(list(chain.from_iterable(known[name]["faults"] for name in chosen))))


if __name__ == "__main__":
    main()
