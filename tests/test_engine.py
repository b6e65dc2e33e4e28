"""The engine: honest budgets, same bits anywhere, nothing paid twice, clean stops."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import dushapley as ds
from dushapley.engine.value import Run
from dushapley.errors import (
    BudgetTooSmall,
    FractionsRefused,
    LedgerUnreadable,
    MethodNotApplicable,
    ProtocolViolated,
)
from faults import wait_until

METHODS = ["exact", "permutation", "loo", "random", "auto"]


class Counting:
    """A callable game that counts what it is asked, as shapiq's games are called."""

    def __init__(self, n_players: int) -> None:
        self.n_players = n_players
        self.weights = np.random.default_rng(7).normal(size=n_players)
        self.asked: list[bytes] = []

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        assert coalitions.dtype == np.bool_
        self.asked += [row.tobytes() for row in coalitions]
        return np.tanh((coalitions * self.weights).sum(axis=1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_budget_is_never_exceeded(method: str, n: int) -> None:
    for budget in (2, n + 2, 6 * n, 2**n, 300):
        game = Counting(n)
        try:
            found = ds.value(game, method, budget=budget)
        except BudgetTooSmall:
            assert game.asked == []  # refused before anything was paid
            continue
        assert len(game.asked) <= found.n_evaluations <= budget
        assert len(set(game.asked)) == len(game.asked) == found.n_distinct == found.n_computed


def test_a_game_written_for_shapiq_runs_unchanged() -> None:
    game = Counting(6)
    exact = ds.value(game, "exact")
    assert exact.n_evaluations == 64
    sampled = ds.value(game, "permutation", budget=5000)
    assert np.abs(sampled.values - exact.values).max() < 5 * sampled.std_errors.max()
    with pytest.raises(MethodNotApplicable, match="whole owners: exact, gp, centres, permutation"):
        ds.value(game, "du")
    with pytest.raises(FractionsRefused, match="Use a method that asks for coalitions"):
        ds.CallableGame(game, 6)(np.full((1, 6), 0.5))


def test_a_bare_function_needs_to_say_how_many_owners() -> None:
    found = ds.value(lambda z: z.sum(axis=1), "exact", n_players=3)
    np.testing.assert_allclose(found.values, 1)
    with pytest.raises(ds.DUShapleyError, match="attribute n_players"):
        ds.value(lambda z: z.sum(axis=1), "exact")


def test_permutation_is_unbiased_with_honest_errors() -> None:
    game = ds.SizeGame([1, 5, 20, 60, 200], lambda n: n / (n + 50))
    exact = ds.value(game, "exact", options={"by": "enumeration"}).values
    runs = [ds.value(game, "permutation", budget=502, seed=s) for s in range(200)]
    values = np.array([r.values for r in runs])
    z = (values.mean(axis=0) - exact) / (values.std(axis=0, ddof=1) / np.sqrt(200))
    assert np.abs(z).max() < 3.3
    errors = np.array([r.std_errors for r in runs])
    covered = (np.abs(values - exact) < 1.96 * errors).mean()
    assert 0.92 < covered < 0.97
    assert max(abs(r.efficiency_gap) for r in runs) < 1e-12


def test_covariance_is_that_of_the_errors() -> None:
    game = ds.SizeGame([1, 5, 20, 60], lambda n: n / (n + 50))
    runs = [ds.value(game, "permutation", budget=302, seed=s) for s in range(400)]
    seen = np.cov(np.array([run.values for run in runs]).T)
    told = np.mean([run.covariance for run in runs], axis=0)
    np.testing.assert_allclose(told, seen, rtol=0.25, atol=0.1 * np.abs(seen).max())
    np.testing.assert_allclose(told.sum(axis=0), 0, atol=1e-12)  # efficiency


@pytest.mark.parametrize(("method", "budget"), [("permutation", 26), ("permutation", 50)])
def test_few_walks_widen_their_intervals_and_say_so(method: str, budget: int) -> None:
    """±1.96 is a 95% interval from six walks on, where contributions are not too skewed."""
    game = ds.SizeGame([30, 45, 60, 80, 100], lambda n: n / (n + 500))
    exact = ds.value(game, "exact", options={"by": "enumeration"}).values
    runs = [ds.value(game, method, budget=budget, seed=s) for s in range(400)]
    covered = np.mean([np.abs(r.values - exact) < 1.96 * r.std_errors for r in runs])
    assert 0.91 < covered < 0.98
    assert any("rest on" in note for note in runs[0].notes)


def test_agreement_by_chance_is_no_certainty() -> None:
    """A contribution seen in no walk has a standard error of 0; it stops nothing and is noted."""

    def rare(z: np.ndarray) -> np.ndarray:
        return z.sum(axis=1) + 1000.0 * ((z.sum(axis=1) == 1) & z[:, 0])

    found = ds.value(rare, "permutation", n_players=60, budget=600, seed=1)
    assert found.std_errors.max() == 0
    assert any("not that nothing else can happen" in note for note in found.notes)
    stopped = ds.value(rare, "permutation", n_players=60, budget=5000, precision=0.05, seed=1)
    assert stopped.n_evaluations > 4900


def test_a_precision_that_was_not_reached_is_said() -> None:
    game = ds.SizeGame([1, 5, 20, 60], lambda n: n / (n + 50))
    found = ds.value(game, "permutation", budget=100, precision=0.001)
    assert any("precision of 0.001 was not reached" in note for note in found.notes)


def test_negative_zero_is_zero_before_and_after_the_ledger(tmp_path: Path) -> None:
    game = ds.CallableGame(lambda z: -0.0 * z.sum(axis=1), 3, fingerprint="minus nothing")
    fresh = ds.value(game, "exact")
    ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    found = ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    assert found.n_computed == 0
    assert np.signbit(found.u_empty) == np.signbit(fresh.u_empty)
    assert found.values.tobytes() == fresh.values.tobytes()


def test_a_game_cannot_change_the_question() -> None:
    def vandal(z: np.ndarray) -> np.ndarray:
        z[:] = False
        return np.zeros(len(z))

    with pytest.raises(ds.DUShapleyError, match="not to be written to"):
        ds.value(ds.CallableGame(vandal, 3, cheap=True), "exact")


def test_owners_are_copied_at_the_door() -> None:
    rows = np.ones((3, 1))
    owners = ds.Owners.from_arrays({"a": rows, "b": 2 * rows})
    rows[:] = 100
    assert owners.X[0].max() == 1
    with pytest.raises(ValueError, match="read-only"):
        owners.X[0][0] = 5


def test_owners_that_print_alike_are_told_apart() -> None:
    long = np.zeros(3000)
    other = long.copy()
    other[1500] = 1
    cells = [np.empty((1, 1), dtype=object) for _ in range(2)]
    cells[0][0, 0], cells[1][0, 0] = long, other
    assert repr(long) == repr(other)
    first, second = ds.Owners.from_arrays({"a": cells[0], "b": cells[1]}).hashes
    assert first != second


@pytest.mark.parametrize("n", [1000])
def test_a_thousand_owners_fit_in_memory(n: int) -> None:
    game = ds.SizeGame(np.arange(1, n + 1), lambda m: m / (m + 1e5))
    largest = 0

    class Watched(ds.SizeGame):
        def evaluate(self, queries, draws):
            nonlocal largest
            largest = max(largest, queries.size)
            return super().evaluate(queries, draws)

    watched = Watched(game.sizes, game.w)
    ds.value(watched, "permutation", budget=5 * n)
    assert largest <= 2**21


def test_precision_stops_early_and_says_what_it_spent() -> None:
    game = ds.SizeGame(np.arange(1, 9) * 10, lambda n: n / (n + 50))
    found = ds.value(game, "permutation", budget=4_000_000, precision=0.02)
    assert found.n_evaluations == found.n_computed < 1_000_000
    assert found.complete
    assert 1.96 * found.std_errors.max() <= 0.02 * np.ptp(found.values)


SAME_BITS = """
import numpy as np, dushapley as ds
rng = np.random.default_rng(0)
owners = ds.Owners.from_arrays({f"o{i}": rng.normal(size=(n, 2)) for i, n in enumerate([3, 8, 5])})
game = ds.DatasetGame(owners, lambda X, y: float(np.linalg.norm(X.sum(axis=0))))
for method, budget in [("du", 60), ("permutation", 60), ("loo", None), ("random", None)]:
    print(method, ds.value(game, method, budget=budget, seed=5).values.tobytes().hex())
"""


def test_same_bits_in_another_process() -> None:
    outputs = []
    for hashseed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hashseed}
        run = subprocess.run(
            [sys.executable, "-c", SAME_BITS], env=environment, capture_output=True, check=True
        )
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == 4


def test_same_bits_for_any_number_of_workers() -> None:
    game = ds.DatasetGame(
        ds.Owners.from_arrays({c: np.arange(i + 2.0)[:, None] for i, c in enumerate("abcd")}),
        lambda X, y: float(np.sqrt(X.sum())),
    )
    one = ds.value(game, "permutation", budget=60)
    two = ds.value(game, "permutation", budget=60, n_jobs=2)
    np.testing.assert_array_equal(one.values, two.values)
    assert one.n_computed == two.n_computed


PAID = """
import sys, time
from pathlib import Path
import numpy as np
import dushapley as ds

folder, most = Path(sys.argv[1]), int(sys.argv[2])
paid = open(folder / "paid.log", "ab", buffering=0)

def utility(X, y):
    if len((folder / "paid.log").read_text().splitlines()) >= most:
        time.sleep(600)
    paid.write(f"{sorted(X[:, 0].tolist())}\\n".encode())
    return float(np.sqrt(X.sum()))

owners = ds.Owners.from_arrays({c: 10.0 ** i * np.ones((i + 2, 1)) for i, c in enumerate("abcdef")})
game = ds.DatasetGame(owners, utility, fingerprint="root of sum")
found = ds.value(game, "permutation", budget=120, seed=2, ledger=folder / "ledger.sqlite")
print(found.values.tobytes().hex(), found.n_evaluations, found.n_computed)
"""


def run_paid(folder: Path, most: int = 10**6) -> subprocess.Popen[bytes]:
    """A run that waits once so many payments have been made."""
    return subprocess.Popen(
        [sys.executable, "-c", PAID, str(folder), str(most)], stdout=subprocess.PIPE
    )


def paid(folder: Path) -> list[str]:
    log = folder / "paid.log"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.slow
def test_killed_and_rerun_gives_the_same_bits_and_pays_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "quiet").mkdir()
    quiet = run_paid(tmp_path / "quiet").communicate()[0].split()
    folder = tmp_path / "killed"
    folder.mkdir()
    for lines in (5, 17, 30):
        run = run_paid(folder, lines)
        wait_until(lambda: len(paid(folder)) >= lines)  # noqa: B023
        run.send_signal(signal.SIGKILL)
        run.communicate()
    before = paid(folder)
    assert 30 == len(before) < int(quiet[2])
    again = run_paid(folder).communicate()[0].split()
    assert again[:2] == quiet[:2]  # values and evaluations asked
    twice = len(paid(folder)) - len(set(paid(folder)))
    assert twice <= 3  # at most the one in flight at each kill
    assert int(again[2]) <= int(quiet[2]) - len(before) + 3


