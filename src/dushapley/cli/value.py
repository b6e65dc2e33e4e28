"""`value`: what each owner's data is worth."""

from __future__ import annotations

import shlex
from dataclasses import replace
from time import monotonic
from typing import Annotated

from typer import Context, Exit, Option

from dushapley.cli import options as o
from dushapley.cli.delivery import Delivery, precision_of
from dushapley.cli.job import Job
from dushapley.cli.pairs import measured_pairs, pairs_cost
from dushapley.cli.quote import agree_on_plan
from dushapley.cli.why import (
    alternatives,
    diagnosed,
    grown_rows,
    is_asked_why,
    side_by_side,
)
from dushapley.cli.wording import in_options
from dushapley.engine.diagnosis import most_trainings
from dushapley.engine.value import Run, check_wishes
from dushapley.errors import Stopped
from dushapley.terminal import output, say


def value(
    context: Context,
    job: Job,
    asked: o.Asked,
    means: o.Means,
    wanted: Delivery,
    precision: Annotated[
        str | None,
        Option(
            help="Stop when 95% intervals (of the total error) are ± this part of the spread of "
            "the values, say 0.05; or of payments ± this much of the pot, say '500 EUR'.",
            metavar="P",
        ),
    ] = None,
    learn_from_ledger: Annotated[
        bool,
        Option(
            "--learn-from-ledger",
            help="With gp: begin with all that the ledger holds of this game, by any method.",
        ),
    ] = False,
    max_seconds: Annotated[
        float | None, Option(help="Stop after so many seconds, with the estimate so far.")
    ] = None,
    executor: Annotated[str, Option(help="Where the work runs: local, dask or ray.")] = "local",
    address: Annotated[
        str | None,
        Option(help="Of the Dask or Ray cluster, like tcp://host:8786.", metavar="A"),
    ] = None,
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
        asks_why = is_asked_why(wanted.asks_why, game.n_players)
        apart = most_trainings(game) if asks_why else 0
        pairs = pairs_cost(run.plan, means) if wanted.pairs else 0
        agree_on_plan(run, means, apart, wanted.growth, len(others), pairs)
        until = monotonic() + (max_seconds or float("inf"))
        try:
            result = run.pay()
        except Stopped as stopped:
            say(in_options(str(stopped)))
            if stopped.valuation is not None:
                wanted.hand_over(stopped.valuation, job, game, command, json=json)
            code = 1 if stopped.valuation is None or wanted.pot is not None else 0
            raise Exit(code if stopped.out_of_time else 130) from None
        why = diagnosed(run, result, means, until) if asks_why else None
        beside = alternatives(job, run, result, others, means, until)
    why = why and replace(why, alternatives=beside)
    grown = grown_rows(game, means, asked.seed) if wanted.growth else None
    found = measured_pairs(run, result) if wanted.pairs else None
    wanted.hand_over(
        result, job, game, command, json=json, diagnosis=why, growth=grown, interactions=found
    )
    further = output if not json else say
    if found is not None:
        further(repr(found))
    if beside:
        further(side_by_side(game.names, beside))
