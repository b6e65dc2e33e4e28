"""The page in a real browser: it draws, sorts, copies, adapts, and never phones home."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dushapley as ds
from dushapley import report
from extras import needs

HOSTILE = (
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "x" * 300,
    "مستشفى المدينة",
    '=HYPERLINK("http://evil.example","click")',
    "plain",
)


class Visit:
    """A page opened with everything it says or asks for written down."""

    def __init__(self, browser: Any, html: str, folder: Path, **context: Any) -> None:
        path = folder / "page.html"
        path.write_text(html, encoding="utf-8")
        self.said: list[str] = []
        self.asked: list[str] = []
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def column(self, title: str) -> list[str]:
        """Raw values of a column of the table, as they stand."""
        heads = self.page.locator("#owners thead th").all_inner_texts()
        k = next(i for i, head in enumerate(heads) if head.strip().startswith(title))
        code = "(rows, k) => rows.map(r => r.cells[k].dataset.v ?? r.cells[k].innerText)"
        return list(self.page.locator("#owners tbody tr").evaluate_all(code, k))

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(wide))


def valued(n: int = 6, names: tuple[str, ...] = HOSTILE, budget: int = 300) -> ds.Valuation:
    rng = np.random.default_rng(0)
    weights = rng.normal(1.0, 0.6, n)
    sizes = np.round(np.exp(rng.normal(4, 0.8, n)))
    game = ds.CallableGame(
        lambda z: np.tanh(z @ (weights * sizes) / sizes.sum()), n, sizes=sizes,
        names=names if len(names) == n else [f"Clinic {i}" for i in range(n)], fingerprint="page",
    )  # fmt: skip
    return ds.value(game, "permutation", budget=budget)


def full_page(n: int = 6) -> str:
    v = valued(n, budget=max(300, 20 * n))
    return report.report(v, ds.settle(v, "123456.78", currency="EUR"))


@pytest.mark.slow
def test_it_renders_in_silence_with_marks_in_every_plot(browser: Any, tmp_path: Path) -> None:
    with Visit(browser, full_page(), tmp_path) as visit:
        assert visit.said == []
        assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == []
        assert len(visit.asked) <= 2
        for name in ("history", "curve", "stages", "size"):
            figure = visit.page.locator(f"#figure-{name} svg")
            box = figure.bounding_box()
            assert box["width"] > 200
            assert box["height"] > 100
            drawn = figure.locator("path, use").evaluate_all(
                "marks => marks.filter(m => { const b = m.getBoundingClientRect();"
                " return b.width + b.height > 1; }).length"
            )
            assert drawn > 8, name
        whiskers = visit.page.locator("#owners .whisker")
        assert whiskers.count() == 6
        assert whiskers.first.bounding_box()["width"] > 3


@pytest.mark.slow
def test_tables_sort_by_number_and_by_name(browser: Any, tmp_path: Path) -> None:
    with Visit(browser, full_page(40), tmp_path) as visit:
        rows = [float(x) for x in visit.column("rows")]
        assert rows != sorted(rows)
        for click in (1, 2):
            visit.page.locator("#owners th [role=button]", has_text="rows").click()
            found = [float(x) for x in visit.column("rows")]
            assert found == sorted(rows, reverse=click == 1)
        visit.page.locator("#owners th [role=button]", has_text="payment").click()
        paid = [float(x) for x in visit.column("payment")]
        assert paid == sorted(paid, reverse=True)
        assert round(sum(paid), 2) == 123456.78
        visit.page.locator("#owners th [role=button]", has_text="owner").click()
        names = visit.column("owner")
        assert names == sorted(names, reverse=True)
        assert visit.said == []


@pytest.mark.slow
def test_hostile_names_neither_run_nor_break_nor_become_formulas(
    browser: Any, tmp_path: Path
) -> None:
    for width in (1200, 390):
        with Visit(browser, full_page(), tmp_path, viewport={"width": width, "height": 800}) as v:
            assert v.said == []
            assert sorted(v.column("owner")) == sorted(HOSTILE)
            assert v.overflow() <= 0
            cut = v.page.locator("#owners tbody td.name").evaluate_all(
                "cells => cells.filter(c => c.scrollWidth > c.clientWidth + 1).length"
            )
            assert cut == 0  # names are whole, on as many lines as they take
            v.page.get_by_role("button", name="Copy table as CSV").click()
            text = v.page.locator("button.copy").get_attribute("data-copied")
            table = list(csv.reader(io.StringIO(text)))
            assert len(table) == 7
            cells = [cell for row in table for cell in row]
            assert not [c for c in cells if c[:1] in ("=", "@", "+", "\t")]
            assert '\'=HYPERLINK("http://evil.example","click")' in cells
            ends = {
                "payment low",
                "payment high",
                "value low",
                "value high",
                "rank low",
                "rank high",
            }
            assert ends <= set(table[0])
            assert all(all(row) for row in table)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 100])
def test_few_and_many_owners_fit_window_phone_and_paper(
    browser: Any, tmp_path: Path, n: int
) -> None:
    html = full_page(n)
    for width in (1200, 1000, 820, 390, 320):
        with Visit(browser, html, tmp_path, viewport={"width": width, "height": 800}) as visit:
            assert visit.overflow() <= 0, width
            assert visit.page.locator("#owners tbody tr").count() == n
    with Visit(browser, html, tmp_path, viewport={"width": 690, "height": 1000}) as visit:
        visit.page.emulate_media(media="print")
        assert visit.overflow() <= 0
        assert len(visit.page.pdf(format="A4")) > 10_000


@pytest.mark.slow
def test_dark_mode_is_dark_and_legible(browser: Any, tmp_path: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        with Visit(browser, full_page(), tmp_path, color_scheme=scheme) as visit:
            seen[scheme] = [
                visit.page.evaluate(
                    "([q, p]) => getComputedStyle(document.querySelector(q))[p]", [query, style]
                )
                for query, style in (
                    ("body", "backgroundColor"),
                    ("body", "color"),
                    ("#figure-size text", "fill"),
                    ("#owners .dot", "fill"),
                )
            ]
    for scheme, (paper, *inks) in seen.items():
        for ink in inks:
            assert contrast(paper, ink) > 4, (scheme, paper, ink)
    assert luminance(seen["dark"][0]) < 0.05 < 0.8 < luminance(seen["light"][0])


def luminance(colour: str) -> float:
    parts = [float(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


TEXTS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = {};
  while (walker.nextNode()) {
    const node = walker.currentNode, el = node.parentElement;
    if (!node.textContent.trim() || !el.getClientRects().length || el.closest("script,style")) {
      continue;
    }
    const style = getComputedStyle(el);
    const ink = el.closest("svg") ? style.fill : style.color;
    if (!el.closest("#figure-matrix")) { found[ink] = node.textContent.trim().slice(0, 30); }
  }
  return [getComputedStyle(document.body).backgroundColor, found];
}"""
"""Colours of all text that is seen, each with some of it; the shaded grid has its own rule."""
MARKS = """() => ["dot", "whisker", "size", "zero"].map(name => {
  const style = getComputedStyle(document.querySelector(`svg.forest .${name}`));
  return [name, name === "dot" ? style.fill : style.stroke];
})"""
"""Colours of the marks that a picture of values is read by."""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_asks_for(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    v = valued()
    settled = ds.settle(v, "1000", negative="charge")
    letter = report.owner_page(v, HOSTILE[0], settled, show=["rank", "values"], date="1 May")
    for html in (report.report(v, settled), letter):
        with Visit(browser, html, tmp_path, color_scheme=scheme) as visit:
            paper, inks = visit.page.evaluate(TEXTS)
            for ink, text in inks.items():
                assert contrast(paper, ink) >= 4.5, (scheme, ink, text)
            for mark, ink in visit.page.evaluate(MARKS):
                assert contrast(paper, ink) >= 3, (scheme, ink, mark)


def printed(visit: Visit) -> list[str]:
    """The text of each sheet of paper."""
    pdfium = needs("pypdfium2")
    sheets = pdfium.PdfDocument(visit.page.pdf(format="A4", prefer_css_page_size=True))
    return [sheet.get_textpage().get_text_range() for sheet in sheets]


@pytest.mark.slow
def test_paper_repeats_headings_and_shows_the_provenance(browser: Any, tmp_path: Path) -> None:
    v = valued(40, budget=800)
    settled = ds.settle(v, "123456.78", currency="EUR", record={"command": "dushapley value x"})
    with Visit(browser, report.report(v, settled), tmp_path) as visit:
        assert not visit.page.locator("details pre").first.is_visible()  # on the screen it waits
        sheets = printed(visit)
    table = [sheet for sheet in sheets if "Clinic" in sheet.split("How sure is this")[0]][:2]
    assert len(table) == 2
    assert all("payment, EUR" in sheet and "share of pot" in sheet for sheet in table)
    assert any('"command": "dushapley value x"' in sheet for sheet in sheets)


@pytest.mark.slow
def test_a_row_on_a_phone_takes_four_lines_at_most(browser: Any, tmp_path: Path) -> None:
    with Visit(browser, full_page(40), tmp_path, viewport={"width": 390, "height": 800}) as visit:
        lines = visit.page.locator("#owners tbody tr").evaluate_all(
            "rows => rows.map(r => { const b = r.getBoundingClientRect();"
            " return (b.height - 20) / parseFloat(getComputedStyle(document.body).lineHeight); })"
        )
        assert max(lines) <= 4
        shown = visit.page.locator("#owners tbody tr").first.inner_text()
        assert "Clinic" in shown
        assert shown.count("%") == 1  # the share of the pot; the rest of the table is left out


@pytest.mark.slow
def test_a_letter_is_one_sheet_of_paper(browser: Any, tmp_path: Path) -> None:
    for n, names in ((6, HOSTILE), (40, ())):
        v = valued(n, names, budget=max(300, 20 * n))
        settled = ds.settle(v, "1000", currency="EUR", negative="charge")
        for show in ((), ("rank", "values", "growth")):
            for owner in (v.owners[v.order[0]], v.owners[v.order[-1]]):
                html = report.owner_page(v, owner, settled, show=show, date="1 May 2026")
                with Visit(browser, html, tmp_path) as visit:
                    assert visit.said == []
                    assert len(printed(visit)) == 1, (owner, show)


@pytest.mark.slow
def test_an_owners_page_renders_in_silence(browser: Any, tmp_path: Path) -> None:
    v = valued()
    html = report.owner_page(v, HOSTILE[0], ds.settle(v, 1000))
    for width in (1200, 390):
        with Visit(browser, html, tmp_path, viewport={"width": width, "height": 800}) as visit:
            assert visit.said == []
            assert visit.overflow() <= 0
            assert HOSTILE[0] in visit.page.locator("h1").inner_text()
            assert "plain" not in visit.page.content().replace("explain", "")
