"""The page: every figure and table, published beside found, from stored results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dushapley.experiments.experiment import Finding, Verdict
from dushapley.experiments.records import Record, find_experiment, read

RESULTS = "results"
"""Folder of stored results, inside the page's."""
PAGE = "README.md"


@dataclass(frozen=True)
class Headline:
    """A claim of the abstract or of section 4, and the verdicts that decide it.

    Attributes
    ----------
    claim
        The claim, in our words.
    place
        Where it stands.
    decided_by
        (experiment, start of its verdicts' claims) pairs.
    """

    claim: str
    place: str
    decided_by: tuple[tuple[str, str], ...]


HEADLINES = (
    Headline(
        "DU-Shapley uses the structure of pooled data to be more efficient than Monte Carlo",
        "abstract",
        (
            ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; owners alike"),
            (
                "synthetic-figure",
                "DU-Shapley beats MC, antithetic, Owen and orthogonal at the same",
            ),
            ("figure-2", "at the same evaluations DU-Shapley's true error"),
        ),
    ),
    Headline(
        "asymptotic guarantee: pools of random coalitions tend to a uniform share",
        "abstract, Theorem 1",
        (("figure-1", "q(S)/q(I)"), ("figure-2", "DU-Shapley's error vanishes")),
    ),
    Headline(
        "non-asymptotic guarantee: the bound of Theorem 2",
        "abstract, Theorem 2",
        (("figure-2", "Theorem 2"),),
    ),
    Headline(
        "outperforms other approximations even when owners are few",
        "older abstract",
        (
            ("table-1", "DU-Shapley beats"),
            ("older-toy", "DU-Shapley competes"),
            ("older-table", "DU-Shapley++ competes"),
        ),
    ),
    Headline(
        "competes favourably with Monte Carlo on real data",
        "section 4.1",
        (("table-1", "DU-Shapley beats MC and antithetic (section 4.1; owners alike"),),
    ),
    Headline(
        "rivals need more iterations for the same accuracy",
        "section 4.2",
        (
            ("figure-2", "DataShapley needs"),
            ("figure-2", "the same for DataShapley"),
            ("figure-2", "IGTB"),
        ),
    ),
    Headline(
        "competitive in noisy label detection, removal and addition",
        "section 4.3",
        (("table-2", "DU-Shapley is competitive"),),
    ),
    Headline(
        "similar to DataShapley or better",
        "section 4.3",
        (("table-2", "DU-Shapley does as well as DataShapley"),),
    ),
    Headline("SVARM cannot ensure the same error", "appendix A.1", (("svarm-figure", "after I²"),)),
    Headline(
        "better than Monte Carlo with ten times its budget",
        "appendix A.2",
        (("synthetic-figure", "DU-Shapley beats MC, antithetic, Owen and orthogonal at ten"),),
    ),
)

OPENING = """\
# The paper, reproduced

Every figure and table of the DU-Shapley paper (both versions), run again by
`dushapley reproduce NAME --profile full`; this page is what `dushapley reproduce all` makes of the
stored results. A verdict is one of four: *holds*, *holds weaker* (in part, or by less), *does not
hold*, *cannot be told*. MSEs are means over owners; all methods are compared at equal evaluations
of u unless said otherwise.
"""


def write_page(folder: Path) -> Path:
    """Write the page and its figures from the results stored in `folder`; returns its path."""
    records = read(folder / RESULTS)
    verdicts = {r["name"]: find_experiment(r["name"]).claims(r["result"]) for r in records}
    parts = [OPENING, headlines(verdicts)]
    parts += [section(record, verdicts[record["name"]], folder) for record in records]
    path = folder / PAGE
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def headlines(verdicts: Mapping[str, list[Verdict]]) -> str:
    """The claims of the abstract and of section 4, each decided by the verdicts below."""
    lines = [
        "## The abstract and section 4, in short\n",
        "| claim | where | verdict | decided by |\n| --- | --- | --- | --- |",
    ]
    for headline in HEADLINES:
        deciding = [
            verdict
            for name, start in headline.decided_by
            for verdict in verdicts.get(name, [])
            if verdict.claim.startswith(start)
        ]
        links = ", ".join(dict.fromkeys(f"[{n}](#{n})" for n, _ in headline.decided_by))
        count = f"{sum(v.finding == 'holds' for v in deciding)} of {len(deciding)} verdicts hold"
        lines.append(
            f"| {headline.claim} | {headline.place} | **{together(deciding)}** | {links}: {count} |"
        )
    return "\n".join(lines) + "\n"


def together(verdicts: Iterable[Verdict]) -> Finding:
    """One finding for several verdicts: what they agree on, or "holds weaker" between them."""
    found = {verdict.finding for verdict in verdicts} - {"cannot be told"}
    if not found:
        return "cannot be told"
    return found.pop() if len(found) == 1 else "holds weaker"


def section(record: Record, verdicts: list[Verdict], folder: Path) -> str:
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
        figure.savefig(path, dpi=80, metadata={"Software": None})
        plt.close(figure)
    return path


def provenance(record: Record) -> str:
    """Profile, seed, machine and versions of a result, in one line."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return (
        f"<sub>{record['profile']} profile, seed {record['seed']}, "
        f"{record['machine']}{trained_on(record['result'])}; {versions}. "
        f"[Result]({RESULTS}/{record['name']}.json)</sub>"
    )


def trained_on(result: Mapping[str, Any]) -> str:
    """Where models were trained, if that is recorded."""
    places = set(result.get("where", [])) | {
        case["where"] for case in result.get("cases", []) if "where" in case
    }
    return f"; models trained on: {', '.join(sorted(places))}" if places else ""
