"""Columns that not all have, that hold different things, or that no model should learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from shlex import quote

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.check.spelling import plain, positive_option
from dushapley.data.check.survey import Survey, first_row, lacks_target, shown
from dushapley.data.findings import Finding, FindingStream
from dushapley.data.intake import TEST, folded, whose
from dushapley.data.tables import MANY, listed
from dushapley.validation import suggestion

FEW_ROWS = 50
"""Rows of all owners below which unique entries or a perfect rule may be chance."""
BY_CHANCE = 1e-5
"""Chance below which a pattern is not put down to it."""
PURE = 0.999
"""Part of the rows, or correlation, from which one column gives the target away."""


def differing_columns(survey: Survey) -> FindingStream:
    """Columns that some owners have and others lack; the target among them."""
    target, total = survey.target, len(survey.tables)
    holders = Counter(name for table in survey.tables.values() for name in table.columns)
    usual = [column for column, count in holders.items() if 2 * count >= total]
    for name, table in survey.tables.items():
        extra = [column for column in table.columns if 2 * holders[column] < total]
        for column in usual:
            if column not in table.columns:
                others = f"which {holders[column]} of {total} owners have."
                twin = next((other for other in extra if folded(other) == folded(column)), None)
                if twin is not None:
                    others += f" It has {twin!r}: rename that column."
                yield _differing("lacks", name, column, others, target)
        for column in extra:
            others = f"which {total - holders[column]} of {total} owners lack."
            yield _differing("has", name, column, others, target)
    if holders and target not in holders:
        names = list(holders)
        hint = suggestion(target, names)
        yield Finding(
            "lacking-column",
            "stop",
            f"There is no target column {target!r}.{hint} Columns: {listed(names)}.",
            column=target,
            remedy="--target NAME",
        )
    yield from _test_columns(survey, usual)


def _differing(verb: str, name: str, column: str, others: str, target: str) -> Finding:
    remedy = "--read common-columns=true"
    if column == target:
        remedy = "that column in the file, under this name"
    code = "lacking-column" if verb == "lacks" else "extra-column"
    message = f"Owner {name!r} {verb} the column {column!r}, {others}"
    return Finding(code, "stop", message, name, column, remedy=remedy)


def _test_columns(survey: Survey, usual: list[str]) -> FindingStream:
    if survey.test is None:
        return
    tested = survey.test.columns
    for column in usual:
        if column not in tested:
            remedy = f"--read drop={column}"
            if column == survey.target:
                remedy = "that column in the test file"
            message = f"The test set lacks the column {column!r}, which the owners have."
            yield Finding("lacking-column", "stop", message, TEST, column, remedy=remedy)
    extra = [column for column in tested if column not in usual]
    known = {column for table in survey.tables.values() for column in table.columns}
    if extra and known.isdisjoint(extra):
        message = (
            f"The test set has {listed(extra)} in addition, which no owner has and no model sees."
        )
        yield Finding("test-columns", "note", message, TEST, only(extra))


def only(things: Sequence[str]) -> str | None:
    """The single one, if it is one."""
    return things[0] if len(things) == 1 else None


def mixed_types(survey: Survey) -> FindingStream:
    """Columns that hold numbers for one and text or dates for another."""
    for column in [*survey.columns, survey.target]:
        held = {name: of.get(column, "nothing") for name, of in survey.kinds.items()}
        kinds = Counter(held[name] for name in survey.names)
        kinds.pop("nothing", None)
        if not kinds:
            continue
        usual = kinds.most_common(1)[0][0]
        for name in survey.holders:
            kind = held.get(name, "nothing")
            if kind not in (usual, "nothing"):
                yield _mixed(survey, name, column, kind, usual)


def _mixed(survey: Survey, name: str, column: str, kind: str, usual: str) -> Finding:
    table = survey.everybody[name]
    strange = _strange(table[column].to_numpy(dtype=object), usual)
    row, value = first_row(table, strange), str(table[column].iloc[np.argmax(strange)])
    wanted = MANY[usual]
    remedy = f"--read drop={quote(column)}, or write {wanted} only, without units"
    if usual == "number" and not value.isalnum() and not any(map(str.isdigit, value)):
        remedy = f"--read missing={quote(value)}"
    elif column == survey.target:
        targets = [own[column] for own in survey.everybody.values() if column in own.columns]
        labels = [target.dropna().unique()[:50] for target in targets]
        remedy = positive_option([[plain(label) for label in own] for own in labels])
    message = (
        f"{whose(name)} has {MANY[kind]} in {column!r} ({value!r} in row {row}), others have "
        f"{wanted}."
    )
    return Finding("mixed-types", "stop", message, name, column, row, value, remedy)


def _strange(cells: Array, usual: str) -> Array:
    """Which entries cannot be of the usual kind."""
    import pandas as pd

    present = pd.notna(cells)
    if usual != "number":
        return present
    return present & pd.isna(pd.to_numeric(pd.Series(cells), errors="coerce")).to_numpy()


def missing_targets(survey: Survey) -> FindingStream:
    """Rows without a target: nothing can be learnt from them, or tested on them."""
    target = survey.target
    for name, table in survey.everybody.items():
        if target not in table.columns:
            continue
        gone = lacks_target(table, target)
        if gone.any():
            row = first_row(table, gone)
            message = (
                f"{whose(name)} has no finite target in {gone.sum():,} of {len(table):,} rows of "
                f"{target!r}, the first in row {row}. Fill them in; if accepted, these rows are "
                "left out."
            )
            yield Finding(
                "missing-target",
                "stop",
                message,
                name,
                target,
                row,
                remedy="--accept missing-target",
            )


def no_rows(survey: Survey) -> FindingStream:
    """Tables of column names only."""
    for name, table in survey.tables.items():
        if not len(table):
            yield Finding(
                "no-rows",
                "stop",
                f"Owner {name!r} has names of columns but no rows. If accepted, it is left out.",
                name,
                remedy="--accept no-rows",
            )


def constant_columns(survey: Survey) -> FindingStream:
    """Columns of one value: for everybody, or for one owner where chance would not have it."""
    everywhere = []
    low = np.stack([np.fmin.reduce(of, axis=0) for of in survey.blocks])
    high = np.stack([np.fmax.reduce(of, axis=0) for of in survey.blocks])
    for column in survey.columns:
        if column in survey.numbers:
            k = survey.numbers.index(column)
            least = low[:, k]
            empty = np.isnan(least)
            single, values = (least == high[:, k]) | empty, np.unique(least[~empty])
        elif survey.kind(column) in ("text", "nothing"):
            counts = survey.counts(column)[1][:, : len(survey.names)] > 0
            single, values = counts.sum(axis=0) <= 1, np.flatnonzero(counts.any(axis=1))
        else:
            continue
        if single.all() and len(values) <= 1:
            everywhere.append(column)
        elif not single.all():
            for j in np.flatnonzero(single):
                yield from _constant_for(survey, int(j), column)
    if everywhere:
        what, holds = ("columns", "hold") if len(everywhere) > 1 else ("column", "holds")
        message = (
            f"The {what} {listed(everywhere)} {holds} one value or none for all owners, from which "
            "nothing can be learnt."
        )
        yield Finding(
            "constant-column",
            "note",
            message,
            None,
            only(everywhere),
            remedy=f"--read drop={','.join(everywhere)}",
        )


def _constant_for(survey: Survey, j: int, column: str) -> FindingStream:
    """Tell it if so many rows of one value are a surprise, given how common it is elsewhere."""
    columns = [table[column] for table in survey.own]
    cells = columns.pop(j).dropna()
    if not len(cells):
        return  # told as missing values
    value = cells.iloc[0]
    equal = sum(int((others == value).sum()) for others in columns)
    share = (equal + 1) / (sum(map(len, columns)) + 2)
    if len(cells) * np.log(share) < np.log(BY_CHANCE):
        name, entry = survey.names[j], shown(value)
        message = (
            f"Owner {name!r} has {entry} in all {len(cells):,} rows of {column!r}; of the others' "
            f"rows {share:.0%} have it."
        )
        yield Finding("constant-column", "note", message, name, column, value=entry)


def id_columns(survey: Survey) -> FindingStream:
    """Whole numbers or text, different in every row: they name rows instead of describing them."""
    if survey.sizes.sum() < FEW_ROWS:
        return
    for column, sampled in zip(survey.numbers, survey.sample.T, strict=False):
        if (sampled % 1 == 0).all():
            parts = survey.parts(column)
            if _unique(survey, parts):
                yield _id(column, "whole numbers", f"{parts[0][0]:.0f}")
    for column in survey.texts:
        entries, codes = survey.coded(column)
        if _unique(survey, codes[: len(survey.names)]):
            yield _id(column, "entries", shown(entries[0]))


def _unique(survey: Survey, parts: Sequence[Array]) -> bool:
    """Whether no owner has an entry twice; most columns end at the sample."""
    return all(len(np.unique(part)) == len(part) for part in [*survey.sampled(parts), *parts])


def _id(column: str, what: str, example: str) -> Finding:
    message = (
        f"The {what} in {column!r} are different in every row of every owner ({example}, say): "
        "they seem to name rows, from which nothing can be learnt."
    )
    return Finding(
        "id-column", "note", message, None, column, value=example, remedy=f"--read drop={column}"
    )


def giveaway_columns(survey: Survey) -> FindingStream:
    """Features that tell the target all by themselves: often written down after the fact."""
    if survey.sizes.sum() < FEW_ROWS or survey.target_kind not in ("number", "text"):
        return
    numbers = zip(survey.numbers, survey.sample.T, strict=False)
    told = {column: _told_by_numbers(survey, values) for column, values in numbers}
    if survey.classes:
        told |= {column: _told_by_text(survey, column) for column in survey.texts}
    for column, strength in told.items():
        if strength < PURE:
            continue
        how = f"has a correlation of {strength:.5f} with it"
        if survey.classes:
            how = f"tells the class of {strength:.2%} of the rows by itself"
        message = f"The column {column!r} gives away the target {survey.target!r}: it {how}."
        yield Finding(
            "giveaway-column", "note", message, None, column, remedy=f"--read drop={column}"
        )


def _told_by_numbers(survey: Survey, values: FloatArray) -> float:
    """How much one column of numbers says of the target: correlation, or best rule by intervals."""
    goals = survey.goals
    known = np.isfinite(values) & np.isfinite(goals[:, 0])
    values, goals = values[known], goals[known]
    if len(values) < FEW_ROWS or (values == values[0]).all():
        return 0.0
    if not survey.classes:
        pair = np.corrcoef(values, goals[:, 0])
        return float(abs(pair[0, 1])) if np.isfinite(pair).all() else 0.0
    if _rarest(goals) < 5:
        return 0.0
    order = np.argsort(values, kind="stable")
    labels = goals[order] @ np.arange(1.0, goals.shape[1] + 1)
    changes = int((labels[1:] != labels[:-1]).sum())
    return 1 - max(changes - len(survey.classes) - 1, 0) / len(values)


def _rarest(goals: FloatArray) -> float:
    """Rows of the class, or of all but one, that has the fewest."""
    rows = goals.sum(axis=0)
    return float(np.minimum(rows, len(goals) - rows).min())


def _told_by_text(survey: Survey, column: str) -> float:
    """Part of the sampled rows whose class is the usual one of their category."""
    kinds = np.concatenate(survey.sampled(survey.coded(column)[1])) + 1
    different = len(np.unique(kinds))
    goals = survey.goals
    if different > len(kinds) / 10 or different < 2 or _rarest(goals) < 5:
        return 0.0
    parts = goals if goals.shape[1] > 1 else np.column_stack([goals, 1 - goals])
    counts = np.stack([np.bincount(kinds, part) for part in parts.T])
    return float(counts.max(axis=0).sum() / len(kinds))


def missing_values(survey: Survey) -> FindingStream:
    """Owners with far more missing values in a column than the others."""
    n = survey.sizes
    for column, gone in zip(survey.columns, survey.missing.T, strict=True):
        others = (gone.sum() - gone) / np.maximum(n.sum() - n, 1)
        rate = gone / n
        spread = np.sqrt(np.maximum(others * (1 - others), 1 / n.sum()) / n)
        more = rate - others
        for j in np.flatnonzero((more > 0.2) & (more > 5 * spread)):
            name = survey.names[j]
            message = (
                f"Owner {name!r} has no value in {gone[j]:,} of {n[j]:,} rows of {column!r} "
                f"({rate[j]:.0%}; the others: {others[j]:.1%})."
            )
            yield Finding("missing-values", "note", message, name, column)