def test_half_filled_ledger_gives_the_same_bits(tmp_path: Path) -> None:
    def play(ledger: Path | None, calls: list[int]) -> ds.Valuation:
        weights = np.random.default_rng(3).normal(size=6)

        def utility(z: np.ndarray) -> np.ndarray:
            calls.append(len(z))
            return np.cos((z * weights).sum(axis=1))

        game = ds.CallableGame(utility, 6, fingerprint="cosine")
        return ds.value(game, "permutation", budget=100, ledger=ledger)

    fresh, paid_calls = play(None, []), []
    whole = tmp_path / "whole.sqlite"
    first = play(whole, paid_calls)
    with closing(sqlite3.connect(whole, isolation_level=None)) as db:
        some = "select key from evaluations order by key limit 20"
        db.execute(f"delete from evaluations where key in ({some})")
    half_calls: list[int] = []
    resumed = play(whole, half_calls)
    for run in (first, resumed):
        assert run.values.tobytes() == fresh.values.tobytes()
        assert (run.n_evaluations, run.n_distinct) == (fresh.n_evaluations, fresh.n_distinct)
    assert 0 < sum(half_calls) < sum(paid_calls)
    assert resumed.n_computed == sum(half_calls)
    everything_known = play(whole, again := [])
    assert everything_known.n_computed == sum(again) == 0


