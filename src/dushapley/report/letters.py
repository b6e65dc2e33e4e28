"""A letter to each owner: what it gets, how sure that is, why, and how to check it.

One printed page, made from the settlement alone: nothing is trained, and every number can be
computed again from the file. What is of others is absent unless it was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from dushapley.arrays import AnyDict
from dushapley.data.files import owner_name
from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.report.page import environment
from dushapley.report.summary import axis, measured, summarize
from dushapley.report.wording import decimal, meaning, percent, plural
from dushapley.results.diagnosis import Diagnosis
from dushapley.results.uncertainty import half_width, remedy
from dushapley.results.valuation import Valuation
from dushapley.settlement.money import amount_of, money
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import decimals_for, error_text

SHOWN = {
    "rank": "the owner's rank and its 95% range",
    "values": "names, values and payments of all owners",
    "growth": "what more rows like its own would earn, if `value --growth` measured it",
}
"""What a letter says only if asked to."""


UNMEASURED = [{"text": "Why your data are worth this was not measured in this run."}]


def check_shown(show: Collection[str]) -> frozenset[str]:
    """What letters are to show, or what there is to choose from."""
    unknown = [name for name in show if name not in SHOWN]
    if unknown:
        raise InvalidOption(
            f"Letters cannot show {unknown[0]!r}; choose among {', '.join(SHOWN)}, with commas "
            "between."
        )
    return frozenset(show)


def owner_page(
    valuation: Valuation,
    owner: str,
    settlement: Settlement | None = None,
    *,
    title: str = "What your data are worth",
    about: Mapping[str, str] | None = None,
    diagnosis: Diagnosis | None = None,
    show: Collection[str] = (),
    logo: str = "",
    date: str = "",
    settlement_file: str = "settlement.json",
) -> str:
    """A letter to one owner as one HTML text: its own numbers, and only totals of the others'.

    Totals are the number of owners and rows, u(nobody), u(all) and the pot; reasons may compare
    with the range among the others. Left out unless `show` names them: rank, and names, values and
    payments of the others. With two owners, totals minus one's own are the other's: no letter can
    hide that. `about` is shown as it is, so put nothing about others into it.

    Parameters
    ----------
    valuation, settlement, title, about, diagnosis
        As in `summarize`.
    owner
        To whom.
    show
        Of "rank", "values" and "growth".
    logo, date
        An image as `embedded` gives it, and a date as it is to be read.
    settlement_file
        Name of the settlement's file, for the command that checks it.
    """
    shown = check_shown(show)
    if owner not in valuation.owners:
        known = ", ".join(map(repr, valuation.owners[:20]))
        raise InvalidSettlement(f"There is no owner {owner!r} in this valuation. Owners: {known}.")
    summary = summarize(valuation, settlement, title=title, about=about, diagnosis=diagnosis)
    found = {one["name"]: one["reasons"] for one in summary["why"]["owners"]}
    row = next(row for row in summary["rows"] if row["name"] == owner)
    method = summary["method"]
    amount, part = _answer(row, summary["pot"])
    facts = {
        "title": title,
        "owner": owner,
        "logo": logo,
        "date": date,
        "settlement_file": settlement_file,
        "amount": amount,
        "part": part,
        "lead": summary["lead"][0],
        "row": _picture(row),
        "marks": _marks(row, summary),
        "sure": _sure(valuation, row, summary),
        "rule": _rule(settlement, row),
        "why": [reason["text"] for reason in found.get(owner, UNMEASURED)],
        "numbers": _numbers(valuation, settlement, row, summary, shown),
        "others": _others(summary, owner) if "values" in shown else [],
        "growth": growth_sentences(settlement, owner) if "growth" in shown else [],
        "meaning": meaning(valuation, own=True),
        "method": method["label"],
        "version": method["version"],
        "model": summary["about"].get("model", ""),
        "file": None,
        "seal": None,
        "currency": "",
    }
    if settlement is not None:
        facts |= {
            "file": owners_file(settlement, owner),
            "seal": settlement.to_dict()["seal"],
            "currency": settlement.currency,
        }
    return environment().get_template("letter.html").render(s=facts)


def _answer(row: AnyDict, pot: AnyDict | None) -> tuple[str, str]:
    """What is received or paid, or the share where no money is shared; and its part of the pot."""
    if pot is None:
        return f"Your data bring {row['share_text']} of the gain", ""
    paid, currency = Decimal(row["payment"]), pot["currency"]
    verb = "receive" if paid > 0 else "pay"
    amount = f"{verb} {money(abs(paid), currency)}" if paid else "receive nothing"
    shared = f"the pot of {pot['amount_text']} {currency}".rstrip()
    return f"You {amount}", f"That is {percent(abs(row['share']))} of {shared}."


def _picture(row: AnyDict) -> AnyDict:
    """The owner's value on an axis of its own: one of all owners would tell their extremes."""
    value, by_size = row["value"], row["by_size_value"]
    error = row["error"] or 0.0
    low, high = value - error, value + error
    place = axis(min(low, by_size, 0.0), max(high, by_size, 0.0))
    return {name: row[name] for name in ("error", "value_text", "error_text", "negative")} | {
        "at": place(value),
        "zero": place(0.0),
        "by_size_at": place(by_size),
        "from": place(low),
        "to": place(high),
    }


