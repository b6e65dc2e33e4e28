"""What each method would cost on a game, from a few timed evaluations, before anything is paid."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.engine.executors import check_executor, make_executor
from dushapley.engine.plan import choose_plan
from dushapley.errors import DUShapleyError
from dushapley.estimators.registry import methods
from dushapley.games.base import Game
from dushapley.games.callables import as_game
from dushapley.validation import check_budget, spoken

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "method": "str",
    "budget": "Int64",
    "evaluations": "Int64",
    "seconds": "float64",
    "summary": "str",
    "refused": "str",
}
MOST_TIMED = 32
"""Pools timed together where pools are trained together."""


@spoken
def quote(
    game: Any, budgets: int | Iterable[int] | None = None, *, n_jobs: int = 1
) -> pd.DataFrame:
    """Price every method on a game, before paying for any.

    A few evaluations are made to see how long one takes (see `seconds_each`); nothing else is
    asked, and nothing is kept.

    Parameters
    ----------
    game
        What `dushapley.value` takes.
    budgets
        Evaluations that the methods may ask, one or several. None: each method's default.
    n_jobs
        Workers that would share the work on this machine.

    Returns
    -------
    pandas.DataFrame
        One row per method and budget: method, budget (missing for the default), evaluations (the
        most that would be asked; 0 where the game has a formula), seconds (about; with the one
        training more that shows whether there is chance in it), summary, and refused: why not, for
        a method that this game or budget rules out.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda pools: pools.any(axis=1), n_players=6)
    >>> frame = ds.quote(game).set_index("method")
    >>> frame["evaluations"][["exact", "gp", "permutation"]].tolist()
    [64, 36, 72]
    >>> frame["refused"]["du"]
    "du asks for pools that hold part of an owner's rows, but ..."
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
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _price(game: Game, method: str, budget: int | None, each: float) -> dict[str, Any]:
    """Evaluations and seconds of one method, or why it is refused."""
    try:
        evaluations = choose_plan(game, method, None, budget).budget
    except DUShapleyError as error:
        return {"refused": str(error)}
    trainings = evaluations + (game.n_tried if evaluations else 0)
    return {"evaluations": evaluations, "seconds": trainings * each}


def seconds_each(game: Game) -> float:
    """Mean seconds of three evaluations: one owner, half of them, all; after one that warms up.

    Where pools are trained together, up to `MOST_TIMED` at a time are timed.
    """
    if game.cheap:
        return 0.0
    largest = np.argsort(-game.sizes, kind="stable")
    seconds = []
    at_once = min(game.block, MOST_TIMED)
    with closing(make_executor("local", 1)) as here:  # within the game's limits, as the run itself
        for count in (1, 1, (game.n_players + 1) // 2, game.n_players):
            pools = np.zeros((at_once, game.n_players), dtype=np.bool_)
            pools[:, largest[:count]] = True
            started = time.perf_counter()
            list(here.run(game, [(pools, None)]))
            seconds.append((time.perf_counter() - started) / at_once)
    return float(np.mean(seconds[1:]))


def workers(n_jobs: int) -> int:
    """How many workers `n_jobs` asks for."""
    from joblib import cpu_count

    return int(cpu_count()) if n_jobs == -1 else n_jobs