def test_each_pool_is_asked_of_the_ledger_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    opened: list[object] = []
    read, connect = ds.Ledger.read, sqlite3.connect
    monkeypatch.setattr(ds.Ledger, "read", lambda s, keys: (asked.extend(keys), read(s, keys))[1])
    monkeypatch.setattr(sqlite3, "connect", lambda p, **o: (opened.append(p), connect(p, **o))[1])
    game = ds.CallableGame(lambda z: z.any(axis=1), 6, fingerprint="any", block=3)
    for computed in (64, 0):
        asked.clear()
        opened.clear()
        found = ds.value(game, "permutation", budget=400, ledger=tmp_path / "l.sqlite")
        assert found.n_evaluations > found.n_distinct  # some pools are asked again
        assert len(asked) == len(set(asked)) == found.n_distinct
        assert found.n_computed <= computed
        assert len(opened) == 1


def test_a_run_is_planned_and_opened_before_anything_is_paid(tmp_path: Path) -> None:
    asked: list[int] = []

    def any_owner(z: np.ndarray) -> np.ndarray:
        asked.append(len(z))
        return z.any(axis=1)

    ledger = tmp_path / "l.sqlite"
    run = Run(ds.CallableGame(any_owner, 3, fingerprint="any"), "exact", ledger=ledger)
    assert (run.plan.budget, run.plan.label, run.plan.formula) == (8, "exact", None)
    assert not ledger.exists()
    with pytest.raises(ProtocolViolated, match="pay inside `with Run"):
        run.pay()
    with run:
        assert ledger.exists()
        assert asked == []
        assert run.pay().n_computed == sum(asked) == 8
    ledger.write_text("not a ledger")
    with pytest.raises(LedgerUnreadable), run:
        pass


