"""Exact arithmetic on money: whole coins, divided so that nothing is lost.

A float is a whole number times a power of two, so shares of a pot are exact fractions, and no
rounding error can lose a cent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from unicodedata import normalize

import numpy as np

from dushapley.arrays import AnyDict, FloatArray
from dushapley.errors import InvalidSettlement
from dushapley.terminal import printable
from dushapley.validation import is_whole, refuse

RULES = {
    "clip": "An owner of negative value is paid nothing; the others share the pot in proportion "
    "to their values.",
    "charge": "Everybody is paid in proportion to its value: an owner of negative value pays in, "
    "and the others share that as well.",
    "floor": "Everybody is first paid the same floor; the rest is shared in proportion to the "
    "values, negative ones counting as zero.",
}
CAPPED = (
    "Everybody is paid in proportion to its value: an owner of negative value pays in, and the "
    "others share that as well. Nobody pays in more than {times}what its rows alone would bring it."
)
"""The rule "charge" with a limit; in `RULES` it stands without."""
DEFAULT_FLOOR = "0.1"
"""Part of an equal share that the rule "floor" pays to everybody."""
DEFAULT_CAP, NO_CAP = "1", "none"
"""By-size payments that an owner pays in at most under "charge", and the word for no limit."""
LONGEST, MOST_DIGITS = 100, 40
"""Characters of an amount or a floor, and digits of an amount before the point."""
AMOUNT = re.compile(rf"(?=.{{1,{LONGEST}}}\Z)\s*[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?\s*")
"""How an amount is written: Python reads 1_000 and the digits of other scripts as well."""
ROUNDED_IN_SHOPS = {"IQD": 3} | dict.fromkeys(
    ("AFN", "ALL", "IRR", "KPW", "LAK", "LBP", "MGA", "MMK", "RSD", "SOS", "SYP", "YER"), 2
)
"""Decimals by ISO 4217 where Babel has none because such small coins are no longer used."""


def share_out(coins: int, weights: Sequence[int], names: Sequence[str]) -> list[int]:
    """Divide whole coins in proportion to whole weights by largest remainders; ties by name.

    Weights may be negative as long as their sum is positive. The result adds up to `coins`
    exactly, and nobody is a whole coin away from what is due.

    Examples
    --------
    >>> share_out(100, [1, 1, 1], ["b", "a", "c"])
    [33, 34, 33]
    """
    total = sum(weights)
    shares = [coins * weight // total for weight in weights]
    lost = [coins * weight % total for weight in weights]
    by_remainder = sorted(range(len(names)), key=lambda i: (-lost[i], names[i]))
    for i in by_remainder[: coins - sum(shares)]:
        shares[i] += 1
    return shares


def charge_out(
    coins: int, weights: Sequence[int], limits: Sequence[int], names: Sequence[str]
) -> list[int]:
    """Divide whole coins in proportion to weights, of which negative ones pay in up to a limit.

    Coins paid in are rounded down; the other owners share them and the pot. So what a limit spares
    one owner lowers what the others get in proportion.

    Examples
    --------
    >>> charge_out(100, [6, 4, -8], [30, 30, 30], ["a", "b", "c"])
    [78, 52, -30]
    """
    total = sum(weights)
    due = [-weight * coins // total for weight in weights]
    paid_in = [max(0, min(pair)) for pair in zip(due, limits, strict=True)]
    gains = share_out(coins + sum(paid_in), [max(0, weight) for weight in weights], names)
    return [gain - paid for gain, paid in zip(gains, paid_in, strict=True)]


def whole_weights(values: FloatArray) -> list[int]:
    """Floats as whole numbers in exactly the same proportions."""
    pairs = [float(value).as_integer_ratio() for value in values]
    largest = max(below for _, below in pairs)  # powers of two, so the largest is common to all
    return [above * (largest // below) for above, below in pairs]


def rule_weights(
    values: FloatArray, negative: str, floor: str | None, rounding: float
) -> list[int]:
    """Whole weights under a rule for negative values; what is only rounding is not a gain."""
    counted = np.where(abs(values) <= rounding, 0.0, values)
    if negative == "charge" and abs(float(counted.sum())) <= rounding:
        counted = np.zeros_like(counted)
    weights = whole_weights(counted)
    if negative != "charge":
        weights = [max(0, weight) for weight in weights]
    total, part = sum(weights), Fraction(floor or 0)
    if total <= 0 and part != 1:
        raise InvalidSettlement(
            f"The values add up to {float(values.sum()):.6g}"
            + ("" if negative == "charge" else ", and none is positive")
            + ": there is no gain to share in proportion to. "
            "Pay everybody the same with negative='floor', floor=1, or do not pay."
        )
    if negative != "floor":
        return weights
    above, below, n = part.numerator, part.denominator, len(weights)
    total = max(total, 1)
    return [above * total + (below - above) * n * weight for weight in weights]


def coins_of(amount: Decimal, decimals: int) -> int:
    """An amount as whole coins; one that is finer than a coin is refused."""
    coins = Fraction(amount) * 10**decimals
    if coins.denominator != 1:
        raise InvalidSettlement(
            f"The pot {amount} has more decimals than the smallest coin ({decimals}). Round it "
            "to whole coins."
        )
    return coins.numerator


def amount_of(coins: int, decimals: int) -> Decimal:
    """Whole coins as an amount: exact however large, where Decimal's arithmetic would round."""
    return Decimal((int(coins < 0), tuple(map(int, str(abs(coins)))), -decimals))


