"""`value`: what each owner's data is worth."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from time import monotonic
from typing import Annotated, Any, TypeVar

from typer import Context, Exit, Option

import dushapley as ds
from dushapley.arrays import AnyDict, Names
from dushapley.cli import options as o
from dushapley.cli.delivery import Delivery, precision_of
from dushapley.cli.job import Job, Others, one_of
from dushapley.cli.quote import agree_on_plan
from dushapley.engine.diagnosis import most_trainings
from dushapley.engine.executors.base import OutOfTime
from dushapley.engine.value import Run, check_wishes
from dushapley.errors import DUShapleyError, Stopped
from dushapley.report.page import MOST_ROWS
from dushapley.report.summary import models_table
from dushapley.results.diagnosis import Alternative, Diagnosis
from dushapley.settlement.growth import measure_growth
from dushapley.settlement.interactions import Interactions, found_by, method_of_pairs
from dushapley.terminal import columns, output, printable, say, short_name, table

T = TypeVar("T")
ASKS_PAIRS = ("exact", "gp")
"""Methods that ask the very pools that interactions are made of."""


Precision = Annotated[
    str | None,
    Option(
        help="Stop when 95% intervals (of the total error) are ± this part of the spread of "
        "the values, say 0.05; or of payments ± this much of the pot, say '500 EUR'.",
        metavar="P",
    ),
]
LearnFromLedger = Annotated[
    bool,
    Option(
        "--learn-from-ledger",
        help="With gp: begin with all that the ledger holds of this game, by any method.",
    ),
]
MaxSeconds = Annotated[
    float | None, Option(help="Stop after so many seconds, with the estimate so far.")
]
Executor = Annotated[str, Option(help="Where the work runs: local, dask or ray.")]
Address = Annotated[
    str | None,
    Option(help="Of the Dask or Ray cluster, like tcp://host:8786.", metavar="A"),
]


def value(
    context: Context,
    job: Job,
    asked: o.Asked,
    means: o.Means,
    wanted: Delivery,
    precision: Precision = None,
    learn_from_ledger: LearnFromLedger = False,
    max_seconds: MaxSeconds = None,
    executor: Executor = "local",
    address: Address = None,
    json: o.Json = False,
) -> None:
    """What each owner's data is worth.

    Say, of a folder with one table per owner, tested on rows of nobody, with money to share:

        dushapley value owners --by-file --target y --test test.csv --pot 100000
    """
    part, amount = precision_of(precision, wanted.currency if wanted.pot else None)
    check_wishes(part, executor, means.jobs, address, max_seconds)
    wanted.refuse_outputs(job, means)
    game = job.game()
    others = job.others()
    wanted.refuse_strangers(job, game)
    command = shlex.join(["dushapley", *(context.obj or ())])
    with Run(
        game, asked.method, options=asked.options, budget=asked.budget_of(game), seed=asked.seed,
        precision=part, stop=None if amount is None else wanted.known_within(amount, game),
        max_seconds=max_seconds, n_jobs=means.jobs, executor=executor, address=address,
        ledger=means.ledger_of(game), learn_from_ledger=learn_from_ledger,
    ) as run:  # fmt: skip
        told = wanted.pot is not None or wanted.report is not None  # there is somebody to be told
        asks_why = is_asked_why(wanted.why and told, game.n_players)
        apart = most_trainings(game) if asks_why else 0
        # the ledger has them all: these methods ask the very pools that interactions are made of
        kept = run.plan.method.name in ASKS_PAIRS and not means.no_ledger
        pairs = run.plan.budget if wanted.pairs and not kept else 0
        agree_on_plan(run, means, apart, wanted.growth, len(others), pairs)
        until = monotonic() + (max_seconds or float("inf"))
        try:
            result = run.pay()
        except Stopped as stopped:
            say(o.in_options(str(stopped)))
            if stopped.valuation is not None:
                wanted.hand_over(stopped.valuation, job, game, command, json=json)
            code = 1 if stopped.valuation is None or wanted.pot is not None else 0
            raise Exit(code if stopped.out_of_time else 130) from None
        why = afterwards("Why", diagnosed, run, result, means, until) if asks_why else None
        beside = alternatives(job, run, result, others, means, until)
    why = why and replace(why, alternatives=beside)
    grown = afterwards("Growth", grown_rows, game, means, asked.seed) if wanted.growth else None
    found = afterwards("What pairs add", measured_pairs, run, result) if wanted.pairs else None
    wanted.hand_over(
        result, job, game, command, json=json, diagnosis=why, growth=grown, interactions=found
    )
    further = output if not json else say
    if found is not None:
        further(repr(found))
    if beside:
        further(side_by_side(game.names, beside))


def is_asked_why(asked: bool, n_owners: int) -> bool:
    """Whether reasons are measured: not of more owners than a page has rows for."""
    too_many = n_owners > MOST_ROWS
    if asked and too_many:
        say(f"no reasons are measured of more than {MOST_ROWS:,} owners: two trainings each")
    return asked and not too_many


def afterwards(what: str, measure: Callable[..., T], *known: Any) -> T | None:
    """What is measured after the values; None, and said why, where it could not be.

    The values are paid for by now: whatever happens here, they are handed over.
    """
    try:
        return measure(*known)
    except (KeyboardInterrupt, OutOfTime) as stop:
        why = "it was stopped" if isinstance(stop, KeyboardInterrupt) else "time is up"
        say(f"{what} was not measured: {why}. Run again to go on; what was measured is kept.")
    except Exception as error:
        say(printable(f"{what} could not be measured: {type(error).__name__}: {error}"))
    return None


def diagnosed(run: Run, result: ds.Valuation, means: o.Means, until: float) -> Diagnosis:
    """The diagnosis of a finished run."""
    if until <= monotonic():
        raise OutOfTime
    diagnosis = ds.diagnose(
        run.game, result, n_jobs=means.jobs, executor=run.executor, address=run.address,
        ledger=run.paid, until=until,
    )  # fmt: skip
    for note in diagnosis.notes:
        say(printable(f"note: {note}"))
    return diagnosis


def grown_rows(game: ds.Game, means: o.Means, seed: int) -> AnyDict:
    """What more rows would add to each owner's value."""
    return measure_growth(game, seed=seed, n_jobs=means.jobs, ledger=means.usable_ledger_of(game))


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
    valued = [(chosen, one.scoring, result)]
    for choice, game in others:
        say(f"now the same under {choice.model}, {choice.scoring}")
        left = until - monotonic()
        try:
            under = ds.value(
                game, run.method, options=run.options, budget=run.budget, seed=run.seed,
                n_jobs=means.jobs, executor=run.executor, address=run.address,
                max_seconds=max(left, 1e-3) if isfinite(left) else None,
                ledger=means.ledger_beside(game, f"{choice.model}-{choice.scoring}"),
            )  # fmt: skip
        except (DUShapleyError, Stopped) as error:
            say(printable(f"It is left out: {o.in_options(str(error))}"))
            continue
        valued.append((choice.model, choice.scoring, under))
    return tuple(
        Alternative(model, str(scoring), v.u_empty, v.u_full, tuple(v.values.tolist()))
        for model, scoring, v in valued
    )