def test_ctrl_c_ends_with_the_estimate_so_far_and_a_full_ledger(tmp_path: Path) -> None:
    asked = 0

    def utility(z: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += len(z)
        if asked > 150:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)  # the signal arrives here
        return z.sum(axis=1) ** 0.5

    game = ds.CallableGame(utility, 8, fingerprint="roots", block=16)
    with pytest.raises(ds.Stopped, match=r"run the same again to go on") as stop:
        ds.value(game, "permutation", budget=2000, ledger=tmp_path / "l.sqlite")
    partial = stop.value.valuation
    assert partial is not None
    assert not partial.complete
    assert "stopped early" in repr(partial)
    assert partial.std_errors.max() > 0
    assert partial.n_computed == partial.n_distinct <= partial.n_evaluations
    with ds.Ledger(tmp_path / "l.sqlite", game.context) as ledger:
        assert len(ledger) == partial.n_computed > 100
    asked = -(10**9)
    whole = ds.value(game, "permutation", budget=2000, ledger=tmp_path / "l.sqlite")
    assert whole.complete
    assert whole.n_computed < whole.n_distinct


def test_ctrl_c_without_ledger_says_that_nothing_is_kept() -> None:
    def interrupted(z: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(ds.Stopped, match="no estimate yet") as stop:
        ds.value(ds.CallableGame(interrupted, 4), "permutation")
    assert stop.value.valuation is None


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    ds.value(Counting(4), "exact", progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "16/16" in captured.err
    assert "left" in captured.err


def test_auto_explains_its_choice() -> None:
    small = ds.value(Counting(4))
    assert (small.method, small.method_asked, small.method_run) == ("auto → exact", "auto", "exact")
    assert any("2^4 = 16 coalitions fit the budget of 24" in note for note in small.notes)
    formula = ds.value(ds.games.glove(2, 3))
    assert formula.method == "auto → exact"
    assert formula.n_evaluations == 0
    large = ds.value(Counting(9))
    assert large.n_evaluations <= 54
    assert large.method.startswith("auto → ")
    assert large.method_run != "exact"


def test_ask_and_tell_by_hand_equals_the_engine() -> None:
    game = Counting(5)
    talk = ds.AskTell("permutation", 5, budget=60, seed=9)
    while (ask := talk.ask()) is not None:
        talk.tell(game(ask.queries))
    found = ds.value(game, "permutation", budget=60, seed=9)
    np.testing.assert_array_equal(talk.estimate.values, found.values)
    with pytest.raises(ds.DUShapleyError, match="conversation is over"):
        talk.tell([1.0])


def test_an_estimator_that_overspends_is_caught() -> None:
    from dataclasses import replace

    from dushapley.engine.plan import Plan
    from dushapley.estimators import find

    def greedy(problem):
        yield ds.Ask(np.ones((problem.budget + 1, problem.n_players), dtype=bool))

    plan = Plan(replace(find("permutation"), name="greedy", run=greedy), {}, 10, "greedy")
    talk = ds.AskTell(plan, 3)
    with pytest.raises(
        ds.DUShapleyError, match="greedy asked 11 pools, more than its budget of 10"
    ):
        talk.tell([0.0, 1.0])


def test_draws_are_shared_and_owners_may_be_renamed_or_reordered() -> None:
    blocks = {"a": np.arange(9.0)[:, None], "b": np.arange(20.0, 26)[:, None]}
    seen: list[np.ndarray] = []

    def utility(X: np.ndarray, y: object) -> float:
        seen.append(X[:, 0])
        return float(X.sum())

    game = ds.DatasetGame(ds.Owners.from_arrays(blocks), utility)
    game([[0.5, 0], [0.5, 1], [0.5, 0.5], [0.5, 0]], draws=[1, 1, 1, 2])
    assert len(seen[0]) == 4
    assert set(seen[0]) <= set(seen[1])
    assert set(seen[0]) <= set(seen[2])
    assert set(seen[0]) != set(seen[3])
    other = ds.DatasetGame(
        ds.Owners.from_arrays({"B": blocks["b"], "A": blocks["a"]}), utility, fingerprint="x"
    )
    other([[0.5, 0.5]], draws=[1])
    np.testing.assert_array_equal(seen[2], seen[4])
    same = ds.DatasetGame(ds.Owners.from_arrays(blocks), utility, fingerprint="x")
    mixed = np.array([[0.5, 1.0], [1.0, 0.0]])
    assert same.keys(mixed, np.array([4, 4])) == other.keys(mixed[:, ::-1], np.array([4, 4]))


def test_owners_of_equal_content_are_drawn_apart() -> None:
    rows = np.arange(30.0)[:, None]
    game = ds.DatasetGame(
        ds.Owners.from_arrays({"a": rows, "copy": rows.copy()}), lambda X, y: float(X.sum())
    )
    values = game([[0.5, 0], [0, 0.5]], draws=[1, 1])
    assert values[0] != values[1]
