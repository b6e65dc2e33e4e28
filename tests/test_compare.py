"""Methods side by side."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import dushapley as ds

mpl.use("Agg")

SIZES = [100, 200, 400, 800, 1600]


def game() -> ds.SizeGame:
    return ds.SizeGame(SIZES, lambda n: n / (n + 200))


def test_one_tidy_row_per_run():
    frame = ds.compare(game(), ["permutation", ("owen", {"form": "per-owner"})], [22, 50], range(3))
    assert list(frame.columns) == [
        "method",
        "budget",
        "seed",
        "mse",
        "relative_mse",
        "rank_correlation",
        "n_evaluations",
        "seconds",
        "reason",
    ]
    assert len(frame) == 2 * 2 * 3
    assert set(frame["method"]) == {"permutation", "owen (form=per-owner)"}
    assert (frame["n_evaluations"] <= frame["budget"]).all()
    assert (frame["reason"] == "").all()


def test_errors_are_those_of_the_same_run():
    frame = ds.compare(game(), ["antithetic"], [50], [4])
    exact = ds.value(game(), "exact").values
    found = ds.value(game(), "antithetic", budget=50, seed=4).values
    mse = np.mean((found - exact) ** 2)
    assert np.isclose(frame["mse"].item(), mse)
    assert np.isclose(frame["relative_mse"].item(), mse / np.var(exact))


def test_a_refused_method_is_a_row_with_its_reason():
    table = ds.TableGame(np.arange(8.0))
    frame = ds.compare(table, ["du", "knn", "stratified-svarm", "exact"], [5], range(2))
    refused = frame[frame["seed"].isna()].set_index("method")["reason"]
    assert "whole owners" in refused["du"]
    assert "rows" in refused["knn"]
    assert "at least 8" in refused["stratified-svarm"]
    assert "at least 8" in refused["exact"]


def test_mistakes_raise_before_anything_runs():
    with pytest.raises(ds.DUShapleyError, match="no method"):
        ds.compare(game(), ["permutations"], [10])
    with pytest.raises(ds.DUShapleyError, match="no option"):
        ds.compare(game(), [("owen", {"shape": 1})], [10])
    with pytest.raises(ds.DUShapleyError, match="5 finite numbers"):
        ds.compare(game(), ["owen"], [10], reference=[1, 2])


def test_without_exact_values_a_reference_is_needed():
    big = ds.CallableGame(lambda z: z.sum(axis=1), 30)
    with pytest.raises(ds.DUShapleyError, match="reference="):
        ds.compare(big, ["permutation"], [100], range(1))
    frame = ds.compare(big, ["permutation"], [100], range(1), reference=np.ones(30))
    assert frame["mse"].item() == 0
    assert np.isnan(frame["relative_mse"].item())


def test_methods_pay_separately_with_a_ledger(tmp_path):
    asked = []

    def worth(z):
        asked.append(len(z))
        return z.sum(axis=1) ** 2

    slow = ds.CallableGame(worth, 4, fingerprint="square")
    ledger = tmp_path / "kept.sqlite"
    frame = ds.compare(slow, ["exact", "permutation"], [16], range(2), np.ones(4), ledger=ledger)
    assert frame["n_evaluations"].tolist() == [16, 16, 14, 14]
    assert sum(asked) == 16


def test_exact_references_are_kept_in_the_ledger(tmp_path):
    asked = []

    def counted(masks):
        asked.extend(map(bytes, masks))
        return masks.sum(axis=1) ** 2.0

    game = ds.CallableGame(counted, 4, fingerprint="squares")
    for _ in range(2):
        ds.compare(game, ["permutation"], [10], seeds=[0], ledger=tmp_path / "paid.sqlite")
    assert len(asked) == len(set(asked)) == 16


def test_plot_has_a_line_per_method_that_ran():
    frame = ds.compare(game(), ["permutation", "owen", "knn"], [20, 50], range(3))
    ax = ds.plot_comparison(frame)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["permutation", "owen"]
    with pytest.raises(ds.DUShapleyError, match="refused"):
        ds.plot_comparison(frame[frame["method"] == "knn"])
