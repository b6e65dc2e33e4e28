"""From a valuation to everything a page says, as plain data. Pure: no clock, no disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.estimators.registry import REGISTRY
from dushapley.report.checks import checks, sources
from dushapley.report.wording import (
    NAME_WIDTH,
    decimal,
    meaning,
    percent,
    plural,
    whole,
    wrapped,
)
from dushapley.results import uncertainty
from dushapley.results.citations import bibtex
from dushapley.results.diagnosis import Alternative, Diagnosis
from dushapley.results.uncertainty import half_width
from dushapley.results.valuation import Valuation
from dushapley.settlement.money import money
from dushapley.settlement.settlement import Settlement
from dushapley.terminal import decimals_for, distinct_names, error_text

MOST_DRAWN = 40
"""Owners whom a figure with a line for each can still show."""
SUMS_ONLY = (
    "The owners handed over sums instead of rows: whose labels disagree, whose rows are of another "
    "kind and who shares rows cannot be told from sums."
)
Plain = dict[str, Any]
COPIED = ("payment_low", "payment_high", "value_low", "value_high")
"""What the copied table has beside the columns that are seen: ends of intervals."""
MOST_NAMED = 15
"""Owners whose names stand in figures."""
LONG_WORD = 22
"""Letters from which a word of a name may be broken anywhere."""
OF_USUAL_KIND = "as many rows of the usual kind"
AT_ONE_PRICE = "if every row were worth the same"
"""What the tick in the picture of a value is: with a diagnosis, and without one."""


def summarize(
    valuation: Valuation,
    settlement: Settlement | None = None,
    *,
    title: str = "Who contributed how much",
    about: Mapping[str, str] | None = None,
    diagnosis: Diagnosis | None = None,
) -> Plain:
    """Everything the page says, as plain JSON types; the same input gives the same summary.

    Parameters
    ----------
    valuation
        The result.
    settlement
        Payments that follow from it, if a pot is shared.
    title
        Heading of the page.
    about
        Facts of the run to list with the method: model, command line, input files. "score" and
        "tested" ("on 1,000 rows of test.csv") are what the first sentence says was measured;
        those of the settlement's record stand where none are given.
    diagnosis
        Why the values are what they are; None: as the settlement has it.

    Examples
    --------
    >>> import dushapley as ds
    >>> v = ds.value(ds.SizeGame([100, 300], w=lambda n: n / (n + 100)), "exact")
    >>> [row["name"] for row in ds.report.summarize(v)["rows"]]
    ['owner 2', 'owner 1']
    """
    order = valuation.order
    if diagnosis is None and settlement is not None:
        diagnosis = settlement.diagnosis
    expected = expected_by_size(diagnosis)
    rows = _rows(valuation, settlement, order, expected)
    growth: Any = None if settlement is None else settlement.record.get("growth")
    known = dict(about or {}) if about or settlement is None else recorded_about(settlement)
    return {
        "title": title,
        "lead": _lead(valuation, settlement, rows, known),
        "facts": _facts(valuation, settlement, known),
        "rows": rows,
        "hidden": [name for name in COPIED if rows[0].get(name) is not None],
        "by_size": AT_ONE_PRICE if expected is None else OF_USUAL_KIND,
        "has_error": valuation.total_errors is not None,
        "pot": None if settlement is None else _pot(settlement),
        "interval": valuation.interval_meaning,
        "unknown": list(valuation.unknown),
        "checks": checks(valuation, settlement),
        "sources": sources(valuation),
        "why": why(diagnosis, order),
        "figures": _figures(valuation, settlement, order) | why_figures(diagnosis, order),
        "meaning": meaning(valuation),
        "method": _method(valuation) | {"grown": whole(growth["trainings"]) if growth else ""},
        "about": known,
        "record": {} if settlement is None else dict(settlement.record),
        "notes": list(valuation.notes),
        "bibtex": bibtex(valuation),
    }


def recorded_about(settlement: Settlement) -> dict[str, str]:
    """Model, score, test set and target, as the settlement's record has them."""
    about, job = (settlement.record.get(name) for name in ("about", "job"))
    known = {str(k): str(v) for k, v in about.items()} if isinstance(about, Mapping) else {}
    if "target" not in known and isinstance(job, Mapping) and job.get("target"):
        known["target"] = str(job["target"])
    return known


