"""Why everybody's data is worth what it is, and what more would be: measured after the values."""

from __future__ import annotations

from time import monotonic
from typing import Any

import dushapley as ds
from dushapley.cli import options as o
from dushapley.engine.diagnosis.diagnose import OutOfTime
from dushapley.engine.value import Run
from dushapley.results.diagnosis import Diagnosis
from dushapley.settlement.growth import measure_growth
from dushapley.terminal import printable, say


def diagnosed(run: Run, result: ds.Valuation, means: o.Means, until: float) -> Diagnosis | None:
    """The diagnosis of a finished run; None, and said why, where it could not be made.

    The values are paid for by now: whatever happens here, they are handed over.
    """
    if until <= monotonic():
        say("Why was not measured: time is up.")
        return None
    try:
        diagnosis = ds.diagnose(
            run.game, result, n_jobs=means.jobs, executor=run.executor, address=run.address,
            ledger=run.paid, until=until,
        )  # fmt: skip
    except (KeyboardInterrupt, OutOfTime) as stop:
        why = "it was stopped" if isinstance(stop, KeyboardInterrupt) else "time is up"
        say(f"Why was not measured: {why}. Run again to go on; what was measured is kept.")
        return None
    except Exception as error:  # whatever it is, it must not cost anybody the values
        say(printable(f"Why could not be measured: {type(error).__name__}: {error}"))
        return None
    for note in diagnosis.notes:
        say(printable(f"note: {note}"))
    return diagnosis


def grown_rows(game: ds.Game, means: o.Means, seed: int) -> dict[str, Any] | None:
    """What more rows would add to each owner's value; None, and said why, where it failed."""
    try:
        return measure_growth(
            game, seed=seed, n_jobs=means.jobs, ledger=means.usable_ledger_of(game)
        )
    except KeyboardInterrupt:
        say("Growth was not measured: it was stopped. Run again to go on.")
    except ds.errors.DUShapleyError as error:  # the values are paid for, and are handed over
        say(printable(f"Growth could not be measured: {error}"))
    return None
