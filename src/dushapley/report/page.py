"""The page itself: a summary poured into a template, all in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dushapley.errors import InvalidSettlement
from dushapley.report.plots import figures
from dushapley.report.summary import Plain, summarize
from dushapley.results.valuation import Valuation
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
) -> str:
    """The page of a valuation (and its settlement) as one HTML text.

    No network, no clock: the same input gives the same bytes. See `summarize` for the parameters.

    Examples
    --------
    >>> import dushapley as ds
    >>> v = ds.value(ds.SizeGame([100, 300], w=lambda n: n / (n + 100)), "exact")
    >>> ds.report.report(v)[:15]
    '<!doctype html>'
    """
    return render(summarize(valuation, settlement, title=title, about=about))


def render(summary: Plain) -> str:
    """A summary as one self-contained HTML page."""
    drawn = figures(summary["figures"])
    return (
        environment()
        .get_template("page.html")
        .render(s=summary, figures={figure["name"]: figure for figure in drawn})
    )


def owner_page(
    valuation: Valuation,
    owner: str,
    settlement: Settlement | None = None,
    *,
    title: str = "What your data are worth",
    about: Mapping[str, str] | None = None,
) -> str:
    """A page for one owner: its own numbers, and only totals of the others'.

    Totals are the number of owners and rows, u(nobody), u(all) and the pot. Left out: names,
    sizes, values, payments and order of the others, file names, notes (they may name owners) and
    pools. With two owners, totals minus one's own are the other's: no page can hide that.
    `about` is shown as it is, so put nothing about others into it.
    """
    summary = summarize(valuation, settlement, title=title, about=about)
    positions = [k for k, row in enumerate(summary["rows"]) if row["name"] == owner]
    if not positions:
        raise InvalidSettlement(
            f"There is no owner {owner!r} in this valuation. Owners: "
            f"{', '.join(map(repr, valuation.owners[:20]))}."
        )
    own = private(summary, positions[0])
    drawn = figures(own["figures"], highlight=0)
    return environment().get_template("owner.html").render(s=own, row=own["rows"][0], figures=drawn)


def private(summary: Plain, position: int) -> Plain:
    """What one owner may see of a summary; everything else is absent, not hidden."""
    row = {k: v for k, v in summary["rows"][position].items() if k not in ("rank", "rank_range")}
    shown = summary["figures"]
    own: Plain = {"negative": [shown["negative"][position]]}
    if "history" in shown:
        values = [[step[position]] for step in shown["history"]["values"]]
        own |= {
            "history": {"asked": shown["history"]["asked"], "values": values},
            "stages": [shown["stages"][position]],
            "fitted": shown["fitted"],
        }
    method = {k: summary["method"][k] for k in ("label", "summary", "evaluations", "version")}
    totals = ("title", "facts", "pot", "has_error", "unknown", "interval", "about", "bibtex")
    return {name: summary[name] for name in totals} | {
        "lead": summary["lead"][:1],
        "rows": [row],
        "figures": own,
        "method": method,
    }


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
