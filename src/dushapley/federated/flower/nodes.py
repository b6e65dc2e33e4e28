"""An owner's SuperNode: started beside the owner's process, and again whenever it dies."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from dushapley.arrays import Names
from dushapley.federated.flower.programs import (
    LONGEST,
    Closing,
    Program,
    free_port,
    given_files,
    own_clientapp,
    refuse_open,
)
from dushapley.federated.flower.sockets import OwnersHere
from dushapley.federated.owner import Owner
from dushapley.processes import own_folder

REVIVE = 1.0
"""Seconds between two looks whether the SuperNode still runs."""


@dataclass(frozen=True)
class Access:
    """How an owner reaches a SuperLink.

    Attributes
    ----------
    address
        host:port of the SuperLink.
    insecure
        Without encryption, which is allowed on this machine only.
    root_certificate
        The certificate by which the SuperLink is known.
    private_key
        The key by which the SuperLink knows this owner.
    """

    address: str
    insecure: bool = False
    root_certificate: Path | None = None
    private_key: Path | None = None

    def refuse_open(self) -> None:
        """Refuse what would travel readable, or to somebody unknown."""
        refuse_open(
            self.address,
            insecure=self.insecure,
            files={"--root-certificate": self.root_certificate, "--private-key": self.private_key},
        )

    def arguments(self) -> list[str]:
        """As Flower takes them."""
        if self.insecure or (self.root_certificate is None and self.private_key is None):
            return ["--insecure", "--superlink", self.address]
        files = {
            "--root-certificates": self.root_certificate,
            "--auth-supernode-private-key": self.private_key,
        }
        return ["--superlink", self.address, *given_files(files)]


class Node(Closing):
    """An owner with its SuperNode; no port of it is open to other machines.

    Parameters
    ----------
    owner
        Who answers.
    access
        Which SuperLink.
    revive
        Whether a SuperNode that dies is started again.
    tell
        Is told when a SuperNode starts.
    """

    def __init__(
        self,
        owner: Owner,
        access: Access,
        *,
        revive: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        access.refuse_open()
        self.home = own_folder(LONGEST)
        self.socket = self.home / "owner.sock"
        self.access, self.revive, self.tell = access, revive, tell
        self._bin, self._relay = own_clientapp(self.home)
        self.here = OwnersHere([owner], self.socket)
        self._over = Event()
        self.program, self._beside = self._start()
        self._watch = Thread(target=self._keep, daemon=True)
        self._watch.start()

    def _start(self) -> tuple[Program, Program]:
        """The SuperNode, and the process that answers what it brings."""
        command: Names = (
            "flower-supernode",
            *self.access.arguments(),
            "--host", "127.0.0.1", "--port", str(free_port()),
            "--node-config", f'socket="{self.socket}"',
        )  # fmt: skip
        beside = Program(self._relay, self.home)
        program = Program(command, self.home, first=self._bin)
        self.tell(f"SuperNode started, process {program.process.pid}")
        return program, beside

    def _keep(self) -> None:
        while not self._over.wait(REVIVE):
            if self.revive and not self.program.runs:
                self.tell(f"SuperNode ended{self.program.ended()}; it is started again")
                self._end()  # what it has left behind
                self.program, self._beside = self._start()

    def _end(self) -> None:
        self.program.close()
        self._beside.close()

    def kill(self) -> None:
        """End the SuperNode as a fault would; the owner's process stays."""
        self.program.close(signal.SIGKILL)

    def wait(self) -> None:
        """Stay until somebody ends this."""
        self._over.wait()

    def close(self) -> None:
        """End the SuperNode and answer nobody any more."""
        self._over.set()
        self._watch.join(5)
        self._end()
        self.here.close()
        shutil.rmtree(self.home, ignore_errors=True)
