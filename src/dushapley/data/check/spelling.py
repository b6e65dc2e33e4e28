"""Names, labels and categories that differ only in case, spaces or Unicode form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np

from dushapley.data.check.survey import Survey, row_of, whose
from dushapley.data.findings import Finding
from dushapley.data.intake import TEST, folded

STRANGE = 0.05
"""Part of the test rows from which labels that no owner has are a mistake for sure."""
AGREEING = (
    "yes",
    "y",
    "ja",
    "j",
    "oui",
    "si",
    "sí",
    "sì",
    "sim",
    "true",
    "t",
    "positive",
    "positiv",
    "1",
)
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


def owner_spelling(survey: Survey) -> Iterator[Finding]:
    """Owners whose names differ in spelling only: one owner would be paid as two."""
    for group in variants(survey.tables):
        sizes = {name: len(survey.tables[name]) for name in group}
        rows = " and ".join(f"{name!r} ({sizes[name]:,} rows)" for name in group)
        yield Finding(
            "owner-spelling",
            "stop",
            f"{rows} are names of owners that differ in spelling only.",
            owner=min(group, key=lambda name: sizes[name]),
            value=repr(min(group, key=lambda name: sizes[name])),
            remedy="--read merge=owners",
        )


def label_spelling(survey: Survey) -> Iterator[Finding]:
    """Labels of the target that differ in spelling only, among owners and test set."""
    if survey.kind(survey.target) == "text":
        yield from _spelling(survey, survey.target, "label", "labels")


def category_spelling(survey: Survey) -> Iterator[Finding]:
    """Categories of features that differ in spelling only."""
    for column in survey.texts:
        yield from _spelling(survey, column, "category", "categories")


def _spelling(survey: Survey, column: str, what: str, merge: str) -> Iterator[Finding]:
    """One finding per holder and spelling that is not the usual one."""
    entries, counts = survey.counts(column)
    if len(entries) > MOST_CATEGORIES:
        return
    place = {entry: k for k, entry in enumerate(entries)}
    for group in variants(entries):
        usual = max(group, key=lambda e: (counts[place[e]].sum(), e == folded(e)))
        for spelling in sorted(set(group) - {usual}):
            for j in np.flatnonzero(counts[place[spelling]]):
                row = first_row(survey, int(j), column, spelling)
                yield Finding(
                    f"{what}-spelling",
                    "stop",
                    f"{whose(survey.holders[j])} writes {spelling!r} in {column!r} "
                    f"({counts[place[spelling], j]:,} rows, the first in row {row}), where others "
                    f"write {usual!r}: spellings that differ only in case, spaces or Unicode form "
                    "are different to a model.",
                    owner=survey.holders[j],
                    column=column,
                    row=row,
                    value=spelling,
                    remedy=f"--read merge={merge}",
                )


def test_labels(survey: Survey) -> Iterator[Finding]:
    """Labels of the test set that no owner has, however spelt."""
    test, target = survey.test, survey.target
    if test is None or target not in test.columns or not survey.classes:
        return
    if survey.kinds[TEST][target] != survey.kind(target):
        return  # told as mixed types
    known = {folded(plain(label)) for label in survey.classes}
    found = test[target].dropna()
    strange = [label for label in found.unique().tolist() if folded(plain(label)) not in known]
    part = float(found.isin(strange).mean()) if strange else 0.0
    least = STRANGE if survey.kind(target) == "text" else 0.5
    sure = part >= least and len(survey.classes) <= len(found) / 2
    if not part:
        return
    row = row_of(test, int(np.flatnonzero(test[target].isin(strange))[0]))
    owners_have = ", ".join(_quoted(label) for label in survey.classes[:6])
    labels = [[*map(plain, survey.classes)], [*map(plain, strange)]]
    yield Finding(
        "test-labels" if sure else "unseen-label",
        "stop" if sure else "note",
        f"{int(found.isin(strange).sum()):,} of {len(found):,} test rows have a label in "
        f"{target!r} that no owner has ({_quoted(strange[0])} in row {row}; owners have "
        f"{owners_have}), so that no model can be right on them.",
        owner=TEST,
        column=target,
        row=row,
        value=plain(strange[0]),
        remedy=positive_option(labels) if sure else None,
    )


def foreign_owners(survey: Survey) -> list[int]:
    """Owners none of whose labels anybody else has, where others share theirs."""
    if survey.kind(survey.target) != "text" or len(survey.names) < 2:
        return []
    entries, counts = survey.counts(survey.target)
    words = [folded(str(entry)) for entry in entries]
    used = np.stack([counts[[w == word for w in words]].sum(axis=0) > 0 for word in set(words)])
    alone = used & (used.sum(axis=1, keepdims=True) == 1)
    shared = bool((used.sum(axis=1) > 1).any())
    foreign = (alone.sum(axis=0) == used.sum(axis=0)) & used.any(axis=0) & shared
    return [int(j) for j in np.flatnonzero(foreign[: len(survey.names)])]


def foreign_labels(survey: Survey) -> Iterator[Finding]:
    """Labels like J and N where all others write Ja and Nein: classes of their own to a model."""
    for j in foreign_owners(survey):
        entries, counts = survey.counts(survey.target)
        own = [str(entries[k]) for k in np.flatnonzero(counts[:, j])]
        rest = counts.sum(axis=1) - counts[:, j]
        others = [str(entries[k]) for k in np.argsort(-rest, kind="stable") if rest[k] > 0]
        row = first_row(survey, j, survey.target, own[0])
        yield Finding(
            "label-foreign",
            "stop",
            f"Owner {survey.names[j]!r} has labels in {survey.target!r} that nobody else has "
            f"({', '.join(map(repr, own[:4]))}, the first in row {row}), and none of the others' "
            f"({', '.join(map(repr, others[:4]))}). If they mean the same, say which count as 1.",
            owner=survey.names[j],
            column=survey.target,
            row=row,
            value=own[0],
            remedy=f"{positive_option([own, others])} or --accept label-foreign",
        )


def rare_labels(survey: Survey) -> Iterator[Finding]:
    """Labels of a single row that are spelt almost like another: slips of the pen."""
    if survey.kind(survey.target) != "text":
        return
    entries, counts = survey.counts(survey.target)
    rows = counts.sum(axis=1)
    usual = [str(entries[k]) for k in np.flatnonzero(rows >= USUAL_ROWS)]
    for k in np.flatnonzero(rows == 1) if len(entries) <= MOST_CATEGORIES else ():
        label, j = str(entries[k]), int(counts[k].argmax())
        near = get_close_matches(label, usual, n=1)
        if near and folded(near[0]) != folded(label):
            row = first_row(survey, j, survey.target, entries[k])
            yield Finding(
                "rare-label",
                "note",
                f"{whose(survey.holders[j])} has the label {label!r} in row {row} of "
                f"{survey.target!r}, and nobody has it anywhere else. Is it {near[0]!r}, misspelt?",
                owner=survey.holders[j],
                column=survey.target,
                row=row,
                value=label,
            )


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


def first_row(survey: Survey, position: int, column: str, entry: object) -> int:
    """The first row in which a holder has an entry."""
    table = survey.everybody[survey.holders[position]]
    return row_of(table, int(np.flatnonzero((table[column] == entry).to_numpy(dtype=bool))[0]))


def plain(label: object) -> str:
    """A label as people write it."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _quoted(label: object) -> str:
    return repr(label) if isinstance(label, str) else plain(label)
