"""Files that were forged, sealed again, or made to hang or mislead whoever reads them."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dushapley as ds
from dushapley.cli.main import main
from dushapley.errors import DUShapleyError, InvalidSettlement
from dushapley.settlement.settlement import seal
from dushapley.settlement.stored import read_stored
from dushapley.settlement.verification import verify
from dushapley.validation import MOST_DEPTH, strict_json

pytestmark = pytest.mark.filterwarnings("ignore::dushapley.errors.SharedRows")
JOB = ["owners", "--by-file", "--target", "y", "--test", "test.csv", "--seed", "3"]
JOB += ["--pot", "1000", "--currency", "EUR"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three owners, one of whom holds rows of the test set, and their settlement."""
    place = tmp_path_factory.mktemp("forged")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    rows = pd.DataFrame(X, columns=["a", "b"]).assign(y=X @ [1, 2] + rng.normal(size=90))
    (place / "owners").mkdir()
    for k, name in enumerate(("north", "south", "east")):
        rows[k * 20 : k * 20 + 20].to_csv(place / f"owners/{name}.csv", index=False)
    rows[50:].to_csv(place / "test.csv", index=False)  # ten rows of the east's are among them
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert run("value", *JOB) == 0
    return place


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


@pytest.fixture
def settled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    return json.loads((folder / "settlement.json").read_text())


