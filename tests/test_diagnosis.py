"""Why data is worth what it is: stored under the seal, measured, and put into words."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import dushapley as ds
from dushapley.cli.main import main
from dushapley.engine.diagnosis import difference, most_trainings
from dushapley.engine.diagnosis.agreement import mean_part
from dushapley.engine.diagnosis.probes import Probes, better_model, scores_of_usual
from dushapley.errors import InvalidSettlement
from dushapley.results.diagnosis import (
    Alternative,
    Column,
    Diagnosis,
    Matrix,
    OwnerDiagnosis,
    Reason,
    Shared,
)
from dushapley.settlement.settlement import seal
from extras import needs

STORED = Diagnosis(
    task="classification",
    target="ill",
    trainings=6,
    owners=(
        OwnerDiagnosis(
            "owner 1",
            (Reason("labels", "Labels disagree."),),
            disagreement=(0.46, 0.4, 0.52),
            usual_disagreement=(0.03, 0.08),
            columns=(Column("height", 1.7, 171.0),),
            shared=(Shared("owner 2", 40, 0.1),),
            tested=2,
            by_size=0.5,
        ),
        OwnerDiagnosis("owner 2", (Reason("alike", "Nothing sets it apart."),)),
    ),
    matrix=Matrix(("owner 1", "owner 2", "test set"), ((0.9, 0.5, 0.6), (0.5, None, 0.8))),
    alternatives=(Alternative("knn", "accuracy", 0.5, 0.9, (0.1, 0.3)),),
    notes=("gbdt scores higher.",),
)


@pytest.fixture(autouse=True)
def _quick_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons by small forests, and without a look at other models: made-up faults are plain."""
    from dushapley.engine.diagnosis import probes

    monkeypatch.setattr(difference, "TREES", 20)
    monkeypatch.setattr(probes, "scores_of_usual", lambda *_: [0.9, 0.4, *[0.5, -0.4, 0.1] * 3])


def stored() -> dict[str, Any]:
    valuation = ds.value(ds.TableGame([0, 1, 2, 4]), "exact")
    return json.loads(ds.settle(valuation, 100, diagnosis=STORED).to_json())


def test_it_is_stored_under_the_seal_and_read_back_whole() -> None:
    data = stored()
    assert ds.Settlement.from_dict(data).diagnosis == STORED
    assert ds.verify(data, ds.TableGame([0, 1, 2, 4])).findings[0].holds
    data["diagnosis"]["owners"][0]["disagreement"][0] = 0.01
    assert ds.verify(data, ds.TableGame([0, 1, 2, 4])).findings[0].holds is False


def test_a_settlement_without_one_is_as_it_was() -> None:
    plain = ds.settle(ds.value(ds.TableGame([0, 1, 2, 4]), "exact"), 100)
    assert "diagnosis" not in plain.to_dict()
    assert ds.Settlement.from_dict(plain.to_dict()).diagnosis is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda d: d["owners"].pop(), "owners of the valuation"),
        (lambda d: d["owners"][0]["reasons"].clear(), "each with a reason"),
        (lambda d: d["owners"][0].update(wrong=[0.1, 0.2]), "wrong is a list"),
        (lambda d: d["owners"][0]["reasons"][0].update(code="guilty"), "one of 'units'"),
        (lambda d: d["matrix"]["agreement"].pop(), "lengths do not fit"),
        (lambda d: d["alternatives"][0]["values"].pop(), "lengths do not fit"),
        (lambda d: d.update(format="other"), "dushapley.diagnosis/2"),
        (lambda d: d.update(more=1), "has unknown"),
    ],
)
def test_what_is_not_a_diagnosis_is_refused_by_its_field(spoil: Any, said: str) -> None:
    data = deepcopy(stored())
    spoil(data["diagnosis"])
    with pytest.raises(InvalidSettlement, match=said):
        ds.Settlement.from_dict(data)


