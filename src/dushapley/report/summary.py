"""From a valuation to everything a page says, as plain data. Pure: no clock, no disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan

import numpy as np

from dushapley.arrays import AnyDict, AnyMapping, FloatArray, IntArray
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
) -> AnyDict:
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
    known, record, pot, grown = dict(about or {}), {}, None, ""
    if settlement is not None:
        known = known or recorded_about(settlement)
        record, pot = dict(settlement.record), _pot(settlement)
        grown = whole(record["growth"]["trainings"]) if record.get("growth") else ""
    return {
        "title": title,
        "lead": _lead(valuation, settlement, rows, known),
        "facts": _facts(valuation, settlement, known),
        "rows": rows,
        "hidden": [name for name in COPIED if rows[0].get(name) is not None],
        "by_size": AT_ONE_PRICE if expected is None else OF_USUAL_KIND,
        "has_error": valuation.total_errors is not None,
        "pot": pot,
        "interval": valuation.interval_meaning,
        "unknown": list(valuation.unknown),
        "checks": checks(valuation, settlement),
        "sources": sources(valuation),
        "why": why(diagnosis, order),
        "figures": _figures(valuation, settlement, order) | why_figures(diagnosis, order),
        "meaning": meaning(valuation),
        "method": _method(valuation) | {"grown": grown},
        "about": known,
        "record": record,
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
    expected = [None] if diagnosis is None else [one.by_size for one in diagnosis.owners]
    return None if None in expected else np.array(expected, dtype=np.float64)


def _rows(
    valuation: Valuation,
    settlement: Settlement | None,
    order: IntArray,
    expected: FloatArray | None,
) -> list[AnyDict]:
    """One entry per owner, best first, with every number as number and as text."""
    n_rows = valuation.sizes if valuation.sizes.any() else np.ones(len(valuation))
    size_shares = n_rows / n_rows.sum()
    by_size = size_shares * valuation.values.sum() if expected is None else expected
    place, errors = _axis(valuation, by_size), valuation.total_errors
    digits = decimals_for(valuation.values)
    values, sizes = valuation.values.tolist(), valuation.sizes.tolist()
    shares = np.array((settlement or valuation).shares).tolist()
    places = valuation.places.tolist()
    rows = []
    nothing = "unknown" if valuation.unknown else ""
    for i, ranks in zip(order.tolist(), rank_ranges(valuation, order), strict=True):
        name, value, size, share = valuation.owners[i], values[i], sizes[i], shares[i]
        no_share, expected_value = isnan(share), float(by_size[i])
        error = None if errors is None else uncertainty.half_width(float(errors[i]))
        ends = dict.fromkeys(("from", "to", "value_low", "value_high"))
        if error is not None:
            low, high = value - error, value + error
            ends = {"from": place(low), "to": place(high), "value_low": low, "value_high": high}
        row: AnyDict = {
            "rank": places[i],
            "name": name,
            "size": size,
            "size_text": whole(size),
            "value": value,
            "value_text": decimal(value, digits),
            "error": error,
            "error_text": nothing if error is None else error_text(error),
            "share": None if no_share else share,
            "share_text": "–" if no_share else percent(share),
            "size_share_text": percent(size_shares[i]),
            "negative": value < 0,
            "digits": digits,
            "long": any(len(word) > LONG_WORD for word in name.split()),
            "rank_range": ranks,
            "at": place(value),
            "zero": place(0.0),
            "by_size_value": expected_value,
            "by_size_at": place(expected_value),
            **ends,
        }
        if settlement is not None:
            row |= _payment(settlement, i)
        rows.append(row)
    return rows


def _payment(settlement: Settlement, i: int) -> AnyDict:
    payment, by_size = settlement.payments[i], settlement.by_size[i]
    found = {
        "payment": str(payment),
        "payment_text": money(payment),
        "payment_low": None,
        "payment_high": None,
        "payment_range": "",
        "by_size": str(by_size),
        "by_size_text": money(by_size),
    }
    if settlement.low and settlement.high:
        low, high = settlement.low[i], settlement.high[i]
        found["payment_low"], found["payment_high"] = str(low), str(high)
        found["payment_range"] = f"{money(low)} to {money(high)}"
    return found


def rank_ranges(valuation: Valuation, order: IntArray) -> list[AnyDict | None]:
    """For each owner, best first: the 95% range of its rank and the chance of the one shown."""
    ranges = uncertainty.rank_ranges(valuation)
    if ranges is None:
        return [None] * len(valuation.values)
    low, high, sure = (column[order].tolist() for column in ranges)
    return [
        {
            "low": a,
            "high": b,
            "rank_text": str(a) if a == b else f"{a}–{b}",
            "sure": p,
            "sure_text": percent(p, 0),
        }
        for a, b, p in zip(low, high, sure, strict=True)
    ]


def _axis(valuation: Valuation, by_size: FloatArray) -> Callable[[float], float]:
    """Map a value to its place, in percent of the width of the picture."""
    values, errors = valuation.values, valuation.total_errors
    spread = 0.0 if errors is None else uncertainty.half_width(errors)
    low = min(0.0, (values - spread).min(), by_size.min())
    high = max(0.0, (values + spread).max(), by_size.max())
    return axis(float(low), float(high))


def axis(low: float, high: float) -> Callable[[float], float]:
    """Map a value between these ends to its place, in percent of the width of a picture."""
    width = high - low or 1.0
    return lambda value: round(2 + 96 * (value - low) / width, 3)


def _lead(
    valuation: Valuation,
    settlement: Settlement | None,
    rows: list[AnyDict],
    about: Mapping[str, str],
) -> list[str]:
    """The answer, in two or three sentences."""
    before, after = valuation.u_empty, valuation.u_full
    total = after - before
    digits = decimals_for([after, before, total])
    owners = plural(len(rows), "owner", "owners")
    sentences = [
        f"Pooling the data of {owners} moves {measured(about)} from {decimal(before, digits)} "
        f"(nobody’s data) to {decimal(after, digits)} (everybody’s).",
        f"That gain of {decimal(total, digits)} is shared out below by what each owner adds.",
        *_harm([row for row in rows if row["negative"]]),
    ]
    if settlement is not None:
        sentences += [settlement.rule, *settlement.notes]
    return sentences


def _harm(negative: list[AnyDict]) -> list[str]:
    """How many owners lower the score, and of how many that is not sure."""
    known = [row for row in negative if row["error"] is not None]
    unsure = sum(row["value"] + row["error"] >= 0 for row in known)
    sure = len(negative) - unsure
    lower = f"{plural(sure, 'owner lowers', 'owners lower')} the score on average."
    owners = plural(unsure, "owner has", "owners have")
    chance = f"{owners} a negative value that may be chance: zero is within the error."
    return [sentence for count, sentence in ((sure, lower), (unsure, chance)) if count]


def _facts(
    valuation: Valuation, settlement: Settlement | None, about: Mapping[str, str]
) -> dict[str, str]:
    """The few figures to see at a glance; method and cost stand below."""
    ends = [valuation.u_empty, valuation.u_full]
    before, after = (decimal(end, decimals_for(ends)) for end in ends)
    label = measured(about, brief=True).removeprefix("the ")
    facts = {
        label: f"{before} → {after}",
        "owners": whole(len(valuation.owners)),
        "rows": whole(valuation.sizes.sum()),
    }
    if settlement is None:
        return facts
    known = settlement.certainty.removeprefix("payments known to ").split(" (")[0]
    pot = {"pot": money(settlement.pot, settlement.currency)}
    return pot | facts | {"payments known to, 95%": known}


def _pot(settlement: Settlement) -> AnyDict:
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


def _figures(valuation: Valuation, settlement: Settlement | None, order: IntArray) -> AnyDict:
    """Numbers that the figures draw; owners in the order of the table."""
    shares = np.array((settlement or valuation).shares)[order]
    sizes, values = valuation.sizes[order], valuation.values[order]
    size = {
        "sizes": (sizes / sizes.sum()).tolist() if sizes.any() else [],
        "shares": [] if np.isnan(shares).any() else shares.tolist(),
        "of": "value" if settlement is None else "pot",
    }
    figures: AnyDict = {
        "size": size,
        "negative": (values < 0).tolist(),
        "names": _figure_names([valuation.owners[i] for i in order]),
        "empty": valuation.u_empty,
    }
    trail = valuation.details.get("trail")
    return figures if trail is None else figures | _trail_figures(trail, order.tolist())


def _trail_figures(trail: AnyMapping, order: list[int]) -> AnyDict:
    """Of the questions of a run: values as they settled, and gains by stages."""
    stages, asked = trail["stages"], trail["history"]["asked"]
    history = {"asked": asked}
    for name in ("values", "std_errors"):
        steps = trail["history"].get(name) or [None] * len(asked)
        history[name] = [step and [step[i] for i in order] for step in steps]
    gains = stages["gains"]
    # older files have none
    errors = stages.get("std_errors") or [[None] * len(owner) for owner in gains]
    return {
        "history": history,
        "curve": trail["curve"],
        "stages": [gains[i] for i in order],
        "stage_errors": [errors[i] for i in order],
        "fitted": stages["fitted"],
    }


def _figure_names(names: Sequence[str]) -> list[str]:
    """What stands for the owners in figures: their names, or ranks where they are many."""
    if len(names) > MOST_NAMED:
        return [str(k + 1) for k in range(len(names))]
    return [wrapped(name) for name in distinct_names(names, NAME_WIDTH)]


def _method(valuation: Valuation) -> AnyDict:
    method = REGISTRY.get(valuation.method_run)
    summary, keeps = "", []
    if method is not None:
        summary = method.summary
        keeps = [] if callable(method.keeps) else sorted(method.keeps)
    budget, distinct = valuation.budget, valuation.n_distinct
    return {
        "label": valuation.method,
        "summary": summary,
        "keeps": keeps,
        "options": {name: str(option) for name, option in valuation.options.items()},
        "budget": "default" if budget is None else whole(budget),
        "evaluations": whole(valuation.n_evaluations),
        "trainings": whole(valuation.n_trainings) if valuation.n_trainings else "",
        "distinct": "" if distinct is None else whole(distinct),
        "seed": str(valuation.seed),
        "fingerprint": valuation.fingerprint or "unknown: the game is a bare function",
        "version": valuation.version,
        "guarantee": dict(valuation.guarantee or {}),
        "failures": dict(valuation.failures),
    }


def why(diagnosis: Diagnosis | None, order: IntArray) -> AnyDict:
    """Sentences by owner, those that something may be wrong with first, and notes."""
    if diagnosis is None:
        return {"owners": [], "notes": [], "trainings": 0, "models": {}}
    rows = []
    for one in sorted((diagnosis.owners[i] for i in order), key=lambda one: not one.accused):
        reasons = [{"code": reason.code, "text": reason.text} for reason in one.reasons]
        rows.append({"name": one.owner, "accused": one.accused, "reasons": reasons})
    models = models_table([one.owner for one in diagnosis.owners], diagnosis.alternatives)
    if models:
        models["rows"] = [models["rows"][i] for i in order]
    untold = [SUMS_ONLY] if diagnosis.task is None else []
    return {
        "owners": rows,
        "notes": [*untold, *diagnosis.notes],
        "trainings": diagnosis.trainings,
        "models": models,
    }


def models_table(names: Sequence[str], found: Sequence[Alternative]) -> AnyDict:
    """Each owner's part under every model and score; nothing where one was named."""
    if len(found) < 2:
        return {}
    gains = [np.maximum(one.values, 0) for one in found]
    parts = [gain / (gain.sum() or 1.0) for gain in gains]
    columns = [map(percent, part.tolist()) for part in parts]
    rows = [{"name": name, "parts": own} for name, *own in zip(names, *columns, strict=True)]
    scores = [decimal(one.u_full, decimals_for([one.u_full])) for one in found]
    titles = [f"{one.model}, {one.scoring} {at}" for one, at in zip(found, scores, strict=True)]
    return {"titles": titles, "rows": rows}


def why_figures(diagnosis: Diagnosis | None, order: IntArray) -> AnyDict:
    """What the grid "trained on, tested on" draws."""
    matrix = None if diagnosis is None else diagnosis.matrix
    if matrix is None or not matrix.agreement or len(order) > MOST_DRAWN:
        return {}
    place = order.tolist()
    tested = [*place, *range(len(place), len(matrix.tested_on))]
    names = [wrapped(name) for name in distinct_names(matrix.tested_on, NAME_WIDTH)]
    return {
        "matrix": {
            "trained_on": [names[i] for i in place],
            "tested_on": [names[j] for j in tested],
            "agreement": [[matrix.agreement[i][j] for j in tested] for i in place],
        }
    }
