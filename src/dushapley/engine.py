"""The engine: drives an estimator, pays for its questions, keeps what was paid.

Every method gets from here, for nothing: an honest budget, no question paid twice, a ledger that
survives a kill, workers, progress, clean stops.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from numbers import Real
from random import SystemRandom
from time import monotonic
from typing import Any

import numpy as np

from dushapley.conversation import (
    AskTell,
    Plan,
    all_coalitions,
    check_budget,
    check_seed,
    make_plan,
)
from dushapley.errorbars import Begin, Transcript, error_bars
from dushapley.errors import (
    InvalidOption,
    LedgerError,
    LedgerRefused,
    MethodNotApplicable,
    Stopped,
)
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO, coalition_methods, find
from dushapley.executors import Executor, OutOfTime, check_executor, make_executor
from dushapley.executors.base import one_blas_thread, seconds_left
from dushapley.games.base import Game, Outcome, as_game
from dushapley.games.checks import refuse_non_finite
from dushapley.ledger import Ledger
from dushapley.progress import Progress
from dushapley.questions import Ask, Estimate, FloatArray
from dushapley.trail import trail
from dushapley.valuation import Valuation

CHEAP_BATCH, CHEAP_CELLS, PAID_BATCH = 2**16, 2**21, 64
"""Pools asked at a time: many where they cost nothing (but no more than fit in memory)."""
MOST_CHEAP, MOST_PAID = 2**24, 2**12
"""Coalitions that `exact` enumerates without being given a budget."""
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
    _check_precision(precision)
    check_executor(executor, n_jobs, address)
    until = _until(max_seconds)
    _refuse_ledger(played, ledger)
    if formula is not None:
        return _from_formula(played, plan, formula, budget, check_seed(seed))
    begin = partial(
        AskTell,
        plan,
        played.n_players,
        sizes=played.sizes,
        names=played.names,
        fractions=played.fractions,
        seed=seed,
        batch=_batch(played),
    )
    talk = begin()
    with ExitStack() as stack:
        start = partial(make_executor, executor, n_jobs, address, until)
        payer = _payer(played, start, ledger, stack)
        bar = stack.enter_context(
            Progress(plan.budget, show=False if played.cheap and progress is None else progress)
        )
        stack.enter_context(_one_blas_thread(played))
        try:
            _drive(talk, payer, bar, precision, until)
        except (KeyboardInterrupt, OutOfTime) as why:
            late = isinstance(why, OutOfTime)
            raise _stopped(talk, payer, played, budget, ledger, begin, late=late) from None
    found = replace(_valuation(talk, payer, played, budget, begin), precision=precision)
    return found if precision is None else _judged(found, talk.estimate, precision)


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
    spread, widest = float(np.ptp(estimate.values)), 1.96 * float(estimate.std_errors.max())
    return 0 < widest <= precision * spread  # 0: nothing varied yet, so nothing is known


class Payer:
    """Answers questions of a game that costs nothing: just asks it."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.n_computed = 0
        self.n_distinct: int | None = None
        self.failures: Counter[str] = Counter()

    def error_bars(self, talk: AskTell, begin: Begin) -> dict[str, Any]:
        """Errors by source beside the method's own: none are known of a game that costs nothing."""
        return {}

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        """Utilities of the pools asked for."""
        values = self.game(ask.queries, ask.draws)
        self.n_computed += len(values)
        bar.advance(len(values))
        return values

    def details(self, final: Estimate) -> dict[str, Any]:
        """Results of the method, and what a payer noted on the way."""
        return dict(final.details)


class LedgerPayer(Payer):
    """Answers questions that cost something: each different pool is paid at most once."""

    def __init__(self, game: Game, executor: Executor, ledger: Ledger | None) -> None:
        super().__init__(game)
        self.executor = executor
        self.ledger = ledger
        self.known: dict[bytes, Outcome] = {}
        self.number: dict[bytes, int] = {}
        self.shared = False  # whether another run is seen to write into the same ledger
        self.transcript = Transcript()

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        queries, draws = self.game.check(ask.queries, ask.draws)
        keys = self.game.keys(queries, draws)
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        unknown = self._look_up(dict.fromkeys(keys))
        bar.advance(len(keys) - len(unknown))
        blocks = self._blocks(unknown)
        rows = [[first[key] for key in block] for block in blocks]
        work = [(queries[r], None if draws is None else draws[r]) for r in rows]

        def paid_elsewhere(position: int) -> bool:
            return self._paid_elsewhere(blocks[position])

        for position, outcomes in self.executor.run(self.game, work, paid_elsewhere):
            self._keep(blocks[position], work[position][0], outcomes)
            bar.advance(len(outcomes))
        left_out = [key for key in unknown if key not in self.known]
        self._look_up(left_out)
        bar.advance(len(left_out))
        self.transcript.add(ask, [self.number.setdefault(key, len(self.number)) for key in keys])
        return np.array([self.known[key].value for key in keys], dtype=np.float64)

    def details(self, final: Estimate) -> dict[str, Any]:
        values = np.array([self.known[key].value for key in self.number])
        with _one_blas_thread(self.game):
            notes = trail(self.game.sizes, self.transcript, values, final)
        return {**final.details, "trail": notes}

    def error_bars(self, talk: AskTell, begin: Begin) -> dict[str, Any]:
        assert talk.estimate is not None
        return error_bars(
            begin,
            self.transcript,
            [self.known[key] for key in self.number],
            talk.estimate,
            repeats=getattr(self.game, "repeats", 1),
            enumerated=talk.plan.method.name == "exact" or self.game.n_players == 1,
        )

    def _look_up(self, keys: Iterable[bytes]) -> list[bytes]:
        """Learn what the ledger knows of these pools; those that it does not know."""
        unknown = [key for key in keys if key not in self.known]
        if self.ledger is None:
            return unknown
        for key, stored in self.ledger.read(unknown).items():
            outcome = self.game.recall(stored)
            if outcome is not None:
                self._know(key, outcome)
        return [key for key in unknown if key not in self.known]

    def _blocks(self, keys: list[bytes]) -> list[list[bytes]]:
        """Pools in blocks; in random order where another run would else pay in step with us."""
        size = self.game.block
        blocks = [keys[start : start + size] for start in range(0, len(keys), size)]
        if self.shared:
            SystemRandom().shuffle(blocks)
        return blocks

    def _paid_elsewhere(self, block: list[bytes]) -> bool:
        """Whether another run has paid these pools meanwhile; executors ask from any thread."""
        if self.ledger is None:
            return False
        try:
            found = self.ledger.read(block)
        except LedgerError:
            return False  # it will be told, from the right thread, when the block is written
        known = [key for key in found if self.game.recall(found[key]) is not None]
        self.shared |= bool(known)
        return len(known) == len(block)

    def _know(self, key: bytes, outcome: Outcome) -> None:
        self.known[key] = outcome
        self.n_distinct = len(self.known)
        if outcome.failure is not None:
            self.failures[outcome.failure] += 1

    def _keep(self, keys: list[bytes], queries: Any, outcomes: list[Outcome]) -> None:
        values = np.array([outcome.value for outcome in outcomes], dtype=np.float64)
        refuse_non_finite(queries, values, self.game.names)
        paid = list(zip(keys, outcomes, strict=True))
        if self.ledger is not None:
            self.shared |= self.ledger.write(paid) < len(paid)
        for key, outcome in paid:
            self._know(key, outcome)
        self.n_computed += len(paid)


