"""Guards: what is refused at the door, how messages name a pool, JSON without two readings."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Signature, signature
from math import inf, isfinite
from numbers import Real
from pathlib import Path
from typing import Any, ParamSpec, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import AnyDict, BoolArray, FloatArray, Fractions, Queries
from dushapley.errors import (
    BudgetTooSmall,
    DUShapleyError,
    InvalidCall,
    InvalidGame,
    InvalidOption,
    UtilityFailed,
)

MOST_BYTES, MOST_ENTRIES, MOST_DEPTH, MOST_DIGITS = 2**26, 3_000_000, 40, 40
"""Of JSON that is read: 64 MB (1,000 owners with all covariances take 40), and numbers as long as
any that is written.
"""
MOST_COUNT, MOST_SEED = 10**15, 2**128 - 1
"""Evaluations that can be asked for, and seeds: what is larger could not be read back."""
LARGEST = 1e140
"""Utility whose square can still be summed."""


def refuse(error: type[DUShapleyError], *faults: tuple[object, str]) -> None:
    """Raise the message of the first fault: pairs of whether it is there, and what to say of it."""
    message = next((message for is_there, message in faults if is_there), None)
    if message is not None:
        raise error(message)


def suggestion(name: object, names: Sequence[str], cutoff: float = 0.6) -> str:
    """The sentence " Did you mean ...?" with the nearest of the names; "" where none is near."""
    plain = {known.casefold(): known for known in reversed(names)}
    near = get_close_matches(str(name).casefold(), plain, n=1, cutoff=cutoff)
    return f" Did you mean {plain[near[0]]!r}?" if near else ""


SYNONYMS = {
    "random_state": "seed", "rng": "seed", "n_samples": "budget", "max_evals": "budget",
    "n_evaluations": "budget", "max_evaluations": "budget", "n_permutations": "budget",
    "timeout": "max_seconds", "time_limit": "max_seconds", "cache": "ledger", "verbose": "progress",
    "workers": "n_jobs", "n_workers": "n_jobs", "tol": "precision", "epsilon": "precision",
    "amount": "pot", "metric": "scoring", "estimator": "model",
}  # fmt: skip
"""Keywords of other libraries, and what they are called here."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def spoken(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Have calls that do not fit a function refused in words, not by Python's own error.

    Examples
    --------
    >>> import dushapley as ds
    >>> ds.value(ds.TableGame([0, 1]), random_state=0)
    Traceback (most recent call last):
    dushapley.errors.InvalidCall: value has no keyword 'random_state'. Did you mean 'seed'? ...
    """
    shape = signature(function)
    label = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def called(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            shape.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidCall(_misfit(label, shape, kwargs, str(error))) from None
        return function(*args, **kwargs)

    return called


def _misfit(label: str, shape: Signature, given: Mapping[str, object], reason: str) -> str:
    known = [name for name in shape.parameters if name not in ("self", "cls")]
    takes = f"It takes {', '.join(known)}."
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return f"{label}: {reason}. {takes}"
    other = SYNONYMS.get(unknown)
    hint = f" Did you mean {other!r}?" if other in known else suggestion(unknown, known)
    return f"{label} has no keyword {unknown!r}.{hint} {takes}"


def is_partial(queries: Queries) -> BoolArray:
    """Mark the pools that hold only part of some owner's rows."""
    if queries.dtype == np.bool_:
        return np.zeros(len(queries), dtype=np.bool_)
    return np.asarray(((queries > 0) & (queries < 1)).any(axis=1))


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8: no halves of characters, as odd file names have."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def is_whole(thing: object, least: float = -inf, most: float = inf) -> TypeGuard[int]:
    """Whether it is a whole number, not a truth value, within both bounds."""
    if isinstance(thing, bool) or not isinstance(thing, (int, np.integer)):
        return False
    return bool(least <= thing <= most)


def is_number(thing: object, above: float = -inf, most: float = inf) -> TypeGuard[float]:
    """Whether it is a real number, neither NaN nor a truth value, above one bound up to another."""
    if isinstance(thing, bool) or not isinstance(thing, Real):
        return False
    return bool(above < thing <= most)  # type: ignore[operator]  # exact where floats overflow


def check_whole(
    number: object, name: str, least: int = 1, error: type[DUShapleyError] = InvalidGame
) -> int:
    """A whole number of at least `least`."""
    if not is_whole(number, least):
        raise error(f"{name} is {number!r}; it needs to be a whole number of at least {least}.")
    return int(number)


