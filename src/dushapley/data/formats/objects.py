"""What programs hand in: arrays, sparse rows, tables, torch datasets, in mappings or by groups.

Whatever it was becomes a `Part` per owner: rows, targets, weights. What cannot be pooled is refused
here, naming the owner.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, Rows
from dushapley.data.rows import compressed, count, frozen, is_sparse, is_table, take
from dushapley.data.tables import check_columns, common_kinds, common_order, refuse_missing
from dushapley.errors import InvalidOwners
from dushapley.validation import refuse

_KINDS = {"numbers": "biuf", "text": "US", "objects": "O", "dates": "M", "durations": "m"}
_GROUPS = {kind: group for group, kinds in _KINDS.items() for kind in kinds}
HOW = "pass {name: (X, y)}, one entry per owner"


@dataclass(frozen=True)
class Part:
    """One owner's rows, targets and weights; the latter two may be missing."""

    X: Rows
    y: Array | None
    weights: FloatArray | None = None


def named_parts(blocks: Any) -> dict[str, Part]:
    """Owners' data from a mapping, or from a list of (name, data), (name, X, y) or (X, y)."""
    pairs = blocks.items() if isinstance(blocks, Mapping) else _pairs(blocks)
    named = {str(name): block for name, block in pairs}
    if not named:
        raise InvalidOwners(f"No owners were given; {HOW}.")
    if len(named) != len(pairs):
        raise InvalidOwners("Two owners have the same name; give each its own.")
    return {name: as_part(name, block) for name, block in named.items()}


def _pairs(blocks: Any) -> list[tuple[str, Any]]:
    listed = list(blocks) if isinstance(blocks, (list, tuple)) else []
    if not listed or not all(isinstance(pair, tuple) and len(pair) in (2, 3, 4) for pair in listed):
        raise InvalidOwners(
            f"Found {type(blocks).__name__} where owners were needed; {HOW}, a list of pairs, or "
            "X, y and groups=."
        )
    if all(isinstance(pair[0], str) for pair in listed):
        return [(one[0], one[1] if len(one) == 2 else one[1:]) for one in listed]
    return [(f"owner {j + 1}", pair) for j, pair in enumerate(listed)]


def by_group(X: Any, y: Any, groups: Any, sample_weight: Any) -> dict[str, Part]:
    """Owners' data from everybody's rows and whose each of them is."""
    whole = as_part("everybody", (X, y, sample_weight))
    whose = np.asarray(groups)
    if whose.shape != (count(whole.X),):
        raise InvalidOwners(
            f"groups has shape {whose.shape} for {count(whole.X)} rows; it names the owner of each."
        )
    if not all(name == name and name is not None for name in whose.tolist()):
        raise InvalidOwners("groups names no owner for some row; every row belongs to somebody.")
    names, first, member = np.unique(whose.astype(str), return_index=True, return_inverse=True)
    parts = {}
    for owner in np.argsort(first, kind="stable").tolist():  # in the order of their first rows
        rows = np.flatnonzero(member == owner)
        others = (None if part is None else part[rows] for part in (whole.y, whole.weights))
        parts[str(names[owner])] = Part(take(whole.X, rows), *others)
    return parts


def as_part(name: str, block: Any) -> Part:
    """One owner's data, whatever it came as."""
    torch = sys.modules.get("torch.utils.data")
    if (torch is not None and isinstance(block, torch.Dataset)) or _is_list_of_samples(block):
        block = from_samples(name, block)
    parts = block if isinstance(block, tuple) else (block, None)
    if len(parts) not in (2, 3):
        raise InvalidOwners(f"Owner {name!r}: found a tuple of {len(parts)}; (X, y) is needed.")
    X, y, weights = (*parts, None)[:3]
    features = as_rows(name, X)
    if features.ndim == 0:
        needed = "pass its .dataset" if hasattr(X, "dataset") else "an array of rows is needed"
        raise InvalidOwners(
            f"Owner {name!r}: found {type(X).__name__}, which holds no rows; {needed}."
        )
    rows = count(features)
    if rows == 0:
        raise InvalidOwners(f"Owner {name!r} has no rows; leave it out or give it data.")
    target = None if y is None else as_target(name, y, rows)
    return Part(features, target, as_weights(name, weights, rows))