def verified(data: Any, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    Path("forged.json").write_text(json.dumps(data))
    capsys.readouterr()
    code = run("verify", "forged.json", "owners", "test.csv", *more)
    told = capsys.readouterr()
    return code, told.out + told.err


def changed(data: Any, path: str, item: Any) -> Any:
    """The data with one entry replaced, and sealed again."""
    forged = copy.deepcopy(data)
    inside, (*way, last) = forged, path.split(".")
    for key in way:
        inside = inside[int(key) if key.isdigit() else key]
    inside[int(last) if last.isdigit() else last] = item
    return forged | {"seal": seal(forged)}


def test_the_honest_one_holds(settled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = verified(settled, capsys)
    assert code == 0, told
    assert any("test set" in note for note in settled["valuation"]["notes"])
    assert "compare with what was agreed: 1,000.00 EUR, rule 'clip', method 'auto'" in told
    assert "n_computed" in told


@pytest.mark.parametrize(
    ("path", "item", "said"),
    [
        ("valuation.notes", [], "FAILED    notes: left out"),
        ("valuation.notes.0", "All is well.", "FAILED    notes"),
        ("valuation.guarantee", {"bound": 0.001}, "guarantee"),
        ("valuation.details", {"trail": {}}, "details"),
        ("valuation.u_full", 0.123, "the score of everybody's data (u_full) is 0.123"),
        ("valuation.biased", True, "FAILED"),
        ("valuation.failures", {"x": 3}, "failures"),
        ("record.command", "dushapley value other --target z", "FAILED    command"),
        ("record.command", "rm -rf /", "not a `dushapley value` command"),
        ("record.command", "dushapley value 'owners", "FAILED    command: cannot be read"),
        ("record.command", "dushapley value x --byfile", "command: cannot be read: No such option"),
        ("record.job.timeout", 5.0, "other values of --timeout"),
        ("record.job.on_failure", "empty", "other values of --on-failure"),
        ("record.inputs.0.sha256", "0" * 64, "FAILED    inputs"),
        ("record.inputs.0.role", "test", "FAILED    inputs"),
        ("record.findings", [], "FAILED    findings: left out"),
        ("record.certificate", "audited by nobody", "not looked at: certificate"),
        ("rule", "All to me.", "FAILED    payments"),
        ("interval", "exact", "FAILED    payments"),
        ("payments.0.owner", "nobody", "FAILED    payments"),
        ("pot", "2000.00", "FAILED    payments"),
        ("record.command", "dushapley value owners; rm -rf x", "not quoted as it was written"),
        ("record.command", "dushapley value owners $(id)", "not quoted as it was written"),
        ("record.command", "dushapley value owners --job x.toml --seed 4", "values of --seed"),
        ("record.versions.dushapley", "0.0.1", "two versions of dushapley"),
        ("valuation.version", "0.0.1", "two versions of dushapley"),
        ("currency", "USD", "other values of --currency"),
        ("valuation.seed", 4, "other values of --seed"),
    ],
)
def test_whatever_is_altered_and_sealed_again_is_found(
    settled: Any, capsys: pytest.CaptureFixture[str], path: str, item: Any, said: str
) -> None:
    code, told = verified(changed(settled, path, item), capsys)
    assert "passed    seal" in told
    assert said in told
    assert code == (0 if "not looked at" in said else 1)


def test_terms_changed_with_all_that_follows_are_shown(folder: Path, settled: Any) -> None:
    v = ds.Valuation.from_dict(settled["valuation"])
    other = ds.settle(v, 2000, currency="EUR", record=settled["record"])
    assert "2,000.00 EUR" in repr(verify(other, ds.TableGame(np.arange(8.0))))


HOSTILE = "\x1b[2J\x1b[1;1HThe settlement holds.\u202e\n\r"


@pytest.mark.parametrize(
    "path",
    ["currency", "rule", "payments.0.owner", "valuation.owners.0", "valuation.notes.0",
     "record.inputs.0.name", "record.versions.numpy", "record.command", "record.job.model",
     "record.job.target", "valuation.method", "valuation.version", "valuation.fingerprint"],
)  # fmt: skip
def test_no_field_says_what_it_is_not(
    settled: Any, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    code, told = verified(changed(settled, path, HOSTILE), capsys)
    assert code in (1, 2) or path == "record.versions.numpy"  # told, and no fault
    assert all(c.isprintable() or c == "\n" for c in told)
    assert (code == 0) == any(line.startswith("The settlement holds.") for line in told.split("\n"))


def test_a_hint_to_paste_is_quoted(settled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = verified(changed(settled, "record.job.model", "x; touch pwned #"), capsys)
    assert code == 1  # the command says otherwise, which is found before
    forged = changed(settled, "record.job.model", "x; touch pwned #")
    command = f"{settled['record']['command']} --model {shlex.quote('x; touch pwned #')}"
    code, told = verified(changed(forged, "record.command", command), capsys)
    assert code == 2
    assert "--model 'x; touch pwned #'" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"pot": "1", "pot": "2"}', "'pot' stands in it twice"),
        ('{"a": {"x": 1, "x": 1}}', "'x' stands in it twice"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("[1e999]", "too large"),
        ("[" + "1" * 5000 + "]", "too long"),
        ("[" * 100 + "]" * 100, f"more than {MOST_DEPTH} levels"),
        ("[" * 100_000, "levels"),
        ('{"a":' * 50_000, "levels"),
        ("[" + "0," * 3_000_001 + "0]", "entries"),
    ],
)
def test_json_has_one_reading_or_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        strict_json(text.encode())


def test_double_keys_are_refused_under_a_valid_seal(
    folder: Path, settled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(settled)
    assert json.loads(text.replace('"pot"', '"pot": "9999999.00", "pot"', 1)) == settled
    (folder / "double.json").write_text(text.replace('"pot"', '"pot": "9999999.00", "pot"', 1))
    assert run("verify", "double.json", "owners", "test.csv") == 2
    assert "'pot' stands in it twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", 'JSON, an object without a "format"'),
        ("[]", "but not an object"),
        ('{"format": "dushapley.settlement/3"}', "with the format 'dushapley.settlement/3'"),
        ('{"format": "dushapley.settlement/1"}', "it is one of an earlier version"),
        ('{"format": "dushapley.settlement/2"}', "it lacks ['currency'"),
        ('{"format": [1]}', "with the format [1]"),
        ("null", "not a settlement of this version"),
        ("", "not a readable settlement"),
        ("\xff", "not a"),
    ],
)
def test_other_files_are_told_apart(
    folder: Path, settled: Any, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    Path("other.json").write_text(content, encoding="latin-1")
    assert run("verify", "other.json", "owners", "test.csv") == 2
    assert said in capsys.readouterr().err
    Path("other.json").write_text(json.dumps(settled["valuation"]))
    assert run("verify", "other.json", "owners", "test.csv") == 2
    assert "it is a valuation: it says what everybody's data is worth" in capsys.readouterr().err


def together(*changes: tuple[str, Any]) -> Callable[[Any], Any]:
    def forged(data: Any) -> Any:
        for path, item in changes:
            data = changed(data, path, item)
        return data

    return forged


@pytest.mark.parametrize(
    ("forged", "added", "said"),
    [
        (together(("record.job.repeats", 10**9)), "--repeats 1000000000", "at most 1,000"),
        (together(("valuation.budget", 10**15), ("valuation.method", "permutation"),
                  ("valuation.options", {})), "--budget 1000000000000000 --method permutation",
         "Agree with --yes"),
        (together(("valuation.budget", 10**16)), "", "must be a whole number"),
        (together(("pot", "1" * 50)), "", "an amount like"),
        (together(("floor", "1e-99999999"), ("negative", "floor")), "", "a part from 0 to 1"),
        (together(("decimals", 10**9)), "", "a whole number from 0 to 18"),
        (together(("valuation.values", [1e308] * 3)), "", "up to 1e+140"),
        (together(("valuation.covariance", [[1.0]])), "", "a list of 3 entries"),
        (together(("record.job.cv", 10**9), ("record.job.test", None)), "--cv 1000000000",
         "values of --test"),
        (together(("record.job.files", {"a": 1}), ("record.job.holdout", "x")), "", "holdout"),
    ],
)  # fmt: skip
def test_what_would_never_end_is_asked_about_or_refused(
    settled: Any, capsys: pytest.CaptureFixture[str], forged: Callable[[Any], Any], added: str,
    said: str,
) -> None:  # fmt: skip
    data = forged(settled)
    data = changed(data, "record.command", f"{data['record']['command']} {added}".strip())
    code, told = verified(data, capsys)
    assert code in (1, 2)
    assert said in told


def test_the_library_asks_before_endless_work_too() -> None:
    game = ds.CallableGame(lambda z: z.sum(axis=1), 3)
    stored = ds.settle(ds.value(game, "permutation", budget=30), 10).to_dict()
    stored["valuation"]["budget"] = 10**15
    stored["seal"] = seal(stored)
    with pytest.raises(InvalidSettlement, match="1,000,000,000,000,000 evaluations may be needed"):
        verify(stored, game)
    stored["valuation"]["budget"] = 60
    stored["seal"] = seal(stored)
    with pytest.raises(InvalidSettlement, match="most_evaluations=60"):
        verify(stored, game, most_evaluations=59)
    assert not verify(stored, game, most_evaluations=60).holds


@pytest.mark.parametrize(
    "option",
    [["--pot", "1e99999999"], ["--pot", "1e-99999999"], ["--pot", "9" * 5000], ["--pot", "NaN"],
     ["--pot", "1_000"], ["--pot", "１０００"],
     ["--negative", "floor", "--floor", "1e-99999999"], ["--pot", "1e40"],
     ["--negative", "floor", "--floor", "1_0e-9_999_999"]],
)  # fmt: skip
def test_amounts_that_would_never_end_are_refused(
    settled: Any, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    job = ["owners", "--by-file", "--target", "y", "--test", "test.csv", "--pot", "10", *option]
    assert run("value", *job) == 2
    assert "must be" in capsys.readouterr().err
    v = ds.value(ds.TableGame([0, 1, 2, 4]), "exact")
    with pytest.raises(InvalidSettlement, match="below 1e40"):
        ds.settle(v, 10**6000)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "x/" * 3000, "no-such-file", ".", ""])
