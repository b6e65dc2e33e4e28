"""Banzhaf and Beta values, and interactions of two owners: exact, by formula and from gp."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.special import beta as beta_function
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import dushapley as ds
from dushapley.errors import InvalidOption

NAMES = ("banzhaf", "beta(4,1)", "beta(1,3)", "beta(2,2)")


def weight(name: str, n: int, k: int) -> float:
    """Of one coalition of k others, from the definitions."""
    if name == "banzhaf":
        return 0.5 ** (n - 1)
    a, b = (float(x) for x in name[5:-1].split(","))
    return beta_function(k + b, n - 1 - k + a) / beta_function(a, b)


def listed(game: ds.Game, name: str) -> np.ndarray:
    """Semivalues owner by owner and coalition by coalition."""
    n = game.n_players
    values = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for k in range(n):
            for some in combinations(others, k):
                pool = np.zeros((2, n), dtype=bool)
                pool[:, list(some)] = True
                pool[1, i] = True
                without, with_i = game(pool)
                values[i] += weight(name, n, k) * (with_i - without)
    return values


def pair_by_pair(game: ds.Game, index: str) -> np.ndarray:
    """Interactions from the definition."""
    n = game.n_players
    found = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        others = [k for k in range(n) if k not in (i, j)]
        for t in range(n - 1):
            q = 0.5 ** (n - 2) if index == "banzhaf" else 1 / ((n - 1) * comb(n - 2, t))
            for some in combinations(others, t):
                pools = np.zeros((4, n), dtype=bool)
                pools[:, list(some)] = True
                pools[[1, 3], i] = pools[[2, 3], j] = True
                found[i, j] += q * (game(pools) @ [1, -1, -1, 1])
    return found + found.T


def six_games() -> dict[str, ds.Game]:
    rng = np.random.default_rng(7)
    return {
        "glove": ds.games.glove(3, 2),
        "airport": ds.games.airport([1, 2, 4, 8, 16]),
        "voting": ds.games.voting([5, 4, 3, 2, 1, 1], 9),
        "size": ds.SizeGame([0, 3, 5, 5, 80, 13], lambda n: n / (n + 30)),
        "random": ds.TableGame(rng.normal(size=2**6)),
        "regressogram": ds.RegressogramGame(
            rng.integers(0, 60, (6, 3)), [0.2, 0.3, 0.5], lambda n: n / (n + 20)
        ),
    }


@pytest.mark.parametrize("name", NAMES)
def test_semivalues_are_exact_by_enumeration_and_by_formula(name):
    for label, game in six_games().items():
        asked = {"options": {"semivalue": name}}
        truth = listed(game, name)
        v = ds.value(game, "exact", **asked)
        assert np.abs(v.values - truth).max() < 1e-12, label
        assert name in v.notes[0]
        assert not v.unknown
        assert not any("too small" in note for note in v.notes)
        if label in ("size", "regressogram"):
            assert v.n_evaluations == 0
            asked["options"]["by"] = "enumeration"
            assert np.abs(ds.value(game, "exact", **asked).values - truth).max() < 1e-12


def test_the_formula_holds_for_many_owners():
    sizes = np.random.default_rng(0).integers(1, 40, 200)
    game = ds.SizeGame(sizes, lambda n: n / (n + 500))
    shapley = ds.value(game, "exact").values
    uniform = ds.value(game, "exact", options={"semivalue": "beta(1,1)"}).values
    assert np.abs(shapley - uniform).max() < 1e-15
    banzhaf = ds.value(game, "exact", options={"semivalue": "banzhaf"}).values
    rng = np.random.default_rng(1)
    pools = rng.random((20_000, 200)) < 0.5
    pools[:, 0] = False
    gain = game(pools | (np.arange(200) == 0)) - game(pools)
    assert abs(gain.mean() - banzhaf[0]) < 5 * gain.std() / 20_000**0.5


def test_errors_of_a_model_are_those_of_the_semivalue():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    owners = ds.Owners.from_arrays(
        {f"o{j}": (X[5 * j : 5 * j + 5], y[5 * j : 5 * j + 5]) for j in range(5)}
    )
    game = ds.ModelGame(owners, GaussianNB(), X[100:], y[100:])
    plain, banzhaf = (
        ds.value(game, "exact", options={"semivalue": s}) for s in ("shapley", "banzhaf")
    )
    assert np.abs(banzhaf.values - listed(game, "banzhaf")).max() < 1e-12
    assert banzhaf.total_errors is not None
    assert banzhaf.errors["test set"] != plain.errors["test set"]


@pytest.mark.parametrize("name", ["banzhaf", "beta(4,1)"])
def test_gp_gives_semivalues_with_errors(name):
    rng = np.random.default_rng(3)
    worth = rng.random(8)
    small = ds.CallableGame(lambda z: np.sqrt(z @ worth), 8)
    truth = ds.value(small, "exact", options={"semivalue": name}).values
    v = ds.value(small, "gp", budget=48, options={"semivalue": name})
    assert v.n_evaluations == 48
    assert np.abs(v.values - truth).max() < 0.02 * np.ptp(truth)
    assert (np.abs(v.values - truth) <= 3 * v.std_errors).all()
    sizes = rng.integers(10, 200, 17)
    large = ds.SizeGame(sizes, lambda n: n / (n + 300))
    truth = ds.value(large, "exact", options={"semivalue": name}).values
    v = ds.value(large, "gp", budget=56, options={"semivalue": name})
    assert np.abs(v.values - truth).max() < 0.1 * np.ptp(truth)


def test_gp_that_is_not_believed_counts_by_strata():
    game = ds.CallableGame(lambda z: (z.sum(axis=1) >= 5).astype(float), 9)
    truth = comb(8, 4) / 2**8
    for seed in (5, 10):  # these were off by a fifth while gp went on choosing the pools
        v = ds.value(game, "gp", budget=100, options={"semivalue": "banzhaf"}, seed=seed)
        assert v.details["model"] == "stratified"
        assert np.abs(v.values - truth).max() < 0.05


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_interactions_are_exact(index):
    for label, game in six_games().items():
        found = ds.interactions(game)
        assert found.method == "exact"
        assert np.abs(getattr(found, index) - pair_by_pair(game, index)).max() < 1e-12, label
        assert getattr(found, f"{index}_errors") is None


def test_interactions_from_gp_are_near_and_know_it():
    rng = np.random.default_rng(5)
    worth, kind = rng.random(9) + 0.2, np.arange(9) % 3

    def diverse(z):
        kinds = np.stack([(z[:, kind == k] @ worth[kind == k]) for k in range(3)], axis=1)
        return np.sqrt(kinds).sum(axis=1)

    game = ds.CallableGame(diverse, 9)
    exact, found = ds.interactions(game, "exact"), ds.interactions(game, "gp", budget=120)
    pairs = np.triu_indices(9, 1)
    for index in ("shapley", "banzhaf"):
        truth, errors = getattr(exact, index)[pairs], getattr(found, f"{index}_errors")[pairs]
        off = getattr(found, index)[pairs] - truth
        assert np.mean(off**2) < 0.05 * truth.var()
        assert np.mean(np.abs(off) <= 1.96 * errors) > 0.85
    assert found.valuation.n_evaluations == 120
    frame = found.to_frame()
    assert frame["meaning"].iloc[0] == "redundant"
    assert kind[int(frame["first"].iloc[0][-1]) - 1] == kind[int(frame["second"].iloc[0][-1]) - 1]


def test_many_owners_are_carried_by_samples():
    sizes = np.random.default_rng(2).integers(20, 200, 17)
    game = ds.SizeGame(sizes, lambda n: n / (n + 300))
    exact = ds.interactions(game, "exact")
    found = ds.interactions(game, "gp", budget=60)
    pairs = np.triu_indices(17, 1)
    off = (found.shapley - exact.shapley)[pairs]
    assert np.mean(off**2) < 0.05 * exact.shapley[pairs].var()


def test_interactions_are_read_by_name_and_shown():
    names = ["north", "south", "<b>", "东方"]
    game = ds.TableGame(np.random.default_rng(0).normal(size=16), names=names)
    found = ds.interactions(game)
    assert found["north", "<b>"] == found.shapley[0, 2]
    assert "东方" in repr(found)
    assert "<b>" not in found.to_html().replace("&lt;b&gt;", "")
    assert found.to_frame().shape == (6, 7)
    assert set(found.to_dict()) >= {"owners", "shapley", "banzhaf"}
    with pytest.raises(InvalidOption, match="north"):
        found["nroth", "south"]
    with pytest.raises(InvalidOption, match="two owners"):
        found["north"]
    with pytest.raises(InvalidOption, match="auto"):
        ds.interactions(game, "permutation")
    with pytest.raises(InvalidOption, match="has one"):
        ds.interactions(ds.TableGame([0.0, 1.0]))


@pytest.mark.parametrize(("owners", "budget"), [(3, 8), (4, 21), (4, None), (6, 72)])
def test_interactions_by_gp_are_exact_where_all_coalitions_are_affordable(owners, budget):
    game = ds.TableGame(np.random.default_rng(0).normal(size=2**owners))
    found = ds.interactions(game, "gp", budget=budget)
    assert found.valuation.n_evaluations == 2**owners
    assert found.valuation.notes[-1].startswith(f"gp asked all {2**owners} coalitions")
    assert found.shapley_errors is None
    assert (found.shapley == ds.interactions(game, "exact").shapley).all()


def test_what_gp_paid_serves_interactions(tmp_path):
    game = ds.CallableGame(lambda z: np.sqrt(z @ np.arange(1.0, 9)), 8, fingerprint="roots")
    ds.value(game, "gp", budget=80, ledger=tmp_path / "paid.sqlite")
    found = ds.interactions(game, "gp", budget=80, ledger=tmp_path / "paid.sqlite")
    assert found.valuation.n_computed == 0


def test_the_page_has_a_matrix_of_pairs():
    game = ds.TableGame(np.random.default_rng(0).normal(size=8), names=["a", "<b>", "c"])
    v, found = ds.value(game), ds.interactions(game)
    page = ds.report.report(v, interactions=found)
    assert "Who is redundant with whom" in page
    assert found.to_html() in page
    assert "Who is redundant" not in ds.report.report(v)


def test_of_many_owners_the_strongest_pairs_are_listed():
    few = ds.interactions(ds.TableGame(np.random.default_rng(0).normal(size=8)))
    v = ds.value(ds.SizeGame(np.arange(1, 33) * 10, lambda n: n / (n + 100)))
    pairs = np.random.default_rng(0).normal(size=(32, 32))
    page = replace(few, valuation=v, shapley=pairs + pairs.T, banzhaf=pairs + pairs.T).to_html()
    assert "The 40 strongest of 496 pairs" in page
    assert page.count("<tr>") == 41
