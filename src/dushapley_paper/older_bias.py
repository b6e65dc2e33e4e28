"""Older bias figure: DU-Shapley's bound beside Monte Carlo's error at T = I."""

from __future__ import annotations

from functools import partial

import numpy as np

from dushapley.guarantees import older_bound, permutation_error
from dushapley_paper.experiment import (
    ClaimVerdict,
    Dependence,
    Experiment,
    Figure,
    Profile,
    Result,
    Sheet,
    judge,
    short,
)
from dushapley_paper.theory import Base, draw_game, draw_series, gap, highest, panel, series_sheet

OWNERS = (10, 30, 100, 300, 1000, 3000)
LARGEST = (100, 1000, 10_000)
DELTA = 0.05
SERIES = {
    "bound": "DU-Shapley's bound, ρ = 1",
    "squared": "Monte Carlo at T = I as printed (the square)",
    "norm": "Monte Carlo at T = I, norm over owners",
    "one": "Monte Carlo at T = I, one owner",
}


READINGS = ("squared", "norm", "one")
"""Monte Carlo's error in the paper's reading and in two that fit the bound better."""


def run(profile: Profile, seed: int) -> Result:
    """Bound and errors for growing numbers of owners, averaged over draws of their sizes."""
    quick = profile == "quick"
    owners = (10, 100) if quick else OWNERS
    draws = 3 if quick else 100
    return {
        "owners": list(owners),
        "draws": draws,
        "panels": [panel(errors, n_max, owners, draws, seed) for n_max in LARGEST],
        "natural logarithm": [
            panel(partial(errors, base="e"), n_max, owners, min(draws, 20), seed)
            for n_max in LARGEST
        ],
    }


def errors(n_owners: int, n_max: int, seed: tuple[int, int], base: Base = "10") -> dict[str, float]:
    """Mean bound over owners, and Monte Carlo's error in its three readings."""
    game = draw_game(n_owners, n_max, seed, base)
    norm = permutation_error(n_owners, DELTA, n_owners, highest(game))
    return {
        "bound": float(np.mean(older_bound(game).bound)),
        "squared": norm**2,
        "norm": norm,
        "one": permutation_error(n_owners, DELTA, n_owners, highest(game), norm="max"),
    }


def claims(result: Result) -> list[ClaimVerdict]:
    """The bound falls below Monte Carlo's error once owners are many enough."""
    return [*(falls_below(result, reading) for reading in READINGS), falling(result)]


def falls_below(result: Result, reading: str) -> ClaimVerdict:
    """Panels where the bound is below from some number of owners on, up to the largest tried."""
    crossed = [crossing(result, p, reading) for p in result["panels"]]
    last = f"not up to I = {result['owners'][-1]:,}"
    courses = [
        f"n_max = {p['n_max']:,}: "
        + (f"clearly from I = {n:,}" if n else f"{last}, {trend(p, reading)}")
        for p, n in zip(result["panels"], crossed, strict=True)
    ]
    return ClaimVerdict(
        "DU-Shapley's bound falls below Monte Carlo's error at T = I for many owners "
        f"(older version, section 3.3; {SERIES[reading]})",
        judge(sum(n is not None for n in crossed), len(crossed)),
        "; ".join(courses),
    )


def crossing(result: Result, panel: Result, reading: str) -> int | None:
    """Smallest tried I from which the bound stays below."""
    below = [gap(point[reading], point["bound"]) == "won" for point in panel["points"]]
    if not below[-1]:
        return None
    last_above = max((i for i, b in enumerate(below) if not b), default=-1)
    return int(result["owners"][last_above + 1])


def trend(panel: Result, reading: str) -> str:
    """The bound over the error at the last number of owners, and which way it goes there."""
    before, after = (p["bound"]["mean"] / p[reading]["mean"] for p in panel["points"][-2:])
    course = "and still falls" if after < before else "and falls no more"
    return f"where bound over error is {short(after)} {course}"


def dependence(result: Result) -> list[Dependence]:
    """Where the bound crosses, by base of the logarithm and by reading of the error."""
    found = []
    for base, panels in (("10", result["panels"]), ("e", result["natural logarithm"])):
        for reading in READINGS:
            crossed = [crossing(result, p, reading) for p in panels]
            owners = ", ".join(f"{n:,}" if n else "not reached" for n in crossed)
            found.append(
                Dependence(
                    "base of the logarithm in k(I), and what the error is",
                    f"base {base}, {SERIES[reading]}",
                    (f"owners from which the bound is below (n_max 100, 1,000, 10,000): {owners}",),
                )
            )
    return found


def falling(result: Result) -> ClaimVerdict:
    """Monte Carlo's printed error grows with I while the bound falls."""
    growth = [
        {key: p["points"][-1][key]["mean"] / p["points"][0][key]["mean"] for key in SERIES}
        for p in result["panels"]
    ]
    good = sum(g["bound"] < 1 < g["squared"] for g in growth)
    return ClaimVerdict(
        "Monte Carlo's error grows with I while DU-Shapley's bound falls (older version)",
        "holds weaker" if good == len(growth) else "does not hold",
        f"true of the printed error in {good} of {len(growth)} panels; one owner's Monte Carlo "
        f"error falls as well, to {short(max(g['one'] for g in growth))} of its first value at "
        "most",
    )


def sheets(result: Result) -> list[Sheet]:
    """Mean bound and errors."""
    return [series_sheet("Means over draws of owners", result, "quantity", SERIES, n_max=",")]


def draw(result: Result) -> Figure:
    """n_max from left to right."""
    figure, axes = draw_series(result, SERIES)
    for ax in axes:
        ax.set_yscale("log")
    axes[0].set_ylabel("error, or bound of it")
    return figure


EXPERIMENT = Experiment(
    name="older-bias",
    title="DU-Shapley's bound beside Monte Carlo's error at the same budget",
    place="Older version, section 3.3 and its figure",
    run=run,
    claims=claims,
    sheets=sheets,
    draw=draw,
    settings=(
        "ρ is said to exist and not given: 1. δ is not stated: 0.05.",
        "The paper prints the square of Monte Carlo's error as the error, and sets a norm over "
        "owners beside one owner's bias; the three readings are drawn.",
        "The base of the logarithm is not stated: 10; e is listed under what the paper leaves "
        "open, over 20 draws.",
        "The numbers of owners are not stated: 10 to 3,000. 100 draws of owners, as in the paper.",
    ),
    dependence=dependence,
)
