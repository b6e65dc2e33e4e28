"""Owners and numbers far from all others: another population, other units, a slip or a mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.check.columns import BY_CHANCE, only
from dushapley.data.check.spelling import foreign_owners
from dushapley.data.check.survey import Survey, block, first_row
from dushapley.data.findings import Finding, FindingStream
from dushapley.data.intake import folded, whose
from dushapley.data.tables import enumerated

SMALL = 10
"""Rows below which an owner is called small."""
OUTSIDE, APART = 0.6, 5.0
"""How far one median lies from the usual one: in the width of the middle 90% of an owner's values,
and in what owners' medians usually differ by."""
USUAL, AGAINST, BELOW_ZERO, BELOW_USUAL = 0.3, -0.1, 2.0, 6.0
"""Correlations of a score made from the others' rows with the target: usually above the first, with
one owner below the second, and that so many standard errors below zero and below the usual one."""
LEAST_VALUES = 10
"""Different values from which a column is taken for a measure that has a unit."""
UNITS = {
    2.2046: "pounds for kilograms", 1000.0: "a thousandth of the unit", 100.0: "hundredths",
    10.0: "tenths", 2.54: "centimetres for inches", 1.6093: "kilometres for miles",
    3.2808: "feet for metres", 12.0: "months for years", 365.25: "days for years",
    60.0: "minutes for hours", 24.0: "hours for days", 7.0: "days for weeks", 1e6: "millionths",
    0.0555: "mmol/l for mg/dl", 88.42: "µmol/l for mg/dl",
}  # fmt: skip
"""Factors between units that are mixed up."""
REPEATED = 3
"""Rows from which one number is a mark rather than a slip."""
APART_REPEATED, APART_SINGLE = 1.0, 10.0
"""How far a number lies from the nearest other one, in the range of all others: of a number that is
repeated, and of one that is not."""
LEAST_OTHERS = 10
"""Different other numbers from which a column has a range."""
MOST_PEELED = 6
"""Numbers of one column that are told."""


def small_owners(survey: Survey) -> FindingStream:
    """Owners with few rows, whose values rest on little."""
    sizes = dict(zip(survey.names, survey.sizes, strict=True))
    small = {name: size for name, size in sizes.items() if size < SMALL}
    if small:
        some = enumerated([f"{name!r} ({size})" for name, size in small.items()])
        median = int(np.median(survey.sizes))
        message = f"Owners with fewer than {SMALL} rows: {some}; the median owner has {median:,}."
        yield Finding("few-rows", "note", message, only(list(small)))


def one_class(survey: Survey) -> FindingStream:
    """Owners whose rows all have one label, where chance would not have it."""
    if len(survey.classes) < 2:
        return
    target = survey.target
    labels, counts = survey.counts(target)
    counts = counts[:, : len(survey.names)]
    shares = counts.sum(axis=1) / counts.sum()
    for j in np.flatnonzero((counts > 0).sum(axis=0) == 1):
        k = int(counts[:, j].argmax())
        rows, share, label = counts[k, j], shares[k], labels[k]
        if rows * np.log(share) < np.log(BY_CHANCE):
            name = survey.names[j]
            message = (
                f"All {rows:,} rows of owner {name!r} have the label {label!r} in {target!r}; of "
                f"all rows {share:.0%} have it."
            )
            yield Finding("one-class", "note", message, name, target, value=str(label))


def own_categories(survey: Survey) -> FindingStream:
    """Categories or labels that only one owner uses, in more rows than chance would give."""
    told = foreign_owners(survey)
    columns = survey.texts + [survey.target] * bool(survey.classes)
    share = survey.sizes / survey.sizes.sum()
    for column in columns if len(survey.names) > 1 else ():
        what = "labels" if column == survey.target else "categories"
        entries, counts = survey.counts(column)
        counts = counts[:, : len(survey.names)]
        words = [folded(str(entry)) for entry in entries]
        times = Counter(words)
        variant = np.array([times[word] > 1 for word in words])  # told as such
        alone = ((counts > 0).sum(axis=1) == 1) & ~variant
        owner = counts.argmax(axis=1)
        rows = counts.sum(axis=1)
        striking = alone & (rows * np.log(share[owner]) < np.log(BY_CHANCE / len(entries)))
        for j in np.unique(owner[striking]):
            if what == "labels" and j in told:
                continue
            own = np.flatnonzero(striking & (owner == j))
            own = own[np.argsort(-rows[own], kind="stable")]
            some = enumerated([f"{entries[k]!r} ({rows[k]:,})" for k in own], most=4)
            name, part = survey.names[j], rows[own].sum() / survey.sizes[j]
            message = (
                f"Only owner {name!r} uses these {what} of {column!r}: {some}; {part:.0%} of its "
                "rows have them."
            )
            yield Finding("own-category", "note", message, name, column, value=str(entries[own[0]]))