def agreed_terms(
    pot: object,
    *,
    currency: str,
    negative: str,
    floor: object,
    cap: object,
    decimals: object = None,
) -> AnyDict:
    """Check what is shared and how, and complete it: what `settle` takes beside the valuation."""
    if not isinstance(currency, str) or len(currency) > 12 or not currency.isprintable():
        raise InvalidSettlement(f"currency is {currency!r}; it must be a short name, say 'EUR'.")
    places = check_decimals(decimals, currency)
    return {
        "pot": check_pot(pot, places),
        "currency": currency,
        "negative": negative,
        "floor": check_floor(floor, negative),
        "cap": check_cap(cap, negative),
        "decimals": places,
    }


def check_pot(pot: object, decimals: int) -> Decimal:
    if not (is_whole(pot) or isinstance(pot, (str, float, Decimal))):
        raise InvalidSettlement(f"The pot is {pot!r}; pass an amount of money, say '100000.00'.")
    if is_whole(pot) and not is_whole(pot, most=10**MOST_DIGITS):
        pot = float("inf")  # Python does not even write numbers of 5,000 digits
    written, amount = str(pot), Decimal("nan")
    if AMOUNT.fullmatch(written[: LONGEST + 1]):
        with suppress(InvalidOperation):
            amount = Decimal(written)
    # exact arithmetic with 1e99999999, which is short but has many digits, would not end soon
    modest = amount.is_finite() and amount >= 0 and amount.adjusted() < MOST_DIGITS
    if not modest or int(amount.as_tuple().exponent) <= -2 * MOST_DIGITS:
        raise InvalidSettlement(
            f"The pot is {written[:60]!r}; it must be an amount of money that is not negative, "
            "below 1e40, written with a decimal point and without separators: '100000.00'."
        )
    if isinstance(pot, str):
        _refuse_thousands(pot, amount, decimals)
    return amount_of(coins_of(amount, decimals), decimals)


def _refuse_thousands(pot: str, amount: Decimal, decimals: int) -> None:
    """Refuse zeros below the smallest coin: 100.000 is a hundred thousand in half of Europe."""
    written = re.fullmatch(r"\s*\d+\.(\d+)\s*", pot)
    places = len(written[1]) if written else 0
    if places > decimals and Fraction(amount * 10**decimals).denominator == 1:
        meant = f" or {amount.scaleb(places):.0f}" if places == 3 else ""
        raise InvalidSettlement(
            f"The pot is {pot[:60]!r}, with {places} decimals where the currency has {decimals}: "
            f"it may be {amount:.{decimals}f}{meant}. Write it with {decimals} decimals, and "
            "nothing between thousands."
        )


