"""What a federation costs in rounds, messages and bytes, before and after."""

from __future__ import annotations

from dushapley.arrays import AnyMapping

HEAD = 600
"""Bytes of a message besides its arrays, about."""
MOST_NAMED = 10
"""Owners whose share is told in a note; the details of a result have all."""


def bytes_each(pools: int, classes: int, width: int) -> int:
    """Bytes between coordinator and one owner in one round of so many pools, about.

    An owner is in half of the pools, gets their weights and sends as many numbers back.
    """
    return HEAD * 2 + pools // 2 * (2 * 8 * classes * width + classes + 16)


def in_words(account: AnyMapping) -> str:
    """What passed, in a sentence."""
    parts = []
    for name, passed in account["owners"].items():
        sent = size(passed["bytes_sent"] + passed["bytes_received"])
        refused = passed["answered"].get("refused")
        told = f", {refused} refused" if refused else ""
        parts.append(f"{name} {passed['messages']:,} messages, {sent}{told}")
    more = f"; and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    named, whole = "; ".join(parts[:MOST_NAMED]), size(account["bytes"])
    return (
        f"The federation took {account['rounds']:,} rounds, {account['messages']:,} messages and "
        f"{whole} ({named}{more})."
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
