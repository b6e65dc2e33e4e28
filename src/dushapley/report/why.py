"""Reasons of a diagnosis as plain data, for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from dushapley.report.numbers import NAME_WIDTH, decimal, percent, wrapped
from dushapley.results.diagnosis import Alternative, Diagnosis
from dushapley.terminal import decimals_for, distinct_names

MOST_DRAWN = 40
"""Owners whom a figure with a line for each can still show."""
SUMS_ONLY = (
    "The owners handed over sums instead of rows: whose labels disagree, whose rows are of another "
    "kind and who shares rows cannot be told from sums."
)


def why(diagnosis: Diagnosis | None, order: Any) -> dict[str, Any]:
    """Sentences by owner, those that something may be wrong with first, and notes."""
    if diagnosis is None:
        return {"owners": [], "notes": [], "trainings": 0, "models": {}}
    rows = [
        {
            "name": one.owner,
            "accused": one.accused,
            "reasons": [{"code": r.code, "text": r.text} for r in one.reasons],
        }
        for one in (diagnosis.owners[int(i)] for i in order)
    ]
    untold = [SUMS_ONLY] if diagnosis.task is None else []
    return {
        "owners": sorted(rows, key=lambda row: not row["accused"]),
        "notes": [*untold, *diagnosis.notes],
        "trainings": diagnosis.trainings,
        "models": _models(diagnosis, order),
    }


def _models(diagnosis: Diagnosis, order: Any) -> dict[str, Any]:
    """Each owner's part under every model and score, as a table; nothing where one was named."""
    if len(diagnosis.alternatives) < 2:
        return {}
    found = [_alternative(one, order) for one in diagnosis.alternatives]
    names = [diagnosis.owners[int(i)].owner for i in order]
    return {
        "titles": [one["label"] for one in found],
        "rows": [
            {"name": name, "parts": [percent(one["shares"][k]) for one in found]}
            for k, name in enumerate(names)
        ],
    }


def why_figures(diagnosis: Diagnosis | None, order: Any) -> dict[str, Any]:
    """What the grid "trained on, tested on" and the strips of other models draw."""
    figures: dict[str, Any] = {}
    if diagnosis is None:
        return figures
    matrix = diagnosis.matrix
    if matrix is not None and matrix.agreement and len(order) <= MOST_DRAWN:
        place = [int(i) for i in order]
        further = range(len(place), len(matrix.tested_on))
        tested = [*place, *further]
        names = [wrapped(name) for name in distinct_names(matrix.tested_on, NAME_WIDTH)]
        figures["matrix"] = {
            "trained_on": [names[i] for i in place],
            "tested_on": [names[j] for j in tested],
            "agreement": [[matrix.agreement[i][j] for j in tested] for i in place],
        }
    if len(diagnosis.alternatives) > 1 and len(order) <= MOST_DRAWN:
        figures["alternatives"] = [_alternative(one, order) for one in diagnosis.alternatives]
    return figures


def _alternative(one: Alternative, order: Any) -> dict[str, Any]:
    values = np.array(one.values)[np.asarray(order)]
    gained = float(np.maximum(values, 0).sum()) or 1.0
    score = decimal(one.u_full, decimals_for([one.u_full]))
    return {
        "label": f"{one.model}, {one.scoring} {score}",
        "shares": (values / gained).tolist(),
    }
