"""From values to payments, with their intervals and everything needed to compute them again."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import AnyDict, AnyMapping, FloatArray
from dushapley.errors import InvalidCall, InvalidSettlement
from dushapley.hashing import sha256, versions
from dushapley.results.diagnosis import Diagnosis
from dushapley.results.uncertainty import MIDDLE_95, certainty, known_to, plausible_values
from dushapley.results.valuation import Valuation
from dushapley.settlement.money import (
    NO_CAP,
    agreed_terms,
    amount_of,
    charge_out,
    coins_of,
    harmless,
    money,
    rule_text,
    rule_weights,
    share_out,
    whole_weights,
)
from dushapley.settlement.stored import BOUNDS, FORMAT, refuse_extreme, refuse_unreadable
from dushapley.terminal import distinct_names, json_text, printable, table
from dushapley.validation import spoken

if TYPE_CHECKING:
    import pandas as pd

PACKAGES = ("dushapley", "numpy", "scipy", "scikit-learn", "pandas", "skrub", "torch", "lightgbm")


@dataclass(frozen=True, eq=False)
class Settlement:
    """Who is paid what out of a pot, and everything needed to compute it again.

    Attributes
    ----------
    valuation
        The values it follows from.
    pot, currency, decimals
        What is shared, in which currency, with how many decimals.
    negative, floor
        The rule for negative values, one of `RULES`, and the floor as a part of an equal share
        (None under the other rules).
    payments
        One amount per owner; they add up to `pot` exactly.
    low, high
        95% interval of each payment, from the errors of all values carried through the rule; None
        where these are unknown. `interval_meaning` says which errors are in it.
    record
        Provenance: input hashes, command line, versions, and what else the caller adds.
    diagnosis
        Why the values are what they are, where that was measured.
    cap
        Under "charge": how many times its by-size payment an owner pays in at most, or "none".

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"])
    >>> settled = ds.settle(ds.value(game, "exact"), 900, currency="EUR")
    >>> [str(amount) for amount in settled.payments]
    ['400.00', '300.00', '200.00']
    """

    valuation: Valuation
    pot: Decimal
    currency: str
    decimals: int
    negative: str
    floor: str | None
    payments: tuple[Decimal, ...]
    low: tuple[Decimal, ...] | None
    high: tuple[Decimal, ...] | None
    record: AnyMapping = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    cap: str | None = None

    @property
    def terms(self) -> AnyDict:
        """What is shared and how: what `settle` takes beside the valuation."""
        return {
            name: getattr(self, name)
            for name in ("pot", "currency", "negative", "floor", "cap", "decimals")
        }

    @cached_property
    def by_size(self) -> tuple[Decimal, ...]:
        """What every row being paid the same would have given."""
        coins = coins_by_size(self.valuation, coins_of(self.pot, self.decimals))
        return tuple(amount_of(c, self.decimals) for c in coins)

    @property
    def rule(self) -> str:
        """The rule in words."""
        return rule_text(self.negative, self.cap)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each payment as a part of the pot; zeros where the pot is empty."""
        pot = Fraction(self.pot or 1)
        return tuple(float(Fraction(payment) / pot) for payment in self.payments)

    @property
    def interval_meaning(self) -> str:
        """What the intervals of the payments cover."""
        meaning = self.valuation.interval_meaning
        if self.low is not None:
            return meaning
        if self.valuation.unknown:
            return f"no interval: the error of the values is {meaning}"
        if self.valuation.total_errors is None:
            return "no interval: the values come without standard errors"
        return "no interval: within its error, nothing at all may have been gained"

    @property
    def certainty(self) -> str:
        """How well the payments are known, in parts of themselves; "" where that is unknown."""
        if self.low is None or self.high is None:
            return ""
        widths = [float(high - low) for low, high in zip(self.low, self.high, strict=True)]
        parts = known_to([float(amount) for amount in self.payments], np.array(widths) / 2)
        return "" if parts is None else f"payments known to {certainty(parts)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before paying: who is charged, and that nothing was gained."""
        charged = self._charges()
        gain = self.valuation.u_full - self.valuation.u_empty
        if gain > self.valuation.rounding:
            return charged
        return (
            *charged,
            f"Pooling everybody's data gains nothing here (the score moves by {gain:.4g}), yet the "
            f"rule {self.negative!r} pays out the whole pot: think twice before paying.",
        )

    def _charges(self) -> tuple[str, ...]:
        """Who pays in, and what a limit spares whom."""
        if self.negative != "charge" or min(self.payments) >= 0:
            return ()
        due = _coins(self.valuation, self.pot, self.decimals, "charge", None, NO_CAP)
        paid = [coins_of(payment, self.decimals) for payment in self.payments]
        charged = [i for i, coins in enumerate(paid) if coins < 0]
        paid_in = [-paid[i] for i in charged]
        most, name = max(paid_in), self.valuation.owners[paid.index(min(paid))]
        first = (
            f"The rule 'charge' has {len(charged)} of {len(paid)} owners pay in "
            f"{self._told(sum(paid_in))}; the most, {name!r}: {self._told(most)}."
        )
        missing = sum(paid[i] - due[i] for i in charged)
        if missing <= len(charged):  # coins that rounding leaves: nobody was spared anything
            return (first,)
        return (
            f"{first} Their values ask for {self._told(missing)} more than the limit lets them "
            "pay, and the others get so much less, in proportion.",
        )

    def _told(self, coins: int) -> str:
        return money(amount_of(coins, self.decimals), self.currency)

    def to_frame(self) -> pd.DataFrame:
        """One row per owner, best paid first: owner, rows, value, payment, low, high, by_size."""
        import pandas as pd

        nothing = (None,) * len(self.payments)
        frame = pd.DataFrame(
            {
                "owner": self.valuation.owners,
                "rows": self.valuation.sizes,
                "value": self.valuation.values,
                "payment": self.payments,
                "low": self.low or nothing,
                "high": self.high or nothing,
                "by_size": self.by_size,
            }
        )
        return frame.sort_values("payment", ascending=False, kind="stable", ignore_index=True)

    def to_csv(self) -> str:
        """`to_frame` as CSV that no spreadsheet can mistake for formulas."""
        frame = self.to_frame().assign(currency=harmless(self.currency))
        frame["owner"] = frame["owner"].map(harmless)
        return frame.to_csv(index=False, lineterminator="\n")

    def to_dict(self) -> AnyDict:
        """Plain JSON types, sealed by a hash of all the rest."""
        lines = []
        for i, owner in enumerate(self.valuation.owners):
            line = {"owner": owner, "payment": str(self.payments[i]), "low": None, "high": None}
            if self.low and self.high:
                line |= {"low": str(self.low[i]), "high": str(self.high[i])}
            lines.append(line | {"by_size": str(self.by_size[i])})
        limit = {} if self.cap in (None, NO_CAP) else {"cap": self.cap}  # as older files lack it
        body: AnyDict = {
            "format": FORMAT,
            "pot": str(self.pot),
            "currency": self.currency,
            "decimals": self.decimals,
            "negative": self.negative,
            "floor": self.floor,
            **limit,
            "rule": self.rule,
            "interval": self.interval_meaning,
            "payments": lines,
            "valuation": self.valuation.to_dict(),
            "record": dict(self.record),
        }
        if self.diagnosis is not None:
            body["diagnosis"] = self.diagnosis.to_dict()
        return body | {"seal": seal(body)}

    def to_json(self) -> str:
        """`to_dict` as text: the settlement file."""
        return json_text(self.to_dict()) + "\n"

    @classmethod
    def from_dict(cls, data: AnyMapping) -> Settlement:
        """Read back what `to_dict` wrote; whether it is true is for `verify` to say."""
        refuse_unreadable(data)
        lines, negative = data["payments"], data["negative"]
        low = high = diagnosis = None
        if all(line["low"] is not None for line in lines):
            low, high = (tuple(Decimal(line[end]) for line in lines) for end in BOUNDS)
        if "diagnosis" in data:
            diagnosis = Diagnosis.from_dict(data["diagnosis"])
        return cls(
            valuation=Valuation.from_dict(data["valuation"]),
            pot=Decimal(data["pot"]),
            currency=data["currency"],
            decimals=data["decimals"],
            negative=negative,
            floor=data["floor"],
            payments=tuple(Decimal(line["payment"]) for line in lines),
            low=low,
            high=high,
            record=data["record"],
            diagnosis=diagnosis,
            cap=data.get("cap", NO_CAP) if negative == "charge" else None,
        )

    def __repr__(self) -> str:
        """The payments, best first."""
        order = sorted(range(len(self.payments)), key=lambda i: -self.payments[i])
        names = distinct_names([self.valuation.owners[i] for i in order], 40)
        rows = []
        for i, name in zip(order, names, strict=True):
            row = [name, money(self.payments[i])]
            if self.low and self.high:
                row += [money(self.low[i]), "to", money(self.high[i])]
            rows.append(row)
        known = filter(None, [self.certainty, self.interval_meaning])
        below = [self.rule, ", ".join(known), *(f"note: {note}" for note in self.notes)]
        title = printable(
            f"Settlement of {money(self.pot, self.currency)} among {len(order)} owners, "
            f"rule {self.negative!r}"
        )
        return "\n".join([title, table((), rows), *(printable(f"  {line}") for line in below)])


