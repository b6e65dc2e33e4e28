"""Tables of several owners: checked, put into one shape, and explained when they do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import Array
from dushapley.errors import InvalidOwners
from dushapley.validation import refuse, suggestion

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    Column = Series[Any]
    Tables = Mapping[str, DataFrame]
    """Tables by the name of whom they belong to."""


def split_by_owner(table: DataFrame, owner: str, target: str) -> dict[str, DataFrame]:
    """One table per owner, in the order in which owners first appear."""
    check_columns(table.columns, "The table")
    require_column(table, owner, "owner column", "The table")
    require_column(table, target, "target column", "The table")
    nameless = int(table[owner].isna().sum())
    refuse(
        InvalidOwners,
        (owner == target, f"Owner and target are both the column {owner!r}; name two columns."),
        (
            nameless,
            f"{nameless} of {len(table)} rows have no owner in column {owner!r}. Fill it in, or "
            "drop these rows: every row belongs to somebody.",
        ),
    )
    parts: dict[str, DataFrame] = {}
    for key, rows in table.groupby(owner, sort=False, observed=True):
        name = str(key)
        if name in parts:
            raise InvalidOwners(
                f"Column {owner!r} names {name!r} in two ways (as text and as a number, say); "
                "write each owner's name in one way."
            )
        parts[name] = rows.drop(columns=owner)
    return parts


def as_blocks(
    tables: Tables, target: str, weight: str | None, alone: bool
) -> dict[str, tuple[DataFrame, Array, Array | None]]:
    """Features, targets and weights of every owner (`alone`: or of one)."""
    first = next(iter(tables), "")
    refuse(
        InvalidOwners,
        (not tables, "Found no rows, so no owners. Give at least two owners' data."),
        (
            len(tables) == 1 and not alone,
            f"Found a single owner, {first!r}: there is nothing to share out. Check the owner "
            "column, or give one file per owner.",
        ),
    )
    weights: dict[str, Array] = {}
    for name, table in tables.items():
        whose = f"Owner {name!r}"
        check_columns(table.columns, whose)
        require_column(table, target, "target column", whose)
        if weight is not None:
            require_column(table, weight, "weight column", whose)
            weights[name] = table[weight].to_numpy()
        if len(table) == 0:
            raise InvalidOwners(f"{whose} has no rows; leave it out or give it data.")
        refuse_other_columns(first, tables[first], name, table)
    columns = [name for name in common_order(tables) if name not in (target, weight)]
    if not columns:
        raise InvalidOwners(f"Beside the target {target!r} there is no column to learn from.")
    kind = common_kinds(tables, [*columns, target])[target]
    whole = all(table[target].dtype.kind in "iub" for table in tables.values())
    blocks = {}
    for name, table in tables.items():
        goal = checked_targets(table[target], kind, f"Owner {name!r}")
        goal = goal.astype(np.int64) if whole else goal
        blocks[name] = table[columns], goal, weights.get(name)
    return blocks


def common_frames(tables: Sequence[DataFrame], columns: Iterable[str]) -> tuple[DataFrame, ...]:
    """The features of all tables in one order and, column by column, of one type.

    Types that differ become what pandas makes of them together; categories become all there are.
    """
    import pandas as pd
    from pandas.api.types import union_categoricals

    names = list(columns)
    chosen = [table[names].reset_index(drop=True) for table in tables]
    kinds = zip(names, *(table.dtypes.to_list() for table in chosen), strict=True)
    common: dict[str, Any] = {}
    for name in [name for name, first, *others in kinds if any(kind != first for kind in others)]:
        parts = [table[name] for table in chosen]
        if all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            common[name] = union_categoricals(parts, sort_categories=True, ignore_order=True).dtype
        else:
            common[name] = pd.concat(parts).dtype
    return tuple(table.astype(common) if common else table for table in chosen)


def common_order(tables: Tables) -> list[str]:
    """The order of columns all owners agree on, else that of the alphabet: never one owner's."""
    orders = {tuple(table.columns) for table in tables.values()}
    return list(orders.pop()) if len(orders) == 1 else sorted(orders.pop())


NUMERIC = {"integer", "floating", "mixed-integer-float", "boolean", "decimal", "complex"}
"""Types of numbers, as pandas infers them."""
MANY = {"number": "numbers", "date": "dates", "text": "text", "nothing": "nothing"}
"""Kinds of columns in the plural."""


def aligned(table: DataFrame, features: Mapping[str, str], whose: str) -> Array:
    """Features of another table, the test set say, in the shape of the owners'."""
    return features_of(aligned_frame(table, features, whose), features)


def aligned_frame(table: DataFrame, features: Mapping[str, str], whose: str) -> DataFrame:
    """The same as a table: its own types, the owners' columns in their order."""
    check_columns(table.columns, whose)
    lacking = [name for name in features if name not in table.columns]
    if lacking:
        raise InvalidOwners(
            f"{whose} lacks {listed(lacking)}, which the owners have. "
            f"It has: {listed(list(table.columns))}."
        )
    kinds = kinds_of(table)
    for name, kind in features.items():
        if kinds[name] not in (kind, "nothing") and kind != "text":
            raise InvalidOwners(
                f"Column {name!r} holds {MANY[kinds[name]]} in {whose[0].lower()}{whose[1:]} but "
                f"{MANY[kind]} for the owners; the same type is needed."
            )
    return table[list(features)]


