"""Chance in training: where its seeds are, and whether another seed trains another model.

A model may be seeded by parameters (`random_state`) or draw from the generators of the whole
process. Both are set before every training from the game's seed, the pool's content and the repeat;
so a training has the same bits wherever and whenever it runs, another repeat is another draw of
chance, and so is another pool: one seed for all of them would move all pools that hold an owner
together, which no spread of repeats could tell. Whether chance matters at all is seen by training a
few pools twice (`same_behaviour`), never by what parameters are called.

This library's own gradient models are the exception: pools that are trained together start from the
same weights in each repeat.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from dushapley.arrays import Array, Rows
from dushapley.data.rows import take
from dushapley.errors import InvalidGame
from dushapley.hashing import whole_number

SEEDS = ("random_state", "random_seed", "seed")
"""What parameters that seed a model are called."""
VOICES = ("predict", "predict_proba", "decision_function")
"""What a fitted model can say of rows."""
MOST_ROWS = 2000
"""Rows on which two trainings of a pool are compared, of the test set and of the pool each."""


def seeded(model: Any, seed: int, repeat: int) -> Any:
    """A copy of the model in which every seed, nested ones too, is fixed.

    Those left open are derived from the game's seed, the repeat and the parameter's name. Those
    that are set are those of the first training; repeats take others, or there would be nothing to
    see in them. Pools take others still, see `seeds_by_pool`.
    """
    from sklearn.base import clone

    copy = clone(model)
    unset = [name for name, state in random_states(copy).items() if state is None or repeat]
    return copy.set_params(**derived_seeds(unset, f"{seed} {repeat}"))


def seeds_by_pool(model: Any, *, repeated: bool) -> tuple[str, ...]:
    """Names of the seeds that every pool has its own of.

    Those left open; where trainings are repeated those that are set as well. Never those of this
    library's models, whose pools share the weights they start from.
    """
    parts = {"": model, **model.get_params(deep=True)}
    return tuple(
        name
        for name, state in random_states(model).items()
        if (state is None or repeated) and not _is_ours(parts[name.rpartition("__")[0]])
    )


def derived_seeds(names: Iterable[str], seed: int | str) -> dict[str, int]:
    """Seeds of these parameters, from the seed of one training."""
    return {name: whole_number(f"{seed} {name}", 4) >> 1 for name in names}  # 31 bits


def _is_ours(model: Any) -> bool:
    return type(model).__module__.split(".")[0] == "dushapley"


def random_states(model: Any) -> dict[str, Any]:
    """All parameters that seed some part of the model."""
    return {
        name: value
        for name, value in model.get_params(deep=True).items()
        if name.rpartition("__")[2] == SEEDS[0]
        or (name.rpartition("__")[2] in SEEDS and (value is None or type(value) is int))
    }


def refuse_drifting(model: Any) -> None:
    """Refuse a seed that changes with every training."""
    for name, state in random_states(model).items():
        if state is not None and not isinstance(state, int):
            raise InvalidGame(
                f"{name} is a {type(state).__name__}, which changes with every training, so that "
                "equal pools would differ in worth. Pass an integer, or leave it out: the game's "
                "own seed then sets it."
            )


def known_chance(model: Any) -> bool | None:
    """Whether another seed trains the same model, for this library's own; None for others."""
    if not _is_ours(model):
        return None
    unseeded = not random_states(model)
    return unseeded or (type(model).__name__ == "SoftmaxRegression" and model.batch_size is None)


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Python's, numpy's and (where it is loaded) torch's generators from this seed.

    Afterwards they are as they were before.
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one is meant
    torch = sys.modules.get("torch")
    with nullcontext() if torch is None else _forked(torch):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if torch is not None:
            torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def _forked(torch: Any) -> Any:
    """Keeps the state of torch's generators; of accelerators only where they are in use."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return torch.random.fork_rng(devices=list(devices))


def behaviour(model: Any, *tables: Rows) -> list[Array]:
    """All that a fitted model says of these rows: labels, probabilities, scores."""
    said = []
    for rows in (take(table, slice(MOST_ROWS)) for table in tables):
        for voice in VOICES:
            with suppress(Exception):  # a model may have a voice that it cannot raise
                said.append(np.asarray(getattr(model, voice)(rows.copy())))
    return said


def same_behaviour(one: list[Array], other: list[Array]) -> bool:
    """Whether two trainings came to the same, to the last bit."""
    return len(one) == len(other) and all(map(_same, one, other))


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and bool(
        np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    )
