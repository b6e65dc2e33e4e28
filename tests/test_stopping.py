"""Runs that end by what matters, and runs that begin with what was paid before."""

from __future__ import annotations

import json
from dataclasses import replace
from time import monotonic

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds
from dushapley.cli.main import main
from dushapley.cli.verify import command_finding
from dushapley.engine.progress import Watch
from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.estimators.gp.study import Study
from dushapley.settlement.settlement import Settlement

WORTH = np.random.default_rng(0).random(8)


def utilities(pools):
    """Summed owner by owner, so that a pool is worth the same in any company."""
    total = sum(pools[:, j] * WORTH[j] for j in range(8))
    return np.sqrt(total) + 0.02 * np.sin(7 * total)


def a_game():
    return ds.CallableGame(utilities, 8, fingerprint="roots")


def known_to(part):
    """A test of one's own: every value to ± this part of the sum of all."""
    return lambda so_far: 1.96 * so_far.std_errors.max() < part * so_far.values.sum()


def test_a_test_is_asked_with_the_errors_of_all_sources_once_they_can_be_relied_on():
    seen = []
    game = a_model_game(GaussianNB())
    v = ds.value(game, "gp", budget=60, stop=lambda so_far: seen.append(so_far) or False)
    assert v.n_evaluations == 60
    errors = {"training": np.zeros(8), "test set": np.full(8, 0.3), "covariance": np.eye(8)}
    watch = Watch(stop=lambda so_far: seen.append(so_far) or True, errors=lambda _: errors)
    few = ds.Estimate(np.arange(8.0), np.full(8, 0.4), replicates=5)
    assert not watch.is_over(10, few)
    assert watch.is_over(20, replace(few, replicates=30))
    assert seen[-1].std_errors.tolist() == [0.5] * 8
    assert seen[-1].covariance.tolist() == (0.25 * np.eye(8)).tolist()
    assert not Watch(stop=lambda _: True).is_over(10, ds.Estimate(np.arange(8.0)))  # none are known
    assert not Watch(stop=lambda _: True).is_over(10, ds.Estimate(np.ones(8), np.zeros(8)))


@pytest.mark.parametrize(
    "more", [{"stop": 0.05}, {"stop": "0.05"}, {"stop": known_to(0.1), "precision": 0.1}]
)
def test_what_is_no_test_is_refused(more):
    with pytest.raises(InvalidOption):
        ds.value(a_game(), **more)


@pytest.mark.parametrize("method", ["gp", "permutation"])
def test_a_run_ends_by_its_test_and_holds_when_computed_again(method):
    game = a_game()
    v = ds.value(game, method, budget=2000, stop=known_to(0.05))
    assert 40 < v.n_evaluations < 1500
    assert v.complete
    assert v.details["stopped_at"] == v.n_evaluations
    verdict = ds.verify(ds.settle(v, pot=100), game)
    assert verdict.holds
    assert f"the run was ended at {v.n_evaluations} evaluations, as recorded" in repr(verdict)
    assert ds.value(game, method, budget=v.n_evaluations - 1).n_evaluations < v.n_evaluations


def test_a_run_that_ends_by_the_clock_holds_by_its_number():
    game, due = a_game(), monotonic()
    v = ds.value(game, "gp", budget=200, stop=lambda _: monotonic() > due)
    assert v.n_evaluations < 60
    assert v.complete
    assert ds.verify(ds.settle(v, pot=100), game).holds


@pytest.mark.parametrize("wish", [{"stop": known_to(0.05)}, {"precision": 0.1}])
def test_workers_change_neither_where_a_run_ends_nor_what_it_pays(wish):
    game = ds.CallableGame(utilities, 8, fingerprint="roots", block=1)
    alone = ds.value(game, "permutation", budget=2000, **wish)
    assert alone.n_evaluations < 1500
    together = ds.value(game, "permutation", budget=2000, n_jobs=2, **wish)
    assert together == alone
    assert together.n_computed == alone.n_computed == alone.n_distinct


def test_where_a_run_is_said_to_have_ended_must_be_where_it_did():
    game = a_game()
    v = ds.value(game, "permutation", budget=2000, stop=known_to(0.05))
    for at in (v.n_evaluations - 10, v.n_evaluations + 10):
        forged = replace(v, details=dict(v.details) | {"stopped_at": at})
        assert not ds.verify(ds.settle(forged, pot=100), game).holds
    with pytest.raises(InvalidSettlement, match="not recorded as it was written"):
        ds.verify(ds.settle(replace(v, details={"stopped_at": "soon"}), pot=100), game)


