"""The coordinator's SuperLink, and the transport that runs over it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

from dushapley.arrays import AnyMapping, Names
from dushapley.errors import FederationFailed
from dushapley.federated.flower.programs import (
    APP,
    LONGEST,
    Closing,
    Program,
    free_port,
    given_files,
    refuse_open,
    wait_for_port,
)
from dushapley.federated.flower.sockets import OwnersHere, listener
from dushapley.federated.messages import MOST_BYTES
from dushapley.federated.owner import Owner
from dushapley.federated.transport import Contents
from dushapley.processes import own_folder

START = 120.0
"""Seconds in which Flower's programs must be there."""
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104  # with keys only
"""What means all addresses of a machine, and its own for itself."""
GRACE = 30.0
"""Seconds beyond those of an exchange in which the relay must have answered."""
PROJECT = """[project]
name = "relay"
version = "1.0.0"
description = "messages of dushapley"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.30"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.flwr.app]
publisher = "dushapley"
fab-format-version = 1
flwr-version-target = "1.30.0"

[tool.flwr.app.components]
serverapp = "relay.server:app"
clientapp = "relay.client:app"

[tool.flwr.app.config]
socket = "{socket}"
owners = "{owners}"
"""


@dataclass(frozen=True)
class Link:
    """How a SuperLink listens.

    Attributes
    ----------
    address
        host:port; of another machine's view, unless it is this one's alone.
    insecure
        Without encryption, which is allowed on this machine only.
    certificate, key, root_certificate
        The SuperLink's certificate, its key, and the certificate that vouches for it.
    owners_keys
        A file of the public keys of the owners that may join, one a line.
    """

    address: str
    insecure: bool = False
    certificate: Path | None = None
    key: Path | None = None
    root_certificate: Path | None = None
    owners_keys: Path | None = None

    def refuse_open(self) -> None:
        """Refuse what would travel readable, or to somebody unknown."""
        refuse_open(
            self.address,
            insecure=self.insecure,
            files={
                "--certificate": self.certificate,
                "--key": self.key,
                "--root-certificate": self.root_certificate,
                "--owners-keys": self.owners_keys,
            },
        )

    @property
    def own_address(self) -> str:
        """Where this machine finds it; "all addresses" is none that a certificate could name."""
        host, _, port = self.address.rpartition(":")
        return f"{EVERYWHERE.get(host, host)}:{port}"

    @property
    def is_open(self) -> bool:
        """Whether nothing is encrypted."""
        return self.insecure or self.certificate is None

    def arguments(self) -> list[str]:
        """As Flower takes them."""
        host, _, port = self.address.rpartition(":")
        place = ["--host", host, "--port", port, "--disable-runtime-dependency-installation"]
        if self.is_open:
            return ["--insecure", *place]
        files = {
            "--ssl-certfile": self.certificate,
            "--ssl-keyfile": self.key,
            "--ssl-ca-certfile": self.root_certificate,
        }
        known = [] if self.owners_keys is None else ["--enable-supernode-auth"]
        return [*given_files(files), *known, *place]


