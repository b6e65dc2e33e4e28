"""Hold-out and cross-validation: every row is judged by models that never saw it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

import dushapley as ds
from dushapley.data.owners import folds
from dushapley.errors import InvalidOwners
from dushapley.games.model.encoding import Encoding

RNG = np.random.default_rng(3)


def block(n):
    X = RNG.normal(size=(n, 2))
    return X, (X.sum(axis=1) + RNG.normal(size=n) > 0).astype(int)


OWNERS = ds.Owners.from_arrays({"a": block(20), "b": block(31), "c": block(12)})
EVERYBODY = np.ones((1, 3), dtype=bool)


def logistic(owners, X_test, y_test, **options):
    return ds.ModelGame(owners, LogisticRegression(), X_test, y_test, **options)


def test_hold_out_takes_the_same_part_of_everybody():
    kept, X, y = OWNERS.hold_out(0.25, seed=1)
    assert kept.sizes.tolist() == [15, 23, 9]
    assert len(X) == len(y) == 16
    again, X_again, _ = OWNERS.hold_out(0.25, seed=1)
    assert again.hashes == kept.hashes
    assert X_again.tobytes() == X.tobytes()
    assert OWNERS.hold_out(0.25, seed=2)[0].hashes != kept.hashes
    everything = np.sort(np.concatenate([X, *kept.X]), axis=0)
    assert everything.tolist() == np.sort(np.concatenate(OWNERS.X), axis=0).tolist()


def test_every_row_is_tested_once():
    splits = folds(OWNERS, 4, seed=0)
    tested = np.concatenate([X for _, X, _ in splits])
    assert np.sort(tested, axis=0).tolist() == np.sort(np.concatenate(OWNERS.X), axis=0).tolist()
    assert all(sum(kept.sizes) + len(y) == 63 for kept, _, y in splits)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, True])
def test_parts_that_are_none_are_refused(fraction):
    with pytest.raises(InvalidOwners, match="cannot be held out"):
        OWNERS.hold_out(fraction)


def test_too_few_rows_are_refused():
    tiny = ds.Owners.from_arrays({"a": block(5), "b": ([[1.0, 2.0]], [1])})
    with pytest.raises(InvalidOwners, match="'b' has a single row"):
        tiny.hold_out(0.5)
    with pytest.raises(InvalidOwners, match=r"smallest owner has rows \(12\)"):
        folds(OWNERS, 13, 0)
    with pytest.raises(InvalidOwners, match="no targets"):
        ds.Owners.from_arrays({"a": [[1.0], [2.0]]}).hold_out(0.5)


def test_cross_validation_is_the_share_of_rows_predicted_by_others():
    game = ds.FoldsGame(OWNERS, logistic, 3, seed=4)
    right = []
    for kept, X, y in folds(OWNERS, 3, 4):
        order = sorted(range(3), key=lambda j: kept.hashes[j])
        model = LogisticRegression().fit(
            np.concatenate([kept.X[j] for j in order]), np.concatenate([kept.y[j] for j in order])
        )
        right.append(accuracy_score(y, model.predict(X), normalize=False))
    outcome = game.evaluate(EVERYBODY, None)[0]
    assert outcome.value == pytest.approx(sum(right) / 63)
    assert outcome.scores.mean() == pytest.approx(outcome.value)
    assert "cross-validation" in ds.value(game, "exact").notes[-1]
    assert ds.value(game, "exact").errors["dominant"] == "test set"


def test_folds_keep_a_ledger_and_average_repeats(tmp_path):
    game = ds.FoldsGame(OWNERS, logistic, 3)
    first = ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    again = ds.value(ds.FoldsGame(OWNERS, logistic, 3), "exact", ledger=tmp_path / "l.sqlite")
    assert (again.n_computed, again.values.tobytes()) == (0, first.values.tobytes())
    assert ds.FoldsGame(OWNERS, logistic, 3, seed=1).context != game.context

    def forest(*split):
        return ds.ModelGame(split[0], RandomForestClassifier(2), *split[1:], repeats=2)

    noisy = ds.FoldsGame(OWNERS, forest, 2).evaluate(EVERYBODY, None)[0]
    parts = [g.evaluate(EVERYBODY, None)[0].spread for g in ds.FoldsGame(OWNERS, forest, 2).games]
    assert 0 < noisy.spread < max(parts)


def test_failures_in_a_fold_are_counted_and_kept(tmp_path):
    def fails(model, X, y):
        raise ValueError("no score")

    def make(*split):
        return logistic(*split, scoring=fails, empty=0.0, on_failure="empty", fingerprint="f")

    game = ds.FoldsGame(OWNERS, make, 2)
    result = ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    assert result.failures == {"ValueError: no score": 7}
    again = ds.value(game, "exact", ledger=tmp_path / "l.sqlite")
    assert (again.failures, again.n_computed) == (result.failures, 0)


class NeedsRows(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        if len(X) < 23:
            raise ValueError("too few rows")
        return super().fit(X, y, sample_weight)


def test_what_failed_in_some_folds_has_the_value_of_the_others(tmp_path):
    """A fold that failed is nobody's there; a ledger gives back the same values and errors."""
    parts = []

    def make(owners, X, y):
        options = {"scoring": "neg_brier_score", "on_failure": "empty", "deterministic": True}
        parts.append(ds.ModelGame(owners, NeedsRows(), X, y, **options))
        return parts[-1]

    game = ds.FoldsGame(OWNERS, make, 4)
    bare = ds.value(game, "exact")
    assert bare.failures
    weights = [len(part.y_test) for part in parts]
    apart = [ds.value(part, "exact").values for part in parts]
    assert bare.values == pytest.approx(np.average(apart, axis=0, weights=weights), abs=1e-12)
    rows = np.asarray(bare.influence)
    assert rows.mean(axis=0) == pytest.approx(bare.values, abs=1e-12)
    assert bare.n_distinct == 2 ** len(OWNERS)
    paid, found = (ds.value(game, "exact", ledger=tmp_path / "l.sqlite") for _ in range(2))
    assert (paid.n_computed, found.n_computed) == (2 ** len(OWNERS), 0)
    for again in (paid, found):
        assert again.values.tobytes() == bare.values.tobytes()
        assert again.errors == bare.errors
        assert (again.failures, again.n_distinct) == (bare.failures, bare.n_distinct)


