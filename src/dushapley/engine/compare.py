"""Methods side by side at equal budgets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import FloatArray
from dushapley.engine.plan import refuse_options_of_auto
from dushapley.engine.value import value
from dushapley.errors import (
    BudgetTooSmall,
    InvalidCall,
    InvalidOption,
    MethodNotApplicable,
)
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO, find
from dushapley.games.base import Game
from dushapley.games.callables import as_game
from dushapley.validation import spoken

if TYPE_CHECKING:
    import pandas as pd

Entry = str | Method | tuple[str | Method, Mapping[str, Any]]
"""A method, or a pair (method, its options)."""

COLUMNS = {
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
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


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
