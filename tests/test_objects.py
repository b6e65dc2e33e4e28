"""A valuation as an object one works with, what methods say of themselves, and misuse in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dushapley as ds
from dushapley.errors import InvalidCall, InvalidValuation, UnknownMethod, UnknownOwner

NAMES = ["north", "south", "east"]


def a_table() -> ds.TableGame:
    return ds.TableGame([0, 1, 2, 4, 3, 5, 6, 9], sizes=[10, 20, 30], names=NAMES)


def two_models() -> tuple[ds.Valuation, ds.Valuation]:
    X, y = load_breast_cancer(return_X_y=True)
    owners = ds.Owners.from_arrays({f"site {j}": (X[j:300:5], y[j:300:5]) for j in range(5)})
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    games = (ds.ModelGame(owners, model, X[300:], y[300:]) for model in (linear, GaussianNB()))
    first, second = (ds.value(game, "exact") for game in games)
    return first, second


def test_owners_are_read_by_name_and_one_by_one():
    v = ds.value(a_table())
    assert len(v) == 3
    north = v["north"]
    assert (north.value, north.size, north.rank) == (v.values[0], 10, 3)
    assert "north" in v
    assert "west" not in v
    assert [owner.name for owner in v] == ["east", "south", "north"]
    assert v.ranks() == {"east": 1, "south": 2, "north": 3}
    assert list(v.ranks()) == ["east", "south", "north"]
    with pytest.raises(UnknownOwner, match="Did you mean 'north'"):
        v["nroth"]
    with pytest.raises(UnknownOwner, match="by name"):
        v[0]


def test_a_valuation_is_saved_and_loaded_to_the_last_bit(tmp_path):
    v = ds.value(a_table(), "permutation", budget=20)
    path = v.save(tmp_path / "values.json")
    assert ds.Valuation.load(path) == v
    data = json.loads(path.read_text("utf-8"))
    assert data["format"] == "dushapley.valuation/1"
    damaged = tmp_path / "damaged.json"
    for text in (
        path.read_text("utf-8").replace("valuation/1", "valuation/9"),
        path.read_text("utf-8").replace('"seed": 0', '"seed": 0, "seed": 1'),
        json.dumps(data | {"values": [1.0, 2.0]}),
        json.dumps(data | {"extra": 1}),
        "[]",
        "not json",
        "",
    ):
        damaged.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidValuation):
            ds.Valuation.load(damaged)
    with pytest.raises(InvalidValuation, match="not a readable"):
        ds.Valuation.load(tmp_path / "absent.json")


def test_differences_have_a_joint_error(tmp_path):
    first, second = two_models()
    change = first - second
    assert change.values.tolist() == (first.values - second.values).tolist()
    sums = np.hypot(first.total_errors, second.total_errors)
    assert (change.std_errors < sums).all()  # the same test rows move both
    moved = first.influence - second.influence
    assert change.std_errors == pytest.approx(moved.std(axis=0, ddof=1) / len(moved) ** 0.5)
    # single test rows are not stored: what was read back is compared with more room
    stored = ds.Valuation.load(first.save(tmp_path / "first.json"))
    rough = stored - second
    assert (rough.std_errors >= sums).all()
    assert "at most the sum" in rough.meaning
    frame = change.to_frame()
    assert frame["difference"].abs().is_monotonic_decreasing
    assert set(frame.loc[frame["clear"], "owner"]) == set(change.clear)
    same = first - first
    assert same.std_errors.max() == 0
    assert same.clear == ()
    assert "minus" in repr(change)


def test_owners_are_matched_by_name_in_differences():
    v = ds.value(a_table())
    turned = ds.value(ds.TableGame([0, 3, 2, 6, 1, 5, 4, 9], names=NAMES[::-1]))
    assert (v - turned).values == pytest.approx([0, 0, 0], abs=1e-12)
    with pytest.raises(InvalidValuation, match="different owners"):
        v - ds.value(ds.TableGame([0, 1, 2, 4]))
    with pytest.raises(TypeError):
        v - 1
    unsure = ds.value(a_table(), "random")
    assert np.isnan((v - unsure).std_errors).all()
    assert "unknown" in (v - unsure).verdict()


def test_frames_have_every_error():
    first, _ = two_models()
    frame = first.to_frame().set_index("owner")
    for source in ("sampling", "training", "test_set"):
        assert f"{source}_error" in frame
    own = dict(zip(first.owners, first.errors["test set"], strict=True))
    assert frame["test_set_error"].to_dict() == own
    assert frame["share"].sum() == pytest.approx(1)


def test_probabilities_of_ranks_have_names_in_the_order_of_the_table():
    game = ds.CallableGame(lambda z: (z @ [1.0, 5, 3, 2]) ** 0.5, 4)
    v = ds.value(game, "permutation", budget=200)
    frame = v.rank_probabilities()
    assert frame.index.tolist() == list(v.ranks())
    assert frame.columns.tolist() == [1, 2, 3, 4]
    assert frame.loc["owner 2", 1] == frame[1].max()
    assert frame.sum(axis=1).to_numpy() == pytest.approx(1)
    assert not hasattr(ds, "rank_probabilities")  # one way to ask, and one type


def test_a_notebook_shows_all_of_it():
    v = ds.value(ds.TableGame(np.arange(8.0), names=["北京", "<i>", "c"]), "permutation", budget=9)
    html = v._repr_html_()
    assert "share" in html
    assert "<pre>" not in html
    assert "overflow-wrap" in html
    assert "<i>" not in html
    rng = np.random.default_rng(0)
    many = ds.value(ds.SizeGame(rng.integers(1, 99, 80), lambda n: n / (n + 500)), "exact")
    figure = many.plot().figure
    assert figure.get_size_inches()[1] <= 10
    figure.canvas.draw()  # a letter that no font has would warn, which is an error here
    v.plot().figure.canvas.draw()


def test_methods_stay_lines_and_tell_more():
    known = ds.methods()
    for name, line in known.items():
        assert isinstance(line, str)
        assert line.cost, name
        assert line.guarantee, name
    assert json.loads(json.dumps(known)) == known
    assert known["gp"].options["semivalue"].default == "shapley"
    assert "'+'" in known["stratified-svarm"].options["form"].meaning
    assert "unbiased" in known["permutation"].guarantee
    assert known["kernel"].guarantee.startswith("biased")
    assert "2I² by default" in known["permutation"].cost


def test_games_and_owners_have_a_face():
    assert repr(a_table()) == "TableGame(3 owners; rows north: 10, south: 20, east: 30)"
    X, y = load_breast_cancer(return_X_y=True)
    owners = ds.Owners.from_arrays({"a": (X[:9], y[:9]), "b": (X[9:40], y[9:40])})
    game = ds.ModelGame(owners, GaussianNB(), X[300:], y[300:])
    assert repr(game) == (
        "ModelGame(2 owners; rows a: 9, b: 31; GaussianNB() by accuracy; 269 test rows)"
    )
    assert "a: 9" in repr(owners)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ds.value(a_table(), random_state=0), "seed"),
        (lambda: ds.value(a_table(), bugdet=9), "budget"),
        (lambda: ds.compare(a_table(), ["gp"], [9], random_state=0), "random_state"),
        (lambda: ds.settle("x"), "pot"),
        (lambda: ds.settle("x", 5), "valuation was needed"),
        (lambda: ds.what_if(a_table(), "north leaves"), "ds.Leave"),
        (lambda: ds.what_if(a_table(), ds.Leave), "ds.Leave"),
        (lambda: ds.what_if("x", ds.Leave("a")), "not a game"),
        (lambda: ds.verify(5, a_table()), "settlement was needed"),
        (lambda: ds.verify(ds.settle(ds.value(a_table()), 5), "x"), "not a game"),
        (lambda: ds.compare(a_table(), "gp", [9]), "methods"),
        (lambda: ds.compare(a_table(), ["gp"], 9), "budgets"),
        (lambda: ds.compare(a_table(), ["gp"], [9], seeds=5), "seeds"),
        (lambda: ds.quote("x"), "not a game"),
        (lambda: ds.quote(a_table(), "9"), "whole number"),
        (ds.quote, "game"),
        (lambda: ds.interactions("x"), "not a game"),
    ],
)
def test_misuse_is_told_in_words(call, says):
    with pytest.raises(ds.DUShapleyError, match=says):
        call()


def test_a_wrong_keyword_is_a_type_error_as_well():
    with pytest.raises(TypeError):
        ds.value(a_table(), random_state=0)
    assert issubclass(InvalidCall, TypeError)


@pytest.mark.parametrize(
    ("name", "meant"), [("DU-Shapley", "du"), ("KernelSHAP", "kernel"), ("Monte Carlo", "permut")]
)
def test_methods_are_found_by_what_papers_call_them(name, meant):
    with pytest.raises(UnknownMethod, match=f"Did you mean '{meant}"):
        ds.value(a_table(), name)