def mixed(n, rng):
    return pd.DataFrame(
        {
            "who": rng.choice(["a", "b", "c"], n),
            "colour": rng.choice(["red", "green", None], n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "code": [f"k{i}" for i in rng.integers(0, 60, n)],
            "y": rng.choice(["yes", "no"], n),
        }
    )


def forest_on(owners, X, y, **options):
    return ds.ModelGame(owners, RandomForestClassifier(3), X, y, **options)


def test_mixed_tables_are_encoded_once_and_owners_keep_their_identity():
    rng = np.random.default_rng(0)
    table, test = mixed(150, rng), mixed(40, rng)
    owners = ds.Owners.from_frame(table, owner="who", target="y")
    game = forest_on(owners, *owners.align(test))
    assert game.owners.X[0].dtype == np.float64
    assert game.owners.hashes == owners.hashes
    assert "encoded once" in game.notes[0]
    frame = forest_on(owners, test.drop(columns="y"), test["y"])
    assert frame.context == game.context
    assert frame(EVERYBODY)[0] == game(EVERYBODY)[0]
    turned = ds.Owners.from_frame(table[::-1], owner="who", target="y")
    assert set(turned.hashes).isdisjoint(owners.hashes)  # rows in another order


def test_an_encoding_can_be_kept_when_owners_change():
    rng = np.random.default_rng(0)
    table, test = mixed(150, rng), mixed(40, rng)
    owners = ds.Owners.from_frame(table, owner="who", target="y")
    fewer = ds.Owners.from_frame(table[table["who"] != "a"], owner="who", target="y")
    base = forest_on(owners, *owners.align(test))
    kept = forest_on(fewer, *owners.align(test), encode=base.encoding)
    assert kept.context == base.context
    assert forest_on(fewer, *owners.align(test)).context != base.context
    with pytest.raises(InvalidOwners, match="came as arrays"):
        Encoding(OWNERS)


def test_encoding_in_every_training_on_request():
    rng = np.random.default_rng(0)
    table, test = mixed(150, rng).drop(columns="code"), mixed(40, rng).drop(columns="code")
    owners = ds.Owners.from_frame(table, owner="who", target="y")
    game = forest_on(owners, *owners.align(test), encode="training")
    assert game.owners.X[0].dtype == object
    assert game.notes == ("Text and dates were encoded afresh in every training.",)
    assert 0 <= game([[1, 0, 0]])[0] <= 1
    assert game.context is not None
