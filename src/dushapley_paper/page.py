"""The page: every figure and table, published beside found, from stored results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dushapley_paper.experiment import ClaimVerdict, Finding, markdown_table
from dushapley_paper.headlines import HEADLINES, Deciders, decides
from dushapley_paper.records import Record, find_experiment, read

RESULTS = "results"
"""Folder of stored results, inside the page's."""
PAGE = "README.md"

COUNTED: dict[Finding, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds weaker": ("weaker", "weaker"),
    "does not hold": ("does not", "do not"),
    "cannot be told": ("open", "open"),
}
"""Findings in short, of one verdict and of several."""

OPENING = """\
# The paper, reproduced

Every figure and table of the DU-Shapley paper, the final version and the older one, run again.
One command each, `dushapley reproduce NAME --profile full`; this page is what `dushapley reproduce
all` makes of the stored results.

**Words.** I is the number of owners; u(S) is what a model trained on the pooled rows of the owners
S scores, and u(∅) what no data are worth. MC is Monte Carlo over random orders of the owners
(permutation sampling); antithetic pairs every order with its reverse.

**u(∅).** The older version says: "Without loss of generality, we assume in the sequel that u(∅) =
0", and the efficiency axiom of both, Σφ = u(I), needs it. What neither says is how the experiments
bring it about: by setting u(∅) to 0 and leaving all other utilities as they are ("u(∅) = 0, all
else as it is"; an accuracy of 0 for no data), or by subtracting from all of them what the best
constant prediction scores ("the constant's score subtracted"). Both are run, and both are verdicts
in the paper's setting.

**How verdicts are made.** A claim is looked at case by case (a data set, a panel, a column). A case
bears it out if the difference is in its favour and larger than noise: outside what 95% of noise
alone would keep to, given the standard errors and the number of repetitions (Student's t).

- *holds*: every case bears it out;
- *holds weaker*: more than half do, or something said beside it limits it;
- *does not hold*: half or fewer do;
- *cannot be told*: half or fewer do, but those that noise leaves open could make it more.

A claim about *all* instances (figure-2) does not hold as soon as one of them is clearly against it,
and cannot be told while some are open.

For "as good as" claims (table-2) a case counts unless the contrary is clear. Since much can hide in
noise, such a claim *holds weaker* at best where the gap that would be clear in a typical column,
the median over those in which the methods differ at all, exceeds 0.02; unless all columns together
show a clear advantage.

MSEs are means over owners, against exact values. Methods are compared at equal evaluations of u
unless said otherwise. Standard errors that a table leaves out are in the stored results. What the
paper does not state had to be chosen: every section says how, and [the last
one](#what-the-paper-leaves-open) how much hangs on it.
"""


def write_page(folder: Path) -> Path:
    """Write the page and its figures from the results stored in `folder`; returns its path."""
    records = read(folder / RESULTS)
    verdicts = {r["name"]: find_experiment(r["name"]).claims(r["result"]) for r in records}
    parts = [OPENING, headlines(verdicts)]
    parts += [section(record, verdicts[record["name"]], folder) for record in records]
    parts.append(left_open(records))
    path = folder / PAGE
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def headlines(verdicts: Mapping[str, list[ClaimVerdict]]) -> str:
    """The claims of the abstract and of section 4, each decided by the verdicts below."""
    opening = (
        "## The claims in short\n\n"
        "A claim *holds* if all verdicts on it hold, *does not hold* if half or more of those that "
        "can be told do not, and *holds weaker* in between; it *cannot be told* if none of them "
        "can. A claim about *all* instances does not hold if one verdict on it does not. How "
        "many there are of each stands beside it (*open*: cannot be told). *Beyond* are settings "
        "the paper does not look at: owners that differ in quality, methods it does not compare "
        "with, other utilities (the fixed point, a floored w), other ways to count.\n\n"
    )
    rows = []
    for headline in HEADLINES:
        within, outside = (
            chosen(verdicts, some) for some in (headline.decided_by, headline.beyond)
        )
        names = [name for name, _ in (*headline.decided_by, *headline.beyond)]
        links = ", ".join(dict.fromkeys(f"[{n}](#{n})" for n in names))
        further = f"{together(outside)} ({counted(outside)})" if outside else "–"
        verdict = f"**{together(within, headline.every)}** ({counted(within)})"
        rows.append((headline.claim, headline.place, verdict, further, links))
    header = ("claim", "where", "in the paper's setting", "beyond", "see")
    return f"{opening}{markdown_table(header, rows)}\n{retallied()}"


def retallied() -> str:
    """What the tally said before it was made again, and why it was."""
    changed = [
        (h.claim, within, beyond)
        for h in HEADLINES
        if h.before is not None
        for within, beyond in (h.before,)
    ]
    why = (
        "\n**Tallied again.** Before, both ways to have u(∅) = 0 were called unstated; the fixed "
        "point and the floored w, which are not the paper's, counted in its setting; a claim about "
        "all instances could hold weaker in spite of counterexamples; and verdicts under the "
        "natural logarithm took cases too close to call for counterexamples. Since then noisy "
        "labels are spread over rows and repeated more often (table-2), and owners of very unequal "
        "size and, for ten owners, all rows of cal-housing are among the paper's games (table-1). "
        "What this page said before all that, where it says something else now:\n\n"
    )
    return f"{why}{markdown_table(('claim', 'in the setting of the paper', 'beyond'), changed)}\n"