def test_paths_that_cannot_be_are_a_sentence(settled: Any, name: str) -> None:
    with pytest.raises(InvalidSettlement):
        read_stored(name)
    with pytest.raises(DUShapleyError):
        ds.Owners.from_files([name], target="y")
    with pytest.raises(DUShapleyError):
        ds.Owners.from_statistics([name])
    assert run("verify", name, "owners", "test.csv") in (1, 2)
    assert run("verify", "settlement.json", name) in (1, 2)
    assert name in (".", "") or run("value", name, *JOB[1:]) in (1, 2)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e9])
def test_values_of_any_scale_are_compared_at_their_scale(scale: float) -> None:
    game = ds.TableGame(scale * np.array([0, 1, 2, 4, 3, 5, 7, 9.0]))
    v = ds.value(game, "exact")
    total = v.values.sum()
    forged = replace(v, values=total * np.array([0.98, 0.01, 0.01]))
    assert not verify(ds.settle(forged, 100), game).holds
    rounded = replace(v, values=v.values * (1 + 1e-13))
    assert verify(ds.settle(rounded, 100), game).holds
    assert not verify(ds.settle(replace(v, u_empty=scale * 1e-10), 100), game).holds


def test_what_rounding_explains_moves_no_money() -> None:
    game = ds.CallableGame(lambda z: z @ [-1.0, 1e-10, 1e-10], 3)
    v = ds.value(game, "exact")
    forged = replace(v, values=v.values + np.array([0, 1e-10, -1e-10]))
    verdict = verify(ds.settle(forged, 100), game)
    assert "the payment of 'owner 2' is 100.00, computed again 50.00" in repr(verdict)
    assert not verdict.holds


