"""Older toy figure: homogeneous regression, uniform sizes and powers of two, DU-Shapley++."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.value import value
from dushapley.games.size.games import SizeGame
from dushapley_paper.accuracy import EFFORTS, MONTE_CARLO, Effort, error_curves, exact_values
from dushapley_paper.curves import below_rivals, best_rival, draw_curves, ratio_rows
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

D = 10
OWNERS = (5, 10, 20)
KINDS = ("uniform", "powers")


def raw(n: FloatArray) -> FloatArray:
    """The running example w(n) = d/(d+1−n), σ = 1, with its pole nudged off the whole number."""
    gap = D + 1 - n
    return D / np.where(gap == 0, 1e-9, gap)


def floored(n: FloatArray) -> FloatArray:
    """The same where the formula means anything, −d (predicting 0) where there is too little data.

    d/(d+1−n) reaches −d at n = d+2.
    """
    return np.where(n >= D + 2, D / np.minimum(D + 1 - n, -1.0), -float(D))


CURVES = {"as printed": raw, "floored": floored}


def run(profile: Profile, seed: int) -> Result:
    """Both size distributions, both readings of w, DU-Shapley and the printed DU-Shapley++."""
    effort = EFFORTS[profile]
    return {
        "ratios": list(effort.ratios),
        "panels": [
            panel(kind, n, form, seed, effort)
            for form in CURVES
            for kind in KINDS
            for n in (OWNERS[:2] if profile == "quick" else OWNERS)
        ],
    }


def panel(kind: str, n_owners: int, form: str, seed: int, effort: Effort) -> Result:
    """One panel: sizes uniform on 10..1000, or 2^i."""
    rng = np.random.default_rng([seed, n_owners])
    sizes = (
        rng.integers(10, 1001, n_owners) if kind == "uniform" else 2 ** np.arange(1, n_owners + 1)
    )
    game = SizeGame(sizes, CURVES[form])
    exact = exact_values(game)
    du = value(game, "du").values
    empty = float(game(np.zeros((1, n_owners)))[0])
    return {
        "label": f"n {'~ U{10..1000}' if kind == 'uniform' else '= 2^i'}, I = {n_owners}",
        "form": form,
        "kind": kind,
        "owners": n_owners,
        "du": float(np.mean((du - exact) ** 2)),
        "plus": float(np.mean((plus_plus_as_printed(du, empty) - exact) ** 2)),
        "spread": float(np.var(exact)),
        "curves": error_curves(game, exact, seed, effort),
    }


def plus_plus_as_printed(du: FloatArray, empty: float) -> FloatArray:
    """DU-Shapley++ of the older version: DU-Shapley without the term −u(∅)/I.

    Its ends k = 0 and k = I−1 are DU-Shapley's own; all that differs is that w(∅) is left out.
    """
    return du + empty / len(du)


def claims(result: Result) -> list[ClaimVerdict]:
    """Competitive at equal budget when sizes are uniform; ++ rescues the powers of two."""
    verdicts = []
    for form in CURVES:
        for kind in KINDS:
            finding, numbers = below_rivals(panels_of(result, form, kind), at_one(result))
            claim = (
                f"DU-Shapley competes with Monte Carlo at equal evaluations, sizes {kind} "
                f"(older version, section 4.1; w {form})"
            )
            verdicts.append(ClaimVerdict(claim, finding, numbers))
        verdicts += [plus_improves(result, form), plus_competes(result, form)]
    return verdicts


def plus_improves(result: Result, form: str) -> ClaimVerdict:
    """The printed ++ is nearer than DU-Shapley; neither has noise."""
    powers = panels_of(result, form, "powers")
    return ClaimVerdict(
        f"DU-Shapley++ improves on DU-Shapley for powers of two (older version; w {form})",
        judge(sum(p["plus"] < p["du"] for p in powers), len(powers)),
        "MSE of ++ as printed over DU-Shapley's: "
        + ", ".join(f"{short(p['plus'] / p['du'])} ({p['label']})" for p in powers)
        + f"; with −u(∅) put back the two are equal term by term; {plus_elsewhere(result, form)}",
    )


def plus_elsewhere(result: Result, form: str) -> str:
    """Where the printed ++ is nearer for uniform sizes, of which the claim does not speak."""
    uniform = panels_of(result, form, "uniform")
    nearer = [
        f"{short(p['plus'])} against {short(p['du'])} at I = {p['owners']}"
        for p in uniform
        if p["plus"] < p["du"]
    ]
    where = f" ({', '.join(nearer)})" if nearer else ""
    return f"for uniform sizes ++ is nearer in {len(nearer)} of {len(uniform)}{where}"


def plus_competes(result: Result, form: str) -> ClaimVerdict:
    """The printed ++ is below all rivals."""
    powers = [{**p, "du": p["plus"]} for p in panels_of(result, form, "powers")]
    finding, numbers = below_rivals(powers, at_one(result))
    return ClaimVerdict(
        f"DU-Shapley++ as printed competes with Monte Carlo for powers of two (older version, "
        f"section 4.1; w {form})",
        finding,
        numbers.replace("DU-Shapley's", "that of ++"),
    )


def panels_of(result: Result, form: str, kind: str) -> list[Result]:
    """Panels of one curve and one distribution of sizes."""
    return [p for p in result["panels"] if (p["form"], p["kind"]) == (form, kind)]


def at_one(result: Result) -> int:
    """Position of the budget that equals DU-Shapley's."""
    return int(result["ratios"].index(1.0))


def dependence(result: Result) -> list[Dependence]:
    """The value of too few rows decides."""
    return [
        Dependence(
            "what too few rows are worth",
            f"w {form}, sizes {kind}",
            (
                "best rival's MSE over DU-Shapley's: "
                + ", ".join(
                    f"{short(best_rival(p, at_one(result))['mse'] / p['du'])} (I = {p['owners']})"
                    for p in panels_of(result, form, kind)
                ),
            ),
        )
        for form in CURVES
        for kind in KINDS
    ]


def sheets(result: Result) -> list[Sheet]:
    """MSEs at equal evaluations."""
    rows = ratio_rows(result, 1.0)
    plus = [short(p["plus"]) for p in result["panels"]]
    joined = tuple((*r[:3], x, *r[3:]) for r, x in zip(rows, plus, strict=True))
    header = ("panel", "w", "DU-Shapley", "DU-Shapley++ as printed", *MONTE_CARLO)
    return [Sheet("MSE at equal evaluations (the paper shows curves only)", header, joined)]


def draw(result: Result) -> Figure:
    """I from left to right; uniform sizes, then powers of two; as printed, then floored."""
    return draw_curves(result, columns=len(result["panels"]) // 4)


EXPERIMENT = Experiment(
    name="older-toy",
    title="Homogeneous regression with uniform and with exponentially growing sizes",
    place="Older version, section 4.1 and its figure",
    run=run,
    claims=claims,
    sheets=sheets,
    draw=draw,
    settings=(
        "w(n) = d/(d+1−n) has a pole at n = d+1 and is positive below it, so sizes near d count "
        "for more than everything else; 'floored' sets w to −d where there are too few rows.",
        "Budgets in evaluations for all owners, as in synthetic-figure. An MSE is over 25 "
        "estimates, ten of them give bands and standard errors, as in the paper.",
    ),
    dependence=dependence,
)
