"""DU-Shapley that draws its samples stratum by stratum: does it pay? (docs/du-shapley.md)

DUSHAPLEY_DATA=FOLDER python benchmarks/du_stratified.py      writes results/du_stratified.json

Owners are put into strata of like quality. A coalition of k others holds a random number of owners
of each stratum (multivariate hypergeometric), and D^(k) that part of the stratum's pooled rows. One
stratum is DU-Shapley; every owner a stratum of its own is sampling of coalitions by their size.
Games of eight owners with rows, exact values by enumeration.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dushapley as ds
from dushapley.estimators.exact import coalitions
from dushapley_paper.cases import Case

OUT = Path(__file__).parent / "results" / "du_stratified.json"
OWNERS, RUNS = 8, 8
ROWS = {"adult": 1500, "bank": 1500, "cal-housing": 600}


def found_strata(sizes: np.ndarray, first: np.ndarray, last: np.ndarray, number: int) -> np.ndarray:
    """Strata from what owners bring to nobody and to everybody else, beyond what size explains."""
    design = np.stack([np.ones(len(sizes)), np.log(sizes)], axis=1)
    gains = np.stack([first, last], axis=1)
    quality = gains - design @ np.linalg.lstsq(design, gains, rcond=None)[0]
    quality = quality / (quality.std(axis=0) + 1e-300)
    ranks = np.argsort(quality.sum(axis=1))
    centres = quality[ranks[((np.arange(number) + 0.5) / number * len(sizes)).astype(int)]]
    for _ in range(50):
        stratum = ((quality[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        for s in np.unique(stratum):
            centres[s] = quality[stratum == s].mean(axis=0)
    return np.unique(stratum, return_inverse=True)[1]


def drawn_pool(
    rng: np.random.Generator,
    sizes: np.ndarray,
    stratum: np.ndarray,
    owner: int,
    present: np.ndarray,
) -> np.ndarray:
    """Fractions of everybody's rows: `present` owners' worth of each stratum, without `owner`."""
    pool = np.zeros(len(sizes))
    for s, number in enumerate(present):
        members = np.flatnonzero((stratum == s) & (np.arange(len(sizes)) != owner))
        if len(members):
            rows = round(number / len(members) * int(sizes[members].sum()))
            drawn = rng.multivariate_hypergeometric(sizes[members], rows, method="marginals")
            pool[members] = drawn / sizes[members]
    return pool


def one_run(game: ds.Game, stratum: np.ndarray, ends: np.ndarray, seed: int) -> np.ndarray:
    """One replicate, 2I(I−1)+2 evaluations: k and m−k are drawn as complements of each other."""
    rng, n = np.random.default_rng(seed), game.n_players
    sizes = game.sizes.astype(np.int64)
    pools = []
    for i in range(n):
        others = np.bincount(np.delete(stratum, i), minlength=int(stratum.max()) + 1)
        present = {0: 0 * others}
        for k in range(1, n - 1):
            mirror = present.get(n - 1 - k)
            fresh = rng.multivariate_hypergeometric(others, k, method="marginals")
            present[k] = fresh if mirror is None else others - mirror
            pools.append(drawn_pool(rng, sizes, stratum, i, present[k]))
    without = np.array(pools)
    joined = without.copy()
    joined[np.arange(len(joined)), np.repeat(np.arange(n), n - 2)] = 1.0
    draws = rng.integers(2**62, size=len(joined))
    answers = game(np.concatenate([joined, without]), np.concatenate([draws, draws]))
    gains = (answers[: len(joined)] - answers[len(joined) :]).reshape(n, n - 2)
    return (ends + gains.sum(axis=1)) / n


def measured(data: str, scenario: str) -> dict[str, object]:
    """Relative MSE of one run and its squared bias by number of strata, beside other methods."""
    case = Case(data, OWNERS, scenario, 0, most_rows=ROWS[data])  # type: ignore[arg-type]
    split = case.split()
    game = case.game(split, None)
    u = np.concatenate([game(block) for block in coalitions(OWNERS)])
    table = ds.TableGame(u, game.sizes)
    exact = ds.value(table, "exact", budget=2**OWNERS, progress=False).values
    one = 1 << np.arange(OWNERS)
    first, last = u[one] - u[0], u[-1] - u[len(u) - 1 - one]
    strata = {str(j): found_strata(game.sizes, first, last, j) for j in (2, 3, 5)}
    strata = {"1": np.zeros(OWNERS, dtype=int), **strata, "every owner": np.arange(OWNERS)}
    if scenario == "mislabelled":
        strata["given: spoiled or not"] = np.isin(np.arange(OWNERS), split.bad).astype(int)
    found: dict[str, object] = {"data": data, "scenario": scenario}
    for name, stratum in strata.items():
        runs = np.array([one_run(game, stratum, first + last, s) for s in range(RUNS)])
        noise = float(runs.var(axis=0, ddof=1).mean())
        bias = float(np.mean((runs.mean(axis=0) - exact) ** 2)) - noise / RUNS
        found[name] = [(bias + noise) / float(exact.var()), bias / float(exact.var())]
    for method, seeds in (("stratified-svarm", 20), ("auto", 1)):
        budget = 2 * OWNERS * (OWNERS - 1) + 2
        runs = np.array(
            [ds.value(table, method, budget=budget, seed=s, progress=False).values
             for s in range(seeds)]
        )  # fmt: skip
        found[method] = float(np.mean((runs - exact) ** 2)) / float(exact.var())
    return found


def store_all(measured: Callable[[str, str], dict[str, Any]], out: Path) -> None:
    """Measure every data set with owners of both kinds, and store the rows."""
    rows = []
    for data in ROWS:
        for scenario in ("shifted", "mislabelled"):
            rows.append(measured(data, scenario))
            print(rows[-1], flush=True)
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    store_all(measured, OUT)
