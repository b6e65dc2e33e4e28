"""How questions reach owners and answers come back: bytes by address, and nothing else.

What is asked and how answers are checked is the coordinator's (`coordinator`), what is answered the
owner's (`owner`). A transport only carries, and may lose, delay or repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dushapley.arrays import Names
from dushapley.federated.owner import Owner

Contents = Mapping[str, bytes]
"""Messages as bytes, by address."""


class Transport(Protocol):
    """Carries messages between a coordinator and addresses, of which some are owners.

    Addresses are whatever names the other end; an owner that is started again may have another.
    """

    def addresses(self) -> Names:
        """Who can be reached now."""

    def exchange(self, questions: Contents, seconds: float) -> Contents:
        """Send a message to each address; the answers that came within so many seconds."""


class InProcess:
    """Owners in this very process: for tests, and for a federation that is only tried out.

    Messages are the same bytes as between machines.

    Parameters
    ----------
    owners
        The owners, in any order.
    """

    def __init__(self, owners: Sequence[Owner]) -> None:
        self.owners = {f"here-{k}": owner for k, owner in enumerate(owners)}

    def addresses(self) -> Names:
        return list(self.owners)

    def exchange(self, questions: Contents, seconds: float) -> Contents:
        return {a: self.owners[a].answer(q) for a, q in questions.items() if a in self.owners}

    def close(self) -> None:
        self.owners = {}
