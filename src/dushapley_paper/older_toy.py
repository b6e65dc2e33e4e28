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
    Finding,
    Profile,
    Result,
    Sheet,
    judge,
    short,
    standing,
)

D = 10
OWNERS = (5, 10, 20)
KINDS = ("uniform", "powers")
DRAWS = 20
"""Draws of uniform sizes that a verdict rests on."""


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
        "draws": [
            other_draws(n, form, 3 if profile == "quick" else DRAWS)
            for form in CURVES
            for n in (OWNERS[:2] if profile == "quick" else OWNERS)
        ],
    }


def other_draws(n_owners: int, form: str, draws: int) -> Result:
    """Owners of uniform sizes drawn anew: DU-Shapley's MSE and the best rival's over it."""
    effort = Effort((1.0,), 3, repeats=3)
    panels = [panel("uniform", n_owners, form, seed, effort) for seed in range(1, draws + 1)]
    rivals = [best_rival(p, 0) for p in panels]
    outcomes = [
        standing(best["mse"] - p["du"], (best["se"], int(best["count"])))
        for p, best in zip(panels, rivals, strict=True)
    ]
    ratios = [b["mse"] / max(p["du"], 1e-300) for p, b in zip(panels, rivals, strict=True)]
    return {
        "owners": n_owners,
        "form": form,
        "draws": draws,
        "won": outcomes.count("won"),
        "level": outcomes.count("level"),
        "du": quantiles([p["du"] for p in panels]),
        "ratio": quantiles(ratios),
    }


def quantiles(numbers: list[float]) -> list[float]:
    """5%, median and 95%."""
    return [float(q) for q in np.quantile(numbers, (0.05, 0.5, 0.95))]


def panel(kind: str, n_owners: int, form: str, seed: int, effort: Effort) -> Result:
    """One panel: sizes uniform on 10..1000, or 2^i."""
    rng = np.random.default_rng([seed, n_owners])
    sizes = (
        rng.integers(10, 1001, n_owners) if kind == "uniform" else 2 ** np.arange(1, n_owners + 1)
    )
    game = SizeGame(sizes, CURVES[form])
    # all coalitions, but for the many draws of twenty owners
    formula = n_owners > 10 and len(effort.ratios) == 1
    exact = value(game, "exact").values if formula else exact_values(game)
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
            if kind == "uniform":
                finding, numbers = in_many_draws(draws_of(result, form))
            claim = (
                f"DU-Shapley competes with Monte Carlo at equal evaluations, sizes {kind} "
                f"(older version, section 4.1; w {form})"
            )
            verdicts.append(ClaimVerdict(claim, finding, numbers))
        verdicts += [plus_improves(result, form), plus_competes(result, form)]
    return verdicts


def draws_of(result: Result, form: str) -> list[Result]:
    """Uniform sizes drawn anew, one entry per number of owners."""
    return [d for d in result["draws"] if d["form"] == form]


def in_many_draws(draws: list[Result]) -> tuple[Finding, str]:
    """Whether DU-Shapley is below all rivals, draw by draw of uniform sizes."""
    won, level, of = (sum(d[key] for d in draws) for key in ("won", "level", "draws"))
    each = (
        f"clearly below all rivals in {d['won']} of {d['draws']} draws at I = {d['owners']}"
        f"{too_close(d['level'])}, best rival's MSE over DU-Shapley's {spread(d['ratio'])}"
        for d in draws
    )
    return judge(won, of, level), "; ".join(each)


def too_close(level: int) -> str:
    """Draws in which noise leaves it open, if there are any."""
    return f" ({level} too close to call)" if level else ""


def spread(found: list[float]) -> str:
    """A median, with what nine of ten draws keep to."""
    low, median, high = found
    return f"{short(median)} ({short(low)} to {short(high)})"


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
                "best rival's MSE over DU-Shapley's, one draw: "
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
    drawn = tuple(
        (str(d["owners"]), f"w {d['form']}", str(d["draws"]), spread(d["du"]), spread(d["ratio"]))
        for d in result["draws"]
    )
    names = ("I", "w", "draws", "DU-Shapley's MSE", "best rival's over it")
    return [
        Sheet("MSE at equal evaluations (the paper shows curves only)", header, joined),
        Sheet("Uniform sizes drawn anew: median, and 5% to 95% of draws", names, drawn),
    ]


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
        "Uniform sizes are judged by 20 draws, not by the one in the figure: its ten owners "
        "include one of 12 rows, beside the pole, and DU-Shapley's error there is not typical.",
        "Budgets in evaluations for all owners, as in synthetic-figure. An MSE is over 25 "
        "estimates, ten of them give bands and standard errors, as in the paper.",
    ),
    dependence=dependence,
)