def test_a_test_that_did_not_end_the_run_is_said():
    game = a_game()
    unmet = ds.value(game, "permutation", budget=60, stop=lambda _: False)
    assert "did not; its budget of 58 evaluations did" in unmet.notes[-1]
    assert ds.verify(ds.settle(unmet, pot=100), game).holds
    utility = ds.DatasetGame(spread_owners(), lambda X, _y: float(len(X)) ** 0.5)
    blind = ds.value(utility, "gp", budget=30, stop=lambda _: True)
    assert "cannot be judged: the error is unknown: training" in blind.notes[-1]
    assert blind.n_evaluations < 30


def spread_owners():
    rng = np.random.default_rng(1)
    return ds.Owners.from_arrays({f"o{j}": rng.normal(size=(6 + j, 2)) for j in range(8)})


def test_gp_begins_with_what_others_paid_for(tmp_path):
    game, ledger = a_game(), tmp_path / "paid.sqlite"
    exact = ds.value(game, "exact").values
    ds.value(game, "permutation", budget=120, seed=5, ledger=ledger)
    v = ds.value(game, "gp", budget=30, ledger=ledger, learn_from_ledger=True)
    learned = v.details["learned"]
    assert learned["pools"] == v.n_evaluations - 30 > 50
    assert f"gp began with {learned['pools']} pools" in v.notes[-1]
    blind = ds.value(game, "gp", budget=30)
    assert np.square(v.values - exact).sum() < 0.3 * np.square(blind.values - exact).sum()
    assert ds.verify(ds.settle(v, pot=10), game).holds
    # more was paid since, which another run learns from and this one, taken up again, does not
    ds.value(game, "antithetic", budget=60, seed=9, ledger=ledger)
    again = ds.value(game, "gp", budget=30, ledger=ledger, learn_from_ledger=True)
    assert again.values.tolist() == v.values.tolist()
    assert again.details["learned"] == learned
    other = ds.value(game, "gp", budget=30, seed=1, ledger=ledger, learn_from_ledger=True)
    assert other.details["learned"]["pools"] > learned["pools"]


def test_a_stopped_run_goes_on_with_the_pools_it_began_with(tmp_path):
    ledger, left = tmp_path / "paid.sqlite", [10**9]

    def tired(pools):
        left[0] -= len(pools)
        if left[0] < 0:
            raise KeyboardInterrupt
        return utilities(pools)

    game = ds.CallableGame(tired, 8, fingerprint="roots", block=4)
    ds.value(game, "permutation", budget=60, ledger=ledger)
    asked = {"method": "gp", "budget": 40, "ledger": ledger, "learn_from_ledger": True}
    left[0] = 24
    with pytest.raises(ds.Stopped):
        ds.value(game, **asked)
    left[0] = 10**9
    resumed = ds.value(game, **asked)
    whole = tmp_path / "whole.sqlite"
    ds.value(game, "permutation", budget=60, ledger=whole)
    straight = ds.value(game, **asked | {"ledger": whole})
    assert resumed.values.tolist() == straight.values.tolist()
    assert resumed.details["learned"] == straight.details["learned"]


@pytest.mark.parametrize("model", [GaussianNB(), DecisionTreeClassifier(max_depth=2)])
def test_an_interrupt_while_gp_thinks_keeps_the_estimate_before(model, monkeypatch):
    """New answers were heard then, which that estimate has no weights for."""
    learn, left = Study.learn, [2]

    def tired(self, pools, answers):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        learn(self, pools, answers)

    monkeypatch.setattr(Study, "learn", tired)
    with pytest.raises(ds.Stopped) as stopped:
        ds.value(a_model_game(model), "gp", budget=60)
    so_far = stopped.value.valuation
    assert np.isfinite(so_far.values).all()
    assert np.isfinite(so_far.errors["test set"]).all()


def a_model_game(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 3))
    y = (X[:, 0] + rng.normal(size=260) > 0).astype(int)
    rows = {f"o{j}": (X[20 * j : 20 * j + 20], y[20 * j : 20 * j + 20]) for j in range(8)}
    return ds.ModelGame(ds.Owners.from_arrays(rows), model, X[160:], y[160:])


def test_learning_needs_a_ledger_and_gp(tmp_path):
    with pytest.raises(InvalidOption, match="without a ledger"):
        ds.value(a_game(), "gp", learn_from_ledger=True)
    with pytest.raises(InvalidOption, match="with permutation"):
        ds.value(a_game(), "permutation", ledger=tmp_path / "l", learn_from_ledger=True)
    empty = ds.value(a_game(), "gp", ledger=tmp_path / "new.sqlite", learn_from_ledger=True)
    assert empty.details["learned"]["pools"] == 0
    assert empty.values.tolist() == ds.value(a_game(), "gp").values.tolist()


