"""SVARM figure: with which probability its theorem ensures DU-Shapley's bias after I² samples."""

from __future__ import annotations

from math import sqrt
from statistics import fmean

from dushapley.guarantees import du_bias, svarm_failure
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
    standing,
)
from dushapley_paper.theory import draw_game, draw_series, highest, panel, series_sheet

OWNERS = (5, 10, 20, 50, 100, 200)
LARGEST = (2000, 3000, 5000, 10_000)
HIGH = 0.95
"""A probability that people would call high enough."""
READINGS = {
    "as printed": "ε = DUbias, the norm over all owners",
    "per owner": "ε = DUbias/√I, one owner's part",
}


def run(profile: Profile, seed: int) -> Result:
    """Probabilities for every largest size and number of owners, over draws of the owners."""
    quick = profile == "quick"
    owners, draws = ((10, 50), 5) if quick else (OWNERS, 100)
    return {
        "owners": list(owners),
        "draws": draws,
        "panels": [panel(probabilities, n_max, owners, draws, seed) for n_max in LARGEST],
    }


def probabilities(n_owners: int, n_max: int, seed: tuple[int, int]) -> dict[str, float]:
    """What Theorem 4 of SVARM ensures after I² samples, for the accumulated bias and a share of it.

    The theorem is about one owner. DUbias is a norm over all of them: it may be I^½ times the
    error of one.
    """
    game = draw_game(n_owners, n_max, seed)
    bias, r, samples = du_bias(game), highest(game), n_owners**2
    return {
        "bias": bias,
        "as printed": 1 - svarm_failure(bias, samples, n_owners, r, r),
        "per owner": 1 - svarm_failure(bias / sqrt(n_owners), samples, n_owners, r, r),
    }


def claims(result: Result) -> list[ClaimVerdict]:
    """SVARM cannot ensure DU-Shapley's error with high probability."""
    return [cannot_ensure(result, reading, said) for reading, said in READINGS.items()]


def cannot_ensure(result: Result, reading: str, said: str) -> ClaimVerdict:
    """Below 0.95 on average over the draws of owners."""
    points = [
        (n, point[reading])
        for p in result["panels"]
        for n, point in zip(result["owners"], p["points"], strict=True)
    ]
    found = [
        standing(HIGH - chance["mean"], (chance["se"], chance["count"])) for _, chance in points
    ]
    ensured = sorted({n for n, chance in points if chance["mean"] >= HIGH})
    chances = [chance["mean"] for _, chance in points]
    return ClaimVerdict(
        f"after I² samples SVARM's theorem cannot ensure DU-Shapley's bias with high "
        f"probability (appendix A.1; {said})",
        judge(found.count("won"), len(found), found.count("level")),
        f"clearly below {HIGH} in {found.count('won')} of {len(found)} settings; probabilities "
        f"from {short(min(chances))} to {short(max(chances))}"
        + (f"; ensured at I = {', '.join(map(str, ensured))}" if ensured else ""),
    )


def dependence(result: Result) -> list[Dependence]:
    """The probabilities, by reading and by number of owners."""
    found = []
    for reading, said in READINGS.items():
        columns = zip(*(p["points"] for p in result["panels"]), strict=True)
        means = [fmean(point[reading]["mean"] for point in column) for column in columns]
        pairs = zip(means, result["owners"], strict=True)
        words = ", ".join(f"{short(mean)} (I = {n})" for mean, n in pairs)
        about = "whose error DUbias is, and numbers of owners"
        found.append(Dependence(about, said, (f"mean probability {words}",)))
    return found


def sheets(result: Result) -> list[Sheet]:
    """Probabilities by largest size and number of owners, both readings."""
    return [series_sheet("Mean probability over the draws of owners", result, "reading", READINGS)]


def draw(result: Result) -> Figure:
    """One panel per largest size, one curve per reading."""
    figure, axes = draw_series(result, READINGS)
    for ax in axes:
        ax.set_ylim(-0.05, 1.05)
    axes[0].set_ylabel("probability", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    name="svarm-figure",
    title="Probability that SVARM's theorem ensures DU-Shapley's bias",
    place="Appendix A.1",
    run=run,
    claims=claims,
    sheets=sheets,
    draw=draw,
    settings=(
        "The numbers of owners are not stated: 5 to 200; sizes uniform on 1..n_max.",
        "r⁺ = r⁻ = w(all rows), the warm-up is not counted, as in the paper.",
        "SVARM's theorem bounds one owner's error, DUbias the norm over all owners. The paper sets "
        "one equal to the other; both readings are shown.",
        f"'High probability' is read as {HIGH}. 100 draws of owners, as in the paper; bands hold "
        "95% of them.",
    ),
    dependence=dependence,
)
