"""`quote` and `compare`: what each method would cost here, and what each would have said.

Work that is likely to be long is timed and asked about before it is paid.
"""

from __future__ import annotations

import json as jsons
import re
import sys
from collections.abc import Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

import dushapley as ds
from dushapley.arrays import Names
from dushapley.cli import options as o
from dushapley.cli.job import Job, one_of
from dushapley.cli.outputs import Force, planned, refuse_outputs, stamp, write
from dushapley.engine.diagnosis import most_trainings
from dushapley.engine.executors import check_executor
from dushapley.engine.plan import choose_plan, seconds_each, seconds_of, workers
from dushapley.engine.value import Run
from dushapley.errors import BudgetTooSmall, InvalidOption, InvalidValuation, MethodNotApplicable
from dushapley.estimators.registry import AUTO, find
from dushapley.settlement.growth import METHOD as GROWTH
from dushapley.terminal import columns, output, say, table

if TYPE_CHECKING:
    import pandas as pd

USUAL = "gp, stratified-svarm, leverage, permutation, du, random"
PICTURES = (".png", ".svg", ".pdf")
ENDLESS = (
    "This score has no lower end, so that a few pools of few rows may decide the values: "
    "--at-least empty is recommended, which counts a pool worse than no data as no data."
)
ASK_ABOVE = 120.0
"""Seconds of estimated work above which a person is asked first."""


Budgets = Annotated[
    str | None,
    Option("--budgets", help="Evaluations, with commas between.", metavar="N,N,..."),
]
Pilot = Annotated[
    Path | None,
    Option(help="Ledger of a pilot: foresees how precise gp would be.", metavar="FILE"),
]


