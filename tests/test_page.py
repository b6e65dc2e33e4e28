"""The page in a real browser: it draws, sorts, copies, adapts, and never phones home."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dushapley as ds
from conftest import skip_unless_required
from dushapley import report

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
HOSTILE = (
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "x" * 300,
    "مستشفى المدينة",
    '=HYPERLINK("http://evil.example","click")',
    "plain",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium as the system has it; named by DUSHAPLEY_CHROMIUM where it hides."""
    chromium = os.environ.get("DUSHAPLEY_CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip_unless_required("browser", "the package playwright is not installed")
    if chromium is None:
        skip_unless_required("browser", "there is no chromium on the path")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


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
            visit.page.locator("#owners th button", has_text="rows").click()
            found = [float(x) for x in visit.column("rows")]
            assert found == sorted(rows, reverse=click == 1)
        visit.page.locator("#owners th button", has_text="payment").click()
        paid = [float(x) for x in visit.column("payment")]
        assert paid == sorted(paid, reverse=True)
        assert round(sum(paid), 2) == 123456.78
        visit.page.locator("#owners th button", has_text="owner").click()
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
            heights = v.page.locator("#owners tbody tr").evaluate_all(
                "rows => rows.map(r => r.getBoundingClientRect().height)"
            )
            assert max(heights) < 1.6 * min(heights)
            v.page.get_by_role("button", name="Copy table as CSV").click()
            text = v.page.locator("button.copy").get_attribute("data-copied")
            table = list(csv.reader(io.StringIO(text)))
            assert len(table) == 7
            cells = [cell for row in table for cell in row]
            assert not [c for c in cells if c[:1] in ("=", "@", "+", "\t")]
            assert '\'=HYPERLINK("http://evil.example","click")' in cells


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
