"""Table 2 as data: what the paper prints, verdicts on what was found, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from dushapley.estimators.calibration import student
from dushapley.results.uncertainty import half_width
from dushapley_paper.experiment import (
    ClaimVerdict,
    Dependence,
    Finding,
    Outcome,
    Result,
    Sheet,
    judge,
    qualified,
    standard_error,
    standing,
)

SETS = ("CIFAR10", "BBC", "IMDB")
TASKS = ("NLD", "DR", "DA")
SHARES = (0.05, 0.15)
BASELINES = ("Random", "LOO", "DataShapley", "KNN-Shapley")
"""Methods that DU-Shapley is compared with, as the paper names them."""
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "CIFAR10": {
        "Random": (0.11, 0.19, 0.61, 0.60, 0.25, 0.41),
        "LOO": (0.13, 0.18, 0.62, 0.60, 0.15, 0.32),
        "DataShapley": (0.13, 0.25, 0.61, 0.59, 0.12, 0.18),
        "KNN-Shapley": (0.14, 0.28, 0.60, 0.57, 0.12, 0.15),
        "DU-Shapley": (0.14, 0.30, 0.61, 0.55, 0.11, 0.14),
    },
    "BBC": {
        "Random": (0.11, 0.19, 0.90, 0.88, 0.68, 0.81),
        "LOO": (0.11, 0.17, 0.90, 0.88, 0.61, 0.77),
        "DataShapley": (0.12, 0.20, 0.89, 0.87, 0.08, 0.12),
        "KNN-Shapley": (0.19, 0.29, 0.88, 0.86, 0.13, 0.12),
        "DU-Shapley": (0.18, 0.34, 0.89, 0.85, 0.07, 0.11),
    },
    "IMDB": {
        "Random": (0.10, 0.16, 0.77, 0.75, 0.62, 0.68),
        "LOO": (0.11, 0.18, 0.77, 0.74, 0.53, 0.59),
        "DataShapley": (0.17, 0.28, 0.75, 0.69, 0.36, 0.33),
        "KNN-Shapley": (0.18, 0.29, 0.76, 0.68, 0.41, 0.37),
        "DU-Shapley": (0.18, 0.32, 0.76, 0.66, 0.33, 0.34),
    },
}
"""NLD 5%, 15% (F1, higher is better), DR 5%, 15%, DA 5%, 15% (accuracy, lower is better)."""

MARGIN = 0.02
"""Gap that must be clear in a typical column for "as good as" to hold without a limit."""

COLUMNS = tuple(f"{task} {share:.0%}" for task in TASKS for share in SHARES)
INSPECTED, WEAK = (
    tuple(f"NLD {how} {share:.0%}" for share in SHARES) for how in ("inspected", "owners")
)
"""Columns of the table, and of noisy label detection read in two other ways."""
OURS = {
    "Random": "Random",
    "LOO": "LOO (random pool, the paper's)",
    "LOO (all others)": "LOO (all others)",
    "DataShapley": "DataShapley (permutations)",
    "KNN-Shapley": "KNN-Shapley (owner level)",
    "KNN-Shapley (sum of points)": "KNN-Shapley (sum of points)",
    "DU-Shapley": "DU-Shapley",
}
"""Our variants, by short name."""


def gaps(scores: Mapping[str, Any], rival: str, column: str) -> Any:
    """By how much DU-Shapley does better than a rival, repetition by repetition."""
    sign = 1 if column.startswith("NLD") else -1
    ours, theirs = (scores[m][column]["all"] for m in ("DU-Shapley", rival))
    return sign * (np.array(ours) - np.array(theirs))


def against(scores: Mapping[str, Any], rival: str, column: str) -> Outcome:
    """Whether DU-Shapley is better than a rival in a column: repetitions share rows and noise."""
    gap = gaps(scores, rival, column)
    return standing(float(gap.mean()), (standard_error(gap), len(gap)))


def clear_from(result: Result, rival: str, columns: Sequence[str]) -> tuple[float, int]:
    """Gap that is clear in a typical column, and how many columns are the same throughout.

    The former is the median over the others of Student's t times the standard error.
    """
    found = [gaps(scores, rival, c) for scores in result["sets"].values() for c in columns]
    differ = [gap for gap in found if gap.any()]
    widths = [half_width(float(student(len(gap) - 1.0))) * standard_error(gap) for gap in differ]
    return (float(np.median(widths)) if widths else 0.0), len(found) - len(differ)


def limited(finding: Finding, clear: float) -> Finding:
    """What holds is limited where gaps above the margin would not be clear."""
    return "holds weaker" if finding == "holds" and clear > MARGIN else finding


def claims(result: Result) -> list[ClaimVerdict]:
    """Competitive with the baselines; similar to or better than DataShapley."""
    verdicts = [
        as_good(result, BASELINES, "DU-Shapley is competitive: no baseline does clearly better"),
        *(
            as_good(result, (m,), f"DU-Shapley does as well as {m} or better")
            for m in ("DataShapley", "KNN-Shapley", "LOO", "Random")
        ),
        finds_noise(result),
    ]
    return [qualified(verdict, result["missing"]) for verdict in verdicts]


def as_good(result: Result, rivals: tuple[str, ...], claim: str) -> ClaimVerdict:
    """Columns where no rival is better beyond noise; being level is as good."""
    cells = outcomes_by_cell(result, rivals, COLUMNS)
    lost = [cell for cell, outcomes in cells.items() if "lost" in outcomes]
    better = sum(outcomes == {"won"} for outcomes in cells.values())
    nearest, (mean, se, count) = nearest_rival(result, rivals, COLUMNS)
    clear, same = clear_from(result, nearest, COLUMNS)
    joined = standing(mean, (se, count))
    finding = judge(len(cells) - len(lost), len(cells))
    if joined != "won":  # who is clearly better in all, needs no power column by column
        finding = limited(finding, clear)
    if finding == "holds" and joined == "lost":
        finding = "holds weaker"
    over = f" over {nearest}, the nearest," if len(rivals) > 1 else ""
    return ClaimVerdict(
        f"{claim} (section 4.3)",
        finding,
        f"mean not worse in {not_worse(result, rivals)} of {len(cells)} columns (published: "
        f"{published_not_worse(rivals)} of 18), clearly worse in {len(lost)}, clearly better in "
        f"{better}; mean advantage{over} {mean:+.3f} ± {se:.3f}; {power(clear, same)}"
        + (f"; clearly worse in {', '.join(lost)}" if lost else ""),
    )


def outcomes_by_cell(
    result: Result, rivals: Sequence[str], columns: Sequence[str]
) -> dict[str, set[Outcome]]:
    """How DU-Shapley fares against these rivals, by data set and column."""
    return {
        f"{name} {column}": {against(scores, rival, column) for rival in rivals}
        for name, scores in result["sets"].items()
        for column in columns
    }


def power(clear: float, same: int) -> str:
    """What could have been seen."""
    alike = f"; the same in all repetitions in {same}" if same else ""
    return f"a gap in a typical column is clear beyond {clear:.3f} only{alike}"


def not_worse(result: Result, rivals: tuple[str, ...]) -> int:
    """Columns in which no rival's mean is better, whatever the noise."""
    return sum(
        all(gaps(scores, rival, column).mean() >= -1e-9 for rival in rivals)
        for scores in result["sets"].values()
        for column in COLUMNS
    )