def test_rows_are_found_again_whatever_the_order_of_owners(tmp_path):
    rng = np.random.default_rng(1)
    rows = {f"o{j}": (rng.normal(size=(6 + j, 2)), None) for j in range(5)}
    owners = ds.Owners.from_arrays({name: X for name, (X, _) in rows.items()})
    turned = ds.Owners.from_arrays({name: X for name, (X, _) in reversed(rows.items())})
    ledger = tmp_path / "paid.sqlite"

    def spread(X, _y):
        return float(np.ptp(X)) if len(X) else 0.0

    first, second = (ds.DatasetGame(o, spread, fingerprint="spread") for o in (owners, turned))
    ds.value(first, "permutation", budget=14, ledger=ledger)
    found = ds.value(second, "gp", budget=12, ledger=ledger, learn_from_ledger=True)
    assert found.details["learned"]["pools"] == 0  # known under the other order only
    again = ds.value(first, "gp", budget=12, ledger=ledger, learn_from_ledger=True)
    assert again.details["learned"]["pools"] > 0


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in [("a", 9), ("b", 14), ("c", 20), ("d", 12), ("e", 16), ("test", 60)]:
        x = rng.normal(size=(rows, 2))
        label = (x[:, 0] + 0.5 * rng.normal(size=rows) > 0).astype(int)
        lines = [f"{u:.4f},{v:.4f},{t}" for (u, v), t in zip(x, label, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["u,v,label", *lines]) + "\n")
    return tmp_path


def typed(capsys, files, *more):
    words = ["value", *(str(files / f"{name}.csv") for name in "abcde"), "--by-file"]
    words += ["--target", "label", "--test", str(files / "test.csv"), "--model", "knn", "--yes"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--ledger", str(files / "paid.sqlite"), *more])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_precision_in_money_is_typed_and_its_settlement_holds(capsys, files):
    settlement, page = files / "s.json", files / "page.html"
    code, out, err = typed(
        capsys, files, "--method", "gp", "--budget", "22", "--pot", "100", "--currency", "EUR",
        "--precision", "95 EUR", "--settlement", str(settlement), "--report", str(page), "--no-why",
        "--pairs",
    )  # fmt: skip
    assert code == 0, err
    settled = Settlement.from_dict(json.loads(settlement.read_text()))
    v = settled.valuation
    assert v.details["stopped_at"] == v.n_evaluations < 22  # so loose a wish is met before
    assert max(settled.high[i] - settled.low[i] for i in range(5)) <= 190
    assert f"by gp: {v.n_evaluations} evaluations" in out.split("Shapley interactions")[1]
    assert "Who is redundant with whom" in page.read_text()
    data = [str(files / f"{name}.csv") for name in ("a", "b", "c", "d", "e", "test")]
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(settlement), *data])
    told = capsys.readouterr().out
    assert ended.value.code == 0, told
    assert "not looked at: stop" in told
    stored = json.loads(settlement.read_text())
    stored["record"]["command"] = stored["record"]["command"].replace("'95 EUR'", "0.95")
    assert not command_finding(Settlement.from_dict(stored)).holds


def test_a_typed_run_learns_from_the_ledger(capsys, files):
    code, _, err = typed(capsys, files, "--method", "permutation", "--budget", "12")
    assert code == 0, err
    code, out, err = typed(
        capsys, files, "--method", "gp", "--budget", "13", "--learn-from-ledger", "--pairs"
    )
    assert code == 0, err
    assert "gp began with" in out
    assert "Shapley interactions of 5 owners by gp" in out
    code, _, err = typed(capsys, files, "--method", "permutation", "--learn-from-ledger")
    assert code == 2
    assert "--learn-from-ledger was given with permutation" in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--precision", "500"), "with --pot an amount of its currency"),
        (("--precision", "5 %"), "with --pot an amount of its currency"),
        (("--precision", "500 EUR", "--pot", "900"), "'500 EUR'"),
        (("--precision", "500 USD", "--pot", "900", "--currency", "EUR"), "'500 EUR'"),
        (("--precision", "inf", "--pot", "900"), "'500 EUR'"),
        (("--precision", "", "--pot", "900"), "'500 EUR'"),
    ],
)
def test_a_precision_that_is_none_is_refused_before_files_are_read(capsys, files, more, message):
    code, out, err = typed(capsys, files, *more)
    assert (code, out) == (2, "")
    assert message in err
