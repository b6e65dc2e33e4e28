"""What all fuzz targets share: a case is a number; from it a file is made, and read.

The property: a value that is right, or one of our errors, within limits of time and memory;
nothing executed, nothing left, no file changed.

Whoever adds a format adds `test_fuzz_FORMAT.py` beside this file, with a `TARGET` and one test:

    TARGET = Target("table", "rows.csv", corpus, read)

    @given(CASES)
    @settings(max_examples=100)
    def test_any_table_ends_clearly(case: int) -> None:
        check(TARGET, case)

`benchmarks/fuzz.py` and `make fuzz` find it by its name. One case by itself, with its file kept:

    python tests/fuzz/fuzzing.py table 1234
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from dushapley.errors import DUShapleyError
from dushapley.terminal import printable

SECONDS, BYTES = 10, 2**30
"""What reading one file may take: processor time, and memory beyond what the process had."""
CASES = st.integers(0, 2**40)
EXECUTED = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class",
            "os.fork", "socket.connect")  # fmt: skip
"""Audit events that no file that is read may cause."""
OURS = ("dushapley", "sklearn", "numpy", "lightgbm")
"""Models are copied through pickles of our own making."""


class Unclear(AssertionError):
    """An ending that is neither a right value nor one of our errors."""


class TooLong(BaseException):
    """No ending in time; not an Exception, so that nobody catches it."""


Mutation = Callable[[random.Random, bytes], bytes]


def bytewise(rng: random.Random, content: bytes) -> bytes:
    """Flip, cut, double, insert and overwrite some bytes."""
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        a, b = sorted((rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)))
        b = min(b, a + rng.choice((1, 4, 50, 5000)))
        new = rng.choice((b"", rng.randbytes(b - a), content[a:b] * 2, rng.choice(TOKENS)))
        content = content[:a] + new + content[b:]
    return content if rng.random() > 0.1 else content[: rng.randrange(len(content) + 1)]


TOKENS = (
    b"\x00", b"\xff" * 8, b"\x1b[2J", b"\xe2\x80\xae", b"\n", b'"', b",", b"nan", b"-1", b"1e999",
    b"9" * 400, b"{" * 3000, b"[" * 200_000, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"'; --",
    b"__import__", b"../../x", b"%s%n", b"\xed\xa0\x80",
)  # fmt: skip
"""Bytes that have broken readers of files before."""


@dataclass(frozen=True)
class Target:
    """A kind of file that we read.

    Attributes
    ----------
    name
        Of the format, for messages and for the name of its module.
    file
        Name under which the file is put into a fresh folder.
    corpus
        Makes some files of this kind that are in order (and some that once were not).
    read
        Reads a file as a user would, and asserts that what comes of it is right; may return a
        word for how it ended.
    mutate
        What may have happened to such a file.
    """

    name: str
    file: str
    corpus: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    mutate: Mutation = bytewise

    @cached_property
    def seeds(self) -> Sequence[bytes]:
        """The corpus, made once."""
        return self.corpus()

    def content(self, case: int) -> bytes:
        """The file that a case stands for; the first cases are the corpus itself."""
        if case < len(self.seeds):
            return self.seeds[case]
        rng = random.Random(case)
        return self.mutate(rng, rng.choice(self.seeds))


def check(target: Target, case: int) -> str:
    """Read the file of a case; "value", or the name of the error that refused it."""
    try:
        return ending(target, target.content(case))
    except Unclear as error:
        again = f"python tests/fuzz/fuzzing.py {target.name} {case}"
        raise Unclear(f"{error}\nagain: {again}") from error.__cause__


def ending(target: Target, content: bytes) -> str:
    """How reading this content ends, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder, "inputs", target.file)
        for inside in (path.parent, Path(folder, "here"), Path(folder, "tmp")):
            inside.mkdir()
        path.write_bytes(content)
        before = _files(folder)
        how = _attempt(target.read, path)
        if (left := _files(folder)) != before or path.read_bytes() != content:
            raise Unclear(f"{how}, but left {left}")
        return how


def _attempt(read: Callable[[Path], object], path: Path) -> str:
    with ExitStack() as stack:
        for manager in (_folders(path.parents[1]), _limits(), _watched()):
            stack.enter_context(manager)
        try:
            named = read(path)
        except DUShapleyError as error:
            _check_message(str(error))
            return type(error).__name__
        except (Exception, TooLong, SystemExit) as error:
            raise Unclear(f"{type(error).__name__}: {str(error)[:500]}") from error
    return named if isinstance(named, str) else "value"


def _check_message(message: str) -> None:
    # a remedy holds the cell as it would be typed, rare kinds of space included
    hostile = [c for c in message if printable(c) != c and c != "\n"]
    if not message.strip() or hostile:
        raise Unclear(f"A message with {hostile[:5]}: {message[:200]!r}")


@contextmanager
def _folders(folder: Path) -> Iterator[None]:
    """Work in a folder of its own, and put temporary files into another."""
    here, temporary = Path.cwd(), tempfile.gettempdir()
    os.chdir(folder / "here")
    tempfile.tempdir = str(folder / "tmp")
    try:
        yield
    finally:
        os.chdir(here)
        tempfile.tempdir = temporary


@contextmanager
def _limits() -> Iterator[None]:
    """An alarm, and no more memory than there may be."""

    def late(*_: object) -> None:
        raise TooLong(f"no ending within {SECONDS} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGPROF, late)
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # others may keep the machine busy
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


_watching: list[bool] = []


def _audit(event: str, arguments: Any) -> None:
    copied = event == "pickle.find_class" and arguments[0].split(".")[0] in OURS
    if _watching and event in EXECUTED and not copied:
        raise Unclear(f"The file caused {event}{arguments!r:.200}")


@contextmanager
def _watched() -> Iterator[None]:
    """Refuse whatever would execute something."""
    if not hasattr(sys, "_fuzzing"):  # hooks stay for good, so one is enough
        sys.addaudithook(_audit)
        sys._fuzzing = True  # type: ignore[attr-defined]
    _watching.append(True)
    try:
        yield
    finally:
        _watching.pop()


def _files(folder: str) -> list[Path]:
    shared = Path("/dev/shm")
    ours = list(shared.glob(f"*_{os.getpid()}_*")) if shared.is_dir() else []
    return sorted(path for path in Path(folder).rglob("*") if not path.is_dir()) + ours


def find(name: str) -> Target:
    """The target of this name."""
    return import_module(f"test_fuzz_{name}").TARGET


def names() -> list[str]:
    """All targets there are."""
    inside = sorted(Path(__file__).parent.glob("test_fuzz_*.py"))
    return [path.stem.removeprefix("test_fuzz_") for path in inside]


def main() -> None:
    """One case with its file kept; or, for `benchmarks/fuzz.py`, a line for each of many cases."""
    target, numbers = find(sys.argv[1]), [int(text) for text in sys.argv[2:]]
    if len(numbers) == 1:
        kept = Path(f"case-{numbers[0]}-{target.file}")
        kept.write_bytes(target.content(numbers[0]))
        print(f"{kept}: {check(target, numbers[0])}")
        return
    answers = os.fdopen(os.dup(1), "w")  # targets may print
    for case in range(*numbers):
        answers.write(json.dumps({"begun": case}) + "\n")
        answers.flush()
        try:
            answer = {"case": case, "ending": check(target, case)}
        except Unclear as error:
            answer = {"case": case, "unclear": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent)
    sys.modules["fuzzing"] = sys.modules[__name__]
    main()