def quote(
    job: Job,
    jobs: o.Jobs = 1,
    json: o.Json = False,
    budgets: Budgets = None,
    ledger: Pilot = None,
) -> None:
    """What each method would cost here, from a few timed trainings, before paying."""
    check_executor("local", jobs, None)
    job.refuse_several()
    game = job.game()
    usual = o.generous_budget(game, "auto") if budgets is None else None
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
    here, usual = rows.iloc[0], rows.iloc[-1]
    taken, saved = here["evaluations"], here["evaluations"] - usual["evaluations"]
    told = f"auto takes {taken:,} evaluations here."
    if saved <= 0:
        return told
    seconds = clock(here["seconds"] - usual["seconds"])
    return (
        f"{told} --budget {few} (6I, as in Python) would save {saved:,} of them, about {seconds}."
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
        told = o.in_options(row["refused"])  # --json, and asking for the method, give all of it
        return [row["method"], "-", "-", "-", re.split(r"(?<=[.!?]) (?=[A-Z])", told)[0]]
    counts = [f"{row[name]:,}" for name in ("evaluations", "trainings")]
    return [row["method"], *counts, clock(row["seconds"]), row["summary"]]


def agree_on_plan(
    run: Run,
    means: o.Means,
    apart: int,
    growth: bool,
    others: int,
    pairs: int,
) -> None:
    """Say what will run, and ask if it is likely to be long.

    One of its trainings is made first and timed, that of everybody's data, unless --yes was given.
    Without a terminal, a limit of time is agreement enough. `apart` trainings are not of the plan,
    and `others` are models and scores that are valued as well.
    """
    game, plan, max_seconds = run.game, run.plan, run.max_seconds
    each = 0.0 if means.yes else run.trial()
    grown = choose_plan(game, GROWTH, None, None).trainings(game) if growth else 0
    own = seconds_of(plan, game, each)
    seconds = (own * (1 + others) + each * (apart + grown + pairs)) / workers(means.jobs)
    timed = f" of {each:.2g} s, about {clock(seconds)}" if each else ""
    say(f"{game.n_players} owners, up to {plan.budget:,} evaluations{timed}, by {plan.label}")
    if plan.probes:
        say(
            f"{plan.trainings(game):,} trainings at most: {plan.probes} pools are trained under a "
            "second seed, to see whether training is left to chance"
        )
    further = {
        ", apart from the budget: why everybody's data are worth what they are (--no-why leaves "
        "them out)": apart,
        " for --growth": grown,
        " for --pairs": pairs,
    }
    for purpose, trainings in further.items():
        if trainings:
            say(f"and up to {trainings:,} trainings more{purpose}")
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
        agree_on_seconds(seconds_each(game) * evaluations / workers(means.jobs))


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


Methods = Annotated[
    str,
    Option(
        help=f"Methods by name, separated by commas [default: {USUAL}].",
        metavar="NAME,NAME",
        show_default=False,
    ),
]
Grid = Annotated[
    str | None,
    Option(help="Evaluations, separated by commas [default: 6I, I², 2I²].", metavar="N,N"),
]
Seeds = Annotated[int, Option(help="Runs of every method at every budget.", min=1)]
Reference = Annotated[
    Path | None,
    Option(
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="JSON of a valuation to compare with, instead of the exact values (2^I trainings).",
    ),
]
Picture = Annotated[
    Path | None, Option(help="Draw error against budget into this file.", metavar="FILE")
]


def compare(
    job: Job,
    means: o.Means,
    methods: Methods = USUAL,
    budgets: Grid = None,
    seeds: Seeds = 5,
    reference: Reference = None,
    picture: Picture = None,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """Methods side by side at equal budgets; each pays for itself, the ledger only saves time."""
    names = [name.strip() for name in methods.split(",") if name.strip()]
    chosen = o.whole_numbers(budgets)
    for name in names:
        o.refuse_unknown(name)
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise InvalidOption(
            f"--picture is {str(picture)!r}; it needs a name that ends in {', '.join(PICTURES)}."
        )
    refuse_outputs(
        planned(job.identity, picture=picture) + means.outputs,
        [*job.paths, reference],
        force=force,
    )
    job.refuse_several()
    game = job.game()
    n = game.n_players
    grid = list(dict.fromkeys(chosen or [6 * n, n**2, 2 * n**2]))
    refuse_nothing_to_run(game, names, grid)
    known = None if reference is None else valuation_in(reference, game.names)
    ledger = means.usable_ledger_of(game)
    paying = [n for n in names if ledger is None or known is not None or asks_shares(n)]
    trainings = len(paying) * seeds * sum(grid) + (2**n if known is None else 0)
    agree_on_evaluations(game, trainings, means)
    values = None if known is None else known.values
    frame = ds.compare(game, names, grid, range(seeds), values, n_jobs=means.jobs, ledger=ledger)
    output(frame.to_json(orient="records", indent=1) if json else summary(frame))
    if known is not None and (caveat := doubt(known)):
        say(caveat)
    if picture is not None:
        draw(frame, picture, job.identity)


def refuse_nothing_to_run(game: ds.Game, names: Names, budgets: Sequence[int]) -> None:
    """Refuse a comparison in which every method would be refused, before its reference is paid."""
    refusals = []
    for name, budget in product(names, budgets):
        try:
            choose_plan(game, name, None, budget)
        except (MethodNotApplicable, BudgetTooSmall) as refusal:
            refusals.append(str(refusal))
        else:
            return
    if not names:
        raise InvalidOption("--methods names no method; `dushapley methods` lists them.")
    raise InvalidOption(
        f"Nothing would run: every method is refused. {refusals[0]} Choose other --methods or "
        "larger --budgets."
    )


def asks_shares(name: str) -> bool:
    """Whether a method trains on more than whole owners, whose pools the exact values have paid."""
    return name != AUTO and find(name).need(find(name).complete(None)) != "coalitions"


def valuation_in(path: Path, names: tuple[str, ...]) -> ds.Valuation:
    """A stored valuation of the same owners."""
    try:
        stored = ds.Valuation.from_dict(jsons.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise InvalidValuation(
            f"{path} does not hold a valuation ({error}). Write one with `value --json`."
        ) from error
    if stored.owners != names:
        raise InvalidValuation(f"{path} values other owners: {', '.join(stored.owners[:6])}.")
    return stored


def doubt(reference: ds.Valuation) -> str:
    """What the errors of a reference leave open, in a sentence."""
    if reference.std_errors is None:
        known = reference.method_run == "exact"
        return "" if known else f"The reference is {reference.method}, and its error is not known."
    spread = reference.values.var()
    if not spread or not reference.std_errors.any():
        return ""
    part = float((reference.std_errors**2).mean() / spread)
    return (
        f"The reference is {reference.method} and has a relative MSE of about {part:.2g} itself: "
        "errors near that or below it cannot be told from it."
    )


def summary(frame: pd.DataFrame) -> str:
    """One line per method and budget: mean error over seeds, rank correlation, what was asked."""
    ran = frame[frame["seed"].notna()]
    measure = "relative_mse" if ran["relative_mse"].notna().any() else "mse"
    title = measure.replace("_mse", " MSE").replace("mse", "MSE")
    rows = []
    for (method, budget), runs in frame.groupby(["method", "budget"], sort=False, dropna=False):
        if runs["seed"].isna().all():
            cells = ["-", "-", "-", o.in_options(runs["reason"].iloc[0])]
        else:
            asked, rank = runs["n_evaluations"].mean(), runs["rank_correlation"].mean()
            errors = runs[measure].to_numpy()
            spread = f" ±{errors.std(ddof=1) / len(errors) ** 0.5:.1g}" if len(errors) > 1 else ""
            cells = [f"{asked:.0f}", f"{errors.mean():.3g}{spread}", f"{rank:.3f}"]
        rows.append([str(method), f"{budget:.0f}", *cells])
    lines = table(
        ("method", "budget", "asked", title, "rank corr.", ""),
        rows,
        left=(0, 5),
        indent=0,
        width=columns(),
    )
    noise = (
        "±: one standard error of the mean over seeds; methods less than three apart may be equal"
    )
    return "\n".join([lines, MEANING[measure], *[noise] * (ran["seed"].nunique() > 1)])


MEANING = {
    "relative_mse": "relative MSE: 1 = no better than paying everyone the same",
    "mse": "All reference values are equal, so errors are shown as they are.",
}


def draw(frame: pd.DataFrame, picture: Path, job: str) -> None:
    """Error against budget as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    ds.plot_comparison(frame, figure.subplots())
    content = BytesIO()
    figure.savefig(content, format=picture.suffix[1:].lower(), metadata={"Keywords": stamp(job)})
    write(picture, content.getvalue())