def nearest_rival(
    result: Result, rivals: Sequence[str], columns: Sequence[str]
) -> tuple[str, tuple[float, float, int]]:
    """The rival over which DU-Shapley has the smallest mean advantage, and that advantage."""
    means = {rival: overall(result, rival, columns) for rival in rivals}
    return min(means.items(), key=lambda item: item[1][0])


def overall(result: Result, rival: str, columns: Sequence[str]) -> tuple[float, float, int]:
    """Mean advantage over all columns, its standard error, and how many deals of rows gave it."""
    deals = np.concatenate(
        [
            np.mean([gaps(scores, rival, c) for c in columns], axis=0)
            for scores in result["sets"].values()
        ]
    )
    return float(deals.mean()), standard_error(deals), len(deals)


def published_not_worse(rivals: tuple[str, ...]) -> int:
    """Columns of the printed table in which none of the rivals is better than DU-Shapley."""
    return sum(
        sign * printed["DU-Shapley"][i] >= max(sign * printed[rival][i] for rival in rivals)
        for printed in PUBLISHED.values()
        for i, sign in enumerate((1, 1, -1, -1, -1, -1))
    )


def finds_noise(result: Result) -> ClaimVerdict:
    """Noisy labels of single owners: as many inspected as there are, among those of least value."""
    some = {n: s for n, s in result["sets"].items() if set(WEAK) <= set(s["DU-Shapley"])}
    claim = (
        "DU-Shapley is competitive in noisy label detection when the noise is that of 5% or 15% of "
        "the owners (section 4.3)"
    )
    if not some:
        return ClaimVerdict(claim, "cannot be told", "not run")
    seen = {**result, "sets": some}
    cells = outcomes_by_cell(seen, BASELINES, WEAK)
    lost = [c.replace("NLD owners ", "") for c, outcomes in cells.items() if "lost" in outcomes]
    nearest, (mean, se, _) = nearest_rival(seen, BASELINES, WEAK)
    clear, same = clear_from(seen, nearest, WEAK)
    return ClaimVerdict(
        claim,
        limited(judge(len(cells) - len(lost), len(cells)), clear),
        f"no baseline clearly better in {len(cells) - len(lost)} of {len(cells)} columns; mean "
        f"advantage over {nearest}, the nearest, {mean:+.3f} ± {se:.3f}; {power(clear, same)}"
        + (f"; worse in {', '.join(lost)}" if lost else ""),
    )


