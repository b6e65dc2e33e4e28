"""`value`: what each owner's data is worth."""

from __future__ import annotations

import shlex

import typer

from dushapley.cli import options as o
from dushapley.cli.consent import agree_on_plan
from dushapley.cli.delivery import Delivery
from dushapley.cli.job import Asked, Job, Means, say
from dushapley.errors import Stopped


def value(
    context: typer.Context,
    job: Job,
    asked: Asked,
    means: Means,
    wanted: Delivery,
    precision: o.Precision = None,
    max_seconds: o.MaxSeconds = None,
    executor: o.Executor = "local",
    address: o.Address = None,
    json: o.Json = False,
) -> None:
    """What each owner's data is worth."""
    from dushapley.engine.value import Run, check_wishes

    check_wishes(precision, executor, means.jobs, address, max_seconds)
    game = job.game()
    wanted.refuse_strangers(game)
    command = shlex.join(["dushapley", *(context.obj or ())])
    with Run(
        game, asked.method, options=asked.options, budget=asked.budget, seed=asked.seed,
        precision=precision, max_seconds=max_seconds, n_jobs=means.jobs, executor=executor,
        address=address, ledger=means.ledger_of(game),
    ) as run:  # fmt: skip
        agree_on_plan(game, run.plan, means)
        try:
            result = run.pay()
        except Stopped as stopped:
            say(str(stopped))
            if stopped.valuation is not None:
                wanted.hand_over(stopped.valuation, job, game, command, json=json)
            code = 1 if stopped.valuation is None or wanted.pot is not None else 0
            raise typer.Exit(code if stopped.out_of_time else 130) from None
    wanted.hand_over(result, job, game, command, json=json)
