"""Level "sums": each owner's sums are asked once, and every pool is arithmetic from there on."""

from __future__ import annotations

import numpy as np

from dushapley.data.owners import Owners
from dushapley.data.summaries import Kind, Statistics
from dushapley.errors import FederationFailed, InvalidOwners
from dushapley.federated.coordinator import Federation
from dushapley.federated.messages import Message
from dushapley.federated.schema import Agreement


def summed_owners(federation: Federation, agreement: Agreement) -> Owners:
    """Ask owners for their statistics, as if they had handed over files of them.

    Bit for bit the game on pooled rows: additive models are trained from sums in either.
    """
    kind: Kind = "regression" if agreement.classes is None else "classification"
    columns = (*agreement.columns, agreement.target)

    def check(name: str, answer: Message) -> Statistics:
        """Statistics that an owner answered, checked like a file of them."""
        arrays, about = dict(answer.arrays), answer.about
        if agreement.classes is not None:
            labels, known = about.get("labels"), set(map(repr, agreement.classes))
            if not isinstance(labels, list) or not set(map(repr, labels)) <= known:
                raise FederationFailed("its labels are not those that were agreed")
            arrays["classes"] = np.array(labels)
        rows, width = federation.members[name].rows, agreement.width
        told = about.get("n_rows"), about.get("n_features")
        if told != (rows, width):
            raise FederationFailed(f"it is of {told[0]} rows and {told[1]} columns")
        encoded = columns if len(columns) == width + 1 else ()
        made = Statistics(name, kind, rows, width, arrays, encoded)
        try:
            made.check()
        except InvalidOwners as fault:
            raise FederationFailed(str(fault).rstrip(".")) from None
        except KeyError as missing:
            raise FederationFailed(f"it lacks {missing}") from None
        return made

    parts = federation.ask(
        dict.fromkeys(federation.members, Message("sums", {"statistics": kind})), check
    )
    return Owners.from_statistics(list(parts.values()))
