"""Numbers, names and the meaning of values as people read them."""

from __future__ import annotations

from textwrap import wrap

from dushapley.results.valuation import Valuation

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
    """A name in lines that a figure has room for."""
    return "\n".join(wrap(name, LINE_WIDTH, break_on_hyphens=False))


SHAPLEY = (
    "{whose} value is {its} Shapley value: what {its} data add to a pool, averaged over all orders "
    "in which the owners could have joined."
)
ONLY = (
    "It is the only division that shares out the whole gain, treats equal data equally, pays "
    "nothing for data that never matter, and adds up over several tasks."
)
LEFT_OUT = (
    "{whose} value is what everybody’s data lose when {its} own are left out. It is not a Shapley "
    "value: two owners who hold the same are both worth nothing, and values need not add up."
)
BANZHAF = (
    "{whose} value is {its} Banzhaf value: what {its} data add to a pool, averaged over all pools "
    "of other owners alike. It is not a Shapley value: values need not add up to the gain."
)
SEMIVALUE = (
    "{whose} value is {its} {name} semivalue: what {its} data add to a pool, pools weighted by how "
    "many owners they hold. It is not a Shapley value: values need not add up to the gain."
)


def meaning(valuation: Valuation, *, own: bool = False) -> str:
    """What values of this run are; said to their owner (`own`), or of everybody.

    Examples
    --------
    >>> import dushapley as ds
    >>> meaning(ds.value(ds.TableGame([0, 1, 2, 4]), "loo"), own=True)[:58]
    'Your value is what everybody’s data lose when your own are'
    """
    semivalue = str(valuation.options.get("semivalue", "shapley"))
    if valuation.method_run == "loo":
        text = LEFT_OUT
    elif semivalue == "shapley":
        text = SHAPLEY if own else f"{SHAPLEY} {ONLY}"
    else:
        text = BANZHAF if semivalue == "banzhaf" else SEMIVALUE
    whose, its = ("Your", "your") if own else ("An owner’s", "its")
    return text.format(whose=whose, its=its, name=semivalue)