def test_what_was_not_looked_at_stands_in_the_first_line(
    settled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    older = together(("valuation.version", "0.0.1"), ("record.versions.dushapley", "0.0.1"))
    code, told = verified(changed(older(settled), "valuation.notes", []), capsys)
    assert code == 0
    assert "The settlement holds, as far as it was looked at; not looked at: notes." in told
    reworded = [one | {"message": "As it was said then."} for one in settled["record"]["findings"]]
    assert reworded
    code, told = verified(changed(older(settled), "record.findings", reworded), capsys)
    assert code == 0
    assert "holds, as far as it was looked at; not looked at: findings." in told
    bare = {name: part for name, part in settled.items() if name != "diagnosis"}
    code, told = verified(changed(bare, "record.versions.numpy", "1"), capsys)
    assert "holds, as far as it was looked at; not looked at: diagnosis." in told
    command = "dushapley value owners --job x.toml --seed 3"
    code, told = verified(changed(settled, "record.command", command), capsys)
    assert "holds, as far as it was looked at; not looked at: command." in told
    code, told = verified(changed(settled, "record.versions", {"dushapley": "0.1.0"}), capsys)
    assert "not recorded, and here: python, numpy" in told


@pytest.mark.parametrize("note", ["[ok] Audited.", "Audited. [ok]", "Audited. [encoding] by me"])
def test_invented_notes_and_findings_fail(
    settled: Any, capsys: pytest.CaptureFixture[str], note: str
) -> None:
    notes = [*settled["valuation"]["notes"], note]
    code, told = verified(changed(settled, "valuation.notes", notes), capsys)
    assert code == 1
    assert "FAILED    notes" in told
    found = [*settled["record"]["findings"], {"code": "ok", "message": note}]
    code, told = verified(changed(settled, "record.findings", found), capsys)
    assert code == 1
    assert "FAILED    findings" in told


def test_how_a_file_was_read_is_shown_or_refused(
    settled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = verified(changed(settled, "record.inputs.0.read", {"skip": 3}), capsys)
    assert code == 2
    assert "unknown ['skip']" in told
    code, told = verified(changed(settled, "record.inputs.0.read", {"sep": ","}), capsys)
    assert "with sep ',', as recorded: " in told


def test_owners_that_are_no_list_are_a_sentence_beside_a_diagnosis(
    settled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "diagnosis" in settled
    code, told = verified(changed(settled, "valuation.owners", 1), capsys)
    assert code in (1, 2)
    assert "owners is 1, which must be a list" in told
    assert "TypeError" not in told


def test_a_diagnosis_is_the_same_to_what_is_said(
    settled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    gain = settled["diagnosis"]["owners"][0]["first_gain"]
    for part, holds in ((1e-13, True), (1e-7, False)):
        forged = changed(settled, "diagnosis.owners.0.first_gain", gain * (1 + part))
        code, told = verified(forged, capsys)
        assert (code == 0) == holds
        assert ("diagnosis: the same to 1e-09, by" in told) == holds


def test_a_wide_settlement_is_refused_before_its_lines_are_read(settled: Any) -> None:
    wide = settled | {"payments": settled["payments"] * 1_000_000}
    with pytest.raises(InvalidSettlement, match="at most 100,000 entries"):
        verify(wide, None)
    wide["valuation"] = settled["valuation"] | {"owners": ["x"] * 3_000_000}
    with pytest.raises(InvalidSettlement, match="at most 100,000 entries"):
        verify(wide, None)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
def test_a_small_gain_that_was_forged_is_found(scale: float) -> None:
    game = ds.CallableGame(lambda z: scale * (z @ [0.5, 0.3, 1e-5]), 3)
    v = ds.value(game, "exact")
    found = ds.diagnose(game, v)
    honest = ds.settle(v, 100, diagnosis=found)
    assert verify(honest, game).holds
    for name, part, holds in (("first_gain", 1e-6, False), ("by_size", 1e-6, False)):
        data = honest.to_dict()
        gain = data["diagnosis"]["owners"][0][name]
        assert gain is not None
        forged = changed(data, f"diagnosis.owners.0.{name}", gain * (1 + part))
        verdict = verify(forged, game)
        assert verdict.holds == holds
        assert "'owner 1'" in repr(verdict)
        assert verify(changed(data, f"diagnosis.owners.0.{name}", gain * (1 + 1e-13)), game).holds


def test_a_run_ends_where_the_settlement_says_and_that_is_said() -> None:
    game = ds.CallableGame(lambda z: (z @ [1, 2, 3, 4.0]) ** 0.5, 4)
    by_precision = ds.settle(ds.value(game, "permutation", budget=4000, precision=0.05), 100)
    assert "stop" not in repr(verify(by_precision, game))
    for part in (1.0, 0.01):
        data = changed(by_precision.to_dict(), "valuation.precision", part)
        assert not verify(data, game).holds
    v = ds.value(game, "permutation", budget=4000, stop=lambda e: e.std_errors.max() < 0.05)
    honest = ds.settle(v, 100).to_dict()
    told = repr(verify(honest, game))
    assert "not looked at: inputs, game, stop." in told
    assert f"a test of when to end, which ended at {v.n_evaluations:,} evaluations" in told
    for at in (100, v.n_evaluations - 1, v.n_evaluations + 1, 10**6, 2):
        assert not verify(changed(honest, "valuation.details.stopped_at", at), game).holds
    for odd in ("Audited(0.01)" + HOSTILE, True, -1, 1.5, [100]):
        with pytest.raises(InvalidSettlement, match="What ended its run"):
            verify(changed(honest, "valuation.details.stopped_at", odd), game)


def test_findings_are_told_in_words(settled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first = settled["record"]["findings"][0]
    forged = changed(settled, "record.findings.0.severity", "stop")
    code, told = verified(forged, capsys)
    assert code == 1
    assert f"{first['message']} (" in told
    assert "severity 'stop'" in told
    assert '"severity":' not in told
    code, told = verified(changed(settled, "valuation.notes", []), capsys)
    assert "FAILED    notes: left out" in told
    data = changed(settled, "payments.1.payment", "9.99")
    code, told = verified(data, capsys)
    assert f"the payment of {settled['payments'][1]['owner']!r} is 9.99, computed again" in told
    assert "payments[" not in told


@pytest.mark.parametrize(
    ("method", "n", "options"),
    [("owen", 6, {}), ("sobol", 6, {}), ("stratified-svarm", 6, {}), ("kernel", 40, {}),
     ("kernel", 6, {"borders": False}), ("leverage", 40, {}),
     ("stratified-svarm", 40, {"form": "+"})],
)  # fmt: skip
def test_a_plan_that_no_memory_holds_is_refused_before_any_training(
    method: str, n: int, options: dict[str, Any]
) -> None:
    asked: list[int] = []
    game = ds.CallableGame(lambda z: asked.append(len(z)) or z.sum(axis=1), n)
    with pytest.raises(ds.errors.InvalidOption, match="fit in memory"):
        ds.value(game, method, options=options, budget=10**12)
    assert asked == []
