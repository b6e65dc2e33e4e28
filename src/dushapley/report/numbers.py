"""Numbers as people read them."""

from __future__ import annotations


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
