"""What was paid, on disk: the file, its rows and values, who was in its pools, and its rescue."""

from dushapley.engine.ledger.file import Ledger, Members
from dushapley.engine.ledger.members import (
    members_of,
    paid_answers,
    paid_pools,
    roster_of,
)
from dushapley.engine.ledger.salvage import salvage
from dushapley.engine.ledger.tables import FORMAT

__all__ = [
    "FORMAT",
    "Ledger",
    "Members",
    "members_of",
    "paid_answers",
    "paid_pools",
    "roster_of",
    "salvage",
]
