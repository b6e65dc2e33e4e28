"""What an owner receives: letters whose every number is in the settlement, payments to act on."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dushapley as ds
from dushapley import report
from dushapley.cli.main import main
from dushapley.errors import DUShapleyError
from dushapley.report.page import embedded
from dushapley.report.payments import payments_csv, payments_frame, payments_workbook
from dushapley.results.diagnosis import Diagnosis, OwnerDiagnosis, Reason
from dushapley.settlement.growth import measure_growth

NAMES = ("Aalborg", "Bergen", "=Cadiz+1", "北京大学第一医院", "Evora")
PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
RECORD = {
    "inputs": [
        {"name": f"{name}.csv", "role": "owners", "sha256": f"{k:064x}"}
        for k, name in enumerate(NAMES)
    ],
    "about": {"model": "LogisticRegression", "score": "accuracy", "tested": "on 77 rows of t.csv"},
}


def settled(**more: Any) -> ds.Settlement:
    weights = np.array([6.0, 4.0, 3.0, 0.4, -3.0])
    game = ds.CallableGame(
        lambda z: np.tanh(z @ weights / 9), 5, sizes=[400, 300, 200, 7, 150], names=NAMES,
        fingerprint="letters",
    )  # fmt: skip
    v = ds.value(game, "permutation", budget=300)
    why = Diagnosis(
        task="classification",
        target="ill",
        trainings=9,
        owners=tuple(
            OwnerDiagnosis(name, (Reason("labels", f"Reason of {name}."),)) for name in NAMES
        ),
    )
    given: dict[str, Any] = {"currency": "EUR", "negative": "charge", "record": RECORD}
    return ds.settle(v, "98765.43", **given | {"diagnosis": why} | more)


def seen(page: str) -> str:
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def numbers_of(text: str) -> list[str]:
    return [t.strip(".,") for t in re.findall(r"(?<![0-9a-f])−?\d[\d,.]*(?![0-9a-f]{5})", text)]


def plausible(data: dict[str, Any], i: int) -> set[str]:
    """Every number that a letter to owner i may hold, from the file alone, as people write them."""
    v, line = data["valuation"], data["payments"][i]
    error = 1.96 * v["std_errors"][i]
    pot, paid = Decimal(data["pot"]), Decimal(line["payment"])
    amounts = [abs(paid), pot, *(abs(Decimal(line[k])) for k in ("low", "high", "by_size"))]
    expected = (data.get("diagnosis") or {"owners": [{}] * len(v["owners"])})["owners"][i]
    by_size = sum(v["values"]) * v["sizes"][i] / sum(v["sizes"])
    by_size = by_size if expected.get("by_size") is None else expected["by_size"]
    ends = (v["values"][i] - error, v["values"][i] + error)  # of the picture, as its tick is
    values = [v["values"][i], v["u_empty"], v["u_full"], by_size, *ends]
    known = {f"{a:,.2f}" for a in amounts} | {f"{x:.{d}f}" for x in values for d in (3, 4)}
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    known |= {f"{error:.{digits}f}", f"{100 * abs(paid / pot):.1f}"}
    known |= {f"{v['sizes'][i]:.0f}", f"{100 * v['sizes'][i] / sum(v['sizes']):.1f}"}
    known |= {str(len(v["owners"])), "95", "77", "256", v["version"]}
    known.add(str(1 + sum(x > v["values"][i] for x in v["values"])))
    return {text.replace("-", "−") for text in known}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_a_letter_is_computed_again_from_the_file(name: str) -> None:
    data = json.loads(settled().to_json())
    stored, i = ds.Settlement.from_dict(data), NAMES.index(name)
    text = seen(report.owner_page(stored.valuation, name, stored))
    line, seal = data["payments"][i], data["seal"]
    for must in (name, seal, RECORD["inputs"][i]["sha256"], f"{name}.csv", "dushapley verify"):
        assert must in text
    for plain in (seal, RECORD["inputs"][i]["sha256"], name, f"{name}.csv"):
        text = text.replace(plain, " ")
    assert [n for n in numbers_of(text) if n not in plausible(data, i)] == []
    paid = Decimal(line["payment"])
    assert f"You {'receive' if paid > 0 else 'pay'} {abs(paid):,.2f} EUR" in text
    assert f"{Decimal(line['by_size']):,.2f} EUR, if every row were paid the same" in text
    assert "the accuracy on 77 rows of t.csv" in text
    assert f"Reason of {name}" in seen(report.owner_page(stored.valuation, name, stored))


def test_a_payer_reads_of_amounts_without_signs() -> None:
    s = settled(cap="none")
    text = seen(report.owner_page(s.valuation, "Evora", s))
    assert s.low is not None
    assert s.high is not None
    paid, low, high = (-amounts[4] for amounts in (s.payments, s.low, s.high))
    assert paid > 0 <= high < low
    assert f"You pay {paid:,} EUR" in text
    assert f"95% range: you pay {high:,} to {low:,} EUR" in text
    assert "−" not in text.partition("You pay")[2].partition("your value")[0]
    mixed = replace(s, low=(*s.low[:3], Decimal("-5.00"), s.low[4]))
    crossing = seen(report.owner_page(s.valuation, NAMES[3], mixed))
    assert f"from paying 5.00 to receiving {s.high[3]:,} EUR" in crossing


def test_a_letter_says_what_is_predicted_and_how_to_check_on_any_system() -> None:
    s = settled(record=RECORD | {"job": {"target": "ill"}})
    text = seen(report.owner_page(s.valuation, "Bergen", s, settlement_file="spring.json"))
    assert "the accuracy of predicting “ill” on 77 rows" in text
    for way in ("sha256sum", "certutil -hashfile", "Get-FileHash", "shasum -a 256"):
        assert way in text
    assert "dushapley verify spring.json FILES" in text
    assert "`" not in text
    assert text.count("95%") == 2  # of the payment and in the picture, and not doubled


def test_one_number_is_called_what_size_alone_gives() -> None:
    s = settled()
    assert s.diagnosis is not None
    known = [replace(one, by_size=0.0123 * (k + 1)) for k, one in enumerate(s.diagnosis.owners)]
    s = replace(s, diagnosis=replace(s.diagnosis, owners=tuple(known)))
    text = seen(report.owner_page(s.valuation, "Bergen", s))
    assert "as many rows of the usual kind, 0.0246" in text
    rows = report.summarize(s.valuation, s)["rows"]
    assert {r["name"]: round(r["by_size_value"], 4) for r in rows}["Bergen"] == 0.0246


def test_others_stay_out_of_a_letter_unless_asked_for() -> None:
    s = settled()
    page = report.owner_page(s.valuation, "Bergen", s)
    others = [row for row in report.summarize(s.valuation, s)["rows"] if row["name"] != "Bergen"]
    for row in others:
        for key in ("name", "payment_text", "value_text", "payment_range", "by_size_text"):
            assert row[key] not in seen(page), (row["name"], key)
    assert "rank" not in seen(page)
    small = replace(s.valuation, values=s.valuation.values * [1, 1, 1, 1, 5])
    pictures = [
        re.findall(r'(?:x1|cx)="[\d.]+%"', report.owner_page(v, "Bergen"))
        for v in (s.valuation, replace(small, values=s.valuation.values.copy()))
    ]
    assert pictures[0] == pictures[1]  # its axis is its own, not that of the largest owner
    shown = seen(report.owner_page(s.valuation, "Bergen", s, show=["rank", "values"]))
    assert "your rank 2 of 5, 95% range" in shown
    assert all(row["name"] in shown and row["payment_text"] in shown for row in others)
    with pytest.raises(DUShapleyError, match="rank, values, growth"):
        report.owner_page(s.valuation, "Bergen", s, show=["secrets"])


def test_a_letter_says_what_was_not_measured() -> None:
    s = settled(diagnosis=None)
    assert "was not measured in this run" in seen(report.owner_page(s.valuation, "Bergen", s))
    shown = seen(report.owner_page(s.valuation, "Bergen", s, show=["growth"]))
    assert "would earn was not measured" in shown


def test_a_value_is_not_called_shapley_where_it_is_another() -> None:
    game = ds.TableGame([0, 1, 2, 4])
    left_out = ds.value(game, "loo")
    for page in (report.report(left_out), report.owner_page(left_out, "owner 1")):
        assert "It is not a Shapley value" in page
        assert "averaged over all orders" not in page
    banzhaf = ds.value(
        ds.CallableGame(lambda z: np.sqrt(z.sum(axis=1)), 5), "stratified-svarm", budget=200,
        options={"semivalue": "banzhaf"},
    )  # fmt: skip
    assert "your Banzhaf value" in report.owner_page(banzhaf, "owner 1")
    assert "its Shapley value" in report.report(ds.value(game, "exact"))


def test_payments_are_numbers_and_names_are_never_formulas() -> None:
    import openpyxl

    s = settled()
    lines = list(csv.DictReader(io.StringIO(payments_csv(s))))
    frame = payments_frame(s)
    assert list(lines[0]) == list(frame.columns)
    assert sum(Decimal(line["payment"]) for line in lines) == s.pot
    assert "'=Cadiz+1" in [line["owner"] for line in lines]
    assert {line["seal"] for line in lines} == {s.to_dict()["seal"]}
    assert sum(float(line["share_of_pot"]) for line in lines) == pytest.approx(1)
    book = openpyxl.load_workbook(io.BytesIO(payments_workbook(s)))
    *rows, total = book.active.iter_rows(min_row=2)
    assert [total[0].value, Decimal(str(total[1].value)), total[8].value] == ["total", s.pot, 1057]
    heads = [cell.value for cell in next(book.active.iter_rows())]
    assert heads[4] == "share of pot"
    assert rows[0][4].number_format == "0.0%"
    assert book.active.column_dimensions["B"].width > 15
    assert [line["rows"] for line in lines] == [str(row[8].value) for row in rows]
    assert lines[0]["rows"] == "400"
    kinds = {cell.data_type for row in rows for cell in row}
    assert "f" not in kinds
    assert {row[1].data_type for row in rows} == {"n"}
    assert [row[0].value for row in rows] == frame["owner"].tolist()
    assert sum(Decimal(str(row[1].value)) for row in rows) == s.pot


def test_the_command_writes_letters_pages_and_payments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = tmp_path / "settlement.json"
    stored.write_text(settled().to_json(), encoding="utf-8")
    (tmp_path / "logo.png").write_bytes(PIXEL)
    folder = tmp_path / "letters"
    call = ["report", str(stored), "--letters", str(folder), "--title", "Spring <b>",
            "--date", "D 1", "--logo", str(tmp_path / "logo.png"),
            "--page", str(tmp_path / "page.html"),
            "--payments", str(tmp_path / "pay.csv")]  # fmt: skip
    assert run(call) == 0
    letters = sorted(path.name for path in folder.iterdir())
    assert letters[:2] == ["letter-001-Aalborg.html", "letter-002-Bergen.html"]
    assert len(letters) == 5
    page = (folder / letters[0]).read_text(encoding="utf-8")
    assert "Spring &lt;b&gt;" in page
    assert 'src="data:image/png;base64,' in page
    assert "D 1" in seen(page)
    assert run([*call[:4]]) == 0  # the same letters may be written again
    assert run(["report", str(stored), "--payments", str(tmp_path / "pay.csv")]) == 2
    capsys.readouterr()
    data = json.loads(stored.read_text(encoding="utf-8"))
    data["payments"][0]["payment"] = "1.00"
    stored.write_text(json.dumps(data), encoding="utf-8")
    assert run(["report", str(stored)]) == 2
    assert "seal" in capsys.readouterr().err


def run(call: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(call)
    return int(end.value.code or 0)


def test_a_logo_is_a_picture_by_its_content(tmp_path: Path) -> None:
    trap = tmp_path / "logo.png"
    trap.write_text("<svg onload='alert(1)'/>")
    with pytest.raises(DUShapleyError, match="not a PNG"):
        embedded(trap)
    trap.write_bytes(PIXEL)
    assert embedded(trap).startswith("data:image/png;base64,")


def test_growth_that_was_not_measured_is_refused_and_other_pots_are_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, folder = tmp_path / "settlement.json", tmp_path / "letters"
    stored.write_text(settled().to_json(), encoding="utf-8")
    call = ["report", str(stored), "--letters", str(folder), "--page", str(tmp_path / "p.html")]
    assert run([*call, "--letters-show", "growth"]) == 2
    assert "holds no growth" in capsys.readouterr().err
    assert not folder.exists()
    assert run(call) == 0
    stored.write_text(settled(negative="clip").to_json(), encoding="utf-8")
    capsys.readouterr()
    assert run(call) == 2
    assert "shares another pot, or by another rule" in capsys.readouterr().err
    assert run([*call, "--force"]) == 0
    assert run(["report", str(stored), "--letters", str(folder), "--logo", "no.png"]) == 2
    said = capsys.readouterr().err
    assert "there is no such file" in said
    assert "Errno" not in said


GROWN = {"more": 0.25, "seed": 0, "evaluations": 82, "trainings": 81,
         "values": [0.05, 0.02, 0.01, 0.001, -0.02],
         "std_errors": [0.004, 0.004, 0.004, 0.004, 0.004]}  # fmt: skip


def test_growth_is_told_only_if_asked_for_and_follows_from_the_file() -> None:
    data = json.loads(settled(record=RECORD | {"growth": GROWN}).to_json())
    stored = ds.Settlement.from_dict(data)
    v, lines = data["valuation"], data["payments"]
    assert "more rows like yours" not in seen(report.owner_page(stored.valuation, "Bergen", stored))
    text = seen(report.owner_page(stored.valuation, "Bergen", stored, show=["growth"]))
    earned = float(lines[1]["payment"]) / v["values"][1] * 0.02
    assert "25% more rows like yours (75 rows) would add 0.0200 ± 0.0078 to your value" in text
    assert f"that is {earned:,.2f} EUR, if the pot grew with the gain" in text
    tiny = seen(report.owner_page(stored.valuation, NAMES[3], stored, show=["growth"]))
    assert "That may be chance" in tiny
    bad = seen(report.owner_page(stored.valuation, "Evora", stored, show=["growth"]))
    assert "nothing is paid for it" in bad
    data["record"]["growth"]["values"].pop()
    with pytest.raises(DUShapleyError, match="one number for each owner"):
        ds.Settlement.from_dict(data)


def test_growth_is_measured_in_pairs_of_pools() -> None:
    n = np.array([100.0, 300.0])
    found = measure_growth(ds.SizeGame(n, w=lambda n: n / (n + 100)))

    def w(rows: float) -> float:
        return rows / (rows + 100)

    alone, last = w(100) - w(80), w(340) - w(320)  # with everybody cut to four fifths
    assert found["values"][0] == pytest.approx((alone + last) / 2)
    assert found["evaluations"] == 2 * 8 * 2 + 2
    with pytest.raises(DUShapleyError, match="whole owners only"):
        measure_growth(ds.TableGame([0, 1, 2, 4]))