def aligned_target(table: DataFrame, target: str, example: Array | None, whose: str) -> Array:
    """Targets of another table, of the owners' type."""
    require_column(table, target, "target column", whose)
    kind = "text" if example is not None and example.dtype.kind == "O" else "number"
    if kind == "number" and kinds_of(table[[target]])[target] == "text":
        raise InvalidOwners(f"{whose} has text in {target!r}, where the owners have numbers.")
    values = checked_targets(table[target], kind, whose)
    whole = example is not None and example.dtype.kind == "i" and bool((values % 1 == 0).all())
    return values.astype(np.int64) if kind == "number" and whole else values


def check_columns(names: Iterable[object], whose: str) -> None:
    """Refuse names of columns that are not text, or that appear twice."""
    names = list(names)
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise InvalidOwners(f"{whose} has a column named {odd[0]!r}; names of columns are text.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidOwners(f"{whose} has two columns named {twice[0]!r}; rename one.")


def require_column(table: DataFrame, wanted: str, role: str, whose: str) -> None:
    """Refuse a table that lacks a column, naming those it has."""
    names = list(table.columns)
    if wanted not in names:
        hint = suggestion(wanted, names)
        raise InvalidOwners(f"{whose} has no {role} {wanted!r}.{hint} It has: {listed(names)}.")


def refuse_other_columns(one: str, first: DataFrame, other: str, table: DataFrame) -> None:
    """Refuse two owners whose columns differ, showing the difference."""
    lacks = [name for name in first.columns if name not in table.columns]
    extra = [name for name in table.columns if name not in first.columns]
    differences = [f"lacks {listed(lacks)}"] if lacks else []
    differences += [f"has {listed(extra)} in addition"] if extra else []
    if differences:
        raise InvalidOwners(
            f"Owner {other!r} {' and '.join(differences)}, compared with {one!r}; all owners need "
            "the same columns."
        )


def common_kinds(tables: Tables, columns: Sequence[str]) -> dict[str, str]:
    """What each column holds: numbers, dates or text; refused where owners disagree."""
    by_owner = {name: kinds_of(table) for name, table in tables.items()}
    kinds: dict[str, str] = {}
    for column in columns:
        holders = {of[column]: name for name, of in reversed(by_owner.items())}
        holders.pop("nothing", None)
        if len(holders) > 1:
            holds = " but ".join(
                f"{MANY[kind]} for {name!r}" for kind, name in sorted(holders.items())
            )
            raise InvalidOwners(
                f"Column {column!r} holds {holds}; all owners need the same type. Look for stray "
                "text among numbers, or for different missing-value marks."
            )
        kinds[column] = next(iter(holders), "number")
    return kinds


def kinds_of(table: DataFrame) -> dict[str, str]:
    """Number, date, text, or nothing (only missing values), column by column."""
    nothing = table.isna().all()
    return {
        name: "nothing" if empty else kind_of(table[name])
        for name, empty in zip(table.columns, nothing, strict=True)
    }


def kind_of(values: Column) -> str:
    """Number, date or text, by the type of the column, or of its entries where that is open."""
    import pandas as pd

    inferred = pd.api.types.infer_dtype(values, skipna=True)
    if inferred in NUMERIC:
        return "number"
    return "date" if inferred in {"date", "datetime", "datetime64"} else "text"


def checked_targets(target: Column, kind: str, whose: str) -> Array:
    """Values of a target; those that are missing or infinite are refused, saying where."""
    values = column_values(target, kind)
    bad = ~np.isfinite(values) if kind == "number" else target.isna().to_numpy()
    refuse_missing(bad, whose, f"target {target.name!r}")
    return values


def refuse_missing(bad: Array, whose: str, what: str) -> None:
    """Refuse targets of which these rows have none that is finite."""
    if bad.any():
        raise InvalidOwners(
            f"{whose} has rows whose {what} is missing or not finite: {bad.sum()} of {len(bad)}, "
            f"the first its row {np.argmax(bad) + 1}. Drop these rows or fill them in."
        )


def features_of(table: DataFrame, features: Mapping[str, str]) -> Array:
    """Features as one array: of numbers, or of objects where some column does not hold numbers."""
    if set(features.values()) == {"number"}:
        return table[list(features)].to_numpy(dtype=np.float64, na_value=np.nan)
    result = np.empty((len(table), len(features)), dtype=object)
    for position, (name, kind) in enumerate(features.items()):
        result[:, position] = column_values(table[name], kind)
    return result


def column_values(values: Column, kind: str) -> Array:
    """Numbers as floats, all else as text or dates, with None for what is missing."""
    if kind == "number":
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    present = values.notna().to_numpy()
    result = np.full(len(values), None, dtype=object)
    cells = values.to_numpy(dtype=object)[present]
    result[present] = [str(cell) for cell in cells] if kind == "text" else cells
    return result


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in words, not too many."""
    return enumerated([repr(name) for name in names], most)


def enumerated(words: Sequence[str], most: int = 6) -> str:
    """The first of these words, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
