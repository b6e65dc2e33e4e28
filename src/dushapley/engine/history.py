"""What a paid run asked and learned, condensed to what a page can show.

The estimates along the way, the worth of pools against their rows, and what each owner added to
pools of growing size. It costs no evaluation and depends only on questions and answers, so it is
the same whether these were computed or found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.protocol import Ask, Estimate
from dushapley.results.propagation import Transcript
from dushapley.validation import is_partial

MOST_POOLS, MOST_ENTRIES, MOST_POINTS = 4096, 2**18, 400
STAGES = 5
"""Pools are grouped by how much of the others' data they hold: in fifths."""
ENOUGH_PAIRS = 0.6
"""Part of all owners and stages that must have been seen in pairs of pools."""
BANDWIDTH, RIDGE, LEAST_POOLS = 0.2, 0.05, 1.5
"""Of the local regression: width in shares of all rows, penalty, least pools per slope."""


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
    notes = Notes(sizes)
    for ask, answers in zip(transcript.asks, transcript.answers, strict=True):
        notes.add(ask, values[answers])
    return notes.summary(final)


class Notes:
    """What is remembered of one run: as much as there is room for."""

    def __init__(self, sizes: FloatArray) -> None:
        self.sizes = sizes
        self.asked = 0
        self.room = max(64, min(MOST_POOLS, MOST_ENTRIES // len(sizes)))
        self._pools: dict[bytes, tuple[FloatArray, float]] = {}
        self._estimates: list[tuple[int, Estimate]] = []

    def add(self, ask: Ask, answers: FloatArray) -> None:
        """Remember a question with its answers, as long as there is room."""
        if ask.so_far is not None:
            self._estimates.append((self.asked, ask.so_far))
        self.asked += len(answers)
        pools = np.asarray(ask.queries, dtype=np.float64)[: self.room - len(self._pools)]
        draws = [b""] * len(pools) if ask.draws is None else [d.tobytes() for d in ask.draws]
        keys = map(_key, pools, draws, is_partial(pools))
        self._pools |= zip(keys, zip(pools, answers.tolist(), strict=False), strict=False)

    def summary(self, final: Estimate) -> dict[str, Any]:
        """All of it as plain numbers; see `run_history`."""
        return {
            "history": self._history(final),
            "curve": self._curve(),
            "stages": self._stages(),
            "alone": self._ends(np.eye(len(self.sizes))),
            "without": self._ends(1 - np.eye(len(self.sizes))),
        }

    def _history(self, final: Estimate) -> dict[str, Any]:
        """Estimates along the way, thinned evenly; always with the last one."""
        steps = [*self._estimates, (self.asked, final)]
        most = int(np.clip(10_000 // len(self.sizes), 5, 40))
        chosen = _thinned(steps, most)
        return {
            "asked": [asked for asked, _ in chosen],
            "values": [e.values.tolist() for _, e in chosen],
            "std_errors": [
                None if e.std_errors is None else e.std_errors.tolist() for _, e in chosen
            ],
        }

    def _curve(self) -> dict[str, list[float]]:
        """Rows and worth of the pools, by rows; thinned evenly."""
        points = sorted((float(pool @ self.sizes), value) for pool, value in self._pools.values())
        rows, values = zip(*_thinned(points, MOST_POINTS), strict=True)
        return {"rows": list(rows), "values": list(values)}

    def _stages(self) -> dict[str, Any]:
        """Gain of each owner by how much of the others' rows the pool holds.

        The mean over pairs of pools that differ by the owner alone; where the method asked for
        too few such pairs, the slopes of a local regression on who is in the pool.
        """
        sums, counts = self._pairs()
        means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
        fitted = bool((counts > 0).mean() < ENOUGH_PAIRS)
        if fitted:
            means = self._slopes()
        gains = [[float(x) if np.isfinite(x) else None for x in row] for row in means]
        return {"gains": gains, "fitted": fitted}

    def _pairs(self) -> tuple[FloatArray, IntArray]:
        """Sum and number of the gains seen, by owner and stage."""
        n = len(self.sizes)
        sums, counts = np.zeros((n, STAGES)), np.zeros((n, STAGES), dtype=np.int64)
        others = np.maximum(self.sizes.sum() - self.sizes, 1e-300)
        pools, worth = self._asked()
        rows = pools @ self.sizes
        position = {key: number for number, key in enumerate(self._pools)}
        draws = [key[pools[0].nbytes :] for key in self._pools]
        for i in range(n):
            inside = np.flatnonzero(pools[:, i] == 1)
            without = pools[inside]
            without[:, i] = 0.0
            keys = map(_key, without, [draws[number] for number in inside], is_partial(without))
            before = np.array([position.get(key, -1) for key in keys], dtype=np.int64)
            inside, before = inside[before >= 0], before[before >= 0]
            stage = np.minimum(STAGES - 1, (STAGES * rows[before] / others[i]).astype(np.int64))
            np.add.at(sums[i], stage, worth[inside] - worth[before])
            np.add.at(counts[i], stage, 1)
        return sums, counts

    def _asked(self) -> tuple[FloatArray, FloatArray]:
        """All pools, and what they are worth."""
        pools, worth = zip(*self._pools.values(), strict=True)
        return np.array(pools), np.array(worth)

    def _slopes(self) -> FloatArray:
        """Ridge regression of worth on membership, pools weighted by their distance in rows."""
        pools, worth = self._asked()
        n, part = len(self.sizes), pools @ self.sizes / max(float(self.sizes.sum()), 1e-300)
        slopes = np.full((n, STAGES), np.nan)
        for stage in range(STAGES):
            middle = (stage + 0.5) / STAGES
            weights = np.exp(-0.5 * ((part - middle) / BANDWIDTH) ** 2)
            if weights.sum() < LEAST_POOLS * n:  # fewer pools than slopes tell nothing
                continue
            centred = pools - weights @ pools / weights.sum()
            gram = (centred * weights[:, None]).T @ centred
            ridge = RIDGE * np.trace(gram) / n + 1e-300
            target = (centred * weights[:, None]).T @ (worth - weights @ worth / weights.sum())
            slopes[:, stage] = np.linalg.solve(gram + ridge * np.eye(n), target)
        return slopes

    def _ends(self, pools: FloatArray) -> list[float | None]:
        """Worth of each of these coalitions, None where it was not asked."""
        known = [self._pools.get(pool.tobytes()) for pool in pools]
        return [None if pair is None else pair[1] for pair in known]


def _thinned(items: list[Any], most: int) -> list[Any]:
    """At most so many of these, evenly spread."""
    even = np.linspace(0, len(items) - 1, min(most, len(items)))
    return [items[i] for i in dict.fromkeys(even.round().astype(int).tolist())]


def _key(pool: FloatArray, draw: bytes, partial: bool) -> bytes:
    """Whole owners need no draw to be known by; parts of them do."""
    return pool.tobytes() + (draw if partial else b"")
