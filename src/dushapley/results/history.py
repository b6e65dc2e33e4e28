"""What a paid run asked and learned, condensed to what a page can show.

The estimates along the way, the worth of pools against their rows, and what each owner added to
pools of growing size. It costs no evaluation and depends only on questions and answers, so it is
the same whether these were computed or found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.protocol import Ask, Estimate
from dushapley.validation import is_partial

MOST_POOLS, MOST_ENTRIES, MOST_POINTS = 4096, 2**18, 400
STAGES = 5
"""Pools are grouped by how much of the others' data they hold: in fifths."""
ENOUGH_PAIRS = 0.6
"""Part of all owners and stages that must have been seen in pairs of pools."""
BANDWIDTH, RIDGE, LEAST_POOLS = 0.2, 0.05, 1.5
"""Of the local regression: width in shares of all rows, penalty, least pools per slope."""

Key = tuple[int, bytes]
"""What a pool holds: who is in it as a whole, bit by bit, and the parts of others by their draw."""
Pools = dict[Key, int]
"""As many pools as there is room for, by what they hold: their places."""


def run_history(
    sizes: FloatArray,
    asks: Sequence[Ask],
    numbers: Sequence[IntArray],
    values: FloatArray,
    final: Estimate,
) -> dict[str, Any]:
    """What to show of a run.

    Parameters
    ----------
    sizes
        Rows of each owner.
    asks, numbers
        Rounds as they were answered, and the numbers of their pools.
    values
        What pools came to, by number.
    final
        What the method made of it.

    Returns
    -------
    dict
        "history" (estimates after a number of questions), "curve" (rows and worth of pools),
        "stages" (mean gain of each owner by how much of the others' rows the pool held), "alone"
        and "without" (worth of each owner alone, and of all but it; None where not asked).
    """
    steps: list[tuple[int, Estimate]] = []
    known: dict[Key, tuple[FloatArray, float]] = {}
    asked = 0
    room = max(64, min(MOST_POOLS, MOST_ENTRIES // len(sizes)))
    for ask, answers in zip(asks, numbers, strict=True):
        if (so_far := ask.estimate()) is not None:
            steps.append((asked, so_far))
        asked += len(answers)
        some = np.asarray(ask.queries, dtype=np.float64)[: room - len(known)]
        worth = values[answers[: len(some)]].tolist()
        known |= zip(_keys(some, ask.draws), zip(some, worth, strict=True), strict=True)
    places = {key: place for place, key in enumerate(known)}
    pools, worth = (np.array(part) for part in zip(*known.values(), strict=True))
    each = [1 << i for i in range(len(sizes))]
    ends = [[(who, b"") for who in each], [(sum(each) ^ who, b"") for who in each]]
    alone, without = ([known[key][1] if key in known else None for key in keys] for keys in ends)
    steps = _thinned([*steps, (asked, final)], int(np.clip(10_000 // len(sizes), 5, 40)))
    errors = [estimate.std_errors for _, estimate in steps]
    points = sorted(zip((pools @ sizes).tolist(), worth.tolist(), strict=True))
    rows, values_of = zip(*_thinned(points, MOST_POINTS), strict=True)
    return {
        "history": {
            "asked": [asked for asked, _ in steps],
            "values": [estimate.values.tolist() for _, estimate in steps],
            "std_errors": [None if e is None else e.tolist() for e in errors],
        },
        "curve": {"rows": list(rows), "values": list(values_of)},
        "stages": _stages(sizes, places, pools, worth),
        "alone": alone,
        "without": without,
    }


def _stages(
    sizes: FloatArray, places: Pools, pools: FloatArray, worth: FloatArray
) -> dict[str, Any]:
    """Gain of each owner by how much of the others' rows the pool holds.

    The mean over pairs of pools that differ by the owner alone; where the method asked for
    too few such pairs, the slopes of a local regression on who is in the pool.
    """
    sums, squares, counts = _pairs(sizes, places, pools, worth)
    unknown = np.full(sums.shape, np.nan)
    means = np.divide(sums, counts, out=unknown.copy(), where=counts > 0)
    left = np.maximum(squares - sums * np.nan_to_num(means), 0.0)
    errors = np.sqrt(np.divide(left, counts * (counts - 1.0), out=unknown, where=counts > 1))
    fitted = bool((counts > 0).mean() < ENOUGH_PAIRS)
    if fitted:
        means, errors = _slopes(sizes, pools, worth)
    gains, errors_of = (
        [[float(x) if np.isfinite(x) else None for x in row] for row in table]
        for table in (means, errors)
    )
    return {"gains": gains, "std_errors": errors_of, "fitted": fitted}


def _pairs(
    sizes: FloatArray, places: Pools, pools: FloatArray, worth: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Sum, sum of squares and number of the gains seen, by owner and stage."""
    n, keys = len(sizes), list(places)
    sums, counts = np.zeros((n, STAGES)), np.zeros((n, STAGES), dtype=np.int64)
    squares = np.zeros((n, STAGES))
    others = np.maximum(sizes.sum() - sizes, 1e-300)
    rows = pools @ sizes
    for i in range(n):
        inside = np.flatnonzero(pools[:, i] == 1)
        held = [keys[place] for place in inside.tolist()]
        before = np.array([places.get((who ^ 1 << i, part), -1) for who, part in held], dtype=int)
        inside, before = inside[before >= 0], before[before >= 0]
        stage = np.minimum(STAGES - 1, (STAGES * rows[before] / others[i]).astype(np.int64))
        gains = worth[inside] - worth[before]
        sums[i] = np.bincount(stage, gains, STAGES)
        squares[i] = np.bincount(stage, gains**2, STAGES)
        counts[i] = np.bincount(stage, minlength=STAGES)
    return sums, squares, counts


def _slopes(
    sizes: FloatArray, pools: FloatArray, worth: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ridge regression of worth on membership, pools weighted by their distance in rows.

    With standard errors of what it leaves unexplained, pool by pool.
    """
    n, part = len(sizes), pools @ sizes / max(float(sizes.sum()), 1e-300)
    slopes, errors = np.full((n, STAGES), np.nan), np.full((n, STAGES), np.nan)
    for stage in range(STAGES):
        middle = (stage + 0.5) / STAGES
        weights = np.exp(-0.5 * ((part - middle) / BANDWIDTH) ** 2)
        if weights.sum() < LEAST_POOLS * n:  # fewer pools than slopes tell nothing
            continue
        centred = pools - weights @ pools / weights.sum()
        gram = (centred * weights[:, None]).T @ centred
        ridge = RIDGE * np.trace(gram) / n + 1e-300
        target = (centred * weights[:, None]).T @ (worth - weights @ worth / weights.sum())
        square = gram + ridge * np.eye(n)
        slopes[:, stage] = np.linalg.solve(square, target)
        left = worth - weights @ worth / weights.sum() - centred @ slopes[:, stage]
        scores = centred * (weights * left)[:, None]
        half = np.linalg.solve(square, scores.T @ scores)
        errors[:, stage] = np.sqrt(np.maximum(np.diag(np.linalg.solve(square, half.T)), 0))
    return slopes, errors


def _thinned(items: list[Any], most: int) -> list[Any]:
    """At most so many of these, evenly spread."""
    even = np.linspace(0, len(items) - 1, min(most, len(items)))
    return [items[i] for i in dict.fromkeys(even.round().astype(int).tolist())]


def _keys(pools: FloatArray, draws: IntArray | None) -> list[Key]:
    """Whole owners need no draw to be known by; parts of them do."""
    whole, partial = pools == 1, is_partial(pools).tolist()
    drawn = np.zeros(len(pools), dtype=np.int64) if draws is None else draws
    rest = [
        row.tobytes() + draw.tobytes() if part else b""
        for row, draw, part in zip(np.where(whole, 0.0, pools), drawn, partial, strict=False)
    ]
    bits = np.packbits(whole, axis=1, bitorder="little")
    return list(zip((int.from_bytes(row.tobytes(), "little") for row in bits), rest, strict=True))
