"""What a federation costs in rounds, messages and bytes, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEAD = 600
"""Bytes of a message besides its arrays, about."""
MOST_NAMED = 10
"""Owners whose share is told in a note; the details of a result have all."""


def bytes_each(pools: int, classes: int, width: int) -> int:
    """Bytes between coordinator and one owner in one round of so many pools, about.

    An owner is in half of the pools, gets their weights and sends as many numbers back.
    """
    return HEAD * 2 + pools // 2 * (2 * 8 * classes * width + classes + 16)


def in_words(account: Mapping[str, Any]) -> str:
    """What passed, in a sentence."""
    owners = account["owners"]
    parts = [
        f"{name} {t['messages']:,} messages, {size(t['bytes_sent'] + t['bytes_received'])}"
        + (f", {t['answered']['refused']} refused" if t["answered"].get("refused") else "")
        for name, t in list(owners.items())[:MOST_NAMED]
    ]
    more = f"; and {len(owners) - MOST_NAMED} more" if len(owners) > MOST_NAMED else ""
    return (
        f"The federation took {account['rounds']:,} rounds, {account['messages']:,} messages and "
        f"{size(account['bytes'])} ({'; '.join(parts)}{more})."
    )


def size(n_bytes: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(900), size(1_500_000)
    ('900 B', '1.5 MB')
    """
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"
