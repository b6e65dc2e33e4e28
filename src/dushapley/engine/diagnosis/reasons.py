"""From measurements to sentences: what was found, beside what is usual, and what to do.

The thresholds were set on data other than those they are judged by (`benchmarks/reasons.py`,
docs/reasons.md); each is as strict as it takes to accuse fewer than one clean owner in a hundred. A
sentence quotes the number that led to it, and names every cause that the number cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Names
from dushapley.engine.diagnosis.measures import Labels, Measure, far, part_of
from dushapley.results.diagnosis import Column, Range, Reason, Shared
from dushapley.terminal import decimals_for

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
LEAST_SHARE = 0.1
"""Part of the rows, beyond the others' range, from which a label is more or less common."""
FEW = 0.25
"""Rows, as a part of what others usually have, below which an owner is called small."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Evidence:
    """All that was measured, owner by owner; None where it could not be."""

    names: Names
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
    camps: tuple[tuple[int, ...], ...] = ()
    shares: Sequence[Measure] = ()
    agreement: FloatArray | None = None


def few_rows(sizes: FloatArray) -> BoolArray:
    """Who has so few rows, beside the others, that what they show is mostly chance."""
    if len(sizes) < 2:
        return np.zeros(len(sizes), dtype=np.bool_)
    usual = [usual_rows(sizes, i) for i in range(len(sizes))]
    return np.asarray(sizes < FEW * np.array(usual))


def usual_rows(sizes: FloatArray, i: int) -> float:
    """Rows that the others usually have."""
    return float(np.median(np.delete(sizes, i)))


def within_one(usual: Range | None) -> Range | None:
    """A range of parts, whose estimates may lie below 0 or above 1."""
    return None if usual is None else (part_of(usual[0]), part_of(usual[1]))


def reasons_for(evidence: Evidence, i: int) -> tuple[Reason, ...]:
    """Sentences about one owner, the weightiest first."""
    # at most one accusation: other units explain labels and rows that differ, other rows labels
    accusations = (one(evidence, i) for one in (_units, _camp, _foreign, _target, _labels))
    found = [reason for reason in accusations if reason][:1]
    found += [*_common(evidence, i), *_rows(evidence, i), *_untold(evidence, i)]
    if not any(r.accuses or r.code in ("unknown", "common") for r in found):
        found += _alike(evidence, i)
    found += [*_size(evidence, i), *_pools(evidence, i)]
    return tuple(found) or (Reason("unknown", "Nothing could be measured of these data."),)


def _units(evidence: Evidence, i: int) -> Reason | None:
    columns = evidence.columns[i]
    if not columns:
        return None
    told = ", ".join(
        f"“{one.name}” has a middle value of {_short(one.here)} (others: {_short(one.others)})"
        for one in columns[:3]
    )
    more = f" and {len(columns) - 3} columns more" if len(columns) > 3 else ""
    return Reason(
        "units",
        f"{told}{more}, and spreads as the others' do otherwise: it is in another unit, or your "
        "rows are of another population; check which.",
    )


def _camp(evidence: Evidence, i: int) -> Reason | None:
    """Of the smaller of two camps whose labels contradict each other."""
    if not evidence.camps:
        return None
    larger, smaller = evidence.camps
    is_fewer = i in smaller and len(smaller) < len(larger)
    return _of_camps(evidence, i, "target") if is_fewer else None


def _of_camps(evidence: Evidence, i: int, code: str) -> Reason:
    own, other = sorted(evidence.camps, key=lambda camp: i not in camp)
    assert evidence.agreement is not None
    friends, predicted = [k for k in own if k != i], evidence.agreement[i]
    inside = _percent(float(predicted[friends].mean()))
    outside = _percent(float(predicted[list(other)].mean()))
    return Reason(
        code,
        f"A model of your rows predicts {inside} of the labels of {_count(len(friends))}, but "
        f"{outside} of those of {_count(len(other))}: two groups write labels (or columns) "
        f"differently, and the data cannot tell who is right; {_check(evidence)}.",
    )


def _foreign(evidence: Evidence, i: int) -> Reason | None:
    measure = evidence.difference
    interval = measure.interval(i)
    if interval is None or interval[1] < FOREIGN or measure.z(i) < far(len(evidence.names)):
        return None
    right, usual = _percent(interval[0]), _range(measure, i)
    sentence = (
        f"Your rows look unlike the others': told apart from them, {right} of pairs are sorted "
        f"right ({usual}; 50% would be chance)"
    )
    labels = evidence.labels
    if labels is not None and _stands_out(labels, i):
        off, usual = _misses(labels, i)
        sentence += f", and what the others would predict misses {off} of your labels ({usual})"
    return Reason("rows", f"{sentence}: check whether they are of the population that is tested.")


def _stands_out(labels: Labels, i: int) -> bool:
    if labels.tolerance is None:
        return labels.wrong.is_above(i, LEAST_WRONG)
    return labels.wrong.is_above(i, LEAST_FLAT) or labels.disagreement.is_above(i, LEAST_FLAT)


def _misses(labels: Labels, i: int) -> tuple[str, str]:
    """What the others' model misses of an owner's rows, and what is usual."""
    off = labels.disagreement
    return _percent(off.value(i)), _range(off, i)


def _target(evidence: Evidence, i: int) -> Reason | None:
    """Labels that fit once exchanged, or numbers once rescaled."""
    labels = evidence.labels
    if labels is None or not labels.disagreement.is_above(i, 0.0):
        return None
    left, middle = float(labels.mended[i]), labels.disagreement.middle(i)
    excess = labels.disagreement.value(i) - middle
    if left - middle > MENDED * excess or not _is_mapped(labels, i, excess):
        return None
    off, usual = _misses(labels, i)
    head = (
        f"What the {_others(evidence, i)} would predict misses {off} of your rows ({usual}), but "
        f"only {_percent(left)} "
    )
    if labels.tolerance is None:
        said, written = (evidence.classes[int(k)] for k in labels.change[i])
        change = f"if labels are exchanged: where they say {_label(said)}, you mostly write "
        return Reason(
            "target",
            f"{head}{change}{_label(written)}: {_check(evidence)}, and that no columns are "
            "swapped.",
        )
    slope, offset = labels.change[i].tolist()
    change = f"once your values are divided by about {slope:.2g}"
    if abs(offset) > 0.5 * abs(slope) * labels.tolerance:
        change += f", {_short(offset)} taken off first"
    return Reason("target", f"{head}{change}: {_check(evidence, 'the unit, sign and level')}.")


def _is_mapped(labels: Labels, i: int, excess: float) -> bool:
    """Whether one change explains all: enough labels, or numbers that follow as well as any."""
    if labels.gain is not None:
        enough = excess > LEAST_EXCHANGED and bool(labels.wrong.known[i])
        gain, error = labels.gain.value(i), float(labels.gain.errors[i])
        return enough and gain > far(len(labels.rows)) * error
    if labels.correlation is None or not labels.disagreement.is_above(i, LEAST_FLAT):
        return False
    assert labels.tolerance is not None
    slope, offset = labels.change[i].tolist()
    usual = float(np.nanmedian(np.delete(labels.correlation, i)))
    if float(labels.correlation[i]) <= FOLLOWS * usual:
        return False
    scaled = slope <= 0 or abs(np.log(slope)) > np.log(RESCALED)
    return scaled or abs(offset) > labels.tolerance


def _labels(evidence: Evidence, i: int) -> Reason | None:
    labels = evidence.labels
    if labels is None or not _stands_out(labels, i):
        return None
    others = f"what the {_others(evidence, i)} would predict"
    off, usual = _misses(labels, i)
    missed, check = f"on {off} of your rows ({usual})", _check(evidence)
    if labels.tolerance is None:
        wrong, usual = _percent(part_of(labels.wrong.value(i))), _range(labels.wrong, i)
        return Reason(
            "labels",
            f"Labels disagree with {others} {missed}; {wrong} look wrong even if rows that are "
            "hard to predict and labels that are common with you are allowed for "
            f"({usual}): {check}, or whether it is less certain with you.",
        )
    doubt = f"{check}, or whether it is measured less exactly with you"
    if labels.disagreement.is_above(i, LEAST_FLAT):
        return Reason("labels", f"Values are far from {others} {missed}: {doubt}.")
    trend, ends = 1 - labels.wrong.value(i), labels.wrong.usual(i)
    usual = "unknown" if ends is None else f"{1 - ends[1]:.2f} to {1 - ends[0]:.2f}"
    return Reason(
        "labels",
        f"Where {others} rises by 1, your values rise by {trend:.2f} (others: {usual}"
        f"{_left_out(labels.wrong, i)}), as if many of them belonged to other rows: {doubt}.",
    )


def _common(evidence: Evidence, i: int) -> Iterator[Reason]:
    """A label that is more or less common than with any other owner; no accusation."""
    limit = far(len(evidence.names) * max(len(evidence.shares), 1))
    outside = []
    for k, share in enumerate(evidence.shares):
        usual, here = share.usual(i), share.value(i)
        if usual is not None and abs(share.z(i)) > limit:
            beyond = max(usual[0] - here, here - usual[1])
            outside.append((beyond, k))
    beyond, k = max(outside, default=(0.0, 0))
    if beyond <= LEAST_SHARE:
        return
    share, label = evidence.shares[k], _label(evidence.classes[k])
    here, usual_share = share.value(i), _range(share, i)
    more = "more" if here > share.middle(i) else "less"
    written = f"“{evidence.target}”" if evidence.target else "the target"
    yield Reason(
        "common",
        f"With you, {written} is {label} on {_percent(here)} of the rows ({usual_share}): it is "
        f"{more} common with you, or written by another rule.",
    )


def _rows(evidence: Evidence, i: int) -> Iterator[Reason]:
    """Rows that others or the test set hold as well, and too few of them."""
    shared, sizes = evidence.shared[i], evidence.sizes
    if shared:
        told = ", ".join(f"{one.rows:,} with {one.owner!r}" for one in shared[:4])
        more = f" and {len(shared) - 4} owners more" if len(shared) > 4 else ""
        yield Reason(
            "shared",
            f"You share rows, targets included: {told}{more}. Who shares a row shares what it is "
            "worth; agree on whose they are.",
        )
    if count := evidence.tested[i]:
        rows = "row of the test set is" if count == 1 else "rows of the test set are"
        yield Reason(
            "tested",
            f"{count:,} {rows} among yours: a score on known rows flatters; take them out.",
        )
    if few_rows(sizes)[i]:
        rows = "1 row" if sizes[i] == 1 else f"{sizes[i]:,.0f} rows"
        yield Reason(
            "small",
            f"You have {rows} where the others usually have {usual_rows(sizes, i):,.0f}. What so "
            "few add depends on which ones they happen to be: other rows of your kind might be "
            "worth much more or less, which no range given here covers.",
        )


def _untold(evidence: Evidence, i: int) -> Iterator[Reason]:
    labels = evidence.labels
    if evidence.untold:
        yield Reason("unknown", evidence.untold)
    elif any(i in camp for camp in evidence.camps) and not _camp(evidence, i):
        yield _of_camps(evidence, i, "unknown")
    elif labels is not None and not labels.wrong.known[i]:
        yield Reason("unknown", "Whether labels fit the others' cannot be told of so few rows.")
    elif labels is not None and len(evidence.names) == 2:
        off, _ = _misses(labels, i)
        yield Reason(
            "unknown",
            f"What the other owner's rows would predict misses {off} of yours; of two owners, "
            "nobody can tell whose labels or rows are the odd ones.",
        )


def _alike(evidence: Evidence, i: int) -> list[Reason]:
    labels = evidence.labels
    if labels is None:
        return []
    off, usual = _misses(labels, i)
    return [
        Reason(
            "alike",
            f"Nothing stands out: what the {_others(evidence, i)} would predict misses {off} of "
            f"your rows ({usual}).",
        )
    ]


def _size(evidence: Evidence, i: int) -> Iterator[Reason]:
    expected, value = float(evidence.by_size[i]), float(evidence.values[i])
    if not np.isfinite(expected):
        return
    usual, own = _worth(evidence, expected), _worth(evidence, value)
    noise = 0.0 if evidence.errors is None else 2 * evidence.errors[i]
    slack = max(0.1 * abs(expected), noise)
    apart = value - expected
    verdict = "they are worth what their number says"
    if abs(apart) > slack and few_rows(evidence.sizes)[i]:
        verdict = "with so few rows, the difference may be the luck of these"
    elif abs(apart) > slack:
        verdict = "what is in them adds to it" if apart > 0 else "what is in them takes from it"
    yield Reason(
        "size",
        f"{evidence.sizes[i]:,.0f} rows of the usual kind would be worth {usual}; yours are worth "
        f"{own}: {verdict}.",
    )


def _pools(evidence: Evidence, i: int) -> Iterator[Reason]:
    first, last = float(evidence.first_gain[i]), float(evidence.last_gain[i])
    if not np.isfinite([first, last]).all():
        return
    alone, on_top = _moves(evidence, first, "the score"), _moves(evidence, last, "it")
    told = f"Alone they {alone}; on top of everybody else's they {on_top}"
    if first > 0 and last < 0:
        told += ": small pools gain by them, large ones lose"
    elif first > 0 and last < 0.1 * first:
        told += ": small pools need them, large ones hardly do"
    elif last > max(first, 0.0):
        told += ": they help large pools more than small ones"
    yield Reason("pools", f"{told}.")


def _moves(evidence: Evidence, gain: float, what: str) -> str:
    size = _worth(evidence, abs(gain))
    if size == _worth(evidence, 0.0):
        return f"leave {what} as it is"
    return f"{'raise' if gain > 0 else 'lower'} {what} by {size}"


def _worth(evidence: Evidence, worth: float) -> str:
    """A value with as many decimals as all values have."""
    digits = decimals_for(evidence.values)
    text = f"{worth:z,.{digits}f}" if digits >= 0 else f"{worth:z.3e}"
    return text.replace("-", "−")


def _check(evidence: Evidence, what: str = "the coding") -> str:
    return f"check {what} of “{evidence.target}”" if evidence.target else f"check {what} of targets"


def _others(evidence: Evidence, i: int) -> str:
    """How many others the model was trained on."""
    n = len(evidence.names)
    others = n - len({i} | evidence.left_out) or n - 1
    return "other owner" if others == 1 else f"other {_number(others)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _range(measure: Measure, i: int) -> str:
    """What is usual among the others, and who of them it leaves out."""
    usual = within_one(measure.usual(i))
    if usual is None:
        return "others: unknown"
    low, high = (f"{100 * end:.0f}" for end in usual)
    ends = f"{low}%" if low == high else f"{low} to {high}%"
    return f"others: {ends}{_left_out(measure, i)}"


def _left_out(measure: Measure, i: int) -> str:
    odd, few = measure.left_out(i)
    stand = "stands" if odd == 1 else "stand"
    told = [f"{_number(odd)} that {stand} out"] if odd else []
    told += [f"{_number(few)} of few rows"] if few else []
    return f", without {' and '.join(told)}" if told else ""


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else f"{count:,}"


def _count(owners: int) -> str:
    return f"{_number(owners)} {'other owner' if owners == 1 else 'others'}"


def _label(label: Any) -> str:
    return repr(label.item() if hasattr(label, "item") else label)


def _short(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"
