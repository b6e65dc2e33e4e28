"""From measurements to sentences: what was found, beside what is usual, and what to do.

The thresholds were set on data other than those they are judged by (`benchmarks/reasons.py`,
docs/reasons.md); each is as strict as it takes to accuse fewer than one clean owner in a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.diagnosis.measures import STANDS_OUT, Labels, Measure
from dushapley.results.diagnosis import Column, Reason, Shared

LEAST_WRONG = 0.04
"""Part of the labels, beyond the others', below which nothing is said of them."""
LEAST_FLAT = 0.1
"""The same for numbers, of their rise over predictions and of the part that is missed."""
LEAST_EXCHANGED = 0.2
"""Part of the labels, beyond the others', from which an exchange of labels is looked for."""
FOLLOWS, RESCALED = 0.8, 1.5
"""Correlation with predictions, as a part of the others', and factor, of numbers in other units."""
MENDED = 0.35
"""Part of the disagreement that may be left once labels are exchanged or numbers rescaled."""
FOREIGN = 0.65
"""Area under the curve (lower end of its interval) from which rows are of another kind."""
FEW = 0.25
"""Rows, as a part of what others usually have, below which an owner is called small."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Evidence:
    """All that was measured, owner by owner; None where it could not be."""

    names: Sequence[str]
    sizes: FloatArray
    target: str | None
    classes: Any
    labels: Labels | None
    difference: Measure
    columns: Sequence[tuple[Column, ...]]
    shared: Sequence[tuple[Shared, ...]]
    tested: Sequence[int | None]
    values: FloatArray
    errors: FloatArray | None
    by_size: FloatArray
    first_gain: FloatArray
    last_gain: FloatArray
    untold: str = ""
    left_out: frozenset[int] = frozenset()


def reasons_for(evidence: Evidence, i: int) -> tuple[Reason, ...]:
    """Sentences about one owner, the weightiest first."""
    found = [*_accusations(evidence, i), *_shared(evidence, i), *_tested(evidence, i)]
    found += [*_small(evidence, i), *_untold(evidence, i)]
    if not any(reason.accuses for reason in found) and evidence.labels is not None:
        found += _alike(evidence, i)
    return (*found, *_size(evidence, i), *_pools(evidence, i)) or (
        Reason("unknown", "Nothing could be measured of these data."),
    )


def _accusations(evidence: Evidence, i: int) -> list[Reason]:
    """At most one: other units explain labels and rows that differ, other rows explain labels."""
    for one in (_units, _foreign, _target, _labels):
        if reason := one(evidence, i):
            return [reason]
    return []


def _units(evidence: Evidence, i: int) -> Reason | None:
    columns = evidence.columns[i]
    if not columns or len(evidence.names) < 3:
        return None
    told = ", ".join(
        f"`{one.name}` has a middle value of {_short(one.here)} (others: {_short(one.others)})"
        for one in columns[:3]
    )
    more = f" and {len(columns) - 3} columns more" if len(columns) > 3 else ""
    which = "its unit" if len(columns) == 1 else "their units"
    return Reason("units", f"{told}{more}, and spreads as the others' do otherwise: check {which}.")


def _foreign(evidence: Evidence, i: int) -> Reason | None:
    measure = evidence.difference
    interval = measure.interval(i, 0.0, 1.0)
    if interval is None or interval[1] < FOREIGN or measure.z(i) < STANDS_OUT:
        return None
    sentence = (
        "Your rows look unlike the others': told apart from them, "
        f"{_percent(interval[0])} of pairs are sorted right (others: {_range(measure.usual(i))}; "
        "50% would be chance)"
    )
    labels = evidence.labels
    if labels is not None and _stands_out(labels, i):
        off = float(labels.disagreement.values[i])
        usual = _range(labels.disagreement.usual(i))
        sentence += f", and what the others would predict misses {_percent(off)} of your labels "
        sentence += f"(others: {usual})"
    return Reason("rows", f"{sentence}: check whether they are of the population that is tested.")


def _stands_out(labels: Labels, i: int) -> bool:
    if labels.tolerance is None:
        return _beyond(labels.wrong, i, LEAST_WRONG)
    return _beyond(labels.wrong, i, LEAST_FLAT) or _beyond(labels.disagreement, i, LEAST_FLAT)


def _beyond(measure: Measure, i: int, least: float) -> bool:
    known = bool(measure.known[i]) and measure.z(i) > STANDS_OUT
    return known and float(measure.values[i]) - measure.middle(i) > least


def _target(evidence: Evidence, i: int) -> Reason | None:
    """Labels that fit once exchanged, or numbers once rescaled."""
    labels = evidence.labels
    if labels is None or not _stands_out(labels, i):
        return None
    off, left = float(labels.disagreement.values[i]), float(labels.mended[i])
    usual = labels.disagreement.middle(i)
    if left - usual > MENDED * (off - usual) or not _is_mapped(labels, i, off - usual):
        return None
    head = f"What the {_others(evidence, i)} would predict misses {_percent(off)} of your rows "
    head += f"(others: {_range(labels.disagreement.usual(i))}), but only {_percent(left)} "
    if labels.tolerance is None:
        said, written = (evidence.classes[int(k)] for k in labels.change[i])
        change = f"if labels are exchanged: where they say {_label(said)}, you mostly write "
        return Reason("target", f"{head}{change}{_label(written)}: {_check(evidence)}.")
    slope, offset = (float(x) for x in labels.change[i])
    change = f"once your values are divided by about {slope:.2g}"
    if abs(offset) > 0.5 * abs(slope) * labels.tolerance:
        change += f", {_short(offset)} taken off first"
    return Reason("target", f"{head}{change}: {_check(evidence, 'the unit and sign')}.")


def _is_mapped(labels: Labels, i: int, excess: float) -> bool:
    """Whether one change explains all: enough labels, or numbers that follow as well as any."""
    if labels.tolerance is None or labels.correlation is None:
        return excess > LEAST_EXCHANGED
    if not _beyond(labels.disagreement, i, LEAST_FLAT):
        return False
    slope, offset = (float(x) for x in labels.change[i])
    others = np.delete(labels.correlation, i)
    follows = float(labels.correlation[i]) > FOLLOWS * float(np.nanmedian(others))
    scaled = slope <= 0 or abs(np.log(slope)) > np.log(RESCALED)
    return follows and (scaled or abs(offset) > labels.tolerance)


def _labels(evidence: Evidence, i: int) -> Reason | None:
    labels = evidence.labels
    if labels is None or not _stands_out(labels, i):
        return None
    interval = labels.part(i)
    assert interval is not None
    others = f"what the {_others(evidence, i)} would predict"
    if labels.tolerance is not None and not _beyond(labels.disagreement, i, LEAST_FLAT):
        trend, usual = 1 - float(labels.wrong.values[i]), labels.wrong.usual(i)
        ends = "unknown" if usual is None else f"{1 - usual[1]:.2f} to {1 - usual[0]:.2f}"
        return Reason(
            "labels",
            f"Where {others} rises by 1, your values rise by {trend:.2f} (others: {ends}), as if "
            f"many of them belonged to other rows: {_check(evidence)}.",
        )
    kind = "Labels disagree with" if labels.tolerance is None else "Values are far from"
    return Reason(
        "labels",
        f"{kind} {others} on {_percent(interval[0])} of your rows "
        f"(others: {_range(labels.disagreement.usual(i))}): {_check(evidence)}.",
    )


def _shared(evidence: Evidence, i: int) -> Iterator[Reason]:
    shared = evidence.shared[i]
    if shared:
        told = ", ".join(f"{one.rows:,} with {one.owner!r}" for one in shared[:4])
        more = f" and {len(shared) - 4} owners more" if len(shared) > 4 else ""
        yield Reason(
            "shared",
            f"You share rows, targets included: {told}{more}. Who shares a row shares what it is "
            "worth; agree on whose they are.",
        )


def _tested(evidence: Evidence, i: int) -> Iterator[Reason]:
    if count := evidence.tested[i]:
        rows = "row of the test set is" if count == 1 else "rows of the test set are"
        yield Reason(
            "tested",
            f"{count:,} {rows} among yours: a score on known rows flatters; take them out.",
        )


def _small(evidence: Evidence, i: int) -> Iterator[Reason]:
    others = np.delete(evidence.sizes, i)
    if len(others) and evidence.sizes[i] < FEW * np.median(others):
        yield Reason(
            "small",
            f"You have {evidence.sizes[i]:,.0f} rows where the others usually have "
            f"{np.median(others):,.0f}: few rows add little, whatever is in them.",
        )


def _untold(evidence: Evidence, i: int) -> Iterator[Reason]:
    labels = evidence.labels
    if evidence.untold:
        yield Reason("unknown", evidence.untold)
    elif labels is not None and not labels.wrong.known[i]:
        yield Reason("unknown", "Whether labels fit the others' cannot be told of so few rows.")
    elif labels is not None and len(evidence.names) == 2:
        off = float(labels.disagreement.values[i])
        yield Reason(
            "unknown",
            f"What the other owner's rows would predict misses {_percent(off)} of yours; of two "
            "owners, nobody can tell whose labels or rows are the odd ones.",
        )


def _alike(evidence: Evidence, i: int) -> list[Reason]:
    labels = evidence.labels
    if labels is None or len(evidence.names) < 3 or not labels.wrong.known[i]:
        return []
    off, usual = float(labels.disagreement.values[i]), _range(labels.disagreement.usual(i))
    text = f"Nothing stands out: what the {_others(evidence, i)} would predict "
    return [Reason("alike", f"{text}misses {_percent(off)} of your rows (others: {usual}).")]


def _size(evidence: Evidence, i: int) -> Iterator[Reason]:
    expected, value = float(evidence.by_size[i]), float(evidence.values[i])
    if not np.isfinite(expected):
        return
    rows = f"{evidence.sizes[i]:,.0f} rows"
    head = f"By their number alone, {rows} would be worth {_short(expected)}; yours are worth "
    slack = max(0.1 * abs(expected), 0.0 if evidence.errors is None else 2 * evidence.errors[i])
    apart = value - expected
    verdict = "what is in them adds nothing and takes nothing away"
    if abs(apart) > slack:
        verdict = "what is in them adds to it" if apart > 0 else "what is in them takes from it"
    yield Reason("size", f"{head}{_short(value)}: {verdict}.")


def _pools(evidence: Evidence, i: int) -> Iterator[Reason]:
    first, last = float(evidence.first_gain[i]), float(evidence.last_gain[i])
    if not np.isfinite([first, last]).all():
        return
    told = f"Alone they {_moves(first)}; on top of everybody else's they {_moves(last, 'it')}"
    if first > 0 and last < 0:
        told += ": small pools gain by them, large ones lose"
    elif first > 0 and last < 0.1 * first:
        told += ": small pools need them, large ones hardly do"
    elif last > max(first, 0.0):
        told += ": they help large pools more than small ones"
    yield Reason("pools", f"{told}.")


def _moves(gain: float, what: str = "the score") -> str:
    if _short(gain) in ("0", "-0"):
        return f"leave {what} as it is"
    return f"{'raise' if gain > 0 else 'lower'} {what} by {_short(abs(gain))}"


def _check(evidence: Evidence, what: str = "the coding") -> str:
    return f"check {what} of `{evidence.target}`" if evidence.target else f"check {what} of targets"


def _others(evidence: Evidence, i: int) -> str:
    """How many others the model was trained on."""
    others = len(evidence.names) - len({i} | evidence.left_out) or len(evidence.names) - 1
    number = NUMBERS[others] if others < len(NUMBERS) else f"{others:,}"
    return "other owner" if others == 1 else f"other {number}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _range(usual: tuple[float, float] | None) -> str:
    if usual is None:
        return "unknown"
    low, high = (f"{100 * end:.0f}" for end in usual)
    return f"{low}%" if low == high else f"{low} to {high}%"


def _label(label: Any) -> str:
    return repr(label.item() if hasattr(label, "item") else label)


def _short(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"