def check_choice(
    choice: object, name: str, able: Sequence[object], error: type[DUShapleyError] = InvalidGame
) -> None:
    """Refuse what is not one of the choices."""
    if choice not in able:
        raise error(f"{name} is {choice!r}; choose {' or '.join(map(repr, able))}.")


def check_sizes(
    sizes: ArrayLike | None, n_players: int | None = None, name: str = "sizes"
) -> FloatArray:
    """Sizes as a read-only float vector; ones where they are unknown."""
    if sizes is None:
        array = np.ones(n_players or 0)
    else:
        try:
            array = np.array(sizes, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidGame(f"{name} are not numbers ({error}). Pass one per owner.") from error
    if array.ndim != 1 or not array.size or n_players not in (None, len(array)):
        shape = "" if n_players is None else f", ({n_players},)"
        raise InvalidGame(f"{name} has shape {array.shape}; it needs one number per owner{shape}.")
    legal = np.isfinite(array) & (array >= 0)
    if not legal.all():
        worst = int(legal.argmin())
        raise InvalidGame(
            f"Owner {worst + 1} has {array[worst]} in {name}; it needs a finite number that is "
            "not negative (zero rows are legal)."
        )
    array.setflags(write=False)
    return array


def check_names(names: Sequence[str] | None, n_players: int) -> tuple[str, ...]:
    chosen = tuple(f"owner {i + 1}" for i in range(n_players)) if names is None else tuple(names)
    different = len(set(chosen))
    if not len(chosen) == different == n_players:
        raise InvalidGame(
            f"Found {len(chosen)} names ({different} different) for {n_players} owners; "
            "pass one name per owner, all different."
        )
    if not all(isinstance(name, str) and is_unicode(name) for name in chosen):
        raise InvalidGame("Owner names must be strings, of whole Unicode characters.")
    return chosen


def pools_between(known: BoolArray, n_players: int) -> BoolArray:
    """Known pools, each once, without nobody's and everybody's: these are asked in any case."""
    known = np.asarray(known) if len(known) else np.empty((0, n_players), dtype=np.bool_)
    if known.dtype != np.bool_ or known.ndim != 2 or known.shape[1] != n_players:
        raise InvalidOption(
            f"known has shape {known.shape} and type {known.dtype}; it needs booleans, a row for "
            f"each pool and a column for each of the {n_players} owners."
        )
    _, first = np.unique(known, axis=0, return_index=True)
    distinct = known[np.sort(first)]
    return np.asarray(distinct[distinct.any(axis=1) & ~distinct.all(axis=1)])


def refuse_non_finite(queries: Queries, values: FloatArray, names: Sequence[str]) -> None:
    """Refuse NaN and infinity, naming the pool that they came from."""
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(bad.argmax())
        raise UtilityFailed(
            f"The utility of {pool_name(queries[first], names)} is {values[first]} "
            f"({bad.sum()} of {len(values)} pools in this batch are not finite). A value needs "
            "finite utilities: check the metric, or give too little data a finite worth."
        )


def refuse_extreme(queries: Queries, values: FloatArray, names: Sequence[str]) -> None:
    """Refuse utilities so large that their squares, and with them all errors, are infinite."""
    first = int(np.argmax(abs(values)))
    if abs(values[first]) > LARGEST:
        raise UtilityFailed(
            f"The utility of {pool_name(queries[first], names)} is {values[first]:.3g}; errors "
            f"need squares of utilities, which are finite up to {LARGEST:g}. Divide the utility by "
            "a constant (values are divided by it, too), or have exact values computed."
        )


def refuse_minute(empty: float, full: float) -> None:
    """Refuse utilities so small that their squares, and with them all errors, are zero."""
    if 0 < max(abs(empty), abs(full)) < 1 / LARGEST:
        raise UtilityFailed(
            f"The utilities of nobody and everybody are {empty:.3g} and {full:.3g}; errors need "
            f"squares of utilities, which are zero below {1 / LARGEST:g}. Multiply the utility by "
            "a constant (values are multiplied by it, too), or have exact values computed."
        )


def pool_name(query: np.ndarray[Any, Any], names: Sequence[str]) -> str:
    """A pool in words, for messages."""
    inside: list[int] = np.flatnonzero(query > 0).tolist()
    if not inside:
        return "the empty pool"
    if (query == 1).all():
        return "the pool of all owners"
    pairs = [(names[i], float(query[i])) for i in inside[:6]]
    members = [repr(name) if part == 1 else f"{part:.1%} of {name!r}" for name, part in pairs]
    more = f" and {len(inside) - 6} more" if len(inside) > 6 else ""
    return f"the pool of {', '.join(members)}{more}"


def check_fractions(fractions: object, sizes: FloatArray) -> Fractions:
    """What can be answered; rows can be drawn only where sizes are whole numbers."""
    if fractions == "rows" and (sizes != np.floor(sizes)).any():
        raise InvalidGame("Found sizes that are not whole numbers; only whole rows can be drawn.")
    if fractions in ("exact", "rows", "none"):
        return fractions
    raise InvalidGame(f"fractions is {fractions!r}; choose 'exact', 'rows' or 'none'.")


def place_of(name: object, names: Sequence[str], error: type[DUShapleyError]) -> int:
    """Position of an owner by name; refuse one that is not there, naming those that are."""
    if name not in names:
        raise error(
            f"There is no owner {name!r:.100}.{suggestion(str(name), tuple(names))} Owners are "
            f"asked for by name, the first of them {', '.join(map(repr, names[:20]))}."
        )
    return names.index(str(name))


def read_json(
    path: str | os.PathLike[str],
    kind: str,
    written: str,
    error: type[DUShapleyError],
    longer: int = 1,
) -> Any:
    """Read a JSON file of this kind as `strict_json` does; refuse what is none with this error.

    `written` says when or by what such files are.
    """
    try:
        with Path(path).open("rb") as file:
            size = min(os.fstat(file.fileno()).st_size, longer * MOST_BYTES)
            return strict_json(file.read(size + 1), longer=longer)
    except (OSError, ValueError) as why:
        raise error(
            f"{os.fspath(path)} is not a readable {kind} ({why}). Pass the JSON file that was "
            f"written {written}."
        ) from why


def check_budget(budget: object) -> int | None:
    if budget is None:
        return None
    if not is_whole(budget):
        raise InvalidOption(f"budget is {budget!r}; it must be a whole number of evaluations.")
    if budget < 2:
        raise BudgetTooSmall(
            f"budget is {budget!r}; it needs at least 2: nobody and everybody are always asked."
        )
    if budget > MOST_COUNT:
        raise InvalidOption(f"budget is more than the {MOST_COUNT:,} evaluations there can be.")
    return int(budget)


def check_seed(seed: object, error: type[DUShapleyError] = InvalidOption) -> int:
    if not is_whole(seed, least=0):
        raise error(f"seed is {seed!r}; it must be a whole number that is not negative.")
    if seed > MOST_SEED:
        raise error(f"seed has {seed.bit_length():,} bits; it may have {MOST_SEED.bit_length()}.")
    return int(seed)


def strict_json(content: bytes, *, longer: int = 1) -> Any:
    """Data from JSON that can be read in one way only; a ValueError says what is wrong with it.

    Other readers take the last of two equal keys, or read 1e999 as infinity: two people would then
    see two things under one seal. Refused are double keys, NaN and infinity, numbers of more than
    40 digits or beyond the range of floats, more than 64 MB, 3,000,000 entries or 40 levels; of
    files that are `longer` by nature, so many times as many bytes and entries are read.

    Examples
    --------
    >>> strict_json(b'{"pot": 1, "pot": 2}')
    Traceback (most recent call last):
    ValueError: 'pot' stands in it twice
    """
    n_entries = sum(content.count(mark) for mark in (b",", b"[", b"{"))
    most_bytes, most_entries = longer * MOST_BYTES, longer * MOST_ENTRIES
    if len(content) > most_bytes or n_entries > most_entries:
        raise ValueError(
            f"{len(content):,} bytes and {n_entries:,} entries; at most {most_bytes:,} and "
            f"{most_entries:,} are read"
        )
    try:
        data = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_no_number,
            parse_float=_float,
            parse_int=_int,
        )
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    _refuse_deep(data)
    return data


TOO_DEEP = f"it is nested more than {MOST_DEPTH} levels deep"


def _once(pairs: list[tuple[str, Any]]) -> AnyDict:
    seen = dict(pairs)
    if len(seen) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"{names.most_common(1)[0][0]!r:.60} stands in it twice")
    return seen


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _float(digits: str) -> float:
    number = float(digits) if len(digits) <= MOST_DIGITS else inf
    if not isfinite(number):
        raise ValueError(f"the number {digits:.20} is too large, or too long")
    return number


def _int(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"the number {digits:.20}… is too large, or too long")
    return int(digits)


def _refuse_deep(data: Any) -> None:
    waiting = [(data, 1)]
    while waiting:
        thing, depth = waiting.pop()
        if depth > MOST_DEPTH:
            raise ValueError(TOO_DEEP)
        if isinstance(thing, (dict, list)):
            inside = thing.values() if isinstance(thing, dict) else thing
            waiting += [(item, depth + 1) for item in inside if isinstance(item, (dict, list))]
