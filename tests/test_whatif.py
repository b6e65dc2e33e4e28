"""What-if answers equal a full recomputation, and pay only for what is new."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import dushapley as ds
from dushapley.errors import DUShapleyError, InvalidChange, InvalidGame, SharedRows
from dushapley.games import DerivedGame

RNG = np.random.default_rng(3)
X = RNG.normal(size=(400, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=400)
SIZES = {"a": 12, "b": 20, "c": 31, "d": 9, "e": 25}


def blocks(names: str = "abcde") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    ends = np.cumsum([0, *SIZES.values()])
    parts = {name: (X[i:j], Y[i:j]) for name, i, j in zip(SIZES, ends[:-1], ends[1:], strict=True)}
    return {name: parts[name] for name in names}


def game(data: dict[str, tuple[np.ndarray, np.ndarray]]) -> ds.ModelGame:
    owners = ds.Owners.from_arrays(data)
    return ds.ModelGame(owners, Ridge(), X[200:], Y[200:], scoring="r2", fast=False)


def pools(played: ds.Game, method: str, **given: int) -> set[bytes]:
    """Keys of all pools that a method asks of a game."""
    asked: set[bytes] = set()
    talk = ds.AskTell(
        method, played.n_players, sizes=played.sizes, fractions=played.fractions, **given
    )
    while (ask := talk.ask()) is not None:
        asked |= set(played.keys(*played.check(ask.queries, ask.draws)))
        talk.tell(played(ask.queries, ask.draws))
    return asked


@pytest.mark.parametrize("method", ["exact", "permutation", "du"])
def test_leaving_equals_recomputation_and_finds_every_shared_pool(
    method: str, tmp_path: Path
) -> None:
    base = game(blocks())
    answer = ds.what_if(base, ds.Leave("c"), method=method, ledger=tmp_path / "l")
    anew = game(blocks("abde"))
    full = ds.value(anew, method)
    assert answer.after.values.tolist() == full.values.tolist()
    assert answer.after.owners == full.owners
    new = pools(anew, method) - pools(base, method)
    assert answer.after.n_computed == len(new)
    assert answer.n_found == len(pools(anew, method)) - len(new)
    if method == "exact":
        assert answer.after.n_computed == 0


@pytest.mark.parametrize("method", ["exact", "permutation", "du"])
def test_joining_equals_recomputation_and_finds_every_shared_pool(
    method: str, tmp_path: Path
) -> None:
    base, anew = game(blocks("abde")), game(blocks("abde") | blocks("c"))
    answer = ds.what_if(
        base, ds.Join("c", *blocks()["c"]), method=method, ledger=tmp_path / "l", n_jobs=1
    )
    full = ds.value(anew, method)
    assert answer.after.values.tolist() == full.values.tolist()
    new = pools(anew, method) - pools(base, method)
    assert answer.after.n_computed == len(new)
    if method == "exact":
        assert answer.after.n_computed == 16  # the pools that hold the newcomer


def test_merging_is_free_and_equals_recomputation(tmp_path: Path) -> None:
    answer = ds.what_if(game(blocks()), ds.Merge("b", "d"), method="exact", ledger=tmp_path / "l")
    assert answer.after.n_computed == 0
    data = blocks()
    both = tuple(np.concatenate([data["b"][k], data["d"][k]]) for k in (0, 1))
    anew = {"a": data["a"], "b + d": both, "c": data["c"], "e": data["e"]}
    full = ds.value(game(anew), "exact")
    assert answer.after.owners == full.owners
    assert answer.after.values == pytest.approx(full.values, abs=1e-9)
    row = answer.to_frame().set_index("owner").loc["b + d"]
    before = dict(zip(answer.before.owners, answer.before.values, strict=True))
    assert row["before"] == pytest.approx(before["b"] + before["d"])


def test_copying_equals_recomputation_and_pays_half(tmp_path: Path) -> None:
    answer = ds.what_if(game(blocks()), ds.Copy("d", "c"), method="exact", ledger=tmp_path / "l")
    data = blocks()
    data["d"] = tuple(np.concatenate([data["d"][k], data["c"][k]]) for k in (0, 1))
    full = ds.value(game(data), "exact")
    assert answer.after.values == pytest.approx(full.values, abs=1e-9)
    assert answer.after.n_computed == 8  # pools with copier and copied; the other 24 are known
    frame = answer.to_frame().set_index("owner")
    assert frame.loc["d", "after"] > frame.loc["d", "before"]
    assert frame.loc["c", "after"] < frame.loc["c", "before"]
    assert "Copying pays" in repr(answer)


def test_fewer_rows_are_measured_and_more_rows_at_a_smaller_scale() -> None:
    curve = ds.SizeGame([30, 60, 90], w=lambda n: n / (n + 40))
    fewer = ds.what_if(curve, ds.MoreRows("owner 2", -30), method="exact")
    assert fewer.after.values == pytest.approx(
        ds.value(ds.SizeGame([30, 30, 90], w=lambda n: n / (n + 40)), "exact").values
    )
    more = ds.what_if(curve, ds.MoreRows("owner 2", 60), method="exact")
    assert more.scale == 0.5
    half = ds.SizeGame([15, 60, 45], w=lambda n: n / (n + 40))
    assert more.after.values == pytest.approx(ds.value(half, "exact").values)
    assert more.before.sizes.tolist() == [15, 30, 45]
    assert more.after.values[1] > more.before.values[1]
    assert "50%" in repr(more)


def test_rows_of_a_thinned_owner_are_the_same_in_every_pool(tmp_path: Path) -> None:
    base = game(blocks())
    answer = ds.what_if(base, ds.MoreRows("c", -15), method="exact", ledger=tmp_path / "l")
    data = blocks()
    rows = base.rows_of(2, 16, 0)
    data["c"] = (data["c"][0][rows], data["c"][1][rows])
    assert answer.after.values == pytest.approx(ds.value(game(data), "exact").values, abs=1e-9)
    assert answer.after.n_computed == 16


@pytest.mark.slow
def test_a_newcomer_is_encoded_as_everybody_was(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "site": rng.choice(list("pqr"), 90),
            "kind": rng.choice(["x", "y", "z"], 90),
            "size": rng.normal(size=90),
        }
    )
    table["ill"] = np.where((table["kind"] == "x") ^ (rng.random(90) < 0.2), "yes", "no")
    known, late = table[table["site"] != "r"], table[table["site"] == "r"].copy()
    late.loc[late.index[0], "kind"] = "never seen"
    owners = ds.Owners.from_frame(known, owner="site", target="ill")
    test_X, test_y = owners.align(table.drop(columns="site"))
    model = LogisticRegression()
    with pytest.warns(SharedRows):
        base = ds.ModelGame(owners, model, test_X, test_y)
    newcomer = owners.align(late.drop(columns="site"), "The newcomer")
    join, ledger = ds.Join("r", *newcomer), tmp_path / "l"
    with pytest.warns(SharedRows, match="'r' as well"):
        answer = ds.what_if(base, join, method="exact", ledger=ledger)
    raw = ds.Owners.from_frame(pd.concat([known, late]), owner="site", target="ill")
    with pytest.warns(SharedRows):
        full = ds.ModelGame(raw, model, test_X, test_y, encode=base.encoding)
    assert answer.after.values.tolist() == ds.value(full, "exact").values.tolist()
    assert answer.after.n_computed == 4


@pytest.mark.parametrize("method", ["exact", "permutation"])
def test_quotes_tell_what_will_be_paid(method: str, tmp_path: Path) -> None:
    base, ledger = game(blocks()), tmp_path / "l"
    empty = ds.quote_change(base, ds.Leave("a"), method=method, ledger=ledger)
    assert (empty.known, empty.at_most) == (0, empty.asked)
    ds.value(base, method, ledger=ledger)
    for change in (ds.Leave("a"), ds.Copy("a", "b"), ds.MoreRows("a", 3)):
        quote = ds.quote_change(base, change, method=method, ledger=ledger)
        answer = ds.what_if(base, change, method=method, ledger=ledger)
        assert quote.new == answer.before.n_computed + answer.after.n_computed <= quote.at_most
        again = ds.quote_change(base, change, method=method, ledger=ledger)
        assert (again.new, again.at_most) == (0, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ds.Leave("z"), "no owner 'z'"),
        (ds.Join("a", [[1.0, 2, 3]], [1.0]), "already"),
        (ds.Join("z", [[1.0, 2, 3]], [1.0, 2.0]), "each needs a target"),
        (ds.Merge("a", "a"), "itself"),
        (ds.Copy("a", "a"), "itself"),
        (ds.MoreRows("a", 0), "nothing to compare"),
        (ds.MoreRows("a", 2.5), "whole number of rows"),
        (ds.MoreRows("a", -12), "nothing to compare"),
        (ds.MoreRows("a", 1000), "at most 36 more"),
    ],
)
def test_impossible_changes_are_refused(change: ds.Leave, said: str) -> None:
    with pytest.raises(InvalidChange, match=said):
        ds.what_if(game(blocks()), change)


def test_games_without_rows_refuse_what_needs_rows() -> None:
    table = ds.TableGame([0, 1, 2, 4])
    with pytest.raises(InvalidChange, match="needs a game of owners' rows"):
        ds.what_if(table, ds.Copy("owner 1", "owner 2"))
    with pytest.raises(InvalidChange, match="whole owners only"):
        ds.what_if(table, ds.MoreRows("owner 1", 5))
    with pytest.raises(InvalidChange, match="only owner"):
        ds.what_if(ds.TableGame([0, 1]), ds.Leave("owner 1"))
    assert ds.what_if(table, ds.Leave("owner 1")).after.values.tolist() == [2.0]


def test_a_newcomer_with_a_new_class_is_refused() -> None:
    labels = (Y > 0).astype(int)
    owners = ds.Owners.from_arrays({"a": (X[:20], labels[:20]), "b": (X[20:50], labels[20:50])})
    base = ds.ModelGame(owners, LogisticRegression(), X[200:], labels[200:])
    with pytest.raises(InvalidGame, match="class 7"):
        ds.what_if(base, ds.Join("c", X[50:60], np.full(10, 7)))


def test_derived_games_check_their_matrix() -> None:
    base = ds.SizeGame([1, 2], w=np.sqrt)
    for bad in ([[1.0]], [[1, 0], [1, 0]], [[-1, 0]]):
        with pytest.raises(DUShapleyError):
            DerivedGame(base, bad, ["x"] * len(bad))


class Slow(LogisticRegression):
    """Trains for ever on pools of one size."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Slow:
        time.sleep(600 * (len(X) == SIZES["a"] + SIZES["b"]))
        return super().fit(X, y)