def _marks(row: AnyDict, summary: AnyDict) -> list[tuple[str, str]]:
    """What the marks of the picture are, with their numbers."""
    marks = [("dot", f"your value, {row['value_text']}")]
    value, error, digits = row["value"], row["error"], row["digits"]
    if error is not None:
        low, high = decimal(value - error, digits), decimal(value + error, digits)
        marks.append(("whisker", f"its 95% range, {low} to {high}"))
    at = decimal(row["by_size_value"], digits)
    return [*marks, ("size", f"{summary['by_size']}, {at}"), ("zero", "zero")]


def _range(row: AnyDict, currency: str) -> str:
    """The ends of a payment, in words where they are paid in, so that no sign is needed."""
    low, high = Decimal(row["payment_low"]), Decimal(row["payment_high"])
    if low >= 0:
        return f"{money(low)} to {money(high, currency)}"
    if high <= 0:
        return f"you pay {money(-high)} to {money(-low, currency)}"
    return f"from paying {money(-low)} to receiving {money(high, currency)}"


def _sure(valuation: Valuation, row: AnyDict, summary: AnyDict) -> list[str]:
    """How sure the answer is, and what its range covers."""
    sentences = []
    pot, error = summary["pot"], row["error"]
    if row.get("payment_range") and row["payment_low"] == row["payment_high"]:
        sentences.append("The rule fixes it: no error that was measured would move it.")
    elif row.get("payment_range"):
        covered = re.sub("^95% interval,? ?", "", pot["interval"])
        told = f" ({covered})" if covered else ""
        sentences.append(f"95% range: {_range(row, pot['currency'])}{told}.")
    elif valuation.unknown:
        meaning_of = valuation.interval_meaning.removeprefix("unknown: ")
        sentences.append(
            f"How sure this is, is ± unknown: the error of {meaning_of} was not measured. "
            f"{remedy(valuation)}"
        )
    elif valuation.total_errors is None:
        sentences.append("All pools were tried: sampling leaves no error in it.")
    if row["negative"] and error is not None and row["value"] + error >= 0:
        sentences.append("Your value is below zero, but that may be chance: 0 is in its range.")
    return sentences


def _rule(settlement: Settlement | None, row: AnyDict) -> list[str]:
    if settlement is None:
        return []
    rule = [settlement.rule, "Payments add up to the pot to the smallest coin."]
    limited = settlement.negative == "charge" and Decimal(row["payment"]) < 0
    if limited and row["payment"] == f"-{row['by_size']}":
        rule.append("You pay the most that the rule lets anybody of your size pay.")
    return rule


def _numbers(
    valuation: Valuation,
    settlement: Settlement | None,
    row: AnyDict,
    summary: AnyDict,
    shown: frozenset[str],
) -> list[tuple[str, str]]:
    """Its own numbers, each with what it is."""
    error = f" ± {row['error_text']}" if row["error_text"] else ""
    score = measured(summary["about"], brief=True)
    numbers = [
        ("your value", f"{row['value_text']}{error} of {score}"),
        ("your rows", f"{row['size_text']}, {row['size_share_text']} of all"),
    ]
    if settlement is not None:
        by_size = money(Decimal(row["by_size"]), settlement.currency)
        numbers.append(("one price a row", f"{by_size}, if every row were paid the same"))
    if "rank" in shown:
        ranks = row["rank_range"]
        range_ = f", 95% range {ranks['rank_text']}" if ranks else ""
        numbers.append(("your rank", f"{row['rank']} of {len(valuation.owners)}{range_}"))
    return numbers


def _others(summary: AnyDict, owner: str) -> list[AnyDict]:
    keys = ("name", "value_text", "share_text", "payment_text")
    return [
        {key: row.get(key, "") for key in keys} | {"own": row["name"] == owner}
        for row in summary["rows"]
    ]


def owners_file(settlement: Settlement, owner: str) -> Any:
    """The record of the file that holds an owner's rows; None where it cannot be told."""
    files = [entry for entry in settlement.record.get("inputs", ()) if entry["role"] != "test"]
    own = [entry for entry in files if owner_name(Path(entry["name"])) == owner]
    found = own if len(own) == 1 else files
    return found[0] if len(found) == 1 else None


def growth_sentences(settlement: Settlement | None, owner: str) -> list[str]:
    """What more rows would add to an owner's value and payment, or that it was not measured."""
    measured: Any = None if settlement is None else settlement.record.get("growth")
    if settlement is None or not isinstance(measured, Mapping):
        return ["What more rows like yours would earn was not measured."]
    v, part = settlement.valuation, measured["more"]
    i = v.owners.index(owner)
    gain, errors = measured["values"][i], measured["std_errors"]
    error = None if errors is None else half_width(errors[i])
    rows = plural(max(1, round(part * v.sizes[i])), "row", "rows")
    sure = "" if error is None else f" ± {error_text(error)}"
    added = f"{decimal(gain, decimals_for(v.values))}{sure}"
    scale = percent(1 / (1 + part), 0)
    return [
        f"{percent(part, 0)} more rows like yours ({rows}) would add {added} to your value, "
        f"measured with everybody’s rows cut to {scale}.",
        _earned(settlement, i, gain, error),
    ]


def _earned(settlement: Settlement, i: int, gain: float, error: float | None) -> str:
    """What that gain would be paid, at the owner's present price of a point of value."""
    worth, paid = float(settlement.valuation.values[i]), settlement.payments[i]
    if error is not None and abs(gain) <= error:
        return "That may be chance: whether they would earn you anything cannot be told."
    if worth <= 0 or paid <= 0:
        return "At your present value nothing is paid for it."
    decimals = settlement.decimals
    coins = round(float(paid) / worth * gain * 10**decimals)
    amount = money(amount_of(coins, decimals), settlement.currency)
    return f"At what your value is paid now, that is {amount}, if the pot grew with the gain."
