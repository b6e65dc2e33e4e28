"""Methods side by side: the cost of each on a game, and its error at equal budgets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray
from dushapley.engine.executors import check_executor
from dushapley.engine.ledger import Ledger, paid_answers, refuse_nameless
from dushapley.engine.plan import (
    choose_plan,
    refuse_options_of_auto,
    seconds_each,
    seconds_of,
    workers,
)
from dushapley.engine.value import value
from dushapley.errors import (
    BudgetTooSmall,
    DUShapleyError,
    InvalidCall,
    InvalidOption,
    MethodNotApplicable,
)
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO, find
from dushapley.estimators.registry import methods as named_methods
from dushapley.games.base import Game
from dushapley.games.callables import as_game
from dushapley.protocol import Problem
from dushapley.validation import check_budget, spoken

if TYPE_CHECKING:
    import pandas as pd

Entry = str | Method | tuple[str | Method, Mapping[str, Any]]
"""A method, or a pair (method, its options)."""

QUOTED = {
    "method": "str",
    "budget": "Int64",
    "evaluations": "Int64",
    "trainings": "Int64",
    "seconds": "float64",
    "precision": "float64",
    "summary": "str",
    "refused": "str",
}
COMPARED = {
    "method": "str",
    "budget": "Int64",
    "seed": "Int64",
    "mse": "float64",
    "relative_mse": "float64",
    "rank_correlation": "float64",
    "n_evaluations": "Int64",
    "seconds": "float64",
    "reason": "str",
}


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
        for name, summary in named_methods().items()
        for budget in wanted
    ]
    more = dict.fromkeys((name for name in played.costs(0) if name not in QUOTED), "Int64")
    frame = pd.DataFrame(rows, columns=[*QUOTED, *more]).astype(QUOTED | more)
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


@spoken
def compare(
    game: Any,
    methods: Sequence[Entry],
    budgets: Sequence[int | None],
    seeds: Iterable[int] = range(20),
    reference: ArrayLike | None = None,
    *,
    n_jobs: int = 1,
    executor: str = "local",
    ledger: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Run methods at equal budgets and measure their errors against reference values.

    Every method pays for all of its questions, whatever the others asked; a ledger saves time,
    never budget.

    Parameters
    ----------
    game
        What `dushapley.value` takes.
    methods
        Names, or pairs (name, options).
    budgets
        Evaluations each run may ask; None for a method's default.
    seeds
        One run of each method and budget for each seed.
    reference
        The values that errors are measured against, one per owner. None: exact values, by formula
        or enumeration; raises where there are too many coalitions for that.
    n_jobs, executor, ledger
        As in `dushapley.value`.

    Returns
    -------
    pandas.DataFrame
        One row per run: method (with its options), budget, seed, mse (mean over owners of the
        squared error), relative_mse (over the variance of the reference between owners: 1 means no
        better than paying everyone the same; not a number if that variance is 0),
        rank_correlation (Spearman's; not a number if all values are equal), n_evaluations,
        seconds. A method that this game or budget refuses is one row with its `reason` and no
        numbers.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400, 800], w=lambda n: n / (n + 100))
    >>> frame = ds.compare(game, ["permutation", "leverage", "knn"], budgets=[14], seeds=range(5))
    >>> frame.dropna().groupby("method")["n_evaluations"].max().to_dict()
    {'leverage': 14, 'permutation': 14}
    >>> frame.query("method == 'knn'")["reason"].item()
    "knn needs the owners' rows ..."
    """
    import pandas as pd

    played = as_game(game)
    refuse_single("methods", methods, '["gp", "permutation"]')
    refuse_single("budgets", budgets, "[50, 100]")
    refuse_single("seeds", seeds, "range(20)")
    entries = [entry if isinstance(entry, tuple) else (entry, {}) for entry in methods]
    for method, options in entries:  # mistakes are raised before anything is paid
        make = refuse_options_of_auto if method == AUTO else find(method).complete
        make(options)
    pay = {"n_jobs": n_jobs, "executor": executor, "ledger": ledger}
    truth = reference_values(played, reference, pay)
    numbers = list(dict.fromkeys(seeds))
    rows = [
        row
        for method, options in entries
        for budget in dict.fromkeys(budgets)  # the same runs twice would look like twice the seeds
        for row in _runs(played, method, options, budget, numbers, truth, pay)
    ]
    return pd.DataFrame(rows, columns=list(COMPARED)).astype(COMPARED)


def refuse_single(name: str, given: object, like: str) -> None:
    """Refuse one thing where several are listed: a word would be read letter by letter."""
    if isinstance(given, (str, Method)) or not isinstance(given, Iterable):
        raise InvalidCall(f"{name} is {given!r:.60}; list what is to be compared: {name}={like}.")


def reference_values(game: Game, reference: ArrayLike | None, pay: Mapping[str, Any]) -> FloatArray:
    """The given reference, checked; or exact values."""
    if reference is None:
        try:
            return value(game, "exact", **pay).values
        except MethodNotApplicable as error:
            raise MethodNotApplicable(
                f"There is no reference to measure errors against: {error} Or pass reference=, "
                "one value per owner, from a long run."
            ) from error
    values = np.asarray(reference, dtype=np.float64)
    if values.shape != (game.n_players,) or not bool(np.isfinite(values).all()):
        raise InvalidOption(
            f"reference has shape {values.shape}; it needs {game.n_players} finite numbers, one "
            "value per owner."
        )
    return values


def _runs(
    game: Game,
    method: str | Method,
    options: Mapping[str, Any],
    budget: int | None,
    seeds: Sequence[int],
    truth: FloatArray,
    pay: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    name = label(method, options)
    for seed in seeds:
        start = time.perf_counter()
        try:
            valuation = value(game, method, options=options, budget=budget, seed=seed, **pay)
        except (MethodNotApplicable, BudgetTooSmall) as refusal:
            yield {"method": name, "budget": budget, "reason": str(refusal)}
            return
        yield {
            "method": name,
            "budget": valuation.n_evaluations if budget is None else budget,
            "seed": seed,
            **errors(valuation.values, truth),
            "n_evaluations": valuation.n_evaluations,
            "seconds": time.perf_counter() - start,
            "reason": "",
        }


def label(method: str | Method, options: Mapping[str, Any]) -> str:
    """A method with its options, as shown in tables."""
    name = method.name if isinstance(method, Method) else method
    listed = ", ".join(f"{key}={option}" for key, option in options.items())
    return f"{name} ({listed})" if listed else name


def errors(values: FloatArray, truth: FloatArray) -> dict[str, float]:
    """Mean squared error, the same relative to the spread of the truth, and rank correlation."""
    from scipy.stats import spearmanr

    mse = float(np.mean((values - truth) ** 2))
    spread = float(np.var(truth))
    constant = np.ptp(values) == 0 or np.ptp(truth) == 0  # spearmanr would warn
    return {
        "mse": mse,
        "relative_mse": mse / spread if spread > 0 else float("nan"),
        "rank_correlation": np.nan if constant else float(spearmanr(values, truth).statistic),
    }