def _payer(
    game: Game,
    start: Callable[[], Executor],
    ledger: str | os.PathLike[str] | None,
    stack: ExitStack,
) -> Payer:
    _refuse_ledger(game, ledger)
    if game.cheap:
        return Payer(game)
    kept = None
    if ledger is not None:
        assert game.context is not None
        kept = stack.enter_context(Ledger(ledger, game.context))
    executor = start()
    stack.callback(executor.close)
    return LedgerPayer(game, executor, kept)


def _refuse_ledger(game: Game, ledger: str | os.PathLike[str] | None) -> None:
    if ledger is None:
        return
    if game.cheap:
        raise LedgerRefused(
            f"{type(game).__name__} costs nothing to evaluate, so there is nothing to keep. "
            "Leave ledger= out."
        )
    if game.context is None:
        raise LedgerRefused(
            "This game is made from a bare function, whose content cannot be compared, so a "
            "ledger could mix up two games. Give the game a fingerprint= that names its content."
        )


def choose_plan(
    game: Game, method: str | Method, options: Mapping[str, Any] | None, budget: int | None
) -> tuple[Plan, Estimate | None]:
    """What will run, or the game's own formula for it; refusals happen here, before any payment."""
    if method == AUTO and not options:
        formula = game.closed_form("exact")
        if formula is not None:
            reason = "auto: the game has a formula for its exact values."
            return Plan(find("exact"), {}, 0, f"{AUTO} → exact", reason), formula
    elif method != AUTO:
        chosen = find(method)
        complete = chosen.complete(options)
        # options other than the defaults are wishes that a formula cannot know
        formula = game.closed_form(chosen.name) if complete == chosen.complete(None) else None
        if formula is not None:
            check_budget(budget)
            return Plan(chosen, complete, 0, chosen.name), formula
        if chosen.name == "exact" and budget is None:
            _refuse_endless(game)
    return make_plan(method, game.n_players, game.fractions, options, budget), None


def _refuse_endless(game: Game) -> None:
    power, most = game.n_players, MOST_CHEAP if game.cheap else MOST_PAID
    if 2**power > most:
        raise MethodNotApplicable(
            f"exact would ask all {all_coalitions(power)} coalitions; without a budget it stops "
            f"at {most:,} for a game of this kind. Pass budget=2**{power} if you mean it, or "
            f"choose among: {', '.join(name for name in coalition_methods() if name != 'exact')}."
        )


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
        else "Nothing is kept without a ledger; pass ledger= to be able to go on."
    )
    partial = None if talk.estimate is None else _valuation(talk, payer, game, budget, begin)
    talk.stop()
    state = "the estimate so far is in .valuation" if partial else "there is no estimate yet"
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


def _check_precision(precision: object) -> None:
    if precision is None:
        return
    if isinstance(precision, bool) or not (
        isinstance(precision, Real) and 0 < float(precision) < 1e9
    ):
        raise InvalidOption(
            f"precision is {precision!r}; it is a positive part of the spread of values, say 0.05."
        )


def _until(max_seconds: object) -> float:
    """When the run must end, by a clock that nobody can set back."""
    if max_seconds is None:
        return float("inf")
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, (int, float)):
        raise InvalidOption(f"max_seconds is {max_seconds!r}; it is a number of seconds.")
    if not max_seconds > 0:
        raise InvalidOption(f"max_seconds is {max_seconds!r}; it must be positive.")
    return monotonic() + max_seconds


def _one_blas_thread(game: Game) -> Any:
    """Results of BLAS depend on its threads, and workers have one each: so has the parent.

    Looking for BLAS libraries takes milliseconds. Games that cost nothing use numpy's alone, which
    is looked up once; others may have loaded more of them since.
    """
    return _numpy_blas().limit(limits=1) if game.cheap else one_blas_thread()


@cache
def _numpy_blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
