"""Progress on stderr, with the time left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from dushapley.protocol import Estimate
from dushapley.results.uncertainty import half_width
from dushapley.terminal import short_name

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

    def show_leaders(self, so_far: Estimate | None, names: Sequence[str]) -> None:
        """Show the largest values as they settle."""
        if self._bar is None or so_far is None:
            return
        best = sorted(range(len(names)), key=lambda i: -so_far.values[i])[:3]
        errors = so_far.std_errors
        leaders = [
            f"{short_name(names[i], 16)} {so_far.values[i]:.3g}"
            + ("" if errors is None else f"±{half_width(errors[i]):.1g}")
            for i in best
        ]
        from rich.markup import escape  # an owner's name is not markup

        self._bar.update(self._task, description=escape(", ".join(leaders)))

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
