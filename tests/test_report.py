"""The page as data and as text: true, the same every time, safe with any name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.cells import cell_len

import dushapley as ds
from dushapley import report
from dushapley.errors import DUShapleyError
from dushapley.estimators import REGISTRY
from dushapley.report.checks import unlike_the_pool
from dushapley.report.summary import rank_ranges
from dushapley.report.wording import decimal, percent, whole
from dushapley.results.citations import PAPERS, bibtex
from dushapley.results.diagnosis import Alternative, Diagnosis, Matrix, OwnerDiagnosis, Reason
from dushapley.terminal import decimals_for

HOSTILE = (
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "x" * 300,
    "مستشفى المدينة",
    '=HYPERLINK("http://evil.example","x")',
    '"><img src=x onerror=alert(2)>{{ 7 * 7 }}$\\frac$',
)


def valued(names: tuple[str, ...] = HOSTILE, budget: int = 400) -> ds.Valuation:
    weights = np.arange(len(names), 0.0, -1)
    weights[-1] = -1.5
    game = ds.CallableGame(
        lambda z: np.tanh(z @ weights / 9), len(names), sizes=np.arange(10, 10 + len(names)),
        names=names, fingerprint="page",
    )  # fmt: skip
    return ds.value(game, "permutation", budget=budget)


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
        ]


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_also_elsewhere() -> None:
    code = (
        "import hashlib, numpy as np, dushapley as ds\n"
        "g = ds.CallableGame(lambda z: np.sqrt(z.sum(axis=1)), 6, fingerprint='r')\n"
        "v = ds.value(g, 'permutation', budget=200)\n"
        "s = ds.settle(v, 1000)\n"
        "pages = [ds.report.report(v, s), ds.report.owner_page(v, 'owner 2', s)]\n"
        "assert pages[0] == ds.report.report(v, s)\n"
        "print([hashlib.sha256(p.encode()).hexdigest() for p in pages])\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout


def test_summary_is_plain_and_loses_nothing() -> None:
    v = valued()
    s = ds.settle(v, "1000", currency="EUR")
    summary = report.summarize(v, s)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    by_name = {row["name"]: row for row in summary["rows"]}
    for i, name in enumerate(v.owners):
        assert by_name[name]["value"] == v.values[i]
        assert by_name[name]["payment"] == str(s.payments[i])
    assert [row["value"] for row in summary["rows"]] == sorted(v.values, reverse=True)
    for row in summary["rows"]:
        places = [row[k] for k in ("from", "at", "to", "zero", "by_size_at")]
        assert min(places) >= 0
        assert max(places) <= 100
        assert row["from"] < row["at"] < row["to"]


def test_hostile_names_stay_text() -> None:
    v = valued()
    settled = ds.settle(v, 1000)
    for page in (report.report(v, settled), report.owner_page(v, HOSTILE[0], settled)):
        found = Tags(page)
        assert "img" not in found.tags
        assert found.tags.count("script") <= 1
        assert "<script>alert" not in page
        assert "49" not in re.findall(r"onerror=alert\(2\)&gt;(.{12})", page)
        assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "{{ 7 * 7 }}" in report.report(v)


def test_nothing_is_fetched() -> None:
    page = report.report(valued(), ds.settle(valued(), 10))
    fetched = re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?(?!#|data:|[\w-]*-?#)([^\s\"')]+)", page)
    assert [link for link in fetched if "://" in link or link.startswith("//")] == []
    assert "default-src 'none'" in page
    assert len(page) < 250_000


def test_ids_are_unique_and_figures_have_marks() -> None:
    page = report.report(valued())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page))
    assert referred <= set(ids)
    for name in ("history", "curve", "stages", "size"):
        figure = page[page.index(f'<figure id="figure-{name}"') :]
        drawn = figure[: figure.index("</figure>")]
        assert drawn.count("<path") + drawn.count("<use") > 10
        assert "var(--accent)" in drawn
        assert "#01020" not in drawn


def test_an_owners_page_tells_nothing_of_the_others() -> None:
    names = ("Aalborg", "Bergen", "Cadiz", "Dresden", "Evora")
    v = valued(names)
    s = ds.settle(
        v,
        "98765.43",
        currency="EUR",
        negative="charge",
        record={"command": ["value", "Aalborg.csv"]},
    )
    full = report.summarize(v, s)
    page = report.owner_page(v, "Bergen", s)
    visible = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    for row in full["rows"]:
        keys = ("name", "payment_text", "by_size_text", "value_text", "share_text", "payment_range")
        for key in keys:
            assert (row[key] in visible) == (row["name"] == "Bergen"), (row["name"], key)
    assert "98,765.43" in visible
    assert "rank" not in visible.lower()
    with pytest.raises(DUShapleyError, match="no owner 'Oslo'"):
        report.owner_page(v, "Oslo", s)


def test_rank_ranges_are_as_sure_as_the_errors() -> None:
    v = ds.Valuation.from_dict(
        valued(("a", "b", "c")).to_dict()
        | {"values": [3.0, 2.0, 2.0], "std_errors": [0.01, 0.5, 0.5], "covariance": None}
    )
    first, second, third = rank_ranges(v, np.array([0, 1, 2]))
    assert first is not None
    assert second is not None
    assert third is not None
    assert first["sure"] > 0.9  # 3 − 2 is two standard errors of 0.5, twice
    assert second["sure"] == pytest.approx(0.5, abs=0.05)
    assert (second["low"], second["high"]) in {(1, 3), (2, 3)}


def pooled(labels_kept: bool) -> ds.Valuation:
    """Six owners estimating a mean; one has another mean, or nobody has."""
    rng = np.random.default_rng(0)
    blocks = {str(i): rng.normal(size=(30 + 5 * i, 1)) for i in range(6)}
    if not labels_kept:
        blocks["5"] = blocks["5"] + 3
    owners = ds.Owners.from_arrays(blocks)
    game = ds.DatasetGame(owners, lambda X, y: -float(X.mean() ** 2) if len(X) else -1.0)
    return ds.value(game, "du", budget=400)


def test_the_page_says_when_pooling_hides_quality() -> None:
    odd = unlike_the_pool(pooled(labels_kept=False))
    assert odd is not None
    assert 5 in odd.tolist()
    assert "do not rely on it" in report.report(pooled(labels_kept=False))
    even = unlike_the_pool(pooled(labels_kept=True))
    assert even is not None
    assert len(even) == 0


def test_a_result_without_errors_or_trail_has_a_page() -> None:
    v = ds.value(ds.TableGame([0, 1, 2, 4]), "exact")
    page = report.report(v)
    assert "no error of sampling" in page
    assert "rank, 95%" not in page
    flat = ds.value(ds.TableGame([0.0] * 4), "exact")
    page = report.report(flat)
    assert "nothing to share" in page
    assert "inf" not in page.split("<style>")[0] + page.split("</style>")[1].split("<script>")[0]


def test_notebooks_show_the_table() -> None:
    html = valued()._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_a_loss_within_the_error_is_not_called_one() -> None:
    v = replace(valued(), values=np.array([3.0, 2.0, 1.0, -0.1, -0.2, -2.0]))
    v = replace(v, std_errors=np.full(6, 0.2))
    lead = " ".join(report.summarize(v)["lead"])
    assert "1 owner lowers the score on average." in lead
    assert "2 owners have a negative value that may be chance" in lead


def test_a_source_without_error_says_why_and_a_large_one_what_helps() -> None:
    errors = {
        "sampling": [0.0] * 6, "training": [0.0] * 6, "test set": [0.2] * 6, "total": [0.2] * 6,
        "dominant": "test set",
    }  # fmt: skip
    summary = report.summarize(replace(valued(), errors=errors))
    told = {row["name"]: (row["text"], row["meaning"]) for row in summary["sources"]}
    assert told["sampling"] == ("none", "all pools were tried")
    assert told["training"] == ("none", "another seed trains the same model")
    error = next(check for check in summary["checks"] if check["name"] == "Error")
    assert "more test rows would narrow it" in error["text"]


def test_every_method_is_cited() -> None:
    for name, method in REGISTRY.items():
        assert method.cite in PAPERS or method.cite == "", name
    assert "garrido2024" in bibtex(method="du")
    text = bibtex()
    assert text.count("{") == text.count("}")


def test_numbers_read_well() -> None:
    assert decimal(-0.00001, 3) == "0.000"
    assert decimal(-1234.5, 1) == "−1,234.5"
    assert percent(0.1234) == "12.3%"
    assert decimal(-1.5e-9, decimals_for([1.5e-9])) == "−1.500e−09"
    assert whole(1234567) == "1,234,567"


HOSPITAL = "Universitätsklinikum Hamburg-Eppendorf, Zentrum"
LONG = [f"{HOSPITAL} {side}" for side in ("Nord", "Süd", "West")]


def test_names_are_never_cut_until_two_look_the_same() -> None:
    v = valued((*LONG, "北京大学第一医院", "Lyon"))
    summary = report.summarize(v, ds.settle(v, 1000))
    figures = summary["figures"]["names"]
    assert len(set(figures)) == 5
    assert max(len(line) for name in figures for line in name.split("\n")) <= 22
    whole = [" ".join(name.split()) for name in figures]
    assert whole == [row["name"] for row in summary["rows"]]
    page = report.report(v, ds.settle(v, 1000))
    assert all(page.count(f"<bdi>{name}</bdi>") >= 1 for name in LONG)
    drawn = page[page.index('<figure id="figure-size"') :]
    drawn = drawn[: drawn.index("</figure>")]
    assert "北京大学第一医院" in drawn
    lines = [line for name in figures for line in name.split("\n")]
    assert all(f">{line}<" in drawn for line in lines)  # also of those who are paid nothing
    many = report.summarize(valued(tuple(f"Clinic {i}" for i in range(16)), 600))
    assert many["figures"]["names"][:3] == ["1", "2", "3"]


@pytest.mark.parametrize("width", [None, 80])
def test_a_terminal_shows_names_whole_and_keeps_its_width(width: int | None) -> None:
    v = valued((*LONG, "北京大学第一医院", "Lyon"))
    s = ds.settle(v, "250000", currency="EUR")
    text = report.text_table(v, report.summarize(v, s), s, width=width)
    table = text.split("  pot 250,000.00")[0].splitlines()[1:]
    shown = "".join(line[2:].split("  ")[0].replace(" ", "") for line in table)
    assert all(name.replace(" ", "") in shown for name in LONG)
    for line in table:
        assert width is None or cell_len(line) <= 80
    ends = {cell_len(line) for line in table if " to " in line}
    assert len(ends) == 1  # wide characters are counted as wide
    assert ("left out for lack of room" in text) == (width == 80)
    assert "of pot" in table[0]


def test_the_first_sentence_names_score_and_test_set() -> None:
    v = valued(("a", "b", "c"))
    about = {"score": "accuracy", "tested": "on 1,000 rows of test.csv"}
    summary = report.summarize(v, about=about)
    assert "moves the accuracy on 1,000 rows of test.csv from" in summary["lead"][0]
    labels = list(summary["facts"])
    assert labels == ["accuracy on 1,000 rows of test.csv", "owners", "rows"]
    assert report.summarize(v)["lead"][0].startswith("Pooling the data of 3 owners moves the score")


def test_curves_have_bands_and_axes_show_zero() -> None:
    page = report.report(valued(("a", "b", "c", "d")))
    for name in ("history", "curve"):
        figure = page[page.index(f'<figure id="figure-{name}"') :]
        assert "PolyCollection" in figure[: figure.index("</figure>")], name
    assert "Bands: 95% for sampling." in page
    assert "Dashed: nobody’s data." in page


def test_the_page_says_why_where_that_was_measured() -> None:
    names = ("a", "b", "c")
    v = valued(names)
    why = Diagnosis(
        task=None, target="y", trainings=6,
        owners=tuple(OwnerDiagnosis(n, (Reason("unknown", f"Told of {n}."),)) for n in names),
        matrix=Matrix((*names, "test set"), ((0.9, 0.2, 0.3, 0.4),) * 3),
        alternatives=(
            Alternative("logistic", "accuracy", 0.5, 0.9, (1.0, 2.0, -1.0)),
            Alternative("knn", "accuracy", 0.5, 0.8, (1.0, 1.0, 1.0)),
        ),
        notes=("knn would do.",),
    )  # fmt: skip
    page = report.report(v, ds.settle(v, 100, diagnosis=why))
    for text in ("Told of a.", "knn would do.", "sums instead of rows", "figure-matrix",
                 "tested on", "logistic, accuracy 0.9000", "the first pays"):  # fmt: skip
        assert text in page, text
