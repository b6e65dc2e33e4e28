"""The engine: drives an estimator, pays for its questions, keeps what was paid.

Every method gets from here, for nothing: an honest budget, no question paid twice, a ledger that
survives a kill, workers, progress, clean stops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import Any

import numpy as np

from dushapley.engine.asktell import AskTell
from dushapley.engine.evaluator import Payer, blas_limit, make_payer, refuse_ledger
from dushapley.engine.executors import OutOfTime, check_executor, make_executor
from dushapley.engine.executors.base import seconds_left
from dushapley.engine.plan import Plan, choose_plan
from dushapley.engine.progress import Progress
from dushapley.errors import (
    InvalidOption,
    Stopped,
)
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO
from dushapley.games.base import Game, as_game
from dushapley.protocol import Estimate
from dushapley.results.propagation import Begin
from dushapley.results.uncertainty import half_width
from dushapley.results.valuation import Valuation
from dushapley.validation import check_seed, is_number

CHEAP_BATCH, CHEAP_CELLS, PAID_BATCH = 2**16, 2**21, 64
"""Pools asked at a time: many where they cost nothing (but no more than fit in memory)."""
ENOUGH_REPLICATES = 30
"""Below this many replicates a standard error is too uncertain to stop a run."""


def value(
    game: Any,
    method: str | Method = AUTO,
    *,
    options: Mapping[str, Any] | None = None,
    budget: int | None = None,
    precision: float | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    executor: str = "local",
    address: Any = None,
    max_seconds: float | None = None,
    ledger: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    n_players: int | None = None,
) -> Valuation:
    """Value every owner of a game.

    Parameters
    ----------
    game
        A game, or a callable on (m, I) boolean matrices that knows (or is given) `n_players`.
    method
        One of `dushapley.methods()`, or a `Method` of your own. "auto": the game's exact formula
        if it has one, all coalitions if they fit the budget, else the best method there is; the
        result says which.
    options
        The method's own options.
    budget
        Most pools that may be asked, ∅ and the grand coalition included, whether computed now,
        found in the ledger or repeated; so what was saved never changes the plan. None: what the
        method needs by default (`exact` 2^I, `du` one replicate, `auto` and `gp` 6I, sampling 2I²).
    precision
        Stop once the half-width of every 95% interval is at most this part of the spread of the
        values (largest minus smallest); a run that ends before that says so.
    seed
        Drives the estimator. Same inputs and seed, same bits.
    n_jobs
        How many workers on this machine; a cluster that is already there has its own.
    executor
        Where they are: "local", "dask" or "ray". Never changes a bit.
    address
        Of a Dask or Ray cluster, or a connected Dask client.
    max_seconds
        Stop after so many seconds. A training in flight is finished first where it runs in this
        process (n_jobs=1), and given up where it runs in workers.
    ledger
        File that keeps every paid evaluation; a run that was killed goes on from it.
    progress
        Show progress on stderr; None: if it is a terminal.
    n_players
        Number of owners, for a bare function that does not say.

    Returns
    -------
    Valuation

    Raises
    ------
    Stopped
        On Ctrl-C or after `max_seconds`, with the valuation so far in `.valuation`.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], w=lambda n: n / (n + 100))
    >>> ds.value(game, "exact").values.round(4).tolist()
    [0.1921, 0.2873, 0.3956]
    """
    played = as_game(game, n_players)
    plan, formula = choose_plan(played, method, options, budget)
    check_wishes(precision, executor, n_jobs, address, max_seconds)
    refuse_ledger(played, ledger)
    if formula is not None:
        return _from_formula(played, plan, formula, budget, check_seed(seed))
    until = float("inf") if max_seconds is None else monotonic() + max_seconds
    begin = _beginning(played, plan, seed)
    talk = begin()
    with ExitStack() as stack:
        start = partial(make_executor, executor, n_jobs, address, until)
        payer = make_payer(played, start, ledger, stack)
        bar = stack.enter_context(
            Progress(plan.budget, show=False if played.cheap and progress is None else progress)
        )
        stack.enter_context(blas_limit(played))
        try:
            _drive(talk, payer, bar, precision, until)
        except (KeyboardInterrupt, OutOfTime) as why:
            late = isinstance(why, OutOfTime)
            raise _stopped(talk, payer, played, budget, ledger, begin, late=late) from None
    found = replace(_valuation(talk, payer, played, budget, begin), precision=precision)
    return found if precision is None else _judged(found, talk.estimate, precision)


def check_wishes(
    precision: object, executor: object, n_jobs: object, address: object, max_seconds: object
) -> None:
    """Refuse what no run could be made of, before anything is paid."""
    check_executor(executor, n_jobs, address)
    if precision is not None and not is_number(precision, above=0, most=1e9):
        raise InvalidOption(
            f"precision is {precision!r}; it is a positive part of the spread of values, say 0.05."
        )
    if max_seconds is not None and not is_number(max_seconds, above=0):
        raise InvalidOption(f"max_seconds is {max_seconds!r}; it is a positive number of seconds.")


def _beginning(game: Game, plan: Plan, seed: int) -> Callable[[], AskTell]:
    """Starts the conversation with the method, as often as it is called."""
    return partial(
        AskTell,
        plan,
        game.n_players,
        sizes=game.sizes,
        names=game.names,
        fractions=game.fractions,
        seed=seed,
        batch=_batch(game),
    )


def _judged(found: Valuation, estimate: Estimate | None, precision: float) -> Valuation:
    """Say so when the wanted precision was not reached."""
    if found.method_run == "exact" or precise_enough(estimate, precision):
        return found
    note = (
        f"The wanted precision of {precision:g} was not reached within {found.n_evaluations:,} "
        "evaluations; raise the budget"
        + ("." if found.std_errors is not None else " or choose a method with standard errors.")
    )
    return replace(found, notes=(*found.notes, note))


def _drive(
    talk: AskTell, payer: Payer, bar: Progress, precision: float | None, until: float
) -> None:
    while (ask := talk.ask()) is not None:
        seconds_left(until)
        if precision is not None and precise_enough(ask.so_far, precision):
            talk.stop()
            talk.finished = True  # the user's wish is the plan
            return
        bar.settle(ask.so_far, talk.names)
        talk.tell(payer.answer(ask, bar))


def precise_enough(estimate: Estimate | None, precision: float) -> bool:
    """Whether every 95% half-width is within `precision` of the spread of the values."""
    if estimate is None or estimate.std_errors is None:
        return False
    if estimate.replicates is not None and estimate.replicates < ENOUGH_REPLICATES:
        return False
    spread, widest = float(np.ptp(estimate.values)), half_width(float(estimate.std_errors.max()))
    return 0 < widest <= precision * spread  # 0: nothing varied yet, so nothing is known


def _from_formula(
    game: Game, plan: Plan, estimate: Estimate, budget: int | None, seed: int
) -> Valuation:
    ends = np.zeros((2, game.n_players), dtype=np.bool_)
    ends[1] = True
    empty, full = (float(u) for u in game(ends))
    return _build(game, plan, estimate, budget, seed, (0, 0, 0), (empty, full), {}, complete=True)


def _valuation(
    talk: AskTell, payer: Payer, game: Game, budget: int | None, begin: Begin
) -> Valuation:
    assert talk.estimate is not None
    counts = (talk.n_asked, payer.n_distinct, payer.n_computed)
    return _build(
        game,
        talk.plan,
        replace(talk.estimate, details=payer.details(talk.estimate)),
        budget,
        talk.seed,
        counts,
        (talk.empty, talk.full),
        payer.failures,
        complete=talk.finished,
        errors=payer.error_bars(talk, begin),
    )


def _build(
    game: Game,
    plan: Plan,
    estimate: Estimate,
    budget: int | None,
    seed: int,
    counts: tuple[int, int | None, int],
    ends: tuple[float, float],
    failures: Mapping[str, int],
    *,
    complete: bool,
    errors: Mapping[str, Any] | None = None,
) -> Valuation:
    reason = (plan.reason,) if plan.reason else ()
    return Valuation(
        owners=game.names,
        sizes=game.sizes,
        values=estimate.values,
        std_errors=estimate.std_errors,
        covariance=estimate.covariance,
        method=plan.label,
        n_evaluations=counts[0],
        n_distinct=counts[1],
        n_computed=counts[2],
        u_empty=ends[0],
        u_full=ends[1],
        seed=seed,
        budget=budget,
        options=dict(plan.options),
        biased=plan.method.is_biased(plan.options),
        complete=complete,
        fingerprint=game.fingerprint,
        guarantee=estimate.guarantee,
        failures=dict(sorted(failures.items())),  # workers finish in any order
        errors=errors or {},
        notes=(*reason, *estimate.notes, *game.notes),
        details=estimate.details,
        version=version("dushapley"),
    )


def _stopped(
    talk: AskTell,
    payer: Payer,
    game: Game,
    budget: int | None,
    ledger: str | os.PathLike[str] | None,
    begin: Begin,
    *,
    late: bool,
) -> Stopped:
    kept = (
        f"All of it is in the ledger {os.fspath(ledger)}; run the same again to go on."
        if ledger is not None
        else "Nothing is kept without a ledger (ledger=, --ledger FILE)."
    )
    partial = None if talk.estimate is None else _valuation(talk, payer, game, budget, begin)
    talk.stop()
    state = "there is an estimate so far (.valuation)" if partial else "there is no estimate yet"
    why = "Time is up" if late else "Stopped"
    return Stopped(
        f"{why} after {payer.n_computed:,} computed evaluations; {state}. {kept}",
        partial,
        out_of_time=late,
    )


def _batch(game: Game) -> int:
    """How many pools to ask at a time; a matter of memory, and fixed by the game."""
    if not game.cheap:
        return PAID_BATCH
    return max(1, min(CHEAP_BATCH, CHEAP_CELLS // game.n_players))
