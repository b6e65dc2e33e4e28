"""Why data is worth what it is: stored under the seal, measured, and put into words."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

import dushapley as ds
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
        (lambda d: d.update(format="other"), "dushapley.diagnosis/1"),
        (lambda d: d.update(more=1), "has unknown"),
    ],
)
def test_what_is_not_a_diagnosis_is_refused_by_its_field(spoil: Any, said: str) -> None:
    data = deepcopy(stored())
    spoil(data["diagnosis"])
    with pytest.raises(InvalidSettlement, match=said):
        ds.Settlement.from_dict(data)
