"""Synthetic figure: DU-Shapley against Monte Carlo on the heterogeneous linear regression."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.engine.value import value
from dushapley.games.size.regression import LinearRegressionGame
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
    short,
)

D = 10
PANELS = ((10, 10), (10, 20), (100, 10), (100, 20))
"""(largest γ, number of owners), row by row of the figure."""
FORMS = {"paper": "the paper's utility", "fixed-point": "the fixed point"}
BUDGETS = {1.0: "at the same evaluations", 10.0: "at ten times its budget"}


def run(profile: Profile, seed: int) -> Result:
    """MSE of every rival at 0.1 to 10 times DU-Shapley's evaluations, both forms of the utility.

    The paper's formula has a pole inside its domain; the fixed point comes nearer to the expected
    error where precisions differ. A claim must survive both to say anything about data.
    """
    quick = profile == "quick"
    panels = ((10, 10), (100, 10)) if quick else PANELS
    effort = EFFORTS[profile]
    return {
        "ratios": list(effort.ratios),
        "panels": [panel(top, n, form, seed, effort) for form in FORMS for top, n in panels],
        "draws": [
            other_draws(top, form, 2 if quick else 20, effort.estimates)
            for form in FORMS
            for top in sorted({top for top, _ in panels})
        ],
    }


def panel(top: float, n_owners: int, form: str, seed: int, effort: Effort) -> Result:
    """One panel: n_i uniform on 1..1000, γ uniform on (0, top)."""
    game = draw_game(top, n_owners, form, seed)
    exact = exact_values(game)
    du = value(game, "du").values
    return {
        "label": f"γ ~ U[0,{top:g}], I = {n_owners}",
        "form": form,
        "du": float(np.mean((du - exact) ** 2)),
        "spread": float(np.var(exact)),
        "curves": error_curves(game, exact, seed, effort),
    }


def draw_game(top: float, n_owners: int, form: str, seed: int) -> LinearRegressionGame:
    """Owners of one panel; the same for both forms."""
    rng = np.random.default_rng([seed, n_owners, int(top)])
    sizes: FloatArray = rng.integers(1, 1001, n_owners).astype(np.float64)
    gamma = rng.uniform(0, top, n_owners)
    return LinearRegressionGame(sizes, gamma, D, form="paper" if form == "paper" else "fixed-point")


def other_draws(top: float, form: str, draws: int, estimates: int) -> Result:
    """How often DU-Shapley stays below all rivals when ten owners are drawn anew."""
    effort = Effort(tuple(BUDGETS), estimates, repeats=1)
    panels = [panel(top, 10, form, seed, effort) for seed in range(1, draws + 1)]
    columns = [
        [best_rival(p, k)["mse"] / max(p["du"], 1e-300) for p in panels]
        for k in range(len(BUDGETS))
    ]
    return {
        "top": top,
        "form": form,
        "draws": draws,
        "won": [sum(ratio > 1 for ratio in column) for column in columns],
        "least": [min(column) for column in columns],
    }


def claims(result: Result) -> list[ClaimVerdict]:
    """DU-Shapley is nearer to the exact values than every rival, even at ten times its budget."""
    verdicts = []
    for form in FORMS:
        panels = [p for p in result["panels"] if p["form"] == form]
        for k, (ratio, said) in enumerate(BUDGETS.items()):
            finding, numbers = below_rivals(panels, result["ratios"].index(ratio))
            others = [d for d in result["draws"] if d["form"] == form]
            won, of = sum(d["won"][k] for d in others), sum(d["draws"] for d in others)
            if finding == "holds" and won < of:
                finding = "holds weaker"
            verdicts.append(
                ClaimVerdict(
                    f"DU-Shapley beats MC, antithetic, Owen and orthogonal {said} "
                    f"(appendix, synthetic data; {FORMS[form]})",
                    finding,
                    f"{numbers}; with ten owners drawn anew, below in {won} of {of} draws, least "
                    f"ratio {short(min(d['least'][k] for d in others))}",
                )
            )
    return verdicts


def dependence(result: Result) -> list[Dependence]:
    """Which owners were drawn, and which utility."""
    return [
        Dependence(
            f"which ten owners are drawn, γ ~ U[0,{d['top']:g}]",
            f"{d['draws']} further draws, {FORMS[d['form']]}",
            tuple(
                f"below all rivals {said} in {won}"
                for won, said in zip(d["won"], BUDGETS.values(), strict=True)
            ),
        )
        for d in result["draws"]
    ]


def sheets(result: Result) -> list[Sheet]:
    """MSEs at equal evaluations and at ten times."""
    header = (
        "panel",
        "utility",
        "DU-Shapley",
        *(f"{m} {s}" for s in ("1×", "10×") for m in MONTE_CARLO),
    )
    rows = ratio_rows(result, *BUDGETS)
    return [Sheet("MSE to the exact values (the paper shows curves only)", header, rows)]


def draw(result: Result) -> Figure:
    """As in the paper, I from left to right and γ from above; then the same for the fixed point."""
    return draw_curves(result, columns=2)


EXPERIMENT = Experiment(
    name="synthetic-figure",
    title="DU-Shapley against four Monte Carlo methods, heterogeneous linear regression",
    place="Appendix A.2, synthetic data",
    run=run,
    claims=claims,
    sheets=sheets,
    draw=draw,
    settings=(
        "Budgets are counted in evaluations of u for all owners: DU-Shapley's is 2I(I−1)+2, walks "
        "of permutations are shared by all owners. Counted in marginals per owner, as the paper "
        "does, its rivals have half of that.",
        "The paper's utility d/(d+1−q) is positive and has a pole for small pools; the fixed point "
        "is nearer to the expected error (docs/privacy.md says how near) and is beyond the paper. "
        "Both are run.",
        "An MSE is over 25 estimates, ten of them give the bands and the standard error, as in the "
        "paper. The paper draws owners once; 20 further draws of ten owners show what hangs on "
        "that, and a claim that fails for some of them holds weaker.",
    ),
    dependence=dependence,
)
