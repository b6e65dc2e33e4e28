"""How far a run is: shown on stderr with the time left, and judged by the precision wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.protocol import Estimate
from dushapley.results.uncertainty import half_width

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """A progress bar of evaluations; silent unless wanted.

    Parameters
    ----------
    total
        Evaluations planned, at most.
    show
        True or False, or None: shown when stderr is a terminal.
    """

    def __init__(self, total: int, *, show: bool | None = None) -> None:
        self.total = total
        self.show = sys.stderr.isatty() if show is None else show
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if self.show:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                "{task.description}",
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                "evaluations,",
                progress.TimeElapsedColumn(),
                "gone,",
                progress.TimeRemainingColumn(),
                "left",
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("valuing", total=self.total)
            self._bar.start()
        return self

    def advance(self, count: int) -> None:
        """Count evaluations that have been answered."""
        if self._bar is not None:
            self._bar.advance(self._task, count)

    def show_leaders(self, so_far: Estimate, names: Sequence[str], watch: Watch) -> None:
        """Show the largest values as they settle, with their total error."""
        if self._bar is None:
            return
        best = sorted(range(len(names)), key=lambda i: -so_far.values[i])[:3]
        total = watch.total(so_far)
        leaders = [
            f"{names[i][:16]} {so_far.values[i]:.3g}"
            + ("± unknown" if total is None else f"±{half_width(total[i]):.1g}")
            for i in best
        ]
        from rich.markup import escape  # an owner's name is not markup

        self._bar.update(self._task, description=escape(", ".join(leaders)))

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


ENOUGH_REPLICATES = 30
"""Below this many replicates a standard error is too uncertain to stop a run."""
AGAIN, AFTER_ALL = 2.0, 1.25
"""Growth in evaluations after which the total is looked at again; the lesser, where what was seen
last would end the run."""


@dataclass
class Watch:
    """The total error of a run under way, looked at after fixed counts of evaluations.

    A method tells its own error with every estimate. What training and test set add to it is
    carried through from all that was answered, which takes a while, and changes little as a run
    goes on.

    Attributes
    ----------
    wish
        Half-width of the widest 95% interval that is wanted, as a part of the spread of the values.
    errors
        Standard errors by source of an estimate; none where there is only sampling.
    looked
        Evaluations that had been answered at the last look.
    rest, unknown
        Variances of training and test set, and which of the two is unknown, at the last look.
    """

    wish: float | None
    errors: Callable[[Estimate], Mapping[str, Any]]
    looked: int = 0
    rest: FloatArray | float = 0.0
    unknown: tuple[str, ...] = ()

    def look(self, answered: int, estimate: Estimate) -> bool:
        """Look at the total, if it is time; whether it was."""
        growth = AFTER_ALL if self.is_reached(estimate) else AGAIN
        if estimate.std_errors is None or answered < growth * self.looked:
            return False
        errors = self.errors(estimate)
        parts = {name: errors[name] for name in ("training", "test set") if errors}
        self.unknown = tuple(name for name, part in parts.items() if part is None)
        self.rest = sum((np.square(p) for p in parts.values() if p is not None), np.zeros(1))
        self.looked = answered
        return True

    def total(self, estimate: Estimate) -> FloatArray | None:
        """Standard errors of all sources, as far as they have been looked at."""
        if estimate.std_errors is None or self.unknown:
            return None
        return np.sqrt(estimate.std_errors**2 + self.rest)

    def is_reached(self, estimate: Estimate) -> bool:
        """Whether every 95% half-width is within the wish."""
        total = self.total(estimate)
        return self.wish is not None and is_precise(estimate, total, self.wish)

    def is_hopeless(self, estimate: Estimate) -> bool:
        """Whether no evaluation could fulfil the wish: the rest alone exceeds it, or is unknown.

        An early estimate tells the rest roughly: then it has to exceed the wish twice.
        """
        if self.wish is None or estimate.std_errors is None:
            return False
        if self.unknown:
            return True
        limit = self.wish * float(np.ptp(estimate.values))
        rest = float(np.sqrt(np.max(self.rest)))
        sure = rest >= float(estimate.std_errors.max()) or half_width(rest) > 2 * limit
        return half_width(rest) > limit and sure


def is_precise(estimate: Estimate, total: FloatArray | None, wish: float) -> bool:
    """Whether the widest 95% half-width is within this part of the spread of the values."""
    few = estimate.replicates is not None and estimate.replicates < ENOUGH_REPLICATES
    if total is None or few:
        return False
    widest = half_width(float(total.max()))
    return 0 < widest <= wish * float(np.ptp(estimate.values))  # 0: nothing varied yet