def blocks(n_owners: int = 9, rows: int = 90, numbers: bool = False) -> dict[str, Any]:
    """Owners of the same kind of rows: two classes (or a number) by the sum of three columns."""
    rng = np.random.default_rng(3)
    made = {}
    for j in range(n_owners):
        X = rng.normal([10, 0, 0, 5], size=(rows, 4))
        y = X @ [1.0, 1.0, 1.0, 0.0] - 10 + 0.4 * rng.normal(size=rows)
        made[f"site {j}"] = (X, y if numbers else np.where(y > 0, "ill", "well"))
    return made


def diagnosis_of(made: dict[str, Any], model: str | Any = "logistic", **options: Any) -> Diagnosis:
    """Of a game of these owners, the last of whom is the test set."""
    made = dict(made)
    X_test, y_test = made.pop(list(made)[-1])
    game = ds.ModelGame(ds.Owners.from_arrays(made), model, X_test, y_test, **options)
    return ds.diagnose(game, valuation_of(game))


def valuation_of(game: ds.Game) -> ds.Valuation:
    """Any valuation of these owners: the reasons do not depend on how it was made."""
    by_size = ds.SizeGame(game.sizes, w=lambda n: n / (n + 50), names=game.names)
    return ds.value(by_size, "exact")


def codes(diagnosis: Diagnosis) -> dict[str, str]:
    return {one.owner: one.reasons[0].code for one in diagnosis.owners}


def test_each_fault_gets_its_own_reason_and_nobody_else_is_accused() -> None:
    made = blocks(12)
    X, y = made["site 1"]
    made["site 1"] = (X, np.where(y == "ill", "well", "ill"))
    X, y = made["site 3"]
    y = y.copy()
    y[:40] = np.where(y[:40] == "ill", "well", "ill")
    made["site 3"] = (X, y)
    X, y = made["site 5"]
    made["site 5"] = (X * [1000, 1, 1, 1], y)
    made["site 6"] = (made["site 6"][0] + [0, 1.8, 0, 1.8], made["site 6"][1])
    made["site 7"] = tuple(np.concatenate([a[:30], b[30:]]) for a, b in
                           zip(made["site 8"], made["site 7"], strict=True))  # fmt: skip
    made["site 9"] = (made["site 9"][0][:12], made["site 9"][1][:12])
    found = diagnosis_of(made)
    wanted = {"site 1": "target", "site 3": "labels", "site 5": "units", "site 6": "rows",
              "site 7": "shared", "site 8": "shared", "site 9": "small"}  # fmt: skip
    assert codes(found) == {f"site {j}": wanted.get(f"site {j}", "alike") for j in range(11)}
    exchanged = found.of("site 1").reasons[0].text
    assert "other nine" in exchanged  # without the one in other units
    assert "where they say 'ill', you mostly write 'well'" in exchanged
    assert found.of("site 5").columns[0].name == "column 1"
    assert [(one.owner, one.rows) for one in found.of("site 7").shared] == [("site 8", 30)]
    assert found.trainings == 2 * 11 + 1 + 2 * 4 <= 3 * 11  # a forest, and the usual models
    wrong = found.of("site 3")
    assert wrong.disagreement is not None
    assert wrong.disagreement[1] < wrong.disagreement[0] < wrong.disagreement[2]
    assert wrong.usual_disagreement is not None
    assert wrong.usual_disagreement[1] < wrong.disagreement[1]
    assert found.matrix is not None
    assert found.matrix.tested_on[-1] == "test set"
    assert found.matrix.agreement[1][0] is not None
    assert found.matrix.agreement[1][0] < 0.3 < 0.8 < (found.matrix.agreement[0][2] or 0)
    assert Diagnosis.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_numbers_are_diagnosed_as_well() -> None:
    made = blocks(numbers=True)
    X, y = made["site 1"]
    made["site 1"] = (X, y / 1000)
    X, y = made["site 2"]
    y = y.copy()
    y[:60] = y[:60][::-1]
    made["site 2"] = (X, y)
    made["site 4"] = (made["site 4"][0] * [1, 1, 100, 1], made["site 4"][1])
    found = diagnosis_of(made, "ridge")
    wanted = {"site 1": "target", "site 2": "labels", "site 4": "units"}
    assert codes(found) == {f"site {j}": wanted.get(f"site {j}", "alike") for j in range(8)}
    assert "divided by about 0.0011" in found.of("site 1").reasons[0].text
    assert found.task == "regression"


