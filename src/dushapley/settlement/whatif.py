"""Values before and after a change, and what the answer costs.

Pools that both games know have one key, so whatever was paid for is found in the ledger, and what
is not is quoted before it is paid.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import AnyMapping, FloatArray
from dushapley.data.files import PathLike
from dushapley.engine.ledger import Ledger
from dushapley.engine.plan import Probes
from dushapley.engine.value import Run
from dushapley.errors import InvalidCall
from dushapley.estimators.calibration import ALIKE
from dushapley.games import Game, as_game
from dushapley.results.influence import influence_error
from dushapley.results.uncertainty import (
    MEASURES,
    is_clear,
    remedy,
    sampling_variances,
    source_errors,
    variances_of,
    with_errors,
)
from dushapley.results.valuation import Valuation
from dushapley.settlement.changes import Change, Copy, Merge, MoreRows
from dushapley.settlement.money import money
from dushapley.terminal import distinct_names, printable, table
from dushapley.validation import spoken

if TYPE_CHECKING:
    import pandas as pd

WORLDS = ("before", "after")
VERBS = {Copy: "Copying", MoreRows: "Changing its rows", Merge: "Merging"}
"""Changes that an owner would make for its own good, so that one can say whether it pays."""

SETTLES = {
    "sampling": "a larger budget",
    "training": "more repeats",
    "test set": "more test rows",
}
"""What lowers the greatest part of the error; a budget does not where all coalitions were asked."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Values before and after a change, by the same method.

    Attributes
    ----------
    change
        What happens.
    before, after
        The two valuations; `n_computed` of each says what had to be paid now.
    scale
        Part of everybody's rows at which both were measured: 1, except for more rows.
    influences
        Values of both by test row (`Run.influence`), where they are known.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"])
    >>> found = ds.what_if(game, ds.Leave("west"), method="exact")
    >>> found.before.u_full, found.after.u_full
    (9.0, 7.0)
    """

    change: Change
    before: Valuation
    after: Valuation
    scale: float = 1.0
    influences: tuple[FloatArray | None, FloatArray | None] = (None, None)

    @property
    def n_found(self) -> int:
        """Different pools of the changed game that had been paid before; 0 where all is free."""
        distinct = self.after.n_distinct
        return 0 if distinct is None else distinct - self.after.n_computed

    def to_frame(self) -> pd.DataFrame:
        """One row per owner of either world: owner, before, after, change, std_error.

        The standard error of a change is of all sources: sampling, taken as independent in the two
        worlds; the test set, which is the same in both, by the change that each test row makes; and
        training, at most the sum of its errors in the two worlds. NaN where one is unknown.
        """
        import pandas as pd

        change, joined = self.change, {}
        if isinstance(change, Merge):
            joined = dict.fromkeys((change.first, change.second), change.name)
        names = [joined.get(name, name) for name in self.before.owners]
        order = list(dict.fromkeys([*self.after.owners, *names]))
        parts = [_membership(order, names), _membership(order, self.after.owners)]
        frame = pd.DataFrame({"owner": order})
        for world, part in zip(WORLDS, parts, strict=True):
            sums = part @ getattr(self, world).values
            frame[world] = np.where(part.any(axis=1), sums, np.nan)
        frame["change"] = frame["after"].fillna(0) - frame["before"].fillna(0)
        frame["std_error"] = self._errors(*parts)
        return frame

    def _errors(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Standard errors of the changes; the matrices say whose values count to which row."""
        worlds = ((self.before, before), (self.after, after))
        sampling = sum(_sampling_variances(v, part) for v, part in worlds)
        training = sum(part @ source_errors(v, "training") for v, part in worlds)
        return np.sqrt(sampling + training**2 + self._test_set_variance(before, after))

    def _test_set_variance(self, before: FloatArray, after: FloatArray) -> FloatArray:
        none = np.zeros(len(before))
        unknown = none + np.nan
        if not self.before.errors and not self.after.errors:  # there is no test set
            return none
        first, second = self.influences
        if first is None or second is None or len(first) != len(second) or len(first) < 2:
            return unknown
        moved = second @ after.T - first @ before.T
        if abs(moved).max() <= ALIKE * abs(first).max():
            return none  # both worlds ask the same pools
        joint = influence_error(moved)
        return unknown if joint is None else variances_of(joint)

    def __repr__(self) -> str:
        """The question, the two worlds side by side, what it cost, and what it means."""
        return self.told(self.verdict())

    def told(self, verdict: Sequence[str]) -> str:
        """The question, the two worlds side by side, what it cost, and these last sentences."""
        frame = self.to_frame()
        names = distinct_names(frame["owner"].tolist(), 32)
        columns = (map(_worth, frame[world]) for world in WORLDS)
        rows = list(zip(names, *columns, strict=True))
        rows.append(("u(all)", _worth(self.before.u_full), _worth(self.after.u_full)))
        lines = [
            printable(f"What if {self.change.told()}?"),
            table(("owner", *WORLDS), rows),
            f"  {self.n_found:,} pools found, {self.after.n_computed:,} computed",
        ]
        if self.scale != 1:
            lines.append(f"  measured with {self.scale:.0%} of everybody's rows in both worlds")
        return "\n".join([*lines, *(printable(f"  {sentence}") for sentence in verdict)])

    @property
    def whose(self) -> str | None:
        """The owner for whose good the change would be made; None where there is none."""
        if isinstance(self.change, Merge):
            return self.change.name
        return self.change.owner if isinstance(self.change, (Copy, MoreRows)) else None

    def paid_verdict(self, before: Decimal, after: Decimal, unit: str = "") -> list[str]:
        """What the answer means where a pot is shared: by what its owner would be paid.

        Values alone would not do: under a rule that pays nothing for a negative value, two owners
        may be paid less together than apart although their values add up to the same.
        """
        name = self.whose
        if name is None:
            return []
        paid, instead = money(after, unit), money(before, unit)
        first = f"{self._pays(after > before)}: {name!r} would be paid {paid} instead of {instead}."
        if after == before:
            first = f"It makes no difference to {name!r}, who is paid {paid} in both."
        row: Any = self.to_frame().set_index("owner").loc[name]
        change = row["change"]
        if not is_clear(change, row["std_error"]):
            return [first, *(f"But in values: {sentence}" for sentence in self.verdict())]
        if (change > 0) != (after > before):
            values = f"from {row['before']:.4g} to {row['after']:.4g}"
            return [first, f"Its value goes {values}, but the rule for negative values decides."]
        return [first]

    def _pays(self, gains: bool) -> str:
        return f"{VERBS[type(self.change)]} {'pays' if gains else 'does not pay'}"

    def verdict(self) -> list[str]:
        """What the answer means, where that can be said in a sentence."""
        name = self.whose
        if name is None:
            return []
        row: Any = self.to_frame().set_index("owner").loc[name]
        change, error = row["change"], row["std_error"]
        if np.isnan(error):
            meaning, helps = "unknown: test set", MEASURES["test set"]
            blind = next((v for v in (self.after, self.before) if v.unknown), None)
            if blind is not None:
                meaning, helps = blind.interval_meaning, remedy(blind)
            return [f"How sure the difference is, is {meaning}. {helps}"]
        if not is_clear(change, error):
            helps = SETTLES[self.after.errors.get("dominant") or "sampling"]
            return [f"The difference is within the error: {helps} may settle it."]
        if abs(change) <= 1e-12 * abs(self.before.u_full - self.before.u_empty):
            return [f"It makes no difference to {name!r}."]
        values = f"from {row['before']:.4g} to {row['after']:.4g}"
        return [f"{self._pays(change > 0)}: {name!r} goes {values}."]


