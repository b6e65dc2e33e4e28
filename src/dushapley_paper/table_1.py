"""Table 1: errors of DU-Shapley and its rivals on trained models, against exact values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dushapley_paper.accuracy import (
    AUTO,
    EMPTY,
    PAPERS,
    WALKS,
    advantage,
    auto_errors,
    errors_of,
    outcome,
)
from dushapley_paper.cases import LOGISTIC, TREES, Case, Utilities, full_cases, known, quick_cases
from dushapley_paper.data import load
from dushapley_paper.experiment import (
    ClaimVerdict,
    Experiment,
    Profile,
    Result,
    Sheet,
    judge,
    qualified,
    short,
)
from dushapley_paper.table_1_choices import choices, dependence
from dushapley_paper.table_1_page import PUBLISHED, SCENARIOS, shortened
from dushapley_paper.table_1_page import sheets as case_sheets
from dushapley_paper.table_1_readings import readings, readings_sheet

OTHERS = ("orthogonal", "leverage", "stratified SVARM")
"""Methods at the same evaluations that the paper does not compare with."""


def run(profile: Profile, seed: int) -> Result:
    """Every case under both conventions for u(∅), and how much the choices matter."""
    quick = profile == "quick"
    cases = quick_cases(seed) if quick else full_cases(seed)
    found, missing = known(cases)
    measured = [measure(case, table, quick) for case, table in found]
    return {
        "sets": {name: list(load(name).X.shape) for name in (*LOGISTIC, *TREES)},
        "notes": {name: load(name).note for name in (*LOGISTIC, *TREES)},
        "cases": measured,
        "missing": missing,
        "choices": [] if quick else choices(seed, 100),
        "readings": [] if quick else readings(seed),
    }


def measure(case: Case, table: Utilities, quick: bool) -> Result:
    """MSEs of all methods on one case, and the processor time they took.

    Where methods that sample coalitions take milliseconds, `auto` takes seconds, nine at 762
    evaluations: there are fewer seeds of it, and fewest at I = 20.
    """
    sampled, autos = (5, 1) if quick else (100, 10 if case.owners <= 10 else 3)
    begun = time.process_time()
    auto = auto_errors(table, autos)
    both = {empty: {**errors_of(table, empty, sampled), **auto} for empty in EMPTY}
    return {
        "data": case.data,
        "owners": case.owners,
        "scenario": case.scenario,
        "rows": int(table.sizes.sum()),
        "sizes": table.sizes.tolist(),
        "where": table.where,
        "reference": f"exact, all 2^{case.owners} trainings",
        **both,
        "seconds": round(time.process_time() - begun, 1),
    }


def claims(result: Result) -> list[ClaimVerdict]:
    """DU-Shapley below both Monte Carlo methods on every data set, and what the splits hide."""
    verdicts = []
    for scenario, said in SCENARIOS.items():
        cases = [c for c in result["cases"] if c["scenario"] == scenario]
        absent = [key for key in result["missing"] if f"-{scenario}-" in key]
        for empty, meaning in EMPTY.items():
            claim = f"DU-Shapley beats MC and antithetic (section 4.1; {said}; {meaning})"
            found = below(claim, cases, empty, PAPERS)
            verdicts.append(qualified(counted_without(found, result, cases, empty), absent))
    for empty, meaning in EMPTY.items():
        claim = (
            "DU-Shapley beats methods the paper does not compare with: orthogonal, leverage, "
            f"stratified SVARM, at the same evaluations ({meaning})"
        )
        verdicts.append(qualified(below(claim, result["cases"], empty, OTHERS), result["missing"]))
    claim = "DU-Shapley beats this library's `auto` at the same evaluations"
    verdicts.append(qualified(below(claim, result["cases"], "zero", (AUTO,)), result["missing"]))
    return [*verdicts, magnitudes(result["cases"])]


def sheets(result: Result) -> list[Sheet]:
    """The tables of the cases, and what could make errors as large as printed."""
    found = case_sheets(result)
    return [*found, readings_sheet(result["readings"])] if result["readings"] else found


def below(claim: str, cases: list[Result], empty: str, rivals: tuple[str, ...]) -> ClaimVerdict:
    """DU-Shapley's MSE is below all of these rivals', case by case."""
    ratios = [advantage(c[empty], "DU-Shapley", rivals) for c in cases]
    names: dict[str, list[str]] = {"won": [], "level": [], "lost": []}
    for case, ratio in zip(cases, ratios, strict=True):
        found = outcome(case[empty], "DU-Shapley", rivals)
        names[found].append(f"{case['data']} {case['owners']} ({short(ratio)})")
    won, level, lost = (names[kind] for kind in ("won", "level", "lost"))
    numbers = "no case" if not cases else (
        f"below in {len(won)} of {len(cases)}; best rival's MSE over DU-Shapley's: median "
        f"{short(float(np.median(ratios)))}, from {short(min(ratios))} to {short(max(ratios))}"
        + (f"; too close to call: {listed(level)}" if level else "")
        + (f"; above: {listed(lost)}" if lost else "")
    )  # fmt: skip
    return ClaimVerdict(claim, judge(len(won), len(cases), len(level)), numbers)


def counted_without(
    verdict: ClaimVerdict, result: Result, cases: list[Result], empty: str
) -> ClaimVerdict:
    """The same; where data sets we have little of are exceptions, with the count without them."""
    cut = shortened(result)
    won = [case for case in cases if outcome(case[empty], "DU-Shapley", PAPERS) == "won"]
    if all(case in won for case in cases if case["data"] in cut):
        return verdict
    without = ", ".join(f"{name}, of which we have {rows}" for name, rows in cut.items())
    count, of = (sum(case["data"] not in cut for case in some) for some in (won, cases))
    return replace(verdict, numbers=f"{verdict.numbers}; without {without}: {count} of {of}")


def listed(names: list[str], most: int = 6) -> str:
    """Names in a row, or how many there are."""
    return ", ".join(names) if len(names) <= most else f"{len(names)} cases"


def magnitudes(cases: list[Result]) -> ClaimVerdict:
    """Whether the printed errors themselves come out, where u(∅) fits them better."""
    ratios: dict[str, list[float]] = {name: [] for name in ("DU-Shapley", WALKS)}
    for case in cases:
        printed = PUBLISHED[case["data"]].get(str(case["owners"]))
        if case["scenario"] == "iid" and printed is not None:
            for name, found in ratios.items():
                found.append(printed[name.split(",")[0]] / case["zero"][name]["mse"])
    ranges = [
        f"{name}: printed MSE over the one found from {short(min(r))} to {short(max(r))}"
        for name, r in ratios.items()
        if r
    ]
    near = sum(0.1 <= r <= 10 for found in ratios.values() for r in found)
    if ranges:
        ranges.append(f"within ten times, if the printed figures are {other_metrics(cases)}")
    return ClaimVerdict(
        "the printed errors come out to within a factor of ten (Table 1; u(∅) = 0)",
        judge(near, sum(map(len, ratios.values()))),
        "; ".join(ranges) or "no case of the printed sizes",
    )


METRICS: dict[str, Callable[[float, int], float]] = {
    "mean squared errors": lambda mse, _: mse,
    "their roots": lambda mse, _: mse**0.5,
    "sums over owners": lambda mse, owners: mse * owners,
    "norms over owners": lambda mse, owners: (mse * owners) ** 0.5,
}
"""What the printed figures could be, from the mean squared error and the number of owners."""


def other_metrics(cases: list[Result]) -> str:
    """How many printed figures come out under other readings of the metric."""
    found = []
    for said, metric in METRICS.items():
        counts = []
        for name in ("DU-Shapley", WALKS):
            ratios = [
                PUBLISHED[c["data"]][str(c["owners"])][name.split(",")[0]]
                / metric(c["zero"][name]["mse"], c["owners"])
                for c in cases
                if c["scenario"] == "iid" and str(c["owners"]) in PUBLISHED[c["data"]]
            ]
            counts.append(f"{sum(0.1 <= r <= 10 for r in ratios)} of {len(ratios)}")
        found.append(f"{said}: {counts[0]} of DU-Shapley's, {counts[1]} of MC's")
    return ", ".join(found)


EXPERIMENT = Experiment(
    name="table-1",
    title="Errors against exact values on six data sets",
    place="Table 1 and the table of data sets, section 4.1",
    run=run,
    claims=claims,
    sheets=sheets,
    needs=("adult", "breast-cancer", "bank", "cal-housing", "year"),
    settings=(
        "Owners' sizes are in proportion to whole numbers drawn from 1 to 10; the test set has 10% "
        "of the training rows.",
        "'We heterogeneously allocate datasets to the players' can mean owners of different size, "
        "whose rows are alike ('a subset of random size', the older version says), or owners whose "
        "rows differ. The first is taken for the paper's setting, with sizes in proportion to 1 to "
        "10 and, for ten owners, with sizes uniform over all ways to share; the second, owners "
        "from different parts of the population, is beside it.",
        "DU-Shapley's printed errors are far above those found. What was tried: u(∅) does not move "
        "them; splits, rates, batches, depths and sizes (the choices) do by a few times. Of the "
        "readings in the last table, a reference that is itself sampled, by five times as many "
        "permutations, brings DU-Shapley within three times of print for adult and breast-cancer, "
        "and so, nearly, do trainings that differ by chance from one evaluation to the next. "
        "As roots, on as few rows, DU-Shapley's come out for these two and cal-housing, but Monte "
        "Carlo's for cal-housing alone. "
        "Nothing tried explains bank, where even Monte Carlo's printed error is 13 times the one "
        "found, or the regressions, whose scale is not stated. The paper averages over players; "
        "averages over several runs of DU-Shapley would be smaller still.",
        "Logistic regression: 20 full-batch steps with Nesterov momentum 0.9, rate 0.5, from zero.",
        "Boosted trees: 20 rounds, depth 3, rate 0.1, 32 quantile bins; targets standardised. "
        "cal-housing has all its rows where ten owners are alike, 4,000 of them elsewhere: with "
        "twenty owners, 2^20 trainings on all rows would take a GPU hours.",
        "Seeds per column: DU-Shapley 10 runs; methods that sample coalitions 100; `auto` 10 at "
        "I = 10 and 3 at I = 20, where one run takes nine seconds. The paper does not say how many "
        "it took. The split is one per data set (other splits are among the choices).",
        "All columns have DU-Shapley's evaluations, 2I(I−1)+2 (182 and 762), but two: 'I samples' "
        "is the paper's Monte Carlo, I marginals per owner from I shared permutations, which costs "
        "I(I−1)+2; 'auto at 6I' has 60 and 120. The paper's antithetic errors are of I samples "
        "too: beside them stands what twice as many give.",
        "The reference is exact throughout, boosted trees at I = 20 included: all 2^I trainings of "
        "every game that was run.",
        "u(∅) moves exact values, DU-Shapley's, stratified SVARM's and `auto`'s alike, since all "
        "of them take it exactly: their errors do not see it. The others must find the first "
        "marginal by chance.",
    ),
    dependence=dependence,
)
