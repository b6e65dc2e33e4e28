"""Flower's programs: where they are, how they are started, and how they end with us."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from dushapley.arrays import Names
from dushapley.errors import FederationFailed, InvalidOption
from dushapley.processes import die_with_parent
from dushapley.terminal import printable

APP = Path(__file__).parent / "app"
SWITCHES = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # else it looks for packages by network
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",  # of seconds that a message waits; asking costs
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
"""How Flower is to behave."""
COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
LONGEST = 60
"""Letters of a folder's name that leave room for a socket's, which may have 107 with it."""


def folder_of_programs() -> Path:
    """Where Flower's programs are: as $DUSHAPLEY_FLOWER says, beside Python, or on the path."""
    told = os.environ.get("DUSHAPLEY_FLOWER")
    found = shutil.which("flower-supernode")
    places = [Path(sys.executable).parent, *([Path(found).parent] if found else [])]
    for place in [Path(told)] if told else places:
        if (place / "flower-supernode").exists() and (place / "flower-superlink").exists():
            return place
    raise InvalidOption(
        "Flower is not installed here, and a federation needs it. Install it with "
        "`pip install 'dushapley[federated]'`, or name the folder of its programs in the variable "
        "DUSHAPLEY_FLOWER."
    )


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def given_files(options: Mapping[str, Path | None]) -> list[str]:
    """Options of Flower's that name a file, without those that were not given."""
    paths = {name: str(path.resolve()) for name, path in options.items() if path is not None}
    return [word for pair in paths.items() for word in pair]


def refuse_open(address: str, *, insecure: bool, files: Mapping[str, Path | None]) -> None:
    """Refuse to talk beyond this machine without encryption and keys, whatever was asked."""
    if address.rpartition(":")[0] in LOCAL:
        return
    if insecure:
        raise InvalidOption(
            f"--insecure was given for {address}, which is not this machine; it is for addresses "
            "like 127.0.0.1:9092 only. Give certificates and keys instead: "
            f"{', '.join(files)}."
        )
    lacking = [name for name, path in files.items() if path is None]
    if lacking:
        raise InvalidOption(
            f"{address} is not this machine, so messages must be encrypted and owners known by "
            f"their keys; {' and '.join(lacking)} are missing. docs/federated.md shows how they "
            "are made."
        )
    for name, path in files.items():
        if path is not None and not path.is_file():
            raise InvalidOption(f"{name} {path} is not a file.")


class Closing(ABC):
    """Something that is closed at the end of its `with`."""

    @abstractmethod
    def close(self) -> None:
        """End what runs and remove what was made for it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Program:
    """A program of Flower's with all its children, ended together.

    Parameters
    ----------
    command
        Name and arguments.
    home
        A folder of its own, for its settings and log.
    first
        A folder whose programs are found before Flower's.
    """

    def __init__(self, command: Names, home: Path, first: Path | None = None) -> None:
        programs = folder_of_programs()
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"{Path(command[0]).name}.log"
        paths = [*([str(first)] if first else []), str(programs), os.environ.get("PATH", "")]
        without = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        environment = {**without, **SWITCHES, "FLWR_HOME": str(home), "PATH": ":".join(paths)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  # a program of Flower's, no shell
                [str(programs / command[0]), *command[1:]],  # or of another place, by its path
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509  # one call of the system's
            )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def tail(self, lines: int = 5) -> str:
        """The end of what it said, without colours."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        said = [line for line in COLOURS.sub("", text).splitlines() if line.strip()]
        return "\n".join(printable(line.rstrip()) for line in said[-lines:])

    def ended(self) -> str:
        """How it ended, and why if it has said so."""
        _, known, words = self.tail(20).rpartition("Exit Code: ")
        why = " ".join(words.partition("For more")[0].split())
        return f" with code {self.process.poll()}" + (f", Flower's {why}" if known else "")

    def close(self, how: int = signal.SIGTERM) -> None:
        """End it and all that it started."""
        for kind in (how, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, kind)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
                break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # children that stayed behind


def wait_for_port(program: Program, host: str, port: int, seconds: float = 60.0) -> None:
    """Wait until a program listens, or say how it ended."""
    until = monotonic() + seconds
    while program.runs and monotonic() < until:
        with suppress(OSError), socket.create_connection((host, port), 1.0):
            return
        sleep(0.2)
    raise FederationFailed(
        f"Flower's {program.log.stem} does not listen on {host}:{port}. It said:\n{program.tail()}"
    )


STARTER = """# hands its words to a process that has imported Flower already
import os, socket, sys
try:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect({socket!r})
        line.sendall("\\0".join(sys.argv[1:]).encode())
except OSError:  # not there yet, or not any more
    os.execv(sys.executable, [sys.executable, {app!r}, *sys.argv[1:]])
"""


def own_clientapp(home: Path) -> tuple[Path, Names]:
    """A folder with a program that answers in the place of Flower's, and what must run beside it.

    See `app.clientapp`.
    """
    folder, app, socket = home / "bin", str(APP / "clientapp.py"), str(home / "relay.sock")
    folder.mkdir(parents=True, exist_ok=True)
    python = interpreter(folder_of_programs() / "flwr-clientapp")
    starter, script = folder / "starter.py", folder / "flwr-clientapp"
    starter.write_text(STARTER.format(socket=socket, app=app), encoding="utf-8")
    command = shlex.join([python, "-IS", str(starter)])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return folder, (python, app, "--wait", socket)


def interpreter(script: Path) -> str:
    """The Python that runs a script; pip writes longer paths as a command of the shell."""
    first, second = [*script.read_text(encoding="utf-8").splitlines(), ""][:2]
    return shlex.split(second)[1] if first == "#!/bin/sh" else first[2:].strip()
