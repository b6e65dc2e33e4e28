"""One training after another: fresh models, the same seeds for every pool, a time limit.

And what comes of them: repeats averaged, test rows in groups, failures in one line.
"""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import InvalidGame
from dushapley.games.base import Limits, Outcome
from dushapley.hashing import whole_number
from dushapley.validation import is_number, is_whole, refuse

LONGEST = 1e8
"""Seconds that an alarm can wait, and then some: three years."""
MOST_SCORES = 2048
"""Entries kept of a score that is known test row by test row: at most 16 KB a training."""
DIRECT = ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "lbfgs")
IDLE_SEEDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "LogisticRegression": ("solver", ("lbfgs", "newton-cg", "newton-cholesky")),
    "Ridge": ("solver", DIRECT),
    "RidgeClassifier": ("solver", DIRECT),
    "Lasso": ("selection", ("cyclic",)),
    "ElasticNet": ("selection", ("cyclic",)),
    "SVC": ("probability", (False,)),
    "SoftmaxRegression": ("batch_size", (None,)),
}
"""Models that take a seed and, with these values of a parameter, make no use of it."""


class TimedOut(Exception):
    """A training took longer than it may."""


class OutOfMemory(Exception):
    """A training took more memory than it may."""


def out_of_memory(size: int) -> OutOfMemory:
    """The failure of a training that was given so many bytes."""
    return OutOfMemory(f"more than {size / 1e6:g} MB")


def timed_out(seconds: float) -> TimedOut:
    """The failure of a training that was given so many seconds."""
    return TimedOut(f"no result within {seconds:g} s")


def seeded(model: Any, seed: int, repeat: int) -> Any:
    """A copy of the model in which every missing `random_state`, nested ones too, is fixed.

    Each is derived from the game's seed, the repeat and the parameter's name, so it is the same
    for every pool.
    """
    from sklearn.base import clone

    copy = clone(model)
    missing = [name for name, state in random_states(copy).items() if state is None]
    seeds = {name: whole_number(f"{seed} {repeat} {name}", 4) >> 1 for name in missing}  # 31 bits
    return copy.set_params(**seeds)


def random_states(model: Any) -> dict[str, Any]:
    """All parameters that seed some part of the model."""
    return {
        name: value
        for name, value in model.get_params(deep=True).items()
        if name == "random_state" or name.endswith("__random_state")
    }


def is_deterministic(model: Any) -> bool:
    """Whether another seed would train the very same model: no part of it uses one."""
    parts = model.get_params(deep=True) | {"": model}
    seeded_parts = [name.removesuffix("random_state") for name in random_states(model)]
    return all(_idle_seed(parts[name.removesuffix("__")]) for name in seeded_parts)


def _idle_seed(part: Any) -> bool:
    """Whether a part that takes a seed makes no use of it."""
    setting, idle = IDLE_SEEDS.get(type(part).__name__, ("", ()))
    ours = type(part).__module__.split(".")[0] in ("sklearn", "dushapley")
    return ours and bool(setting) and getattr(part, setting) in idle


def refuse_drifting(model: Any, repeats: int) -> None:
    """Refuse models whose trainings would not be repeatable, or whose repeats would be equal."""
    states = random_states(model)
    for name, state in states.items():
        if state is not None and not isinstance(state, int):
            raise InvalidGame(
                f"{name} is a {type(state).__name__}, which changes with every training, so that "
                "equal pools would differ in worth. Pass an integer, or leave it out: the game's "
                "seed= then sets it."
            )
    if repeats > 1 and all(state is not None for state in states.values()):
        why = f"fixes {', '.join(states)}" if states else "has no random_state"
        raise InvalidGame(
            f"repeats={repeats}, but the model {why}, so all repeats would be equal. Leave "
            "repeats= out, or leave random_state open."
        )


class Fresh:
    """Makes fresh, unfitted copies of a model.

    A copy through bytes in memory takes a twentieth of the time of scikit-learn's clone; models
    that do not allow it are cloned.
    """

    def __init__(self, template: Any) -> None:
        self.template = template
        try:
            self.frozen: bytes | None = pickle.dumps(template)
            self()
        except (pickle.PicklingError, AttributeError, TypeError):
            self.frozen = None
            self()  # imports what a clone needs now, not in the time of the first training

    def __reduce__(self) -> tuple[type[Fresh], tuple[Any]]:
        """Travel as the model: a class written in a script has no bytes that a worker can read."""
        return Fresh, (self.template,)

    def __call__(self) -> Any:
        if self.frozen is not None:
            return pickle.loads(self.frozen)  # noqa: S301 - our own bytes, never stored
        from sklearn.base import clone

        return clone(self.template)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimedOut` inside the block once its time is up.

    Works by an alarm signal: the training is interrupted when it next returns to Python, so a
    single call into compiled code is not cut short.
    """
    if seconds is None:
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        raise timed_out(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def refuse_impossible(limits: Limits) -> None:
    """Refuse limits that make no sense, or that this thread and system cannot keep."""
    timed, sized = limits.timeout is not None, limits.memory is not None
    alarm = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    refuse(
        InvalidGame,
        (
            timed and not is_number(limits.timeout, above=0, most=LONGEST),
            f"timeout is {limits.timeout!r}; it must be a positive number of seconds (at most "
            f"{LONGEST:g}), or None for no limit.",
        ),
        (
            timed and not alarm,
            "timeout= works by an alarm signal, which exists only on Unix and in the main thread. "
            "Leave it out here, or run in workers (n_jobs=2).",
        ),
        (
            sized and not is_whole(limits.memory, least=1),
            f"memory is {limits.memory!r}; it must be a positive whole number of bytes, or None.",
        ),
        (
            sized and not Path("/proc/self/statm").exists(),
            "memory= needs Linux, which can refuse memory to a process. Leave it out here.",
        ),
    )


def average(scored: list[tuple[float, FloatArray | None]]) -> Outcome:
    """Mean of repeated trainings, their rows and their spread."""
    values = np.array([value for value, _ in scored])
    rows = [row for _, row in scored if row is not None]
    mean = float(values.mean()) if len(values) > 1 else scored[0][0]
    if not np.isfinite(mean):
        raise ArithmeticError(f"the score is {mean}")
    return Outcome(
        mean,
        scores=grouped(np.mean(rows, axis=0) if len(rows) > 1 else rows[0]) if rows else None,
        spread=float(values.std(ddof=1)) if len(values) > 1 else None,
    )


def grouped(rows: FloatArray) -> FloatArray:
    """Scores of test rows, or of at most `MOST_SCORES` random groups of them.

    A group's entry is m + (n_g·G/n)(m_g − m), m the mean, m_g and n_g mean and rows of the group:
    same mean as the rows, and the mean's standard error is still that of independent entries.
    """
    if len(rows) <= MOST_SCORES:
        return rows
    group = np.random.default_rng(0).permutation(len(rows)) % MOST_SCORES
    mean = rows.mean()
    sums = np.bincount(group, rows - mean, minlength=MOST_SCORES)
    return np.asarray(mean + sums * (MOST_SCORES / len(rows)))


def failure_cause(error: BaseException) -> str:
    """A failure in one line that is equal for equal causes."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
