"""What a paid run asked and heard, condensed to what a page can show.

The estimates along the way, the worth of pools against their rows, and what each owner added to
pools of growing size. It costs no evaluation and depends only on questions and answers, so it is
the same whether these were computed or found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray
from dushapley.protocol import Ask, Estimate
from dushapley.results.propagation import Transcript

MOST_POOLS, MOST_ENTRIES, MOST_POINTS = 4096, 2**18, 400
MOST_BITS = 62
"""Owners whose coalitions fit a whole number."""
STAGES = 5
"""Pools are told apart by how much of the others' data they hold: fifths of it."""
ENOUGH_PAIRS = 0.6
"""Part of all owners and stages that must have been seen in pairs of pools."""
BANDWIDTH, RIDGE, LEAST_POOLS = 0.2, 0.05, 1.5
"""Of the local regression: width in shares of all rows, penalty, least pools per slope."""


def trail(
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
        "history" (estimates after so many questions), "curve" (rows and worth of pools), "stages"
        (mean gain of each owner by how much of the others' rows the pool held), "alone" and
        "without" (worth of each owner alone, and of all but it; None where not asked).
    """
    notes = Notes(sizes)
    for ask, answers in zip(transcript.asks, transcript.answers, strict=True):
        notes.add(ask, values[answers])
    return notes.told(final)


class Notes:
    """What is kept of one run: as much as there is room for."""

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
        pools = np.asarray(ask.queries, dtype=np.float64)
        for row in range(min(len(pools), self.room - len(self._pools))):
            key = _key(pools[row], ask.draws, row)
            self._pools[key] = (pools[row], float(answers[row]))

    def told(self, final: Estimate) -> dict[str, Any]:
        """All of it as plain numbers; see `trail`."""
        return {
            "history": self._history(final),
            "curve": self._curve(),
            "stages": self._stages(),
            "alone": self._ends(np.eye(len(self.sizes))),
            "without": self._ends(1 - np.eye(len(self.sizes))),
        }

    def _history(self, final: Estimate) -> dict[str, Any]:
        """Estimates after so many questions, thinned evenly; the last one always."""
        steps = [*self._estimates, (self.asked, final)]
        most = int(np.clip(10_000 // len(self.sizes), 5, 40))
        kept = sorted({round(i) for i in np.linspace(0, len(steps) - 1, min(most, len(steps)))})
        chosen = [steps[i] for i in kept]
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
        kept = np.linspace(0, len(points) - 1, min(MOST_POINTS, len(points))).round().astype(int)
        chosen = [points[i] for i in sorted(set(kept.tolist()))]
        return {"rows": [rows for rows, _ in chosen], "values": [value for _, value in chosen]}

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
        pools = np.array([pool for pool, _ in self._pools.values()])
        if n <= MOST_BITS and not ((pools > 0) & (pools < 1)).any():
            return self._whole_pairs(pools, others, sums, counts)
        for key, (pool, value) in self._pools.items():
            draw = key[pool.nbytes :]
            for i in np.flatnonzero(pool == 1):
                before = pool.copy()
                before[i] = 0.0
                known = self._pools.get(before.tobytes() + (draw if _partial(before) else b""))
                if known is not None:
                    stage = min(STAGES - 1, int(STAGES * (before @ self.sizes) / others[i]))
                    sums[i, stage] += value - known[1]
                    counts[i, stage] += 1
        return sums, counts

    def _whole_pairs(
        self, pools: FloatArray, others: FloatArray, sums: FloatArray, counts: IntArray
    ) -> tuple[FloatArray, IntArray]:
        """The same where all pools are coalitions: known by their bits, compared all at once."""
        bit = np.left_shift(1, np.arange(len(others), dtype=np.int64))
        code = (pools > 0) @ bit
        order = np.argsort(code)
        sorted_code, held = code[order], pools @ self.sizes
        worth = np.array([value for _, value in self._pools.values()])
        for i, own in enumerate(bit):
            inside = np.flatnonzero(pools[:, i] > 0)
            at = np.searchsorted(sorted_code, code[inside] - own)
            known = sorted_code[np.minimum(at, len(order) - 1)] == code[inside] - own
            inside, before = inside[known], order[at[known]]
            stage = np.minimum(STAGES - 1, (STAGES * held[before] / others[i]).astype(np.int64))
            np.add.at(sums[i], stage, worth[inside] - worth[before])
            np.add.at(counts[i], stage, 1)
        return sums, counts

    def _slopes(self) -> FloatArray:
        """Ridge regression of worth on membership, pools weighted by their distance in rows."""
        pools = np.array([pool for pool, _ in self._pools.values()])
        worth = np.array([value for _, value in self._pools.values()])
        n, held = len(self.sizes), pools @ self.sizes / max(float(self.sizes.sum()), 1e-300)
        slopes = np.full((n, STAGES), np.nan)
        for stage in range(STAGES):
            middle = (stage + 0.5) / STAGES
            weights = np.exp(-0.5 * ((held - middle) / BANDWIDTH) ** 2)
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


def _key(pool: FloatArray, draws: IntArray | None, row: int) -> bytes:
    """Whole owners need no draw to be known by; parts of them do."""
    if draws is None or not _partial(pool):
        return pool.tobytes()
    return pool.tobytes() + int(draws[row]).to_bytes(8, "big")


def _partial(pool: FloatArray) -> bool:
    inside: BoolArray = (pool > 0) & (pool < 1)
    return bool(inside.any())
