"""How far DU-Shapley and its rivals are from the exact values of a trained game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.games.base import Game
from dushapley_paper.cases import Utilities
from dushapley_paper.experiment import Outcome, standard_error, standing
from dushapley_paper.trials import Rival, du_evaluations, exact_values, squared_errors

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
EMPTY = {"zero": "u(∅) = 0", "constant": "u(∅) = best constant prediction"}


@dataclass(frozen=True)
class Seeds:
    """How many seeds a mean error is taken over.

    Attributes
    ----------
    sampling
        Of the methods that sample coalitions.
    auto
        Of `auto`, which takes seconds where they take milliseconds; 0 leaves it out.
    """

    sampling: int
    auto: int


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
    budget = du_evaluations(game.n_players)
    for name, rival in RIVALS.items():
        found[name] = mean_error(game, exact, rival, budget, seeds)
    return found


def du_errors(runs: FloatArray, exact: FloatArray) -> dict[str, Any]:
    """DU-Shapley's MSE, and its two parts: squared bias and the variance of one run.

    The squared error of the mean of R runs still holds 1/R of the variance; that is taken off, so
    that the parts add up to the MSE of one run. A bias that comes out negative is within noise of
    none.
    """
    noise = float(runs.var(axis=0, ddof=1).mean())
    of_mean = float(np.mean((runs.mean(axis=0) - exact) ** 2))
    return {
        "DU-Shapley": summary(np.mean((runs - exact) ** 2, axis=1).tolist()),
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
    rival: Rival = ("auto", {})
    budgets = {AUTO: du_evaluations(game.n_players), AUTO_CHEAP: 6 * game.n_players}
    return {name: mean_error(game, exact, rival, b, seeds) for name, b in budgets.items()}


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
