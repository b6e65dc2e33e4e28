"""The page itself: a summary poured into a template, all in one file.

Of thousands of owners it shows their distribution, both ends, a search and a download.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import AnyDict, FloatArray
from dushapley.data.files import PathLike
from dushapley.errors import InvalidOption
from dushapley.report.plots import figures
from dushapley.report.summary import summarize
from dushapley.results.diagnosis import Diagnosis
from dushapley.results.uncertainty import half_width
from dushapley.results.valuation import Valuation
from dushapley.settlement.interactions import Interactions
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import printable

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_ROWS = 1000
"""Owners of whom every one has a row on the page; of more, both ends are shown."""
SHOWN = 20
"""Owners shown at either end."""
SEARCHED = 100_000
"""Owners whom the page itself can look up; of more, the table of payments has them."""
BINS = 48
SAMPLING_ONLY = "95%, told of sampling alone: the error of the test set is unknown and not in it"


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
        return many_page(valuation, settlement, title, date)
    summary = summarize(valuation, settlement, title=title, about=about, diagnosis=diagnosis)
    pairs = "" if interactions is None else interactions.to_html()
    return render(summary | {"logo": logo, "date": date, "interactions": pairs})


def render(summary: AnyDict) -> str:
    """A summary as one self-contained HTML page."""
    page = environment().get_template("page.html")
    usual = dict.fromkeys(("logo", "date", "interactions"), "")
    return page.render(s=usual | summary, figures=figures(summary["figures"]))


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


def embedded(path: PathLike) -> str:
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


def many_page(valuation: Valuation, settlement: Settlement | None, title: str, date: str) -> str:
    """The page of many owners: their distribution and both ends."""
    v, values = valuation, valuation.values
    order = np.argsort(-values, kind="stable").tolist()
    payments = [] if settlement is None else [str(payment) for payment in settlement.payments]
    counts, edges = np.histogram(values, BINS)
    bars = zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
    facts = {
        "title": title,
        "date": date,
        "v": v,
        "order": order,
        "shown": SHOWN,
        "error": partial(_error, v),
        "payments": payments,
        "currency": "" if settlement is None else settlement.currency,
        "median": np.median(values),
        "top_tenth": _top_tenth(values),
        "interval": SAMPLING_ONLY if v.unknown == ("test set",) else v.interval_meaning,
        "bars": bars,
        "highest": counts.max(),
        "table": _table(v, order, payments),
    }
    return environment().get_template("many.html").render(s=facts)


def _error(v: Valuation, owner: int) -> str:
    """The ± of an owner; where part of it is unknown, that word, and what is known of the rest."""
    if v.total_errors is not None:
        return f"± {half_width(v.total_errors[owner]):.2g}"
    if v.std_errors is None or not v.unknown:
        return ""
    return f"± unknown (sampling alone {half_width(v.std_errors[owner]):.2g})"


def _top_tenth(values: FloatArray) -> float:
    """Part of all positive value that the best tenth of owners has."""
    positive = np.sort(np.maximum(values, 0.0))[::-1]
    total, tenth = positive.sum(), -(-len(positive) // 10)
    return positive[:tenth].sum() / total if total else 0.0


def _table(v: Valuation, order: list[int], payments: Sequence[str]) -> str:
    """Everybody's numbers as JSON that may stand in a page; nothing where they are too many."""
    if len(order) > SEARCHED:
        return ""
    rows = [
        [printable(v.owners[j]), float(f"{v.values[j]:.6g}"), v.sizes[j], *payments[j : j + 1]]
        for j in order
    ]
    return json.dumps(rows, ensure_ascii=True).replace("<", "\\u003c")