def test_sums_tell_what_cannot_be_told_and_size_and_pools_still() -> None:
    made = blocks(4, numbers=True)
    X_test, y_test = made.pop("site 3")
    reduced = ds.Owners.from_statistics(ds.Owners.from_arrays(made).statistics("regression"))
    game = ds.ModelGame(reduced, "ridge", X_test, y_test)
    found = ds.diagnose(game, ds.value(game))
    assert found.trainings == 0
    assert [reason.code for reason in found.owners[0].reasons] == ["unknown", "size", "pools"]
    assert "Only sums" in found.owners[0].reasons[0].text
    assert ds.diagnose(table := ds.TableGame([0, 1, 2, 4]), ds.value(table)).owners[0].reasons


def test_odd_owners_are_diagnosed_without_an_error() -> None:
    made = blocks(5, rows=30)
    made["site 0"] = (made["site 0"][0][:1], made["site 0"][1][:1])  # a single row
    made["site 1"] = (made["site 1"][0], np.full(30, "ill"))  # a single class
    found = diagnosis_of(made)
    assert len(found.owners) == 4
    assert "exchanged" not in found.of("site 1").reasons[0].text
    two = diagnosis_of(dict(list(blocks(3).items())))
    assert [one.accused for one in two.owners] == [False, False]
    assert "nobody can tell whose" in two.owners[0].reasons[0].text


def test_sparse_rows_and_tables_with_text_are_diagnosed_as_well() -> None:
    made = blocks(5)
    sparse = diagnosis_of({name: (csr_array(X), y) for name, (X, y) in made.items()})
    assert sparse.matrix is not None
    assert sparse.notes == ()
    made["site 1"] = (made["site 1"][0] * [1, 1, 1, 50], made["site 1"][1])
    frames = {
        name: pd.DataFrame(X, columns=list("abcd")).assign(sex=list("mf") * 45, ill=y)
        for name, (X, y) in made.items()
    }
    test = frames.pop("site 4")
    owners = ds.Owners.from_tables(frames, target="ill")
    game = ds.ModelGame(owners, "logistic", *owners.align(test))
    found = ds.diagnose(game, valuation_of(game))
    assert found.of("site 1").reasons[0].text.startswith("“d” has a middle value of")
    assert found.target == "ill"
    assert found.notes == ()


