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

from dushapley.arrays import BoolArray, FloatArray
from dushapley.engine.diagnosis.measures import Labels, Measure, far
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
    camps: tuple[tuple[int, ...], ...] = ()
    shares: Sequence[Measure] = ()
    agreement: FloatArray | None = None


def few_rows(sizes: FloatArray) -> BoolArray:
    """Who has so few rows, beside the others, that what they show is mostly chance."""
    if len(sizes) < 2:
        return np.zeros(len(sizes), dtype=np.bool_)
    return np.array([sizes[i] < FEW * np.median(np.delete(sizes, i)) for i in range(len(sizes))])


def within_one(usual: Range | None) -> Range | None:
    """A range of parts, whose estimates may lie below 0 or above 1."""
    return None if usual is None else (min(max(usual[0], 0.0), 1.0), min(max(usual[1], 0.0), 1.0))


def reasons_for(evidence: Evidence, i: int) -> tuple[Reason, ...]:
    """Sentences about one owner, the weightiest first."""
    # at most one accusation: other units explain labels and rows that differ, other rows labels
    accusations = (one(evidence, i) for one in (_units, _camp, _foreign, _target, _labels))
    found = [reason for reason in accusations if reason][:1]
    found += [*_common(evidence, i), *_rows(evidence, i), *_untold(evidence, i)]
    if not any(r.accuses or r.code in ("unknown", "common") for r in found):
        found += _alike(evidence, i)
    return (*found, *_size(evidence, i), *_pools(evidence, i)) or (
        Reason("unknown", "Nothing could be measured of these data."),
    )


def _units(evidence: Evidence, i: int) -> Reason | None:
    columns = evidence.columns[i]
    if not columns or len(evidence.names) < 3:
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
    if len(evidence.camps) != 2 or len(evidence.camps[0]) == len(evidence.camps[1]):
        return None
    return _of_camps(evidence, i, "target") if i in evidence.camps[1] else None


def _of_camps(evidence: Evidence, i: int, code: str) -> Reason:
    own, other = sorted(evidence.camps, key=lambda camp: i not in camp)
    assert evidence.agreement is not None
    friends = [k for k in own if k != i]
    inside, outside = (float(evidence.agreement[i, list(side)].mean()) for side in (friends, other))
    return Reason(
        code,
        f"A model of your rows predicts {_percent(inside)} of the labels of "
        f"{_count(len(friends))}, but {_percent(outside)} of those of {_count(len(other))}: two "
        "groups write labels (or columns) differently, and the data cannot tell who is right; "
        f"{_check(evidence)}.",
    )


def _foreign(evidence: Evidence, i: int) -> Reason | None:
    measure = evidence.difference
    interval = measure.interval(i, 0.0, 1.0)
    limit = far(len(evidence.names))
    if interval is None or interval[1] < FOREIGN or measure.z(i) < limit:
        return None
    sentence = (
        "Your rows look unlike the others': told apart from them, "
        f"{_percent(interval[0])} of pairs are sorted right ({_range(measure, i)}; "
        "50% would be chance)"
    )
    labels = evidence.labels
    if labels is not None and _stands_out(labels, i):
        off = float(labels.disagreement.values[i])
        sentence += f", and what the others would predict misses {_percent(off)} of your labels "
        sentence += f"({_range(labels.disagreement, i)})"
    return Reason("rows", f"{sentence}: check whether they are of the population that is tested.")


def _stands_out(labels: Labels, i: int) -> bool:
    if labels.tolerance is None:
        return labels.wrong.is_above(i, LEAST_WRONG)
    flat = labels.wrong.is_above(i, LEAST_FLAT)
    return flat or labels.disagreement.is_above(i, LEAST_FLAT)


def _target(evidence: Evidence, i: int) -> Reason | None:
    """Labels that fit once exchanged, or numbers once rescaled."""
    labels = evidence.labels
    if labels is None or not labels.disagreement.is_above(i, 0.0):
        return None
    off, left = float(labels.disagreement.values[i]), float(labels.mended[i])
    usual = labels.disagreement.middle(i)
    if left - usual > MENDED * (off - usual) or not _is_mapped(labels, i, off - usual):
        return None
    head = f"What the {_others(evidence, i)} would predict misses {_percent(off)} of your rows "
    head += f"({_range(labels.disagreement, i)}), but only {_percent(left)} "
    if labels.tolerance is None:
        said, written = (evidence.classes[int(k)] for k in labels.change[i])
        change = f"if labels are exchanged: where they say {_label(said)}, you mostly write "
        check = f"{_check(evidence)}, and that no columns are swapped"
        return Reason("target", f"{head}{change}{_label(written)}: {check}.")
    slope, offset = (float(x) for x in labels.change[i])
    change = f"once your values are divided by about {slope:.2g}"
    if abs(offset) > 0.5 * abs(slope) * labels.tolerance:
        change += f", {_short(offset)} taken off first"
    return Reason("target", f"{head}{change}: {_check(evidence, 'the unit, sign and level')}.")