class Flower(Closing):
    """A transport over Flower: SuperNodes, or a simulation of many on this machine.

    Parameters
    ----------
    link
        How the SuperLink listens; None: on a free port of this machine.
    simulated
        Owners of this process, for Flower's simulation engine; None: SuperNodes come by themselves.

    Attributes
    ----------
    address
        Where SuperNodes find the SuperLink.
    """

    def __init__(
        self, link: Link | None = None, *, simulated: Sequence[Owner] | None = None
    ) -> None:
        self.link = link or Link(f"127.0.0.1:{free_port()}", insecure=True)
        self.link.refuse_open()
        self.address = self.link.address
        self.home = own_folder(LONGEST)
        self._line: Connection | None = None
        self.simulated = simulated
        socket = self.home / "owners.sock"
        self._there = None if simulated is None else OwnersHere(simulated, socket)
        more = [] if simulated is None else ["--simulation"]
        self._superlink = Program(
            ["flower-superlink", *self.link.arguments(), *more], self.home / "link"
        )
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        host, _, port = self.link.own_address.rpartition(":")
        wait_for_port(self._superlink, host.strip("[]"), int(port), START)
        socket = self.home / "coordinator.sock"
        waiting = listener(socket)
        found: list[Connection] = []
        accepting = Thread(target=lambda: found.append(waiting.accept()), daemon=True)
        accepting.start()
        self._register()
        size = f"num-supernodes={len(self.simulated or ())}"
        many = [] if self.simulated is None else ["--federation-config", size]
        self._flwr("run", str(self._project(socket)), "here", *many)
        accepting.join(START)
        waiting.close()
        if not found:
            raise FederationFailed(
                "Flower did not start the relay of the coordinator. Its SuperLink said:\n"
                f"{self._superlink.tail()}"
            )
        self._line = found[0]

    def _register(self) -> None:
        """Tell Flower's command where the SuperLink is, and the SuperLink whom it may let in."""
        home = self.home / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        safe = (
            "insecure = true"
            if self.link.is_open
            else f'root-certificates = "{Path(str(self.link.root_certificate)).resolve()}"'
        )
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "here"\n\n'
            f'[superlink.here]\naddress = "{self.link.own_address}"\n{safe}\n'
        )
        if self.link.owners_keys is not None:
            for number, line in enumerate(self.link.owners_keys.read_text().splitlines()):
                if line.strip() and not line.startswith("#"):
                    key = self.home / f"owner-{number}.pub"
                    key.write_text(line + "\n", encoding="utf-8")
                    self._flwr("supernode", "register", str(key), "here")

    def _flwr(self, *arguments: str) -> None:
        """Run Flower's command to its end."""
        program = Program(["flwr", *arguments], self.home / "flwr")
        try:
            code = program.process.wait(START)
        except Exception as error:
            raise FederationFailed(f"flwr {arguments[0]} did not end: {error}") from error
        finally:
            program.close()
        if code != 0:
            raise FederationFailed(f"flwr {arguments[0]} failed. It said:\n{program.tail(12)}")

    def _project(self, socket: Path) -> Path:
        """The app that the SuperLink is given: two relays."""
        folder = self.home / "app"
        (folder / "relay").mkdir(parents=True)
        for name in ("server.py", "client.py"):
            shutil.copy(APP / name, folder / "relay" / name)
        (folder / "relay" / "__init__.py").write_text("")
        (folder / "LICENSE").write_text("As dushapley.\n")
        text = PROJECT.format(socket=socket, owners=self.home / "owners.sock")
        (folder / "pyproject.toml").write_text(text, encoding="utf-8")
        return folder

    def addresses(self) -> Names:
        return [str(address) for address in self._asked({"what": "addresses"})]

    def exchange(self, questions: Contents, seconds: float) -> Contents:
        answered = self._asked(
            {"what": "exchange", "to": list(questions), "seconds": seconds},
            questions.values(),
            seconds,
        )
        assert self._line is not None
        return {str(address): self._line.recv_bytes(MOST_BYTES) for address in answered}

    def _asked(self, request: AnyMapping, contents: Any = (), seconds: float = 0.0) -> list[Any]:
        """What the relay answers to a request."""
        try:
            return self._talked(json.dumps(request).encode(), contents, seconds + GRACE)
        except (EOFError, OSError, ValueError) as error:
            raise FederationFailed(
                f"The line to Flower's SuperLink broke ({error}). Run the same again: what was "
                f"paid is in the ledger. The SuperLink said:\n{self._superlink.tail()}"
            ) from error

    def _talked(self, request: bytes, contents: Any, seconds: float) -> list[Any]:
        if self._line is None:
            raise EOFError("it is closed")
        self._line.send_bytes(request)
        for content in contents:
            self._line.send_bytes(content)
        until = monotonic() + seconds
        while not self._line.poll(1.0):
            if not self._superlink.runs:
                raise EOFError(
                    f"its process has ended with code {self._superlink.process.returncode}"
                )
            if monotonic() > until:
                raise EOFError("it does not answer")
        return list(json.loads(self._line.recv_bytes(MOST_BYTES)))

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        self._superlink.close()
        if self._there is not None:
            self._there.close()
        shutil.rmtree(self.home, ignore_errors=True)
