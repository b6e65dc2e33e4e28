"""`quote`: what each method would cost here, before paying.

Work that is likely to be long is timed and asked about before it is paid.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.job import Job, one_of
from dushapley.engine import plan as prices
from dushapley.engine.diagnosis import most_trainings
from dushapley.engine.executors import check_executor
from dushapley.engine.plan import choose_plan, generous_budget
from dushapley.engine.value import Run
from dushapley.errors import InvalidOption
from dushapley.settlement.growth import METHOD as GROWTH
from dushapley.terminal import columns, output, say, table

if TYPE_CHECKING:
    import pandas as pd

ENDLESS = (
    "This score has no lower end, so that a few pools of few rows may decide the values: "
    "--at-least empty is recommended, which counts a pool worse than no data as no data."
)
ASK_ABOVE = 120.0
"""Seconds of estimated work above which a person is asked first."""


def quote(
    job: Job,
    jobs: o.Jobs = 1,
    json: o.Json = False,
    budgets: Annotated[
        str | None,
        Option("--budgets", help="Evaluations, with commas between.", metavar="N,N,..."),
    ] = None,
    ledger: Annotated[
        Path | None,
        Option(help="Ledger of a pilot: foresees how precise gp would be.", metavar="FILE"),
    ] = None,
) -> None:
    """What each method would cost here, from a few timed trainings, before paying."""
    check_executor("local", jobs, None)
    job.refuse_several()
    game = job.game()
    usual = generous_budget(game, "auto") if budgets is None else None
    frame = ds.quote(game, o.whole_numbers(budgets) or [usual, None], n_jobs=jobs, ledger=ledger)
    if budgets is None:
        frame = frame[frame["budget"].isna() | frame["method"].isin(["auto", "gp"])]
        frame = frame.drop_duplicates(["method", "evaluations"])
    if usual is not None:
        say(saving(frame, 6 * game.n_players))
    if one_of(game).is_endless and one_of(game).at_least is None:
        say(ENDLESS)
    if (why := most_trainings(game)) > 0:
        say(f"With --pot or --report, why adds up to {why:,} trainings (--no-why leaves them out).")
    output(frame.to_json(orient="records", indent=1, double_precision=15) if json else shown(frame))


def saving(frame: pd.DataFrame, few: int) -> str:
    """What a run with Python's default budget would save."""
    rows = frame[frame["method"] == "auto"]
    more, less = rows.iloc[0], rows.iloc[-1]
    if more["evaluations"] <= less["evaluations"]:
        return f"auto takes {more['evaluations']:,} evaluations here."
    seconds = clock(more["seconds"] - less["seconds"])
    return (
        f"auto takes {more['evaluations']:,} evaluations here. --budget {few} (6I, as in Python) "
        f"would save {more['evaluations'] - less['evaluations']:,} of them, about {seconds}."
    )


def shown(frame: pd.DataFrame) -> str:
    """One line per method: evaluations, time and summary, or why it is refused.

    With the precision where a pilot foresees it.
    """
    titles = ["method", "evaluations", "trainings", "about", "what it does"]
    rows = [cells(row) for _, row in frame.iterrows()]
    if frame["precision"].notna().any():
        titles.insert(4, "precision")
        for row, part in zip(rows, frame["precision"], strict=True):
            row.insert(4, "-" if part != part else f"± {part:.1%}")
    return table(tuple(titles), rows, left=(0, len(titles) - 1), indent=0, width=columns())


def cells(row: Any) -> list[str]:
    """One method of a quote."""
    if isinstance(row["refused"], str):
        return [row["method"], "-", "-", "-", first_sentence(o.in_options(row["refused"]))]
    counts = [f"{row[name]:,}" for name in ("evaluations", "trainings")]
    return [row["method"], *counts, clock(row["seconds"]), row["summary"]]


def first_sentence(text: str) -> str:
    """The first sentence of a refusal: --json, and asking for the method, give all of it."""
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text, maxsplit=1)[0]


def agree_on_plan(
    run: Run,
    means: o.Means,
    apart: int = 0,
    growth: bool = False,
    others: int = 0,
    pairs: int = 0,
) -> None:
    """Say what will run, and ask if it is likely to be long.

    One of its trainings is made first and timed, that of everybody's data, unless --yes was given.
    Without a terminal, a limit of time is agreement enough. `apart` trainings are not of the plan,
    and `others` are models and scores that are valued as well.
    """
    game, plan, max_seconds = run.game, run.plan, run.max_seconds
    each = 0.0 if means.yes else run.trial()
    grown = choose_plan(game, GROWTH, None, None).trainings(game) if growth else 0
    own = prices.seconds_of(plan, game, each)
    seconds = (own * (1 + others) + each * (apart + grown + pairs)) / prices.workers(means.jobs)
    timed = f" of {each:.2g} s, about {clock(seconds)}" if each else ""
    say(f"{game.n_players} owners, up to {plan.budget:,} evaluations{timed}, by {plan.label}")
    if plan.probes:
        say(
            f"{plan.trainings(game):,} trainings at most: {plan.probes} pools are trained under a "
            "second seed, to see whether training is left to chance"
        )
    if apart:
        say(
            f"and up to {apart:,} trainings more, apart from the budget: why everybody's data are "
            "worth what they are (--no-why leaves them out)"
        )
    if grown:
        say(f"and up to {grown:,} trainings more for --growth")
    if pairs:
        say(f"and up to {pairs:,} trainings more for --pairs")
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
        if not game.cheap:
            say("Four trainings are timed first, beside the others; --yes leaves them out.")
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
