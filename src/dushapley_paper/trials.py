"""Errors of estimators on a game whose exact values are known, over many seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.value import value
from dushapley.errors import BudgetTooSmall
from dushapley.games.base import Game
from dushapley.results.uncertainty import half_width
from dushapley_paper.experiment import Profile

Options = Mapping[str, Any]
Rival = tuple[str, Options]
"""Name of a method and its options."""

MONTE_CARLO: dict[str, Rival] = {
    "MC-Shapley": ("permutation", {}),
    "MC-anti-Shapley": ("antithetic", {}),
    "Owen-Shapley": ("owen", {"form": "per-owner"}),
    "Orthogonal-Shapley": ("orthogonal", {}),
}
"""The rivals of the synthetic experiments, by the paper's names."""


@dataclass(frozen=True)
class Effort:
    """How much is measured of every panel of the synthetic experiments.

    Attributes
    ----------
    ratios
        Budgets as multiples of DU-Shapley's evaluations.
    estimates, repeats
        An MSE is the mean over so many estimates; so many MSEs give its 95% interval.
    """

    ratios: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    estimates: int = 25
    repeats: int = 10


EFFORTS: dict[Profile, Effort] = {"quick": Effort((0.5, 1.0, 10.0), 5, 2), "full": Effort()}


def du_evaluations(n_players: int) -> int:
    """What DU-Shapley pays for all owners: 2I(I−1)+2 different pools."""
    return 2 * n_players * (n_players - 1) + 2


def exact_values(game: Game) -> FloatArray:
    """Shapley values by all 2^I coalitions."""
    options = {"by": "enumeration"}
    return value(game, "exact", options=options, budget=2**game.n_players, progress=False).values


def squared_errors(
    game: Game, exact: FloatArray, rival: Rival, budget: int, seeds: Sequence[int]
) -> list[float] | None:
    """MSE over owners of one estimate per seed; None where the budget buys no estimate."""
    method, options = rival
    found = []
    for seed in seeds:
        try:
            v = value(game, method, options=options, budget=budget, seed=seed, progress=False)
        except BudgetTooSmall:
            return None
        found.append(float(np.mean((v.values - exact) ** 2)))
    return found


def error_curves(
    game: Game, exact: FloatArray, seed: int, effort: Effort
) -> dict[str, list[dict[str, float] | None]]:
    """MSE of each Monte Carlo method at multiples of DU-Shapley's evaluations."""
    curves: dict[str, list[dict[str, float] | None]] = {name: [] for name in MONTE_CARLO}
    for position, ratio in enumerate(effort.ratios):
        budget = max(2, round(ratio * du_evaluations(game.n_players)))
        for name, rival in MONTE_CARLO.items():
            first = seed + 1_000_000 * position
            seeds = range(first, first + effort.estimates * effort.repeats)
            errors = squared_errors(game, exact, rival, budget, seeds)
            curves[name].append(None if errors is None else interval(errors, effort.repeats))
    return curves


def interval(errors: Sequence[float], repeats: int) -> dict[str, float]:
    """Mean of repeated MSEs, its standard error, and the spread that 95% of them keep to."""
    means = np.array(errors).reshape(repeats, -1).mean(axis=1)
    spread = float(means.std(ddof=1)) if repeats > 1 else 0.0
    half = half_width(spread)
    return {
        "mse": float(means.mean()),
        "se": spread / repeats**0.5,
        "count": repeats,
        "low": float(means.mean() - half),
        "high": float(means.mean() + half),
    }