LEFT_OPEN = {
    "as chosen": "nothing changed",
    "equal owners": "sizes of owners",
    "all rows there are": "rows to train on",
    "2 of 3 rows fewer": "rows to train on",
    "64 hidden units, batches of 64": "shape of the network",
    "rate 0.01": "learning rate",
    "200 steps": "length of training",
}
"""What each of the choices settles in another way."""
READINGS = {
    "wrong labels over all rows": COLUMNS[:2],
    "some of the labels of 5% and 15% of the owners": WEAK,
    "all labels of 20% of the owners; 5% and 15% inspected": INSPECTED,
}
"""Where the noise could be, and the columns that score it."""


def dependence(result: Result) -> list[Dependence]:
    """DU-Shapley's mean advantage over the baselines when one choice changes."""
    found = [
        Dependence(
            f"{LEFT_OPEN[variant['choice']]} (BBC, one repetition)",
            variant["choice"],
            (f"mean advantage over the six columns: {mean_advantages(variant['scores'])}",),
        )
        for variant in result["choices"]
    ]
    for said, columns in READINGS.items():
        gap = [
            float(gaps(scores, "DataShapley", column).mean())
            for scores in result["sets"].values()
            for column in columns
            if column in scores["DU-Shapley"]
        ]
        if gap:
            advantage = f"mean advantage in F1 over DataShapley {np.mean(gap):+.3f}"
            found.append(Dependence("where noisy labels are", said, (advantage,)))
    return found


def mean_advantages(scores: Mapping[str, Any]) -> str:
    """Over three baselines, all columns together."""
    return ", ".join(
        f"{np.mean([gaps(scores, rival, c).mean() for c in COLUMNS]):+.3f} over {rival}"
        for rival in ("DataShapley", "KNN-Shapley", "Random")
    )


def sheets(result: Result) -> list[Sheet]:
    """Published beside found for every data set, other readings of noise, the choices."""
    found = [task_sheet(name, scores) for name, scores in result["sets"].items()]
    weak = "Noisy label detection, 30% of the labels of 5% and 15% of the owners wrong, as many "
    easy = "Noisy label detection, all labels of 20% of the owners wrong, 5% and 15% of the owners "
    if any(set(WEAK) <= set(scores["DU-Shapley"]) for scores in result["sets"].values()):
        found.append(noise_sheet(result, WEAK, weak + "inspected as are noisy: F1 over owners"))
    found.append(noise_sheet(result, INSPECTED, easy + "inspected (at most 0.40 and 0.86)"))
    if result["choices"]:
        found.append(choice_sheet(result))
    return found


def task_sheet(name: str, scores: Mapping[str, Any]) -> Sheet:
    """One data set: published → found ± standard error."""
    rows = []
    for method, said in OURS.items():
        printed = PUBLISHED[name].get(method)
        before = [""] * len(COLUMNS) if printed is None else [f"{p:.2f} → " for p in printed]
        rows.append((said, *map(add, before, with_errors(scores[method], COLUMNS))))
    count = len(scores["DU-Shapley"][COLUMNS[0]]["all"])
    caption = (
        f"{name}: published → found ± standard error, {count} repetitions; NLD with 5% and 15% of "
        "all rows mislabelled"
    )
    return Sheet(caption, ("method", *COLUMNS), tuple(rows))


def with_errors(scores: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Mean scores of some columns with their standard errors."""
    return [f"{scores[c]['mean']:.2f} ± {scores[c]['se']:.2f}" for c in columns]


def noise_sheet(result: Result, columns: Sequence[str], caption: str) -> Sheet:
    """Noisy label detection read in another way."""
    sets = {n: s for n, s in result["sets"].items() if set(columns) <= set(s["DU-Shapley"])}
    rows = [
        (said, *chain(*(with_errors(scores[method], columns) for scores in sets.values())))
        for method, said in OURS.items()
    ]
    header = ("method", *(f"{name} {share:.0%}" for name in sets for share in SHARES))
    counts = sorted({len(scores["DU-Shapley"][columns[0]]["all"]) for scores in sets.values()})
    return Sheet(f"{caption}; {' to '.join(map(str, counts))} repetitions", header, tuple(rows))


def choice_sheet(result: Result) -> Sheet:
    """DU-Shapley and DataShapley when one choice changes."""
    rows = []
    for variant in result["choices"]:
        ours, theirs = (variant["scores"][method] for method in ("DU-Shapley", "DataShapley"))
        cells = [f"{ours[c]['mean']:.2f} / {theirs[c]['mean']:.2f}" for c in COLUMNS]
        rows.append((variant["choice"], *cells))
    caption = "BBC, DU-Shapley / DataShapley, one repetition"
    return Sheet(caption, ("choice", *COLUMNS), tuple(rows))
