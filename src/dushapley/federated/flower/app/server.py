"""Flower's ServerApp as a relay: the coordinator, a process of its own, sends and receives by it.

One line to the coordinator: a JSON request, then one message for each address that it names.
"""

import json
import os
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()
EVERY = 0.2
"""Seconds between two looks for answers."""
LOOK_AROUND = 2.0
"""Seconds without any answer after which owners that are new are looked for."""
AFTERWARDS = 5.0
"""Seconds in which Flower must have taken note of the end: a SuperLink that is dead never does."""
SENT: dict[str, tuple[str, bytes]] = {}
"""Messages without an answer: to whom, and what. One that is asked again may be answered late."""
KNOWN: set[str] = set()
"""Addresses that the coordinator has been told."""
ARRIVED: SimpleQueue[tuple[str, bytes | Exception | None]] = SimpleQueue()
"""Answers by the message that they answer; None: Flower says that there will be none."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry messages until the coordinator hangs up."""
    socket = str(context.run_config["socket"])
    requests: SimpleQueue[tuple[dict[str, Any], dict[str, bytes]] | None] = SimpleQueue()
    with Client(socket, "AF_UNIX", authkey=Path(socket).with_suffix(".key").read_bytes()) as line:
        Thread(target=read, args=(line, requests), daemon=True).start()
        while (request := requests.get()) is not None:
            serve(grid, line, *request)


def read(line: Connection, requests: SimpleQueue[Any]) -> None:
    """Read requests in a thread, which sees the end also while Flower does not answer."""
    try:
        while True:
            request = json.loads(line.recv_bytes())
            requests.put((request, {a: line.recv_bytes() for a in request.get("to", ())}))
    except (EOFError, OSError):
        requests.put(None)
        time.sleep(AFTERWARDS)
        os._exit(0)


def serve(
    grid: Grid, line: Connection, request: dict[str, Any], contents: dict[str, bytes]
) -> None:
    """One request: who is there, or messages to some of them."""
    if request["what"] == "addresses":
        KNOWN.update(there := reached(grid))
        line.send_bytes(json.dumps(sorted(there)).encode())
        return
    replies = exchange(grid, contents, request["seconds"])
    line.send_bytes(json.dumps(list(replies)).encode())
    for reply in replies.values():
        line.send_bytes(reply)


def reached(grid: Grid) -> set[str]:
    """Addresses of the owners that are there."""
    return {str(node) for node in grid.get_node_ids()}


def exchange(grid: Grid, contents: dict[str, bytes], seconds: float) -> dict[str, bytes]:
    """Answers that came in time; earlier, if somebody new is there while another is missed."""
    there = reached(grid)
    ask(grid, {address: c for address, c in contents.items() if address in there}, seconds)
    replies: dict[str, bytes] = {}
    until = time.monotonic() + seconds
    while len(replies) < len(contents) and time.monotonic() < until:
        try:
            identity, reply = ARRIVED.get(timeout=LOOK_AROUND)
        except Empty:
            now = reached(grid)
            if now - KNOWN:
                break
            KNOWN.intersection_update(now)  # who leaves and comes back is new, too
            continue
        if isinstance(reply, Exception):
            raise reply
        address, content = SENT.pop(identity)
        if reply is not None and contents.get(address) == content:
            replies[address] = reply
    return replies


def ask(grid: Grid, contents: dict[str, bytes], seconds: float) -> None:
    """Send a message to each address, and listen for its answer."""
    messages = [
        Message(
            content=RecordDict({"message": ConfigRecord({"bytes": content})}),
            message_type="query",
            dst_node_id=int(address),
            ttl=max(3 * seconds, 60.0),  # late answers count as well
        )
        for address, content in contents.items()
    ]
    for identity, question in zip(grid.push_messages(messages), contents.items(), strict=True):
        if identity:
            SENT[identity] = question
            Thread(target=listen, args=(grid, identity), daemon=True).start()


def listen(grid: Grid, identity: str) -> None:
    """Wait for the answer to one message, in a thread of its own.

    Flower announces an answer before its content is there, and then waits minutes for the rest: if
    a SuperNode is killed in between, nobody else's answer may wait with it.
    """
    try:
        while not (replies := list(grid.pull_messages([identity]))):
            time.sleep(EVERY * (1 + len(SENT) / 10))  # many together must not flood the SuperLink
        none = replies[0].has_error()
        ARRIVED.put((identity, None if none else bytes(replies[0].content["message"]["bytes"])))
    except Exception as error:  # whatever it is ends the relay, and with it the coordinator's line
        ARRIVED.put((identity, error))
