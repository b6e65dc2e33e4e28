"""A picture of one's own on pages and letters, embedded so that it can do no harm."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

from dushapley.errors import InvalidOption

KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""First bytes of the kinds of picture that are taken; by content, whatever the name says."""
MOST_BYTES = 500_000


def embedded(path: str | os.PathLike[str]) -> str:
    """A PNG, JPEG or GIF file as a `data:` address.

    SVG is not taken: it can hold scripts and references, which readers other than browsers follow.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise InvalidOption(
            f"The logo {os.fspath(path)} cannot be read: {why}. Name a PNG, JPEG or GIF picture."
        ) from error
    kind = next((kind for head, kind in KINDS.items() if content.startswith(head)), None)
    if kind is None or len(content) > MOST_BYTES:
        raise InvalidOption(
            f"The logo {os.fspath(path)} is not a PNG, JPEG or GIF picture of at most "
            f"{MOST_BYTES:,} bytes. Save it as a small PNG."
        )
    return f"data:{kind};base64,{b64encode(content).decode()}"
