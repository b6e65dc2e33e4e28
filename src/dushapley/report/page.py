"""The page itself: a summary poured into a template, all in one file."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dushapley.errors import InvalidOption
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


KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""First bytes of the kinds of picture that are taken; by content, whatever the name says."""
MOST_BYTES = 500_000


def embedded(path: str | os.PathLike[str]) -> str:
    """A PNG, JPEG or GIF file as a `data:` address.

    SVG is not taken: it can hold scripts and references, which readers other than browsers follow.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise InvalidOption(
            f"The logo {os.fspath(path)} cannot be read: {why}. Name a PNG, JPEG or GIF picture."
        ) from error
    kind = next((kind for head, kind in KINDS.items() if content.startswith(head)), None)
    if kind is None or len(content) > MOST_BYTES:
        raise InvalidOption(
            f"The logo {os.fspath(path)} is not a PNG, JPEG or GIF picture of at most "
            f"{MOST_BYTES:,} bytes. Save it as a small PNG."
        )
    return f"data:{kind};base64,{b64encode(content).decode()}"
