"""The engine: drives an estimator, pays for its questions, keeps what was paid.

Every method gets from here, for nothing: an honest budget, no question paid twice, a ledger that
survives a kill, workers, progress, clean stops.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field, replace
from time import monotonic, perf_counter
from typing import Any, Self

from dushapley.arrays import BoolArray, FloatArray
from dushapley.engine.dialogue import ROUND, Dialogue, foreseen
from dushapley.engine.error_bars import Begin, formula_errors
from dushapley.engine.evaluator import (
    BULK_BLOCK,
    BULK_ROUND,
    LEAST_BULK,
    Evaluator,
    is_bulk,
)
from dushapley.engine.executors import check_executor, check_limits, make_executor
from dushapley.engine.executors.base import OutOfTime, seconds_left
from dushapley.engine.executors.worker import limits_of
from dushapley.engine.ledger import Ledger, paid_pools, refuse_nameless
from dushapley.engine.many import CentresDialogue, CentresDriver, with_marginals
from dushapley.engine.plan import Plan, choose_plan, seconds_each
from dushapley.engine.progress import FRAME, Progress, Stop, Watch
from dushapley.errors import InvalidOption, ProtocolViolated, Stopped
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO
from dushapley.games.base import Game
from dushapley.games.callables import as_game
from dushapley.games.many.marginals import Marginals
from dushapley.hashing import digest
from dushapley.processes import one_blas_thread
from dushapley.protocol import Ask, Estimate, ends
from dushapley.results.remarks import judged, remarked
from dushapley.results.valuation import Valuation
from dushapley.terminal import json_text
from dushapley.validation import check_seed, is_number, pools_between, refuse, spoken

CHEAP_BATCH, CHEAP_CELLS = 2**16, 2**21
"""Pools of a round where they cost nothing: many, but no more than fit in memory."""
Answering = Evaluator | CentresDriver
IGNORED = "Evaluations of this game cost nothing, so nothing was kept in the ledger."


@spoken
def value(
    game: Any,
    method: str | Method = AUTO,
    *,
    options: Mapping[str, Any] | None = None,
    budget: int | None = None,
    precision: float | None = None,
    stop: Stop | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    executor: str = "local",
    address: Any = None,
    max_seconds: float | None = None,
    ledger: str | os.PathLike[str] | None = None,
    learn_from_ledger: bool = False,
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
        if it has one; all coalitions if they fit the budget (one that nobody gave may stretch by a
        tenth), or are free and of at most 20 owners; else the best method there is. The result
        says which, and why.
    options
        The method's own options.
    budget
        Most pools that may be asked, ∅ and the grand coalition included, whether computed now,
        found in the ledger or repeated; so what was saved never changes the plan. None: what the
        method needs by default (`exact` 2^I, `du` one replicate, `auto` and `gp` 6I, sampling 2I²).
    precision
        Stop once the half-width of every 95% interval is at most this part of the spread of the
        values (largest minus smallest). It counts the total error: sampling, training and test set.
        A run that cannot get there, because more evaluations would not help, ends as soon as that
        is known; one that does not get there says so.
    stop
        Instead of `precision`: a function of the `Estimate` so far that says whether the run may
        end. The estimate has values, and `std_errors` and `covariance` of all sources; the function
        is called after fixed counts of evaluations, once these errors are known and rest on enough
        (30 replicates, where a method counts them), perhaps twice for one estimate. A run whose
        errors cannot be known ends at once, as with `precision`. At how many evaluations it ended
        is kept in ``details["stopped_at"]``, and `verify` ends it there.
    seed
        Drives the estimator. Same inputs and seed, same bits.
    n_jobs
        How many workers on this machine; a cluster that is already there has its own.
    executor
        Where they are: "local", "dask" or "ray". Never changes a bit.
    address
        Of a Dask or Ray cluster, or a connected Dask client.
    max_seconds
        Stop after this many seconds. A training in flight is finished first where it runs in this
        process (n_jobs=1), and given up where it runs in workers.
    ledger
        File that keeps every paid evaluation; a run that was killed goes on from it.
    learn_from_ledger
        Let `gp` begin with all that the ledger holds of this game (of more than 4,096 pools with a
        random choice), whichever method or seed paid for it; the budget is for new pools. Which
        ones is fixed when this run first begins, so that it can be resumed; the result says how
        many they were and has a digest of them.
    progress
        Show progress; None: in a notebook, and where stderr is a terminal.
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
    with Run(
        as_game(game, n_players),
        method,
        options=options,
        budget=budget,
        precision=precision,
        stop=stop,
        seed=seed,
        n_jobs=n_jobs,
        executor=executor,
        address=address,
        max_seconds=max_seconds,
        ledger=ledger,
        learn_from_ledger=learn_from_ledger,
        progress=progress,
    ) as run:
        return run.pay()


@dataclass(eq=False)
class Run:
    """One valuation, checked and planned before anything is paid.

    Once made, it has refused what cannot run and has its `plan`; once entered, it has opened its
    ledger, or said why it cannot. Workers start when it is paid. It takes what `value` takes.

    Attributes
    ----------
    known
        Pools that `gp` begins with: those of the ledger with `learn_from_ledger`, or as given.
    ends_at
        Evaluations at which a run that is computed again ended.
    plan
        What will run, and why.
    paid
        Once entered: the open ledger, for whatever else is measured beside the values.
    influence
        Once paid: values by test row or group of them, shape (rows, I), where they are known.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda pools: pools.any(axis=1), n_players=3)
    >>> with Run(game, "permutation", budget=20) as run:
    ...     print(f"up to {run.plan.budget} evaluations by {run.plan.label}")
    ...     n_evaluations = run.pay().n_evaluations
    up to 20 evaluations by permutation
    """

    game: Game
    method: str | Method = AUTO
    _: KW_ONLY
    options: Mapping[str, Any] | None = None
    budget: int | None = None
    precision: float | None = None
    stop: Stop | None = None
    seed: int = 0
    n_jobs: int = 1
    executor: str = "local"
    address: Any = None
    max_seconds: float | None = None
    ledger: str | os.PathLike[str] | None = None
    learn_from_ledger: bool = False
    progress: bool | None = None
    known: BoolArray | None = None
    ends_at: int | None = None
    plan: Plan = field(init=False)
    influence: FloatArray | None = field(init=False, default=None)
    paid: Ledger | None = field(init=False, default=None)
    n_tried: int = field(init=False, default=0)
    marginals: Marginals | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        with one_blas_thread():  # a formula has the same bits as well
            self.plan = choose_plan(self.game, self.method, self.options, self.budget)
        check_wishes(
            self.precision, self.executor, self.n_jobs, self.address, self.max_seconds, self.stop
        )
        check_limits(self.executor, limits_of(self.game))
        if self.ledger is not None and not isinstance(self.ledger, str | os.PathLike):
            raise InvalidOption(f"ledger is {self.ledger!r}; pass the path of a file.")
        if self.plan.method.name == "centres":
            self.plan, self.marginals = with_marginals(self.game, self.plan)
        self._free = self.game.cheap and self.marginals is None
        self._ignored = self.ledger if self._free else None
        self.ledger = None if self._free else self.ledger
        refuse_nameless(self.game, self.ledger)
        self.seed = check_seed(self.seed)
        if self.learn_from_ledger:
            refuse_learning(self.plan, self.ledger or self._ignored)
        self._begin_with(self.known)

    def __enter__(self) -> Self:
        if self.ledger is not None and self.plan.formula is None:
            assert self.game.context is not None  # as `refuse_nameless` saw to
            self.paid = Ledger(self.ledger, self.game.context)
            if self.learn_from_ledger and self.known is None:
                # what this run was asked for names it, whatever ends it
                options = json_text(dict(self.plan.options))
                run = digest(self.plan.method.name, options, self.plan.budget, self.seed).encode()
                self._begin_with(paid_pools(self.game, self.paid, run))
        return self

    def _begin_with(self, known: BoolArray | None) -> None:
        """Let the method ask these pools first, beyond its budget."""
        if known is not None and self.plan.formula is None:
            self.known = pools_between(known, self.game.n_players)
            self.plan = replace(self.plan, budget=self.plan.budget + len(self.known))

    def __exit__(self, *error: object) -> None:
        if self.paid is not None:
            self.paid.close()
            self.paid = None

    def trial(self) -> float:
        """Seconds of training on everybody's data, which is done now and need not be done again.

        Nobody's pool is asked before, which loads what trainings need. 0 where an evaluation costs
        nothing, or the ledger has it already: a run that goes on.
        """
        if self.game.cheap or self.plan.formula is not None:
            return 0.0
        if self.game.block > 1:  # trained together, by arithmetic of our own
            return seconds_each(self.game)
        if self.paid is None:
            self.paid = Ledger(None)
        seconds, bar = 0.0, Progress(0, show=False)
        with closing(make_executor("local", 1)) as here:  # within the limits of a training
            for pool, probes in zip(ends(self.game.n_players), (0, self.plan.probes), strict=True):
                plan = replace(self.plan, probes=probes)
                evaluator = Evaluator(self.game, plan, iter(()), here, self.paid, bar)
                started = perf_counter()
                evaluator.answer(Ask(pool[None]))
                seconds = perf_counter() - started if evaluator.n_computed else 0.0
                evaluator.close()
                self.n_tried += evaluator.n_computed
        return seconds

    def pay(self) -> Valuation:
        """Ask, answer and keep until the plan is done; workers live as long as this.

        Raises
        ------
        Stopped
            As `value` does.
        """
        formula = self.plan.formula
        if self.ledger is not None and self.paid is None and formula is None:
            raise ProtocolViolated("The run's ledger is not open; pay inside `with Run(...)`.")
        with ExitStack() as kept:
            valuation = self._pay(self.converse(), kept) if formula is None else self._from(formula)
        object.__setattr__(valuation, "_influence", self.influence)  # for differences; not stored
        return valuation

    def _pay(self, talk: Dialogue, kept: ExitStack) -> Valuation:
        with ExitStack() as stack:
            until = monotonic() + (float("inf") if self.max_seconds is None else self.max_seconds)
            watch = Watch(self.precision, self.stop, self.ends_at)
            shown = False if self._free and self.progress is None else self.progress
            bar = Progress(self.plan.budget, show=shown)
            evaluator = self._evaluator(talk, watch, bar, until, stack)
            kept.callback(evaluator.close)  # error bars read from it when workers are gone
            stack.enter_context(bar)
            stack.enter_context(one_blas_thread())
            try:
                ended = self._drive(talk, evaluator, watch, bar, until)
                evaluator.finish()
            except (KeyboardInterrupt, OutOfTime) as why:
                raise self._stopped(talk, evaluator, late=isinstance(why, OutOfTime)) from None
        valuation = self._valuation(talk, evaluator, self.converse)
        self.influence = evaluator.influence
        assert talk.estimate is not None
        return (
            judged(valuation, talk.estimate, self.precision, ended=ended)
            if watch.may_end
            else valuation
        )

    def _evaluator(
        self, talk: Dialogue, watch: Watch, bar: Progress, until: float, stack: ExitStack
    ) -> Answering:
        here = self.executor == "local" and self.n_jobs == 1 and not watch.may_end
        if self._free or (here and is_bulk(self.game, self.plan)):
            ahead = iter(()) if self.game.cheap else foreseen(talk)
            return Evaluator(self.game, self.plan, ahead, None, self.paid, bar)
        executor = make_executor(self.executor, self.n_jobs, self.address, until)
        stack.callback(executor.close)
        if self.marginals is not None:
            return CentresDriver(self.game, self.marginals, executor, self.paid, bar)
        return Evaluator(
            self.game,
            self.plan,
            foreseen(talk, all_=not here or self.game.block > ROUND),
            executor,
            self.paid,
            bar,
            lambda asked: not watch.is_time(asked),
        )

    def converse(self) -> Dialogue:
        """A new conversation with the method; each call starts another one."""
        kind = Dialogue if self.marginals is None else CentresDialogue
        batch, large = ROUND, self.game.block >= BULK_BLOCK and self.plan.budget >= LEAST_BULK
        if self.game.cheap:  # a matter of memory, and fixed by game and budget
            batch = max(1, min(CHEAP_BATCH, CHEAP_CELLS // self.game.n_players))
        elif large:
            batch = BULK_ROUND
        return kind(
            self.plan,
            self.game.n_players,
            sizes=self.game.sizes,
            names=self.game.names,
            fractions=self.game.fractions,
            seed=self.seed,
            batch=batch,
            known=self.known,
        )

    def _drive(
        self, talk: Dialogue, evaluator: Answering, watch: Watch, bar: Progress, until: float
    ) -> bool:
        """Let the method ask until it is done, or the watch ends it; whether that did."""

        def begin() -> Dialogue:
            seconds_left(until)
            return self.converse()

        def errors(so_far: Estimate) -> dict[str, Any]:
            evaluator.settle()
            return evaluator.errors(so_far, begin)

        watch.errors = errors
        may_end = watch.may_end
        while (ask := talk.ask()) is not None:
            seconds_left(until)
            stale = bar.show and monotonic() - bar.shown > FRAME
            wanted = stale or (may_end and watch.is_time(talk.n_told))
            so_far = ask.estimate() if wanted else None
            if so_far is not None:
                over = watch.is_over(talk.n_told, so_far)
                bar.show_leaders(so_far, talk.names, watch)
                if over:
                    talk.stop()
                    talk.finished = True  # the user's wish is the plan
                    return True
            talk.tell(evaluator.answer(ask))
        return False

    def _from(self, formula: Estimate) -> Valuation:
        self.influence = formula.scores
        with one_blas_thread():
            empty, full = (float(u) for u in self.game(ends(self.game.n_players)))
        return self._built(
            formula,
            u_empty=empty,
            u_full=full,
            n_trainings=self.plan.trained_beside(self.game),
            details=formula.details,
            errors=formula_errors(formula, biased=self.plan.is_biased),
            **dict.fromkeys(("n_evaluations", "n_distinct", "n_computed"), 0),
        )

    def _valuation(self, talk: Dialogue, evaluator: Answering, begin: Begin) -> Valuation:
        assert talk.estimate is not None
        account = evaluator.account(talk.estimate, begin)
        account["n_computed"] += self.n_tried
        valuation = self._built(
            talk.estimate,
            n_evaluations=max(talk.n_asked, evaluator.n_computed),  # what was asked ahead, too
            u_empty=talk.empty,
            u_full=talk.full,
            complete=talk.finished,
            **account,
        )
        return remarked(valuation, self.game, self.plan.method, self.known)

    def _built(self, estimate: Estimate, **counted: Any) -> Valuation:
        counted["details"] = {**counted.get("details", {}), **self.game.costs()}
        return self.plan.valuation(
            estimate,
            notes=(*(() if self._ignored is None else (IGNORED,)), *self.game.notes),
            owners=self.game.names,
            sizes=self.game.sizes,
            seed=self.seed,
            budget=self.budget,
            precision=self.precision,
            fingerprint=self.game.fingerprint,
            **counted,
        )

    def _stopped(self, talk: Dialogue, evaluator: Answering, *, late: bool) -> Stopped:
        ledger = (
            f"All of it is in the ledger {os.fspath(self.ledger)}; run the same again to go on."
            if self.ledger is not None
            else "Nothing is kept without a ledger (ledger=)."
        )
        known = talk.estimate is not None
        # whoever stops a run waits for no conversation to be held again
        so_far = self._valuation(talk, evaluator, lambda: None) if known else None
        talk.stop()
        state = "there is an estimate so far (.valuation)" if so_far else "there is no estimate yet"
        why = "Time is up" if late else "Stopped"
        return Stopped(
            f"{why} after {evaluator.n_computed:,} computed evaluations; {state}. {ledger}",
            so_far,
            out_of_time=late,
        )


def refuse_learning(plan: Plan, ledger: object) -> None:
    """Refuse to learn where there is no ledger, or by a method that could not."""
    refuse(
        InvalidOption,
        (
            ledger is None,
            "learn_from_ledger=True was given without a ledger. Pass ledger= with the file that "
            "holds what was paid before.",
        ),
        (
            plan.formula is None and plan.method.name != "gp",
            f"learn_from_ledger=True was given with {plan.method.name}, whose values rest on its "
            "own questions alone. Use method='gp', which learns from any pool.",
        ),
    )


def check_wishes(
    precision: object,
    executor: object,
    n_jobs: object,
    address: object,
    max_seconds: object,
    stop: object = None,
) -> None:
    """Refuse what no run could be made of, before anything is paid."""
    check_executor(executor, n_jobs, address)
    refuse(
        InvalidOption,
        (
            precision is not None and not is_number(precision, above=0, most=1),
            f"precision is {precision!r}; it must be a part of the spread of values, above 0 and "
            "at most 1, say 0.05.",
        ),
        (
            max_seconds is not None and not is_number(max_seconds, above=0),
            f"max_seconds is {max_seconds!r}; it must be a positive number of seconds.",
        ),
        (
            stop is not None and not callable(stop),
            f"stop is {stop!r:.60}; it must be a function of the estimate so far that says whether "
            "the run may end.",
        ),
        (
            stop is not None and precision is not None,
            f"A function to stop by was given beside precision={precision!r}, of which either ends "
            "a run. Let the function test the precision too.",
        ),
    )
