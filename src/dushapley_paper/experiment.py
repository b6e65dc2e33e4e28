"""What an experiment is: one figure or table of the paper, run again and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, log10, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.estimators.calibration import student
from dushapley.results.uncertainty import half_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any  # matplotlib is loaded only to draw

Profile = Literal["quick", "full"]
"""quick: small enough for every test run. full: the paper's own sizes, or the nearest we have."""

Finding = Literal["holds", "holds weaker", "does not hold", "cannot be told"]
Result = dict[str, Any]


@dataclass(frozen=True)
class ClaimVerdict:
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
        return f"**{self.caption}**\n\n{markdown_table(self.header, self.rows)}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under a header, in Markdown."""
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@dataclass(frozen=True)
class Dependence:
    """Something the paper leaves open, one way to settle it, and what is found then.

    Attributes
    ----------
    left_open
        What is not stated.
    tried
        How it was settled this time.
    found
        What becomes of the claim.
    """

    left_open: str
    tried: str
    found: tuple[str, ...]


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
    needs
        Data sets it reads.
    dependence
        What is left open, tried in other ways: how much the verdicts depend on it.
    """

    name: str
    title: str
    place: str
    run: Callable[[Profile, int], Result]
    claims: Callable[[Result], list[ClaimVerdict]]
    sheets: Callable[[Result], list[Sheet]]
    draw: Callable[[Result], Figure] | None = None
    settings: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    dependence: Callable[[Result], list[Dependence]] | None = None


Outcome = Literal["won", "level", "lost"]
"""Of one case: the claim is borne out, noise leaves it open, or the contrary is found."""


def standing(gap: float, *noise: tuple[float, int]) -> Outcome:
    """What a gap in our favour (negative: against us) says, given the noise in it.

    Parameters
    ----------
    gap
        Difference of averages.
    noise
        (standard error, repetitions it comes from) of every average that has noise. The gap counts
        if it is outside what 95% of noise alone keeps to, by Student's t with Welch's degrees of
        freedom; a single repetition tells nothing.

    Examples
    --------
    >>> standing(3.0, (1.0, 100)), standing(3.0, (1.0, 3)), standing(-3.0), standing(3.0, (0.0, 1))
    ('won', 'level', 'lost', 'level')
    """
    if any(count < 2 for _, count in noise):
        return "level"
    variance = sum(se**2 for se, _ in noise)
    if variance > 0:
        freedom = variance**2 / sum(se**4 / (count - 1) for se, count in noise)
        if abs(gap) <= half_width(float(student(freedom))) * sqrt(variance):
            return "level"
    return "level" if gap == 0 else "won" if gap > 0 else "lost"


def standard_error(sample: Sequence[float] | FloatArray) -> float:
    """Of the mean of independent numbers; 0 where a single one tells nothing."""
    return float(np.std(sample, ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else 0.0


def judge(won: int, of: int, level: int = 0) -> Finding:
    """Finding from the cases that bear a claim out: all, more than half, or fewer.

    Cases that noise leaves open (`level`) bear nothing out; where they could make a majority,
    nothing can be told.

    Examples
    --------
    >>> judge(3, 3), judge(2, 3), judge(1, 3), judge(1, 3, level=1)
    ('holds', 'holds weaker', 'does not hold', 'cannot be told')
    """
    if of == 0:
        return "cannot be told"
    if won == of:
        return "holds"
    if 2 * won > of:
        return "holds weaker"
    return "cannot be told" if 2 * (won + level) > of else "does not hold"


def judge_every(won: int, lost: int, of: int) -> Finding:
    """Finding on a claim about all instances: one clear counterexample refutes it.

    Examples
    --------
    >>> judge_every(3, 0, 3), judge_every(35, 1, 36), judge_every(2, 0, 3), judge_every(0, 0, 0)
    ('holds', 'does not hold', 'cannot be told', 'cannot be told')
    """
    if lost:
        return "does not hold"
    return "holds" if won == of > 0 else "cannot be told"


def qualified(verdict: ClaimVerdict, absent: Sequence[str]) -> ClaimVerdict:
    """The same, naming the games that were not run; what they would say is not known."""
    if not absent:
        return verdict
    return replace(verdict, numbers=f"{verdict.numbers}; not run: {', '.join(absent)}")


def short(number: float | None) -> str:
    """A number in two significant figures, a dash where there is none.

    Examples
    --------
    >>> short(0.0123), short(5_678.0), short(1.234e-7), short(4.4e9), short(None)
    ('0.012', '5,700', '1.2e-7', '4.4e9', '–')
    """
    if number is None:
        return "–"
    rounded = float(f"{number:.2g}")
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e5:
        places = 0 if rounded == 0 else max(0, 1 - floor(log10(abs(rounded))))
        plain = f"{rounded:,.{places}f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits, exponent = f"{rounded:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"
