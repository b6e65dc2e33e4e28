"""Owners and numbers far from all others: another population, other units, a slip or a mark."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.check.columns import BY_CHANCE
from dushapley.data.check.spelling import foreign_owners
from dushapley.data.check.survey import Survey, block, row_of, whose
from dushapley.data.findings import Finding
from dushapley.data.intake import folded

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


def small_owners(survey: Survey) -> Iterator[Finding]:
    """Owners with few rows, whose values rest on little."""
    small = [j for j in range(len(survey.names)) if survey.sizes[j] < SMALL]
    if not small:
        return
    some = ", ".join(f"{survey.names[j]!r} ({survey.sizes[j]})" for j in small[:6])
    more = f" and {len(small) - 6} more" if len(small) > 6 else ""
    yield Finding(
        "few-rows",
        "note",
        f"Owners with fewer than {SMALL} rows: {some}{more}; the median owner has "
        f"{int(np.median(survey.sizes)):,}.",
        owner=survey.names[small[0]] if len(small) == 1 else None,
    )


def one_class(survey: Survey) -> Iterator[Finding]:
    """Owners whose rows all have one label, where chance would not have it."""
    if len(survey.classes) < 2:
        return
    labels, counts = survey.counts(survey.target)
    counts = counts[:, : len(survey.names)]
    share = counts.sum(axis=1) / counts.sum()
    for j in np.flatnonzero((counts > 0).sum(axis=0) == 1):
        k = int(counts[:, j].argmax())
        if counts[k, j] * np.log(share[k]) < np.log(BY_CHANCE):
            yield Finding(
                "one-class",
                "note",
                f"All {counts[k, j]:,} rows of owner {survey.names[j]!r} have the label "
                f"{labels[k]!r} in {survey.target!r}; of all rows {share[k]:.0%} have it.",
                owner=survey.names[j],
                column=survey.target,
                value=str(labels[k]),
            )


def own_categories(survey: Survey) -> Iterator[Finding]:
    """Categories or labels that only one owner uses, in more rows than chance would give."""
    told = foreign_owners(survey)
    columns = survey.texts + ([survey.target] if survey.classes else [])
    share = survey.sizes / survey.sizes.sum()
    for column in columns:
        entries, counts = survey.counts(column)
        counts = counts[:, : len(survey.names)]
        words = [folded(str(entry)) for entry in entries]
        variant = np.array([words.count(word) > 1 for word in words])  # told as such
        alone = ((counts > 0).sum(axis=1) == 1) & ~variant
        owner = counts.argmax(axis=1)
        rows = counts.sum(axis=1)
        striking = alone & (rows * np.log(share[owner]) < np.log(BY_CHANCE / len(entries)))
        for j in np.unique(owner[striking]) if len(survey.names) > 1 else []:
            if column == survey.target and j in told:
                continue
            own = np.flatnonzero(striking & (owner == j))
            own = own[np.argsort(-rows[own], kind="stable")]
            some = ", ".join(f"{entries[k]!r} ({rows[k]:,})" for k in own[:4])
            more = f" and {len(own) - 4} more" if len(own) > 4 else ""
            what = "labels" if column == survey.target else "categories"
            yield Finding(
                "own-category",
                "note",
                f"Only owner {survey.names[j]!r} uses these {what} of {column!r}: {some}{more}; "
                f"{rows[own].sum() / survey.sizes[j]:.0%} of its rows have them.",
                owner=survey.names[j],
                column=column,
                value=str(entries[own[0]]),
            )


def shifted_units(survey: Survey) -> Iterator[Finding]:
    """Owners whose median lies far outside the others' values."""
    if len(survey.names) < 2 or not survey.amounts:
        return
    sample = survey.sample[:, : len(survey.amounts)]
    positive = (np.nan_to_num(sample, nan=1.0) > 0).all(axis=0)
    logs = np.log(np.where(positive, sample, 1.0))  # what is missing stays so
    striking = _apart(sample, survey.holder) | _apart(logs, survey.holder)
    for column, owners in enumerate((striking & (survey.sizes >= SMALL)[:, None]).T):
        if owners.any() and len(np.unique(sample[:, column])) >= LEAST_VALUES:
            for j in np.flatnonzero(owners):
                yield _shifted(survey, int(j), column)


