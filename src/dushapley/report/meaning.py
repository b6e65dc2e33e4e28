"""What a value is, in a sentence: not every method answers with Shapley values."""

from __future__ import annotations

from dushapley.results.valuation import Valuation

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
