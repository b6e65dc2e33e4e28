"""What more rows like its own would earn an owner, as `value --growth` measured it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dushapley.settlement.settlement import Settlement

NOT_MEASURED = "What more rows like yours would earn was not measured: `value --growth` does."


def growth_sentences(settlement: Settlement | None, owner: str) -> list[str]:
    """The answer in words, or that it was not measured."""
    record: Any = None if settlement is None else settlement.record.get("growth")
    if not isinstance(record, Mapping) or owner not in record:
        return [NOT_MEASURED]
    return []