def _apart(values: FloatArray, holder: Array) -> Array:
    """Whether an owner's median is far from the usual one (owners × columns)."""
    import pandas as pd

    points = pd.DataFrame(values).groupby(holder).quantile(np.array([0.05, 0.5, 0.95]), "nearest")
    low, middle, high = (points.xs(q, level=1).to_numpy() for q in (0.05, 0.5, 0.95))
    usual = np.nanmedian(middle, axis=0)
    if len(middle) == 2:
        usual = middle[::-1]  # each is judged by the other
    distance = np.abs(middle - usual)
    width = np.nanmedian(high - low, axis=0)
    between = np.nanmedian(distance, axis=0) * 1.4826 if len(middle) > 2 else np.zeros(1)
    enough = (width > 0) & (distance > (OUTSIDE if len(middle) > 2 else 1.0) * width)
    return np.asarray(enough & (distance > APART * between))


def _shifted(survey: Survey, j: int, position: int) -> Finding:
    column = survey.amounts[position]
    parts = [of[:, position] for of in survey.blocks]
    own = float(np.nanmedian(parts[j]))
    others_own = [of for k, of in enumerate(parts) if k != j and not np.isnan(of).all()]
    medians = [float(np.nanmedian(of)) for of in others_own]
    others = float(np.median(medians))
    return Finding(
        "shifted-units",
        "note",
        f"Owner {survey.names[j]!r} has a median of {own:.4g} in {column!r}, the others have "
        f"{others:.4g} (from {min(medians):.4g} to {max(medians):.4g}){_factor(own, others)}.",
        owner=survey.names[j],
        column=column,
        value=f"{own:.4g}",
    )


def _factor(own: float, others: float) -> str:
    """The factor in words, and which units it is between, if it is known."""
    if own * others <= 0:
        return ""
    factor = max(own / others, others / own)
    near = [
        name for known, name in UNITS.items() if abs(np.log(factor / max(known, 1 / known))) < 0.12
    ]
    hint = f", or the other way round: {near[0]}?" if near else ""
    return f": a factor of {factor:.3g}{hint}"


def inverted_target(survey: Survey) -> Iterator[Finding]:
    """Owners whose targets run against what the features say everywhere else.

    A score is made of the other owners' rows (each feature weighted by its covariance with the
    target) and correlated with the owner's own targets.
    """
    if len(survey.names) < 3 or not survey.numbers or survey.kind(survey.target) == "mixed":
        return
    found: dict[int, tuple[float, float]] = {}
    for goal in survey.goals.T:
        own = _agreement(survey, goal)
        if np.isnan(own).all():
            continue
        usual = float(np.nanmedian(own))
        rows = np.array([len(rows) for rows in survey.picked])
        sure = (own * np.sqrt(rows) < -BELOW_ZERO) & ((usual - own) * np.sqrt(rows) > BELOW_USUAL)
        against = (own < AGAINST) & sure & (usual > USUAL)
        found |= {int(j): (float(own[j]), usual) for j in np.flatnonzero(against)}
    for j, (correlation, usual) in found.items():
        yield Finding(
            "inverted-target",
            "note",
            f"The target {survey.target!r} of owner {survey.names[j]!r} runs against what the "
            f"others' rows say: a score made from theirs has a correlation of {correlation:.2f} "
            f"with it (with the others' typically {usual:.2f}). Is it the wrong way round?",
            owner=survey.names[j],
            column=survey.target,
        )


