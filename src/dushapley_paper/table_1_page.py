"""Table 1 as data: what the paper prints, and tables of what was found beside it."""

from __future__ import annotations

from dushapley_paper.accuracy import AUTO, AUTO_CHEAP, EMPTY, PAPERS, RIVALS, WALKS, outcome
from dushapley_paper.cases import LOGISTIC
from dushapley_paper.experiment import Result, Sheet, short

PRINTED_ERRORS = {
    "adult": {"10": (2e-3, 1e-2, 8e-3), "20": (6e-4, 4e-3, 2e-3)},
    "breast-cancer": {"10": (3e-3, 3e-2, 1e-2), "20": (1e-4, 1e-3, 8e-4)},
    "bank": {"10": (5e-2, 9e-2, 8e-2), "20": (4e-3, 6e-2, 4e-2)},
    "cal-housing": {"10": (1e-2, 5e-2, 3e-2), "20": (3e-3, 2e-2, 1e-2)},
    "make-regression": {"10": (9e-2, 4e-1, 4e-1), "20": (2e-2, 3e-1, 2e-1)},
    "year": {"10": (1e-3, 5e-3, 5e-3), "20": (7e-4, 1e-3, 1e-3)},
}
"""MSE as printed: DU-Shapley, MC-Shapley, MC-anti-Shapley."""
PUBLISHED = {
    name: {n: dict(zip(("DU-Shapley", *PAPERS), row, strict=True)) for n, row in rows.items()}
    for name, rows in PRINTED_ERRORS.items()
}
"""The same by data set, number of owners and method."""

PRINTED_SETS = {
    "adult": (48_842, 107), "breast-cancer": (699, 30), "bank": (45_211, 16),
    "cal-housing": (20_640, 8), "make-regression": (1_000, 10), "year": (515_345, 90),
}  # fmt: skip
"""Rows and columns as printed."""

SCENARIOS = {
    "iid": "owners alike (the paper's)",
    "uneven": "owners alike, sizes uniform over all ways to share",
    "mislabelled": "30% of owners with half their labels wrong",
    "shifted": "owners from different parts of the population",
}


def sheets(result: Result) -> list[Sheet]:
    """The paper's table, where DU-Shapley loses, the further columns and rows, the data sets."""
    found = [printed_sheet(result, empty) for empty in EMPTY]
    found.append(lost_sheet(result))
    found += [wide_sheet(result, scenario) for scenario in SCENARIOS]
    return [*found, set_sheet(result)]


def set_sheet(result: Result) -> Sheet:
    """Data sets as printed and as found."""
    rows = tuple(
        (
            name,
            "{:,} × {}".format(*printed),
            "{:,} × {}".format(*result["sets"][name]),
            "logistic regression" if name in LOGISTIC else "boosted trees",
            result["notes"][name],
        )
        for name, printed in PRINTED_SETS.items()
    )
    header = ("data set", "published", "here", "model", "remark")
    return Sheet("Data sets, rows × columns", header, rows)


def printed_sheet(result: Result, empty: str) -> Sheet:
    """Published → found for the paper's own splits: at its budget, and at equal evaluations."""
    methods = ("DU-Shapley", WALKS, *PAPERS)
    rows = []
    for case in result["cases"]:
        if case["scenario"] == "iid":
            printed = PUBLISHED[case["data"]].get(str(case["owners"]), {})
            cells = [published_to_found(printed, m, case[empty]) for m in methods]
            rows.append((case["data"], str(case["owners"]), *cells))
    caption = f"MSE to exact values, published → found ± standard error, {EMPTY[empty]}"
    equal = (f"{m}, equal evaluations" for m in PAPERS)
    return Sheet(caption, ("data set", "I", "DU-Shapley", WALKS, *equal), tuple(rows))


def published_to_found(printed: dict[str, float], method: str, errors: Result) -> str:
    """One cell; the paper's Monte Carlo errors are those of I samples an owner."""
    before = printed.get(method.split(",")[0]) if method != "MC-Shapley" else None
    found = f"{short(errors[method]['mse'])} ± {short(errors[method]['se'])}"
    return found if before is None else f"{short(before)} → {found}"


def lost_sheet(result: Result) -> Sheet:
    """Where DU-Shapley is not clearly below both Monte Carlo methods, and why."""
    rows = []
    for case in result["cases"]:
        for empty, meaning in EMPTY.items():
            errors = case[empty]
            found = outcome(errors, "DU-Shapley", PAPERS)
            if found != "won":
                du, best = errors["DU-Shapley"]["mse"], min(errors[m]["mse"] for m in PAPERS)
                bias, noise = errors["DU bias"], errors["DU noise"]
                because = "too close to call" if found == "level" else reason(bias, noise, best)
                cells = (part(du), part(bias), part(noise), part(best), because)
                rows.append((f"{case['data']} {case['owners']}", case["scenario"], meaning, *cells))
    header = ("case", "owners", "u(∅)", "DU-Shapley's MSE", "its squared bias", "variance of a run",
              "better of MC and antithetic", "why")  # fmt: skip
    cut = "; ".join(f"of {name} we have {rows}" for name, rows in shortened(result).items())
    caption = "Where DU-Shapley is not clearly below both" + (f" ({cut})" if cut else "")
    return Sheet(caption, header, tuple(rows))


def shortened(result: Result) -> dict[str, str]:
    """Data sets of which we have less than a tenth: how many rows of how many."""
    own = {name: result["sets"][name][0] for name in PRINTED_SETS}
    return {
        name: f"{own[name]:,} of {n:,} rows"
        for name, (n, _) in PRINTED_SETS.items()
        if 10 * own[name] < n
    }


def part(error: float) -> str:
    """An error for people; an estimated square below zero is none."""
    return "none seen" if error <= 0 else short(error)


def reason(bias: float, noise: float, rival: float) -> str:
    """Which part of DU-Shapley's error puts it above a rival's."""
    if bias > rival:
        return "its bias alone exceeds the rival's error: more runs do not help"
    if noise > rival:
        return "the noise of one run alone exceeds it; averaging runs removes it, at their cost"
    return "bias and noise together"


def wide_sheet(result: Result, scenario: str) -> Sheet:
    """All methods, as MSE over the variance of the exact values."""
    names = ("DU-Shapley", "DU bias", *RIVALS, AUTO, AUTO_CHEAP)
    rows = [
        (f"{case['data']} {case['owners']}", *(both(case, name) for name in names))
        for case in result["cases"]
        if case["scenario"] == scenario
    ]
    caption = (
        f"All methods, {SCENARIOS[scenario]}: MSE over the variance of the exact values (1: paying "
        "everyone the same); where it matters: u(∅) = 0, all else as it is / constant subtracted"
    )
    return Sheet(caption, ("case", "DU-Shapley", "its bias", *names[2:]), tuple(rows))


def both(case: Result, name: str) -> str:
    """A relative error under both conventions, once where they agree."""
    if any(case[empty].get(name) is None for empty in EMPTY):
        return "–"
    found = (case[empty] for empty in EMPTY)
    pairs = [(e[name] if name == "DU bias" else e[name]["mse"], e["spread"]) for e in found]
    relative = ("0" if mse <= 0 else short(mse / spread) for mse, spread in pairs)
    return " / ".join(dict.fromkeys(relative))