def shifted_units(survey: Survey) -> FindingStream:
    """Owners whose median lies far outside the others' values."""
    if len(survey.names) < 2 or not survey.amounts:
        return
    sample = survey.sample[:, : len(survey.amounts)]
    positive = (np.nan_to_num(sample, nan=1.0) > 0).all(axis=0)
    logs = np.log(np.where(positive, sample, 1.0))  # what is missing stays so
    striking = _apart(sample, survey.holder) | _apart(logs, survey.holder)
    owners = striking & (survey.sizes >= SMALL)[:, None]
    for column, values, shifted in zip(survey.amounts, sample.T, owners.T, strict=True):
        if shifted.any() and len(np.unique(values)) >= LEAST_VALUES:
            for j in np.flatnonzero(shifted):
                yield _shifted(survey, int(j), column)


def _apart(values: FloatArray, holder: Array) -> Array:
    """Whether an owner's median is far from the usual one (owners × columns)."""
    import pandas as pd

    points = pd.DataFrame(values).groupby(holder).quantile(np.array([0.05, 0.5, 0.95]), "nearest")
    low, middle, high = (points.xs(q, level=1).to_numpy() for q in (0.05, 0.5, 0.95))
    width = np.nanmedian(high - low, axis=0)
    if len(middle) == 2:  # each is judged by the other
        distance = np.abs(middle - middle[::-1])
        return np.asarray((width > 0) & (distance > width))
    distance = np.abs(middle - np.nanmedian(middle, axis=0))
    between = np.nanmedian(distance, axis=0) * 1.4826
    enough = (width > 0) & (distance > OUTSIDE * width)
    return np.asarray(enough & (distance > APART * between))


def _shifted(survey: Survey, j: int, column: str) -> Finding:
    name, medians = survey.names[j], [float(np.nanmedian(part)) for part in survey.parts(column)]
    own = medians.pop(j)
    known = [median for median in medians if not np.isnan(median)]
    others = float(np.median(known))
    message = (
        f"Owner {name!r} has a median of {own:.4g} in {column!r}, the others have {others:.4g} "
        f"(from {min(known):.4g} to {max(known):.4g}){_factor(own, others)}."
    )
    return Finding("shifted-units", "note", message, name, column, value=f"{own:.4g}")


def _factor(own: float, others: float) -> str:
    """The factor in words, and which units it is between, if it is known."""
    if own * others <= 0:
        return ""
    factor = max(own / others, others / own)
    known = {max(unit, 1 / unit): name for unit, name in UNITS.items()}
    near = [name for unit, name in known.items() if abs(np.log(factor / unit)) < 0.12]
    hint = f", or the other way round: {near[0]}?" if near else ""
    return f": a factor of {factor:.3g}{hint}"


def inverted_target(survey: Survey) -> FindingStream:
    """Owners whose targets run against what the features say everywhere else.

    A score is made of the other owners' rows (each feature weighted by its covariance with the
    target) and correlated with the owner's own targets.
    """
    if len(survey.names) < 3 or not survey.numbers or survey.target_kind == "mixed":
        return
    target = survey.target
    found: dict[str, tuple[float, float]] = {}
    precision = np.sqrt([len(rows) for rows in survey.picked])
    for goal in survey.goals.T:
        own = _agreement(survey, goal)
        usual = float(np.nanmedian(own))
        sure = (own * precision < -BELOW_ZERO) & ((usual - own) * precision > BELOW_USUAL)
        against = (own < AGAINST) & sure & (usual > USUAL)
        found |= {survey.names[j]: (own[j], usual) for j in np.flatnonzero(against)}
    for name, (correlation, usual) in found.items():
        message = (
            f"The target {target!r} of owner {name!r} runs against what the others' rows say: a "
            f"score made from theirs has a correlation of {correlation:.2f} with it (with the "
            f"others' typically {usual:.2f}). Is it the wrong way round?"
        )
        yield Finding("inverted-target", "note", message, name, target)


def _agreement(survey: Survey, goal: FloatArray) -> FloatArray:
    """Correlation of each owner's targets with the score that the others' rows make."""
    rows = survey.sample[:, : len(survey.numbers)]
    centre = np.nan_to_num(np.nanmean(rows, axis=0))
    spread = np.nan_to_num(np.nanstd(rows, axis=0))
    scaled = np.nan_to_num((rows - centre) / np.where(spread > 0, spread, 1))
    known = np.nan_to_num(goal, nan=float(np.nanmean(goal)))
    owned = [survey.holder == j for j in range(len(survey.names))]
    parts = [(scaled[own], known[own]) for own in owned]
    weights = np.stack([features.T @ (targets - targets.mean()) for features, targets in parts])
    agreement = np.full(len(parts), np.nan)
    for j, (features, targets) in enumerate(parts):
        score = features @ (weights.sum(axis=0) - weights[j])
        if len(targets) > 2 and np.ptp(score) > 0 and np.ptp(targets) > 0:
            agreement[j] = np.corrcoef(score, targets)[0, 1]
    return agreement


