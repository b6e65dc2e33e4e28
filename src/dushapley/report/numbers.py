"""Numbers and names as people read them."""

from __future__ import annotations

NAME_WIDTH, LINE_WIDTH = 60, 22
"""Columns of a name in a figure, and of a line of it."""


def decimal(value: float, digits: int) -> str:
    """A number with a real minus sign, and never a negative zero."""
    text = f"{value:z,.{digits}f}" if digits >= 0 else f"{value:z.3e}"
    return text.replace("-", "−")


def whole(value: float) -> str:
    """A count with its thousands separated; with two decimals where it is not whole."""
    number = float(value)
    return f"{number:,.0f}" if number.is_integer() else f"{number:,.2f}"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent."""
    return decimal(100 * share, digits) + "%"


def plural(count: int, one: str, many: str) -> str:
    """A count with its noun."""
    return f"{whole(count)} {one if count == 1 else many}"


def wrapped(name: str) -> str:
    """A name in lines that a figure has room for; long words go on in the next with a hyphen."""
    lines = [""]
    for word in name.split():
        while len(word) > LINE_WIDTH:
            lines, word = [*lines, f"{word[: LINE_WIDTH - 1]}-"], word[LINE_WIDTH - 1 :]
        last = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], last] if len(last) <= LINE_WIDTH else [*lines, word]
    return "\n".join(filter(None, lines))