@spoken
def settle(
    valuation: Valuation,
    pot: int | str | float | Decimal,
    *,
    currency: str = "",
    negative: str = "clip",
    floor: str | float | None = None,
    cap: str | float | None = None,
    decimals: int | None = None,
    record: AnyMapping | None = None,
    diagnosis: Diagnosis | None = None,
) -> Settlement:
    r"""Share a pot in proportion to the values, to the cent.

    With weights :math:`w_i` = `values`, negative ones counting as zero (`negative="clip"`), as
    they are (``"charge"``), or under a floor (``"floor"``: every owner first gets the part f of
    an equal share), owner i is due

    .. math:: P\,\frac{w_i}{\sum_j w_j}
        \qquad\text{or}\qquad P\Big(\frac fI + (1-f)\frac{w_i}{\sum_j w_j}\Big)

    of the pot P. Under "charge" nobody pays in more than `cap` times what its rows alone would
    bring it; what is missing then lowers what the others get, in proportion. Amounts are
    rounded down to whole coins, and the coins left over go to the
    largest remainders (ties: by name). Intervals: values are drawn from their joint normal law,
    each draw is settled by the same rule, and the middle 95% is kept, so that the kink at zero
    is respected. Cost: no evaluation.

    Parameters
    ----------
    valuation
        A finished run; one that was stopped early cannot be computed again and is refused.
    pot
        The amount; "100000", "99.95" or a number. Not negative.
    currency
        Its name, which also sets the number of decimals (two, unless the currency has others).
    negative
        "clip", "charge" or "floor"; see `RULES`.
    floor
        Under "floor": the part of an equal share paid to everybody, from 0 to 1; default 0.1.
    cap
        Under "charge": how many times its by-size payment an owner pays in at most, default 1;
        "none" for no limit.
    decimals
        Decimals of the smallest coin, where `currency` does not determine them.
    record
        Provenance to keep in the file: input hashes, command line.
    diagnosis
        Why the values are what they are (`dushapley.diagnose`), to be kept under the same seal.

    Examples
    --------
    >>> import dushapley as ds
    >>> v = ds.value(ds.SizeGame([1, 1, 1], w=lambda n: n), "exact")
    >>> [str(p) for p in ds.settle(v, 100, currency="EUR").payments]
    ['33.34', '33.33', '33.33']
    """
    if not isinstance(valuation, Valuation):
        raise InvalidCall(
            f"Found {type(valuation).__name__} {valuation!r:.60} where a valuation was needed. "
            "Value a game first: ds.settle(ds.value(game), pot=1000)."
        )
    if not valuation.complete:
        raise InvalidSettlement(
            "This valuation was stopped early, so nobody could compute it again. Run the same "
            "again with its ledger to go on, then settle."
        )
    refuse_extreme("values", valuation.values)
    refuse_extreme("sizes", valuation.sizes)
    refuse_extreme("errors", valuation.total_errors)
    terms = agreed_terms(
        pot, currency=currency, negative=negative, floor=floor, cap=cap, decimals=decimals
    )
    places = terms["decimals"]
    rule = (valuation, terms["pot"], places, negative, terms["floor"], terms["cap"])
    low, high = intervals(*rule)
    return Settlement(
        valuation=valuation,
        payments=tuple(amount_of(coins, places) for coins in _coins(*rule)),
        low=low,
        high=high,
        record={"versions": versions_here(), **(record or {})},
        diagnosis=diagnosis,
        **terms,
    )


