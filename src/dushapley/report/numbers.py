"""Numbers as people read them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

MINUS = "−"


def decimals_for(values: ArrayLike) -> int:
    """Decimals that show four figures of the largest value; −1 where powers of ten read better."""
    largest = float(np.abs(np.asarray(values)).max(initial=0.0))
    if largest != 0 and not 1e-6 < largest < 1e12:
        return -1
    return 4 if largest == 0 else int(np.clip(4 - np.ceil(np.log10(largest)), 0, 12))


def decimal(value: float, digits: int) -> str:
    """A number with a real minus sign, and never a negative zero."""
    text = f"{value:,.{digits}f}" if digits >= 0 else f"{value:.3e}"
    if not any(c in "123456789" for c in text):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def whole(value: float) -> str:
    """A count, thousands apart; a few decimals where it is none."""
    number = float(value)
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent."""
    return decimal(100 * share, digits) + "%"


def plural(count: int, one: str, many: str) -> str:
    """A count with its noun."""
    return f"{whole(count)} {one if count == 1 else many}"
