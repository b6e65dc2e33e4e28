"""Owners whose rows look like another population's: real, or a matter of units or labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.check.columns import BY_CHANCE
from dushapley.data.check.spelling import folded, foreign_owners
from dushapley.data.check.survey import Survey
from dushapley.data.findings import Finding

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
                f"{_label(labels[k])} in {survey.target!r}; of all rows {share[k]:.0%} have it.",
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
            some = ", ".join(f"{_label(entries[k])} ({rows[k]:,})" for k in own[:4])
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
    columns, sample = survey.measured, survey.sample
    if survey.classes:
        columns, sample = survey.numbers, survey.features
    if len(survey.names) < 2 or not columns:
        return
    plain = _apart(sample, survey.holder)
    positive = (np.nan_to_num(sample, nan=1.0) > 0).all(axis=0)
    logs = np.log(np.where(positive, sample, 1.0))  # what is missing stays so
    for column in np.flatnonzero((plain | (_apart(logs, survey.holder) & positive)).any(axis=0)):
        striking = plain[:, column] | (_apart(logs[:, [column]], survey.holder)[:, 0])
        if len(np.unique(sample[:, column])) < LEAST_VALUES:
            continue
        for j in np.flatnonzero(striking & (survey.sizes >= SMALL)):
            yield _shifted(survey, int(j), columns[column])


def _apart(values: FloatArray, holder: Array) -> Array:
    """Whether an owner's median is far from the usual one (owners × columns)."""
    low, middle, high = _quantiles(values, holder)
    usual = np.nanmedian(middle, axis=0)
    if len(middle) == 2:
        usual = middle[::-1]  # each is judged by the other
    distance = np.abs(middle - usual)
    width = np.nanmedian(high - low, axis=0)
    between = np.nanmedian(distance, axis=0) * 1.4826 if len(middle) > 2 else np.zeros(1)
    enough = (width > 0) & (distance > (OUTSIDE if len(middle) > 2 else 1.0) * width)
    return np.asarray(enough & (distance > APART * between))


def _quantiles(values: FloatArray, holder: Array) -> FloatArray:
    """The 5%, 50% and 95% points of every owner's sample, column by column."""
    with np.errstate(all="ignore"):
        return np.stack(
            [_points(values[holder == j]) for j in range(int(holder.max()) + 1)], axis=1
        )


def _points(values: FloatArray) -> FloatArray:
    """Three quantiles of each column, of what is not missing."""
    ordered = np.sort(values, axis=0)  # missing values go last
    known = (~np.isnan(values)).sum(axis=0)
    places = np.rint(np.outer([0.05, 0.5, 0.95], np.maximum(known - 1, 0))).astype(np.int64)
    return np.take_along_axis(ordered, places, axis=0)


def _shifted(survey: Survey, j: int, column: str) -> Finding:
    position = survey.measured.index(column)
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
    rows = survey.features
    with np.errstate(all="ignore"):
        centre = np.nan_to_num(np.nanmean(rows, axis=0)) if rows.size else np.zeros(0)
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


def _label(label: object) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)
