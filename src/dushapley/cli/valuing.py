"""`value`, `quote` and `methods`."""

from __future__ import annotations

import json as jsons
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dushapley.cli import options as o
from dushapley.cli.job import Job, default_ledger, method_options, say
from dushapley.cli.settling import Delivery, hashes
from dushapley.errors import InvalidOption, Stopped

if TYPE_CHECKING:
    from dushapley.games import Game

ASK_ABOVE = 120.0
"""Seconds of estimated work above which `value` asks first."""


def value(
    context: typer.Context,
    files: o.Files,
    target: o.Target,
    owner: o.Owner = None,
    by_file: o.ByFile = False,
    test: o.Test = None,
    holdout: o.Holdout = None,
    cv: o.Cv = None,
    task: o.Task = "auto",
    model: o.Model = None,
    scoring: o.Scoring = None,
    empty: o.Empty = "constant",
    on_failure: o.OnFailure = "raise",
    repeats: o.Repeats = 1,
    timeout: o.Timeout = None,
    memory: o.Memory = None,
    encode: o.Encode = "pooled",
    model_seed: o.ModelSeed = 0,
    method: o.Method = "auto",
    option: o.MethodOption = None,
    budget: o.Budget = None,
    precision: o.Precision = None,
    max_seconds: o.MaxSeconds = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 1,
    executor: o.Executor = "local",
    address: o.Address = None,
    ledger: o.Ledger = None,
    no_ledger: o.NoLedger = False,
    pot: o.Pot = None,
    currency: o.Currency = "",
    negative: o.Negative = "clip",
    floor: o.Floor = None,
    settlement: o.Settlement = Path("settlement.json"),
    report: o.Report = None,
    report_for: o.ReportFor = None,
    json: o.Json = False,
    yes: o.Yes = False,
    debug: o.Debug = False,
) -> None:
    """What each owner's data is worth."""
    del debug  # read by main
    job = Job(
        files, target, owner, by_file, test, holdout, cv, task, model, scoring, empty, on_failure,
        repeats, timeout, memory, encode, model_seed,
    )  # fmt: skip
    chosen = method_options(option or [])
    refuse_unknown(method)
    refuse_impossible(precision, max_seconds, executor, jobs, address)
    wanted = Delivery(
        pot, currency, negative, floor, settlement, report, report_for or (),
        shlex.join(["dushapley", *(context.obj or ())]),
    )  # fmt: skip
    inputs = hashes(job.files, job.test)  # of what is read now, not of what is there afterwards
    game = job.game()
    wanted.refuse_strangers(game)
    agree(game, method, chosen, budget, jobs, yes=yes)
    kept = None if no_ledger else ledger or kept_at(game)
    try:
        import dushapley as ds

        result = ds.value(
            game, method, options=chosen, budget=budget, precision=precision, seed=seed,
            n_jobs=jobs, executor=executor, address=address, max_seconds=max_seconds, ledger=kept,
        )  # fmt: skip
    except Stopped as stopped:
        say(str(stopped))
        if stopped.valuation is not None:
            wanted.hand_over(stopped.valuation, job, game, inputs, json=json)
        code = 0 if stopped.valuation is not None else 1
        raise typer.Exit(code if stopped.out_of_time else 130) from None
    wanted.hand_over(result, job, game, inputs, json=json)


def refuse_unknown(method: str) -> None:
    """Refuse a misspelt method before any file is read."""
    from dushapley.estimators.registry import AUTO, find

    if method != AUTO:
        find(method)


def refuse_impossible(
    precision: float | None, max_seconds: float | None, executor: str, jobs: int, address: Any
) -> None:
    """Refuse a run that could not begin, before any file is read or training timed."""
    from dushapley.engine import check_precision, end_of_run
    from dushapley.executors import check_executor

    check_precision(precision)
    end_of_run(max_seconds)
    check_executor(executor, jobs, address)


def kept_at(game: Game) -> Path | None:
    """The ledger of this game, told to the person."""
    if game.cheap:
        say("no ledger: this model is made of sums, and an evaluation costs nothing")
        return None
    if game.context is None:
        say("no ledger: the model's content cannot be compared between runs")
        return None
    path = default_ledger(game.context)
    say(f"ledger: {path} (what is paid is kept; run again to go on)")
    return path


def agree(
    game: Game, method: str, options: Any, budget: int | None, jobs: int, *, yes: bool
) -> None:
    """Ask before work that is likely to be long; who agreed before pays for no trial."""
    from dushapley.engine import choose_plan

    plan, _ = choose_plan(game, method, options, budget)
    each = 0.0 if yes else seconds_each(game)
    seconds = each * plan.budget / max(jobs, 1)
    timed = "" if yes else f" of {each:.2g} s, about {clock(seconds)}"
    say(f"{game.n_players} owners, up to {plan.budget:,} evaluations{timed}, by {plan.label}")
    if plan.reason:
        say(plan.reason)
    agree_on_seconds(seconds, yes=yes)


def agree_on(game: Game, evaluations: int, jobs: int, *, yes: bool) -> None:
    """Ask before so many evaluations, if they are likely to take long."""
    if evaluations and not yes:
        agree_on_seconds(seconds_each(game) * evaluations / max(jobs, 1), yes=yes)


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

    from dushapley.executors import make_executor

    here = make_executor("local", 1)  # within the game's limits, as the run itself
    largest = np.argsort(-game.sizes, kind="stable")
    seconds = []
    at_once = min(game.block, 32)
    for count in (1, 1, (game.n_players + 1) // 2, game.n_players):
        pools = np.zeros((at_once, game.n_players), dtype=np.bool_)
        pools[:, largest[:count]] = True
        started = time.perf_counter()
        list(here.run(game, [(pools, None)], lambda _: False))
        seconds.append((time.perf_counter() - started) / at_once)
    here.close()
    return float(np.mean(seconds[1:]))


def clock(seconds: float) -> str:
    """Seconds, minutes or hours in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def quote(
    files: o.Files,
    target: o.Target,
    owner: o.Owner = None,
    by_file: o.ByFile = False,
    test: o.Test = None,
    holdout: o.Holdout = None,
    cv: o.Cv = None,
    task: o.Task = "auto",
    model: o.Model = None,
    scoring: o.Scoring = None,
    empty: o.Empty = "constant",
    repeats: o.Repeats = 1,
    encode: o.Encode = "pooled",
    jobs: o.Jobs = 1,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """What each method would cost here, from three timed trainings, before paying."""
    del debug  # read by main
    job = Job(
        files, target, owner, by_file, test, holdout, cv, task, model, scoring, empty, "empty",
        repeats, None, None, encode,
    )  # fmt: skip
    rows = quotes(job.game(), jobs)
    if json:
        print(jsons.dumps(rows, indent=1, ensure_ascii=False))
        return
    print(f"{'method':<18} {'evaluations':>12} {'about':>10}  what it does")
    for row in rows:
        if row["evaluations"] is None:
            print(f"{row['method']:<18} {'-':>12} {'-':>10}  {row['refused']}")
        else:
            about = clock(row["seconds"])
            print(f"{row['method']:<18} {row['evaluations']:>12,} {about:>10}  {row['summary']}")


def quotes(game: Game, jobs: int) -> list[dict[str, Any]]:
    """One entry per method: its evaluations and seconds at its default budget, or its refusal."""
    import dushapley as ds
    from dushapley.conversation import make_plan

    each = seconds_each(game) / max(jobs, 1)
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
    for name, summary in known.items():
        print(f"{name:<18} {summary}")
