"""How far estimators are from exact values: of trained games, and over budgets and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.value import value
from dushapley.errors import BudgetTooSmall
from dushapley.games.base import Game
from dushapley.results.uncertainty import half_width
from dushapley_paper.cases import Utilities
from dushapley_paper.experiment import Outcome, Profile, standard_error, standing

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


RIVALS: dict[str, Rival] = {
    "MC-Shapley": ("permutation", {}),
    "MC-anti-Shapley": ("antithetic", {}),
    "orthogonal": ("orthogonal", {}),
    "leverage": ("leverage", {}),
    "stratified SVARM": ("stratified-svarm", {}),
}
"""Methods that sample coalitions, by the names the tables give them."""
PAPERS = ("MC-Shapley", "MC-anti-Shapley")
"""Those the paper compares with."""
WALKS = "MC-Shapley, I samples"
AUTO, AUTO_CHEAP = "auto", "auto at 6I"
EMPTY = {"zero": "u(∅) = 0, all else as it is", "constant": "the constant's score subtracted"}
"""Both ways to have u(∅) = 0. To subtract the score of the best constant prediction from every
utility and to leave it there as u(∅) give the same values."""


def errors_of(table: Utilities, empty: str, seeds: int) -> dict[str, Any]:
    """MSE of DU-Shapley and of the sampling methods under one convention for u(∅)."""
    game = table.game(empty)
    exact = exact_values(game)
    walks = game.n_players * (game.n_players - 1) + 2
    found: dict[str, Any] = {
        "u_empty": float(game.values[0]),
        "u_full": float(game.values[-1]),
        "spread": float(np.var(exact)),
        **du_errors(table.du_values(empty), exact),
        WALKS: mean_error(game, exact, RIVALS["MC-Shapley"], walks, seeds),
    }
    return found | rival_errors(game, exact, RIVALS, seeds)


def rival_errors(
    game: Game, exact: FloatArray, names: Iterable[str], seeds: int
) -> dict[str, dict[str, float] | None]:
    """MSE of some of the sampling methods at DU-Shapley's evaluations."""
    budget = du_evaluations(game.n_players)
    return {name: mean_error(game, exact, RIVALS[name], budget, seeds) for name in names}


def du_errors(runs: FloatArray, exact: FloatArray) -> dict[str, Any]:
    """DU-Shapley's MSE, and its two parts: squared bias and the variance of one run.

    The squared error of the mean of R runs still holds 1/R of the variance; that is taken off, so
    that the parts add up to the MSE of one run. A bias that comes out negative is within noise of
    none.
    """
    noise = float(runs.var(axis=0, ddof=1).mean())
    of_mean = float(np.mean((runs.mean(axis=0) - exact) ** 2))
    return {
        "DU-Shapley": mean_errors(runs, exact),
        "DU bias": of_mean - noise / len(runs),
        "DU noise": noise,
    }


def auto_errors(table: Utilities, seeds: int) -> dict[str, Any]:
    """MSE of `auto` at DU-Shapley's evaluations and at 6I.

    It asks for u(∅) once and adds −u(∅)/I to every value, as the exact values do: its error is the
    same under every convention, and is measured under one.
    """
    game = table.game("zero")
    exact = exact_values(game)
    budgets = {AUTO: du_evaluations(game.n_players), AUTO_CHEAP: 6 * game.n_players}
    return {name: mean_error(game, exact, ("auto", {}), b, seeds) for name, b in budgets.items()}


def mean_errors(runs: FloatArray, exact: FloatArray) -> Any:
    """Mean MSE over runs, one a row."""
    return summary(np.mean((runs - exact) ** 2, axis=1).tolist())


def mean_error(game: Game, exact: FloatArray, rival: Rival, budget: int, seeds: int) -> Any:
    """Mean MSE of a method over seeds; None where the budget buys no estimate."""
    return summary(squared_errors(game, exact, rival, budget, range(seeds)))


def summary(errors: Sequence[float] | None) -> dict[str, float] | None:
    """Mean, its standard error, and how many there were."""
    if errors is None:
        return None
    return {"mse": float(np.mean(errors)), "se": standard_error(errors), "seeds": len(errors)}


def outcome(errors: Mapping[str, Any], ours: str, rivals: Sequence[str]) -> Outcome:
    """Whether our MSE is below all the rivals' ("won"), above one ("lost"), or noise decides."""
    mine = errors[ours]
    found = [
        standing(
            theirs["mse"] - mine["mse"],
            (theirs["se"], theirs["seeds"]),
            (mine["se"], mine["seeds"]),
        )
        for theirs in (errors[rival] for rival in rivals)
        if theirs is not None
    ]
    if "lost" in found:
        return "lost"
    return "level" if "level" in found else "won"


def advantage(errors: Mapping[str, Any], ours: str, rivals: Sequence[str]) -> float:
    """MSE of the best of the rivals over ours."""
    best = min(errors[name]["mse"] for name in rivals if errors[name] is not None)
    return float(best / max(errors[ours]["mse"], 1e-300))