def coins_by_size(valuation: Valuation, coins: int) -> list[int]:
    """Whole coins divided by rows; equally where nobody has any."""
    weights = whole_weights(valuation.sizes if valuation.sizes.any() else np.ones(len(valuation)))
    return share_out(coins, weights, valuation.owners)


def _coins(
    valuation: Valuation,
    pot: Decimal,
    decimals: int,
    negative: str,
    floor: str | None,
    cap: str | None,
) -> list[int]:
    """Every owner's payment in whole coins."""
    coins, owners = coins_of(pot, decimals), valuation.owners
    weights = rule_weights(valuation.values, negative, floor, valuation.rounding)
    if cap in (None, NO_CAP):
        return share_out(coins, weights, owners)
    return charge_out(coins, weights, _limits(valuation, coins, cap), owners)


def _limits(valuation: Valuation, coins: int, cap: str) -> list[int]:
    """Coins that each owner pays in at most."""
    return [int(c * Fraction(cap)) for c in coins_by_size(valuation, coins)]


def intervals(
    valuation: Valuation,
    pot: Decimal,
    decimals: int,
    negative: str,
    floor: str | None,
    cap: str | None = None,
) -> tuple[tuple[Decimal, ...] | None, tuple[Decimal, ...] | None]:
    """Middle 95% of each payment when the values are drawn from their joint law."""
    drawn = plausible_values(valuation)
    if drawn is None:
        return None, None
    weights = drawn if negative == "charge" else np.maximum(drawn, 0)
    totals = weights.sum(axis=1)
    usable = totals > 0
    if usable.mean() < MIDDLE_95[1]:  # then no gain at all is plausible, and so is any payment
        return None, None
    shares = weights[usable] / totals[usable, None]
    coins = coins_of(pot, decimals)
    if cap not in (None, NO_CAP):
        limits = np.array([float(Fraction(c, coins or 1)) for c in _limits(valuation, coins, cap)])
        shares = _limited(shares, limits)
    part = float(Fraction(floor or 0))
    shares = part / drawn.shape[1] + (1 - part) * shares
    low, high = (
        tuple(amount_of(round(share * coins), decimals) for share in end)
        for end in np.quantile(shares, MIDDLE_95, axis=0).tolist()
    )
    return low, high


def _limited(shares: FloatArray, limits: FloatArray) -> FloatArray:
    """Shares of which no negative one is beyond its limit; the others divide what is left."""
    paid_in = np.minimum(np.maximum(-shares, 0), limits)
    gains = np.maximum(shares, 0)
    rest = (1 + paid_in.sum(axis=1)) / gains.sum(axis=1)
    return gains * rest[:, None] - paid_in


def seal(body: AnyMapping) -> str:
    """Hash of a settlement's content: whoever changes a number breaks it."""
    rest = {name: item for name, item in body.items() if name != "seal"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text).hex()


def versions_here() -> dict[str, str]:
    """What computes here, by name and version."""
    return {"python": platform.python_version(), **versions(PACKAGES)}
