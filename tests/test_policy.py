"""Functions as games under a policy: failures, limits, repeats."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

import dushapley as ds
from dushapley.errors import InvalidGame, UtilityFailed

OWNERS = ds.Owners.from_arrays({name: [[float(k)]] for k, name in enumerate("abc", start=1)})


def moody(z):
    """Fails on every matrix that holds the pair of the last two, alone."""
    if (z == [False, True, True]).all(axis=1).any():
        raise OSError("the oven is cold")
    return z.sum(axis=1) + 0.5


def picky(X, y):
    if X[:, 0].tolist() == [2.0, 3.0]:
        raise OSError("the oven is cold")
    return float(X.sum()) + 0.5


def stuck(X, y):
    if len(X) == 1:
        while True:
            time.sleep(0.01)
    return float(len(X))


def greedy(X, y):
    return float(np.ones(len(X) * 10**9, dtype=np.uint8)[0] if len(X) == 1 else len(X))


def lucky(X, y):
    return len(X) + random.gauss(0, 0.1) + np.random.normal(0, 0.1)  # noqa: NPY002


@pytest.mark.parametrize(
    "make",
    [
        lambda **how: ds.CallableGame(moody, 3, fingerprint="m", **how),
        lambda **how: ds.DatasetGame(OWNERS, picky, fingerprint="p", **how),
    ],
)
def test_failures_count_as_nobody_or_raise(make, tmp_path) -> None:
    with pytest.raises(UtilityFailed, match="the oven is cold"):
        ds.value(make(), "exact")
    found = ds.value(make(on_failure="empty"), "exact", ledger=tmp_path / "l")
    assert found.failures == {"OSError: the oven is cold": 1}
    assert make(on_failure="empty")([[0, 1, 1]])[0] == found.u_empty == 0.5
    again = ds.value(make(on_failure="empty"), "exact", ledger=tmp_path / "l")
    assert again.n_computed == 0
    assert again.failures == found.failures
    with pytest.raises(UtilityFailed, match="the oven is cold"):  # tried again
        ds.value(make(), "exact", ledger=tmp_path / "l")


def test_what_is_not_a_number_is_a_failure_under_a_policy() -> None:
    game = ds.CallableGame(
        lambda z: np.where(z.sum(axis=1) == 2, np.nan, 1.0), 3, on_failure="empty"
    )
    assert sum(ds.value(game, "exact").failures.values()) == 3
    hopeless = ds.DatasetGame(OWNERS, lambda X, y: 1 / 0, on_failure="empty")
    with pytest.raises(UtilityFailed, match="utility of nobody's data failed"):
        hopeless([[1, 0, 0]])
    wrong = ds.CallableGame(lambda z: np.zeros((len(z), 2)), 3, on_failure="empty")
    with pytest.raises(InvalidGame, match="returned shape"):
        wrong([[1, 0, 0]])


@pytest.mark.parametrize(
    ("utility", "limit", "cause"),
    [(stuck, {"timeout": 5.0}, "TimedOut"), (greedy, {"memory": 10**8}, "OutOfMemory")],
)
def test_limits_end_what_takes_too_much(utility, limit, cause, tmp_path) -> None:
    game = ds.DatasetGame(OWNERS, utility, on_failure="empty", fingerprint="f", **limit)
    found = ds.value(game, "exact", ledger=tmp_path / "l")
    assert [name.partition(":")[0] for name in found.failures] == [cause]
    assert sum(found.failures.values()) == 3
    assert found.u_full == 3.0


def test_the_note_on_chance_says_what_is_known_of_a_utility() -> None:
    def notes(**how: object) -> tuple[set[str], str]:
        found = ds.value(ds.DatasetGame(OWNERS, lambda X, y: float(len(X)), **how), "exact")
        return set(found.unknown), " ".join(found.notes)

    for how, words in (({}, "is not known"), ({"deterministic": False}, "draws at random:")):
        unknown, told = notes(**how)
        assert unknown == {"training", "test set"}
        assert words in told
        assert "DatasetGame(..., repeats=3)" in told
        assert "ModelGame" not in told
        assert "nother seed" not in told
    unknown, told = notes(deterministic=True)
    assert unknown == {"test set"}
    assert "at random" not in told
    with pytest.raises(InvalidGame, match="choose True or False or None"):
        notes(deterministic="yes")


def test_a_coalition_that_takes_too_long_is_alone_in_failing() -> None:
    def slow(z):
        time.sleep(600.0 * bool((z == [True, False, False]).all(axis=1).any()))
        return z.sum(axis=1)

    game = ds.CallableGame(slow, 3, timeout=5.0, on_failure="empty")
    assert game.block == 1
    assert sum(ds.value(game, "exact").failures.values()) == 1


def test_repeats_are_averaged_and_tell_the_noise(tmp_path) -> None:
    game = ds.DatasetGame(OWNERS, lucky, repeats=4, fingerprint="l")
    one, other = (ds.value(game, "exact", ledger=tmp_path / name) for name in "ab")
    assert one.values.tolist() == other.values.tolist()  # from the pool and the repeat
    assert "training" not in one.unknown
    assert 0 < np.max(one.errors["training"]) < 0.3
    single = ds.DatasetGame(OWNERS, lucky, fingerprint="l")
    assert single.context != game.context
    matrix = ds.CallableGame(lambda z: z.sum(axis=1) + np.random.normal(0, 1, len(z)), 2, repeats=3)  # noqa: NPY002
    assert ds.value(matrix, "exact").values.tolist() == ds.value(matrix, "exact").values.tolist()
    with pytest.raises(InvalidGame, match="repeats"):
        ds.CallableGame(moody, 3, repeats=0)
    with pytest.raises(InvalidGame, match="timeout"):
        ds.DatasetGame(OWNERS, picky, timeout=-1)