@dataclass(frozen=True)
class Quote:
    """What a what-if would cost, given what a ledger holds.

    Attributes
    ----------
    asked
        Evaluations that may be asked for in the two worlds: their budgets.
    known
        Different pools it would ask that stand in the ledger.
    new
        Different pools to be computed. Exact for methods that ask the same whatever they are
        answered; a forecast for the others (`gp`, `tmc`), which `at_most` bounds.
    at_most
        Pools to be computed if nothing were found from the first unknown answer on.
    """

    asked: int
    known: int
    new: int
    at_most: int


@spoken
def what_if(
    game: Game,
    change: Change,
    *,
    method: str = "auto",
    options: AnyMapping | None = None,
    budget: int | None = None,
    precision: float | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    ledger: PathLike | None = None,
) -> WhatIf:
    """Value a collaboration before and after a change.

    Parameters
    ----------
    game
        The collaboration as it is.
    change
        `Leave`, `Join`, `Merge`, `Copy` or `MoreRows`.
    method, options, budget, precision, seed, n_jobs, ledger
        As in `dushapley.value`, used for both. With the ledger of the base run, everything that
        run paid for is found. `quote_change` says beforehand what is missing.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], w=lambda n: n / (n + 100))
    >>> answer = ds.what_if(game, ds.Leave("owner 3"), method="exact")
    >>> answer.after.values.round(3).tolist()
    [0.292, 0.458]
    """
    game = as_game(game)
    refuse_no_change(change)
    worlds = change.games(game)
    scale = change.scale(game) if isinstance(change, MoreRows) else 1.0
    results: list[tuple[Valuation, FloatArray | None]] = []
    with TemporaryDirectory() as folder:
        if ledger is None and game.context is not None and not game.cheap:
            ledger = Path(folder) / "both-worlds.sqlite"  # so that they share what they pay
        for world in worlds:
            with Run(
                world,
                method=method,
                options=options,
                budget=budget,
                precision=precision,
                seed=seed,
                n_jobs=n_jobs,
                ledger=ledger,
            ) as run:
                if results:
                    _inherit_chance(run, results[0][0])
                results.append((run.pay(), run.influence))
    (before, first), (after, second) = results
    return WhatIf(change, before, after, scale, (first, second))