def side_by_side(names: Names, found: Sequence[Alternative]) -> str:
    """Each owner's part of all positive values under each model and score, as a table."""
    models = models_table(names, found)
    rows = [[short_name(row["name"]), *row["parts"]] for row in models["rows"]]
    head = (
        "Parts of what is shared, under each model and score; the first pays. "
        "Beside its name stands everybody's score."
    )
    return "\n".join([head, table(("owner", *models["titles"]), rows, width=columns())])


def measured_pairs(run: Run, result: ds.Valuation) -> Interactions:
    """Interactions, from the pools of a run where its method asked them all."""
    game, plan = run.game, run.plan
    again = plan.method.name in ASKS_PAIRS and plan.formula is None
    learned = 0 if run.known is None else len(run.known)
    asked = result.n_evaluations - learned if again else plan.budget
    budget = None if game.cheap else max(asked, 2 * game.n_players + 2)
    with Run(
        game, method_of_pairs(game, plan.method.name if again else "auto", budget), budget=budget,
        seed=run.seed, n_jobs=run.n_jobs, executor=run.executor, address=run.address,
        ledger=run.ledger, known=run.known,
    ) as pairs:  # fmt: skip
        found = found_by(pairs.pay())
    new = tuple(note for note in found.valuation.notes if note not in result.notes)
    return replace(found, valuation=replace(found.valuation, notes=new))
