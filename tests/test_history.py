"""What a run notes on its way: true, small, and free."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dushapley as ds


def paid(n: int = 5) -> ds.CallableGame:
    weights = np.arange(1.0, n + 1)
    return ds.CallableGame(lambda z: np.sqrt(z @ weights), n, sizes=weights, fingerprint="roots")


def test_notes_of_exact_hold_every_coalition() -> None:
    trail = ds.value(paid(), "exact").details["trail"]
    assert trail["alone"] == pytest.approx(np.sqrt(np.arange(1, 6)))
    assert trail["without"] == pytest.approx(np.sqrt(15 - np.arange(1.0, 6)))
    assert len(trail["curve"]["rows"]) == 32
    assert np.sqrt(trail["curve"]["rows"]) == pytest.approx(trail["curve"]["values"])
    assert not trail["stages"]["fitted"]
    gains = np.array(trail["stages"]["gains"], dtype=float)
    for owner in gains:  # a concave curve: an owner adds less and less
        known = owner[~np.isnan(owner)]
        assert (np.diff(known) < 0).all()


def test_history_ends_with_the_result_and_grows_in_questions() -> None:
    v = ds.value(paid(), "permutation", budget=1000)
    history = v.details["trail"]["history"]
    assert history["values"][-1] == v.values.tolist()
    assert history["asked"][-1] == v.n_evaluations
    assert history["asked"] == sorted(history["asked"])
    assert 3 < len(history["asked"]) <= 40


def test_drawn_pools_are_paired_by_their_draw() -> None:
    rng = np.random.default_rng(0)
    owners = ds.Owners.from_arrays({str(i): rng.normal(size=(9 + i, 1)) for i in range(4)})
    game = ds.DatasetGame(owners, lambda X, y: float(len(X)))
    trail = ds.value(game, "du", budget=200).details["trail"]
    for i, gains in enumerate(trail["stages"]["gains"]):
        assert [g for g in gains if g is not None] == pytest.approx([9 + i] * 4)


def test_gains_are_fitted_where_pairs_are_few() -> None:
    worth = np.array([3.0, 1.0, -2.0, 0.5, 2.0, 1.0, 4.0, -1.0, 0.7, 1.5, 2.5, -3.0])
    game = ds.CallableGame(lambda z: z @ worth, 12, fingerprint="sum")
    stages = ds.value(game, "gp", budget=72).details["trail"]["stages"]
    assert stages["fitted"]
    gains = np.array(stages["gains"], dtype=float)
    middle = gains[:, 2]
    assert np.corrcoef(middle, worth)[0, 1] > 0.98
    assert (np.sign(middle) == np.sign(worth)).all()


def test_notes_are_small_however_long_the_run() -> None:
    v = ds.value(paid(12), "permutation", budget=20_000)
    assert len(json.dumps(v.details["trail"])) < 60_000
    assert ds.Valuation.from_dict(json.loads(v.to_json())).to_dict() == v.to_dict()


def test_games_that_cost_nothing_note_nothing() -> None:
    assert "trail" not in ds.value(ds.SizeGame([1, 2], np.sqrt), "permutation", budget=50).details


def test_values_are_shown_as_they_settle(capsys: pytest.CaptureFixture[str]) -> None:
    game = ds.CallableGame(
        lambda z: z.sum(axis=1) ** 0.5, 3, names=["[red]a", "b", "c"], fingerprint="live"
    )
    ds.value(game, "permutation", budget=400, progress=True)
    shown = capsys.readouterr()
    assert "[red]a 0." in shown.err  # a name is no markup
    assert shown.out == ""
