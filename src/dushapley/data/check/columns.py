"""Columns that not all have, that hold different things, or that no model should learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import Array, FloatArray
from dushapley.data.check.spelling import plain, positive_option
from dushapley.data.check.survey import Survey, row_of, shown, whose
from dushapley.data.findings import Finding
from dushapley.data.intake import TEST, folded
from dushapley.data.tables import listed
from dushapley.validation import suggestion

if TYPE_CHECKING:
    import pandas as pd

FEW_ROWS = 50
"""Rows of all owners below which unique entries or a perfect rule may be chance."""
WORDS = {"number": "numbers", "date": "dates", "text": "text"}
BY_CHANCE = 1e-5
"""Chance below which a pattern is not put down to it."""
PURE = 0.999
"""Part of the rows, or correlation, from which one column gives the target away."""


def differing_columns(survey: Survey) -> Iterator[Finding]:
    """Columns that some owners have and others lack; the target among them."""
    holders = Counter(c for table in survey.tables.values() for c in table.columns)
    total = len(survey.tables)
    for name, table in survey.tables.items():
        lacking = [c for c, n in holders.items() if c not in table.columns and 2 * n >= total]
        extra = [c for c in table.columns if 2 * holders[c] < total]
        for column in lacking:
            twin = next((c for c in extra if folded(str(c)) == folded(str(column))), None)
            spelt = f" It has {twin!r}: rename that column." if twin is not None else ""
            others = f"which {holders[column]} of {total} owners have"
            yield _differing("lacks", name, str(column), f"{others}.{spelt}", survey.target)
        for column in extra:
            others = f"which {total - holders[column]} of {total} owners lack"
            yield _differing("has", name, str(column), f"{others}.", survey.target)
    if holders and survey.target not in holders:
        names = [str(column) for column in holders]
        yield Finding(
            "lacking-column",
            "stop",
            f"There is no target column {survey.target!r}.{suggestion(survey.target, names)} "
            f"Columns: {listed(names)}.",
            column=survey.target,
            remedy="--target NAME",
        )
    yield from _test_columns(survey, [c for c, n in holders.items() if 2 * n >= total])


def _differing(verb: str, name: str, column: str, others: str, target: str) -> Finding:
    remedy = "--read common-columns=true"
    if column == target:
        remedy = "that column in the file, under this name"
    return Finding(
        "lacking-column" if verb == "lacks" else "extra-column",
        "stop",
        f"Owner {name!r} {verb} the column {column!r}, {others}",
        owner=name,
        column=column,
        remedy=remedy,
    )


def _test_columns(survey: Survey, usual: list[str]) -> Iterator[Finding]:
    if survey.test is None:
        return
    for column in usual:
        if column not in survey.test.columns:
            yield Finding(
                "lacking-column",
                "stop",
                f"The test set lacks the column {column!r}, which the owners have.",
                owner=TEST,
                column=column,
                remedy="that column in the test file"
                if column == survey.target
                else f"--read drop={column}",
            )
    extra = [c for c in survey.test.columns if c not in usual]
    if extra and not any(c in table.columns for c in extra for table in survey.tables.values()):
        yield Finding(
            "test-columns",
            "note",
            f"The test set has {listed(extra)} in addition, which no owner has and no model sees.",
            owner=TEST,
            column=extra[0] if len(extra) == 1 else None,
        )


def mixed_types(survey: Survey) -> Iterator[Finding]:
    """Columns that hold numbers for one and text or dates for another."""
    for column in [*survey.columns, survey.target]:
        held = {name: of.get(column, "nothing") for name, of in survey.kinds.items()}
        known = Counter(held[name] for name in survey.names if held[name] != "nothing")
        if not known:
            continue
        usual = known.most_common(1)[0][0]
        for name in [name for name in survey.holders if name in held]:
            kind = held[name]
            if kind not in (usual, "nothing"):
                yield _mixed(survey, name, column, kind, usual)


def _mixed(survey: Survey, name: str, column: str, kind: str, usual: str) -> Finding:
    table = survey.everybody[name]
    position = _first_strange(table[column].to_numpy(dtype=object), usual)
    row, value = row_of(table, position), str(table[column].iloc[position])
    remedy = f"--read drop={quote(column)}, or write {WORDS[usual]} only, without units"
    if usual == "number" and not value.isalnum() and not any(c.isdigit() for c in value):
        remedy = f"--read missing={quote(value)}"
    elif column == survey.target:
        tables = [t for t in survey.everybody.values() if survey.target in t.columns]
        labels = [t[survey.target].dropna().unique()[:50] for t in tables]
        remedy = positive_option([[plain(label) for label in own] for own in labels])
    return Finding(
        "mixed-types",
        "stop",
        f"{whose(name)} has {WORDS[kind]} in {column!r} ({value!r} in row {row}), others have "
        f"{WORDS[usual]}.",
        owner=name,
        column=column,
        row=row,
        value=value,
        remedy=remedy,
    )


def _first_strange(cells: Array, usual: str) -> int:
    """Position of the first entry that cannot be of the usual kind."""
    import pandas as pd

    strange = pd.notna(cells)
    if usual == "number":
        strange &= pd.isna(pd.to_numeric(pd.Series(cells), errors="coerce")).to_numpy()
    return int(np.argmax(strange))


def missing_targets(survey: Survey) -> Iterator[Finding]:
    """Rows without a target: nothing can be learnt from them, or tested on them."""
    held = {name: t for name, t in survey.everybody.items() if survey.target in t.columns}
    for name, table in held.items():
        gone = np.flatnonzero(lacks_target(table, survey.target))
        if len(gone):
            row = row_of(table, int(gone[0]))
            yield Finding(
                "missing-target",
                "stop",
                f"{whose(name)} has no finite target in {len(gone):,} of {len(table):,} rows of "
                f"{survey.target!r}, the first in row {row}. Fill them in; if accepted, these rows "
                "are left out.",
                owner=name,
                column=survey.target,
                row=row,
                remedy="--accept missing-target",
            )


def lacks_target(table: pd.DataFrame, target: str) -> Array:
    """Which rows have no target, or an infinite one."""
    import pandas as pd

    gone = table[target].isna().to_numpy(dtype=bool)
    if pd.api.types.is_float_dtype(table[target].dtype):
        gone = gone | np.isinf(table[target].to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(gone)


def no_rows(survey: Survey) -> Iterator[Finding]:
    """Tables of column names only."""
    for name, table in survey.tables.items():
        if not len(table):
            yield Finding(
                "no-rows",
                "stop",
                f"Owner {name!r} has names of columns but no rows. If accepted, it is left out.",
                owner=name,
                remedy="--accept no-rows",
            )


def constant_columns(survey: Survey) -> Iterator[Finding]:
    """Columns of one value: for everybody, or for one owner where chance would not have it."""
    everywhere = []
    low = np.stack([np.fmin.reduce(of, axis=0) for of in survey.blocks])
    high = np.stack([np.fmax.reduce(of, axis=0) for of in survey.blocks])
    for column in [c for c in survey.columns if survey.kind(c) in ("number", "text", "nothing")]:
        if column in survey.numbers:
            k = survey.numbers.index(column)
            empty = np.isnan(low[:, k])
            single, values = (low[:, k] == high[:, k]) | empty, np.unique(low[~empty, k])
        else:
            counts = survey.counts(column)[1][:, : len(survey.names)] > 0
            single, values = counts.sum(axis=0) <= 1, np.flatnonzero(counts.any(axis=1))
        if single.all() and len(values) <= 1:
            everywhere.append(column)
        elif not single.all():
            for j in np.flatnonzero(single):
                yield from _constant_for(survey, int(j), column)
    if everywhere:
        yield Finding(
            "constant-column",
            "note",
            f"{'The column' if len(everywhere) == 1 else 'The columns'} {listed(everywhere)} "
            f"{'holds' if len(everywhere) == 1 else 'hold'} one value or none for all owners, from "
            "which nothing can be learnt.",
            column=everywhere[0] if len(everywhere) == 1 else None,
            remedy=f"--read drop={','.join(everywhere)}",
        )


def _constant_for(survey: Survey, j: int, column: str) -> Iterator[Finding]:
    """Tell it if so many rows of one value are a surprise, given how common it is elsewhere."""
    own = survey.tables[survey.names[j]][column]
    if own.isna().all():
        return  # told as missing values
    value, present = own.dropna().iloc[0], int(own.notna().sum())
    others = [survey.tables[name][column] for k, name in enumerate(survey.names) if k != j]
    equal = sum(int((of == value).sum()) for of in others)
    share = (equal + 1) / (sum(len(of) for of in others) + 2)
    if present * np.log(share) < np.log(BY_CHANCE):
        yield Finding(
            "constant-column",
            "note",
            f"Owner {survey.names[j]!r} has {shown(value)} in all {present:,} rows of {column!r}; "
            f"of the others' rows {share:.0%} have it.",
            owner=survey.names[j],
            column=column,
            value=shown(value),
        )


def id_columns(survey: Survey) -> Iterator[Finding]:
    """Whole numbers or text, different in every row: they name rows instead of describing them."""
    if survey.sizes.sum() < FEW_ROWS:
        return
    for position, column in enumerate(survey.numbers):
        sampled = survey.sample[:, position]
        if not np.isnan(sampled).any() and (sampled % 1 == 0).all():
            parts = [of[:, position] for of in survey.blocks]
            if _unique(survey, parts):
                yield _id(column, "whole numbers", f"{parts[0][0]:.0f}")
    for column in survey.texts:
        entries, codes = survey.coded(column)
        if _unique(survey, codes[: len(survey.names)]):
            yield _id(column, "entries", shown(entries[0]))


def _unique(survey: Survey, parts: Sequence[Array]) -> bool:
    """Whether no owner has an entry twice; most columns end at the sample."""
    sampled = (of[rows] for of, rows in zip(parts, survey.picked, strict=True))
    return all(len(np.unique(of)) == len(of) for of in sampled) and all(
        len(np.unique(of)) == len(of) for of in parts
    )


def _id(column: str, what: str, example: str) -> Finding:
    return Finding(
        "id-column",
        "note",
        f"The {what} in {column!r} are different in every row of every owner ({example}, say): "
        "they seem to name rows, from which nothing can be learnt.",
        column=column,
        value=example,
        remedy=f"--read drop={column}",
    )


def giveaway_columns(survey: Survey) -> Iterator[Finding]:
    """Features that tell the target all by themselves: often written down after the fact."""
    if survey.sizes.sum() < FEW_ROWS or survey.kind(survey.target) not in ("number", "text"):
        return
    goals = survey.goals
    told = [
        (column, strength)
        for position, column in enumerate(survey.numbers)
        if (strength := _told_by_numbers(survey, survey.sample[:, position], goals)) >= PURE
    ]
    if survey.classes:
        texts = [(column, _told_by_text(survey, column)) for column in survey.texts]
        told += [(column, strength) for column, strength in texts if strength >= PURE]
    for column, strength in told:
        how = (
            f"tells the class of {strength:.2%} of the rows by itself"
            if survey.classes
            else f"has a correlation of {strength:.5f} with it"
        )
        yield Finding(
            "giveaway-column",
            "note",
            f"The column {column!r} gives away the target {survey.target!r}: it {how}.",
            column=column,
            remedy=f"--read drop={column}",
        )


def _told_by_numbers(survey: Survey, values: FloatArray, goals: FloatArray) -> float:
    """How much one column of numbers says of the target: correlation, or best rule by intervals."""
    known = np.isfinite(values) & np.isfinite(goals[:, 0])
    values, goals = values[known], goals[known]
    if len(values) < FEW_ROWS or (values == values[0]).all():
        return 0.0
    if not survey.classes:
        pair = np.corrcoef(values, goals[:, 0])
        return float(abs(pair[0, 1])) if np.isfinite(pair).all() else 0.0
    rare = min(min(goal.sum(), len(goal) - goal.sum()) for goal in goals.T)
    order = np.argsort(values, kind="stable")
    labels = goals[order] @ np.arange(1.0, goals.shape[1] + 1)
    changes = int((labels[1:] != labels[:-1]).sum()) - (len(survey.classes) - 1)
    return 0.0 if rare < 5 else 1 - max(changes, 0) / len(values)


def _told_by_text(survey: Survey, column: str) -> float:
    """Part of the sampled rows whose class is the usual one of their category."""
    _, codes = survey.coded(column)
    sampled = [of[rows] for of, rows in zip(codes, survey.picked, strict=False)]
    kinds = np.concatenate(sampled) + 1
    different = len(np.unique(kinds))
    goals = survey.goals
    rare = min(min(goal.sum(), len(goal) - goal.sum()) for goal in goals.T)
    if different > len(kinds) / 10 or different < 2 or rare < 5:
        return 0.0
    parts = goals if goals.shape[1] > 1 else np.column_stack([goals, 1 - goals])
    counts = np.stack([np.bincount(kinds, part) for part in parts.T])
    return float(counts.max(axis=0).sum() / len(kinds))


def missing_values(survey: Survey) -> Iterator[Finding]:
    """Owners with far more missing values in a column than the others."""
    for column, gone in zip(survey.columns, survey.missing.T, strict=True):
        if not gone.any():
            continue
        n = survey.sizes
        others = (gone.sum() - gone) / np.maximum(n.sum() - n, 1)
        rate = gone / n
        spread = np.sqrt(np.maximum(others * (1 - others), 1 / n.sum()) / n)
        for j in np.flatnonzero((rate - others > 0.2) & (rate - others > 5 * spread)):
            yield Finding(
                "missing-values",
                "note",
                f"Owner {survey.names[j]!r} has no value in {gone[j]:,} of {n[j]:,} rows of "
                f"{column!r} ({rate[j]:.0%}; the others: {others[j]:.1%}).",
                owner=survey.names[j],
                column=column,
            )