def _is_mapped(labels: Labels, i: int, excess: float) -> bool:
    """Whether one change explains all: enough labels, or numbers that follow as well as any."""
    if labels.gain is not None:
        enough = excess > LEAST_EXCHANGED and bool(labels.wrong.known[i])
        gain = float(labels.gain.values[i]), float(labels.gain.errors[i])
        return enough and gain[0] > far(len(labels.rows)) * gain[1]
    if labels.correlation is None or not labels.disagreement.is_above(i, LEAST_FLAT):
        return False
    assert labels.tolerance is not None
    slope, offset = (float(x) for x in labels.change[i])
    others = np.delete(labels.correlation, i)
    follows = float(labels.correlation[i]) > FOLLOWS * float(np.nanmedian(others))
    scaled = slope <= 0 or abs(np.log(slope)) > np.log(RESCALED)
    return follows and (scaled or abs(offset) > labels.tolerance)


def _labels(evidence: Evidence, i: int) -> Reason | None:
    labels = evidence.labels
    if labels is None or not _stands_out(labels, i):
        return None
    others, off = f"what the {_others(evidence, i)} would predict", labels.disagreement
    missed = f"on {_percent(float(off.values[i]))} of your rows ({_range(off, i)})"
    if labels.tolerance is None:
        wrong = labels.wrong.interval(i, 0.0, 1.0)
        assert wrong is not None
        return Reason(
            "labels",
            f"Labels disagree with {others} {missed}; {_percent(wrong[0])} look wrong even "
            "if rows that are hard to predict and labels that are common with you are allowed for "
            f"({_range(labels.wrong, i)}): {_check(evidence)}, or whether it is less certain with "
            "you.",
        )
    doubt = f"{_check(evidence)}, or whether it is measured less exactly with you"
    if off.is_above(i, LEAST_FLAT):
        return Reason("labels", f"Values are far from {others} {missed}: {doubt}.")
    trend, usual = 1 - float(labels.wrong.values[i]), labels.wrong.usual(i)
    ends = "unknown" if usual is None else f"{1 - usual[1]:.2f} to {1 - usual[0]:.2f}"
    return Reason(
        "labels",
        f"Where {others} rises by 1, your values rise by {trend:.2f} (others: "
        f"{ends}{_left_out(labels.wrong, i)}), as if many of them belonged to other rows: {doubt}.",
    )


def _common(evidence: Evidence, i: int) -> Iterator[Reason]:
    """A label that is more or less common than with any other owner; no accusation."""
    limit = far(len(evidence.names) * max(len(evidence.shares), 1))
    outside = []
    for k, share in enumerate(evidence.shares):
        usual, here = share.usual(i), float(share.values[i])
        if usual is None or len(evidence.names) < 3 or abs(share.z(i)) <= limit:
            continue
        beyond = max(usual[0] - here, here - usual[1])
        outside += [(beyond, k)] if beyond > LEAST_SHARE else []
    if not outside:
        return
    share = evidence.shares[k := max(outside)[1]]
    here, middle = float(share.values[i]), share.middle(i)
    written = f"“{evidence.target}”" if evidence.target else "the target"
    yield Reason(
        "common",
        f"With you, {written} is {_label(evidence.classes[k])} on {_percent(here)} of the rows "
        f"({_range(share, i)}): it is {'more' if here > middle else 'less'} common with you, or "
        "written by another rule.",
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
            f"You have {rows} where the others usually have "
            f"{np.median(np.delete(sizes, i)):,.0f}. What so few add depends on which "
            "ones they happen to be: other rows of your kind might be worth much more or less, "
            "which no range given here covers.",
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
    off = float(labels.disagreement.values[i])
    text = f"Nothing stands out: what the {_others(evidence, i)} would predict "
    usual = _range(labels.disagreement, i)
    return [Reason("alike", f"{text}misses {_percent(off)} of your rows ({usual}).")]


def _size(evidence: Evidence, i: int) -> Iterator[Reason]:
    expected, value = float(evidence.by_size[i]), float(evidence.values[i])
    if not np.isfinite(expected):
        return
    usual, own = (_worth(evidence, x) for x in (expected, value))
    slack = max(0.1 * abs(expected), 0.0 if evidence.errors is None else 2 * evidence.errors[i])
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
    others = len(evidence.names) - len({i} | evidence.left_out) or len(evidence.names) - 1
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
    told = [f"{_number(odd)} that stand{'s' * (odd == 1)} out"] if odd else []
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
