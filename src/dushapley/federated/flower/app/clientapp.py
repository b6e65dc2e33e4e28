"""What a SuperNode of ours runs in the place of `flwr-clientapp`: the owner's own relay.

A SuperLink sends every SuperNode the code that is to answer its messages. Here that code is not
run, nor even unpacked: whatever was sent, the relay that the owner has installed answers. If Flower
is put together otherwise than is known here, nothing runs.

Flower starts this for every message, and importing Flower takes longer than answering. So one
process (`clientapp.py --wait SOCKET`) imports it once and makes a copy of itself for each message.
"""

import os
import runpy
import signal
import socket
import sys
from pathlib import Path

import flwr.supernode.runtime.run_clientapp as runtime
from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

app = runpy.run_path(str(Path(__file__).with_name("client.py")))["app"]
REPLACED = ("install_from_fab", "get_load_client_app_fn", "install_app_dependencies")


def own_code() -> None:
    """Put the owner's relay where Flower would load what it was sent."""
    missing = [name for name in REPLACED if not hasattr(runtime, name)]
    if missing:
        sys.exit(f"This version of Flower has no {missing[0]}; its code could not be kept out.")
    runtime.install_from_fab = lambda *_, **__: None
    runtime.install_app_dependencies = lambda *_, **__: None
    runtime.get_load_client_app_fn = lambda *_, **__: lambda *_, **__: app


def copied(path: str) -> list[str]:
    """Wait for command lines; this returns in a copy of this process, with the words of one."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that have ended leave nothing behind
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(path)
        here.listen(64)
        while True:
            with here.accept()[0] as line:
                words = b"".join(iter(lambda: line.recv(4096), b"")).decode()
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    return words.split("\0")


if __name__ == "__main__":
    own_code()
    if sys.argv[1:2] == ["--wait"]:
        sys.argv[1:] = copied(sys.argv[2])
    flwr_clientapp()
