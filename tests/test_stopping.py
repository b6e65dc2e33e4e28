"""Runs that end by what matters, and runs that begin with what was paid before."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds
from dushapley.cli.main import main
from dushapley.errors import InvalidOption
from dushapley.estimators.gp.study import Study
from dushapley.results.stopping import Standing
from dushapley.settlement.settlement import Settlement

WORTH = np.random.default_rng(0).random(8)


def utilities(pools):
    """Summed owner by owner, so that a pool is worth the same in any company."""
    total = sum(pools[:, j] * WORTH[j] for j in range(8))
    return np.sqrt(total) + 0.02 * np.sin(7 * total)


def a_game():
    return ds.CallableGame(utilities, 8, fingerprint="roots")


def standing(**other):
    known = {
        "values": np.array([1.0, 2.0, 4.0]),
        "sampling": np.array([0.1, 0.1, 0.1]),
        "total": np.array([0.1, 0.1, 0.1]),
        "covariance": None,
        "rest": 0.0,
        "unknown": False,
        "replicates": None,
        "evaluations": 10,
        "seconds": 5.0,
        "fresh": True,
    }
    return Standing(**known | other)


def test_rules_are_about_values_payments_ranks_and_time():
    now = standing()
    assert ds.stop.Values(0.07).is_met(now)
    assert not ds.stop.Values(0.06).is_met(now)
    assert ds.stop.Ranking(0.99).is_met(now)
    assert not ds.stop.Ranking(0.99).is_met(standing(total=np.full(3, 1.0)))
    assert ds.stop.Ranking(0.8, top=1).is_met(standing(total=np.full(3, 1.0)))
    assert ds.stop.Payments(0.1).is_met(now)
    assert not ds.stop.Payments(0.01).is_met(now)
    assert ds.stop.Seconds(5).is_met(now)
    assert not ds.stop.Seconds(6).is_met(now)
    for rule in (ds.stop.Values(1), ds.stop.Ranking(0.5), ds.stop.Payments(1)):
        assert not rule.is_met(standing(total=None))
        assert not rule.is_met(standing(replicates=5))
        assert not rule.is_met(standing(fresh=False))


def test_rules_are_put_together():
    rule = ds.stop.Values(0.07) & ds.stop.Seconds(6) | ds.stop.Ranking(0.99)
    assert repr(rule) == "((Values(0.07) & Seconds(6)) | Ranking(0.99))"
    assert rule.is_met(standing())
    assert not (ds.stop.Values(0.07) & ds.stop.Seconds(6)).is_met(standing())
    far = standing(rest=1.0, total=np.full(3, 1.0))
    assert (ds.stop.Values(0.1) & ds.stop.Seconds(6)).is_hopeless(far)
    assert not (ds.stop.Values(0.1) | ds.stop.Seconds(6)).is_hopeless(far)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ds.stop.Values(0),
        lambda: ds.stop.Payments("5%"),
        lambda: ds.stop.Ranking(1.0),
        lambda: ds.stop.Ranking(0.9, top=0),
        lambda: ds.stop.Seconds(-1),
        lambda: ds.stop.Values(0.1) & 60,
        lambda: ds.value(a_game(), stop=0.05),
        lambda: ds.value(a_game(), stop=ds.stop.Values(0.1), precision=0.1),
    ],
)
def test_what_is_no_rule_is_refused(make):
    with pytest.raises(InvalidOption):
        make()


def test_a_run_ends_by_its_rule_and_holds_when_computed_again():
    game = a_game()
    rule = ds.stop.Payments(0.2) & ds.stop.Ranking(0.5, top=2) | ds.stop.Seconds(600)
    v = ds.value(game, "gp", budget=200, stop=rule)
    assert v.n_evaluations < 150
    assert v.details["stop"] == {"rule": repr(rule), "met": True}
    assert ds.verify(ds.settle(v, pot=100), game).holds
    by_clock = ds.value(game, "gp", budget=200, stop=ds.stop.Seconds(1e-9))
    assert by_clock.n_evaluations < 60
    assert by_clock.complete
    assert ds.verify(ds.settle(by_clock, pot=100), game).holds
    unmet = ds.value(game, "permutation", budget=60, stop=ds.stop.Ranking(0.9999))
    assert unmet.details["stop"]["met"] is False
    assert "was not met within" in unmet.notes[-1]


def test_precision_is_the_rule_of_values():
    one = ds.value(a_game(), "gp", budget=200, precision=0.05)
    other = ds.value(a_game(), "gp", budget=200, stop=ds.stop.Values(0.05))
    assert one.n_evaluations == other.n_evaluations < 200
    assert one.values.tolist() == other.values.tolist()


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


def test_rules_are_typed_and_a_settlement_by_one_holds(capsys, files):
    settlement, page = files / "s.json", files / "page.html"
    code, out, err = typed(
        capsys, files, "--method", "gp", "--budget", "22", "--pot", "100",
        "--stop", "ranking 0.01 top 1 or seconds 600", "--settlement", str(settlement),
        "--report", str(page), "--no-why", "--pairs",
    )  # fmt: skip
    assert code == 0, err
    v = Settlement.from_dict(json.loads(settlement.read_text())).valuation
    assert v.details["stop"] == {"rule": "(Ranking(0.01, top=1) | Seconds(600))", "met": True}
    assert v.n_evaluations < 22  # so loose a rule is met before
    assert f"by gp: {v.n_evaluations} evaluations" in out.split("Shapley interactions")[1]
    assert "Who is redundant with whom" in page.read_text()
    data = [str(files / f"{name}.csv") for name in ("a", "b", "c", "d", "e", "test")]
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(settlement), *data])
    assert ended.value.code == 0, capsys.readouterr().out


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
        (("--stop", "paymnts 0.1"), "Did you mean 'payments'"),
        (("--stop", "seconds 5 top 3"), "where a rule was needed"),
        (("--stop", "ranking 1.5"), "between 0 and 1"),
        (("--stop", "payments 10"), "above 0 and at most 1"),
        (("--stop", ""), "where a rule was needed"),
        (("--stop", "values 0.1", "--precision", "0.1"), "'values 0.1 and ...'"),
    ],
)
def test_rules_that_are_none_are_refused_before_files_are_read(capsys, files, more, message):
    code, out, err = typed(capsys, files, *more)
    assert (code, out) == (2, "")
    assert message in err