def as_rows(name: str, X: Any) -> Rows:
    """Features as sparse rows, a table with names of text, or an array."""
    if is_sparse(X):
        return _of_known_type(name, compressed(X))
    table = as_table(X)
    if is_table(table) and all(isinstance(column, str) for column in table.columns):
        return table
    return as_array(name, X)


def as_table(thing: Any) -> Any:
    """Tables of polars, pyarrow and Hugging Face as those of pandas; anything else as it is.

    Hugging Face keeps classes as numbers and their names apart; the names are what was meant.
    """
    if is_table(thing) or not hasattr(thing, "to_pandas"):
        return thing
    table, features = thing.to_pandas(), getattr(thing, "features", {})
    for column in table.columns if is_table(table) and isinstance(features, Mapping) else ():
        names = getattr(features.get(column), "names", None)
        if names and table[column].dtype.kind in "iu" and (table[column] >= 0).all():
            table[column] = table[column].map(dict(enumerate(names)))
    return table


def as_target(name: str, y: Any, rows: int) -> Array:
    """Targets of every row."""
    target = as_array(name, y)
    found = len(target) if target.ndim else "none"
    if found != rows:
        raise InvalidOwners(
            f"Owner {name!r} has {rows} rows but targets for {found}; one per row is needed."
        )
    refuse_missing(missing_targets(target), f"Owner {name!r}", "target")
    return target


def missing_targets(target: Array) -> Array:
    """Rows whose target, or one of them, is missing or infinite."""
    if target.dtype.kind == "f":
        bad = ~np.isfinite(target)
    elif target.dtype.kind == "O":
        cells = [cell is None or bool(cell != cell) for cell in target.ravel().tolist()]
        bad = np.array(cells, dtype=np.bool_).reshape(target.shape)
    else:
        bad = np.isnat(target) if target.dtype.kind in "mM" else np.zeros(len(target), np.bool_)
    return np.asarray(bad.any(axis=tuple(range(1, bad.ndim))))


def as_weights(name: str, weights: Any, rows: int) -> FloatArray | None:
    """Weights of every row: numbers, none below zero, and some above."""
    if weights is None:
        return None
    array = as_array(name, weights)
    fits = array.shape == (rows,) and array.dtype.kind in "biuf"
    if not fits or not (np.isfinite(array).all() and (array >= 0).all() and array.any()):
        raise InvalidOwners(
            f"Owner {name!r} has weights of shape {array.shape} and type {array.dtype} for {rows} "
            "rows; each row needs one number, not below 0, and some must be above."
        )
    converted: FloatArray = frozen(array.astype(np.float64))
    return converted


def as_array(name: str, values: Any) -> Array:
    """A copy of anything that numpy makes an array of numbers, text, dates or plain objects of."""
    if hasattr(values, "detach"):  # a tensor of torch, wherever it lies
        values = values.detach().cpu().numpy()
    try:
        array = np.array(as_table(values))
    except ValueError as error:
        raise InvalidOwners(
            f"Owner {name!r}: rows of different lengths ({error}). Pass an array of rows, or a "
            "tuple (X, y) of features and targets."
        ) from error
    return _of_known_type(name, array)


def _of_known_type(name: str, block: Rows) -> Rows:
    if block.dtype.kind not in "biufOUSmM":
        raise InvalidOwners(
            f"Owner {name!r} holds {block.dtype}; numbers, text, dates or plain objects are needed."
        )
    return block


