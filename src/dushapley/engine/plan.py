"""What will run, chosen, checked and priced before anything is paid."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, Fractions
from dushapley.engine.executors import make_executor
from dushapley.engine.executors.base import Listed
from dushapley.engine.executors.worker import limits_of
from dushapley.engine.ledger import Ledger
from dushapley.errors import BudgetTooSmall, InvalidOption, MethodNotApplicable
from dushapley.estimators.centres import ENOUGH
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO, FALLBACK, coalition_methods, find
from dushapley.estimators.semivalues import SHAPLEY, chance_of_joining, not_shapley
from dushapley.games.base import Answers, Game, Outcome, is_scored
from dushapley.hashing import package_version
from dushapley.protocol import Estimate
from dushapley.results.uncertainty import MOST_JOINT
from dushapley.results.valuation import Valuation
from dushapley.validation import check_budget

MOST_CHEAP, MOST_PAID = 2**24, 2**12
"""Coalitions that `exact` enumerates without being given a budget."""
MOST_FREE = 20
"""Owners up to which `auto` enumerates a game whose evaluations cost nothing."""
CHANCE = "random"
"""A yardstick, which nobody should be paid by."""
PAYABLE = 40
"""Owners of whom somebody might mean to train all coalitions."""
MANY = 200
"""Owners from which `auto` takes everybody's marginal around some pools, where that is cheap."""
PROBED, FEWEST_PROBES = 10, 2
"""One training in ten may be spent on finding out whether training is left to chance, and two pools
are needed for it: the grand coalition and a small one."""
SEEDS = 0, 1
"""Of the models that are compared, the game's own being the first."""
MOST_TIMED = 32
"""Pools timed together where pools are trained together."""
STRETCH = 1.1
"""By how much `auto` exceeds a budget that nobody gave, if all coalitions then fit it."""


@dataclass(frozen=True)
class Plan:
    """What will run, and why: a method, its complete options and its budget.

    `budget` counts the pools that the method may ask. Beside it, `probes` of the game's
    `probe_pools` are trained under two seeds. Where the game has a formula for it, `formula` is the
    estimate, and there is nothing to ask.
    """

    method: Method
    options: Mapping[str, Any]
    budget: int
    label: str
    reason: str = ""
    formula: Estimate | None = field(default=None, repr=False, compare=False)
    probes: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether a formula gives this game's Shapley values, whatever the method usually gives."""
        exact = self.formula is not None and self.formula.details.get("exact")
        return bool(exact) or self.method.name == "exact"

    @property
    def is_biased(self) -> bool:
        """Whether values are, even on average, others than this game's Shapley values."""
        return self.method.is_biased(self.options) and not self.is_exact

    def enumerates(self, n_players: int) -> bool:
        """Whether all coalitions are asked, so that there is no sampling error."""
        every = self.method.name == "gp" and self.budget >= 2**n_players  # which then asks all
        return self.method.name == "exact" or n_players == 1 or every

    def valuation(
        self, estimate: Estimate, *, notes: tuple[str, ...] = (), **found: Any
    ) -> Valuation:
        """A result: what the method made of it, and what else was `found`."""
        reason = (self.reason,) if self.reason else ()
        many = len(estimate.values) > MOST_JOINT  # pairs of so many fill files nobody could read
        return Valuation(
            values=estimate.values,
            std_errors=estimate.std_errors,
            covariance=None if many else estimate.covariance,
            method=self.label,
            options=dict(self.options),
            biased=self.is_biased,
            guarantee=estimate.guarantee,
            notes=(*reason, *estimate.notes, *notes),
            version=package_version("dushapley"),
            **found,
        )

    def trained_beside(self, game: Game) -> int:
        """Trainings that u(all) takes beside a formula of another game (`knn` on a model)."""
        other = is_scored(game) and not game.cheap and not self.is_exact
        return trainings_each(game) if other else 0

    def trainings(self, game: Game) -> int:
        """Most trainings that this takes of a game: all but nobody's pool, and the probes."""
        if self.formula is not None:
            return self.trained_beside(game)
        whole = self.method.need(self.options) == "coalitions" and not game.cheap
        pools = (min(self.budget, 2**game.n_players) if whole else self.budget) - 1
        if self.probes and not self.enumerates(game.n_players):
            pools += self.probes - 1  # small ones, which the method may not ask
        return pools * trainings_each(game) + self.probes * probe_trainings(game)


