"""Why everybody's data is worth what it is: measured after the values, apart from their budget."""

from __future__ import annotations

from time import monotonic

import dushapley as ds
from dushapley.cli import options as o
from dushapley.engine.diagnosis.diagnose import OutOfTime
from dushapley.engine.value import Run
from dushapley.results.diagnosis import Diagnosis
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
