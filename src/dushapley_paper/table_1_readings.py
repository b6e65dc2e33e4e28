"""What could make DU-Shapley's errors as large as Table 1 prints them, one reading at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.value import value
from dushapley.estimators.exact import coalitions
from dushapley.games.base import Game, TableGame
from dushapley.games.model.batched.recipe import Recipe
from dushapley_paper.accuracy import exact_values
from dushapley_paper.cases import LOGISTIC, TREES, Case
from dushapley_paper.experiment import Result, Sheet, short
from dushapley_paper.splits import Split
from dushapley_paper.table_1_page import PUBLISHED

MOST_ROWS = {"adult": 4000, "bank": 4000, "cal-housing": 2000, "year": 500}
OWNERS, RUNS, TRAININGS = 10, 10, 8
"""Owners of a game, runs of an estimate, and trainings of a pool that differ by chance."""
AS_CHOSEN = "as chosen"
READINGS = {
    AS_CHOSEN: "as chosen, on fewer rows",
    "root": "the root of the mean squared error",
    "sampled": "reference sampled too, 5I permutations",
    "restless": "every training by its own seed, one row a step",
    "overlap": "subsets of random size that overlap",
}


class RestlessGame(Game):
    """A game whose every evaluation is one of several trainings that differ by chance."""

    cheap = True

    def __init__(self, games: Sequence[Game], seed: int) -> None:
        first = games[0]
        self.n_players, self.sizes, self.names = first.n_players, first.sizes, first.names
        self.fractions, self.games = first.fractions, games
        self.rng = np.random.default_rng(seed)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        answers = np.array([game.evaluate(queries, draws) for game in self.games])
        which = self.rng.integers(len(answers), size=len(queries))
        return answers[which, np.arange(len(queries))]


def readings(seed: int, sets: Iterable[str] = (*LOGISTIC, *TREES)) -> list[Result]:
    """Errors of DU-Shapley and of I samples of Monte Carlo under every reading; u(∅) = 0."""
    found = []
    for data in sets:
        case = Case(data, OWNERS, "iid", seed, MOST_ROWS.get(data))
        rows = case.split()
        chosen = errors(case.game(rows, None), seed)
        result = {AS_CHOSEN: chosen["exact"], "sampled": chosen["sampled"]}
        result["root"] = [error**0.5 for error in chosen["exact"]]
        result["overlap"] = errors(case.game(overlapping(rows, seed), None), seed)["exact"]
        if data in LOGISTIC:
            recipe = Recipe(steps=20, batch_size=1, momentum=0.0)
            games = [
                replace(case, recipe=replace(recipe, seed=s)).game(rows, None)
                for s in range(TRAININGS)
            ]
            result["restless"] = errors(RestlessGame(games, seed), seed, games)["exact"]
        found.append({"data": data, "rows": int(rows.sizes.sum()), **result})
    return found


def errors(game: Game, seed: int, games: Sequence[Game] = ()) -> dict[str, list[float]]:
    """MSE of DU-Shapley and of Monte Carlo, against exact values and against sampled ones."""
    each = [np.concatenate([g(b) for b in coalitions(OWNERS)]) for g in games or [game]]
    u = np.mean(each, axis=0)
    nobody = u[0]
    u[0] = 0.0
    table = TableGame(u, game.sizes)
    exact = exact_values(table)
    du = np.array([value(game, "du", seed=seed + r, progress=False).values for r in range(RUNS)])
    du += nobody / OWNERS
    walks = OWNERS * (OWNERS - 1)

    def sampled(count: int, start: int) -> FloatArray:
        budget = count * (OWNERS - 1) + 2
        return np.array(
            [
                value(table, "permutation", budget=budget, seed=start + r, progress=False).values
                for r in range(RUNS)
            ]
        )

    mc = sampled(walks // (OWNERS - 1), 100)
    if games:  # the noise of two trainings in each of I marginals
        mc = mc + np.random.default_rng(seed).normal(size=mc.shape) * (
            np.sqrt(2 * np.var(each, axis=0).mean() / OWNERS)
        )
    reference = sampled(5 * OWNERS, 1000)
    return {
        "exact": [float(np.mean((runs - exact) ** 2)) for runs in (du, mc)],
        "sampled": [float(np.mean((runs - reference) ** 2)) for runs in (du, mc)],
    }


def overlapping(rows: Split, seed: int) -> Split:
    """Every owner a subset of random size of all rows, drawn for itself."""
    rng = np.random.default_rng(seed)
    total = len(rows.y)
    sizes = rng.integers(1, total // OWNERS * 2, OWNERS)
    chosen = np.concatenate([rng.choice(total, size, replace=False) for size in sizes])
    return replace(rows, X=rows.X[chosen], y=rows.y[chosen], sizes=sizes)


def readings_sheet(found: Sequence[Result]) -> Sheet:
    """Printed errors of DU-Shapley and of Monte Carlo beside those found under every reading."""
    rows = []
    for result in found:
        printed = PUBLISHED[result["data"]]["10"]
        cells = [f"{short(printed['DU-Shapley'])} / {short(printed['MC-Shapley'])}"]
        for name in READINGS:
            pair = result.get(name)
            cells.append("–" if pair is None else f"{short(pair[0])} / {short(pair[1])}")
        rows.append((result["data"], f"{result['rows']:,}", *cells))
    caption = (
        "What could make the errors as large as printed, I = 10: DU-Shapley / MC-Shapley with I "
        "samples, u(∅) = 0"
    )
    return Sheet(caption, ("data set", "rows", "printed", *READINGS.values()), tuple(rows))
