"""Owners who keep their rows: valuation over a real federation.

`Owner` answers questions about its rows under its own `Policy`; a `Federation` asks all owners in
rounds; `FederatedGame` makes an ordinary game of it. How messages travel is a `Transport`:
`InProcess`, or Flower (`dushapley.federated.flower`).
"""

from dushapley.federated.coordinator import Federation
from dushapley.federated.game import FederatedGame
from dushapley.federated.messages import Message
from dushapley.federated.owner import Owner
from dushapley.federated.policy import LEVELS, Log, Policy
from dushapley.federated.schema import Agreement, Table
from dushapley.federated.transport import InProcess, Transport

__all__ = [
    "LEVELS",
    "Agreement",
    "FederatedGame",
    "Federation",
    "InProcess",
    "Log",
    "Message",
    "Owner",
    "Policy",
    "Table",
    "Transport",
]
