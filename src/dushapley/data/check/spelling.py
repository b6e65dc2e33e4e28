"""Names, labels and categories that differ only in case, spaces or Unicode form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from dushapley.data.check.survey import Survey, first_row
from dushapley.data.findings import Finding, FindingStream
from dushapley.data.intake import TEST, folded, whose

STRANGE = 0.05
"""Part of the test rows from which labels that no owner has are a mistake for sure."""
AGREEING = (
    "yes", "y", "ja", "j", "oui", "si", "sí", "sì", "sim", "true", "t", "positive", "positiv", "1",
)  # fmt: skip
"""Words for yes."""
USUAL_ROWS = 5
"""Rows from which a label is one that others may be slips of."""
MOST_CATEGORIES = 1_000
"""Different entries above which a column of text is not taken for categories."""


def variants(entries: Iterable[Any]) -> list[list[str]]:
    """Entries that are the same word in different spellings, group by group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry, str):
            groups[folded(entry)].append(entry)
    return [group for group in groups.values() if len(group) > 1]


def owner_spelling(survey: Survey) -> FindingStream:
    """Owners whose names differ in spelling only: one owner would be paid as two."""
    for group in variants(survey.tables):
        sizes = {name: len(survey.tables[name]) for name in group}
        rows = " and ".join(f"{name!r} ({size:,} rows)" for name, size in sizes.items())
        message = f"{rows} are names of owners that differ in spelling only."
        fewest, remedy = min(group, key=sizes.__getitem__), "--read merge=owners"
        yield Finding("owner-spelling", "stop", message, fewest, value=repr(fewest), remedy=remedy)


def label_spelling(survey: Survey) -> FindingStream:
    """Labels of the target that differ in spelling only, among owners and test set."""
    if survey.target_kind == "text":
        yield from _spelling(survey, survey.target, "label", "labels")


def category_spelling(survey: Survey) -> FindingStream:
    """Categories of features that differ in spelling only."""
    for column in survey.texts:
        yield from _spelling(survey, column, "category", "categories")


def _spelling(survey: Survey, column: str, what: str, merge: str) -> FindingStream:
    """One finding per holder and spelling that is not the usual one."""
    entries, counts = survey.counts(column)
    if len(entries) > MOST_CATEGORIES:
        return
    used = dict(zip(entries, counts, strict=True))
    code, remedy = f"{what}-spelling", f"--read merge={merge}"
    for group in variants(entries):
        usual = max(
            group, key=lambda spelling: (used[spelling].sum(), spelling == folded(spelling))
        )
        for spelling in sorted(set(group) - {usual}):
            for name, rows in zip(survey.holders, used[spelling], strict=False):
                if not rows:
                    continue
                row = _row_with(survey, name, column, spelling)
                message = (
                    f"{whose(name)} writes {spelling!r} in {column!r} ({rows:,} rows, the first in "
                    f"row {row}), where others write {usual!r}: spellings that differ only in "
                    "case, spaces or Unicode form are different to a model."
                )
                yield Finding(code, "stop", message, name, column, row, spelling, remedy)


def test_labels(survey: Survey) -> FindingStream:
    """Labels of the test set that no owner has, however spelt."""
    test, target = survey.test, survey.target
    if test is None or target not in test.columns or not survey.classes:
        return
    if survey.kinds[TEST][target] != survey.target_kind:
        return  # told as mixed types
    labels = [plain(label) for label in survey.classes]
    known = set(map(folded, labels))
    found = test[target].dropna()
    strange = [label for label in found.unique().tolist() if folded(plain(label)) not in known]
    if not strange:
        return
    hits = test[target].isin(strange).to_numpy(dtype=bool)
    row, first = first_row(test, hits), strange[0]
    owners_have = ", ".join(_quoted(label) for label in survey.classes[:6])
    message = (
        f"{hits.sum():,} of {len(found):,} test rows have a label in {target!r} that no owner has "
        f"({_quoted(first)} in row {row}; owners have {owners_have}), so that no model can be "
        "right on them."
    )
    finding = Finding("unseen-label", "note", message, TEST, target, row, plain(first))
    least = STRANGE if survey.target_kind == "text" else 0.5
    if hits.sum() / len(found) >= least and len(labels) <= len(found) / 2:
        remedy = positive_option([labels, [plain(label) for label in strange]])
        finding = replace(finding, code="test-labels", severity="stop", remedy=remedy)
    yield finding