def _is_list_of_samples(block: Any) -> bool:
    """Whether this is a list of pairs (x, y), x being a row; rows of two numbers are not."""
    return (
        isinstance(block, list)
        and bool(block)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in block)
        and all(np.ndim(x) > 0 and np.ndim(y) == 0 for x, y in block)
    )


def from_samples(name: str, samples: Any) -> tuple[Array, Array]:
    """Features and targets of a list or dataset of samples (x, y), each read once."""
    listed = [samples[k] for k in range(len(samples))] if hasattr(samples, "__len__") else samples
    pairs = list(listed)
    if not pairs:
        raise InvalidOwners(f"Owner {name!r} has no rows; leave it out or give it data.")
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise InvalidOwners(
            f"Owner {name!r} has a dataset whose first sample is {type(pairs[0]).__name__}; "
            "samples (x, y) are needed."
        )
    X, y = ([as_array(name, item) for item in column] for column in zip(*pairs, strict=True))
    shapes = {x.shape for x in X}
    if len(shapes) > 1:
        raise InvalidOwners(
            f"Owner {name!r} has samples of shapes {', '.join(map(str, sorted(shapes)[:4]))}; all "
            "need the same."
        )
    return np.stack(X), np.stack(y)


def check_parts(names: Sequence[str], parts: Sequence[Part]) -> None:
    """Refuse owners that cannot be pooled: rows, targets or weights that not all have alike."""
    one, first = names[0], parts[0]
    for name, part in zip(names, parts, strict=True):
        kinds = [type(of.X) for of in (part, first)]
        columns = [sorted(getattr(of.X, "columns", [])) for of in (part, first)]
        shapes = [of.X.shape[1:] for of in (part, first)]
        targets = [None if of.y is None else of.y.shape[1:] for of in (part, first)]
        whose = f"Owner {name!r}"
        refuse(
            InvalidOwners,
            (
                kinds[0] is not kinds[1],
                f"{whose} has rows of type {kinds[0].__name__}, {one!r} of {kinds[1].__name__}; "
                "all owners need the same.",
            ),
            (
                columns[0] != columns[1],
                f"{whose} has the columns {columns[0]}, {one!r} has {columns[1]}; the same ones "
                "are needed.",
            ),
            (
                shapes[0] != shapes[1],
                f"{whose} has rows of shape {shapes[0]}, but {one!r} has {shapes[1]}; all owners "
                "need the same columns.",
            ),
            (
                (part.y is None) != (first.y is None),
                f"{whose} and {one!r} differ in having a target.",
            ),
            (
                targets[0] != targets[1],
                f"{whose} has targets of shape {targets[0]}, {one!r} of {targets[1]}; all owners "
                "need the same.",
            ),
            (
                (part.weights is None) != (first.weights is None),
                f"{whose} and {one!r} differ in having weights.",
            ),
        )


def common_columns(names: Sequence[str], parts: Sequence[Part]) -> dict[str, str] | None:
    """Features by name and kind, in an order that is nobody's own, where owners came as tables."""
    if not is_table(parts[0].X):
        return None
    tables = {name: part.X for name, part in zip(names, parts, strict=True)}
    check_columns(parts[0].X.columns, f"Owner {names[0]!r}")
    return common_kinds(tables, common_order(tables))


def of_one_type(names: Sequence[str], blocks: Sequence[Rows], what: str) -> tuple[Rows, ...]:
    """Blocks of one common type, read-only; a pool's type must not depend on who is in it."""
    types = [block.dtype for block in blocks]
    first = types[0]
    for name, own in zip(names, types, strict=True):
        if _GROUPS[own.kind] != _GROUPS[first.kind]:
            raise InvalidOwners(
                f"The {what} of owner {name!r} are {own}, those of {names[0]!r} are {first}; all "
                "owners need the same type."
            )
    common = np.result_type(*types)
    return tuple(frozen(block.astype(common, copy=False)) for block in blocks)
