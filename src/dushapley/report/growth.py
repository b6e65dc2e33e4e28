"""What more rows like its own would earn an owner, as `value --growth` measured it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dushapley.report.numbers import decimal, percent, plural
from dushapley.results.uncertainty import half_width
from dushapley.settlement.money import amount_of, money
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import decimals_for, error_text

NOT_MEASURED = "What more rows like yours would earn was not measured."


def growth_sentences(settlement: Settlement | None, owner: str) -> list[str]:
    """What more rows would add to an owner's value and payment, or that it was not measured."""
    measured: Any = None if settlement is None else settlement.record.get("growth")
    if settlement is None or not isinstance(measured, Mapping):
        return [NOT_MEASURED]
    v = settlement.valuation
    i = v.owners.index(owner)
    gain, errors = float(measured["values"][i]), measured["std_errors"]
    error = None if errors is None else half_width(float(errors[i]))
    more = max(1, round(measured["more"] * float(v.sizes[i])))
    sure = "" if error is None else f" ± {error_text(error)}"
    first = (
        f"{percent(measured['more'], 0)} more rows like yours ({plural(more, 'row', 'rows')}) "
        f"would add {decimal(gain, decimals_for(v.values))}{sure} to your value, measured with "
        f"everybody’s rows cut to {percent(1 / (1 + measured['more']), 0)}."
    )
    return [first, _earned(settlement, i, gain, error)]


def _earned(settlement: Settlement, i: int, gain: float, error: float | None) -> str:
    """What that gain would be paid, at the owner's present price of a point of value."""
    worth, paid = float(settlement.valuation.values[i]), settlement.payments[i]
    if error is not None and abs(gain) <= error:
        return "That may be chance: whether they would earn you anything cannot be told."
    if worth <= 0 or paid <= 0:
        return "At your present value nothing is paid for it."
    coins = float(paid) / worth * gain * 10**settlement.decimals
    amount = f"{money(_whole(coins, settlement.decimals))} {settlement.currency}".rstrip()
    return f"At what your value is paid now, that is {amount}, if the pot grew with the gain."


def _whole(coins: float, decimals: int) -> Decimal:
    return amount_of(round(coins), decimals)