def measured(about: Mapping[str, str], *, brief: bool = False) -> str:
    """What was measured on what: "the accuracy of predicting “ill” on 1,000 rows of test.csv"."""
    score, target = f"the {about.get('score', 'score')}", about.get("target")
    what = f"of predicting “{target}”" if target and not brief else ""
    return " ".join(filter(None, [score, what, about.get("tested")]))


def expected_by_size(diagnosis: Diagnosis | None) -> FloatArray | None:
    """What as many rows of the usual kind would be worth, where a diagnosis says it of all."""
    if diagnosis is None or any(one.by_size is None for one in diagnosis.owners):
        return None
    return np.array([one.by_size for one in diagnosis.owners], dtype=np.float64)


def _rows(
    valuation: Valuation,
    settlement: Settlement | None,
    order: Sequence[int] | Any,
    expected: FloatArray | None,
) -> list[Plain]:
    """One entry per owner, best first, with every number as number and as text."""
    ranks = rank_ranges(valuation, order)
    size_shares = _size_shares(valuation)
    by_size = size_shares * valuation.values.sum() if expected is None else expected
    place, errors = _axis(valuation, by_size), valuation.total_errors
    digits = decimals_for(valuation.values)
    shares = np.array((settlement or valuation).shares)
    rows = []
    nothing = "unknown" if valuation.unknown else ""
    for place_of, i in enumerate(int(i) for i in order):
        value = float(valuation.values[i])
        error = None if errors is None else half_width(float(errors[i]))
        ends = dict.fromkeys(("from", "to", "value_low", "value_high"))
        if error is not None:
            low, high = value - error, value + error
            ends = {"from": place(low), "to": place(high), "value_low": low, "value_high": high}
        row: Plain = {
            "rank": int(valuation.places[i]),
            "name": valuation.owners[i],
            "size": float(valuation.sizes[i]),
            "size_text": whole(valuation.sizes[i]),
            "value": value,
            "value_text": decimal(value, digits),
            "error": error,
            "error_text": nothing if error is None else error_text(error),
            "share": None if np.isnan(shares[i]) else float(shares[i]),
            "share_text": "–" if np.isnan(shares[i]) else percent(float(shares[i])),
            "size_share_text": percent(float(size_shares[i])),
            "negative": value < 0,
            "digits": digits,
            "long": any(len(word) > LONG_WORD for word in valuation.owners[i].split()),
            "rank_range": ranks[place_of],
            "at": place(value),
            "zero": place(0.0),
            "by_size_value": float(by_size[i]),
            "by_size_at": place(float(by_size[i])),
            **ends,
        }
        if settlement is not None:
            row |= _payment(settlement, i)
        rows.append(row)
    return rows


def _payment(settlement: Settlement, i: int) -> Plain:
    low, high, by_size = settlement.low, settlement.high, settlement.by_size[i]
    return {
        "payment": str(settlement.payments[i]),
        "payment_text": money(settlement.payments[i]),
        "payment_low": None if low is None else str(low[i]),
        "payment_high": None if high is None else str(high[i]),
        "payment_range": f"{money(low[i])} to {money(high[i])}" if low and high else "",
        "by_size": str(by_size),
        "by_size_text": money(by_size),
    }


def rank_ranges(valuation: Valuation, order: Sequence[int] | Any) -> list[Plain | None]:
    """For each owner, best first: the 95% range of its rank and the chance of the one shown."""
    ranges = uncertainty.rank_ranges(valuation)
    if ranges is None:
        return [None] * len(valuation.values)
    return [
        {
            "low": low,
            "high": high,
            "rank_text": str(low) if low == high else f"{low}–{high}",
            "sure": sure,
            "sure_text": percent(sure, 0),
        }
        for low, high, sure in zip(*(column[order].tolist() for column in ranges), strict=True)
    ]


