"""Errors of estimators on a game whose exact values are known, over many seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.value import value
from dushapley.errors import BudgetTooSmall
from dushapley.games.base import Game
from dushapley.results.uncertainty import half_width

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
    game: Game,
    exact: FloatArray,
    rivals: Mapping[str, Rival],
    ratios: Sequence[float],
    seed: int,
    *,
    estimates: int,
    repeats: int,
) -> dict[str, list[dict[str, float] | None]]:
    """Each rival's MSE at multiples of DU-Shapley's evaluations.

    An MSE is the mean over `estimates` estimates; `repeats` of them give its 95% interval.
    """
    curves: dict[str, list[dict[str, float] | None]] = {name: [] for name in rivals}
    for position, ratio in enumerate(ratios):
        budget = max(2, round(ratio * du_evaluations(game.n_players)))
        for name, rival in rivals.items():
            first = seed + 1_000_000 * position
            seeds = range(first, first + estimates * repeats)
            errors = squared_errors(game, exact, rival, budget, seeds)
            curves[name].append(None if errors is None else interval(errors, repeats))
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
