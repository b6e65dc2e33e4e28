"""Consent: work that is likely to be long is timed and asked about before it is paid."""

from __future__ import annotations

import sys

import typer

import dushapley as ds
from dushapley.cli.options import Means
from dushapley.engine import quote
from dushapley.engine.plan import Plan
from dushapley.errors import InvalidOption
from dushapley.terminal import say

ASK_ABOVE = 120.0
"""Seconds of estimated work above which a person is asked first."""


def agree_on_plan(game: ds.Game, plan: Plan, means: Means) -> None:
    """Say what will run, and ask if it is likely to be long; who agreed before pays no trial."""
    each = 0.0 if means.yes else quote.seconds_each(game)
    seconds = each * plan.budget / quote.workers(means.jobs)
    timed = "" if means.yes else f" of {each:.2g} s, about {clock(seconds)}"
    say(f"{game.n_players} owners, up to {plan.budget:,} evaluations{timed}, by {plan.label}")
    if plan.reason:
        say(plan.reason)
    agree_on_seconds(seconds)


def agree_on_evaluations(game: ds.Game, evaluations: int, means: Means) -> None:
    """Ask before so many evaluations, if they are likely to take long."""
    if evaluations and not means.yes:
        agree_on_seconds(quote.seconds_each(game) * evaluations / quote.workers(means.jobs))


def agree_on_seconds(seconds: float) -> None:
    """Ask before work above `ASK_ABOVE`; without a terminal, --yes is needed."""
    if seconds <= ASK_ABOVE:
        return
    if not sys.stdin.isatty():
        raise InvalidOption(f"About {clock(seconds)} of work; without a terminal, pass --yes.")
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)


def clock(seconds: float) -> str:
    """Seconds, minutes or hours in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
