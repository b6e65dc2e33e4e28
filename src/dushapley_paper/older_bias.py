"""Older bias figure: DU-Shapley's bound beside Monte Carlo's error at T = I."""

from __future__ import annotations

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
from dushapley_paper.theory import Base, averaged, draw_game, draw_series, gap, highest

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
        "panels": [panel(n_max, owners, draws, seed, "10") for n_max in LARGEST],
        "natural logarithm": [panel(n_max, owners, min(draws, 20), seed, "e") for n_max in LARGEST],
    }


def panel(n_max: int, owners: tuple[int, ...], draws: int, seed: int, base: Base) -> Result:
    """Bound and errors against the number of owners."""
    points = [averaged([errors(n, n_max, (seed, d), base) for d in range(draws)]) for n in owners]
    return {"n_max": n_max, "points": points}


def errors(n_owners: int, n_max: int, seed: tuple[int, int], base: Base) -> dict[str, float]:
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
    crossed = {p["n_max"]: crossing(result, p, reading) for p in result["panels"]}
    last = f"not up to I = {result['owners'][-1]:,}"
    courses = {
        p["n_max"]: f"from I = {n:,}"
        if (n := crossed[p["n_max"]])
        else f"{last}, {trend(p, reading)}"
        for p in result["panels"]
    }
    return ClaimVerdict(
        "DU-Shapley's bound falls below Monte Carlo's error at T = I for many owners "
        f"(older version, section 3.3; {SERIES[reading]})",
        judge(sum(n is not None for n in crossed.values()), len(crossed)),
        "; ".join(f"n_max = {n_max:,}: {words}" for n_max, words in courses.items()),
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
    good = 0
    for panel in result["panels"]:
        first, last = panel["points"][0], panel["points"][-1]
        good += (
            first["bound"]["mean"] > last["bound"]["mean"]
            and first["squared"]["mean"] < last["squared"]["mean"]
        )
    one = [p["points"][-1]["one"]["mean"] / p["points"][0]["one"]["mean"] for p in result["panels"]]
    return ClaimVerdict(
        "Monte Carlo's error grows with I while DU-Shapley's bound falls (older version)",
        "holds weaker" if good == len(result["panels"]) else "does not hold",
        f"true of the printed error in {good} of {len(result['panels'])} panels; one owner's "
        f"Monte Carlo error falls as well, to {short(max(one))} of its first value at most",
    )


def sheets(result: Result) -> list[Sheet]:
    """Mean bound and errors."""
    header = ("n_max", "quantity", *(f"I = {n}" for n in result["owners"]))
    rows = [
        (f"{p['n_max']:,}", said, *(short(point[key]["mean"]) for point in p["points"]))
        for p in result["panels"]
        for key, said in SERIES.items()
    ]
    return [Sheet("Means over draws of owners (the paper shows curves only)", header, tuple(rows))]


def draw(result: Result) -> Figure:
    """n_max from left to right."""
    figure, axes = draw_series(result, SERIES)
    for ax in axes:
        ax.set_yscale("log")
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