class Broken(LogisticRegression):
    """Cannot be trained on many rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(X) > 100:
            raise MemoryError("too many rows")
        return super().fit(X, y)


def test_a_training_that_fails_is_noted_and_raises_nothing() -> None:
    found = diagnosis_of(blocks(4, rows=60), Broken())
    assert any("MemoryError: too many rows" in note for note in found.notes)
    assert all(one.reasons for one in found.owners)


def test_the_ledger_keeps_what_was_measured_to_the_last_bit(tmp_path: Path) -> None:
    made = blocks(5)
    X_test, y_test = made.pop("site 4")
    game = ds.ModelGame(ds.Owners.from_arrays(made), "logistic", X_test, y_test)
    valuation = valuation_of(game)
    first = ds.diagnose(game, valuation, ledger=tmp_path / "paid.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Probes, "evaluate", lambda *_: pytest.fail("it trained again"))
        assert ds.diagnose(game, valuation, ledger=tmp_path / "paid.sqlite") == first
    assert ds.diagnose(game, valuation) == first


def test_cross_validation_is_diagnosed_over_all_rows() -> None:
    made = blocks(4, rows=40)
    X, y = made["site 0"]
    made["site 0"] = (X, np.where(y == "ill", "well", "ill"))
    game = ds.FoldsGame(
        ds.Owners.from_arrays(made),
        lambda *split: ds.ModelGame(split[0], "logistic", *split[1:]),
        2,
    )
    found = ds.diagnose(game, valuation_of(game))
    assert found.owners[0].reasons[0].code == "target"
    assert found.matrix is not None
    assert found.matrix.tested_on == game.names
    assert found.owners[0].tested is None


def test_a_forged_reason_does_not_verify() -> None:
    made = blocks(4, rows=30)
    X_test, y_test = made.pop("site 3")
    game = ds.ModelGame(ds.Owners.from_arrays(made), "lda", X_test, y_test)
    valuation = ds.value(game)
    data = ds.settle(valuation, 100, diagnosis=ds.diagnose(game, valuation)).to_dict()
    assert ds.verify(data, game).holds
    data["diagnosis"]["owners"][0]["reasons"][0]["text"] = "All is well."
    data["seal"] = seal(data)
    verdict = ds.verify(data, game)
    assert [f.name for f in verdict.findings if f.holds is False] == ["diagnosis"]


def squares() -> Any:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(900, 2))
    y = (X.prod(axis=1) > 0).astype(int)  # what no straight line tells apart
    return X, y, {f"site {j}": (X[j:800:4], y[j:800:4]) for j in range(4)}


def test_a_clearly_better_usual_model_is_named_by_the_owners_rows_alone() -> None:
    X, y, made = squares()
    game = ds.ModelGame(ds.Owners.from_arrays(made), "logistic", X[800:], 1 - y[800:])
    note = better_model(game, scores_of_usual(game, 12), 12)
    assert note is not None  # though a test set of wrong labels would speak against it
    assert "knn scores 0.9" in note or "gbdt scores 0.9" in note


def test_a_model_is_not_told_that_it_is_better_than_itself() -> None:
    needs("lightgbm")
    X, y, made = squares()
    best = ds.ModelGame(ds.Owners.from_arrays(made), "gbdt", X[800:], y[800:])
    assert "gbdt scores" not in (better_model(best, scores_of_usual(best, 12), 12) or "")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def test_several_models_and_scores_stand_beside_the_one_that_pays(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["owners", "--by-file", "--target", "y", "--test", "test.csv", "--model", "lda,knn"]
    pot = ["--scoring", "accuracy,auc", "--pot", "100", "--method", "loo"]
    assert run("value", *job, *pot) == 0
    told = capsys.readouterr()
    assert "and up to 7 trainings more, apart from the budget" in told.err
    assert "under each of 3 other ways to value" in told.err
    assert "lda, accuracy" in told.out
    assert "everybody's score" in told.out
    diagnosis = json.loads((folder / "settlement.json").read_text())["diagnosis"]
    beside = [(one["model"], one["scoring"]) for one in diagnosis["alternatives"]]
    assert beside == [(m, s) for m in ("lda", "knn") for s in ("accuracy", "roc_auc")]
    paid = json.loads((folder / "settlement.json").read_text())["valuation"]
    assert diagnosis["alternatives"][0]["values"] == paid["values"]
    assert run("verify", "settlement.json", "owners", "test.csv") == 0
    told = capsys.readouterr().out
    assert "not looked at: diagnosis" in told.splitlines()[0]
    assert "other models were not computed again" in told
    assert run("quote", *job) == 2
    assert "only `value` shows several" in capsys.readouterr().err


def test_what_cannot_be_measured_costs_nobody_the_values(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no room")

    monkeypatch.setattr(ds, "diagnose", broken)
    job = ["owners", "--by-file", "--target", "y", "--test", "test.csv", "--model", "lda"]
    assert run("value", *job, "--pot", "100") == 0
    assert "Why could not be measured: RuntimeError: no room" in capsys.readouterr().err
    assert "diagnosis" not in json.loads((folder / "settlement.json").read_text())
    assert run("value", *job, "--pot", "100", "--no-why", "--force") == 0
    assert "apart from the budget" not in capsys.readouterr().err


def test_a_small_owner_whose_rows_are_like_the_others_is_not_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of its rows must be left out by some tree, or its area is that of a few votes."""
    monkeypatch.setattr(difference, "TREES", 50)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        own, others = rng.normal(size=(40, 8)), rng.normal(size=(600, 8))
        found, error, *_ = difference.told_apart([own, *np.split(others, 6)], seed)
        assert abs(found - 0.5) < 0.25
        assert 0.02 < error < 0.1