def _axis(valuation: Valuation, by_size: FloatArray) -> Callable[[float], float]:
    """Map a value to its place, in percent of the width of the picture."""
    errors = valuation.total_errors
    spread = np.zeros(1) if errors is None else half_width(errors)
    ends = [valuation.values - spread, valuation.values + spread, by_size]
    low = min(0.0, float(min(end.min() for end in ends)))
    high = max(0.0, float(max(end.max() for end in ends)))
    return axis(low, high)


def axis(low: float, high: float) -> Callable[[float], float]:
    """Map a value between these ends to its place, in percent of the width of a picture."""
    width = high - low or 1.0
    return lambda value: round(2 + 96 * (value - low) / width, 3)


def _size_shares(valuation: Valuation) -> FloatArray:
    """Each owner's part of all rows; equal parts where nobody has any."""
    sizes = valuation.sizes if valuation.sizes.sum() else np.ones(len(valuation.sizes))
    return np.asarray(sizes / sizes.sum())


def _lead(
    valuation: Valuation,
    settlement: Settlement | None,
    rows: list[Plain],
    about: Mapping[str, str],
) -> list[str]:
    """The answer, in two or three sentences."""
    total = valuation.u_full - valuation.u_empty
    digits = decimals_for(np.array([valuation.u_full, valuation.u_empty, total]))
    first = (
        f"Pooling the data of {plural(len(rows), 'owner', 'owners')} moves {measured(about)} from "
        f"{decimal(valuation.u_empty, digits)} (nobody’s data) to "
        f"{decimal(valuation.u_full, digits)} (everybody’s)."
    )
    gain = f"That gain of {decimal(total, digits)} is shared out below by what each owner adds."
    sentences = [first, gain, *_harm([row for row in rows if row["negative"]])]
    if settlement is not None:
        sentences += [settlement.rule, *settlement.notes]
    return sentences


def _harm(negative: list[Plain]) -> list[str]:
    """How many owners lower the score, and of how many that is not sure."""
    unsure = sum(row["error"] is not None and row["value"] + row["error"] >= 0 for row in negative)
    sure = len(negative) - unsure
    lower = f"{plural(sure, 'owner lowers', 'owners lower')} the score on average."
    owners = plural(unsure, "owner has", "owners have")
    chance = f"{owners} a negative value that may be chance: zero is within the error."
    return [sentence for count, sentence in ((sure, lower), (unsure, chance)) if count]


def _facts(
    valuation: Valuation, settlement: Settlement | None, about: Mapping[str, str]
) -> dict[str, str]:
    """The few figures to see at a glance; method and cost stand below."""
    ends = np.array([valuation.u_empty, valuation.u_full])
    before, after = (decimal(float(end), decimals_for(ends)) for end in ends)
    label = measured(about, brief=True).removeprefix("the ")
    score = f"{before} → {after}"
    facts = {"owners": whole(len(valuation.owners)), "rows": whole(float(valuation.sizes.sum()))}
    if settlement is not None:
        pot = f"{money(settlement.pot)} {settlement.currency}".strip()
        known = settlement.certainty.removeprefix("payments known to ").split(" (")[0]
        facts = {"pot": pot, label: score, **facts, "payments known to, 95%": known}
    else:
        facts = {label: score, **facts}
    return facts


def _pot(settlement: Settlement) -> Plain:
    return {
        "amount": str(settlement.pot),
        "amount_text": money(settlement.pot),
        "currency": settlement.currency,
        "negative": settlement.negative,
        "rule": settlement.rule,
        "floor": settlement.floor,
        "interval": settlement.interval_meaning,
        "certainty": settlement.certainty,
    }