def _agreement(survey: Survey, goal: FloatArray) -> FloatArray:
    """Correlation of each owner's targets with the score that the others' rows make."""
    rows = survey.sample[:, : len(survey.numbers)]
    centre = np.nan_to_num(np.nanmean(rows, axis=0))
    spread = np.nan_to_num(np.nanstd(rows, axis=0))
    scaled = np.nan_to_num((rows - centre) / np.where(spread > 0, spread, 1))
    parts = [survey.holder == j for j in range(len(survey.names))]
    known = np.nan_to_num(goal, nan=float(np.nanmean(goal)))
    weights = np.stack([scaled[own].T @ (known[own] - known[own].mean()) for own in parts])
    agreement = np.full(len(parts), np.nan)
    for j, own in enumerate(parts):
        score = scaled[own] @ (weights.sum(axis=0) - weights[j])
        if own.sum() > 2 and np.ptp(score) > 0 and np.ptp(known[own]) > 0:
            agreement[j] = np.corrcoef(score, known[own])[0, 1]
    return agreement


def infinite_values(survey: Survey) -> Iterator[Finding]:
    """Infinite numbers, which no model can be trained on."""
    for name, table in survey.everybody.items():
        floats = [c for c in table.columns if table[c].dtype.kind == "f" and c != survey.target]
        for column in floats:
            gone = np.flatnonzero(np.isinf(table[column].to_numpy(dtype=np.float64)))
            if len(gone):
                row, value = row_of(table, int(gone[0])), str(table[column].iloc[gone[0]])
                yield Finding(
                    "infinite-value",
                    "stop",
                    f"{whose(name)} has an infinite number in {len(gone):,} of {len(table):,} "
                    f"rows of {column!r} ({value!r}, the first in row {row}).",
                    owner=name,
                    column=str(column),
                    row=row,
                    value=value,
                    remedy=f"--read missing={value}",
                )


def extreme_values(survey: Survey) -> Iterator[Finding]:
    """Numbers farther from all others than those are from each other."""
    columns = survey.amounts
    if not columns:
        return
    blocks = [of[:, : len(columns)] for of in survey.blocks]
    if survey.test is not None and set(columns) <= set(survey.test.columns):
        blocks.append(block(survey.test, columns))
    low = np.fmin.reduce([np.fmin.reduce(of, axis=0) for of in blocks if len(of)])
    high = np.fmax.reduce([np.fmax.reduce(of, axis=0) for of in blocks if len(of)])
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
        ends = [end for end in ((0,), (-1,), (0, -1)) if _is_apart(found, counts, end)]
        if not ends:
            break
        apart += found[list(ends[0])].tolist()
        found, counts = np.delete(found, ends[0]), np.delete(counts, ends[0])
    for value in apart:
        yield value, (float(found[0]), float(found[-1]))


def _is_apart(found: FloatArray, counts: Array, ends: tuple[int, ...]) -> bool:
    """Whether these ends of the ordered numbers are far from what remains without them."""
    rest = np.delete(found, ends)
    width = rest[-1] - rest[0]
    for end in ends:
        gap = rest[0] - found[0] if end == 0 else found[-1] - rest[-1]
        times = APART_REPEATED if counts[end] >= REPEATED else APART_SINGLE
        if len(rest) < LEAST_OTHERS or gap <= times * width:
            return False
    return True


def _extreme(
    survey: Survey, column: str, parts: list[FloatArray], value: float, others: tuple[float, float]
) -> Finding:
    counts = np.array([int((of == value).sum()) for of in parts])
    j = int(counts.argmax())
    name = survey.holders[j]
    table = survey.everybody[name]
    row = row_of(table, int(np.flatnonzero(parts[j] == value)[0]))
    more = int(counts.sum() - counts[j])
    also = f" ({more:,} more rows of others)" if more else ""
    repeated = bool(counts.sum() >= REPEATED)
    guess = "a missing value" if repeated else "a slip"
    return Finding(
        "placeholder" if repeated else "outlier",
        "note",
        f"{whose(name)} has {value:.10g} in {counts[j]:,} of {len(table):,} rows of {column!r}, "
        f"the first in row {row}{also}; all other values lie from {others[0]:.4g} to "
        f"{others[1]:.4g}: {guess}?",
        owner=name,
        column=column,
        row=row,
        value=f"{value:.10g}",
        remedy=f"--read missing={value:.10g} (for one file: FILE:missing={value:.10g})",
    )