def test_a_label_that_is_common_with_one_owner_is_told_and_no_accusation() -> None:
    rng = np.random.default_rng(5)
    made = {}
    for j in range(9):
        y = np.where(rng.random(160) < (0.75 if j == 2 else 0.25), "ill", "well")
        made[f"site {j}"] = (rng.normal(np.where(y == "ill", 0.9, 0.0)[:, None], size=(160, 3)), y)
    found = diagnosis_of(made).of("site 2")
    assert "labels" not in [reason.code for reason in found.reasons]
    told = {reason.code: reason.text for reason in found.reasons}
    assert "more common with you, or written by another rule" in told["common"]
    assert not Reason("common", told["common"]).accuses
    shares = (np.mean(made["site 2"][1] == "ill"), np.mean(made["site 2"][1] == "well"))
    assert any(f"{100 * share:.0f}%" in told["common"] for share in shares)


def test_two_of_five_who_exchange_labels_are_told_as_a_group() -> None:
    made = blocks(6)
    for name in ("site 1", "site 3"):
        X, y = made[name]
        made[name] = (X, np.where(y == "ill", "well", "ill"))
    found = diagnosis_of(made)
    assert [one.owner for one in found.owners if one.accused] == ["site 1", "site 3"]
    assert "of the labels of one other owner" in found.of("site 1").reasons[0].text
    assert "of those of three others" in found.of("site 1").reasons[0].text
    assert found.of("site 0").reasons[0].code == "unknown"  # who is right, nobody can tell


def test_the_sentence_quotes_what_led_to_it_and_whom_the_range_leaves_out() -> None:
    made = blocks(9)
    X, y = made["site 1"]
    made["site 1"] = (X, np.where(np.arange(90) < 36, np.where(y == "ill", "well", "ill"), y))
    made["site 4"] = tuple(part[:12] for part in made["site 4"])
    found = diagnosis_of(made)
    wrong = found.of("site 1").wrong
    assert wrong is not None
    text = found.of("site 1").reasons[0].text
    assert f"{100 * wrong[0]:.0f}% look wrong" in text
    assert "without one of few rows" in text
    assert "without one that stands out and one of few rows" in found.of("site 0").reasons[0].text
    assert all(0 <= end <= 1 for one in found.owners for end in one.wrong or ())
    tiny = " ".join(reason.text for reason in found.of("site 4").reasons)
    assert "which no range given here covers" in tiny


def test_a_diagnosis_takes_at_most_three_trainings_an_owner() -> None:
    for n in (2, 3, 5, 9, 14):
        made = {f"site {j}": (np.eye(2), np.array([0, 1])) for j in range(n)}
        game = ds.ModelGame(ds.Owners.from_arrays(made), "lda", 2 + np.eye(2), np.array([0, 1]))
        assert 2 * n < most_trainings(game) <= 3 * n


def test_the_interval_of_a_mean_of_parts_covers_also_where_sizes_are_unequal() -> None:
    rng, rows = np.random.default_rng(0), np.array([10.0, 20, 40, 2000])
    truth = np.array([0.5, 0.9, 0.7, 0.8])
    drawn = [mean_part(rng.binomial(rows.astype(int), truth) / rows, rows) for _ in range(2000)]
    covers = [abs(mean - truth.mean()) <= 1.96 * error for mean, error in drawn]
    assert 0.93 < np.mean(covers) < 0.99


def test_clean_owners_of_skewed_numbers_are_not_accused() -> None:
    rng, accused = np.random.default_rng(2), 0
    for _ in range(2):
        made = {}
        for j in range(9):
            X = rng.normal(size=(80, 3))
            made[f"site {j}"] = (X, np.exp(X.sum(axis=1) / 2 + rng.normal(size=80)))
        accused += sum(one.accused for one in diagnosis_of(made, "ridge").owners)
    assert accused == 0
