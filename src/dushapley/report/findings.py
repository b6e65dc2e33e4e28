"""The page of an intake check: what was found, and a map of owners and columns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from dushapley.arrays import AnyDict
from dushapley.data.check.collection import Findings
from dushapley.data.findings import Finding
from dushapley.data.intake import TEST
from dushapley.report.page import environment
from dushapley.report.wording import percent, plural, whole

MOST_CELLS = 40_000
"""Cells of the map; what is beyond is told in words."""
MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space", ".": "point"}


def findings_page(findings: Findings) -> str:
    """All findings and the map as one HTML text: no network, no clock.

    Examples
    --------
    >>> from dushapley.data.check import Findings
    >>> findings_page(Findings(()))[:15]
    '<!doctype html>'
    """
    columns = list(dict.fromkeys(chain.from_iterable(findings.cells.values())))
    rows = [_row(findings, name, columns) for name in findings.sizes]
    owners = {name: size for name, size in findings.sizes.items() if name != TEST}
    tested = findings.sizes.get(TEST, 0)
    shown = max(1, MOST_CELLS // max(len(columns), 1))
    facts = {
        "owners": whole(len(owners)),
        "rows of owners": whole(sum(owners.values())),
        "rows of the test set": whole(tested) if tested else "",
        "stops": whole(len(findings.stops)),
        "notes": whole(len(findings.notes)),
    }
    detected = {}
    for name, how in findings.detected.items():
        detected[name] = "; ".join(f"{key}: {_in_words(value)}" for key, value in how.items())
    summary = {
        "title": "What is odd in the files",
        "lead": [_lead(findings)],
        "facts": facts,
        "columns": columns,
        "target": findings.target,
        "rows": rows[:shown],
        "hidden": max(0, len(rows) - shown),
        "stops": findings.stops,
        "notes": findings.notes,
        "remedies": " ".join(findings.remedies),
        "detected": detected,
    }
    return environment().get_template("check.html").render(s=summary)


def _in_words(how: object) -> str:
    """How something was read, without Python's brackets."""
    if isinstance(how, Mapping):
        return ", ".join(f"{key} as {_in_words(value)}" for key, value in how.items())
    if isinstance(how, (list, tuple, set)):
        return ", ".join(map(_in_words, how))
    return MARKS.get(str(how), str(how))


def _lead(findings: Findings) -> str:
    if findings.stops:
        stops = plural(len(findings.stops), "finding stops", "findings stop")
        return f"{stops} every run on these files: it would move money without a word."
    if findings.notes:
        return "Nothing stops a run. What follows may be real: whoever knows the data should look."
    return "Nothing odd was found."


def _row(findings: Findings, holder: str, columns: list[str]) -> AnyDict:
    """One holder's line of the map."""
    own = findings.cells.get(holder, {})
    cells = []
    for column in columns:
        here = [f for f in findings if f.column == column and f.owner in (holder, None)]
        kind, gone = own.get(column, ("", 0.0))
        missing = percent(gone, 0) if gone else ""
        cells.append(_marked(here) | {"kind": kind or "–", "missing": missing})
    whole_row = [f for f in findings if f.owner == holder and f.column is None]
    return _marked(whole_row) | {
        "name": holder,
        "size": whole(findings.sizes[holder]),
        "cells": cells,
    }


def _marked(found: list[Finding]) -> AnyDict:
    """How a part of the map is marked, by what was found there."""
    kinds = {finding.severity for finding in found}
    return {
        "state": "stop" if "stop" in kinds else "note" if kinds else "",
        "title": "\n".join(f"{finding.code}: {finding.message}" for finding in found),
        "codes": sorted({finding.code for finding in found}),
    }
