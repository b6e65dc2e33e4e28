"""Lines between processes of one user on one machine: Unix sockets with a key beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing.connection import Listener
from pathlib import Path
from secrets import token_bytes
from threading import Event, Thread

from dushapley.federated.messages import MOST_BYTES
from dushapley.federated.owner import Owner

PAUSE = 0.05
"""Seconds after a line that broke."""


def listener(socket: Path) -> Listener:
    """A socket that only who can read its key can use; both are for this user's eyes only."""
    key = token_bytes(32)
    handle = os.open(socket.with_suffix(".key"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(key)
    socket.unlink(missing_ok=True)
    return Listener(str(socket), "AF_UNIX", backlog=64, authkey=key)


class OwnersHere:
    """Owners in this process that answer what Flower's relays bring, in a thread.

    Parameters
    ----------
    owners
        One, or for a simulation several: the relay says by number whom it asks.
    socket
        Where to listen.
    """

    def __init__(self, owners: Sequence[Owner], socket: Path) -> None:
        self.owners, self._listener = list(owners), listener(socket)
        self._over = Event()
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                with self._listener.accept() as line:
                    number, question = int(line.recv_bytes(20)), line.recv_bytes(MOST_BYTES)
                    owner = self.owners[number % len(self.owners)]
                    line.send_bytes(owner.answer(question))
            except Exception:  # it has hung up, has not the key, or is no relay: others still ask
                self._over.wait(PAUSE)

    def close(self) -> None:
        """Answer nobody any more."""
        self._over.set()
        self._listener.close()
