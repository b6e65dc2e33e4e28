"""One training after another, and chance in it: where seeds are, and whether they matter.

A model may be seeded by parameters (`random_state`) or draw from the generators of the whole
process. Both are set before every training from the game's seed, the pool's content and the repeat;
so a training has the same bits wherever and whenever it runs, another repeat is another draw of
chance, and so is another pool: one seed for all of them would move all pools that hold an owner
together, which no spread of repeats could tell. Whether chance matters at all is seen by training a
few pools under two seeds (`voice_of`), unless no part of the model takes a seed.

This library's own gradient models are the exception: pools that are trained together start from the
same weights in each repeat.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from dushapley.arrays import Array, Rows
from dushapley.data.rows import take
from dushapley.errors import InvalidGame
from dushapley.games.model.scoring.scorer import Score
from dushapley.games.policy import time_limit
from dushapley.hashing import content_hash, whole_number

SEEDS = ("random_state", "random_seed", "seed")
"""What parameters that seed a model are called."""


def fresh(model: Any, seed: int, repeat: int, *, repeated: bool) -> Fresh:
    """A maker of copies of the model in which every seed, nested ones too, is fixed.

    Those left open are derived from the game's seed, the repeat and the parameter's name. Those
    that are set are those of the first training; repeats take others, or there would be nothing to
    see in them. Pools take others still, see `seeds_by_pool`.
    """
    from sklearn.base import clone

    unset = [name for name, state in random_states(model).items() if state is None or repeat]
    template = clone(model).set_params(**derived_seeds(unset, f"{seed} {repeat}"))
    return Fresh(template, seeds_by_pool(model, repeated=repeated or repeat > 0))


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


PLAIN = (type(None), bool, int, float, str, list, tuple, dict, np.ndarray, np.generic, type)
"""Types of parameters that draw nothing; a function or a splitter might."""


def known_chance(model: Any) -> bool | None:
    """Whether another seed trains the same model; None: unknown.

    It is known of this library's models, of scikit-learn's where no part takes a seed or uses it,
    and of those that draw where a few pools may not show it.
    """
    inside = model.get_params(deep=True).values()
    parts = [part for part in (model, *inside) if hasattr(part, "get_params")]
    if all(map(_draws_nothing, parts)):
        return True
    return False if _is_ours(model) or any(map(_draws_rarely, parts)) else None


def _draws_nothing(part: Any) -> bool:
    """Whether a single estimator of scikit-learn or ours takes no seed, or does not use it."""
    own = part.get_params(deep=False)
    if _is_ours(part):
        whole = type(part).__name__ == "SoftmaxRegression" and part.batch_size is None
        return whole or not random_states(part)
    plain = all(isinstance(v, PLAIN) or hasattr(v, "get_params") for v in own.values())
    searched = any(name.startswith("param_") for name in own)  # which may set seeded solvers
    if type(part).__module__.split(".")[0] != "sklearn" or searched or not plain:
        return False
    if type(part).__name__ in ("LogisticRegression", "Ridge", "RidgeClassifier"):
        return own["solver"] not in ("sag", "saga", "liblinear")  # which use their random_state
    return not any(seed in own for seed in SEEDS)


def _draws_rarely(part: Any) -> bool:
    """Whether an estimator draws in some pools only, or mostly chooses the same.

    Trees break ties by their seed; others choose among candidates, by folds or columns by a noise;
    PCA draws from 501 rows on, until there are ten for each column.
    """
    from sklearn import ensemble, tree

    own = part.get_params(deep=False)
    searched = "random_state" in own and any(name.startswith("param_") for name in own)
    sized = own.get("svd_solver") == "auto" and isinstance(own.get("n_components"), Integral)
    tied = isinstance(part, (tree.BaseDecisionTree, ensemble.BaseEnsemble))
    return searched or sized or tied or any(map(_is_left_to_chance, own.values()))


def _is_left_to_chance(value: Any) -> bool:
    """Whether a parameter is a function that takes a seed, or a splitter that shuffles without."""
    if hasattr(value, "get_n_splits"):
        return bool(getattr(value, "shuffle", True)) and getattr(value, "random_state", 0) is None
    function = inspect.isfunction(value) or isinstance(value, partial)
    return function and "random_state" in inspect.signature(value).parameters


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Python's, numpy's and (where it is loaded) torch's generators from this seed.

    Afterwards they are as they were before.
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one is meant
    torch = sys.modules.get("torch")
    forked: Any = nullcontext()
    if torch is not None:  # states of accelerators only where they are in use
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        forked = torch.random.fork_rng(devices=list(devices))
    with forked:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if torch is not None:
            torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def behaviour(model: Any, *tables: Rows) -> list[Array]:
    """All that a fitted model says of the first of these rows: labels, probabilities, scores."""
    said = []
    for rows in (take(table, slice(2000)) for table in tables):
        for voice in ("predict", "predict_proba", "decision_function"):
            with suppress(Exception):  # a model may have a voice that it cannot raise
                said.append(np.asarray(getattr(model, voice)(rows.copy())))
    return said


def voice_of(score: float, said: list[Array]) -> float:
    """A number that two trainings share only if score and predictions agree to the last bit."""
    content = [content_hash(np.atleast_1d(array), None) for array in said]
    return float(whole_number(f"{score!r} {' '.join(content)}", 6))


@dataclass(frozen=True)
class Fresh:
    """Makes fresh, unfitted copies of a model, in a fifth of the time of scikit-learn's clone.

    Attributes
    ----------
    template
        The unfitted model.
    open_seeds
        Parameters that are set anew in every copy, from the seed of its training.
    """

    template: Any
    open_seeds: tuple[str, ...] = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load what trainings need when a worker is given the game, not in the first one's time."""
        import sklearn.base  # noqa: F401

        vars(self).update(state)

    def __call__(self, seed: int) -> Any:
        return deepcopy(self.template).set_params(**derived_seeds(self.open_seeds, seed))


def train(
    make: Fresh,
    rows: tuple[Rows, Array],
    score: Callable[[Any], Score],
    *,
    seed: int,
    seconds: float | None,
    tables: Sequence[Rows] = (),
    options: Mapping[str, Any] | None = None,
) -> tuple[Score, list[Array]]:
    """Score of a fresh model after training, and all that it can say of `tables`.

    One that loads torch only while it is trained could not be seeded: it is trained again.
    """
    while True:
        loaded = "torch" in sys.modules
        limited = nullcontext() if seconds is None else time_limit(seconds)
        with seeded_generators(seed), limited:
            model = fitted(lambda: make(seed), *rows, options or {})
            trained = score(model), behaviour(model, *tables)
        if loaded or "torch" not in sys.modules:
            return trained


def fitted(make: Callable[[], Any], X: Rows, y: Array, options: Mapping[str, Any]) -> Any:
    """A model fitted to rows; where it takes no labels but 0, 1, 2, ..., to codes of them.

    XGBoost refuses text, and pools that lack a class between two others; scikit-learn refuses
    numbers among objects.
    """
    model = make()
    try:
        return model.fit(X, y, **options)
    except (ValueError, TypeError):
        from sklearn.base import is_classifier  # only here: loading it would count as training

        from dushapley.games.model.wrappers import Decoded

        if y.ndim > 1 or not is_classifier(model):
            raise
        classes, codes = np.unique(y, return_inverse=True)
        if y.dtype.kind != "O" and np.array_equal(classes, np.arange(len(classes))):
            raise
        with suppress(Exception):
            return Decoded(make().fit(X, codes, **options), classes)
        raise