def foreign_owners(survey: Survey) -> list[int]:
    """Owners none of whose labels anybody else has, where others share theirs."""
    if survey.target_kind != "text" or len(survey.names) < 2:
        return []
    entries, counts = survey.counts(survey.target)
    words = np.array([folded(str(entry)) for entry in entries], dtype=object)
    used = np.stack([counts[words == word].any(axis=0) for word in set(words)])
    shared = used & (used.sum(axis=1, keepdims=True) > 1)
    foreign = used.any(axis=0) & ~shared.any(axis=0) & shared.any()
    owners: list[int] = np.flatnonzero(foreign[: len(survey.names)]).tolist()
    return owners


def foreign_labels(survey: Survey) -> FindingStream:
    """Labels like J and N where all others write Ja and Nein: classes of their own to a model."""
    target = survey.target
    for j in foreign_owners(survey):
        entries, counts = survey.counts(target)
        labels, name = list(map(str, entries)), survey.names[j]
        mine = counts[:, j]
        rest = counts.sum(axis=1) - mine
        own = [labels[k] for k in np.flatnonzero(mine)]
        others = [labels[k] for k in np.argsort(-rest, kind="stable") if rest[k] > 0]
        row = _row_with(survey, name, target, own[0])
        here, there = (", ".join(map(repr, some[:4])) for some in (own, others))
        message = (
            f"Owner {name!r} has labels in {target!r} that nobody else has ({here}, the first in "
            f"row {row}), and none of the others' ({there}). If they mean the same, say which "
            "count as 1."
        )
        remedy = f"{positive_option([own, others])} or --accept label-foreign"
        yield Finding("label-foreign", "stop", message, name, target, row, own[0], remedy)


def rare_labels(survey: Survey) -> FindingStream:
    """Labels of a single row that are spelt almost like another: slips of the pen."""
    target = survey.target
    if survey.target_kind != "text":
        return
    entries, counts = survey.counts(target)
    if len(entries) > MOST_CATEGORIES:
        return
    rows = counts.sum(axis=1)
    usual = [str(entries[k]) for k in np.flatnonzero(rows >= USUAL_ROWS)]
    for k in np.flatnonzero(rows == 1):
        label, name = str(entries[k]), survey.holders[counts[k].argmax()]
        near = get_close_matches(label, usual, n=1)
        if near and folded(near[0]) != folded(label):
            row = _row_with(survey, name, target, entries[k])
            message = (
                f"{whose(name)} has the label {label!r} in row {row} of {target!r}, and nobody has "
                f"it anywhere else. Is it {near[0]!r}, misspelt?"
            )
            yield Finding("rare-label", "note", message, name, target, row, label)


def positive_option(labels: Iterable[list[str]]) -> str:
    """The option that makes different labels 1 and 0, with those that mean yes if each has one.

    Examples
    --------
    >>> positive_option([["no", "yes"], ["0", "1"]])
    '--read positive=yes,1'
    """
    meant = [[label for label in own if folded(label) in AGREEING] for own in labels]
    if all(len(own) == 1 for own in meant):
        return f"--read positive={','.join(dict.fromkeys(own[0] for own in meant))}"
    return "--read positive=LABEL,LABEL (those that count as 1, however they are written)"


def _row_with(survey: Survey, holder: str, column: str, entry: object) -> int:
    """The first row in which a holder has an entry."""
    table = survey.everybody[holder]
    return first_row(table, (table[column] == entry).to_numpy(dtype=bool))


def plain(label: object) -> str:
    """A label as people write it."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _quoted(label: object) -> str:
    return repr(label) if isinstance(label, str) else plain(label)
