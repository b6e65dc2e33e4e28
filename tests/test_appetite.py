"""Workers are kept busy, and no bit depends on how many there are or what comes back first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dushapley as ds
from dushapley.engine import evaluator, value
from dushapley.engine.executors import EXECUTORS, Executor
from dushapley.engine.executors.worker import Group, Parcel, Results, answers_of
from dushapley.engine.value import Run
from extras import needs


class Simulated(Executor):
    """A cluster in simulated time, handed its work by the code that hands it to real ones."""

    def __init__(self, n_workers: int, length: Callable[[int], float]) -> None:
        super().__init__(float("inf"))
        self.n_workers, self.length = n_workers, length
        self.clock = self.work = 0.0
        self.queues: list[deque[int]] = [deque() for _ in range(n_workers)]
        self.ends: dict[int, float] = {}  # of groups at work
        self.groups: dict[int, Group] = {}
        self.n_trained = 0

    def count(self) -> int:
        return self.n_workers

    def ship(self, parcel: Parcel) -> None:
        pass

    def submit(self, group: Group, alone: bool) -> int:
        handle = len(self.groups)
        self.groups[handle] = group
        idle = min(self.queues, key=len)
        idle.append(handle)
        if len(idle) == 1:
            self.start(handle)
        return handle

    def start(self, handle: int) -> None:
        lengths = [self.length(self.n_trained + k) for k in range(len(self.groups[handle]))]
        self.n_trained += len(lengths)
        self.work += sum(lengths)
        self.ends[handle] = self.clock + sum(lengths)

    def wait(self, futures: Collection[Any], seconds: float) -> Collection[Any]:
        self.clock = min(self.ends.values())
        done = {handle for handle, end in self.ends.items() if end == self.clock}
        for queue in self.queues:
            if queue and queue[0] in done:
                del self.ends[queue.popleft()]
                if queue:
                    self.start(queue[0])
        return sorted(done, key=lambda handle: -handle)  # the last comes first

    def result(self, future: int) -> tuple[float, Results]:
        assert self.game is not None
        return 60.0, [(n, answers_of(self.game, block)) for n, block in self.groups[future]]

    def cancel(self, futures: Collection[Any]) -> None:
        pass

    def close(self) -> None:
        pass

    @property
    def busy(self) -> float:
        return self.work / (self.n_workers * self.clock)


@contextmanager
def cluster(n_workers: int, length: Callable[[int], float] = lambda _: 1.0) -> Iterator[Simulated]:
    simulated = Simulated(n_workers, length)
    EXECUTORS["simulated"] = lambda *_: simulated
    try:
        yield simulated
    finally:
        del EXECUTORS["simulated"]


def game(n_players: int) -> ds.CallableGame:
    worth = np.random.default_rng(0).gamma(1.0, size=n_players)
    return ds.CallableGame(Worth(worth), n_players, block=1)


class Worth:
    def __init__(self, worth: np.ndarray) -> None:
        self.worth = worth

    def __call__(self, pools: np.ndarray) -> np.ndarray:
        return np.sqrt((pools * self.worth).sum(axis=1))


SOME_ARE_LONG = np.where(np.random.default_rng(1).random(60_000) < 0.05, 30.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["permutation", "stratified-svarm"])
@pytest.mark.parametrize(("n_workers", "busy"), [(32, 0.95), (256, 0.9), (1000, 0.8)])
def test_samplers_keep_clusters_busy(method: str, n_workers: int, busy: float) -> None:
    with cluster(n_workers) as simulated:
        ds.value(game(50), method, budget=20 * 50**2, executor="simulated")
    assert simulated.busy >= busy


@pytest.mark.slow
@pytest.mark.parametrize("method", ["permutation", "stratified-svarm"])
def test_one_long_training_in_twenty_holds_nobody_up(method: str) -> None:
    with cluster(32, lambda n: float(SOME_ARE_LONG[n])) as simulated:
        ds.value(game(50), method, budget=20 * 50**2, executor="simulated")
    assert simulated.busy >= 0.9


def test_gp_keeps_workers_busy_while_it_learns() -> None:
    with cluster(32) as simulated:
        found = ds.value(game(50), "gp", executor="simulated")
    assert simulated.busy >= 0.6
    assert 25 <= found.details["lag"] <= 75


@pytest.mark.parametrize("method", ["exact", "permutation", "owen", "kernel", "svarm", "tmc", "gp"])
def test_no_bit_depends_on_workers_or_on_who_is_first(method: str) -> None:
    budget = 64 if method == "exact" else 50 if method == "gp" else 300
    alone = ds.value(game(6 if method == "exact" else 9), method, budget=budget)
    for n_workers in (2, 50):
        with cluster(n_workers, lambda n: float(SOME_ARE_LONG[n])):
            other = ds.value(
                game(6 if method == "exact" else 9), method, budget=budget, executor="simulated"
            )
        assert replace(other, details={}) == replace(alone, details={})
        assert other.details == alone.details


def test_a_wish_for_precision_ends_the_run_at_the_same_count_and_pays_for_nothing_more() -> None:
    asked = ds.value(game(9), "permutation", budget=20_000, precision=0.2)
    assert asked.n_evaluations < 20_000
    with cluster(64) as simulated:
        other = ds.value(game(9), "permutation", budget=20_000, precision=0.2, executor="simulated")
    assert other == asked
    assert simulated.n_trained == other.n_computed


def test_a_method_that_asks_otherwise_than_foreseen_is_found_out() -> None:
    def fickle(problem: ds.Problem) -> Any:
        first = yield ds.Ask(np.eye(problem.n_players, dtype=bool))
        yield ds.Ask((first > 1)[None] & np.ones((1, problem.n_players), dtype=bool))
        return ds.Estimate(first)

    method = replace(
        ds.estimators.find("permutation"), name="fickle", run=fickle, least=lambda *_: 6
    )
    ds.value(game(4), method, budget=20)  # a single worker need not foresee
    with cluster(2), pytest.raises(ds.DUShapleyError, match="asked others than were foreseen"):
        ds.value(game(4), method, budget=20, executor="simulated")


def test_the_engine_says_how_far_it_got_when_time_is_up() -> None:
    so_far, seconds = None, 0.5
    while so_far is None and seconds < 100:  # a busy machine may need more for a first estimate
        run = Run(game(30), "permutation", budget=10**9, max_seconds=seconds)
        with pytest.raises(ds.Stopped) as stopped, run:
            run.pay()
        so_far, seconds = stopped.value.valuation, 5 * seconds
    assert so_far is not None
    assert ds.Valuation.from_dict(so_far.to_dict()) == so_far


def trained(n_owners: int, backend: str = "numpy") -> ds.ModelGame:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40 * n_owners + 900, 4))
    y = (X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=len(X)) > 0).astype(int)
    blocks = {
        f"o{j}": (X[40 * j : 40 * (j + 1)], y[40 * j : 40 * (j + 1)]) for j in range(n_owners)
    }
    test = X[40 * n_owners :], y[40 * n_owners :]
    owners = ds.Owners.from_arrays(blocks)
    return ds.ModelGame(owners, ds.games.SoftmaxRegression(steps=5), *test, backend=backend)


def in_bulk(monkeypatch: pytest.MonkeyPatch, pools: int) -> None:
    """Have pools computed without names however few they are, in rounds of so many."""
    for name, number in (("LEAST_BULK", 1), ("BULK_BLOCK", 1), ("BULK_ROUND", pools)):
        monkeypatch.setattr(evaluator, name, number)
        monkeypatch.setattr(value, name, number)


@pytest.mark.parametrize(("method", "budget"), [("exact", 2**6), ("permutation", 900)])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_pools_trained_in_bulk_have_the_same_values_and_nearly_the_same_errors(
    method: str, budget: int, backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    if backend == "torch":
        needs("torch")
    one_by_one = ds.value(trained(6, backend), method, budget=budget)
    with monkeypatch.context() as patch:
        in_bulk(patch, 64)
        paid = tmp_path / "paid.sqlite"
        found = ds.value(trained(6, backend), method, budget=budget, ledger=paid)
        game = trained(6, backend)
        game.block = 7
        cut = ds.value(game, method, budget=budget)
    np.testing.assert_allclose(found.values, one_by_one.values, rtol=1e-12)
    np.testing.assert_allclose(cut.values, one_by_one.values, rtol=1e-12)
    assert found.n_computed == found.n_evaluations
    errors, wanted = (np.array(v.errors["test set"]) for v in (found, one_by_one))
    np.testing.assert_allclose(errors, wanted, rtol=0.35)
    assert found.errors["total"] is not None
    resumed = ds.value(trained(6, backend), method, budget=budget, ledger=paid)
    assert resumed.n_computed == 0
    np.testing.assert_allclose(resumed.values, one_by_one.values, rtol=1e-12)