def choose_plan(
    game: Game, method: str | Method, options: Mapping[str, Any] | None, budget: int | None
) -> Plan:
    """What will run, by the game's own formula if it has one; refusals happen before payments.

    Probes for chance in training are inside the budget and at most a tenth of it. A method whose
    default is the least it needs has them beside a budget that nobody gave, and so has `exact`.
    """
    plan = _chosen_plan(game, method, options, budget)
    wanted = len(probe_pools(game))
    if plan.formula is not None or not wanted:
        return plan
    if plan.enumerates(game.n_players):
        room = wanted if budget is None else (budget - 2**game.n_players) // probe_trainings(game)
        return replace(plan, probes=max(0, min(wanted, room)))
    least = plan.method.least(game.n_players, plan.options)
    room = plan.budget // PROBED if budget is None else min(plan.budget // PROBED, budget - least)
    # every method asks the grand coalition, so that its own training is no addition
    each = 1 + probe_trainings(game)
    probes = min(wanted, (room + 1) // each)
    if probes < FEWEST_PROBES:
        return plan
    return replace(plan, probes=probes, budget=max(least, plan.budget - (each * probes - 1)))


def trainings_each(game: Game) -> int:
    """Trainings that a question costs; none where it is arithmetic and free."""
    return 0 if game.cheap and not is_scored(game) else limits_of(game).trainings


def _chosen_plan(
    game: Game, method: str | Method, options: Mapping[str, Any] | None, budget: int | None
) -> Plan:
    check_budget(budget)
    if method == AUTO:
        refuse_options_of_auto(options)
        return _by_game(game, budget)
    chosen = find(method)
    complete = chosen.complete(options)
    formula = game.closed_form(chosen.name, _wishes(chosen, complete))
    if formula is not None:
        notes = (*formula.notes, *not_shapley(complete.get("semivalue", SHAPLEY)))
        return _planned(chosen, game.n_players, options, formula=replace(formula, notes=notes))
    power, most = game.n_players, MOST_CHEAP if game.cheap else MOST_PAID
    if chosen.name == "exact" and budget is None and 2**power > most:
        meant = f"Pass budget={2**power} if you mean it, or" if power < PAYABLE else "Instead,"
        raise MethodNotApplicable(
            f"exact would ask all {all_coalitions(power)} coalitions; without a budget it stops "
            f"at {most:,} for a game of this kind. {meant} "
            f"choose among: {', '.join(name for name in coalition_methods() if name != 'exact')}."
        )
    return make_plan(method, game.n_players, game.fractions, options, budget)


def _by_game(game: Game, budget: int | None) -> Plan:
    """What `auto` takes for what the game can do, or else for what may be asked."""
    n = game.n_players
    formula = game.closed_form("exact")
    if formula is not None:
        reason = "auto: the game has a formula for its exact values."
        return _planned("exact", n, reason=reason, formula=formula)
    if game.cheap and budget is None and 1 < n <= MOST_FREE:
        reason = f"auto: evaluations of this game are free, so exact, by all {all_coalitions(n)}"
        return _planned("exact", n, reason=f"{reason} coalitions.")
    afforded = budget is None or budget >= (ENOUGH + 2) * (n + 1) + 2  # for intervals
    if n >= MANY and afforded and game.marginals() is not None:
        reason = (
            f"auto: {n:,} owners, whose marginals around a pool this game tells at once, so "
            "centres: everybody's marginal around some random pools."
        )
        return _planned("centres", n, budget=budget, reason=reason)
    return _by_budget(n, budget)


def _planned(
    method: str | Method,
    n_players: int,
    options: Mapping[str, Any] | None = None,
    *,
    budget: int | None = None,
    reason: str = "",
    formula: Estimate | None = None,
) -> Plan:
    """A method with complete options and its price; the reason is that of `auto`."""
    chosen = find(method)
    complete = chosen.complete(options)
    price = 0 if formula is not None else _price(chosen, complete, n_players, budget)
    label = f"{AUTO} → {chosen.name}" if reason else chosen.name
    return Plan(chosen, complete, price, label, reason, formula)


def _wishes(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options other than the defaults, a semivalue by the law of the chance of joining."""
    usual = method.complete(None)
    wishes = {name: option for name, option in options.items() if option != usual[name]}
    if "semivalue" in wishes:
        wishes["semivalue"] = chance_of_joining(wishes["semivalue"])
    return wishes


def make_plan(
    method: str | Method,
    n_players: int,
    fractions: Fractions,
    options: Mapping[str, Any] | None,
    budget: int | None,
) -> Plan:
    """Choose, check and price what will run; what needs no look at the game is refused here."""
    granted = check_budget(budget)
    if method == AUTO:
        refuse_options_of_auto(options)
        return _by_budget(n_players, granted)
    chosen = find(method)
    need = chosen.need(chosen.complete(options))
    if need == "coalitions" or (need == "fractions" and fractions != "none"):
        return _planned(chosen, n_players, options, budget=granted)
    others = ", ".join(name for name in coalition_methods() if name != chosen.name)
    refusals = {
        "fractions": "draws part of an owner's rows, but this game knows whole owners only: it was "
        "given sums or utilities, not rows. Use a method that asks for whole owners: "
        f"{others}.",
        # a game that has rows answers by its closed form and never comes here
        "rows": "needs the owners' rows and a test set with class labels as a game of nearest "
        f"neighbours (KNNGame), which this game is not. Choose among: {others}.",
        "formula": "asks no questions: it is computed from a game's own formula, and this game has "
        "none for it. It needs the owners' sizes and a curve of the pooled size (SizeGame, "
        "RegressogramGame); for any other game use du.",
    }
    raise MethodNotApplicable(f"{chosen.name} {refusals[need]}")


def _by_budget(n_players: int, budget: int | None) -> Plan:
    """What `auto` takes for what may be asked."""
    granted = 6 * n_players if budget is None else budget
    everyone = f"auto: all {all_coalitions(n_players)} coalitions"
    if 2**n_players <= granted * (STRETCH if budget is None else 1):
        fit = f"fit the budget of {granted:,}"
        if 2**n_players > granted:
            fit = f"are hardly more than the budget of {granted:,} that nobody chose"
        return _planned("exact", n_players, reason=f"{everyone} {fit}, so exact.")
    reason = (
        f"{everyone} exceed the budget of {granted:,}, so {FALLBACK}, which learns from the "
        "pools it asks and is the most accurate method at such budgets."
    )
    return _planned(FALLBACK, n_players, budget=granted, reason=reason)


def refuse_options_of_auto(options: Mapping[str, Any] | None) -> None:
    """Refuse options of a method that is still to be chosen."""
    if options:
        raise InvalidOption("auto takes no options; name the method whose options these are.")


def _price(method: Method, options: Mapping[str, Any], n_players: int, budget: int | None) -> int:
    if n_players == 1:
        least = default = 2  # ∅ and the only owner: every method has the same answer
    else:
        least, default = method.least(n_players, options), method.default(n_players, options)
    granted = max(default, least) if budget is None else budget
    if granted < least:
        others = [find(name) for name in coalition_methods() if name != CHANCE]
        costs = {other.name: other.least(n_players, other.complete(None)) for other in others}
        cheaper = [name for name, cost in costs.items() if cost <= granted]
        named = f": {', '.join(cheaper)}" if cheaper else ""
        raise BudgetTooSmall(
            f"{method.name} was given a budget of {granted:,} evaluations; for {n_players} owners "
            f"it needs at least {least if least < 2**40 else '2^40'}. Raise the budget or choose "
            f"a cheaper method{named}."
        )
    return granted


def all_coalitions(n_players: int) -> str:
    """The number of all coalitions, in words that stay short."""
    power = f"2^{n_players}"
    return power if n_players > 40 else f"{power} = {2**n_players:,}"


def probe_pools(game: Game) -> BoolArray:
    """Pools to train under two seeds where chance in training is unknown, shape (at most 7, I).

    The grand coalition, the four smallest owners alone and two pairs of them: a seed that breaks
    ties, as in trees, shows in small pools first; one that splits off rows for early stopping in
    large ones.
    """
    training = game.training
    if training is None or training.deterministic is not None or training.repeats > 1:
        return np.zeros((0, game.n_players), dtype=np.bool_)
    few = np.argsort(game.sizes, kind="stable")[:4].tolist()
    pairs = [few[:2], few[-2:]] if len(few) > 2 else []
    everyone = np.arange(game.n_players)
    members = [everyone, *([j] for j in few), *pairs]
    pools = np.array([np.isin(everyone, some) for some in members])
    return pools[: 1 if game.n_players == 1 else None]


def probe_trainings(game: Game) -> int:
    """Return trainings of a probe beside its pool's own; under limits a failed one is repeated."""
    return 2 if limits_of(game).any else 1


class Probes:
    """Trainings that show whether another seed would train other models.

    They are evaluations of `Game.reseeded`, each a task of its own, so that workers share them, and
    kept like any other. The one under the game's own seed also tells what the pool is worth.

    Parameters
    ----------
    game
        Has the pools.
    n_pools
        How many of them the budget allows.
    ledger
        Where trainings are kept, if anywhere.

    Attributes
    ----------
    voices
        What the model of each pool predicted, as a number, by seed; shape (2, pools).
    waiting
        Trainings that are not handed out yet: a place among the pools, and a seed.
    firsts
        Ordinary keys of pools whose training under the game's own seed is still to come.
    worth
        What pools are worth that were trained now, by their ordinary keys.
    """

    def __init__(self, game: Game, n_pools: int, ledger: Ledger | None) -> None:
        self.pools, self.training = probe_pools(game)[:n_pools], game.training
        self.own = game.keys(self.pools, None) if n_pools else []
        self.keys = [game.reseeded(seed).keys(self.pools, None) for seed in SEEDS if n_pools]
        found = [{} if ledger is None else ledger.read(keys) for keys in self.keys]
        stored = {key: outcome.value for known in found for key, outcome in known.items()}
        self.voices = np.array([[stored.get(key, np.inf) for key in keys] for keys in self.keys])
        self.waiting = deque(
            (place, seed)
            for place in range(len(self.pools))
            for seed in SEEDS
            if self.voices[seed, place] == np.inf
        )
        self.firsts = {self.own[place] for place, seed in self.waiting if seed == 0}
        self.worth: dict[bytes, Outcome] = {}
        self.n_failed, self.each = 0, trainings_each(game)

    def learn(self, place: int, seed: int, answers: Answers) -> dict[bytes, Outcome]:
        """Take in a training; what to keep of it, by key.

        Under limits a failure is not what the pool came to: predictions take time, too.
        """
        assert self.training is not None
        stands = self.training.on_failure == "empty" and not self.training.limits.any
        first, voice = answers[0], answers[len(answers) - 1]
        self.voices[seed, place] = voice.value
        kept = {self.keys[seed][place]: Outcome(voice.value, voice.failure)}
        if seed == 0:
            own = self.own[place]
            self.firsts.discard(own)
            if first.failure is None or stands:
                kept[own] = self.worth[own] = first
            else:
                self.n_failed += 1
        return kept

    @property
    def is_open(self) -> bool:
        """Whether trainings are still to come."""
        return bool((self.voices == np.inf).any())

    def n_trained(self, answered: Container[bytes]) -> int:
        """Trainings beside those of pools whose ordinary keys are answered."""
        own = [key for place, key in enumerate(self.own) if self.voices[0, place] != np.inf]
        again = int((self.voices[1:] != np.inf).sum())
        return again + self.n_failed + self.each * sum(key not in answered for key in own)

    def concluded(self) -> bool | None:
        """Whether no seed mattered; None where too few trainings could show it."""
        if not len(self.pools):
            return None
        pairs = self.voices[:, np.isfinite(self.voices).all(axis=0)]
        if (pairs[0] != pairs[1]).any():
            return False
        return True if pairs.shape[1] >= min(2, len(self.pools)) else None


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
            started = perf_counter()
            list(here.run(game, Listed([(pools, None, None)])))
            seconds.append((perf_counter() - started) / at_once)
    return float(np.mean(seconds[1:]))


def workers(n_jobs: int) -> int:
    """How many workers `n_jobs` asks for."""
    from joblib import cpu_count

    return int(cpu_count()) if n_jobs == -1 else n_jobs
