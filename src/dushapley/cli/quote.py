"""`quote`: what each method would cost here, before paying.

Work that is likely to be long is timed and asked about before it is paid.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.job import Job, one_of
from dushapley.cli.wording import in_options
from dushapley.engine import quote as prices
from dushapley.engine.executors import check_executor
from dushapley.engine.plan import Plan
from dushapley.errors import InvalidOption
from dushapley.settlement.growth import growth_cost
from dushapley.terminal import columns, output, say, table

if TYPE_CHECKING:
    import pandas as pd

ENDLESS = (
    "This score has no lower end, so that a few pools of few rows may decide the values: "
    "--at-least empty is recommended, which counts a pool worse than no data as no data."
)
ASK_ABOVE = 120.0
"""Seconds of estimated work above which a person is asked first."""


def quote(job: Job, jobs: o.Jobs = 1, json: o.Json = False) -> None:
    """What each method would cost here, from a few timed trainings, before paying."""
    check_executor("local", jobs, None)
    job.refuse_several()
    game = job.game()
    frame = ds.quote(game, n_jobs=jobs)
    if one_of(game).is_endless and game.at_least is None:
        say(ENDLESS)
    output(frame.to_json(orient="records", indent=1, double_precision=15) if json else shown(frame))


def shown(frame: pd.DataFrame) -> str:
    """One line per method: evaluations, time and summary, or why it is refused."""
    titles = ("method", "evaluations", "about", "what it does")
    rows = [cells(row) for _, row in frame.iterrows()]
    return table(titles, rows, left=(0, 3), indent=0, width=columns())


def cells(row: Any) -> list[str]:
    """One method of a quote."""
    if isinstance(row["refused"], str):
        return [row["method"], "-", "-", in_options(row["refused"])]
    return [row["method"], f"{row['evaluations']:,}", clock(row["seconds"]), row["summary"]]


def agree_on_plan(
    game: ds.Game,
    plan: Plan,
    means: o.Means,
    max_seconds: float | None = None,
    apart: int = 0,
    growth: bool = False,
    others: int = 0,
) -> None:
    """Say what will run, and ask if it is likely to be long; who agreed before pays no trial.

    Without a terminal, a limit of time is agreement enough. `apart` trainings are not of the plan,
    and `others` are models and scores that are valued as well.
    """
    each = 0.0 if means.yes else prices.seconds_each(game)
    grown = growth_cost(game.n_players) if growth else 0
    trainings = (plan.budget + game.n_tried) * (1 + others) + apart + grown
    seconds = each * trainings / prices.workers(means.jobs)
    timed = "" if means.yes else f" of {each:.2g} s, about {clock(seconds)}"
    say(f"{game.n_players} owners, up to {plan.budget:,} evaluations{timed}, by {plan.label}")
    if game.is_tried:
        say(
            f"and up to {game.n_tried} trainings more, all but one of small pools: with another "
            "seed, to see if chance matters"
        )
    if apart:
        say(
            f"and up to {apart:,} trainings more, apart from the budget: why everybody's data are "
            "worth what they are (--no-why leaves them out)"
        )
    if grown:
        say(f"and up to {grown:,} trainings more for --growth")
    if others:
        ways = "way" if others == 1 else "ways"
        say(f"and as many again under each of {others} other {ways} to value: models and scores")
    if plan.reason:
        say(plan.reason)
    if max_seconds is None or sys.stdin.isatty():
        agree_on_seconds(min(seconds, max_seconds or seconds))


def agree_on_evaluations(game: ds.Game, evaluations: int, means: o.Means) -> None:
    """Ask before so many evaluations, if they are likely to take long."""
    if evaluations and not means.yes:
        agree_on_seconds(prices.seconds_each(game) * evaluations / prices.workers(means.jobs))


def agree_on_seconds(seconds: float) -> None:
    """Ask before work above `ASK_ABOVE`; without a terminal, --yes is needed."""
    if seconds <= ASK_ABOVE:
        return
    if not sys.stdin.isatty():
        raise InvalidOption(
            f"About {clock(seconds)} of work, but no terminal to ask at: pass --yes to agree, or "
            "--max-seconds to limit it where the command has that."
        )
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)


def clock(seconds: float) -> str:
    """Seconds, minutes or hours in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