def _figures(
    valuation: Valuation, settlement: Settlement | None, order: Sequence[int] | Any
) -> Plain:
    """Numbers that the figures draw; owners in the order of the table."""
    shares = np.array((settlement or valuation).shares)
    trail = valuation.details.get("trail")
    sizes, values = valuation.sizes[order], valuation.values[order]
    figures: Plain = {
        "size": {
            "sizes": (sizes / sizes.sum()).tolist() if sizes.sum() else [],
            "shares": [] if np.isnan(shares).any() else shares[order].tolist(),
            "of": "value" if settlement is None else "pot",
        },
        "negative": (values < 0).tolist(),
        "names": _figure_names([valuation.owners[i] for i in order]),
        "empty": valuation.u_empty,
    }
    if trail is not None:
        history = {"asked": trail["history"]["asked"]}
        for name in ("values", "std_errors"):
            steps = trail["history"].get(name) or [None] * len(history["asked"])
            history[name] = [None if step is None else [step[i] for i in order] for step in steps]
        gains = trail["stages"]["gains"]
        unknown = [[None] * len(owner) for owner in gains]  # as older files have it
        errors = trail["stages"].get("std_errors") or unknown
        figures |= {
            "history": history,
            "curve": trail["curve"],
            "stages": [gains[i] for i in order],
            "stage_errors": [errors[i] for i in order],
            "fitted": trail["stages"]["fitted"],
        }
    return figures


def _figure_names(names: Sequence[str]) -> list[str]:
    """What stands for the owners in figures: their names, or ranks where they are many."""
    if len(names) > MOST_NAMED:
        return [str(k + 1) for k in range(len(names))]
    return [wrapped(name) for name in distinct_names(names, NAME_WIDTH)]


def _method(valuation: Valuation) -> Plain:
    method = REGISTRY.get(valuation.method_run)
    return {
        "label": valuation.method,
        "summary": "" if method is None else method.summary,
        "keeps": sorted(method.keeps) if method is not None and not callable(method.keeps) else [],
        "options": {str(k): str(v) for k, v in valuation.options.items()},
        "budget": "default" if valuation.budget is None else whole(valuation.budget),
        "evaluations": whole(valuation.n_evaluations),
        "trainings": whole(valuation.n_trainings) if valuation.n_trainings else "",
        "distinct": "" if valuation.n_distinct is None else whole(valuation.n_distinct),
        "seed": str(valuation.seed),
        "fingerprint": valuation.fingerprint or "unknown: the game is a bare function",
        "version": valuation.version,
        "guarantee": dict(valuation.guarantee or {}),
        "failures": dict(valuation.failures),
    }


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
    models = models_table([one.owner for one in diagnosis.owners], diagnosis.alternatives)
    untold = [SUMS_ONLY] if diagnosis.task is None else []
    return {
        "owners": sorted(rows, key=lambda row: not row["accused"]),
        "notes": [*untold, *diagnosis.notes],
        "trainings": diagnosis.trainings,
        "models": models | {"rows": [models["rows"][int(i)] for i in order]} if models else {},
    }


def models_table(names: Sequence[str], found: Sequence[Alternative]) -> dict[str, Any]:
    """Each owner's part under every model and score; nothing where one was named."""
    if len(found) < 2:
        return {}
    gains = [np.maximum(one.values, 0) for one in found]
    parts = [gain / (gain.sum() or 1.0) for gain in gains]
    rows = [
        {"name": name, "parts": [percent(float(part[i])) for part in parts]}
        for i, name in enumerate(names)
    ]
    scores = [decimal(one.u_full, decimals_for([one.u_full])) for one in found]
    titles = [f"{one.model}, {one.scoring} {at}" for one, at in zip(found, scores, strict=True)]
    return {"titles": titles, "rows": rows}


def why_figures(diagnosis: Diagnosis | None, order: Any) -> dict[str, Any]:
    """What the grid "trained on, tested on" draws."""
    matrix = None if diagnosis is None else diagnosis.matrix
    if matrix is None or not matrix.agreement or len(order) > MOST_DRAWN:
        return {}
    place = [int(i) for i in order]
    tested = [*place, *range(len(place), len(matrix.tested_on))]
    names = [wrapped(name) for name in distinct_names(matrix.tested_on, NAME_WIDTH)]
    grid = {
        "trained_on": [names[i] for i in place],
        "tested_on": [names[j] for j in tested],
        "agreement": [[matrix.agreement[i][j] for j in tested] for i in place],
    }
    return {"matrix": grid}