def test_a_changed_game_keeps_the_limits_and_their_policy() -> None:
    data = {name: (rows, targets > 0) for name, (rows, targets) in blocks("abc").items()}
    limits = {"timeout": 5.0, "on_failure": "empty", "deterministic": True}
    base = ds.ModelGame(ds.Owners.from_arrays(data), Slow(), X[200:], Y[200:] > 0, **limits)
    after = ds.Merge("a", "b").games(base)[1]
    assert after.training == base.training
    found = ds.value(after, "exact")
    assert found.failures == {"TimedOut: no result within 5 s": 1}
    late = after.failed(np.array([[True, False]]), TimeoutError("late"))
    assert late.failures == {0: "TimeoutError: late"}
    assert np.isnan(late.values).all()  # which counts as what nobody's data is worth


@pytest.mark.parametrize("change", [ds.Leave("c"), ds.Merge("a", "b"), ds.MoreRows("a", -3)])
def test_a_model_without_a_seed_has_no_error_of_training_after_a_change_either(change: Any) -> None:
    answer = ds.what_if(game(blocks("abcd")), change, method="exact")
    for world in (answer.before, answer.after):
        assert world.errors["training"] == [0.0] * len(world.owners)


def test_everything_that_games_declare_is_the_base_games() -> None:
    base = ds.ModelGame(
        ds.Owners.from_arrays(blocks()), Ridge(), X[200:], Y[200:], scoring="r2", repeats=3,
        fast=False, memory=10**9,
    )  # fmt: skip
    after = ds.Leave("c").games(base)[1]
    for name in ("fractions", "cheap", "block", "notes", "training"):
        assert getattr(after, name) == getattr(base, name)


