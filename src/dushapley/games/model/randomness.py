"""Chance in training: where its seeds are, and whether another seed trains another model.

A model may be seeded by parameters (`random_state`) or draw from the generators of the whole
process. The former are set from the game's seed, the latter are seeded before every training from
the game's seed, the pool's content and the repeat; so a training has the same bits wherever and
whenever it runs, and another repeat is another draw of chance. Whether chance matters at all is
seen by training one pool twice (`same_behaviour`), never by what parameters are called.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from dushapley.arrays import Array
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

    Those left open are derived from the game's seed, the repeat and the parameter's name, so they
    are the same for every pool. Those that are set are those of the first training; repeats take
    others, or there would be nothing to see in them.
    """
    from sklearn.base import clone

    copy = clone(model)
    unset = [name for name, state in random_states(copy).items() if state is None or repeat]
    seeds = {name: whole_number(f"{seed} {repeat} {name}", 4) >> 1 for name in unset}  # 31 bits
    return copy.set_params(**seeds)


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
    if type(model).__module__.split(".")[0] != "dushapley":
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


def behaviour(model: Any, *tables: Array) -> list[Array]:
    """All that a fitted model says of these rows: labels, probabilities, scores."""
    said = []
    for rows in (table[:MOST_ROWS] for table in tables):
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
