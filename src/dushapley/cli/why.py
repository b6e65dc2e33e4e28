"""Why everybody's data is worth what it is, and what more would be: measured after the values."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from time import monotonic
from typing import Any

import numpy as np

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.job import Job, one_of
from dushapley.cli.wording import in_options
from dushapley.engine.diagnosis.diagnose import OutOfTime
from dushapley.engine.value import Run
from dushapley.errors import DUShapleyError, Stopped
from dushapley.games.model.catalogue import Choice
from dushapley.report.many import MOST_ROWS
from dushapley.results.diagnosis import Alternative, Diagnosis
from dushapley.settlement.growth import measure_growth
from dushapley.terminal import columns, printable, say, short_name, table

Others = Sequence[tuple[Choice, ds.ModelGame | ds.FoldsGame]]
"""Other models and scores that were named, with their games."""


def is_asked_why(asked: bool, n_owners: int) -> bool:
    """Whether reasons are measured: not of more owners than a page has rows for."""
    if asked and n_owners > MOST_ROWS:
        say(f"no reasons are measured of more than {MOST_ROWS:,} owners: two trainings each")
        return False
    return asked


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


def alternatives(
    job: Job, run: Run, result: ds.Valuation, others: Others, means: o.Means, until: float
) -> tuple[Alternative, ...]:
    """Values under each model and score that was named, the one that pays first.

    One that fails is said aloud and left out: what pays is paid for by now.
    """
    if not others:
        return ()
    one = one_of(run.game)  # type: ignore[arg-type]  # a job's game is one of models
    chosen = job.pairs[0][0] or type(one.model).__name__
    found = [_alternative(chosen, one.scoring, result)]
    for choice, game in others:
        say(f"now the same under {choice.model}, {choice.scoring}")
        left = until - monotonic()
        try:
            valued = ds.value(
                game, run.method, options=run.options, budget=run.budget, seed=run.seed,
                n_jobs=means.jobs, executor=run.executor, address=run.address,
                max_seconds=max(left, 1e-3) if isfinite(left) else None,
                ledger=means.ledger_beside(game, f"{choice.model}-{choice.scoring}"),
            )  # fmt: skip
        except (DUShapleyError, Stopped) as error:
            say(printable(f"It is left out: {in_options(str(error))}"))
            continue
        found.append(_alternative(choice.model, choice.scoring, valued))
    return tuple(found)


def _alternative(model: str, scoring: object, valued: ds.Valuation) -> Alternative:
    values = tuple(valued.values.tolist())
    return Alternative(model, str(scoring), valued.u_empty, valued.u_full, values)


def side_by_side(names: Sequence[str], found: Sequence[Alternative]) -> str:
    """A strip for each owner: its part of all positive values under each model and score."""
    parts = [np.maximum(one.values, 0) / (np.maximum(one.values, 0).sum() or 1) for one in found]
    titles = ("owner", *(f"{one.model}, {one.scoring}" for one in found))
    rows = [
        [short_name(name), *(f"{part[i]:.1%}" for part in parts)] for i, name in enumerate(names)
    ]
    scores = ["everybody's score", *(f"{one.u_full:.4g}" for one in found)]
    head = "Parts of what is shared, under each model and score; the first pays."
    return "\n".join([head, table(titles, [*rows, scores], width=columns())])
