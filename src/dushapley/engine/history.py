"""What a paid run asked and learned, condensed to what a page can show.

The estimates along the way, the worth of pools against their rows, and what each owner added to
pools of growing size. It costs no evaluation and depends only on questions and answers, so it is
the same whether these were computed or found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.engine.transcript import Transcript
from dushapley.protocol import Estimate
from dushapley.validation import is_partial

MOST_POOLS, MOST_ENTRIES, MOST_POINTS = 4096, 2**18, 400
STAGES = 5
"""Pools are grouped by how much of the others' data they hold: in fifths."""
ENOUGH_PAIRS = 0.6
"""Part of all owners and stages that must have been seen in pairs of pools."""
BANDWIDTH, RIDGE, LEAST_POOLS = 0.2, 0.05, 1.5
"""Of the local regression: width in shares of all rows, penalty, least pools per slope."""

Pools = dict[bytes, tuple[FloatArray, float]]
"""As many pools as there is room for, by what they hold, with their worth."""


def run_history(
    sizes: FloatArray, transcript: Transcript, values: FloatArray, final: Estimate
) -> dict[str, Any]:
    """What to show of a run.

    Parameters
    ----------
    sizes
        Rows of each owner.
    transcript, values
        What was asked, which of the different pools answered it, and what these are worth.
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
    pools: Pools = {}
    asked, room = 0, max(64, min(MOST_POOLS, MOST_ENTRIES // len(sizes)))
    for ask, answers in zip(transcript.asks, transcript.numbers, strict=True):
        if (so_far := ask.estimate()) is not None:
            steps.append((asked, so_far))
        asked += len(answers)
        some = np.asarray(ask.queries, dtype=np.float64)[: room - len(pools)]
        if len(some):
            draws = None if ask.draws is None else [draw.tobytes() for draw in ask.draws]
            worth = values[answers[: len(some)]].tolist()
            pools |= zip(_keys(some, draws), zip(some, worth, strict=True), strict=True)
    held = np.array([holds for holds, _ in pools.values()])
    worth = np.array([value for _, value in pools.values()])
    return {
        "history": _history([*steps, (asked, final)]),
        "curve": _curve(sizes, held, worth),
        "stages": _stages(sizes, pools, held, worth),
        "alone": _ends(pools, np.eye(len(sizes))),
        "without": _ends(pools, 1 - np.eye(len(sizes))),
    }


def _history(steps: list[tuple[int, Estimate]]) -> dict[str, Any]:
    """Estimates along the way, thinned evenly; always with the last one."""
    n_players = len(steps[-1][1].values)
    chosen = _thinned(steps, int(np.clip(10_000 // n_players, 5, 40)))
    return {
        "asked": [asked for asked, _ in chosen],
        "values": [e.values.tolist() for _, e in chosen],
        "std_errors": [None if e.std_errors is None else e.std_errors.tolist() for _, e in chosen],
    }


def _curve(sizes: FloatArray, pools: FloatArray, worth: FloatArray) -> dict[str, list[float]]:
    """Rows and worth of the pools, by rows; thinned evenly."""
    points = sorted(zip((pools @ sizes).tolist(), worth.tolist(), strict=True))
    rows, values = zip(*_thinned(points, MOST_POINTS), strict=True)
    return {"rows": list(rows), "values": list(values)}


def _stages(
    sizes: FloatArray, known: Pools, pools: FloatArray, worth: FloatArray
) -> dict[str, Any]:
    """Gain of each owner by how much of the others' rows the pool holds.

    The mean over pairs of pools that differ by the owner alone; where the method asked for
    too few such pairs, the slopes of a local regression on who is in the pool.
    """
    sums, squares, counts = _pairs(sizes, _finder(known, pools), pools, worth)
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


Finder = Callable[[IntArray, int], IntArray]
"""(numbers of pools, owner) -> numbers of the same pools without the owner; −1 where unknown."""


def _pairs(
    sizes: FloatArray, without_of: Finder, pools: FloatArray, worth: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Sum, sum of squares and number of the gains seen, by owner and stage."""
    n = len(sizes)
    sums, counts = np.zeros((n, STAGES)), np.zeros((n, STAGES), dtype=np.int64)
    squares = np.zeros((n, STAGES))
    others = np.maximum(sizes.sum() - sizes, 1e-300)
    rows = pools @ sizes
    for i in range(n):
        inside = np.flatnonzero(pools[:, i] == 1)
        before = without_of(inside, i)
        inside, before = inside[before >= 0], before[before >= 0]
        stage = np.minimum(STAGES - 1, (STAGES * rows[before] / others[i]).astype(np.int64))
        gains = worth[inside] - worth[before]
        sums[i] = np.bincount(stage, gains, STAGES)
        squares[i] = np.bincount(stage, gains**2, STAGES)
        counts[i] = np.bincount(stage, minlength=STAGES)
    return sums, squares, counts


def _finder(known: Pools, pools: FloatArray) -> Finder:
    """Finds coalitions by sums of random numbers, one an owner; pools of parts by all they hold."""
    if bool(is_partial(pools).any()):
        return _slow_finder(known, pools)
    whole = pools == 1
    drawn = np.random.default_rng(0).integers(2**63, size=pools.shape[1], dtype=np.uint64)
    marks: np.ndarray[Any, np.dtype[np.uint64]] = np.asarray(drawn)
    sums = np.asarray((whole * marks).sum(axis=1, dtype=np.uint64))
    order = np.argsort(sums, kind="stable")
    ranked = sums[order]

    def find(inside: IntArray, owner: int) -> IntArray:
        wanted = sums[inside] - marks[owner]
        place = np.minimum(np.searchsorted(ranked, wanted), len(order) - 1)
        likely = np.flatnonzero(ranked[place] == wanted)
        found = order[place[likely]]
        others = whole[inside[likely]]
        others[:, owner] = False
        same = (whole[found] == others).all(axis=1)
        without = np.full(len(inside), -1)
        without[likely[same]] = found[same]
        return without

    return find


def _slow_finder(known: Pools, pools: FloatArray) -> Finder:
    position = {key: number for number, key in enumerate(known)}
    draws = [key[pools[0].nbytes :] for key in known]

    def find(inside: IntArray, owner: int) -> IntArray:
        without = pools[inside]
        without[:, owner] = 0.0
        keys = _keys(without, [draws[number] for number in inside.tolist()])
        return np.array([position.get(key, -1) for key in keys], dtype=np.int64)

    return find


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


def _ends(known: Pools, coalitions: FloatArray) -> list[float | None]:
    """Worth of each of these coalitions, None where it was not asked."""
    pairs = [known.get(key) for key in _keys(coalitions, None)]
    return [None if pair is None else pair[1] for pair in pairs]


def _thinned(items: list[Any], most: int) -> list[Any]:
    """At most so many of these, evenly spread."""
    even = np.linspace(0, len(items) - 1, min(most, len(items)))
    return [items[i] for i in dict.fromkeys(even.round().astype(int).tolist())]


def _keys(pools: FloatArray, draws: list[bytes] | None) -> list[bytes]:
    """Whole owners need no draw to be known by; parts of them do."""
    bits, partial = np.packbits(pools == 1, axis=1), is_partial(pools)
    keys: list[bytes] = bits.view(f"V{bits.shape[1]}").ravel().tolist()
    for row in np.flatnonzero(partial).tolist():
        keys[row] = pools[row].tobytes() + (b"" if draws is None else draws[row])
    return keys