def test_without_a_ledger_the_two_worlds_still_share() -> None:
    answer = ds.what_if(game(blocks()), ds.Leave("c"), method="exact")
    assert (answer.before.n_computed, answer.after.n_computed, answer.n_found) == (32, 0, 16)


@pytest.mark.slow
def test_workers_change_no_bit() -> None:
    one = ds.what_if(game(blocks()), ds.Merge("a", "b"), method="permutation")
    two = ds.what_if(game(blocks()), ds.Merge("a", "b"), method="permutation", n_jobs=2)
    assert one.after.to_dict() == two.after.to_dict()


def test_with_a_pot_a_merger_is_judged_by_money() -> None:
    """Apart, the negative one is paid nothing and the other all; together they share its harm."""
    game = ds.TableGame([0, 0.5, -0.3, 0.3, 0.4, 0.8, 0.2, 0.6])
    answer = ds.what_if(game, ds.Merge("owner 1", "owner 2"), method="exact")
    before, after = (ds.settle(v, 100, currency="EUR") for v in (answer.before, answer.after))
    apart = before.payments[0] + before.payments[1]
    together = dict(zip(answer.after.owners, after.payments, strict=True))["owner 1 + owner 2"]
    assert together < apart
    row = answer.to_frame().set_index("owner").loc["owner 1 + owner 2"]
    assert row["change"] > 0  # values alone would say that it pays
    told = " ".join(answer.paid_verdict(apart, together, "EUR"))
    assert "Merging does not pay" in told
    assert f"paid {together:,} EUR instead of {apart:,} EUR" in told
    assert "the rule for negative values decides" in told
    assert answer.paid_verdict(apart, apart)[0].startswith("It makes no difference")
