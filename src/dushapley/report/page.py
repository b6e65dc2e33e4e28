"""The page itself: a summary poured into a template, all in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dushapley.report.many import MOST_ROWS, many_page
from dushapley.report.plots import figures
from dushapley.report.summary import Plain, summarize
from dushapley.results.diagnosis import Diagnosis
from dushapley.results.valuation import Valuation
from dushapley.settlement.interactions import Interactions
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import printable

if TYPE_CHECKING:
    from jinja2 import Environment


def report(
    valuation: Valuation,
    settlement: Settlement | None = None,
    *,
    title: str = "Who contributed how much",
    about: Mapping[str, str] | None = None,
    diagnosis: Diagnosis | None = None,
    logo: str = "",
    date: str = "",
    interactions: Interactions | None = None,
) -> str:
    """The page of a valuation (and its settlement) as one HTML text.

    No network, no clock: the same input gives the same bytes. See `summarize` for the parameters;
    `logo` is an image as `embedded` gives it, and `date` is shown as it is. `interactions` (of
    `dushapley.interactions`) adds a matrix of every two owners.

    Examples
    --------
    >>> import dushapley as ds
    >>> v = ds.value(ds.SizeGame([100, 300], w=lambda n: n / (n + 100)), "exact")
    >>> ds.report.report(v)[:15]
    '<!doctype html>'
    """
    if len(valuation.values) > MOST_ROWS:
        shown = many_page(valuation, settlement, title=title, date=date)
        return environment().get_template("many.html").render(s=shown)
    summary = summarize(valuation, settlement, title=title, about=about, diagnosis=diagnosis)
    pairs = "" if interactions is None else interactions.to_html()
    return render(summary | {"logo": logo, "date": date, "interactions": pairs})


def render(summary: Plain) -> str:
    """A summary as one self-contained HTML page."""
    drawn = figures(summary["figures"])
    by_name = {figure["name"]: figure for figure in drawn}
    page = environment().get_template("page.html")
    usual = {"logo": "", "date": "", "interactions": ""}
    return page.render(s=usual | summary, figures=by_name)


def _finalize(thing: Any) -> Any:
    """Replace deceptive characters, which names may hold; leave what is already markup."""
    plain = isinstance(thing, str) and not hasattr(thing, "__html__")
    return printable(thing, keep="\n\t") if plain else thing


@cache
def environment() -> Environment:
    """Templates of all pages, and how text is put into them."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dushapley.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters["nice_json"] = lambda thing: json.dumps(thing, indent=1, ensure_ascii=False)
    return environment
