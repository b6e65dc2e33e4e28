"""What each method would cost on a game, from a few timed evaluations, before anything is paid."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.engine.executors import check_executor, make_executor
from dushapley.engine.executors.base import Listed
from dushapley.engine.ledger import Ledger, paid_answers, refuse_nameless
from dushapley.engine.plan import Plan, choose_plan, trainings_each
from dushapley.errors import DUShapleyError, InvalidOption
from dushapley.estimators.registry import methods
from dushapley.games.base import Game
from dushapley.games.callables import as_game
from dushapley.protocol import Problem
from dushapley.validation import check_budget, spoken

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "method": "str",
    "budget": "Int64",
    "evaluations": "Int64",
    "trainings": "Int64",
    "seconds": "float64",
    "precision": "float64",
    "summary": "str",
    "refused": "str",
}
MOST_TIMED = 32
"""Pools timed together where pools are trained together."""


@spoken
def quote(
    game: Any,
    budgets: int | Iterable[int | None] | None = None,
    *,
    n_jobs: int = 1,
    ledger: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Price every method on a game, before paying for any.

    A few evaluations are made to see how long one takes (see `seconds_each`); nothing else is
    asked, and nothing is kept. With the ledger of a pilot, a first run of any method with at least
    two pools an owner, the precision of `gp` at each budget is foreseen from its answers.

    Parameters
    ----------
    game
        What `dushapley.value` takes.
    budgets
        Evaluations that the methods may ask, one or several. None: each method's default.
    n_jobs
        Workers that would share the work on this machine.
    ledger
        File of a pilot's answers; it is only read.

    Returns
    -------
    pandas.DataFrame
        One row per method and budget: method, budget (missing for the default), evaluations (the
        most that would be asked; 0 where the game has a formula), trainings (the most that these
        take, probes for chance included), seconds (about), summary, and refused: why not, for
        a method that this game or budget rules out. Of a federation also rounds, messages and
        bytes, in all and per owner, about.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda pools: pools.any(axis=1), n_players=6)
    >>> frame = ds.quote(game).set_index("method")
    >>> frame["evaluations"][["exact", "gp", "permutation"]].tolist()
    [64, 36, 72]
    >>> frame["refused"]["du"]
    "du draws part of an owner's rows, but this game knows whole owners only: ..."
    """
    import pandas as pd

    played = as_game(game)
    check_executor("local", n_jobs, None)
    given = budgets if isinstance(budgets, Iterable) and not isinstance(budgets, str) else [budgets]
    wanted = [check_budget(budget) for budget in given]
    each = seconds_each(played) / workers(n_jobs)
    rows = [
        {"method": name, "budget": budget, "summary": summary} | _price(played, name, budget, each)
        for name, summary in methods().items()
        for budget in wanted
    ]
    more = dict.fromkeys((name for name in played.costs(0) if name not in COLUMNS), "Int64")
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *more]).astype(COLUMNS | more)
    if ledger is not None:
        planned = frame["evaluations"].notna() & frame["method"].isin(["gp", "auto"])
        counts = [int(count) for count in frame["evaluations"][planned]]
        frame.loc[planned, "precision"] = foreseen_precision(played, ledger, counts)
    return frame


def foreseen_precision(
    game: Game, ledger: str | os.PathLike[str], budgets: list[int]
) -> list[float]:
    """How precise `gp` would be at budgets, by the answers that a ledger holds; NaN: unknown."""
    from dushapley.estimators.gp.foresight import foreseen  # loads scipy

    unknown = [float("nan")] * len(budgets)
    if game.cheap:
        return unknown
    refuse_nameless(game, ledger)
    assert game.context is not None
    if not Path(ledger).exists():
        raise InvalidOption(
            f"The ledger {str(ledger)!r} does not exist, and quote only reads it: pay for a pilot "
            "first, which keeps its answers there."
        )
    with Ledger(ledger, game.context) as paid:
        pools, answers = paid_answers(game, paid)
    everybody = pools.all(axis=1)
    if not everybody.any():
        return unknown
    problem = Problem(
        game.n_players,
        game.sizes,
        game.fractions,
        budget=max(budgets),
        empty=0.0,
        full=float(answers[everybody][0]),
        options={},
        rng=np.random.default_rng(0),
    )
    found = foreseen(problem, pools[~everybody], answers[~everybody], budgets)
    return unknown if found is None else list(found)


def _price(game: Game, method: str, budget: int | None, each: float) -> dict[str, Any]:
    """Evaluations and seconds of one method, or why it is refused."""
    try:
        plan = choose_plan(game, method, None, budget)
    except DUShapleyError as error:
        return {"refused": str(error)}
    every = 2**game.n_players if plan.enumerates(game.n_players) else plan.budget
    evaluations = min(plan.budget, every)
    counts = {"evaluations": evaluations, "trainings": plan.trainings(game)}
    return {**counts, "seconds": seconds_of(plan, game, each), **game.costs(evaluations)}


def seconds_of(plan: Plan, game: Game, each: float) -> float:
    """About how long a plan takes, one evaluation taking `each` seconds."""
    return each * plan.trainings(game) / max(1, trainings_each(game))


def seconds_each(game: Game) -> float:
    """Mean seconds of three evaluations: one owner, half of them, all; after one that warms up.

    Where pools are trained together, up to `MOST_TIMED` at a time are timed.
    """
    known = game.costs(1)  # of a game that cannot be tried for nothing
    if game.cheap or known:
        return float(known.get("seconds", 0.0))
    largest = np.argsort(-game.sizes, kind="stable")
    seconds = []
    at_once = min(game.block, MOST_TIMED)
    with closing(make_executor("local", 1)) as here:  # within the game's limits, as the run itself
        for count in (1, 1, (game.n_players + 1) // 2, game.n_players):
            pools = np.zeros((at_once, game.n_players), dtype=np.bool_)
            pools[:, largest[:count]] = True
            started = time.perf_counter()
            list(here.run(game, Listed([(pools, None, None)])))
            seconds.append((time.perf_counter() - started) / at_once)
    return float(np.mean(seconds[1:]))


def workers(n_jobs: int) -> int:
    """How many workers `n_jobs` asks for."""
    from joblib import cpu_count

    return int(cpu_count()) if n_jobs == -1 else n_jobs
