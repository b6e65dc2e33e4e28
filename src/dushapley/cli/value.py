"""`value`, `quote` and `methods`."""

from __future__ import annotations

import json as jsons
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

import typer

from dushapley.cli import options as o
from dushapley.cli.job import Job, say
from dushapley.cli.running import Asked, Means, refuse_workers
from dushapley.cli.verify import Delivery, hashes
from dushapley.errors import InvalidOption, Stopped
from dushapley.terminal import columns, table

if TYPE_CHECKING:
    from dushapley.games import Game

ASK_ABOVE = 120.0
"""Seconds of estimated work above which `value` asks first."""


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
    from dushapley.engine.value import check_wishes

    check_wishes(precision, executor, means.jobs, address, max_seconds)
    command = shlex.join(["dushapley", *(context.obj or ())])
    inputs = hashes(job.files, job.test)  # of what is read now, not of what is there afterwards
    game = job.game()
    wanted.refuse_strangers(game)
    kept = means.kept(game)
    agree(game, asked, means)
    try:
        import dushapley as ds

        result = ds.value(
            game, asked.method, options=asked.options, budget=asked.budget, seed=asked.seed,
            precision=precision, max_seconds=max_seconds, n_jobs=means.jobs, executor=executor,
            address=address, ledger=kept,
        )  # fmt: skip
    except Stopped as stopped:
        say(str(stopped))
        if stopped.valuation is not None:
            wanted.hand_over(stopped.valuation, job, game, inputs, command, json=json)
        code = 1 if stopped.valuation is None or wanted.pot is not None else 0
        raise typer.Exit(code if stopped.out_of_time else 130) from None
    wanted.hand_over(result, job, game, inputs, command, json=json)


def agree(game: Game, asked: Asked, means: Means) -> None:
    """Ask before work that is likely to be long; who agreed before pays for no trial."""
    from dushapley.engine.plan import choose_plan

    plan = choose_plan(game, asked.method, asked.options, asked.budget)
    each = 0.0 if means.yes else seconds_each(game)
    seconds = each * plan.budget / workers(means.jobs)
    timed = "" if means.yes else f" of {each:.2g} s, about {clock(seconds)}"
    say(f"{game.n_players} owners, up to {plan.budget:,} evaluations{timed}, by {plan.label}")
    if plan.reason:
        say(plan.reason)
    agree_on_seconds(seconds, yes=means.yes)


def agree_on(game: Game, evaluations: int, means: Means) -> None:
    """Ask before so many evaluations, if they are likely to take long."""
    if evaluations and not means.yes:
        seconds = seconds_each(game) * evaluations / workers(means.jobs)
        agree_on_seconds(seconds, yes=means.yes)


def workers(jobs: int) -> int:
    """How many workers --jobs asks for."""
    from joblib import cpu_count

    return int(cpu_count()) if jobs == -1 else jobs


def agree_on_seconds(seconds: float, *, yes: bool) -> None:
    """Ask before work above `ASK_ABOVE`; without a terminal, --yes is needed."""
    if yes or seconds <= ASK_ABOVE:
        return
    if not sys.stdin.isatty():
        raise InvalidOption(f"About {clock(seconds)} of work; without a terminal, pass --yes.")
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)


def seconds_each(game: Game) -> float:
    """Mean seconds of three trainings: one owner, half of them, all; after one that warms up.

    Where pools are trained together, so many at a time are timed.
    """
    if game.cheap:
        return 0.0
    import numpy as np

    from dushapley.engine.executors import make_executor

    here = make_executor("local", 1)  # within the game's limits, as the run itself
    largest = np.argsort(-game.sizes, kind="stable")
    seconds = []
    at_once = min(game.block, 32)
    for count in (1, 1, (game.n_players + 1) // 2, game.n_players):
        pools = np.zeros((at_once, game.n_players), dtype=np.bool_)
        pools[:, largest[:count]] = True
        started = time.perf_counter()
        list(here.run(game, [(pools, None)]))
        seconds.append((time.perf_counter() - started) / at_once)
    here.close()
    return float(np.mean(seconds[1:]))


def clock(seconds: float) -> str:
    """Seconds, minutes or hours in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def quote(job: Job, jobs: o.Jobs = 1, json: o.Json = False) -> None:
    """What each method would cost here, from three timed trainings, before paying."""
    refuse_workers(jobs)
    rows = quotes(job.game(), jobs)
    if json:
        print(jsons.dumps(rows, indent=1, ensure_ascii=False))
        return
    shown = [[row["method"], *quote_cells(row)] for row in rows]
    titles = ("method", "evaluations", "about", "what it does")
    print(table(titles, shown, left=(0, 3), indent=0, width=columns()))


def quote_cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """Evaluations, time and summary of a method, or why it is refused."""
    if row["evaluations"] is None:
        return "-", "-", row["refused"]
    return f"{row['evaluations']:,}", clock(row["seconds"]), row["summary"]


def quotes(game: Game, jobs: int) -> list[dict[str, Any]]:
    """One entry per method: its evaluations and seconds at its default budget, or its refusal."""
    import dushapley as ds
    from dushapley.engine.plan import make_plan

    each = seconds_each(game) / workers(jobs)
    rows: list[dict[str, Any]] = []
    for name, summary in ds.methods().items():
        try:
            cost = make_plan(name, game.n_players, game.fractions, None, None).budget
        except ds.DUShapleyError as error:
            rows.append({"method": name, "evaluations": None, "refused": str(error)})
            continue
        rows.append(
            {"method": name, "evaluations": cost, "seconds": cost * each, "summary": summary}
        )
    return rows


def methods(json: o.Json = False) -> None:
    """All methods, one line each."""
    import dushapley as ds

    known = ds.methods()
    if json:
        print(jsons.dumps(known, indent=1, ensure_ascii=False))
        return
    print(table((), known.items(), left=(0, 1), indent=0, width=columns()))