def _inherit_chance(run: Run, base: Valuation) -> None:
    """Take over what probes of the base game have shown: the model is the same."""
    shown = base.details.get("probes", {}).get("same under another seed")
    training = run.game.training
    if shown is not None and training is not None and training.deterministic is None:
        run.game = copy(run.game)
        run.game.training = replace(training, deterministic=shown)
        run.plan = replace(run.plan, probes=0)


def refuse_no_change(change: object) -> None:
    """Refuse what is not a change of a collaboration."""
    if isinstance(change, type) or not hasattr(change, "games"):
        raise InvalidCall(
            f"Found {type(change).__name__} {change!r:.60} where a change was needed. Pass "
            "ds.Leave('north'), or a Join, Merge, Copy or MoreRows."
        )


def _worth(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.5g}"


def _membership(names: Sequence[str], owners: Sequence[str]) -> FloatArray:
    """Which owners count to which name, shape (names, owners)."""
    return (np.array(names)[:, None] == np.array(owners)).astype(np.float64)


def _sampling_variances(valuation: Valuation, part: FloatArray) -> FloatArray:
    """Of sums of values, as independent where no covariance is known."""
    if valuation.covariance is None or valuation.std_errors is None:
        return part**2 @ sampling_variances(valuation)
    joint = with_errors(valuation.covariance, valuation.std_errors)
    return np.diag(part @ joint @ part.T)


@spoken
def quote_change(
    game: Game,
    change: Change,
    *,
    method: str = "auto",
    options: AnyMapping | None = None,
    budget: int | None = None,
    seed: int = 0,
    ledger: PathLike | None = None,
) -> Quote:
    """What a what-if would cost, both worlds together, without computing anything.

    The method's own conversations are held with what the ledger has; where it has nothing, the
    mean of what is known stands in.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"])
    >>> ds.quote_change(game, ds.Leave("west"), method="exact").asked
    12
    """
    game = as_game(game)
    refuse_no_change(change)
    runs = [
        Run(world, method, options=options, budget=budget, seed=seed)
        for world in dict.fromkeys(change.games(game))
    ]
    costly = [run for run in runs if run.plan.formula is None]
    asked = sum(run.plan.budget for run in costly)
    if ledger is None or game.context is None or not Path(ledger).exists():
        return Quote(asked, 0, asked, asked)
    known: dict[bytes, float] = {}
    new: set[bytes] = set()
    with Ledger(ledger, game.context) as paid:
        at_most = sum(_rehearse(run, paid, known, new) for run in costly)
        extra = _new_probes(costly[0], paid, known.keys() | new) if costly else 0
    return Quote(asked, len(known), len(new) + extra, at_most + extra)


def _new_probes(run: Run, ledger: Ledger, met: Collection[bytes]) -> int:
    """Count trainings of probes that a ledger lacks, beside those of pools that are met anyway."""
    probes = Probes(run.game, run.plan.probes, ledger)
    return sum(seed != 0 or probes.own[place] not in met for place, seed in probes.waiting)


def _rehearse(run: Run, ledger: Ledger, known: dict[bytes, float], new: set[bytes]) -> int:
    """Collect the keys that will be asked; return how many of them may be new at most."""
    talk, game = run.converse(), run.game
    sure: int | None = None  # questions asked before the first unknown answer
    while (ask := talk.ask()) is not None:
        keys = game.keys(*game.check(ask.queries, ask.draws))
        different = dict.fromkeys(keys)
        stored = ledger.read(list(different))
        known |= {key: o.value for key, o in stored.items() if o.failure is None}
        missing = different.keys() - known.keys()
        if missing and sure is None:
            sure = talk.n_asked - len(keys)
        new |= missing
        stand_in = float(np.mean(list(known.values()))) if known else 0.0
        talk.tell([known.get(key, stand_in) for key in keys])
    return 0 if sure is None else run.plan.budget - sure
