"""Level "sums": each owner's sums are asked once, and every pool is arithmetic from there on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.data.owners import Owners
from dushapley.data.summaries import Kind, Statistics
from dushapley.errors import FederationFailed, InvalidOwners
from dushapley.federated.messages import Message
from dushapley.federated.schema import Agreement

if TYPE_CHECKING:
    from dushapley.federated.coordinator import Federation


def summed_owners(federation: Federation, agreement: Agreement) -> Owners:
    """Owners of the statistics that each answers, as if they had handed over files of them.

    Bit for bit the game on pooled rows: additive models are trained from sums in either.
    """
    kind: Kind = "regression" if agreement.classes is None else "classification"
    columns = (*agreement.columns, agreement.target)
    question = Message("sums", {"statistics": kind})

    def check(name: str, answer: Message) -> Statistics:
        return _statistics(name, kind, answer, agreement, federation.members[name].rows, columns)

    parts = federation.ask(dict.fromkeys(federation.members, question), check)
    return Owners.from_statistics(list(parts.values()))


def _statistics(
    name: str, kind: Kind, answer: Message, agreement: Agreement, rows: int, columns: Any
) -> Statistics:
    """Statistics that an owner answered, checked like a file of them."""
    arrays = dict(answer.arrays)
    if kind == "classification":
        labels = answer.about.get("labels")
        if not isinstance(labels, list) or not set(map(repr, labels)) <= set(
            map(repr, agreement.classes or ())
        ):
            raise FederationFailed("its labels are not those that were agreed")
        arrays["classes"] = np.array(labels)
    told = answer.about.get("n_rows"), answer.about.get("n_features")
    if told != (rows, agreement.width):
        raise FederationFailed(f"it is of {told[0]} rows and {told[1]} columns")
    encoded = columns if len(columns) == agreement.width + 1 else ()
    made = Statistics(name, kind, rows, agreement.width, arrays, encoded)
    try:
        made.check()
    except InvalidOwners as fault:
        raise FederationFailed(str(fault).rstrip(".")) from None
    except KeyError as missing:
        raise FederationFailed(f"it lacks {missing}") from None
    return made
