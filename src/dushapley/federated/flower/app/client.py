"""Flower's ClientApp as a relay: it hands a message to the owner's process and takes its answer.

The rows are in that process; this one never sees them.
"""

from multiprocessing.connection import Client
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Ask the owner, whose socket its SuperNode names; in a simulation the run does."""
    given = context.node_config if "socket" in context.node_config else context.run_config
    socket = str(given["socket"] if "socket" in context.node_config else given["owners"])
    with Client(socket, "AF_UNIX", authkey=Path(socket).with_suffix(".key").read_bytes()) as line:
        line.send_bytes(str(context.node_config.get("partition-id", 0)).encode())
        line.send_bytes(bytes(message.content["message"]["bytes"]))
        reply = line.recv_bytes()
    return Message(
        content=RecordDict({"message": ConfigRecord({"bytes": reply})}), reply_to=message
    )