def chosen(verdicts: Mapping[str, list[ClaimVerdict]], deciders: Deciders) -> list[ClaimVerdict]:
    """Verdicts of these experiments whose claims start so."""
    return [
        verdict
        for name, start in deciders
        for verdict in verdicts.get(name, [])
        if decides(start, verdict.claim)
    ]


def counted(verdicts: Sequence[ClaimVerdict]) -> str:
    """How many verdicts there are of each finding.

    Examples
    --------
    >>> counted([ClaimVerdict("a", "holds", ""), ClaimVerdict("b", "does not hold", "")])
    '1 holds, 1 does not'
    """
    findings = [verdict.finding for verdict in verdicts]
    counts = ((findings.count(finding), words) for finding, words in COUNTED.items())
    return ", ".join(f"{n} {words[n > 1]}" for n, words in counts if n) or "no verdict"


def left_open(records: Iterable[Record]) -> str:
    """All that the paper does not state, tried in more than one way, in one place."""
    opening = (
        "## What the paper leaves open\n\n"
        "What is not stated was chosen, then varied one thing at a time. This is what is found "
        "then; where the words differ from row to row, the verdict hangs on the choice. Those of "
        "table-1 are of smaller games than its tables (2,000 of adult's 48,842 rows, 400 of "
        "make-regression's 1,000), where DU-Shapley's advantage is smaller: compare them with one "
        "another, not with table-1.\n\n"
    )
    rows = [
        (f"[{experiment.name}](#{experiment.name})", row.left_open, row.tried, "; ".join(row.found))
        for record in records
        if (experiment := find_experiment(record["name"])).dependence is not None
        for row in experiment.dependence(record["result"])
    ]
    header = ("experiment", "left open", "settled as", "found")
    return f"{opening}{markdown_table(header, rows)}\n"


def together(verdicts: Iterable[ClaimVerdict], every: bool = False) -> Finding:
    """One finding for several verdicts, by the rule that the page states.

    Those that cannot be told speak neither for nor against, but keep the whole from holding. Of a
    claim about all instances (`every`), one verdict against it decides.
    """
    findings = [verdict.finding for verdict in verdicts]
    if every and "does not hold" in findings:
        return "does not hold"
    clear = [finding for finding in findings if finding != "cannot be told"]
    if not clear:
        return "cannot be told"
    if 2 * clear.count("does not hold") >= len(clear):
        return "does not hold"
    return "holds" if findings.count("holds") == len(findings) else "holds weaker"


def section(record: Record, verdicts: list[ClaimVerdict], folder: Path) -> str:
    """One experiment: verdicts, figure, tables, choices and how it was run."""
    experiment = find_experiment(record["name"])
    parts = [f"## {experiment.name}", f"{experiment.title}. {experiment.place}."]
    parts.append("\n".join(f"- **{v.finding}**: {v.claim}. Found: {v.numbers}." for v in verdicts))
    if record["result"].get("missing"):
        parts.append(
            f"**Not run**, for want of time on a GPU: {', '.join(record['result']['missing'])} "
            "(`benchmarks/reproduce_gpu.py` makes what they need). The verdicts are about the rest."
        )
    if experiment.draw is not None:
        parts.append(f"![{experiment.title}]({draw(record, folder).name})")
    parts += [sheet.markdown() for sheet in experiment.sheets(record["result"])]
    parts.append("Chosen here:\n\n" + "\n".join(f"- {line}" for line in experiment.settings))
    return "\n\n".join([*parts, provenance(record)]) + "\n"


def draw(record: Record, folder: Path) -> Path:
    """The figure as a small picture beside the page."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    experiment = find_experiment(record["name"])
    assert experiment.draw is not None
    path = folder / f"{experiment.name}.png"
    with mpl.rc_context({"backend": "agg"}):
        figure = experiment.draw(record["result"])
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)
    return path


def provenance(record: Record) -> str:
    """Profile, seed, machine and versions of a result, in one line."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return (
        f"<sub>{record['profile']} profile, seed {record['seed']}, {duration(record)}, "
        f"{record['machine']}{trained_on(record['result'])}; {versions}. "
        f"[Result]({RESULTS}/{record['name']}.json)</sub>"
    )


def duration(record: Record) -> str:
    """How long it took: processor time of the cases where they tell, else by the clock."""
    cases = [c["seconds"] for c in record["result"].get("cases", []) if "seconds" in c]
    if cases:
        return f"{sum(cases) / 60:.0f} minutes of one processor"
    seconds = record["seconds"]
    return f"{seconds:,.0f} seconds" if seconds >= 1 else "read from stored trainings"


def trained_on(result: Mapping[str, Any]) -> str:
    """Where models were trained, if that is recorded."""
    places = set(result.get("where", [])) | {
        case["where"] for case in result.get("cases", []) if "where" in case
    }
    return f"; models trained on: {', '.join(sorted(places))}" if places else ""
