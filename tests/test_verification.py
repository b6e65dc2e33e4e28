"""A settlement holds until anything in it, or under it, is changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dushapley as ds
from dushapley.errors import InvalidSettlement
from dushapley.games.policy import Training
from dushapley.settlement.comparison import first_difference
from dushapley.settlement.settlement import seal
from dushapley.settlement.verification import file_hashes, verify


class Formula(ds.DatasetGame):
    """A utility of a dataset that trains and tests nothing."""

    def __init__(self, *whose: Any, **how: Any) -> None:
        super().__init__(*whose, **how)
        self.training = Training(deterministic=True)


def game(shift: float = 0.0) -> ds.DatasetGame:
    rng = np.random.default_rng(0)
    blocks = {name: rng.normal(size=(9 + k, 2)) for k, name in enumerate("abcd")}
    blocks["a"][0, 0] += shift
    owners = ds.Owners.from_arrays(blocks)
    return Formula(owners, lambda X, y: float(np.tanh(np.abs(X).sum() / 60)), fingerprint="u")


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    valuation = ds.value(game(), "permutation", budget=40, seed=5)
    return json.loads(ds.settle(valuation, "1000.01", currency="EUR").to_json())


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(data, dict):
        for key, item in data.items():
            yield from leaves(item, (*path, key))
    elif isinstance(data, list):
        for i, item in enumerate(data):
            yield from leaves(item, (*path, i))
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield path


def changed(data: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    other = copy.deepcopy(data)
    inside = other
    for key in path[:-1]:
        inside = inside[key]
    number = inside[path[-1]]
    inside[path[-1]] = number + 1 if isinstance(number, int) else float(np.nextafter(number, 9e9))
    return other


def test_an_honest_settlement_holds(stored: dict[str, Any]) -> None:
    verdict = verify(stored, game())
    assert verdict.holds, verdict
    assert "same to the last bit" in repr(verdict)


def test_one_number_changed_by_the_smallest_step_fails(stored: dict[str, Any]) -> None:
    paths = list(leaves(stored))
    assert len(paths) > 40
    for path in paths:
        found = changed(stored, path)
        assert seal(found) != found["seal"], path
    some = paths[:: len(paths) // 12]
    for path in some:
        try:
            verdict = verify(changed(stored, path), game())
        except InvalidSettlement:
            continue
        assert not verdict.holds, path
        assert "was changed" in repr(verdict)


@pytest.mark.parametrize("name", ["payment", "low", "by_size"])
def test_a_payment_changed_is_named(stored: dict[str, Any], name: str) -> None:
    found = copy.deepcopy(stored)
    found["payments"][2][name] = "0.77"
    found["seal"] = seal(found)  # by somebody who knows how
    verdict = verify(found, game())
    assert not verdict.holds
    words = {"payment": "the payment of", "low": "the lower end of the payment of"}
    told = words.get(name, "the payment by size of")
    assert f"{told} {found['payments'][2]['owner']!r} is 0.77, computed again" in repr(verdict)


def test_an_interval_invented_for_one_owner_is_refused(stored: dict[str, Any]) -> None:
    found = copy.deepcopy(stored)
    for line in found["payments"]:
        line["low"] = line["high"] = None
    found["payments"][2]["low"] = "0.77"
    found["seal"] = seal(found)
    with pytest.raises(InvalidSettlement, match="some payments have an interval"):
        verify(found, game())


def test_values_changed_with_all_that_follows_are_found(stored: dict[str, Any]) -> None:
    data = copy.deepcopy(stored["valuation"])
    data["values"][0] += 1e-4
    data["values"][1] -= 1e-4
    forged = ds.settle(ds.Valuation.from_dict(data), "1000.01", currency="EUR").to_dict()
    verdict = verify(forged, game())
    assert not verdict.holds
    assert f"the value of {data['owners'][0]!r} is" in repr(verdict)
    assert [f.name for f in verdict.findings if f.holds is False] == ["values"]


def test_other_data_are_another_game(stored: dict[str, Any]) -> None:
    verdict = verify(stored, game(shift=1e-12))
    assert not verdict.holds
    assert "FAILED    game: data, model, score or seed" in repr(verdict)
    assert "not made  values: this is another game" in repr(verdict)


def test_a_bare_function_is_computed_again_and_said_to_be_one() -> None:
    bare = ds.CallableGame(lambda z: z.sum(axis=1), 2)
    verdict = verify(ds.settle(ds.value(bare, "exact"), 10), bare)
    assert verdict.holds
    assert [f.holds for f in verdict.findings if f.name in ("inputs", "game", "values")] == [
        None, None, True,
    ]  # fmt: skip


def test_one_byte_of_a_file_is_found(tmp_path: Path) -> None:
    file, test = tmp_path / "a.csv", tmp_path / "test.csv"
    file.write_bytes(b"x,y\n1,2\n")
    test.write_bytes(b"x,y\n3,4\n")
    inputs = [*file_hashes([file]), *file_hashes([test], "test")]
    s = ds.settle(ds.value(game(), "exact"), 10, record={"inputs": inputs})
    assert verify(s, game(), inputs=inputs).holds
    file.write_bytes(b"x,y\n1,3\n")
    now = [*file_hashes([file]), *file_hashes([test], "test")]
    verdict = verify(s, game(), inputs=now)
    assert not verdict.holds
    assert "file 'a.csv' has changed" in repr(verdict)
    assert {f.name: f.holds for f in verdict.findings} == {
        "seal": True, "payments": True, "inputs": False, "versions": True, "game": None,
        "values": None, "notes": None, "terms": None,
    }  # fmt: skip
    assert "not made  values: inputs failed" in repr(verdict)
    assert "test file 'test.csv' is missing" in repr(verify(s, game(), inputs=inputs[:1]))
    more = [*inputs, {"name": "b.csv", "role": "owners", "sha256": "0"}]
    assert "not an input of this settlement" in repr(verify(s, game(), inputs=more))


def test_from_the_ledger_nothing_is_computed(tmp_path: Path) -> None:
    valuation = ds.value(game(), "permutation", budget=40, ledger=tmp_path / "l")
    s = ds.settle(valuation, 10)
    assert "0 evaluations computed again" in repr(verify(s, game(), ledger=tmp_path / "l"))
    assert verify(s, game()).holds


def test_a_run_that_stopped_at_its_precision_holds() -> None:
    v = ds.value(game(), "permutation", budget=4000, precision=0.3)
    assert v.n_evaluations < 4000
    assert verify(ds.settle(v, 10), game()).holds


def test_what_is_no_settlement_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settlement.json"
    path.write_text("{")
    with pytest.raises(InvalidSettlement, match="not a readable settlement"):
        verify(path, game())
    path.write_text('{"format": "x"}')
    with pytest.raises(InvalidSettlement, match="It must be"):
        verify(path, game())


def test_differences_are_told_by_place() -> None:
    assert first_difference({"a": [1, {"b_c": 2.0}]}, {"a": [1, {"b_c": 3.0}]}) == (
        "a, entry 2, b c is 2.0, computed again 3.0"
    )
    assert first_difference([1.0], [1.0 + 1e-12], tolerance=1e-9) is None
    assert first_difference({"a": 1}, {}) == "a is 1, computed again missing"
    long = {"guarantee": {"bound": 1, "more": "x" * 10**6}}
    assert first_difference(long, {"guarantee": None}) == (
        "guarantee is 2 entries, computed again missing"
    )
    assert first_difference({"a": [1]}, {"a": []}) == "a is 1 entry, computed again 0 entries"
