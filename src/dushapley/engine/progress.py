"""How far a run is: shown with the time left, and whether it may end before its budget."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from time import monotonic
from typing import Any, Self

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.protocol import Estimate
from dushapley.results.uncertainty import (
    half_width,
    is_within,
    reliable_errors,
    with_errors,
)
from dushapley.terminal import clock, in_notebook, short_name, terminal_bar

FRAME = 0.1
"""Seconds for which leaders are shown at least."""
Stop = Callable[[Estimate], bool]
"""Whether a run may end with this estimate, whose errors are those of all sources."""


class Progress:
    """A progress bar of evaluations; silent unless wanted.

    Parameters
    ----------
    total
        Evaluations planned, at most.
    show
        True or False, or None: shown in a notebook, and when stderr is a terminal.
    """

    def __init__(self, total: int, *, show: bool | None = None) -> None:
        self.total = total
        self.show = in_notebook() or sys.stderr.isatty() if show is None else show
        self._bar: Any = None
        self._task: Any = None
        self._cell: Any = None  # of a notebook, which shows the bar instead of a terminal
        self.shown = 0.0  # when leaders were shown last
        self._began = self._drawn = monotonic()
        self._answered = self._computed = 0

    def __enter__(self) -> Self:
        if self.show:
            self._began = monotonic()
            self._bar = terminal_bar(disable=in_notebook())
            self._task = self._bar.add_task("", total=self.total, left=clock(None))
            self._bar.start()
            if in_notebook():
                display = import_module("IPython.display").display
                self._cell = display(self._words(), raw=True, display_id=True)
        return self

    def advance(self, count: int, *, found: bool = False) -> None:
        """Count evaluations that have been answered: `found` ones took no time worth speaking of.

        The time left is that of the rest at the pace of those computed; nothing is known of it
        while all were found.
        """
        self._answered += count
        self._computed += 0 if found else count
        if self._bar is not None:
            pace = (monotonic() - self._began) / self._computed if self._computed else None
            left = None if pace is None else pace * max(0, self.total - self._answered)
            self._update(completed=self._answered, left=clock(left))

    def show_leaders(self, so_far: Estimate, names: Sequence[str], watch: Watch) -> None:
        """Show the largest values as they settle, with their total error."""
        if self._bar is None:
            return
        self.shown = monotonic()
        best = sorted(range(len(names)), key=lambda i: -so_far.values[i])[:3]
        total = watch.total(so_far)
        leaders = [
            f"{short_name(names[i], 16)} {so_far.values[i]:.3g}"
            + ("± unknown" if total is None else f"±{half_width(total[i]):.1g}")
            for i in best
        ]
        from rich.markup import escape

        quoted = escape if self._cell is None else html.escape  # no name is markup
        self._update(description=quoted(", ".join(leaders)))

    def _update(self, **said: Any) -> None:
        """Show what is new; below a cell a few times a second."""
        self._bar.update(self._task, **said)
        if self._cell is not None and monotonic() - self._drawn > FRAME:
            self._draw()

    def _draw(self) -> None:
        self._drawn = monotonic()
        self._cell.update(self._words(), raw=True)

    def _words(self) -> dict[str, str]:
        """HTML that takes the place of what a cell said before; rich's own needs ipywidgets."""
        task = self._bar.tasks[0]
        gone = clock(monotonic() - self._began)
        text = (
            f"{task.completed:,}/{self.total:,} evaluations, {gone} gone, {task.fields['left']} "
            f"left {task.description}"
        )
        bar = f"<progress value='{task.completed}' max='{self.total}'></progress> "
        return {"text/html": bar + text, "text/plain": html.unescape(text)}

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._cell is not None:
            self._draw()


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
    precision, stop
        What ends the run, if anything, as `value` takes it.
    ends_at
        Evaluations at which a run that is computed again ended; they alone decide.
    errors
        Standard errors by source of an estimate; none where there is only sampling.
    looked
        Evaluations that had been answered at the last look.
    rest, unknown
        Variances of training and test set, and which of the two is unknown, at the last look.
    joint
        Covariance of the errors between owners at the last look, where it is known.
    """

    precision: float | None = None
    stop: Stop | None = None
    ends_at: int | None = None
    errors: Callable[[Estimate], Mapping[str, Any]] = field(default=lambda _: {}, repr=False)
    looked: int = 0
    rest: FloatArray | float = 0.0
    unknown: tuple[str, ...] = ()
    joint: FloatArray | None = None

    @property
    def may_end(self) -> bool:
        """Whether the run may end before its budget."""
        return (self.precision, self.stop, self.ends_at) != (None, None, None)

    def is_time(self, answered: int) -> bool:
        """Whether the run may end after so many evaluations, of all the counts after the last."""
        if self.ends_at is not None:
            return answered >= self.ends_at
        return self.may_end and answered >= AFTER_ALL * self.looked

    def is_over(self, answered: int, estimate: Estimate) -> bool:
        """Whether the run has what it was to find, or can never find it."""
        looked = self.look(answered, estimate)
        if self.ends_at is not None:
            return self.is_time(answered)
        return looked and (self._is_found(estimate) or self._is_hopeless(estimate))

    def look(self, answered: int, estimate: Estimate) -> bool:
        """Look at the total, if it is time; whether it was."""
        soon = self.is_time(answered) and self._is_found(estimate)
        growth = AFTER_ALL if soon else AGAIN
        if estimate.std_errors is None or answered < growth * self.looked:
            return False
        errors = self.errors(estimate)
        parts = {name: errors[name] for name in ("training", "test set") if errors}
        self.unknown = tuple(name for name, part in parts.items() if part is None)
        self.rest = sum((np.square(p) for p in parts.values() if p is not None), np.zeros(1))
        joint = errors.get("covariance") if errors else estimate.covariance
        self.joint = None if joint is None else np.asarray(joint, dtype=np.float64)
        self.looked = answered
        return True

    def total(self, estimate: Estimate) -> FloatArray | None:
        """Standard errors of all sources, as far as they have been looked at."""
        if estimate.std_errors is None or self.unknown:
            return None
        return np.sqrt(estimate.std_errors**2 + self.rest)

    def _is_found(self, estimate: Estimate) -> bool:
        """Whether what was wanted is known, by errors that can be relied on."""
        total = self.total(estimate)
        joint = None if total is None or self.joint is None else with_errors(self.joint, total)
        whole = replace(estimate, std_errors=total, covariance=joint)
        if self.precision is not None:
            return is_within(whole, self.precision)
        if self.stop is None or reliable_errors(whole) is None:
            return False
        return bool(self.stop(whole))

    def _is_hopeless(self, estimate: Estimate) -> bool:
        """Whether the rest alone exceeds the precision wanted, or is unknown.

        An early estimate tells the rest roughly: then it has to exceed the wish twice.
        """
        if self.unknown or self.precision is None or estimate.std_errors is None:
            return bool(self.unknown)
        rest = float(np.sqrt(np.max(self.rest)))
        limit = self.precision * float(np.ptp(estimate.values))
        sure = rest >= float(estimate.std_errors.max()) or half_width(rest) > 2 * limit
        return half_width(rest) > limit and sure
