"""What an experiment is: one figure or table of the paper, run again and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Profile = Literal["quick", "full"]
"""quick: small enough for every test run. full: the paper's own sizes, or the nearest we have."""

Finding = Literal["holds", "holds weaker", "does not hold", "cannot be told"]
Result = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """One claim of the paper and what became of it.

    Attributes
    ----------
    claim
        The claim, in our words, with its place.
    finding
        "holds", "holds weaker" (true in part, or by less than printed), "does not hold", or
        "cannot be told" (the profile or the data do not suffice).
    numbers
        What was found, in numbers.
    """

    claim: str
    finding: Finding
    numbers: str

    def __str__(self) -> str:
        return f"{self.finding.upper()}: {self.claim} ({self.numbers})"


@dataclass(frozen=True)
class Sheet:
    """A table for the page: published beside found."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The sheet as a Markdown table under its caption."""
        lines = [
            " | ".join(("", *self.header, "")).strip(),
            "|" + " --- |" * len(self.header),
            *(" | ".join(("", *row, "")).strip() for row in self.rows),
        ]
        return f"**{self.caption}**\n\n" + "\n".join(lines)


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper.

    Attributes
    ----------
    name
        What `dushapley reproduce` calls it.
    title, place
        What it shows, and where it stands in the paper.
    run
        ``run(profile, seed) -> dict`` of plain numbers, lists and texts: all that drawing and
        judging need.
    claims
        Verdicts on a result.
    sheets
        Tables of a result, published beside found.
    draw
        The figure in the paper's layout, or None where the paper has a table.
    settings
        What the paper leaves open and what was chosen.
    published
        The paper's numbers, as data.
    needs
        Data sets it reads.
    """

    name: str
    title: str
    place: str
    run: Callable[[Profile, int], Result]
    claims: Callable[[Result], list[Verdict]]
    sheets: Callable[[Result], list[Sheet]]
    draw: Callable[[Result], Figure] | None = None
    settings: tuple[str, ...] = ()
    published: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def judge(holds: int, of: int, *, enough: float = 1.0, some: float = 0.5) -> Finding:
    """Finding from how many of several cases hold: all of them, most of them, or fewer."""
    if of == 0:
        return "cannot be told"
    if holds >= enough * of:
        return "holds"
    return "holds weaker" if holds > some * of else "does not hold"


def qualified(verdict: Verdict, absent: Sequence[str]) -> Verdict:
    """The same, naming the games that were not run; what they would say is not known."""
    if not absent:
        return verdict
    return replace(verdict, numbers=f"{verdict.numbers}; not run: {', '.join(absent)}")


def short(number: float | None) -> str:
    """A number in two significant figures, a dash where there is none."""
    return "–" if number is None else f"{number:.2g}"