def infinite_values(survey: Survey) -> FindingStream:
    """Infinite numbers, which no model can be trained on."""
    for name, table in survey.everybody.items():
        for column in table.columns:
            numbers = table[column]
            if numbers.dtype.kind != "f" or column == survey.target:
                continue
            gone = np.isinf(numbers.to_numpy(dtype=np.float64))
            if gone.any():
                row, value = first_row(table, gone), str(numbers[gone].iloc[0])
                message = (
                    f"{whose(name)} has an infinite number in {gone.sum():,} of {len(table):,} "
                    f"rows of {column!r} ({value!r}, the first in row {row})."
                )
                yield Finding(
                    "infinite-value",
                    "stop",
                    message,
                    name,
                    column,
                    row,
                    value,
                    f"--read missing={value}",
                )


def extreme_values(survey: Survey) -> FindingStream:
    """Numbers farther from all others than those are from each other."""
    columns = survey.amounts
    if not columns:
        return
    blocks = [of[:, : len(columns)] for of in survey.blocks]
    if survey.test is not None and set(columns) <= set(survey.test.columns):
        blocks.append(block(survey.test, columns))
    held = [own for own in blocks if len(own)]
    low = np.fmin.reduce([np.fmin.reduce(own, axis=0) for own in held])
    high = np.fmax.reduce([np.fmax.reduce(own, axis=0) for own in held])
    for k, column in enumerate(columns):
        if _may_stand_apart(survey.sample[:, k], low[k], high[k]):
            parts = [of[:, k] for of in blocks]
            for value, others in _peeled(np.concatenate(parts)):
                yield _extreme(survey, column, parts, value, others)


def _may_stand_apart(sample: FloatArray, low: float, high: float) -> bool:
    """Whether the sample leaves room for it: saves the look at all rows."""
    inner = sample[(sample > low) & (sample < high)]
    if not len(inner):
        return False
    least, most = float(inner.min()), float(inner.max())
    return max(high - most, least - low) > APART_REPEATED * (most - least) / 2


def _peeled(values: FloatArray) -> Iterator[tuple[float, tuple[float, float]]]:
    """Numbers that stand apart, the farthest first, and the range of all that do not."""
    found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    apart: list[float] = []
    while len(found) > LEAST_OTHERS and len(apart) < MOST_PEELED:
        able = ((0,), (-1,), (0, -1))
        ends = next((list(ends) for ends in able if _is_apart(found, counts, ends)), [])
        if not ends:
            break
        apart += found[ends].tolist()
        found, counts = np.delete(found, ends), np.delete(counts, ends)
    for value in apart:
        yield value, (float(found[0]), float(found[-1]))


def _is_apart(found: FloatArray, counts: Array, ends: tuple[int, ...]) -> bool:
    """Whether these ends of the ordered numbers are far from what remains without them."""
    rest = np.delete(found, ends)
    least, most = rest[0], rest[-1]
    for end in ends:
        gap = max(least - found[end], found[end] - most)
        times = APART_REPEATED if counts[end] >= REPEATED else APART_SINGLE
        if len(rest) < LEAST_OTHERS or gap <= times * (most - least):
            return False
    return True


def _extreme(
    survey: Survey, column: str, parts: list[FloatArray], value: float, others: tuple[float, float]
) -> Finding:
    counts = [int((part == value).sum()) for part in parts]
    rows, total = max(counts), sum(counts)
    j = counts.index(rows)
    name = survey.holders[j]
    table = survey.everybody[name]
    row = first_row(table, parts[j] == value)
    number, (low, high) = f"{value:.10g}", others
    also = f" ({total - rows:,} more rows of others)" if total > rows else ""
    code, guess = "outlier", "a slip"
    if total >= REPEATED:
        code, guess = "placeholder", "a missing value"
    message = (
        f"{whose(name)} has {number} in {rows:,} of {len(table):,} rows of {column!r}, the first "
        f"in row {row}{also}; all other values lie from {low:.4g} to {high:.4g}: {guess}?"
    )
    return Finding(
        code,
        "note",
        message,
        name,
        column,
        row,
        number,
        f"--read missing={number} (for one file: FILE:missing={number})",
    )