def check_floor(floor: object, negative: str) -> str | None:
    """The floor as exact text, None under the rules that have none."""
    refuse(
        InvalidSettlement,
        (negative not in RULES, f"negative is {negative!r}; choose among {', '.join(RULES)}."),
        (
            negative != "floor" and floor is not None,
            f"The rule {negative!r} has no floor; use negative='floor'.",
        ),
    )
    if negative != "floor":
        return None
    text = DEFAULT_FLOOR if floor is None else str(floor)
    if not is_floor(text):
        raise InvalidSettlement(
            f"floor is {floor!r:.60}; it must be the part of an equal share paid to everybody, "
            "0 to 1."
        )
    return text


def check_cap(cap: object, negative: str) -> str | None:
    """The limit of what is paid in as exact text, None under the rules without one."""
    if negative != "charge":
        if cap is not None:
            raise InvalidSettlement(
                f"The rule {negative!r} charges nobody, so it has no cap; use negative='charge'."
            )
        return None
    text = DEFAULT_CAP if cap is None else str(cap)
    if not is_cap(text):
        raise InvalidSettlement(
            f"cap is {cap!r:.60}; it must be how many times its by-size payment an owner pays in "
            f"at most, 0 to 1000, or {NO_CAP!r} for no limit."
        )
    return text


def is_cap(text: object) -> bool:
    """Whether it is a number from 0 to 1000 whose exact arithmetic ends soon, or "none"."""
    return text == NO_CAP or _is_part(text, 1000)


def is_floor(text: object) -> bool:
    """Whether it is a part from 0 to 1 whose exact arithmetic ends soon."""
    return _is_part(text, 1)


def _is_part(text: object, most: int) -> bool:
    if not isinstance(text, str) or len(text) > LONGEST or not text.isascii() or "_" in text:
        return False
    if re.search(r"e[+-]?[\d_]{3,}", text, re.IGNORECASE):  # 1e-99999999 has many digits
        return False
    try:
        return 0 <= Fraction(text) <= most
    except (ValueError, ZeroDivisionError):
        return False


def rule_text(negative: str, cap: str | None) -> str:
    """A rule in words, with its limit."""
    if cap in (None, NO_CAP):
        return RULES[negative]
    return CAPPED.format(times="" if Fraction(cap) == 1 else f"{cap} times ")


def check_decimals(decimals: object, currency: str) -> int:
    if decimals is None:
        from babel.numbers import get_currency_precision

        code = currency.upper()
        return ROUNDED_IN_SHOPS.get(code) or get_currency_precision(code)
    if not is_whole(decimals, least=0, most=18):
        raise InvalidSettlement(f"decimals is {decimals!r}; it must be a whole number, 0 to 18.")
    return int(decimals)


def money(amount: Decimal, currency: str = "") -> str:
    """An amount with thousands separated; its minus sign is a real one."""
    number = f"{amount:,f}".replace("-", "−")
    return f"{number} {currency}".rstrip()


def harmless(text: str) -> str:
    """Text that no spreadsheet will take for a formula when it reads it from CSV.

    Nor a part of it, where semicolons separate cells, as they do in half of Europe.

    Examples
    --------
    >>> harmless("=1+1"), harmless(" ＠x"), harmless("a;=b"), harmless("A-Z, Ltd")
    ("'=1+1", "' ＠x", "a;'=b", 'A-Z, Ltd')
    """
    return ";".join(
        f"'{cell}" if _is_formula(cell) else cell for cell in printable(text).split(";")
    )


def _is_formula(cell: str) -> bool:
    """Whether it begins, behind spaces and quotes, as formulas and commands do, in any width."""
    bare = re.sub(r"^[\s\ufffd\"'`´‘’“”]+", "", cell)
    return normalize("NFKC", bare[:1]) in tuple("=+-@|%")
